#!/bin/bash
# Memory that clients read by one-sided RDMA, with Haechi's reservations (docs/research/sources.md, H): six clients and
# a data node as processes of their own, real engines, a real monitor, real fetch-and-add. The data node's
# link is the capacity that they share; rates are compared with what it carried in the same boot.
# time: virtual
# mount: build-tlstools
. /run/scenarios/lib.sh
boot
DEMO=/run/bin/examples/guarantees
NODE=$TARGET_IP:4430
tc -n target qdisc add dev target0 root tbf rate 100mbit burst 128k limit 8m

# node CAPACITY RESERVATION...: starts the data node; its input is descriptor 7, its output /tmp/node.
node() {
    rm -f /tmp/orders
    mkfifo /tmp/orders
    nsenter --net=/run/netns/target $DEMO node $NODE "$1" 10 4 "${@:2}" </tmp/orders >/tmp/node 2>&1 &
    node=$!
    exec 7>/tmp/orders
    eventually 20 grep -q "node is ready" /tmp/node || fail "the data node: $(cat /tmp/node)"
}
# order LINE: tells the data node something.
order() { echo "$1" >&7; }
# run NUMBER MODE ARGUMENTS...: starts a client; its output is /tmp/client-NUMBER.
declare -A clients
run() {
    $DEMO "$2" $NODE "$1" "${@:3}" >"/tmp/client-$1" 2>&1 &
    clients[$1]=$!
}
# periods NUMBER: counts the periods that a client has finished.
periods() { grep -c " done " "/tmp/client-$1" || true; }
# has NUMBER COUNT: says whether it has finished as many.
has() { [ "$(periods "$1")" -ge "$2" ]; }
# later NUMBER COUNT: waits until it has finished that many more.
later() {
    local want=$(($(periods "$1") + $2))
    eventually 30 has "$1" $want || fail "client $1 stands still: $(tail -3 "/tmp/client-$1") $(tail -5 /tmp/node)"
}
# least NUMBER AFTER: prints the least that a client did in a period behind the first AFTER ones.
least() { grep " done " "/tmp/client-$1" | tail -n "+$(($2 + 1))" | awk 'NR == 1 || $6 < m { m = $6 } END { print m + 0 }'; }

ALL="0 1 2 3 4 5"
# Parts of the capacity in percent: without engines each client has 17.
RESERVED=(26 14 5 5 5 5)

step "clients without engines share equally, whatever anybody has reserved"
node 0 0 0 0 0 0 0
for n in $ALL; do run "$n" bare 7 4; done
for n in $ALL; do wait "${clients[$n]}" || fail "client $n: $(cat "/tmp/client-$n")"; done
order end
wait $node || fail "the data node: $(cat /tmp/node)"
# The first second is that of the beginning.
capacity=$(for n in $ALL; do grep " done " "/tmp/client-$n" | sed -n 2,6p; done | awk '{ s += $6 } END { print int(s / 5) }')
first=$(grep " done " /tmp/client-0 | sed -n 2,6p | awk '{ s += $6 } END { print int(s / 5) }')
echo "the link carries $capacity I/Os in a second, of which client 0 had $first"
[ "$first" -lt $((capacity * 21 / 100)) ] || fail "client 0 had $first of $capacity"

for n in $ALL; do R[n]=$((capacity * RESERVED[n] / 100)); done
# kept WHAT AFTER CLIENT...: says whether these clients had 99 % of their reservation in each period behind the
# first AFTER[CLIENT] ones.
kept() {
    local what=$1 n short=0 line=""
    for n in "${@:2}"; do
        local had
        had=$(least "$n" "${after[$n]}")
        line+=" $n: $had of ${R[n]},"
        [ "$had" -ge $((R[n] * 99 / 100)) ] || short=1
    done
    echo "$what:${line%,}"
    return $short
}
# mark: what comes behind the present period, and the next one, which has begun, is to be judged.
mark() { for n in $ALL; do after[n]=$(($(periods "$n") + 1)); done; }
# unharmed WHAT CLIENTS COMMAND...: the clients keep their reservations while the command runs and for some
# periods more.
unharmed() {
    local what=$1 others=$2
    mark
    "${@:3}"
    later "${others%% *}" 3
    # shellcheck disable=SC2086
    if kept "$what" $others; then return; fi
    for n in $others; do echo "client $n: $(tail -n 3 "/tmp/client-$n")"; done
    grep -v "^node period" /tmp/node | tail -n 20
    fail "$what: reservations were missed"
}

step "reservations are met in every period"
node $((capacity * 70 / 100)) "${R[@]}"
for n in $ALL; do run "$n" client 300 4 4; done
for n in $ALL; do eventually 20 has "$n" 2 || fail "client $n: $(cat "/tmp/client-$n") $(cat /tmp/node)"; done
unharmed "nothing happens" "$ALL" true

# cheats: each breaks one rule with the rights of client 4, who has left.
cheats() {
    local kind stolen
    stolen=$(sed -n 's/.* data at \([0-9]*\) by key \([0-9]*\)$/\1 \2/p' /tmp/client-0)
    for kind in secret rights twice key beyond write pool grant report old-key "stolen $stolen"; do
        # shellcheck disable=SC2086
        expect "$kind" $DEMO cheat $NODE 4 $kind
    done
    kill -0 $node || fail "the data node: $(cat /tmp/node)"
}
# leave NUMBER: kills a client.
leave() {
    kill -9 "${clients[$1]}"
    eventually 10 grep -q "client $1 is gone" /tmp/node || fail "client $1 does not leave: $(cat /tmp/node)"
}
step "a client may do all that it was granted"
leave 5
expect "rights" $DEMO rights $NODE 5

step "wrong secrets, rights, keys, places and words are refused, and nobody else notices"
leave 4
unharmed "cheats" "0 1 2 3" cheats

stop_for_3_s() {
    kill -STOP "${clients[1]}"
    later 0 3
    kill -CONT "${clients[1]}"
}
step "a client that stops for 3 s hurts nobody, and has its reservation again"
unharmed "one is stopped" "0 2 3" stop_for_3_s
unharmed "it has gone on" "0 1 2 3" true

step "a monitor that restarts loses no guarantee beyond the running period"
number() { sed -n 's/^node period \([0-9]*\) .*/\1/p' /tmp/node | tail -1; }
before=$(number)
order stop
sleep 2.5
order start
later 0 2
[ "$(number)" -gt "$before" ] || fail "the period's number went from $before to $(number)"
unharmed "another monitor" "0 1 2 3" true

step "a client without tokens is evicted within three periods, and the others keep their reservations"
run 4 bare 30 16
eventually 20 grep -q "client 4 is evicted" /tmp/node || fail "$(tail -20 /tmp/node) $(tail -3 /tmp/client-4)"
lived=$(sed -n '/client 4 is here/,/client 4 is evicted/p' /tmp/node | tac | sed '/client 4 is here/q' | grep -c "^node period")
echo "it was there at the start of $lived periods"
[ "$lived" -le 3 ] || fail "it was there for $lived periods"
# The finding has the number of the client's place, which is another one where places were free.
contains "what the monitor found" "$(grep "node finds" /tmp/node)" "has reported .* sends I/Os without tokens"
wait "${clients[4]}" || true
contains "the client" "$(tail -1 /tmp/client-4)" "client 4 ended"
unharmed "one was evicted" "0 1 2 3" true
lacks "the data node's messages" "$(cat /tmp/node)" "client [0-3] is evicted"

step "a client that dies leaves its part to the others"
leave 1
unharmed "one has died" "0 2 3" true

step "rights that are revoked end at once, on a connection that stands"
order "revoke 2"
eventually 5 grep -q "client 2 ended: Some(Refused)" /tmp/client-2 || fail "$(tail -3 /tmp/client-2)"
unharmed "one is revoked" "0 3" true

step "clients learn that the data node is gone"
order end
wait $node || fail "the data node: $(cat /tmp/node)"
for n in 0 3; do
    eventually 20 grep -q "client $n ended" "/tmp/client-$n" || fail "client $n: $(tail -3 "/tmp/client-$n")"
done

step "with libraries that have FLUSH, what a client writes survives by one, if it may write"
newer=/run/build-tlstools/trixie/usr
DEMO="$newer/lib64/ld-linux-x86-64.so.2 --library-path $newer/lib/x86_64-linux-gnu $DEMO"
driver=lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so
mount --bind $newer/$driver /usr/$driver || fail "the driver"
node $((capacity * 70 / 100)) "${R[@]}"
out=$($DEMO rights $NODE 5 2>&1) || fail "rights: $out"
contains "how it was synced" "$out" "synced by FLUSH \(Global\)"
expect "a reader's FLUSH" $DEMO cheat $NODE 4 flush
order end
wait $node || fail "the data node: $(cat /tmp/node)"
lacks "the data node's messages" "$(cat /tmp/node)" "to survive"

lacks "clients" "$(cat /tmp/client-*)" panicked
pass
