//! What a look at a connection sees, and what it allows.

use std::time::Duration;

use qtcp::lately::Lately;
use qtcp::{Nanos, Observation, Rate};

/// What a look has seen since the last one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) out: Observation,
    pub(super) into: Observation,
    /// The round-trip time of the connection.
    pub(super) rtt: Duration,
    /// Whether nothing behind the target holds data back: a class has more to send only if some of it
    /// waits in the target.
    pub(super) idle: bool,
}

/// A value of each direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Both<T> {
    pub(super) out: T,
    pub(super) into: T,
}

/// What a connection may do from now on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed<'a> {
    pub(super) now: Nanos,
    /// The limits of its rates.
    pub(super) limits: Both<Option<Rate>>,
    /// The rates that it has.
    pub(super) rates: Both<Rate>,
    /// Whether classes that are never held back move data.
    pub(super) free: Both<bool>,
    pub(super) rtt: Duration,
    pub(super) lately: &'a Lately,
}
