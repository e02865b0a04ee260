# What the scenarios of the network's part in quality of service share, beside qos-lib.sh: a target
# and three hosts with a link between them that is slower than what they ask for. Its routers mark
# packets (ECN) that come while more than a threshold waits, as the switches of a data centre do.
#
#     target 10.0.0.1 -- r == link == r2 -- h1 10.1.1.2
#                                        -- h2 10.1.2.2
#                                        -- h3 10.1.3.2
#
# Such a scenario runs on virtual time: hosts, routers and the target take no time to compute, so that the
# link is the bottleneck whatever its rate, and each packet leaves when it is due.
# shellcheck shell=bash
# shellcheck disable=SC2016 # the expressions in single quotes are perl's
. /run/scenarios/qos-lib.sh

# LINK: the link's rate in Mbit/s. MTU: the bytes of the largest packet; data centres use jumbo frames for
# storage. THRESHOLD: the bytes that wait before a router marks. DELAY: the time that each packet of a host is
# under way besides, or empty: with next to none, a window's packets come to the link all at once.
LINK=${LINK:-1000} MTU=${MTU:-9000}
THRESHOLD=${THRESHOLD:-$((LINK * 300))} DELAY=${DELAY-1ms}
# RDMA_HOSTS: the hosts that use RDMA, on soft RoCE; the others use TCP. The kernel's NVMe/RDMA host knows
# the first network namespace alone: the wires of these hosts end there, as wire1, wire2 and wire3, and the
# target has an address for each of them, 10.0.0.11 to 10.0.0.13, by which its packets find their wire.
if over rdma; then RDMA_HOSTS=${RDMA_HOSTS-1 2 3}; else RDMA_HOSTS=''; fi
# The names of each host; the first element is no host's.
NQNS=('' "$HOST_NQN" "$OTHER_NQN" "$HOST3_NQN")
IDS=('' "$HOST_ID" "$OTHER_ID" "$HOST3_ID")

# network: makes the network; boot calls it in place of lib.sh's.
network() {
    local n
    ip link set lo up
    # Namespaces made from now on begin with it. A socket that listens needs it before SYNs come.
    echo dctcp >/proc/sys/net/ipv4/tcp_congestion_control
    [ -z "$RDMA_HOSTS" ] || ip netns attach first $$
    for n in target r r2 h1 h2 h3; do
        ip netns add $n
        ip -n $n link set lo up
        inside $n sh -c 'cd /proc/sys/net/ipv4; echo 1 >tcp_ecn; echo 1 >tcp_no_metrics_save'
    done
    cable target wire 10.0.0.1/24 r target 10.0.0.254/24
    cable r wire 10.9.0.1/24 r2 wire 10.9.0.2/24
    for n in 1 2 3; do
        cable r2 host$n 10.1.$n.1/24 "$(home $n)" "$(wire $n)" 10.1.$n.2/24
        if is_rdma $n; then
            ip -n target addr add "$(target_of $n)/24" dev wire
            ip route add "$(target_of $n)" via 10.1.$n.1 dev wire$n
            rdma_device h$n wire$n
        else
            ip -n h$n route add default via 10.1.$n.1
        fi
        [ -z "$DELAY" ] || inside "$(home $n)" tc qdisc add dev "$(wire $n)" root netem delay "$DELAY" limit 10000
    done
    [ -z "$RDMA_HOSTS" ] || in_target rdma link add rdma_target type rxe netdev wire
    ip -n target route add default via 10.0.0.254
    ip -n r route add 10.1.0.0/16 via 10.9.0.2
    ip -n r2 route add default via 10.9.0.1
    for n in r r2; do
        inside $n sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
        slow_link $n
    done
}

# is_rdma HOST: says whether the host uses RDMA.
is_rdma() { [[ " $RDMA_HOSTS " = *" $1 "* ]]; }

# home HOST, wire HOST: print the network namespace of the host, and its device there.
home() { if is_rdma "$1"; then echo first; else echo "h$1"; fi; }
wire() { if is_rdma "$1"; then echo "wire$1"; else echo wire; fi; }

# target_of HOST: prints the address that the host knows the target by.
target_of() { if is_rdma "$1"; then echo "10.0.0.1$1"; else echo $TARGET_IP; fi; }

# inside NAMESPACE COMMAND...: runs a command in a network namespace.
inside() {
    local namespace=$1
    shift
    nsenter --net="/run/netns/$namespace" "$@"
}

# cable NAMESPACE DEVICE ADDRESS NAMESPACE DEVICE ADDRESS: joins two network namespaces.
cable() {
    ip link add "$2" netns "$1" type veth peer name "$5" netns "$4"
    ip -n "$1" addr add "$3" dev "$2"
    ip -n "$4" addr add "$6" dev "$5"
    # A packet is what a switch sees: a sender's batches would be marked, and wait, as a whole.
    ip -n "$1" link set "$2" mtu "$MTU" gso_max_segs 1 up
    ip -n "$4" link set "$5" mtu "$MTU" gso_max_segs 1 up
}

# slow_link ROUTER: makes the bottleneck in the direction in which the router sends.
slow_link() {
    inside "$1" tc qdisc add dev wire root handle 1: htb default 1 r2q 10000
    inside "$1" tc class add dev wire parent 1: classid 1:1 htb rate "${LINK}mbit" \
        burst "${BURST:-$((MTU * 2))}" cburst "${BURST:-$((MTU * 2))}"
    marking_queue "$1" 1:1 10:
}

# marking_queue ROUTER PARENT HANDLE: adds a queue that marks packets while more than THRESHOLD waits.
marking_queue() {
    local red=(limit $((THRESHOLD * 10)) min "$THRESHOLD" max $((THRESHOLD + 1)) avpkt "$MTU" probability 1)
    # Red's average is that of the last two packets.
    red+=(burst $((THRESHOLD / MTU + 1)) bandwidth "${LINK}mbit" ecn nodrop)
    inside "$1" tc qdisc add dev wire parent "$2" handle "$3" red "${red[@]}"
}

# three_hosts CLASS CLASS CLASS: starts a target with a listener for each (ports 4420, 4421, 4422) and
# a namespace; connects host 1, 2 and 3 to them; their disks are DISKS[1] and so on. The network's
# part is off: kernel's dctcp alone, on both sides.
three_hosts() {
    local port=4420 class host
    printf '[network]\nenabled = false\n' | configure
    for class in "$@"; do
        host=$((port - 4419))
        TRANSPORT=$(transport_of $host) listener "$(target_of $host):$port"
        echo "class = \"$class\"" | configure
        port=$((port + 1))
    done
    subsystem $T1 any
    namespace null 65536 4096
    TRANSPORT=$(transport_of 1) TARGET_IP=$(target_of 1) target_start
    DISKS=('')
    for host in 1 2 3; do DISKS+=("/dev/$(attach_from $host $((4419 + host)))n1"); done
}

# transport_of HOST: prints the transport that the host uses.
transport_of() { if is_rdma "$1"; then echo rdma; else echo tcp; fi; }

# listener_of HOST: prints the name of the listener that the host connects to.
listener_of() { TRANSPORT=$(transport_of "$1") endpoint "$(target_of "$1"):$((4419 + $1))"; }

# hosts_are dctcp|cubic|as-they-come: sets what the hosts run: dctcp; cubic, and ask for ECN; or cubic
# without asking, as Linux does by itself, so that the link drops what would be too much.
hosts_are() {
    local host congestion=cubic ecn=1
    case $1 in
    dctcp | beside-tcp) congestion=dctcp ;;
    as-they-come) ecn=2 ;;
    esac
    for host in 1 2 3; do
        inside h$host sh -c "cd /proc/sys/net/ipv4; echo $congestion >tcp_congestion_control; echo $ecn >tcp_ecn"
    done
}

# network_qos ARGUMENTS...: runs `sluice qos network`.
network_qos() { expect "the network's part" sluice qos network "$@"; }

# flow HOST out|in KEY: prints a value of the host's I/O connection, as the daemon sees it.
flow() {
    sluice connections --json >/tmp/connections.json
    HOST=${NQNS[$1]} WAY=$2 KEY=$3 perl -MJSON::PP -0777 -ne '
        my ($c) = grep { $_->{host} eq $ENV{HOST} && $_->{queue} } @{decode_json($_)};
        my $value = $c->{network}{$ENV{WAY}}{$ENV{KEY}};
        print defined $value ? "$value\n" : "null\n"' /tmp/connections.json
}

# attach_from HOST PORT [NVME_CONNECT_ARGUMENTS...]: connects as attach does, over host HOST's network.
attach_from() {
    local host=$1 port=$2
    shift 2
    TRANSPORT=$(transport_of "$host") TARGET_IP=$(target_of "$host") CONNECT_FROM=$(home "$host") attach "$port" -q "${NQNS[host]}" -I "${IDS[host]}" -i 1 ${CONNECT_MORE:-} "$@"
}

# --- what the link saw --------------------------------------------------------------------------

# watch_link NAME [SECONDS]: until killed, every 0.2 s or as often as it says: the time, the bytes
# that host 1, 2, 3 got and sent, and, unless a time was given, packets, marks and bytes waiting of
# either direction. The process is in $!.
watch_link() {
    # Not `inside`: what is killed in the end must be perl itself.
    EVERY=${2:-0.2} QUEUES=$(($# == 1)) nsenter --net=/run/netns/r2 perl -MTime::HiRes=time,sleep -e '
        $| = 1;
        sub queue { `nsenter --net=/run/netns/$_[0] tc -s -j qdisc show dev wire` =~
            /"red".*?"packets":(\d+).*?"backlog":(\d+).*?"marked":(\d+)/s or die; ($1, $3, $2) }
        for (my $at = time; ; $at += $ENV{EVERY}) {
            my $left = $at - time;
            sleep $left if $left > 0;
            my $now = time;
            open my $dev, "<", "/proc/thread-self/net/dev" or die;
            my %bytes = map { /^\s*host(\d):\s*(.*)/ ? ($1 => [(split " ", $2)[8, 0]]) : () } <$dev>;
            print join(" ", $now, (map { @{$bytes{$_}} } 1 .. 3), $ENV{QUEUES} ? (queue("r"), queue("r2")) : ()), "\n";
        }' >"/tmp/$1.link" &
}

# link_bytes read|write: prints the bytes that host 1, 2, 3 got (or sent) until now, headers included,
# and the time in seconds.
link_bytes() {
    WAY=$1 inside r2 perl -MTime::HiRes=time -ne '
        /^\s*host\d:\s*(.*)/ and print((split " ", $1)[$ENV{WAY} eq "write" ? 0 : 8], " ");
        END { print time }' /proc/thread-self/net/dev
}

# link_windows NAME read|write SECONDS [FROM]: prints what the hosts got (or sent) in windows of
# SECONDS, a line for each: its end in seconds since FROM (or the first sample), and Mbit/s of host
# 1, 2, 3, with all headers.
link_windows() {
    WAY=$2 WIDTH=$3 FROM=${4:-} perl -ane '
        my @n = @F[map { 2 * $_ + ($ENV{WAY} eq "write") } 0.5, 1.5, 2.5];
        $from ||= $ENV{FROM} || $F[0];
        next if $F[0] < $from;
        if ($begin && $F[0] - $begin->[0] >= $ENV{WIDTH} - 0.02) {
            my $time = $F[0] - $begin->[0];
            printf "%.2f %.2f %.2f %.2f\n", $F[0] - $from, map { ($n[$_] - $begin->[1][$_]) * 8e-6 / $time } 0 .. 2;
            undef $begin;
        }
        $begin ||= [$F[0], [@n]];' "/tmp/$1.link"
}

# link_settles NAME read|write HOST starts|stops TOLERANCE WEIGHT1 WEIGHT2 WEIGHT3: prints the seconds
# from the time at which HOST began (or ceased) to transfer until a second began in which each host had
# its share of what the link carries, within TOLERANCE per cent of that share; or `never`.
link_settles() {
    WAY=$2 HOST=$3 EVENT=$4 TOLERANCE=$5 WEIGHTS="${*:6:3}" perl -ane '
        push @seen, [$F[0], @F[map { 2 * $_ + 1 + ($ENV{WAY} eq "write") } 0 .. 2]];
        END {
            my @weights = split " ", $ENV{WEIGHTS};
            my ($all, $window) = (0, 20); # in samples of 0.05 s
            $all += $_ for @weights;
            # The rates in windows, and the time at which each begins.
            my @rates = map {
                my ($first, $last) = @seen[$_, $_ + $window];
                [$first->[0], map { ($last->[$_] - $first->[$_]) / ($last->[0] - $first->[0]) } 1 .. 3]
            } 0 .. $#seen - $window;
            my @totals = sort { $a <=> $b } map { $_->[1] + $_->[2] + $_->[3] } @rates;
            my $carries = $totals[@totals / 2];
            my @busy = grep { $seen[$_ + 1][$ENV{HOST}] - $seen[$_][$ENV{HOST}] > 20_000 } 0 .. $#seen - 1;
            my $event = $ENV{EVENT} eq "starts" ? $busy[0] : $busy[-1] + 1;
            for my $rate (@rates[$event .. $#rates]) {
                my @off = grep {
                    my $want = $carries * $weights[$_ - 1] / $all;
                    abs($rate->[$_] - $want) > $want * $ENV{TOLERANCE} / 100
                } grep { $weights[$_ - 1] } 1 .. 3;
                next if @off;
                printf "%.2f s\n", $rate->[0] - $seen[$event][0];
                exit;
            }
            print "never\n";
        }' "/tmp/$1.link"
}

# link_marks NAME read|write: prints the per cent of the packets that were marked, and the mean of the
# bytes that waited.
link_marks() {
    WAY=$2 perl -ane '
        my ($packets, $marks, $queue) = @F[$ENV{WAY} eq "write" ? (10 .. 12) : (7 .. 9)];
        $first ||= [$packets, $marks];
        $last = [$packets, $marks];
        $sum += $queue, $n++;
        END { printf "%.1f %.0f\n", 100 * ($last->[1] - $first->[1]) / ($last->[0] - $first->[0] || 1), $sum / ($n || 1) }
        ' "/tmp/$1.link"
}

# --- tables -------------------------------------------------------------------------------------

# mbits NAME JOB KIB: prints the Mbit/s of payload that a job of fio had, with commands of KIB.
mbits() { fio_got "$1" "$2" | KIB=$3 perl -ane 'printf "%.2f\n", $F[0] * $ENV{KIB} * 8192 / 1e6'; }

# link_shares NAME read|write TOLERANCE "WHO WEIGHT HOST MBITS"...: prints configured and seen shares,
# with the least and the most that the host had in a second; fails (not the scenario) where a share
# is off by more than TOLERANCE per cent of itself. The total is in TOTAL.
link_shares() {
    local name=$1 way=$2 tolerance=$3 marks queue code=0
    shift 3
    read -r marks queue <<<"$(link_marks "$name" "$way")"
    link_windows "$name" "$way" 1 >/tmp/windows
    printf '%s\n' "$@" | TOLERANCE=$tolerance perl -ane '
        push @rows, [@F];
        $weights += $F[1], $all += $F[3];
        END {
            my %of;
            open my $windows, "<", "/tmp/windows" or die;
            while (<$windows>) { my (undef, @n) = split; push @{$of{$_ + 1}}, $n[$_] for 0 .. 2 }
            printf "    %-20s %8s %11s %9s %8s   %s\n", "who", "Mbit/s", "configured", "seen", "error", "seen in each second";
            for (@rows) {
                my ($who, $weight, $host, $got) = @$_;
                my ($want, $have) = ($weight / $weights, $all ? $got / $all : 0);
                my $error = 100 * ($have - $want) / $want;
                my @each = sort { $a <=> $b } @{$of{$host}};
                printf "    %-20s %8.1f %9.2f %% %7.2f %% %6.2f %%   %.0f to %.0f\n", $who, $got, 100 * $want,
                    100 * $have, $error, @each[0, -1];
                $bad = 1 if abs($error) > $ENV{TOLERANCE};
            }
            exit $bad;
        }' || code=1
    TOTAL=$(printf '%s\n' "$@" | perl -ane '$all += $F[3]; END { printf "%.2f", $all }')
    printf '    %-20s %8.1f   (marked %s %% of packets, %s bytes waiting on average)\n' together "$TOTAL" "$marks" "$queue"
    return $code
}
