#!/bin/bash
# inside-rdma.sh ROUNDS TIME: the part of rdma.sh that runs inside the user-mode kernel.
rounds=$1 time=$2
declare -A WRITE=([read]='' [write]=--write)
. /run/scenarios/lib.sh
boot
# The kernel's target listens in the first network namespace alone, so that all are there, on one device.
ADDRESS=10.9.0.1
ip link add rdma0 type dummy
ip link set rdma0 mtu 4200 up
ip addr add $ADDRESS/24 dev rdma0
rdma_device bench rdma0
TRANSPORT=rdma listener $ADDRESS:4420
subsystem $T1 any
namespace null 1024 4096
# A reactor has one of the two CPUs, the load the other one; the device, which is software, has what they
# leave. The reactor polls as the host and both ends of the floor do: by default it would sleep after 50 us,
# less than a command takes here.
sed -i 's/^cores.*/cores = [0]\npoll = "always"/' "$CONFIG"
/run/bin/sluiced --config "$CONFIG" >/run/sluiced.log 2>&1 &
daemon=$!
# A CPU that has gone idle takes this kernel long to wake, longer than all that is measured. Two loops that run
# where nothing else wants to keep both awake, for all that is measured alike.
for cpu in 0 1; do
    chrt -i 0 taskset -c $cpu bash -c 'while :; do :; done' &
done
eventually 10 grep -q serving /run/sluiced.log || fail "$(cat /run/sluiced.log)"

dir=/sys/kernel/config/nvmet disk=/sys/kernel/config/nullb/quick
mkdir $disk
echo 1024 >$disk/size
echo 4096 >$disk/blocksize
echo 0 >$disk/queue_mode # completes where it is submitted
echo 1 >$disk/power
mkdir $dir/subsystems/$T2 $dir/subsystems/$T2/namespaces/1 $dir/ports/1
echo 1 >$dir/subsystems/$T2/attr_allow_any_host
echo /dev/quick >$dir/subsystems/$T2/namespaces/1/device_path
echo 1 >$dir/subsystems/$T2/namespaces/1/enable
echo rdma >$dir/ports/1/addr_trtype
echo ipv4 >$dir/ports/1/addr_adrfam
echo $ADDRESS >$dir/ports/1/addr_traddr
echo 4430 >$dir/ports/1/addr_trsvcid
ln -s $dir/subsystems/$T2 $dir/ports/1/subsystems/

# of EXPRESSION: prints a value of the JSON in $out, by perl.
of() { perl -MJSON::PP -0777 -e 'my $r = decode_json($ARGV[1]); print eval $ARGV[0]; die $@ if $@' "$1" "$out"; }

# rate: prints the rate of a load, or of a floor, of which the JSON is in $out.
rate() { of '(map { $_->{iops} // () } $r, map { ($_->{reads}, $_->{writes}) } @{$r->{jobs}})[0]'; }

# target PORT SUBSYSTEM: loads a target, as $load says; prints its rate.
target() {
    out=$(/run/bin/sluice bench --json -t rdma -a "$ADDRESS:$1" -n "$2" --time "$time" --warmup 200ms --core 1 \
        --rw "rand$rw" --bs "$bs" --depth "$depth" 2>&1) || fail "$load: $out"
    rate
}

# middle NUMBER...: prints the median, and the least and the greatest.
middle() {
    perl -e 'my @s = sort { $a <=> $b } @ARGV; printf "%.2f (%.2f to %.2f)", $s[$#s / 2], @s[0, -1]' "$@"
}

# times A B: prints A in times of B.
times() { perl -e 'print $ARGV[0] / $ARGV[1]' "$1" "$2"; }

echo "| load | floor/s | sluiced/s | nvmet/s | time, in times of the floor's (rounds) | sluiced/nvmet (rounds) |"
echo "|---|---|---|---|---|---|"
for load in "read 4k 1" "read 4k 32" "read 4k 127" "write 4k 1" "write 4k 32" "write 4k 127" "read 128k 1" \
    "read 128k 32" "write 128k 1" "write 128k 32"; do
    read -r rw bs depth <<<"$load"
    floors=() ours=() nvmets=() floor_times=() nvmet_times=()
    for _ in $(seq "$rounds"); do
        ours+=("$(target 4420 $T1)")
        # A daemon that polls would take time from what is measured in its absence.
        kill -STOP $daemon
        nvmets+=("$(target 4430 $T2)")
        out=$(/run/bin/sluice bench floor --json -t rdma -a $ADDRESS --time "$time" --core 1 --server-core 0 \
            --bs "$bs" --depth "$depth" ${WRITE[$rw]} 2>&1) || fail "floor, $load: $out"
        floors+=("$(rate)")
        kill -CONT $daemon
        floor_times+=("$(times "${floors[-1]}" "${ours[-1]}")") nvmet_times+=("$(times "${ours[-1]}" "${nvmets[-1]}")")
    done
    rates=()
    for what in "${floors[*]}" "${ours[*]}" "${nvmets[*]}"; do
        # shellcheck disable=SC2086 # numbers, a word each
        rates+=("$(printf %.0f "$(middle $what | cut -d' ' -f1)")")
    done
    echo "| $rw $bs, depth $depth | ${rates[0]} | ${rates[1]} | ${rates[2]} | $(middle "${floor_times[@]}") | $(middle "${nvmet_times[@]}") |"
done
pass
