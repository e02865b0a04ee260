//! The values of parameters.

/// The values that a parameter takes. The daemon has a reader for each, which says what is wrong
/// with a value and what would be right.
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
    /// Sizes: a number of bytes, or text with a unit such as "4 GiB".
    Size {
        /// The least in bytes.
        min: u64,
        /// The greatest in bytes.
        max: u64,
    },
    /// NQNs.
    Nqn,
    /// IP addresses with a port.
    Address,
    /// Classes by their names; `null`: none.
    Class,
    /// Names of sessions, the root's excepted.
    Session,
    /// Names of links, that of the default one excepted.
    Link,
    /// Names of links; `null`: the default one.
    AnyLink,
}

impl Values {
    /// Any NSID that a host could name.
    pub const NSID: Self = Self::Number { min: 1, max: u32::MAX as u64 };
    /// The sizes of namespaces: 4 KiB to 1 EiB.
    pub const SIZE: Self = Self::Size { min: 4096, max: 1 << 60 };
}
