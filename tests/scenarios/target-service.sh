# The daemon as it is installed, under systemd: the scenarios of the service have this in place of
# target-sluiced.sh. The machine has booted; the scenario is one of its units, the host is in the
# same machine. All folders that a scenario writes to are in memory (tests/lab/machine/init).
# shellcheck shell=bash
export NO_COLOR=1
TARGET_IP=127.0.0.1
CONFIG=/etc/sluicegate/sluicegate.toml
# The subsystem of the configuration that is shipped.
DISK=nqn.2026-01.io.sluicegate:disk1

boot() {
    trap 'fail "line $LINENO of ${BASH_SOURCE[0]##*/}: $BASH_COMMAND"' ERR
    trap 'fail "the script ended early"' EXIT
    echo # systemd has left the console in the middle of a line
    ulimit -c 0
    dmesg -n 1 # kept for a failure's report; the console shows the steps
    cd /tmp
}

# target_report: prints what systemd and the daemon said, for a failure's report.
target_report() {
    echo "--- systemctl status sluiced"
    systemctl status --no-pager --full --lines=0 sluiced
    echo "--- journalctl -u sluiced"
    journalctl --no-pager --output=short-monotonic -u sluiced | tail -40
}

sluice() { timeout 10 sluice "$@"; }

# configure: writes the configuration that is shipped, which the usual host may use, and adds stdin.
configure() {
    sed -i "s/nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6/$HOST_NQN/" $CONFIG
    cat >>$CONFIG
}

# journal [MATCH...]: prints the messages that the daemon wrote, or those that match, such as PRIORITY=4.
journal() {
    journalctl --sync
    journalctl --no-pager --output="${OUTPUT:-cat}" -u sluiced "$@"
}

property() { systemctl show --property="$1" --value sluiced; }
active() { [ "$(property ActiveState)" = active ]; }
main_pid() { property MainPID; }
# restarts: prints how often systemd started the daemon again by itself.
restarts() { property NRestarts; }
ended() { [ "$(property SubState)" = dead ] || [ "$(property SubState)" = failed ]; }
# ends_as WHAT "STATE RESULT STATUS": waits until the daemon has ended and systemd does not start it
# again.
ends_as() {
    local restarts
    restarts=$(restarts)
    eventually 20 ended || fail "$1: the service is $(property ActiveState)/$(property SubState)"
    same "$1" "$(property ActiveState) $(property Result) $(property ExecMainStatus)" "$2"
    same "$1: restarts" "$(restarts)" "$restarts"
}
# another PID: says whether the service is active with another process than PID.
another() {
    local now
    now=$(main_pid)
    [ "$now" != 0 ] && [ "$now" != "$1" ] && active
}

# file_of SIZE_MIB NAME: prints the path of a file of the daemon's, where its sandbox lets it write.
file_of() {
    install -d -o sluicegate -g sluicegate -m 750 /var/lib/sluicegate
    install -o sluicegate -g sluicegate -m 640 /dev/null "/var/lib/sluicegate/$2"
    truncate -s "$1M" "/var/lib/sluicegate/$2"
    echo "/var/lib/sluicegate/$2"
}
