//! `[[listener]]`, `[[subsystem]]`, `[[subsystem.host]]` and `[[subsystem.namespace]]`.

use std::time::Duration;

use super::key::{ConfigKey, Documented, Shape, key, words};
use super::limits::{NSID_MAX, PARALLEL_MAX, WINDOW_MAX};
use super::qos::CLASSES;
use super::values::Values;
use crate::backend::KINDS;
use crate::endpoint::{CHANNELS, TRANSPORTS};
use crate::qos::device::ORDERS;

/// The words of `transport`.
const TRANSPORT: [&str; 2] = words(&TRANSPORTS);
/// The words of `tls`.
const TLS: [&str; 3] = words(&CHANNELS);
/// The words of `backend`.
const BACKEND: [&str; 6] = words(&KINDS);
/// The words of `order`.
const ORDER: [&str; 2] = words(&ORDERS);

/// The tables of this file in docs/reference/configuration.md.
pub(super) const TABLES: &[Documented] = &[
    ("## `[[listener]]`", LISTENER),
    ("## `[[subsystem]]`", SUBSYSTEM),
    ("## `[[subsystem.host]]`", HOST),
    ("## `[[subsystem.namespace]]`", NAMESPACE),
];

/// The keys of `[[listener]]`.
pub const LISTENER: &[ConfigKey] = &[
    key(
        "address",
        Values::Address,
        "needed",
        "`\"192.0.2.1:4420\"`; `\"0.0.0.0:4420\"`: all IPv4 addresses; `\"[::]:4420\"`: all IPv6 \
         addresses, and no IPv4 address (for both, write two listeners); \
         `\"[fe80::1%eth0]:4420\"`: a link-local address, with its interface. The port of NVMe is \
         4420, the port of discovery is 8009.",
    ),
    key(
        "transport",
        Values::Words(&TRANSPORT),
        "`\"tcp\"`",
        "`\"rdma\"`, in builds with RDMA, needs an address of an RDMA device. Each transport has ports \
         of its own: both may have 4420.",
    )
    .option("", "Transport of the listener"),
    key(
        "advertise",
        Values::Address,
        "`address`",
        "The address that discovery returns to all hosts: for hosts behind address translation, or \
         to name one address of a listener on all addresses. Without it, discovery shows each host \
         the addresses that it can reach \
         ([operating](../use/operating.md#addresses-in-discovery)).",
    )
    .option("ADDRESS", "The address that discovery hands out"),
    key(
        "discovery_only",
        Values::Boolean,
        "`false`",
        "Whether the listener has the discovery controller only.",
    )
    .option("", "Only answer discovery here")
    .shape(Shape::Flag(true)),
    key(
        "subsystems",
        Values::Other("list of NQNs in this file"),
        "all",
        "The subsystems that the listener serves.",
    )
    .option(
        "NQN",
        "NQN of a subsystem that is served here; may be given more than once; all where not \
         given",
    )
    .shape(Shape::List)
    .long("subsystem"),
    key(
        "tls",
        Values::Words(&TLS),
        "`\"off\"`",
        "Whether connections use TLS 1.3 with a key of `host_keys` or `keyring` \
         ([security](../use/security.md)). `\"allowed\"`: connections of hosts that have a key (in \
         a keyring alone: if the host requests TLS). `\"required\"`: all connections. For \
         `tcp`.",
    )
    .option("", "Whether connections are over TLS"),
    key(
        "require_authentication",
        Values::Boolean,
        "`false`",
        "Whether hosts must authenticate to connect here, also to the discovery controller \
         ([security](../use/security.md#require-authentication)).",
    )
    .option("", "Refuse hosts here that have neither a secret nor a TLS key in use")
    .shape(Shape::Flag(true)),
    key(
        "class",
        Values::Words(&CLASSES),
        "none",
        "The class of connections that come through the listener and name none themselves.",
    )
    .option("", "Class of connections that come through the listener and name none themselves"),
    key(
        "link",
        Values::AnyLink,
        "`\"default\"`",
        "The link that the listener's connections share.",
    )
    .option("NAME", "Link that the listener's connections share; the default one where not given"),
];

/// The keys of `[[subsystem]]`.
pub const SUBSYSTEM: &[ConfigKey] = &[
    key(
        "nqn",
        Values::Other("NQN, at most 223 bytes"),
        "needed",
        "`nqn.yyyy-mm.reversed.domain:name`, or `nqn.2014-08.org.nvmexpress:uuid:` and a whole \
         UUID.",
    ),
    key(
        "serial",
        Values::Other("1 to 20 printable ASCII characters"),
        "chosen by the daemon",
        "With `state` random and kept there, without it derived from `nqn`. Each subsystem has its own.",
    )
    .option("", "Serial number, up to 20 characters; the daemon chooses one where not given")
    .shape(Shape::Text),
    key("model", Values::Other("1 to 40 printable ASCII characters"), "the product's name", "")
        .option("", "Model, up to 40 characters")
        .shape(Shape::Text),
    key("allow_any_host", Values::Boolean, "`false`", "")
        .option("", "Let any host connect")
        .shape(Shape::Flag(true))
        .long("any-host"),
    key(
        "require_authentication",
        Values::Boolean,
        "`false`",
        "Whether hosts must authenticate to connect to the subsystem \
         ([security](../use/security.md#require-authentication)).",
    )
    .option("", "Refuse hosts that have neither a secret nor a TLS key in use")
    .shape(Shape::Flag(true)),
    key(
        "hosts",
        Values::Nqns,
        "none",
        "The hosts that may connect, by the NQN in each host's `/etc/nvme/hostnqn`. A host that is \
         not listed is refused unless `allow_any_host` is set.",
    )
    .option("NQN", "NQN of a host that may connect; may be given more than once")
    .long("host"),
];

/// The keys of `[[subsystem.host]]`.
pub const HOST: &[ConfigKey] = &[
    key("nqn", Values::Nqn, "needed", "The host's NQN; a host in `hosts` has no entry of its own."),
    key(
        "addresses",
        Values::Networks,
        "any address",
        "The host may come from these addresses only: `[\"192.0.2.7\", \"198.51.100.0/24\", \
         \"2001:db8::/32\"]`.",
    )
    .option(
        "NETWORK",
        "Address or network that the host comes from; may be given more than once; any address \
         where none was ever given",
    )
    .long("address"),
    key(
        "namespaces",
        Values::Nsids,
        "all",
        "The host sees these namespaces only, and only if their own `hosts` allow it too. \
         Namespaces that do not exist yet may be named.",
    )
    .option("NSID,…", "Namespaces that the host sees, such as 1,3; all where none was ever given"),
    key(
        "read_only",
        Values::Boolean,
        "`false`",
        "Whether the host may only read. Identify reports its disks as write protected; its writes \
         are rejected.",
    )
    .option("", "Whether the host may only read"),
    key(
        "max_class",
        Values::Words(&CLASSES),
        "none",
        "The highest class of the host: its commands and connections that name a higher one have \
         this one. A policy may allow less.",
    )
    .or_none("CLASS", "Highest class of the host; none takes it back"),
];

/// The keys of `[[subsystem.namespace]]`.
pub const NAMESPACE: &[ConfigKey] = &[
    key(
        "nsid",
        Values::Number { min: 1, max: NSID_MAX as u64 },
        "the lowest that is free",
        "Set it: without it, an entry that is inserted later renumbers the entries after it.",
    )
    .option("", "Namespace identifier; the lowest that was never in use where not given"),
    key(
        "backend",
        Values::Words(&BACKEND),
        "needed",
        "`null` reads zeroes and discards writes. `memory` is allocated as it is written, and lost \
         when the daemon ends. `file` and `block` mean the same: a path. `pmem` is persistent \
         memory, or a file in its place. `nvme` passes commands to a drive unchanged.",
    )
    .option(
        "",
        "Storage of the blocks: null reads zeroes and forgets writes, memory is lost when the \
         daemon ends, file is created where it is missing, block is a block device, pmem a device \
         or file of persistent memory, nvme an NVMe namespace by passthrough",
    ),
    key(
        "size",
        Values::Other("whole blocks, 4 KiB to 1 EiB, for memory to 4 TiB"),
        "needed for null and memory; else the size of the file or device",
        "A smaller file grows to it (not for `pmem`); of a larger file or device hosts get this \
         much. Not for `nvme`.",
    )
    .option("", "Size, such as \"4 GiB\" (null, memory, file, block, pmem)")
    .shape(Shape::Text),
    key(
        "create",
        Values::Boolean,
        "`false`",
        "For file and pmem, with `size`: a missing file is created, but never in place of a file \
         that was served before: see below.",
    ),
    key(
        "block_size",
        Values::Other("512, 4096"),
        "4096; the device's own for `block`, the region's for `pmem`",
        "Not for `nvme`.",
    )
    .option("BYTES", "Logical block size: 512 or 4096 bytes (null, memory, file, block, pmem)"),
    key("path", Values::Path, "needed for file, block and pmem", "")
        .option("", "The file or device (file, block, pmem)"),
    key(
        "direct",
        Values::Boolean,
        "`true`",
        "For file and block: whether to go around the page cache where that is possible \
         ([below](#capabilities-of-a-file-or-device)).",
    )
    .option("", "Go through the page cache (file, block)")
    .shape(Shape::Flag(false))
    .long("buffered"),
    key(
        "device",
        Values::Path,
        "needed for nvme",
        "The generic character device `/dev/ngXnY`, not the block device.",
    )
    .option("", "The character device /dev/ngXnY (nvme)"),
    key(
        "uuid",
        Values::Other("UUID"),
        "chosen by the daemon",
        "Hosts identify the disk by its UUID. With `state`, it is random and kept there for as \
         long as `path` or `device` and the file itself stay. Without `state`, it is derived from the file or device.",
    )
    .option("", "UUID; the daemon chooses one where not given")
    .shape(Shape::Text),
    key(
        "nguid",
        Values::Other("32 hexadecimal digits"),
        "the UUID's, with its OUI field marked as no vendor's",
        "",
    )
    .option("", "NGUID, 32 hexadecimal digits; the UUID's where not given")
    .shape(Shape::Text),
    key(
        "read_only",
        Values::Boolean,
        "`false`",
        "Several namespaces may share a file or device when all of them are read only.",
    )
    .option("", "Refuse writes")
    .shape(Shape::Flag(true)),
    key(
        "force",
        Values::Boolean,
        "`false`",
        "For block, nvme and pmem: a device that holds a file system or other data is served, although \
         the daemon never saw it before. See below.",
    )
    .option("", "Take the device even if it holds a file system, swap space or part of a RAID")
    .shape(Shape::Flag(true)),
    key(
        "hosts",
        Values::Nqns,
        "all hosts that the subsystem allows",
        "The hosts that see this namespace.",
    )
    .option(
        "NQN",
        "NQN of a host that sees the namespace; may be given more than once; all hosts where not \
         given",
    )
    .long("host"),
    key(
        "class",
        Values::Words(&CLASSES),
        "none",
        "The class of commands where neither they, their connection nor a policy name one.",
    )
    .option("", "Class of commands where neither they, their connection nor a policy name one"),
    key(
        "window",
        Values::Other("1 to 65536, `\"off\"`, `\"adaptive\"`"),
        "as in `[qos]`",
        "The amount that the namespace's device may hold at once.",
    )
    .option("", "Commands that the device may hold at once: a number, off, or adaptive"),
    key(
        "window_max",
        Values::Number { min: 1, max: WINDOW_MAX },
        "1024",
        "With `window = \"adaptive\"`: the largest window.",
    ),
    key(
        "latency_target",
        Values::Time { min: Duration::from_micros(1), max: Duration::from_secs(10) },
        "`\"2 ms\"` for the window, `\"20 ms\"` for containers",
        "With `window = \"adaptive\"`: the latency that the device keeps. With `order = \
         \"containers\"`: the deadline of a single command. A command that is charged to a \
         reservation has until the end of the reservation's period, if that is later.",
    )
    .option("TIME", "The latency that an adaptive window keeps, such as \"2 ms\""),
    key(
        "order",
        Values::Words(&ORDER),
        "`\"fair\"`",
        "Inside a class: sessions and hosts in turn; or containers, for disks with heads.",
    ),
    key(
        "seeks",
        Values::Boolean,
        "as the kernel says of the device",
        "Whether the device has a moving head. Reservations on it count its seeks, and bound the \
         commands that wait in it. If the kernel does not know, a device with `order = \
         \"containers\"` counts as one with a head.",
    ),
    key(
        "flush_is_output",
        Values::Boolean,
        "`false`",
        "With `order = \"containers\"`: a Flush ends a container.",
    ),
    key(
        "mean_time",
        Values::Time { min: Duration::from_nanos(1), max: Duration::from_secs(10) },
        "measured",
        "The mean time that a 4 KiB command takes of the device. Reservations are checked against \
         it.",
    ),
    key(
        "worst_time",
        Values::Other("time, at least `mean_time`"),
        "measured",
        "The longest time that a 4 KiB command takes of the device.",
    ),
    key(
        "parallelism",
        Values::Number { min: 1, max: PARALLEL_MAX },
        "measured",
        "Commands that the device carries out at the same time.",
    ),
    key(
        "forward_class",
        Values::Boolean,
        "`false`",
        "For nvme: the drive sees the class bits of a command (CDW13 bits 9:8) too.",
    ),
    key(
        "service_time",
        Values::Time { min: Duration::ZERO, max: Duration::from_secs(10) },
        "none",
        "For null: the namespace imitates a device that takes this time for each command, give or \
         take an eighth, to try out quality of service.",
    ),
    key(
        "bandwidth",
        Values::Bandwidth("200 MiB/s"),
        "none",
        "For null: bytes take time too, on each channel.",
    ),
    key(
        "channels",
        Values::Number { min: 1, max: PARALLEL_MAX },
        "1",
        "For null: commands that the device carries out at the same time.",
    ),
    key(
        "errors",
        Values::Other("1 % to 100 %"),
        "none",
        "For null: the share of commands that fail, as on a medium with flaws. It serves to try \
         out how hosts and monitoring react.",
    ),
];
