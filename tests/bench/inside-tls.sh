#!/bin/bash
# inside-tls.sh TOOLS ROUNDS SECONDS: the part of tls.sh that runs inside the user-mode kernel.
tools=$1 rounds=$2 seconds=$3
# Controllers that connect for one figure, each with an admin queue and an I/O queue.
CONNECTS=10
. /run/scenarios/lib.sh
. /run/scenarios/secrets-lib.sh
boot
KEYS=/run/keys
mkdir -m 700 $KEYS
sed -i "s|^state = .*|host_keys = \"$KEYS\"|; s|^cores.*|cores = [0]\npoll = \"never\"|" $CONFIG
listener $TARGET_IP:4420
listener $TARGET_IP:4421
echo 'tls = "required"' >>$CONFIG
subsystem $T1 any
namespace memory 64 4096
subsystem $T2 any
namespace memory 64 4096
key=$(sluice host key generate --tls) secret=$(sluice host key generate)
(
    umask 077
    printf '%s\n' "host $HOST_NQN" "tls-key $key" >$KEYS/host.key
    printf '%s\n' "host $OTHER_NQN" "secret $secret" >$KEYS/other.key
)
target_start
start_tlshd "$tools"
for nqn in $T1 $T2; do
    expect "the host's key" "$tools/nvme" check-tls-key --subsysnqn=$nqn --hostnqn=$HOST_NQN --identity=1 \
        --insert --keydata="$key"
done

# as WAY NQN: connects to a subsystem: plain, over TLS, or with a proof.
as() {
    local options
    case $1 in
    plain) options=(-s 4420 -q $HOST_NQN -I $HOST_ID) ;;
    tls) options=(-s 4421 -q $HOST_NQN -I $HOST_ID --tls) ;;
    proof) options=(-s 4420 -q $OTHER_NQN -I $OTHER_ID "--dhchap-secret=$secret") ;;
    esac
    expect "connect" timeout 30 "$tools/nvme" connect -t tcp -a $TARGET_IP -n "$2" -i 1 "${options[@]}"
}
# used: prints the CPU time of the daemon so far and the time, in ms.
used() { awk -v now="$(cut -d' ' -f1 /proc/uptime)" '{ print ($14 + $15) * 10, now * 1000 }' /proc/$DAEMON/stat; }
# cost WAY: prints the daemon's CPU time for a connection, in ms, without that of an idle daemon.
cost() {
    local before after
    before=$(used)
    for _ in $(seq $CONNECTS); do
        as "$1" $T1
        disconnect $T1 >/dev/null
    done
    after=$(used)
    awk -v idle="$idle" -v n=$((2 * CONNECTS)) \
        '{ printf "%.2f\n", ($3 - $1 - idle * ($4 - $2)) / n }' <<<"$before $after"
}
# middle NUMBER...: prints the median, the least and the greatest.
middle() {
    printf '%s\n' "$@" | sort -n | awk '{ all[NR] = $1 }
        END { printf "%s (%s to %s)", all[int((NR + 1) / 2)], all[1], all[NR] }'
}

before=$(used)
sleep 3
after=$(used)
idle=$(awk '{ print ($3 - $1) / ($4 - $2) }' <<<"$before $after")
declare -A costs=([plain]= [tls]= [proof]=)
for _ in $(seq "$rounds"); do
    for way in plain tls proof; do costs[$way]+=" $(cost $way)"; done
done
for way in plain tls proof; do
    # shellcheck disable=SC2086
    echo "$way: $(middle ${costs[$way]}) ms of CPU time for a connection"
done

as plain $T1
as tls $T2
a=$(disk $T1 1) b=$(disk $T2 1)
for d in "$a" "$b"; do expect "fill" dd if=/dev/zero of="$d" bs=1M count=64 oflag=direct; done
rate() { # DISK RW DEPTH BS
    fio --name=b --filename="$1" --rw="$2" --iodepth="$3" --bs="$4" --ioengine=io_uring --direct=1 \
        --runtime="$seconds" --time_based --ramp_time=0.3 --output-format=terse --terse-version=3 \
        --output=/tmp/terse --eta=never >/dev/null 2>&1 || fail "fio on $1"
    # Field 8 is the reads' IOPS, 49 the writes'.
    awk -F';' '{ print $8 + $49 }' /tmp/terse
}
for load in "randread 1 4k" "randread 32 4k" "read 8 128k" "write 8 128k"; do
    read -r rw depth bs <<<"$load"
    plain=() tls=() ratios=()
    for _ in $(seq "$rounds"); do
        x=$(rate "$a" "$rw" "$depth" "$bs") y=$(rate "$b" "$rw" "$depth" "$bs")
        plain+=("$x") tls+=("$y")
        ratios+=("$(awk "BEGIN { printf \"%.2f\", $y / ($x ? $x : 1) }")")
    done
    echo "$load: plain $(middle "${plain[@]}"), TLS $(middle "${tls[@]}") IOPS, ratio $(middle "${ratios[@]}")"
done
pass
