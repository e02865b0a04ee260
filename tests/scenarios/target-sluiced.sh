# The daemon under test. The scenario declares listener, subsystem and namespace, in that order,
# which write the configuration file; target_start starts the daemon with it.
# shellcheck shell=bash
export NO_COLOR=1
# Where sluice looks for the control socket.
export SLUICEGATE_CONTROL=/run/sg.sock
CONFIG=/run/sg.toml METRICS=127.0.0.1:9420
DAEMON=0 STARTS=0 EXTRA_CONFIG='' MEMORIES=0

target_can() { return 0; }

target_prepare() {
    printf '[target]\ncores = [%s]\n' "$(seq -s, 0 $(($(nproc) - 1)))" >$CONFIG
    if on_virtual_time; then
        # A clock that the kernel keeps: the CPU's counter counts real time. A reactor that polls lets no
        # time pass.
        printf 'clock = "monotonic"\npoll = "never"\n' >>$CONFIG
    fi
    cat >>$CONFIG <<END
control = "$SLUICEGATE_CONTROL"
metrics = "$METRICS"
state = "/run/sg.redb"
END
}

# target_report: prints what the daemon said, for a failure's report.
target_report() {
    local log
    for log in /run/sluiced-*.log; do
        echo "--- $log"
        tail -40 "$log"
    done
    [ $DAEMON = 0 ] || [ ! -d /proc/$DAEMON ] || {
        echo "--- sluice status"
        timeout 5 /run/bin/sluice status
    }
}

# endpoint ADDRESS: prints the listener's name on the command line.
endpoint() { if over rdma; then echo "rdma:$1"; else echo "$1"; fi; }

# listener ADDRESS [discovery_only]: declares a listener.
listener() {
    {
        echo "[[listener]]"
        echo "address = \"$1\""
        echo "transport = \"$TRANSPORT\""
        [ "${2:-}" != discovery_only ] || echo "discovery_only = true"
    } >>$CONFIG
}

# subsystem NQN any | HOSTNQN...: declares a subsystem for any host, or for these.
subsystem() {
    {
        echo "[[subsystem]]"
        echo "nqn = \"$1\""
        if [ "$2" = any ]; then
            echo "allow_any_host = true"
        else
            shift
            echo "hosts = [$(printf '"%s", ' "$@")]"
        fi
    } >>$CONFIG
}

# namespace BACKEND SIZE_MIB|PATH|DEVICE BLOCK_SIZE: declares a namespace of the last subsystem.
namespace() {
    {
        echo "[[subsystem.namespace]]"
        echo "backend = \"$1\""
        case $1 in
        null) printf 'size = "%s MiB"\nblock_size = %s\n' "$2" "$3" ;;
        memory)
            printf 'size = "%s MiB"\nblock_size = %s\n' "$2" "$3"
            # A host keeps the disk when the daemon was killed: what it has read and written is not compared.
            printf 'uuid = "00000000-0000-4000-8000-%012d"\n' $((MEMORIES += 1))
            ;;
        pmem) printf 'path = "%s"\nsize = "%s MiB"\nblock_size = %s\ncreate = true\n' "$2" "$3" "$4" ;;
        file | block) printf 'path = "%s"\nblock_size = %s\n' "$2" "$3" ;;
        nvme) echo "device = \"$2\"" ;;
        esac
    } >>$CONFIG
}

# is_serving: says whether the daemon that was started last has told that it serves. It listens before that.
is_serving() { grep -q 'sluiced: serving ' "/run/sluiced-$STARTS.log"; }

target_start() {
    STARTS=$((STARTS + 1))
    # Its own session, so that a scenario's signals reach the daemon alone; exec, so that $! is it.
    (exec setsid nsenter --net=/run/netns/target /run/bin/sluiced --config $CONFIG) \
        >/run/sluiced-$STARTS.log 2>&1 &
    DAEMON=$!
    eventually 30 is_serving || fail "sluiced does not serve: $(tail -5 /run/sluiced-$STARTS.log)"
}

target_kill() {
    kill -9 $DAEMON
    wait $DAEMON || true
    DAEMON=0
}

# target_stop: sends SIGTERM; returns the daemon's exit code.
target_stop() {
    local code=0
    kill -TERM $DAEMON
    wait $DAEMON || code=$?
    DAEMON=0
    return $code
}

sluice() { timeout 10 /run/bin/sluice "$@"; }

# target_controllers: prints how many controllers hosts hold (a controller has several connections).
target_controllers() {
    local list
    list=$(sluice connections --json)
    { grep -oE '"queue": *0([^0-9]|$)' <<<"$list" || true; } | wc -l
}

metric() {
    in_target bash -c "exec 3<>/dev/tcp/${METRICS/:/\/}
        printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3; cat <&3" | sed -n "s/^$1[^ ]* //p"
}

add_namespace() { # NQN NSID SIZE_MIB
    expect "namespace add" sluice namespace add "$1" --nsid "$2" --backend memory --size "$3MiB"
}
resize_namespace() { expect "namespace resize" sluice namespace resize "$1" "$2" "$3MiB"; }
remove_namespace() { expect "namespace remove" sluice namespace remove --force "$1" "$2"; }
add_subsystem() { expect "subsystem add" sluice subsystem add "$1" --any-host; }
