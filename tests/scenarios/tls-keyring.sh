#!/bin/bash
# Hosts whose TLS keys the target finds in the kernel's keyring .nvme, where nvme-cli puts them: keys that
# are missing, wrong, exchanged, revoked and too old; a file's key beside them; a target that is not root.
# The host has a keyring of its own, since target and host have one kernel.
# cpus: 1
# mount: build-tlstools
. /run/scenarios/lib.sh
. /run/scenarios/secrets-lib.sh
boot
secrets_boot
sed -i "s|^host_keys = .*|&\nkeyring = \".nvme\"|" "$CONFIG"
listener $TARGET_IP:4420
echo 'tls = "required"' >>"$CONFIG"
subsystem $T1 $HOST_NQN
namespace memory 64 4096

TOOLS=/run/build-tlstools/sid/bin
nvme() { $TOOLS/nvme "$@"; }
keyctl() { $TOOLS/keyctl "$@"; }
# Root may use it without having it linked into its session, as it may .nvme.
keyctl setperm "$(keyctl newring host @u)" 0x3f3f0000
start_tlshd $TOOLS host

# serials KEYRING: prints the numbers of the keys of a keyring.
serials() { keyctl rlist "%:$1" | tr ' ' '\n' | grep -v '^$' || true; }
forget() {
    local key
    for key in $(serials "$1"); do keyctl unlink "$key" "%:$1"; done
}
# put KEYRING KEY [nvme arguments]: has nvme-cli put a key of the usual host for T1 into a keyring.
put() {
    expect "a key for $1" nvme check-tls-key --keyring="$1" --subsysnqn=$T1 --hostnqn=$HOST_NQN \
        --insert --keydata="$2" --identity=1 "${@:3}"
}
# have HOST_KEY TARGET_KEY [nvme arguments]: gives each side this key alone, or none.
have() {
    forget host
    forget .nvme
    put host "$1" "${@:3}"
    [ -z "$2" ] || put .nvme "$2" "${@:3}"
}
# try: connects with the one key of the host's keyring. (nvme-cli leaves --keyring out where no key is named.)
try() {
    timeout 30 $TOOLS/nvme connect -t tcp -a $TARGET_IP -s 4420 -n $T1 -q "${HOST:-$HOST_NQN}" \
        -I "${ID:-$HOST_ID}" -i 2 --reconnect-delay=1 --tls --tls-key="$(printf '0x%08x' "$(serials host)")"
}
over_tls() {
    expect "connect over TLS" try
    eventually 5 controller_live $T1 || fail "the controller is not live"
    same "tls_mode" "$(cat /sys/class/nvme/"$(controller $T1)"/tls_mode)" tls
    contains "connections" "$(sluice --json connections)" '"tls": *"TLS_AES_'
}
passes() {
    over_tls
    expect "a read" dd if="$(disk $T1 1)" of=/dev/null bs=1M count=8 iflag=direct
    disconnect $T1
}
# refused WHY: the host is refused, and the daemon says why, after what it has said before.
refused() {
    local before
    before=$(said "$1")
    quickly "a connection" try
    same "controllers" "$(target_controllers)" 0
    eventually 5 more "$1" "$before" || fail "no line: $1"
}
# What `host list` says about the host's authentication.
listed_with() { contains "host list" "$(sluice --wide host list)" "$HOST_NQN .*$1"; }
said() { grep -c "$1" /run/sluiced-$STARTS.log || true; }
more() { [ "$(said "$1")" -gt "$2" ]; }
UNKNOWN="names a key that is not known here"
WRONG="has another key than that which it names"

one=$(nvme gen-tls-key --hmac=1)
two=$(nvme gen-tls-key --hmac=1)
long=$(nvme gen-tls-key --hmac=2)

step "a user who makes what looks like root's keyring in /proc/keys"
have "$two" "" --identity=0
keyctl pipe "$(serials host)" >/tmp/forged
chmod 644 /tmp/forged
forger=(setpriv --reuid=991 --regid=991 --clear-groups $TOOLS/keyctl session -)
# Many, since the kernel sorts keys by their numbers; and one that is no text.
expect "forging" "${forger[@]}" bash -euc '
    "$0" link @u @s
    ring=$("$0" newring evil @u)
    line=$(printf "%08x I------     1 perm 1f1f0000     0     0 keyring   .nvme: 1" "$ring")
    keys="$ring $("$0" padd psk "$1" "$ring" </tmp/forged)"
    keys+=" $("$0" add user $'"'\xff'"' x @u)"
    for n in $(seq 20); do keys+=" $("$0" add user "$n"$'"'\n'"'"$line" x @u)"; done
    for key in $keys; do "$0" setperm "$key" 0x3f3f3f3f; done
' $TOOLS/keyctl "NVMe0R01 $HOST_NQN $T1"
contains "/proc/keys" "$(cat /proc/keys)" "^[0-9a-f]+ I-+ +1 perm 1f1f0000 +0 +0 keyring   \.nvme: 1: "
target_start
if grep -q "in the keyring" /run/sluiced-1.log; then fail "$(cat /run/sluiced-1.log)"; fi
refused "$UNKNOWN"
put .nvme "$two" --identity=0
passes

step "no key in the keyring, and another one"
have "$one" ""
refused "$UNKNOWN"
listed_with none
have "$one" "$two"
listed_with "TLS key"
refused "$UNKNOWN"
have "$one" "$two" --identity=0
refused "$WRONG"

step "nvme-cli puts a key into the keyring, and the host connects"
for key in "$one" "$long"; do
    for arguments in --identity=1 --identity=0 --compat; do
        have "$key" "$key" $arguments
        passes
    done
done
forget host
forget .nvme
made=$(nvme gen-tls-key --hmac=1 --insert --identity=1 --hostnqn=$HOST_NQN --subsysnqn=$T1 |
    grep -o 'NVMeTLSkey.*')
put host "$made"
passes

step "a key among others whose names begin as its own"
forget .nvme
for n in 0 1 2 3 4 5 6 7; do
    expect "a key" nvme check-tls-key --keyring=.nvme --subsysnqn=$T1$n --hostnqn=$HOST_NQN --insert \
        --keydata="$two" --identity=0
done
forget host
put host "$one" --identity=0
refused "$UNKNOWN"
put .nvme "$one" --identity=0
passes

step "keys are taken along in a file"
have "$one" "$one"
expect "export" nvme tls-key --export --keyring=.nvme --keyfile=/tmp/tls-keys
forget .nvme
refused "$UNKNOWN"
expect "import" nvme tls-key --import --keyring=.nvme --keyfile=/tmp/tls-keys
passes

step "a host that the subsystem does not have"
forget host
for ring in host .nvme; do
    expect "a key of another host" nvme check-tls-key --keyring=$ring --subsysnqn=$T1 --hostnqn=$OTHER_NQN \
        --insert --keydata="$two" --identity=1
done
HOST=$OTHER_NQN ID=$OTHER_ID refused "a host was refused.*$OTHER_NQN"

step "the key is exchanged while the host is connected, without a reload"
have "$one" "$one"
over_tls
load_begins --bs=16k
forget .nvme
put .nvme "$two"
load_ends "the key was exchanged"
disconnect $T1
refused "$UNKNOWN"
forget host
put host "$two"
passes

step "revoked, and too old"
keyctl link %:.nvme @u # so that root may change keys there
expect "revoke" keyctl revoke "$(serials .nvme)"
listed_with none
refused "$UNKNOWN"
have "$two" "$two"
expect "timeout" keyctl timeout "$(serials .nvme)" 1
listed_with "TLS key"
sleep 2
listed_with none
refused "$UNKNOWN"
have "$two" "$two"
passes

step "a killed target finds the key again"
over_tls
target_killed_under_load
disconnect $T1

step "a key of a file beside the keyring's"
have "$one" "$two" --identity=0
keys "tls-key $one"
reload
passes
forget host
put host "$two" --identity=0
passes
forget .nvme
refused "$WRONG"
rm $KEYS/host.key
reload
refused "$UNKNOWN"

step "a target that is not root"
# With a session keyring of its own, as services have it, which the user's is not linked into.
user=(setpriv --reuid=990 --regid=990 --clear-groups $TOOLS/keyctl session -)
have "$one" "$one"
mkdir -m 700 /run/user
sed "s|/run/sg|/run/user/sg|; s|$KEYS|/run/user|" $CONFIG >/run/user.toml
chown 990:990 /run/user /run/user.toml
target_kill
check() { in_target "${user[@]}" /run/bin/sluiced --check /run/user.toml 2>&1; }
told=$(check) || fail "a check without a link: $told"
contains "a check without a link" "$told" "the keyring .nvme are refused.*root must link it into the keyring of user 990"
# Without the shell in between, which would go on as the other user.
usr=$TOOLS/../usr
expect "link" setpriv --ruid=990 $usr/lib64/ld-linux-x86-64.so.2 --library-path $usr/lib/x86_64-linux-gnu \
    $usr/bin/keyctl link %:.nvme @u
told=$(check) || fail "a check: $told"
lacks "a check" "$told" "the keyring .nvme"
STARTS=$((STARTS + 1)) CONFIG=/run/user.toml SLUICEGATE_CONTROL=/run/user/sg.sock
(exec setsid nsenter --net=/run/netns/target "${user[@]}" /run/bin/sluiced --config $CONFIG) \
    >/run/sluiced-$STARTS.log 2>&1 &
DAEMON=$!
eventually 30 is_serving || fail "sluiced does not serve"
passes

step "nothing of it is in the log"
for key in "$one" "$two" "$long" "$made"; do
    if grep -q "${key:20:20}" /run/sluiced-*.log; then fail "the log has a key"; fi
done
secrets=$(sed -n 's/.*NVMeTLSkey-1:0.:\(.*\):/\1/p' /tmp/tls-keys)
[ -n "$secrets" ] || fail "no secrets in what was exported: $(cat /tmp/tls-keys)"
for key in $secrets; do
    if grep -q "${key:5:20}" /run/sluiced-*.log; then fail "the log has a secret"; fi
done
pass
