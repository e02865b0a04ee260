//! `[network]` and `[[link]]`.

use super::key::{ConfigKey, Documented, Shape, key};
use super::values::Values;

/// The tables of this file in docs/reference/configuration.md.
pub(super) const TABLES: &[Documented] = &[("## `[network]`", NETWORK), ("## `[[link]]`", LINK)];

/// The keys of `[network]`.
pub const NETWORK: &[ConfigKey] = &[
    key("enabled", Values::Boolean, "`true`", "With `false`, the kernel alone paces connections.")
        .option("", "Whether classes share the network by their goals"),
    key(
        "writes",
        Values::Boolean,
        "`true`",
        "Whether data from hosts is paced too: R2T are sent at the rate of their class.",
    )
    .option("", "Whether data from hosts is paced too"),
    key(
        "base",
        Values::Other("`\"auto\"`, or a congestion control of the kernel"),
        "`\"auto\"`",
        "The kernel's congestion control under connections; `\"auto\"` is the best that this \
         kernel has. Read at the start; a live change to a congestion control that connections \
         cannot use is refused.",
    )
    .option(
        "NAME",
        "The kernel's congestion control under connections, or auto; \
         counts from the next start",
    )
    .shape(Shape::Text),
    key(
        "capacity",
        Values::Other("rate, 1 Mbit/s to 10 Tbit/s, or `\"auto\"`"),
        "`\"auto\"`",
        "The rate of the narrowest part of the path, in each direction. `\"auto\"`: the rate is \
         unknown, and congestion marks show when the path is full.",
    )
    .option("RATE", "Rate that the default link carries, such as \"10 Gbit/s\", or auto")
    .shape(Shape::Text),
    key("classes", Values::Other("table"), "as below", "The goal of each class."),
];

/// The keys of `[[link]]`.
pub const LINK: &[ConfigKey] = &[
    key(
        "name",
        Values::Other("1 to 64 letters, digits and `-_.:@+`; not `default`"),
        "needed",
        "The name by which listeners choose the link.",
    ),
    key("capacity", Values::Other("as in `[network]`"), "`\"auto\"`", "")
        .option("RATE", "Rate that the link carries, such as \"25 Gbit/s\", or auto")
        .shape(Shape::Text),
    key(
        "classes",
        Values::Other("as in `[network]`"),
        "as in `[network]` of this file",
        "A live change of `[network]` does not change existing links.",
    ),
];
