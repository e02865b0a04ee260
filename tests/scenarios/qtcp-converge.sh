#!/bin/bash
# qtcp-converge.sh read|write: two hosts, of class Medium and Low, fill a link; one of class High
# comes and goes. How long it takes until each has its share.
# time: virtual
# kernel: nvme_core.multipath=N
. /run/scenarios/qtcp-lib.sh
qos_boot
WAY=$1
three_hosts high medium low

# come_and_go NAME WEIGHT_OF_HIGH MEDIUM LOW: adds to the table the times until shares are within 15 and
# 5 per cent when High comes (STARTS: 15 per cent), and when it goes (STOPS).
come_and_go() {
    local name=$1 weights=("${@:2}") rest watch
    fio_hosts "$name" 8 "medium ${DISKS[2]} 8 rw=rand$WAY bs=128k" "low ${DISKS[3]} 8 rw=rand$WAY bs=128k" &
    rest=$!
    sleep 1.5
    watch_link "$name" 0.05
    watch=$!
    fio_hosts "$name-high" 3 "high ${DISKS[1]} 8 rw=rand$WAY bs=128k"
    wait $rest || fail "fio"
    kill $watch
    settles() { link_settles "$name" "$WAY" 1 "$@"; }
    STARTS=$(settles starts 15 "${weights[@]}")
    STOPS=$(settles stops 15 0 "${weights[@]:1}")
    TABLE+=("$(printf '    %-12s %16s %9s %16s %9s' "$name" "$STARTS" "$(settles starts 5 "${weights[@]}")" \
        "$STOPS" "$(settles stops 5 0 "${weights[@]:1}")")")
    link_windows "$name" "$WAY" 0.25 | perl -ane '
        printf "%s %4.0f %4.0f %4.0f Mbit/s%s", $. % 3 == 1 ? "    " : "   ", @F[1 .. 3], $. % 3 ? "" : "\n"; END { print "\n" }'
}
TABLE=("$(printf '    %-12s %16s %9s %16s %9s' "" "High comes: 15 %" "5 %" "High goes: 15 %" "5 %")")

step "plain dctcp"
come_and_go plain 1 1 1

step "classes"
network_qos --enabled on
come_and_go classes 3 2 1
printf '%s\n' "${TABLE[@]}"
[[ $STARTS != never && $STOPS != never ]] || fail "shares never settle"
at_most "seconds until shares settle when High comes" "${STARTS% s}" 1
at_most "seconds until shares settle when High goes" "${STOPS% s}" 1
pass
