//! Identifiers of connections, controllers, listeners and backends.

/// A transport connection (one queue); the daemon never gives the same number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// A controller identifier (CNTLID), 1 to FFEFh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControllerId(pub u16);

/// A listener, numbered by the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub u32);

/// A backend (the store of a namespace's blocks), numbered by the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendId(pub u64);

impl BackendId {
    /// The value for no backend, of a namespace that is not ready. The daemon never gives this
    /// number.
    pub const NONE: Self = Self(u64::MAX);
}
