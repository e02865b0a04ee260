//! Errors in a topology.

/// A description that no network can have. The message names the key and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// A value is out of its range.
    #[error("`{key}` is {value}: it must be {range}")]
    Range {
        /// The key.
        key: &'static str,
        /// Its value, with the unit.
        value: String,
        /// The valid range.
        range: &'static str,
    },
    /// Pauses begin below the length at which they end.
    #[error("`resume` is {resume} bytes, `pause` is {pause}: set `resume` to at most {pause}")]
    Resume {
        /// The bytes at which pauses begin.
        pause: u64,
        /// The bytes at which they end.
        resume: u64,
    },
    /// A buffer is too small to lose nothing.
    #[error(
        "`buffer` is {buffer} bytes: with `pause` at {pause} bytes, a switch of {ports} ports loses \
         nothing only with {needed} bytes or more; set `buffer` to that, or `pause` lower"
    )]
    Headroom {
        /// The bytes of the buffer.
        buffer: u64,
        /// The bytes at which pauses begin.
        pause: u64,
        /// The links of the switch.
        ports: usize,
        /// The bytes that it takes.
        needed: u64,
    },
    /// The buffers reserved for Urgent leave nothing.
    #[error(
        "`reserved` is {reserved} bytes at each of {ports} ports, `buffer` is {buffer} bytes: set \
         `reserved` to less than {}", .buffer.checked_div(*.ports as u64).unwrap_or(*.buffer)
    )]
    Reserved {
        /// The bytes of the buffer.
        buffer: u64,
        /// The bytes of a port that are for Urgent alone.
        reserved: u64,
        /// The links of the switch.
        ports: usize,
    },
    /// A link names a node that does not exist.
    #[error("a link names node {node}, and there are {nodes}: add the node before its links")]
    NoNode {
        /// The number of the node.
        node: u32,
        /// How many nodes there are.
        nodes: usize,
    },
    /// A host has no link, or several.
    #[error("host {node} has {links} links: a host has one, to a switch or another host")]
    HostLinks {
        /// The number of the node.
        node: u32,
        /// How many links it has.
        links: usize,
    },
    /// Two hosts cannot reach each other.
    #[error("host {to} cannot be reached from host {from}: add a link between their switches")]
    Unreachable {
        /// One host.
        from: u32,
        /// The other.
        to: u32,
    },
}
