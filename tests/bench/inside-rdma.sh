#!/bin/bash
# inside-rdma.sh PAIRS TIME: the part of rdma.sh that runs inside the user-mode kernel.
pairs=$1 time=$2
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
# Host and target share two CPUs: a reactor has one of them, the load the other one.
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

printf '| %-26s | %10s | %10s | %8s | %26s |\n' load "sluiced/s" "floor/s" "floor" "sluiced/nvmet (pairs)"
echo '|---|---|---|---|---|'
for load in "randread 4k 1" "randread 4k 32" "randread 4k 127" "randwrite 4k 1" "randwrite 4k 32" \
    "read 128k 1" "read 128k 32" "write 128k 1" "write 128k 32"; do
    read -r rw bs depth <<<"$load"
    out=$(/run/bin/sluice bench --json -t rdma -a $ADDRESS:4420 -n $T1 --vs rdma:$ADDRESS:4430,$T2 --pairs "$pairs" \
        --time "$time" --warmup 200ms --core 1 --rw "$rw" --bs "$bs" --depth "$depth" 2>&1) || fail "$load: $out"
    ours=$(of 'my @s = sort { $a <=> $b } map { $_->{a}{iops} } @{$r->{pairs}}; $s[$#s / 2]')
    ratios=$(of 'my @s = sort { $a <=> $b } map { $_->{ratio} } @{$r->{pairs}}; sprintf "%.2f (%.2f to %.2f)", $s[$#s / 2], $s[0], $s[-1]')
    write=()
    [[ $rw == *write ]] && write=(--write)
    out=$(/run/bin/sluice bench floor --json -t rdma -a $ADDRESS "${write[@]}" --bs "$bs" --depth "$depth" \
        --time "$time" --core 1 --server-core 0 2>&1) || fail "floor of $load: $out"
    floor=$(of '$r->{iops} // $r->{total}{iops} // $r->{exchanges_per_second}')
    printf '| %-26s | %10.0f | %10.0f | %8s | %26s |\n' "$rw $bs depth $depth" "$ours" "$floor" \
        "$(perl -e 'printf "%.2f", $ARGV[0] / $ARGV[1]' "$ours" "$floor")" "$ratios"
done
pass
