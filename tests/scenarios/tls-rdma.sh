#!/bin/bash
# One target with TLS keys in the kernel's keyring and RDMA: a host uses both at once. RDMA listeners accept
# connections as soon as they are added, and when the target is started again.
# cpus: 1
# mount: build-tlstools
. /run/scenarios/lib.sh
. /run/scenarios/secrets-lib.sh
boot
target_can cli || pass
sed -i "s|^state = .*|&\nkeyring = \".nvme\"|" "$CONFIG"
TRANSPORT=tcp listener $TARGET_IP:4420
echo 'tls = "required"' >>"$CONFIG"
subsystem $T1 $HOST_NQN
namespace memory 64 4096
subsystem $T2 $HOST_NQN
namespace memory 64 4096

TOOLS=/run/build-tlstools/sid/bin
nvme() { $TOOLS/nvme "$@"; }
start_tlshd $TOOLS
# Target and host have one kernel, and so one keyring.
expect "a key" nvme gen-tls-key --hmac=1 --insert --identity=1 --hostnqn=$HOST_NQN --subsysnqn=$T1
target_start

# both_serve NAME: writes both disks at once and reads them back.
both_serve() {
    local tls rdma first
    tls=$(disk $T1 1) rdma=$(disk $T2 1)
    write_verify "$1-tls" "$tls" --rw=randwrite --bs=16k --size=8m --iodepth=8 &
    first=$!
    write_verify "$1-rdma" "$rdma" --rw=randwrite --bs=16k --size=8m --iodepth=8
    wait $first || fail "fio over TLS"
}

step "a host connects over TLS"
TRANSPORT=tcp connect $T1 --tls
contains "connections" "$(sluice connections --json)" '"tls": *"TLS_AES_'

step "RDMA listeners that are added accept connections at once"
for port in 4420 4421; do
    expect "add" sluice listener add $TARGET_IP:$port --transport rdma
    expect "connect to port $port" timeout 30 $TOOLS/nvme connect -t rdma -a $TARGET_IP -s $port -n $T2 \
        -q $HOST_NQN -I $HOST_ID --reconnect-delay=1
done
eventually 5 controller_live $T2 || fail "the controller over RDMA is not live"
contains "connections" "$(sluice connections --json)" "\"listener\": *\"rdma:$TARGET_IP:4421\""
both_serve added

step "a target that is started again accepts connections over both"
disconnect $T2
target_kill
target_start
connect $T2
TRANSPORT=tcp eventually 30 controller_live $T1 || fail "the host does not reconnect over TLS"
both_serve restarted

step "no thread has used RDMA with other credentials"
log=$(cat /run/sluiced-*.log)
contains "the daemon's log" "$log" 'sluiced: serving '
lacks "the daemon's log" "$log" 'Permission denied|connection manager has failed|listener is closed'
lacks "the kernel's messages" "$(dmesg)" 'changed security contexts'
pass
