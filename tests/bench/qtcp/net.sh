# A network of three namespaces: senders in s, a router r, sinks in c; the bottleneck is what the
# router sends to c. Sourced as root, in this kernel or in a user-mode one.
#   net_up            makes it; NS is what the namespaces' names begin with
#   bottleneck_bpf    RATE (Mbit/s) behind an exact marker above THRESHOLD bytes (any kernel with BPF)
#   bottleneck_red    the same with red (kernels that have it)
#   queue_watch FILE  writes the queue's bytes ten times a second
#   net_down          removes it all
NS=${NS:-qtcp$$} RATE=${RATE:-200} THRESHOLD=${THRESHOLD:-60000}
SENDER=10.91.2.2 SINK=10.91.1.2

net_up() {
    local n device
    for n in c r s; do
        ip netns add $NS$n
        ip -n $NS$n link set lo up
    done
    ip -n ${NS}c link add c0 type veth peer name rc netns ${NS}r
    ip -n ${NS}s link add s0 type veth peer name rs netns ${NS}r
    ip -n ${NS}c addr add $SINK/24 dev c0
    ip -n ${NS}r addr add 10.91.1.1/24 dev rc
    ip -n ${NS}r addr add 10.91.2.1/24 dev rs
    ip -n ${NS}s addr add $SENDER/24 dev s0
    for device in "c c0" "r rc" "r rs" "s s0"; do
        set -- $device
        # A switch sees packets, not what a network card would cut into packets.
        ip netns exec $NS$1 ethtool -K $2 tso off gso off gro off >/dev/null 2>&1
        ip -n $NS$1 link set $2 up
    done
    ip -n ${NS}c route add default via 10.91.1.1
    ip -n ${NS}s route add default via 10.91.2.1
    ip netns exec ${NS}r sysctl -qw net.ipv4.ip_forward=1
    for n in c s; do ip netns exec $NS$n sysctl -qw net.ipv4.tcp_ecn=1; done
}

# le64 NUMBER...: prints numbers as bytes, for bpftool.
le64() { python3 -c 'import struct, sys; print(*struct.pack("<%dQ" % (len(sys.argv) - 1), *map(int, sys.argv[1:])))' "$@"; }

bottleneck_bpf() {
    local here=${BASH_SOURCE[0]%/*}
    # No dots in the path: bpftool would make them underscores.
    BPF=$(mktemp -d -p /tmp qtcpXXXXXX)
    clang -O2 -g -target bpf -I/usr/include/"$(uname -m)"-linux-gnu -c "$here/marker.bpf.c" -o "$BPF/marker.o"
    mkdir "$BPF/fs"
    mount -t bpf bpf "$BPF/fs"
    mkdir "$BPF/fs/maps"
    bpftool prog loadall "$BPF/marker.o" "$BPF/fs/programs" type classifier pinmaps "$BPF/fs/maps"
    bpftool map update pinned "$BPF/fs/maps/queue" key 0 0 0 0 value $(le64 "$THRESHOLD" 0 0 0 0)
    tc -n ${NS}r qdisc add dev rc root tbf rate "${RATE}mbit" burst 16k limit 4M
    tc -n ${NS}r qdisc add dev rc clsact
    tc -n ${NS}c qdisc add dev c0 clsact
    # Not ip netns exec: it hides the file system that the programs are in.
    nsenter --net=/run/netns/${NS}c tc filter add dev c0 ingress bpf da pinned "$BPF/fs/programs/leave"
    nsenter --net=/run/netns/${NS}r tc filter add dev rc egress bpf da pinned "$BPF/fs/programs/enter"
}

bottleneck_red() {
    tc -n ${NS}r qdisc add dev rc root handle 1: htb default 1
    tc -n ${NS}r class add dev rc parent 1: classid 1:1 htb rate "${RATE}mbit" burst "${BURST:-15k}" cburst "${BURST:-15k}"
    tc -n ${NS}r qdisc add dev rc parent 1:1 handle 10: red limit 4000000 min "$THRESHOLD" \
        max $((THRESHOLD + 1)) avpkt 1500 burst $((THRESHOLD / 1500 + 2)) probability 1 \
        bandwidth "${RATE}mbit" ecn nodrop
}

queue_watch() {
    while :; do
        # The last of a qdisc and its children says what waits.
        tc -n ${NS}r -s qdisc show dev rc | sed -n 's/^ *backlog \([0-9]*\)\([KM]\{0,1\}\)b .*/\1 \2/p' |
            awk '{ bytes = $1 * ($2 == "K" ? 1024 : $2 == "M" ? 1048576 : 1) } bytes > most { most = bytes }
                END { print most + 0 }'
        sleep 0.1
    done >"$1"
}

net_down() {
    local n
    for n in c r s; do ip netns del $NS$n 2>/dev/null; done
    if [ -n "${BPF:-}" ]; then
        umount "$BPF/fs" 2>/dev/null
        rm -rf "$BPF"
    fi
}
