#!/bin/bash
# inside.sh PAIRS SECONDS: the part of uml-vs-nvmet.sh that runs inside the user-mode kernel.
pairs=$1 seconds=$2
. /run/scenarios/lib.sh
boot
MIB=256
listener $TARGET_IP:4420
subsystem $T1 any
namespace memory $MIB 4096
# In that kernel a system call costs as much as a wake-up, and a reactor that polls takes the time
# from the host beside it: it sleeps, as the kernel's target does.
sed -i 's/^cores.*/&\npoll = "never"/' "$CONFIG"
target_start

# The kernel's target, in the same network namespace, on a ram disk.
dir=/sys/kernel/config/nvmet
mkdir $dir/subsystems/$T2 $dir/subsystems/$T2/namespaces/1 $dir/ports/1
echo 1 >$dir/subsystems/$T2/attr_allow_any_host
ram_disk bench $MIB 4096 >$dir/subsystems/$T2/namespaces/1/device_path
echo 1 >$dir/subsystems/$T2/namespaces/1/enable
echo tcp >$dir/ports/1/addr_trtype
echo ipv4 >$dir/ports/1/addr_adrfam
echo $TARGET_IP >$dir/ports/1/addr_traddr
echo 4430 >$dir/ports/1/addr_trsvcid
in_target ln -s $dir/subsystems/$T2 $dir/ports/1/subsystems/

connect $T1 -i 1
nvme connect -t tcp -a $TARGET_IP -s 4430 -n $T2 -q $HOST_NQN -I $HOST_ID -i 1 >/dev/null
a=$(disk $T1 1) b=$(disk $T2 1)
# Both hold data: reads of blocks never written would be cheaper.
for d in "$a" "$b"; do
    expect "fill" dd if=/dev/zero of="$d" bs=1M count=$MIB oflag=direct
done

iops() { # DISK RW DEPTH BS
    fio --name=b --filename="$1" --rw="$2" --iodepth="$3" --bs="$4" --ioengine=io_uring --direct=1 \
        --runtime="$seconds" --time_based --ramp_time=0.5 --output-format=terse --terse-version=3 \
        --output=/tmp/terse --eta=never >/dev/null 2>&1 || fail "fio on $1"
    # Field 8 is the reads' IOPS, 49 the writes'.
    awk -F';' '{ print $8 + $49 }' /tmp/terse
}

printf '%-10s %5s %6s  %12s %12s  %s\n' load depth block "sluiced" "nvmet" "sluiced/nvmet, pair by pair"
for load in "randread 1 4k" "randread 32 4k" "randwrite 1 4k" "randwrite 32 4k" "read 8 128k" "write 8 128k"; do
    read -r rw depth bs <<<"$load"
    ratios=() sum_a=0 sum_b=0
    for _ in $(seq "$pairs"); do
        x=$(iops "$a" "$rw" "$depth" "$bs") y=$(iops "$b" "$rw" "$depth" "$bs")
        sum_a=$((sum_a + x)) sum_b=$((sum_b + y))
        ratios+=("$(awk "BEGIN { printf \"%.2f\", $x / ($y ? $y : 1) }")")
    done
    median=$(printf '%s\n' "${ratios[@]}" | sort -n | sed -n "$(((pairs + 1) / 2))p")
    printf '%-10s %5s %6s  %7d IOPS %7d IOPS  median %s (%s)\n' "$rw" "$depth" "$bs" \
        $((sum_a / pairs)) $((sum_b / pairs)) "$median" "${ratios[*]}"
done
pass
