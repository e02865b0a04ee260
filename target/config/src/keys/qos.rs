//! `[qos]`, `[[session]]` with `reserve`, and `[[policy]]`.

use std::time::Duration;

use super::key::{ConfigKey, Documented, Shape, joined, key, words};
use super::limits::{BURST_MAX, COMMANDS_MAX, NSID_MAX, RATE_MAX, WEIGHT_MAX, WINDOW_MAX};
use super::values::Values;
use crate::qos::values;

/// The tables of this file in docs/reference/configuration.md.
pub(super) const TABLES: &[Documented] = &[
    ("## `[qos]`", QOS),
    ("## `[[session]]`", SESSION),
    ("## `reserve`", RESERVE),
    ("## `[[profile]]`", PROFILE),
    ("## `[[policy]]`", POLICY),
];

/// The classes' names, the most urgent first.
pub const CLASSES: [&str; 4] = words(&values::CLASSES);
/// The words of `unit`.
const UNITS: [&str; 3] = words(&values::UNITS);
/// The words of `locality`.
const LOCALITIES: [&str; 2] = words(&values::LOCALITIES);

/// The keys of `[qos]`.
pub const QOS: &[ConfigKey] = &[
    key(
        "enabled",
        Values::Boolean,
        "`true`",
        "With `false`, commands go to their devices as they \
     come.",
    )
    .option("", "Whether commands take turns by class and session"),
    key(
        "weights",
        Values::Other("three numbers, 1 to 256"),
        "`[3, 2, 1]`",
        "The shares of High, Medium and Low where all of them have work.",
    )
    .option("H,M,L", "Weights of high, medium and low")
    .shape(Shape::Numbers),
    key(
        "unit",
        Values::Words(&UNITS),
        "`\"bytes\"`",
        "The unit in which the shares of classes, sessions and hosts are counted. `\"bytes\"`: \
         bytes read or written, at least 4 KiB for each command. `\"time\"`: estimated device \
         time. See [quality of service](../use/qos.md#unit-of-a-share).",
    )
    .option("", "The unit in which shares are counted"),
    key(
        "burst",
        Values::Other("1, 2, 4, 8, 16, 32, 64, `\"unlimited\"`"),
        "4",
        "At most this many commands are taken from one queue at a time. If `unit` is not \
         `\"commands\"`: the cost of as many reads of 4 KiB, and at least one command.",
    )
    .option("", "Commands taken from one queue at a time: 1, 2, 4 .. 64, or unlimited"),
    key(
        "urgent_share",
        Values::Share { min: 1, max: 90 },
        "`\"20 %\"`",
        "The share of a device (or of the part beside reservations) that Urgent may take strictly \
         before the others. Beyond it Urgent has the weight of High.",
    )
    .option("SHARE", "Share of a device that Urgent may take strictly first, such as \"20 %\""),
    key(
        "window",
        Values::Other("1 to 65536, `\"off\"`, `\"adaptive\"`"),
        "128",
        "The amount that each device may hold at once, in commands of ordinary size. `\"off\"`: \
         any amount, so that the device decides the order. `\"adaptive\"`: the amount that the \
         device completes within `latency_target`.",
    )
    .option("", "Commands that a device may hold at once: a number, off, or adaptive"),
    key(
        "latency_target",
        Values::Time { min: Duration::from_micros(1), max: Duration::from_secs(10) },
        "`\"2 ms\"`",
        "With `window = \"adaptive\"`: the latency that a device keeps.",
    )
    .option("TIME", "The latency that an adaptive window keeps, such as \"2 ms\""),
    key(
        "window_max",
        Values::Number { min: 1, max: WINDOW_MAX },
        "1024",
        "With `window = \"adaptive\"`: the largest window.",
    )
    .option("COMMANDS", "Largest adaptive window"),
    key(
        "credits",
        Values::Number { min: 1, max: COMMANDS_MAX },
        "65536",
        "Credits of the root session: commands in devices at one time, all devices together.",
    )
    .was("operations")
    .option("COMMANDS", "Commands in devices at one time, all together"),
    key(
        "payload",
        Values::Size { min: 4096, max: 1 << 40 },
        "`\"1 TiB\"`",
        "Payload credits of the root session: bytes in devices at one time; never more than \
         `io_memory` of all reactors.",
    )
    .option("SIZE", "Bytes in devices at one time, such as \"64 MiB\""),
    key(
        "queue",
        Values::Number { min: 1, max: COMMANDS_MAX },
        "65536",
        "Commands that may wait in the target at one time. Beyond it hosts are held back, and \
         then told to retry later.",
    )
    .option("COMMANDS", "Commands that may wait in the target at one time"),
    key(
        "wrr",
        Values::Boolean,
        "`true`",
        "Controllers offer NVMe's weighted round robin with urgent (CAP.AMS). A host can then \
         select a class for each queue, and order its queues by its own weights.",
    )
    .option("", "Whether controllers offer weighted round robin with urgent"),
    key("mark", Values::Boolean, "`true`", "Answers carry the DSCP of their connection's class.")
        .option("", "Whether answers carry the DSCP of their connection's class"),
    key(
        "dscp",
        Values::Other("table of `urgent`, `high`, `medium`, `low`, 0 to 63 each"),
        "46, 34, 18, 8",
        "The DSCP of each class, for `mark` and for connections that come with one (`nvme connect \
         --tos`). 0 means none.",
    )
    .option("CLASS=DSCP", "DSCP of classes, such as urgent=46,high=34")
    .shape(Shape::ByClass),
];

const IOPS: Values = Values::Count { min: 1, max: RATE_MAX };

/// The limits of sessions and profiles.
const LIMITS: &[ConfigKey] = &[
    key("iops", IOPS, "no limit", "The most commands in a second.")
        .or_none("", "Largest number of commands in a second; none for no limit"),
    key("bandwidth", Values::Bandwidth("200 MiB/s"), "no limit", "The most bytes in a second.")
        .or_none(
            "RATE",
            "Largest number of bytes in a second, such as \"200 MiB/s\"; none for no limit",
        ),
    key(
        "iops_per_gib",
        IOPS,
        "no limit",
        "The most commands in a second for each GiB of the session's namespace; for a subsystem's \
         session, of all its namespaces. Not for other sessions. If `iops` is set too, the lower \
         limit applies.",
    )
    .or_none("", "Largest number of commands in a second for each GiB; none for no limit"),
    key(
        "bandwidth_per_gib",
        Values::Bandwidth("1 MiB/s"),
        "no limit",
        "The most bytes in a second for each GiB, likewise, beside `bandwidth`.",
    )
    .or_none("RATE", "Largest number of bytes in a second for each GiB; none for no limit"),
    key(
        "read_iops",
        IOPS,
        "no limit",
        "The most commands in a second that do not change blocks: reads, Compare, Verify, Flush.",
    )
    .or_none("", "Largest number of reads in a second; none for no limit"),
    key(
        "read_bandwidth",
        Values::Bandwidth("200 MiB/s"),
        "no limit",
        "The most bytes of such commands in a second.",
    )
    .or_none("RATE", "Largest number of bytes read in a second; none for no limit"),
    key(
        "write_iops",
        IOPS,
        "no limit",
        "The most commands in a second that change blocks: writes, Write Zeroes, Dataset \
         Management.",
    )
    .or_none("", "Largest number of writes in a second; none for no limit"),
    key(
        "write_bandwidth",
        Values::Bandwidth("200 MiB/s"),
        "no limit",
        "The most bytes of such commands in a second.",
    )
    .or_none("RATE", "Largest number of bytes written in a second; none for no limit"),
    key(
        "burst",
        Values::Time { min: Duration::from_millis(1), max: Duration::from_secs(60) },
        "`\"1 ms\"`",
        "Each limit of the session saves credit while the session uses less: at most the limit's \
         amount for this time.",
    )
    .or_none("TIME", "Time for which limits save credit, such as \"10 s\"; none for the default"),
];

/// The keys of `[[profile]]`.
pub const PROFILE: &[ConfigKey] = &joined::<10>(&[
    &[key("name", Values::Other("1 to 64 letters, digits and `-_.:@+`"), "needed", "")],
    LIMITS,
]);

/// The keys of `[[session]]`.
pub const SESSION: &[ConfigKey] = &joined::<17>(&[BEFORE_LIMITS, LIMITS, BEHIND_LIMITS]);

const BEFORE_LIMITS: &[ConfigKey] = &[
    key(
        "name",
        Values::Other("1 to 64 letters, digits and `-_.:@+`; an NQN; `NQN/NSID`"),
        "needed",
        "`root` is the session above all; `[qos]` sets it.",
    ),
    key(
        "parent",
        Values::Other("name of another session"),
        "the root; the subsystem's for a namespace's",
        "At most 16 levels.",
    )
    .or_none("NAME", "Name of the parent session; none takes the setting back"),
    key(
        "credit_share",
        Values::Share { min: 1, max: 100 },
        "as many as the parent's",
        "Credits, as a share of the parent's. The shares of one parent's children are at most \
         100 % together.",
    )
    .was("operations")
    .or_none(
        "SHARE",
        "Commands in devices at one time, as a share of the parent's, such as \"50 %\"",
    ),
    key(
        "payload_share",
        Values::Share { min: 1, max: 100 },
        "as many as the parent's",
        "Payload credits, likewise.",
    )
    .was("payload")
    .or_none("SHARE", "Bytes in devices at one time, as a share of the parent's"),
];

const BEHIND_LIMITS: &[ConfigKey] = &[
    key(
        "profile",
        Values::Profile,
        "none",
        "The profile that supplies limits and burst that the session does not set itself.",
    )
    .or_none("NAME", "Name of the profile whose limits the session has; none takes it back"),
    key(
        "queue",
        Values::Number { min: 1, max: COMMANDS_MAX },
        "as in `[qos]`",
        "Commands on the session's own account, without the sessions below it, that may wait \
         before hosts are held back.",
    )
    .or_none("COMMANDS", "Commands that may wait before hosts are held back"),
    key(
        "weight",
        Values::Number { min: 1, max: WEIGHT_MAX },
        "100",
        "The session's share, within a class, beside the other sessions of its parent that have \
         commands waiting. Hosts directly in the parent have 100 together.",
    )
    .or_none("", "Share beside other sessions of the parent, 1 to 1000; none for 100"),
    key("reserve", Values::Other("table"), "none", "A reservation, see below."),
];

/// The keys of `reserve`.
pub const RESERVE: &[ConfigKey] = &[
    key("commands", Values::Count { min: 1, max: RATE_MAX }, "", "Commands in each period.")
        .was("operations")
        .option("COMMANDS", "Commands in each period"),
    key("bytes", Values::Other("size, from 512 B"), "", "Bytes in each period.")
        .option("SIZE", "Bytes in each period, such as \"200 MiB\"")
        .shape(Shape::Text),
    key("time", Values::Other("time, up to `period`"), "", "Time of the device in each period.")
        .option("TIME", "Time of the device in each period, such as \"100 ms\"")
        .shape(Shape::Text),
    key(
        "period",
        Values::Time { min: Duration::from_millis(1), max: Duration::from_secs(60) },
        "`\"1 s\"`",
        "",
    )
    .option("TIME", "The period, such as \"1 s\" [default: 1 s]"),
    key(
        "request_size",
        Values::Size { min: 512, max: 16 << 20 },
        "`\"4 KiB\"`",
        "The usual size of a command.",
    )
    .option("SIZE", "The usual size of a command [default: 4 KiB]"),
    key("writes", Values::Share { min: 0, max: 100 }, "`\"0 %\"`", "Writes among the commands.")
        .option("SHARE", "Writes among the commands [default: 0 %]"),
    key(
        "locality",
        Values::Words(&LOCALITIES),
        "`\"random\"`",
        "Whether the commands go to random or to successive blocks.",
    )
    .option("", "Whether the commands go to random or to successive blocks [default: random]"),
    key(
        "latency",
        Values::Time { min: Duration::from_millis(2), max: Duration::from_secs(60) },
        "none",
        "The longest time from a command's arrival to its completion, for commands that arrive at \
         the reserved rate, apart from `burst`.",
    )
    .option("TIME", "The longest time that a command at the reserved rate may take"),
    key(
        "burst",
        Values::Number { min: 1, max: BURST_MAX },
        "1",
        "Commands that may come at once.",
    )
    .option("COMMANDS", "Commands that may come at once [default: 1]"),
    key(
        "buffers",
        Values::Number { min: 1, max: 60 },
        "1",
        "Periods whose writes the target's buffers may hold: the device's period is this many times as \
         long. For `writes = \"100 %\"`, without `latency`.",
    )
    .option("PERIODS", "Periods whose writes the target's buffers may hold [default: 1]"),
    key(
        "namespace",
        Values::Other("`NQN/NSID`"),
        "a namespace's own session: that one; else needed",
        "The namespace on whose device the reservation is.",
    )
    .option(
        "NQN/NSID",
        "The namespace on whose device the reservation is; needed where the session is not a \
         namespace's own",
    )
    .shape(Shape::Text),
];

/// The keys of `[[policy]]`.
pub const POLICY: &[ConfigKey] = &[
    key("host", Values::Nqn, "any host", "")
        .option("NQN", "NQN of the host; any host where not given"),
    key("subsystem", Values::Other("NQN in this file"), "any subsystem", "")
        .option("NQN", "NQN of the subsystem; any subsystem where not given")
        .shape(Shape::Text),
    key(
        "nsid",
        Values::Number { min: 1, max: NSID_MAX as u64 },
        "any namespace",
        "Only with `subsystem`.",
    )
    .option("", "Namespace identifier; any namespace where not given")
    .requires("subsystem"),
    key(
        "addresses",
        Values::Networks,
        "any address",
        "The policy is for connections from these addresses only.",
    )
    .option("NETWORK", "Address or network that connections come from; may be given more than once")
    .long("address"),
    key(
        "class",
        Values::Words(&CLASSES),
        "none",
        "The class of commands that name none, on connections that name none.",
    )
    .option("", "The class of commands that name none, on connections that name none"),
    key(
        "max_class",
        Values::Other("the same"),
        "none",
        "Commands that name a higher class have this one.",
    )
    .option("", "The highest class: commands that name a higher one have this one")
    .shape(Shape::Word(&CLASSES)),
    key(
        "urgent_iops",
        Values::Count { min: 1, max: RATE_MAX },
        "no limit",
        "The most Urgent commands in a second; those beyond are High.",
    )
    .option("IOPS", "Largest number of Urgent commands in a second; those beyond are High"),
    key("session", Values::Session, "the namespace's", "The session that commands are charged to.")
        .option("NAME", "The session that commands are charged to"),
];
