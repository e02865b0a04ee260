#!/bin/bash
# Regions of persistent memory that the daemon grants (docs/research/sources.md, H: Haechi): a real kernel host asks
# by an admin command, clients use them by one-sided RDMA, reservations are kept beside clients that cheat,
# die and come back, and a grant ends with what it belongs to. The target's link is the capacity that they
# share; rates are compared with what it carried in the same boot.
# time: virtual
. /run/scenarios/lib.sh
boot
NODE=$TARGET_IP:4430
BENCH="timeout 120 /run/bin/sluice bench --blocking -a $TARGET_IP:4420 -t rdma -n $T1"
in_target tc qdisc add dev target0 root tbf rate 100mbit burst 128k limit 8m
# A host for each client: HOSTS[0] is the kernel's.
HOSTS=("$HOST_NQN" "$OTHER_NQN")
for n in 3 4 5 6; do HOSTS+=("nqn.2014-08.org.nvmexpress:uuid:5b0f4d9c-0000-4000-8000-00000000000$n"); done

# data_node CAPACITY: declares the data node.
data_node() {
    cat >>$CONFIG <<END
[pmem]
address = "$NODE"
capacity = $1
deviation = 0
interval = "10 ms"
batch = 4
clients = 32
END
}
# region NAME KEYS: declares a region that all hosts may use.
region() {
    {
        echo "[[region]]"
        echo "name = \"$1\""
        echo "hosts = [$(printf '"%s", ' "${HOSTS[@]}")]"
        printf '%b' "$2"
    } >>$CONFIG
}
# region_open: says whether the data node listens (regions have an `open` of their own, behind it).
region_open() { show | sed 's/"regions".*//' | grep -q '"open":true'; }
data_node_starts() {
    target_start
    eventually 15 region_open || fail "the data node: $(sluice pmem show) $(tail -5 /run/sluiced-$STARTS.log)"
}
# show: prints the state without spaces.
show() { sluice pmem show --json | tr -d ' \n'; }
clients() { [ "$(show | grep -o '"connected":true' | wc -l)" = "$1" ]; }
grants() { [ "$(show | grep -o '"connected":' | wc -l)" = "$1" ]; }

listener $TARGET_IP:4420
subsystem $T1 any
namespace null 64 4096
cp $CONFIG /tmp/base.toml
data_node 100000
region log 'size = "4 MiB"\nreserve = 100000\n'
region disk 'path = "/tmp/region"\nsize = "8 MiB"\ncreate = true\nreserve = 0\n'
region seen 'size = "1 MiB"\nread_only = true\n'
data_node_starts

step "the kernel's host asks for a region, and a program uses it"
connect $T1
device=/dev/$(controller $T1)
# ask FILE ARGUMENTS...: asks through the kernel's host, by the command that sluice prints.
ask() {
    local file=$1 line
    shift
    line=$(/run/bin/sluice pmem command --device "$device" "$@" | sed 's/ *>.*//') || fail "pmem command"
    # shellcheck disable=SC2086
    timeout 20 $line >"$file" 2>/tmp/ask.err || return 1
    [ "$(stat -c %s "$file")" = 128 ] || fail "the answer has $(stat -c %s "$file") bytes"
}
pmem() { timeout 60 /run/bin/sluice pmem "$@"; }
ask /tmp/grant disk --rights read-write || fail "$(cat /tmp/ask.err)"
head -c 3000001 /dev/urandom >/tmp/data
pmem write disk --grant /tmp/grant --offset 5B </tmp/data || fail "pmem write"
pmem read disk --grant /tmp/grant --offset 5B --length 3000001B >/tmp/back || fail "pmem read"
cmp /tmp/data /tmp/back || fail "other data came back"
cmp -n 3000001 -i 5:0 /tmp/region /tmp/data || fail "the file has other data"
grants 1 || fail "$(show)"

step "what a host may not have is refused, and it learns no more than it must"
refuse "a region that is not there" ask /tmp/none nowhere
contains "the refusal" "$(cat /tmp/ask.err)" "4?1c0|0x1c0"
refuse "a right that a region does not give" ask /tmp/none seen --rights read-write
refuse "a reservation beyond what the region lets a host have" ask /tmp/none disk --reserve 1
out=$(pmem read log -a $TARGET_IP:4420 -t rdma -n $T1 --hostnqn "nqn.2026-01.io.sluicegate:stranger" 2>&1 >/dev/null) &&
    fail "a stranger has read"
contains "the stranger's refusal" "$out" "does not grant the region"
out=$(pmem read log -a $TARGET_IP:4420 -t rdma -n $T1 --hostnqn "${HOSTS[2]}" --reserve 200000 2>&1 >/dev/null) &&
    fail "more was reserved than there is"
contains "the refusal of a reservation" "$out" "100000"
dd if=/tmp/grant of=/tmp/wrong bs=1 count=128 status=none
printf '\0' | dd of=/tmp/wrong bs=1 seek=30 conv=notrunc status=none
cmp -s /tmp/grant /tmp/wrong || refuse "another secret" pmem read disk --grant /tmp/wrong --length 8B
refuse "a region that is another's" pmem read log --grant /tmp/grant --length 8B
refuse "an I/O larger than a token permits" pmem write disk --grant /tmp/grant --bs 64k </tmp/data
refuse "a place behind the end" pmem read disk --grant /tmp/grant --offset 8388600B --length 16B

step "a grant ends with its controller"
disconnect $T1
eventually 5 grants 0 || fail "$(show)"
refuse "a grant of a controller that is gone" pmem read disk --grant /tmp/grant --length 8B

step "the link's capacity, without tokens"
bare() { $BENCH --hostnqn "${HOSTS[$1]}" --pmem log --bare --bs 4k --depth 4 --warmup 1s --time 4s --json; }
clients_of_load=()
for n in 2 3 4 5; do
    bare $n >"/tmp/bare-$n" 2>&1 &
    clients_of_load+=($!)
done
eventually 5 clients 4 || fail "$(show) $(cat /tmp/bare-?)"
profile=$(sluice pmem profile --periods 3 --json) || fail "pmem profile"
wait "${clients_of_load[@]}" || fail "$(cat /tmp/bare-?)"
iops() { sed -n 's/.*"iops": *\([0-9]*\).*/\1/p' "$1" | head -1; }
capacity=0
for n in 2 3 4 5; do
    [ -n "$(iops "/tmp/bare-$n")" ] || fail "client $n: $(cat "/tmp/bare-$n")"
    capacity=$((capacity + $(iops "/tmp/bare-$n")))
done
measured=$(sed -n 's/.*"capacity": *\([0-9]*\).*/\1/p' <<<"$profile")
echo "the daemon has measured $(tr -d ' \n' <<<"$profile")"
perl -e 'exit abs($ARGV[0] / $ARGV[1] - 1) > 0.01' "$measured" "$capacity" ||
    fail "the clients did $capacity I/Os in a second, the daemon has counted $profile"
refuse "to measure without clients" sluice pmem profile
echo "the link carries $capacity I/Os in a second; each client had $(for n in 2 3 4 5; do iops "/tmp/bare-$n"; done | paste -sd' ')"

step "with the measured capacity, after a restart, the regions are as they were"
expect "region add" sluice region add late --size 64KiB --host "${HOSTS[1]}"
target_stop || fail "the daemon's end"
cp /tmp/base.toml $CONFIG
data_node $((capacity * 70 / 100))
region log "size = \"4 MiB\"\nreserve = $((capacity * 70 / 100))\n"
region disk 'path = "/tmp/region"\nsize = "8 MiB"\ncreate = true\nreserve = 0\n'
data_node_starts
contains "regions" "$(show)" '"name":"late"'
expect "region remove" sluice region remove late
lacks "regions" "$(show)" '"name":"late"'
cmp -n 3000001 -i 5:0 /tmp/region /tmp/data || fail "the file has other data after a restart"

# All hosts but the kernel's.
OTHERS=()
for n in 1 2 3 4 5; do OTHERS+=(--host "${HOSTS[n]}"); done
# load NUMBER PERCENT SECONDS: reads as fast as it may, with that part of the capacity reserved.
load() {
    $BENCH --hostnqn "${HOSTS[$1]}" --pmem log --reserve $((capacity * $2 / 100)) --bs 4k --depth 4 --best-effort 1 \
        --warmup 2s --time "$3s" --json >"/tmp/load-$1" 2>&1
}
# kept NUMBER: says whether 99 % of the reservation were had in each whole period.
kept() {
    perl -0777 -ne '
        my @rows = /"period": *(\d+),\s*"reserved": *(\d+),\s*"had": *(\d+)/g;
        my ($all, $bad, $of, @had) = (0, 0, 0);
        while (my ($period, $reserved, $had) = splice @rows, 0, 3) {
            $all++; $bad++ if $had < 0.99 * $reserved;
            push @had, $had; $of = $reserved;
        }
        print "$all periods, $bad missed, of $of had @had\n"; exit($all < 3 || $bad > 0);' "/tmp/load-$1"
}
# Percent of the capacity that each client has reserved: without tokens each has 25.
RESERVED=("" "" 36 14 5 5)
# loads WHAT SECONDS COMMAND: these four clients read, while a command runs, and their reservations are kept.
loads() {
    local n verdict="" seconds=$2
    clients_of_load=()
    for n in 2 3 4 5; do
        load $n "${RESERVED[n]}" $seconds &
        clients_of_load+=($!)
    done
    sleep 4
    "${@:3}"
    wait "${clients_of_load[@]}" || fail "$(cat /tmp/load-?)"
    for n in 2 3 4 5; do
        kept $n >"/tmp/kept-$n" || verdict+=" client $n: $(cat "/tmp/kept-$n")"
    done
    for n in 2 3 4 5; do echo "    $1, client $n: $(cat "/tmp/kept-$n")"; done
    [ -n "$verdict" ] || return 0
    fail "$1:$verdict $(tail -5 "/tmp/load-2") $(grep monitor /run/sluiced-$STARTS.log | tail -5)"
}
step "reservations are kept in every period"
loads "nothing happens" 6 true

step "a client that dies, and one whose right is taken away, hurt nobody"
dies() {
    expect "region set" sluice region set log --host "${HOSTS[0]}" "${OTHERS[@]}"
    $BENCH --hostnqn "${HOSTS[1]}" --pmem log --bs 4k --depth 4 --time 60s >/tmp/dies 2>&1 &
    eventually 10 clients 5 || fail "$(show) $(cat /tmp/dies)"
    pkill -9 -f "hostnqn ${HOSTS[1]}"
    eventually 10 clients 4 || fail "$(show)"
    eventually 30 grants 4 || fail "a client that died keeps its grant: $(show)"
    (exec $BENCH --hostnqn "${HOSTS[0]}" --pmem log --bs 4k --depth 4 --time 60s >/tmp/revoked 2>&1) &
    eventually 10 clients 5 || fail "$(show) $(cat /tmp/revoked)"
    expect "region set" sluice region set log --force "${OTHERS[@]}"
    eventually 5 clients 4 || fail "$(show)"
    eventually 10 grep -qi "ended\|refuse" /tmp/revoked || fail "the client learns nothing: $(cat /tmp/revoked)"
}
loads "clients come and go" 10 dies
eventually 10 grants 0 || fail "$(show)"

step "a client without tokens is evicted, and its host gets no grant until the regions change"
expect "region set" sluice region set log --host "${HOSTS[0]}" "${OTHERS[@]}"
load 2 36 8 &
honest=$!
eventually 10 clients 1 || fail "$(show) $(cat /tmp/load-2)"
(exec $BENCH --hostnqn "${HOSTS[1]}" --pmem log --bare --bs 4k --depth 16 --time 60s >/tmp/cheat 2>&1) &
evicted() { show | grep -q "\"evicted\":\[{\"host\":\"${HOSTS[1]}\""; }
eventually 8 evicted || fail "$(show) $(cat /tmp/cheat)"
eventually 5 clients 1 || fail "$(show)"
eventually 10 grep -qi "ended\|refuse" /tmp/cheat || fail "the client learns nothing: $(cat /tmp/cheat)"
contains "the daemon's messages" "$(cat /run/sluiced-$STARTS.log)" "a client was evicted, since it sends I/Os without tokens"
contains "what is shown" "$(sluice pmem show)" "${HOSTS[1]} gets no grant for [0-9]+ s"
seen_again() { pmem read log -a $TARGET_IP:4420 -t rdma -n $T1 --hostnqn "${HOSTS[1]}" --length 8B >/dev/null; }
refuse "the host of an evicted client" seen_again
wait $honest || fail "the other client: $(cat /tmp/load-2)"
expect "region set" sluice region set log --host "${HOSTS[0]}" "${OTHERS[@]}"
seen_again || fail "the host gets no grant after the regions changed"

step "a region grows under its clients, and shrinks"
expect "region set" sluice region set disk --size 16MiB
connect $T1
ask /tmp/grant disk --rights read-write || fail "$(cat /tmp/ask.err)"
pmem write disk --grant /tmp/grant --offset 12582912B </tmp/data || fail "a write behind the old end"
(exec $BENCH --hostnqn "${HOSTS[1]}" --pmem disk --bs 4k --depth 4 --time 60s >/tmp/shrunk 2>&1) &
eventually 10 clients 1 || fail "$(show) $(cat /tmp/shrunk)"
refuse "to shrink it below a client without force" sluice region set disk --size 8MiB
clients 1 || fail "$(show)"
expect "region set" sluice region set disk --size 8MiB --force
eventually 10 grep -qi "ended\|refuse" /tmp/shrunk || fail "the client learns nothing: $(cat /tmp/shrunk)"
refuse "the grant of before" pmem read disk --grant /tmp/grant --length 8B
ask /tmp/grant disk --rights read || fail "$(cat /tmp/ask.err)"
pmem read disk --grant /tmp/grant --offset 5B --length 3000001B >/tmp/back || fail "pmem read"
cmp /tmp/data /tmp/back || fail "other data after it grew and shrank"

step "what was written survives kill -9"
ask /tmp/grant disk --rights read-write || fail "$(cat /tmp/ask.err)"
head -c 4194304 /dev/urandom >/tmp/data
pmem write disk --grant /tmp/grant </tmp/data || fail "pmem write"
target_kill
data_node_starts
eventually 30 controller_live $T1 || fail "the host does not come back"
ask /tmp/grant disk || fail "$(cat /tmp/ask.err)"
pmem read disk --grant /tmp/grant --length 4194304B >/tmp/back || fail "pmem read"
cmp /tmp/data /tmp/back || fail "other data after kill -9"
disconnect $T1

step "a device that goes away and comes back"
in_target rdma link del rdma_target
closed() { ! region_open; }
eventually 10 closed || fail "$(sluice pmem show)"
in_target rdma link add rdma_target type rxe netdev target0
eventually 15 region_open || fail "$(sluice pmem show)"
# The listener opens again by itself, some time after the data node.
read_again() {
    pmem read disk -a $TARGET_IP:4420 -t rdma -n $T1 --hostnqn "${HOSTS[1]}" --length 4194304B >/tmp/back
}
eventually 10 read_again || fail "pmem read after the device came back: $(read_again 2>&1)"
cmp /tmp/data /tmp/back || fail "other data after the device came back"
pass
