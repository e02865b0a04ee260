#!/bin/bash
# A reservation is kept in every second while another host of a higher class floods the device; one
# that does not fit is refused, with what is left and what would fit.
# time: virtual
# kernel: nvme_core.multipath=N
. /run/scenarios/qos-lib.sh
qos_boot
RESERVED=600 TIME=4

for port in 4420 4421; do listener $TARGET_IP:$port; done
subsystem $T1 any
slow_disk "8 ms" 8 # 1,000 commands a second
configure <<END
[qos]
window = 16
[[session]]
name = "gold"
[[session]]
name = "silver"
[[policy]]
host = "$HOST_NQN"
class = "high"
[[policy]]
host = "$OTHER_NQN"
class = "low"
session = "gold"
END
target_start
flood=$(attach 4420 -q $HOST_NQN -I $HOST_ID -i 1)
gold=$(attach 4421 -q $OTHER_NQN -I $OTHER_ID -i 1)

# measure NAME: loads both hosts at once; sets WINDOWS to what gold got in each second, by fio's log.
measure() {
    fio_hosts "$1" $TIME "gold /dev/${gold}n1 96 write_iops_log=/tmp/$1 log_avg_msec=1000" \
        "flood /dev/${flood}n1 128 numjobs=2"
    # The last line is a part of a second.
    mapfile -t WINDOWS < <(head -n $TIME "/tmp/$1_iops.1.log" | head -n -1 | cut -d, -f2 | tr -d ' ')
    printf '    %-22s %8.1f a second; each second: %s\n' "$1" "$(fio_got "$1" gold | cut -d' ' -f1)" "${WINDOWS[*]}"
}

step "without a reservation"
measure none
# The weights of High and Low are 3 and 1: a quarter of the device.
for got in "${WINDOWS[@]}"; do within 1 "what the host of Low gets in a second beside one of High" "$got" 250; done

step "a reservation of $RESERVED commands a second"
expect "reserve" sluice qos reserve gold --commands $RESERVED --namespace $T1/1
measure reserved
at_least "the fewest in one second" "$(printf '%s\n' "${WINDOWS[@]}" | sort -n | head -1)" $((RESERVED * 99 / 100))
read -r periods kept <<<"$(qos 'my $r = session("gold")->{reserve}; ($r->{periods}, $r->{kept})')"
echo "    periods with demand $periods, kept $kept"
at_least "periods" "$periods" 4
# The first and the last have demand for a part only.
at_least "periods kept" "$kept" $((periods - 2))

step "one that does not fit is refused"
refuse "a second reservation" sluice qos reserve silver --commands $RESERVED --namespace $T1/1
message=$(sluice qos reserve silver --commands $RESERVED --namespace $T1/1 2>&1 || true)
echo "    $message"
same "the refused session's reservation" "$(qos 'session("silver")->{reserve}')" null
contains "the refusal" "$message" 'session silver .*is left.*would fit'
fits=$(sed -n 's/.*at most \([0-9]*\) commands .*would fit.*/\1/p' <<<"$message")
expect "what would fit" sluice qos reserve silver --commands "$fits" --namespace $T1/1
refuse "one more" sluice qos reserve silver --commands $((fits + 1)) --namespace $T1/1
expect "release" sluice qos release gold
expect "what did not fit before" sluice qos reserve silver --commands $RESERVED --namespace $T1/1
pass
