//! The values of keys and parameters.

use std::time::Duration;

use super::limits::{NSID_MAX, RATE_MAX};
use crate::amounts::{format_duration, format_size};

/// The valid values of a key of the configuration or of a parameter of a method. The daemon has a reader for each,
/// whose errors describe the fault and the valid values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// `true` or `false`.
    Boolean,
    /// Whole numbers.
    Number {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// Whole numbers that may be large: a number, or text such as "20k".
    Count {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// Sizes as text with a unit, such as "4 GiB"; in a request also a number of bytes.
    Size {
        /// The least in bytes.
        min: u64,
        /// The greatest in bytes.
        max: u64,
    },
    /// Bytes per second as text with a unit, with an example; in a request also a number of bytes.
    Bandwidth(&'static str),
    /// Times.
    Time {
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// Shares in per cent.
    Share {
        /// The least.
        min: u8,
        /// The greatest.
        max: u8,
    },
    /// One word of a few.
    Words(&'static [&'static str]),
    /// Paths.
    Path,
    /// IP addresses with a port.
    Address,
    /// Names of listeners: IP addresses with a port, behind `rdma:` for RDMA.
    Endpoint,
    /// NQNs.
    Nqn,
    /// Lists of NQNs.
    Nqns,
    /// Lists of IP addresses and networks.
    Networks,
    /// Lists of NSIDs.
    Nsids,
    /// Classes by their names; `null` means none.
    Class,
    /// Names of sessions, the root's excepted.
    Session,
    /// Names of profiles of limits.
    Profile,
    /// Names of links except the default one.
    Link,
    /// Names of links; `null` and `"default"` mean the default one.
    AnyLink,
    /// Names of regions.
    Region,
    /// Names of groups of this machine.
    Group,
    /// Names of keyrings of the kernel.
    Keyring,
    /// Any text, such as a level of the log.
    Text(&'static str),
    /// Values with a reader of their own, in the words of docs/reference/configuration.md.
    Other(&'static str),
}

/// The word before the address of an RDMA listener in its name.
pub const RDMA_BEFORE: &str = "rdma:";

impl Values {
    /// Any NSID that a host could name.
    pub const NSID: Self = Self::Number { min: 1, max: u32::MAX as u64 };
    /// The sizes of namespaces: 4 KiB to 1 EiB.
    pub const SIZE: Self = Self::Size { min: 4096, max: 1 << 60 };

    /// Describes the values in the words of docs/reference/configuration.md.
    #[must_use]
    pub fn words(&self) -> String {
        match *self {
            Self::Boolean => "boolean".into(),
            Self::Count { min, max: RATE_MAX } => format!("{min} to 2^40"),
            Self::Number { min, max } | Self::Count { min, max } => format!("{min} to {max}"),
            Self::Size { min: 0, max } => format!("size up to {}", format_size(max)),
            Self::Size { min, max } => {
                format!("size, {} to {}", format_size(min), format_size(max))
            }
            Self::Bandwidth(example) => format!("bytes per second: `\"{example}\"`"),
            Self::Time { min: Duration::ZERO, max } => {
                format!("time up to {}", format_duration(max))
            }
            Self::Time { min, max } => {
                format!("time, {} to {}", format_duration(min), format_duration(max))
            }
            Self::Share { min, max } => format!("`\"{min} %\"` to `\"{max} %\"`"),
            Self::Words(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
                words.join(", ")
            }
            Self::Path => "path".into(),
            Self::Address => "IP address and port".into(),
            Self::Endpoint => "IP address and port, `rdma:` before them for RDMA".into(),
            Self::Nqn => "NQN".into(),
            Self::Nqns => "list of NQNs".into(),
            Self::Networks => "list of 1 to 256 IP addresses and networks".into(),
            Self::Nsids => format!("list of 1 to {NSID_MAX}, each once"),
            Self::Class => "name of a class".into(),
            Self::Session => "name of a session".into(),
            Self::Profile => "name of a `[[profile]]`".into(),
            Self::Link => "name of a `[[link]]`".into(),
            Self::AnyLink => "name of a `[[link]]`, or `\"default\"`".into(),
            Self::Region => "name of a `[[region]]`".into(),
            Self::Group => "name of a group of this machine".into(),
            Self::Keyring => "name of a keyring of the kernel".into(),
            Self::Text(what) => what.into(),
            Self::Other(words) => words.into(),
        }
    }
}
