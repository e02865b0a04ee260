#!/bin/bash
# inside-rdma.sh PAIRS TIME: the part of rdma.sh that runs inside the user-mode kernel.
pairs=$1 time=$2
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
# leave.
sed -i 's/^cores.*/cores = [0]/' "$CONFIG"
/run/bin/sluiced --config "$CONFIG" >/run/sluiced.log 2>&1 &
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

# median a|b: prints the median of the rates of one of the two targets.
median() { of 'my @s = sort { $a <=> $b } map { $_->{'"$1"'}{iops} } @{$r->{pairs}}; sprintf "%.0f", $s[$#s / 2]'; }

# rate: prints the rate of a load, or of a floor, of which the JSON is in $out.
rate() { of '(map { $_->{iops} // () } $r, map { ($_->{reads}, $_->{writes}) } @{$r->{jobs}})[0]'; }

echo "| load | time for a command, in times of the floor's (rounds) |"
echo "|---|---|"
for load in "read 4k 1" "read 4k 32" "read 4k 127" "write 4k 1" "write 4k 32" "write 4k 127" "read 128k 1" \
    "read 128k 32" "write 128k 1" "write 128k 32"; do
    read -r rw bs depth <<<"$load"
    ratios=()
    for _ in $(seq "$pairs"); do
        out=$(/run/bin/sluice bench floor --json -t rdma -a $ADDRESS --time "$time" --core 1 --server-core 0 \
            --bs "$bs" --depth "$depth" ${WRITE[$rw]} 2>&1) || fail "floor, $load: $out"
        floor=$(rate)
        out=$(/run/bin/sluice bench --json -t rdma -a $ADDRESS:4420 -n $T1 --time "$time" --warmup 200ms --core 1 \
            --rw "rand$rw" --bs "$bs" --depth "$depth" 2>&1) || fail "$load: $out"
        ratios+=("$(perl -e 'printf "%.2f", $ARGV[0] / $ARGV[1]' "$floor" "$(rate)")")
    done
    echo "| rand$rw $bs, depth $depth | $(perl -e 'my @s = sort { $a <=> $b } @ARGV;
        print "$s[$#s / 2] ($s[0] to $s[-1])"' "${ratios[@]}") |"
done
echo
echo "| load | sluiced/s | nvmet/s | sluiced/nvmet (pairs) |"
echo "|---|---|---|---|"
for load in "randread 4k 1" "randread 4k 32" "randread 4k 127" "randwrite 4k 1" "randwrite 4k 32" \
    "randwrite 4k 127" "read 128k 1" "read 128k 32" "write 128k 1" "write 128k 32"; do
    read -r rw bs depth <<<"$load"
    out=$(/run/bin/sluice bench --json -t rdma -a $ADDRESS:4420 -n $T1 --vs rdma:$ADDRESS:4430,$T2 --pairs "$pairs" \
        --time "$time" --warmup 200ms --core 1 --rw "$rw" --bs "$bs" --depth "$depth" 2>&1) || fail "$load: $out"
    echo "| $rw $bs, depth $depth | $(median a) | $(median b) | $(of '
        my @s = sort { $a <=> $b } map { $_->{ratio} } @{$r->{pairs}};
        sprintf "%.2f (%.2f to %.2f)", $s[$#s / 2], $s[0], $s[-1]') |"
done
pass
