//! `[pmem]` and `[[region]]`.

use std::time::Duration;

use super::key::{ConfigKey, Documented, Shape, key};
use super::limits::{BATCH_MAX, CLIENTS_MAX, IOPS_MAX};
use super::values::Values;

/// The tables of this file in docs/reference/configuration.md.
pub(super) const TABLES: &[Documented] = &[("## `[pmem]`", PMEM), ("## `[[region]]`", REGION)];

/// The keys of `[pmem]`.
pub const PMEM: &[ConfigKey] = &[
    key(
        "address",
        Values::Address,
        "none",
        "The address of an RDMA device at which clients connect. Without it no region is served.",
    )
    .with(" that clients can connect to"),
    key(
        "capacity",
        Values::Count { min: 1, max: IOPS_MAX },
        "needed with `address`",
        "I/Os per second of all clients together (C_G), as they were measured. The daemon goes on \
         estimating them.",
    ),
    key(
        "client_capacity",
        Values::Count { min: 1, max: IOPS_MAX },
        "as `capacity`",
        "I/Os per second that one client can do by itself (C_L).",
    )
    .with(", at most `capacity`"),
    key(
        "deviation",
        Values::Count { min: 0, max: IOPS_MAX },
        "1 % of `capacity`",
        "The standard deviation of the measured capacity, in I/Os per second. A period in which \
         less was done than the capacity less three deviations says nothing of the capacity.",
    )
    .with(", at most `capacity`"),
    key(
        "period",
        Values::Time { min: Duration::from_millis(10), max: Duration::from_secs(60) },
        "`\"1 s\"`",
        "The time in which reservations and limits are kept (T).",
    ),
    key(
        "interval",
        Values::Time { min: Duration::from_millis(1), max: Duration::from_secs(60) },
        "`\"1 ms\"`",
        "The time between two checks of the tokens, and between two reports of a client.",
    )
    .with(", at most `period`"),
    key(
        "batch",
        Values::Number { min: 1, max: BATCH_MAX },
        "1000",
        "Tokens that a client takes at once from the common pool (B).",
    ),
    key(
        "clients",
        Values::Number { min: 1, max: CLIENTS_MAX },
        "64",
        "The most grants at one time. Each client has one for each region that it uses.",
    ),
    key(
        "io_size",
        Values::Size { min: 64, max: 16 << 20 },
        "`\"4 KiB\"`",
        "The most bytes of an I/O, which takes one token. The daemon counts each client's packets by \
         it ([clients without tokens](../use/pmem.md#clients-without-tokens)).",
    ),
];

/// The number of keys of `[[region]]` that stay as they are while the region exists; they come first.
const FIXED: usize = 4;

/// The keys of `[[region]]`.
pub const REGION: &[ConfigKey] = &[
    key(
        "name",
        Values::Other("1 to 16 letters, digits and `-_.`"),
        "needed",
        "The name by which clients ask for the region.",
    ),
    key(
        "path",
        Values::Path,
        "none: memory, which survives nothing",
        "A device `/dev/daxX.Y`, or a file.",
    )
    .option(
        "",
        "The device /dev/daxX.Y, or the file; memory that survives nothing where not given",
    ),
    key("create", Values::Boolean, "`false`", "With `path` and `size`: a missing file is created.")
        .option("", "Create the file where it is missing")
        .shape(Shape::Flag(true)),
    key("read_only", Values::Boolean, "`false`", "Whether clients may only read.")
        .option("", "Let clients only read")
        .shape(Shape::Flag(true)),
    key(
        "size",
        Values::Size { min: 4096, max: 1 << 60 },
        "needed for memory and with `create`; else the size of the file or device",
        "Of a larger file or device clients get this much; a smaller file grows to it.",
    )
    .with(", for memory to 4 TiB, whole pages of 4 KiB")
    .option(
        "",
        "Size, such as \"1 GiB\"; without it a new region has the size of its file or device",
    ),
    key(
        "hosts",
        Values::Nqns,
        "nobody",
        "The hosts that may request the region. Other hosts cannot learn that it exists.",
    )
    .option("NQN", "NQN of a host that may ask for the region; may be given more than once")
    .long("host"),
    key(
        "reserve",
        Values::Count { min: 0, max: IOPS_MAX },
        "0: none",
        "The most I/Os per second that one host may reserve.",
    )
    .with(", at most `client_capacity` of `[pmem]`")
    .option("IOPS", "The most I/Os per second that one host may reserve"),
    key(
        "limit",
        Values::Count { min: 1, max: IOPS_MAX },
        "none",
        "The most I/Os per second of one host, which its client library keeps ([trust](../use/pmem.md)).",
    )
    .with(", at least `reserve`")
    .or_none("IOPS", "The most I/Os per second of one host; none for no limit"),
];

/// The keys of `[[region]]` that may change while the region exists.
pub const REGION_CHANGES: &[ConfigKey] = REGION.split_at(FIXED).1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_region_is_does_not_change() {
        let names: Vec<&str> = REGION_CHANGES.iter().map(|key| key.name).collect();
        assert_eq!(names, ["size", "hosts", "reserve", "limit"]);
    }
}
