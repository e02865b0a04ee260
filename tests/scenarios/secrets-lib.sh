# What scenarios of hosts' secrets and TLS keys share, beside lib.sh or qos-lib.sh, which come first.
# shellcheck shell=bash

# secrets_boot: gives the target a folder for the files of hosts, KEYS; ends the scenario at nvmet, which has
# secrets in configfs, and proves no host over TLS.
secrets_boot() {
    target_can cli || pass
    KEYS=/run/keys
    mkdir -m 700 $KEYS
    sed -i "s|^state = .*|&\nhost_keys = \"$KEYS\"|" "$CONFIG"
}
# keys LINE...: writes the usual host's file.
keys() { (umask 077 && printf '%s\n' "host $HOST_NQN" "$@" >$KEYS/host.key); }
reload() { expect "reload" sluice reload; }

# start_tlshd FOLDER [KEYRING]: starts the tlshd of a folder of tools, as process TLSHD.
start_tlshd() {
    printf '%s\n' '[debug]' loglevel=1 tls=0 nl=0 '[authenticate]' "keyrings=${2:-.nvme}" \
        '[authenticate.client]' '[authenticate.server]' >/tmp/tlshd.conf
    "$1/tlshd" -s -c /tmp/tlshd.conf >/tmp/tlshd.log 2>&1 &
    TLSHD=$!
    sleep 0.5
}

# quickly WHAT COMMAND...: the command fails, and not by a time limit.
quickly() {
    local start=$SECONDS
    refuse "$@"
    [ $((SECONDS - start)) -lt 15 ] || fail "$1: refused after $((SECONDS - start)) s"
}
# says PATTERN: the host's kernel has a message that matches it.
says() { dmesg | grep -Eq "$1"; }

# load_begins [fio arguments]: reads and writes the disk for some seconds.
load_begins() {
    fio "${FIO[@]}" --name=x --filename="$(disk $T1 1)" --rw=randrw --iodepth=8 \
        --runtime=6 --time_based --rate_iops=300 --output=/tmp/load.out "$@" &
    LOAD=$!
    sleep 1
}
# load_ends WHEN: fails where I/O has failed meanwhile.
load_ends() { wait $LOAD || fail "fio while $1: $(cat /tmp/load.out)"; }

# proves_again SECRET: the host proves itself on its live controller, by another secret.
proves_again() {
    dmesg -C
    echo "$1" >/sys/class/nvme/"$(controller $T1)"/dhchap_secret
    eventually 10 says "qid 0: authenticated with" ||
        fail "no proof on the live controller: $(dmesg | tail -5)"
}
# went_on WHEN: I/O has not failed, nor a proof, and the controller is live.
went_on() {
    load_ends "$1"
    controller_live $T1 || fail "the controller is $(controller_state $T1)"
    if says "authentication failed"; then fail "$(dmesg | tail -5)"; fi
}
# target_killed_under_load: the target is killed while the host reads and writes, and the host comes again.
target_killed_under_load() {
    load_begins --bs=16k
    target_kill
    target_start
    load_ends "the target was killed"
    eventually 30 controller_live $T1 || fail "not live again: $(dmesg | tail -5)"
}
