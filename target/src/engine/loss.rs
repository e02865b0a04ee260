//! What connected hosts would lose by a change.

use std::net::SocketAddr;

/// What a change takes from hosts that are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss<'a> {
    /// A subsystem, by its NQN.
    Subsystem(&'a str),
    /// A namespace, by its subsystem's NQN and its NSID.
    Namespace(&'a str, u32),
    /// What lies beyond a namespace's new size in bytes; without one, beyond the size that its
    /// file or device has now. Nothing is lost where that is not less than its present size.
    Size(&'a str, u32, Option<u64>),
    /// A listener, by its address.
    Listener(SocketAddr),
    /// A host's permission to use a subsystem: the subsystem's NQN and the host's.
    Host(&'a str, &'a str),
    /// The permission of all hosts that a subsystem's list does not name.
    UnlistedHosts(&'a str),
}
