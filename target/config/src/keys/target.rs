//! `[target]`.

use std::time::Duration;

use super::key::{ConfigKey, Documented, key, words};
use super::values::Values;
use crate::polling;

/// The words of `poll`.
const POLL: [&str; 3] = words(&polling::POLL);
/// The words of `clock`.
const CLOCK: [&str; 2] = words(&polling::CLOCK);

/// The tables of this file in docs/reference/configuration.md.
pub(super) const TABLES: &[Documented] = &[("## `[target]`", TARGET)];

/// The keys of `[target]`.
pub const TARGET: &[ConfigKey] = &[
    key(
        "cores",
        Values::Other("list of CPU numbers that are online, each once; or `\"auto\"`"),
        "the first CPU",
        "One reactor thread is pinned to each, of at most 64. Connections are spread over them. `auto` \
         chooses from the NUMA node of the network interfaces. It takes half of the usable physical cores \
         there, the last ones, at most 16. The log names the choice and its reason at the start.",
    ),
    key(
        "poll",
        Values::Words(&POLL),
        "`\"adaptive\"`",
        "The behaviour of an idle reactor: poll for `poll_time` and then sleep; never sleep \
         (lowest latency, a CPU at 100 %); sleep at once.",
    ),
    key(
        "poll_time",
        Values::Time { min: Duration::ZERO, max: Duration::from_secs(1) },
        "`\"50 us\"`",
        "The time for which an adaptive reactor polls.",
    ),
    key(
        "clock",
        Values::Words(&CLOCK),
        "`\"auto\"`",
        "The source of the daemon's time. `\"auto\"`: the CPU's time stamp counter if it is \
         invariant, else the kernel's `CLOCK_MONOTONIC`. `\"monotonic\"`: always \
         `CLOCK_MONOTONIC`, for machines with an unreliable counter, and for virtual time.",
    ),
    key(
        "io_memory",
        Values::Size { min: 1 << 20, max: 1 << 40 },
        "`\"64 MiB\"`",
        "I/O buffers of each reactor. Hosts wait while all are in use; the daemon never takes \
         more. No host holds more than a quarter, unless one command needs more.",
    )
    .with(", whole pages, at least 2 x `max_transfer`"),
    key(
        "max_transfer",
        Values::Size { min: 4096, max: 16 << 20 },
        "`\"1 MiB\"`",
        "The largest transfer of one command (MDTS); over RDMA 8 MiB at most.",
    )
    .with(", a power of two"),
    key(
        "in_capsule_data",
        Values::Size { min: 0, max: 64 << 10 },
        "`\"8 KiB\"`",
        "Writes up to this size carry their data in the command capsule, without an R2T.",
    )
    .with(", multiple of 16"),
    key(
        "rdma_in_capsule_data",
        Values::Size { min: 0, max: 64 << 10 },
        "`\"4 KiB\"`, or `in_capsule_data` where that is less",
        "The same over RDMA, where each entry of each queue has a receive buffer for that much.",
    )
    .with(", multiple of 16, at most `in_capsule_data`"),
    key(
        "queue_depth",
        Values::Number { min: 2, max: 1024 },
        "256",
        "Entries of the largest I/O queue.",
    ),
    key(
        "admin_queue_depth",
        Values::Number { min: 32, max: 4096 },
        "128",
        "Entries of the largest admin queue. A host that requests more is rejected. At one time, \
         128 commands of one admin queue may carry data (512 KiB), for any size of the queue.",
    ),
    key("max_queues", Values::Number { min: 1, max: 1024 }, "64", "I/O queues of each controller."),
    key(
        "max_connections",
        Values::Number { min: 2, max: 65536 },
        "4096",
        "Queues of I/O controllers at one time on all listeners together, admin queues included. A \
         controller holds a place for each granted queue, connected or not, and these queues are \
         never rejected. Later hosts are granted the remaining places. Each connection uses two \
         file descriptors. The daemon raises its soft limit as far as the hard limit allows, and \
         warns if that is not enough.",
    ),
    key(
        "max_address_connections",
        Values::Number { min: 2, max: 65536 },
        "half of `max_connections`",
        "Queues of I/O controllers that hosts of one address may have.",
    ),
    key(
        "max_discovery",
        Values::Number { min: 1, max: 16384 },
        "256",
        "Discovery controllers at one time, beside `max_connections`. One address may have a \
         quarter of them.",
    ),
    key(
        "max_waiting",
        Values::Number { min: 1, max: 16384 },
        "256",
        "Connections at one time that have sent no Connect, beside the others. Each is closed \
         after 10 s. Beyond this number, the oldest such connection of the address with the most \
         of them is closed.",
    ),
    key(
        "discovery_keep_alive",
        Values::Time { min: Duration::from_secs(1), max: Duration::from_secs(86_400) },
        "`\"5 min\"`",
        "The longest keep-alive time that a host may request for a discovery controller. A longer \
         time is rejected (Keep Alive Timeout Invalid). A controller without a keep-alive time \
         ends after two minutes without a command.",
    ),
    key(
        "retry_delays",
        Values::Other(
            "three times, `\"100 ms\"` to `\"5 min\"`, whole tenths of a second, none shorter than \
             the one before",
        ),
        "`[\"5 s\", \"30 s\", \"150 s\"]`",
        "The retry delays (CRDT1 to CRDT3 of Identify Controller) for commands that the target \
         sends back to hosts that support them. A command is sent back if it has waited for 10 s. \
         If its session is full, it is sent back when the expected wait reaches the first delay. \
         The host retries after the longest delay that does not exceed the expected wait, \
         and not before the first delay. If a namespace's file or \
         device is missing, hosts without multipath retry after the second delay, and from 20 s on \
         after the third. Linux gives up after five retries: with these values, after more than 10 \
         minutes.",
    ),
    key(
        "state",
        Values::Path,
        "none",
        "The file in which live changes are kept; its folder is created if it is missing. Without \
         this key live changes end with the daemon.",
    ),
    key(
        "reconnect_time",
        Values::Time { min: Duration::ZERO, max: Duration::from_secs(86_400) },
        "`\"10 min\"`",
        "The time for which a lost host counts as a user of its namespaces. A lost host did not \
         shut its controller down (`nvme disconnect` does), and may connect again with its file \
         systems mounted. Set this to the time for which hosts try to reconnect (`nvme connect \
         --ctrl-loss-tmo`, by default 10 minutes). Changes that would affect such a host are \
         refused unless they are forced \
         ([operating](../use/operating.md#hosts-that-have-lost-their-connection)). With `state` \
         this holds across restarts. 0: only connected hosts count.",
    ),
    key(
        "host_keys",
        Values::Path,
        "none",
        "The folder with the secrets and TLS keys of hosts: a file NAME.key of mode 0600 for each, \
         as `sluice host key` writes it. A host with a secret must authenticate with it. systemd \
         credentials with such names are read as well. `sluice reload` reads all again. See \
         [security](../use/security.md).",
    ),
    key(
        "keyring",
        Values::Keyring,
        "none",
        "The kernel keyring in which the daemon looks up TLS keys of hosts at each handshake, in \
         addition to `host_keys`. The keyring of nvme-cli is `\".nvme\"` \
         ([security](../use/security.md#keys-in-the-kernels-keyring)).",
    ),
    key(
        "require_authentication",
        Values::Boolean,
        "`false`",
        "Whether all hosts must authenticate, also to the discovery controller. A host without a \
         secret is rejected unless it connects over TLS with its own key \
         ([security](../use/security.md#require-authentication)).",
    ),
    key("control", Values::Path, "see below", "The control socket."),
    key(
        "control_group",
        Values::Group,
        "the daemon's own group",
        "The group of the control socket. Its members and root may use the socket.",
    ),
    key(
        "control_admins",
        Values::Group,
        "none",
        "If this is set, only this group's members, root and the daemon's own user may make \
         changes through the control socket. Other users of the socket may only read.",
    ),
    key(
        "metrics",
        Values::Address,
        "none",
        "The address at which [metrics](metrics.md) are served.",
    ),
    key(
        "drain_time",
        Values::Time { min: Duration::ZERO, max: Duration::from_secs(600) },
        "`\"10 s\"`",
        "The time for which SIGTERM waits for commands in flight.",
    ),
];
