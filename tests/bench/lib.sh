# Functions of the benchmarks in this folder, which run daemons of their own. A script's first argument
# is the folder with the binaries. Its files are in $DIR, which is removed at the end, when its daemons
# and loads are ended too.
# shellcheck shell=bash
BIN=$(realpath "${1:?usage: ${0##*/} BINARIES}") DIR=$(mktemp -d) NQN=nqn.2026-01.io.sluicegate:bench
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$DIR"' EXIT
# A folder with lib.py, which the scripts in python import.
PYTHONPATH=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
export PYTHONPATH PYTHONDONTWRITEBYTECODE=1

# target_table NAME [LINE...]: prints the table [target] of a daemon on core 0, with more lines.
# CORES names other cores.
target_table() {
    printf '[target]\ncores = %s\ncontrol = "%s"\n' "${CORES:-[0]}" "$DIR/$1.sock"
    shift
    printf '%s\n' "$@"
}

# listener PORT [LINE...]: prints a listener.
listener() {
    printf '[[listener]]\naddress = "127.0.0.1:%s"\n' "$1"
    shift
    printf '%s\n' "$@"
}

# subsystem: prints the subsystem $NQN for any host; namespaces follow.
subsystem() { printf '[[subsystem]]\nnqn = "%s"\nallow_any_host = true\n' "$NQN"; }

# namespace NSID LINE...: prints a namespace of the subsystem that was printed last.
namespace() {
    printf '[[subsystem.namespace]]\nnsid = %s\n' "$1"
    shift
    printf '%s\n' "$@"
}

# start NAME [COMMAND...]: starts a daemon with the configuration $DIR/NAME.toml, by a command such as
# chrt, and waits until the daemon answers. Its process is in $PID. SLUICED names another build.
start() {
    local name=$1
    shift
    "$@" "${SLUICED:-$BIN/sluiced}" --log-level "${LOG_LEVEL:-warn}" --log stderr --config "$DIR/$name.toml" &
    PID=$!
    until "$BIN/sluice" --socket "$DIR/$name.sock" connections >/dev/null 2>&1; do
        kill -0 $PID 2>/dev/null || { echo "${0##*/}: the daemon $name did not start" >&2; exit 1; }
        sleep 0.05
    done
}

# stop PROCESS...: ends daemons.
stop() {
    kill "$@"
    wait "$@" 2>/dev/null || true
}

# load PORT ARGUMENTS...: puts load on a port from core 1, for TIME after WARMUP (300ms); prints the
# report as JSON.
load() {
    local port=$1
    shift
    "$BIN/sluice" bench --json --core 1 --nqn "$NQN" -a "127.0.0.1:$port" --time "$TIME" \
        --warmup "${WARMUP:-300ms}" "$@"
}
