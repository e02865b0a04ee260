//! Identifiers of devices, flows and commands in an arbiter.

use super::table::Tagged;
use crate::index::{Index, names};

/// A device's place in an arbiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u32);

/// A flow: a host's commands on one session's account at one device. The name of a removed flow
/// stays invalid, also after its place is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HostFlowId(pub(super) Tagged<HostFlowIndex>);

/// A command that waits before the arbiter: see [`Arbiter::announce`](super::Arbiter::announce). End it with
/// [`Arbiter::end_announced`](super::Arbiter::end_announced).
#[derive(Debug)]
#[must_use = "a reservation has demand until the announcement is ended"]
pub struct Announced(pub(super) HostFlowId);

/// A command that waits. Another command may have the same name once this one has been dispatched
/// or cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryId(Index);

/// A flow's place, while it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct HostFlowIndex(Index);

/// A credit set: the sessions that a command's credits are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CreditSetId(Index);

/// A queue's place in its host's own order, while it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnQueueId(Index);

impl OwnQueueId {
    /// The first place.
    pub(super) const FIRST: Self = Self(Index::FIRST);

    /// Returns the place's number as a position in a table.
    #[inline]
    pub(super) const fn at(self) -> usize {
        self.0.at()
    }
}

impl HostFlowIndex {
    /// The flow of an entry that belongs to none.
    pub(super) const NONE: Self = Self(Index::FIRST);
}

names!(EntryId, HostFlowIndex, CreditSetId, OwnQueueId);
