//! `[[listener]]`, `[[subsystem]]` and `[[subsystem.namespace]]`.

use std::time::Duration;

use super::key::{CLASSES, ConfigKey, Documented, NSID_MAX, PARALLEL_MAX, Takes, WINDOW_MAX, key};

/// The tables of this file in docs/configuration.md.
pub(super) const TABLES: &[Documented] = &[
    ("## `[[listener]]`", LISTENER),
    ("## `[[subsystem]]`", SUBSYSTEM),
    ("## `[[subsystem.namespace]]`", NAMESPACE),
];

/// The keys of `[[listener]]`.
pub const LISTENER: &[ConfigKey] = &[
    key(
        "address",
        Takes::Address,
        "needed",
        "`\"0.0.0.0:4420\"`, `\"[::]:4420\"`, `\"192.0.2.1:4420\"`. 4420 is NVMe's port, 8009 \
         that of discovery.",
    ),
    key("transport", Takes::Words(&["tcp"]), "`\"tcp\"`", ""),
    key(
        "advertise",
        Takes::Address,
        "`address`",
        "The address that discovery hands out: for hosts behind address translation, or to name \
         one address of a listener on all.",
    ),
    key(
        "discovery_only",
        Takes::Boolean,
        "`false`",
        "Whether the listener has the discovery controller only.",
    ),
    key(
        "subsystems",
        Takes::Other("list of NQNs in this file"),
        "all",
        "The subsystems that the listener serves.",
    ),
    key(
        "class",
        Takes::Words(&CLASSES),
        "none",
        "The class of connections that come through the listener and name none themselves.",
    ),
    key(
        "link",
        Takes::Other("name of a `[[link]]`, or `\"default\"`"),
        "`\"default\"`",
        "The link that the listener's connections share.",
    ),
];

/// The keys of `[[subsystem]]`.
pub const SUBSYSTEM: &[ConfigKey] = &[
    key(
        "nqn",
        Takes::Other("NQN, at most 223 bytes"),
        "needed",
        "`nqn.yyyy-mm.reversed.domain:name`, or `nqn.2014-08.org.nvmexpress:uuid:` and a whole \
         UUID.",
    ),
    key("serial", Takes::Other("1 to 20 printable ASCII characters"), "derived from `nqn`", ""),
    key("model", Takes::Other("1 to 40 printable ASCII characters"), "the product's name", ""),
    key("allow_any_host", Takes::Boolean, "`false`", ""),
    key(
        "hosts",
        Takes::Nqns,
        "none",
        "The hosts that may connect: what `/etc/nvme/hostnqn` holds on each. A host that is not \
         listed is refused unless `allow_any_host` is set.",
    ),
];

/// The keys of `[[subsystem.namespace]]`.
pub const NAMESPACE: &[ConfigKey] = &[
    key(
        "nsid",
        Takes::Number { min: 1, max: NSID_MAX as u64 },
        "the lowest that is free",
        "Write it down: without it, an entry that is inserted later moves those after it.",
    ),
    key(
        "backend",
        Takes::Words(&["null", "memory", "file", "block", "nvme"]),
        "needed",
        "`null` reads zeroes and forgets writes; `memory` is allocated as it is written and lost \
         at the end; `file` and `block` mean the same, a path; `nvme` passes commands to a drive \
         as they are.",
    ),
    key(
        "size",
        Takes::Other("whole blocks, 4 KiB to 1 EiB, for memory to 4 TiB"),
        "needed for null and memory; else what the file or device has",
        "A smaller file grows to it; of a larger file or device hosts get this much. Not for \
         `nvme`.",
    ),
    key(
        "create",
        Takes::Boolean,
        "`false`",
        "For file, with `size`: the file is made where it is not there, but never in place of one \
         that was served before: see below.",
    ),
    key(
        "block_size",
        Takes::Other("512, 4096"),
        "4096; the device's own for `block`",
        "Not for `nvme`.",
    ),
    key("path", Takes::Path, "needed for file and block", ""),
    key(
        "direct",
        Takes::Boolean,
        "`true`",
        "For file and block: whether to go around the page cache where that is possible.",
    ),
    key(
        "device",
        Takes::Path,
        "needed for nvme",
        "The generic character device `/dev/ngXnY`, not the block device.",
    ),
    key("uuid", Takes::Other("UUID"), "derived from `nqn` and `nsid`", ""),
    key(
        "nguid",
        Takes::Other("32 hexadecimal digits"),
        "the UUID's, with its OUI field marked as nobody's",
        "",
    ),
    key(
        "read_only",
        Takes::Boolean,
        "`false`",
        "Several namespaces may share a file or device when all of them are read only.",
    ),
    key(
        "force",
        Takes::Boolean,
        "`false`",
        "For block and nvme: a device that holds a file system or the like is taken the first \
         time, too. See below.",
    ),
    key(
        "hosts",
        Takes::Nqns,
        "all that the subsystem allows",
        "The hosts that see this namespace.",
    ),
    key(
        "class",
        Takes::Words(&CLASSES),
        "none",
        "The class of commands where neither they, their connection nor a policy name one.",
    ),
    key(
        "window",
        Takes::Other("1 to 65536, `\"off\"`, `\"adaptive\"`"),
        "as in `[qos]`",
        "The amount that the namespace's device may hold at once.",
    ),
    key(
        "window_max",
        Takes::Number { min: 1, max: WINDOW_MAX },
        "1024",
        "With `window = \"adaptive\"`: the largest window.",
    ),
    key(
        "latency_target",
        Takes::Time { min: Duration::from_micros(1), max: Duration::from_secs(10) },
        "`\"2 ms\"` for the window",
        "With `window = \"adaptive\"`: the latency that the device keeps. With `order = \
         \"containers\"`: the deadline of a single command.",
    ),
    key(
        "order",
        Takes::Words(&["fair", "containers"]),
        "`\"fair\"`",
        "Inside a class: sessions and hosts in turn; or containers, for disks with heads.",
    ),
    key(
        "flush_is_output",
        Takes::Boolean,
        "`false`",
        "With `order = \"containers\"`: a Flush ends a container.",
    ),
    key(
        "mean_time",
        Takes::Time { min: Duration::from_nanos(1), max: Duration::from_secs(10) },
        "measured",
        "The mean time that a 4 KiB command takes of the device. Reservations are checked against \
         it.",
    ),
    key(
        "worst_time",
        Takes::Other("time, at least `mean_time`"),
        "measured",
        "The longest time that a 4 KiB command takes of the device.",
    ),
    key(
        "parallelism",
        Takes::Number { min: 1, max: PARALLEL_MAX },
        "measured",
        "Commands that the device carries out at the same time.",
    ),
    key(
        "forward_class",
        Takes::Boolean,
        "`false`",
        "For nvme: the drive sees the class bits of a command (CDW13 bits 9:8) too.",
    ),
    key(
        "service_time",
        Takes::Time { min: Duration::ZERO, max: Duration::from_secs(10) },
        "none",
        "For null: the namespace imitates a device that takes this time for each command, give or \
         take an eighth, to try out quality of service.",
    ),
    key(
        "bandwidth",
        Takes::Other("size for each second"),
        "none",
        "For null: bytes take time too, on each channel.",
    ),
    key(
        "channels",
        Takes::Number { min: 1, max: PARALLEL_MAX },
        "1",
        "For null: commands that the device carries out at the same time.",
    ),
    key(
        "errors",
        Takes::Other("1 % to 100 %"),
        "none",
        "For null: the share of commands that fail, as on a medium with flaws. It serves to try \
         out how hosts and monitoring react.",
    ),
];
