#!/bin/bash
# inside-nvmet.sh SHARE TIME: the part of nvmet.sh that runs in the guest: its first process. SHARE has the programs and
# gets the file `result`, and `end` in `state` if all loads have run.
set -euo pipefail
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/tmp
share=$1 time=$2
MIB=128
ours=nqn.2026-01.io.sluicegate:bench theirs=nqn.2026-01.io.sluicegate:nvmet
host=5b0f4d9c-0000-4000-8000-000000000001
log=/run/log
# shellcheck source-path=SCRIPTDIR
. "${0%/*}/../lab/guest/functions.sh"
trap 'echo "inside-nvmet.sh: line $LINENO: $BASH_COMMAND"; power_off' ERR

mount -t configfs none /sys/kernel/config
programs=/run/programs
mkdir $programs
# From memory: a wait for the share would count as time.
cp "$share/sluiced" "$share/fio" $programs
ip link set lo up

cat >/run/config.toml <<END
[target]
cores = [0]
control = "/run/sluicegate.sock"
[[listener]]
address = "127.0.0.1:4420"
[[subsystem]]
nqn = "$ours"
allow_any_host = true
[[subsystem.namespace]]
nsid = 1
backend = "memory"
size = "$MIB MiB"
[[subsystem.namespace]]
nsid = 2
backend = "null"
size = "1 TiB"
END
$programs/sluiced --config /run/config.toml >$log 2>&1 &

# The kernel's target, on a device in memory and on one that does nothing.
null_device 1 $MIB irqmode=0 queue_mode=0 memory_backed=1
null_device 2 1048576 irqmode=0 queue_mode=0
target=/sys/kernel/config/nvmet
mkdir $target/subsystems/$theirs $target/subsystems/$theirs/namespaces/{1,2} $target/ports/1
echo 1 >$target/subsystems/$theirs/attr_allow_any_host
for n in 1 2; do
    echo -n /dev/nullb$n >$target/subsystems/$theirs/namespaces/$n/device_path
    echo 1 >$target/subsystems/$theirs/namespaces/$n/enable
done
for setting in trtype=tcp adrfam=ipv4 traddr=127.0.0.1 trsvcid=4430; do
    echo "${setting#*=}" >"$target/ports/1/addr_${setting%%=*}"
done
ln -s $target/subsystems/$theirs $target/ports/1/subsystems/

eventually 20 grep serving $log
for subsystem in "4420 $ours" "4430 $theirs"; do
    read -r port nqn <<<"$subsystem"
    nvme connect -t tcp -a 127.0.0.1 -s "$port" -n "$nqn" -q "nqn.2014-08.org.nvmexpress:uuid:$host" -I $host \
        -i 1 >/dev/null
done

iops() { # DISK RW DEPTH BS TIME
    $programs/fio --name=b --filename="$1" --rw="$2" --iodepth="$3" --bs="$4" --ioengine=io_uring --direct=1 \
        --runtime="$5" --time_based --output-format=terse --terse-version=3 --output=/run/terse --eta=never
    # Field 8 is the reads' IOPS, 49 the writes'.
    awk -F';' '{ print $8 + $49 }' /run/terse
}
{
    echo "instructions of host, fio and target for one command: sluiced, nvmet, and how many times as many"
    echo "commands a second sluiced completes"
    printf '%-18s %25s %28s\n' load memory null
} >"$share/result"
for nqn in $ours $theirs; do for nsid in 1 2; do eventually 20 disk $nqn $nsid; done; done
a1=$(disk $ours 1) b1=$(disk $theirs 1) a2=$(disk $ours 2) b2=$(disk $theirs 2)
# Reads of blocks that were never written would be cheaper.
for disk in "$a1" "$b1"; do dd if=/dev/zero of="$disk" bs=1M count=$MIB oflag=direct status=none; done
for load in "randread 1 4k" "randread 32 4k" "randread 128 4k" "randwrite 1 4k" "randwrite 32 4k" "read 8 128k" \
    "write 8 128k"; do
    read -r rw depth bs <<<"$load"
    rates=()
    for disk in "$a1" "$b1" "$a2" "$b2"; do
        # The first run loads what the second one measures.
        iops "$disk" "$rw" "$depth" "$bs" 50ms >/dev/null
        rates+=("$(iops "$disk" "$rw" "$depth" "$bs" "$time")")
    done
    awk -v load="$load" -v rates="${rates[*]}" 'BEGIN {
        split(rates, r, " ")
        printf "%-18s %9.0f %9.0f  %.2f   %9.0f %9.0f  %.2f\n", load,
            1e9 / r[1], 1e9 / r[2], r[1] / r[2], 1e9 / r[3], 1e9 / r[4], r[3] / r[4]
    }' >>"$share/result"
done
echo end >"$share/state"
power_off
