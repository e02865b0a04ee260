//! The number of a host.

/// A host, by a number that the caller chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HostId(pub u64);
