#!/bin/bash
# inside-pmem.sh ROUNDS TIME: the part of pmem.sh that runs inside the user-mode kernel.
rounds=$1 time=$2
. /run/scenarios/lib.sh
boot
ADDRESS=10.9.0.1 HOST=nqn.2026-01.io.sluicegate:client
ip link add rdma0 type dummy
ip link set rdma0 mtu 4200 up
ip addr add $ADDRESS/24 dev rdma0
rdma_device bench rdma0
TRANSPORT=rdma listener $ADDRESS:4420
TRANSPORT=tcp listener $ADDRESS:4420
subsystem $T1 any
# Both are files in memory, so that only the way to them differs.
namespace pmem /tmp/disk 64 4096
cat >>"$CONFIG" <<END
[pmem]
address = "$ADDRESS:4430"
capacity = 1000000
io_size = "1 MiB"

[[region]]
name = "log"
path = "/tmp/region"
size = "64 MiB"
create = true
hosts = ["$HOST"]
END
# A reactor has one of the two CPUs, the load the other one; the device, which is software, has what they
# leave.
sed -i 's/^cores.*/cores = [0]/' "$CONFIG"
/run/bin/sluiced --config "$CONFIG" >/run/sluiced.log 2>&1 &
# A CPU that has gone idle takes this kernel long to wake, longer than all that is measured. Two loops that run
# where nothing else wants to keep both awake, for all that is measured alike.
for cpu in 0 1; do
    chrt -i 0 taskset -c $cpu bash -c 'while :; do :; done' &
done
eventually 10 grep -q "regions are served" /run/sluiced.log || fail "$(cat /run/sluiced.log)"

# p50 WAY RW BS: measures once, and prints the median in us.
p50() {
    local way=(-a $ADDRESS:4420 -n $T1 --hostnqn $HOST)
    case $1 in
    one-sided) way+=(-t rdma --pmem log) ;;
    *) way+=(-t "$1") ;;
    esac
    /run/bin/sluice bench --json "${way[@]}" --time "$time" --warmup 200ms --core 1 --rw "rand$2" --bs "$3" --depth 1 \
        2>&1 | sed -n 's/.*"p50_ns": *\([0-9]*\).*/\1/p' | head -1 | perl -ne 'printf "%.1f\n", $_ / 1000'
}
echo "| load | one-sided RDMA, us | NVMe/RDMA, by one-sided | NVMe/TCP, by one-sided |"
echo "|---|---|---|---|"
for load in "read 4k" "write 4k" "read 64k" "write 64k"; do
    read -r rw bs <<<"$load"
    for way in one-sided rdma tcp; do : >/tmp/$way; done
    for _ in $(seq "$rounds"); do
        for way in one-sided rdma tcp; do
            had=$(p50 $way "$rw" "$bs")
            [ -n "$had" ] || fail "$way $load: $(tail -3 /run/sluiced.log)"
            echo "$had" >>/tmp/$way
        done
    done
    paste /tmp/one-sided /tmp/rdma /tmp/tcp | LOAD="$rw $bs" perl -ane '
        push @own, $F[0]; push @rdma, $F[1] / $F[0]; push @tcp, $F[2] / $F[0];
        sub m { my @s = sort { $a <=> $b } @_; ($s[$#s / 2], $s[0], $s[-1]) }
        END {
            printf "| %s | %.0f (%.0f to %.0f) | %.2f (%.2f to %.2f) | %.2f (%.2f to %.2f) |\n",
                $ENV{LOAD}, &m(@own), &m(@rdma), &m(@tcp)
        }'
done
pass
