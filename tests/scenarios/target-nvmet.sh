# The kernel's own target behind the same verbs as target-sluiced.sh: it shows that a scenario is
# right about what a host does. It cannot do everything; target_can tells.
# shellcheck shell=bash
NVMET=/sys/kernel/config/nvmet
PORTS=() CURRENT_SUBSYSTEM='' NEXT_NSID=1

target_can() {
    case $1 in process | cli | discovery-port | compare | metrics | qos) return 1 ;; *) return 0 ;; esac
}

target_prepare() { :; }
target_report() { :; }

listener() {
    local address=$1 n=$((${#PORTS[@]} + 1))
    [ "${2:-}" != discovery_only ] || return 0
    mkdir "$NVMET/ports/$n"
    echo $TRANSPORT >"$NVMET/ports/$n/addr_trtype"
    echo ipv4 >"$NVMET/ports/$n/addr_adrfam"
    echo "${address%:*}" >"$NVMET/ports/$n/addr_traddr"
    echo "${address#*:}" >"$NVMET/ports/$n/addr_trsvcid"
    PORTS+=("$n")
}

subsystem() {
    local dir=$NVMET/subsystems/$1 host
    CURRENT_SUBSYSTEM=$1 NEXT_NSID=1
    mkdir "$dir"
    shift
    if [ "$1" = any ]; then
        echo 1 >"$dir/attr_allow_any_host"
        return
    fi
    for host in "$@"; do
        [ -d "$NVMET/hosts/$host" ] || mkdir "$NVMET/hosts/$host"
        ln -s "$NVMET/hosts/$host" "$dir/allowed_hosts/"
    done
}

# namespace BACKEND SIZE_MIB|PATH BLOCK_SIZE: declares a namespace.
namespace() {
    nvmet_namespace "$CURRENT_SUBSYSTEM" $NEXT_NSID "$@"
    NEXT_NSID=$((NEXT_NSID + 1))
}

nvmet_namespace() {
    local nqn=$1 nsid=$2 backend=$3 what=$4 block=$5 path
    local dir=$NVMET/subsystems/$nqn/namespaces/$nsid
    case $backend in
    memory)
        if [ "$block" = 512 ]; then
            path=$(ram_disk "ns-${nqn##*:}-$nsid" "$what" 512)
        else
            path=/tmp/ns-${nqn##*:}-$nsid
            truncate -s "${what}M" "$path"
        fi
        ;;
    file) path=$what ;;
    nvme) path=/dev/${what#/dev/ng} && path=${path/\/dev\//\/dev\/nvme} ;;
    esac
    mkdir "$dir"
    echo "$path" >"$dir/device_path"
    echo 1 >"$dir/enable"
}

# The port is made ready by the process that links the first subsystem, in its network namespace.
link_all() {
    local port s
    for port in "${PORTS[@]}"; do
        for s in "$NVMET"/subsystems/*; do
            [ "${s##*:}" = device ] || [ -e "$NVMET/ports/$port/subsystems/${s##*/}" ] ||
                in_target ln -s "$s" "$NVMET/ports/$port/subsystems/"
        done
    done
}
target_start() { link_all; }
target_kill() {
    local port
    for port in "${PORTS[@]}"; do rm -f "$NVMET/ports/$port"/subsystems/*; done
}
target_stop() { target_kill; }

target_controllers() {
    find /sys/kernel/debug/nvmet -mindepth 2 -maxdepth 2 -type d -name 'ctrl*' \
        -not -path '*:device/*' | wc -l
}

# nvmet sends its notice just before the namespace can be identified: a quick host asks too early.
add_namespace() {
    nvmet_namespace "$1" "$2" memory "$3" 4096
    sleep 0.2
    nvme ns-rescan "/dev/$(controller "$1")"
}
resize_namespace() {
    truncate -s "$3M" "/tmp/ns-${1##*:}-$2"
    echo 1 >"$NVMET/subsystems/$1/namespaces/$2/revalidate_size"
}
remove_namespace() { rmdir "$NVMET/subsystems/$1/namespaces/$2"; }
add_subsystem() {
    subsystem "$1" any
    link_all
}
