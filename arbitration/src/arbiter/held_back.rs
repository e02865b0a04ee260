//! The order in which hosts go on whose reads, or writes, a session's limit on them holds back.
//!
//! The trees cannot have that order: a host that is held back in one direction keeps its turns there
//! for the other one. Here the host with the least start tag goes on first. A command's start tag is
//! the finish tag of the one before it in its host's direction, at least the start tag of the host that
//! went on last, or of the last command where no host was held back. Its finish tag is later by its cost
//! over its host's part of the limit.

use std::collections::BTreeSet;

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::order::{NodeId, Sharers, USUAL};
use crate::session::SessionId;

/// Binary digits of virtual time below the cost of a command: parts of ten times the usual one are exact
/// within 1/1000.
const DIGITS: u32 = 8;

/// A session with hosts below it that a limit holds back.
#[derive(Clone, Copy, Debug, Default)]
struct HeldSession {
    sharers: Sharers,
    /// The session's weight, with which it counts in the session above.
    weight: u64,
}

/// The hosts that one limit on a direction holds back.
#[derive(Debug, Default)]
pub(super) struct HeldBack {
    /// Start tag of the host that went on last, or of the last command while no host was held back.
    now: u64,
    /// The hosts, by their start tags.
    waiting: BTreeSet<(u64, NodeId)>,
    /// The sessions that such hosts are below.
    below: FxHashMap<SessionId, HeldSession>,
}

impl HeldBack {
    pub(super) const NONE: Self =
        Self { now: 0, waiting: BTreeSet::new(), below: FxHashMap::with_hasher(FxBuildHasher) };

    /// Counts one of a session's hosts, or a session below it by the weight `child`, among those with
    /// hosts that are held back, or no longer. Returns the session's own weight if it has such hosts now
    /// and had none, or the other way round.
    pub(super) fn count(
        &mut self,
        (session, weight): (SessionId, u64),
        child: Option<u64>,
        is_held: bool,
    ) -> Option<u64> {
        let below = self.below.entry(session).or_default();
        let before = below.sharers.is_empty();
        if before {
            below.weight = weight;
        }
        let (of, amount) = match child {
            None => (&mut below.sharers.hosts, 1),
            Some(weight) => (&mut below.sharers.weights, weight),
        };
        *of = if is_held { of.saturating_add(amount) } else { of.saturating_sub(amount) };
        let (is_empty, weight) = (below.sharers.is_empty(), below.weight);
        if is_empty {
            self.below.remove(&session);
        }
        (before != is_empty).then_some(weight)
    }

    /// Returns the number and weight of the hosts and sessions that are held back below a session.
    pub(super) fn sharers(&self, session: SessionId) -> Sharers {
        self.below.get(&session).map(|below| below.sharers).unwrap_or_default()
    }

    /// Holds a host back whose last command of the direction has this finish tag.
    pub(super) fn hold(&mut self, leaf: NodeId, finish: u64) {
        self.waiting.insert((self.now.max(finish), leaf));
    }

    /// Removes and returns the host with the least start tag.
    pub(super) fn release(&mut self) -> Option<NodeId> {
        let (start, leaf) = self.waiting.pop_first()?;
        self.now = start;
        Some(leaf)
    }

    /// Computes the finish tag of a host's command of the direction, which goes now. The one before it
    /// had the finish tag `last`; `share` is the host's part of the limit, in 1/[`USUAL`].
    pub(super) fn finish(&mut self, last: u64, cost: u32, share: u64) -> u64 {
        // Without a step, a host with a large part would always go first.
        let step = ((u64::from(cost) << DIGITS) * USUAL / share.max(1)).max(1);
        let start = self.now.max(last);
        if self.waiting.is_empty() {
            // Use by a host while no other one waits leaves no debt.
            self.now = start;
        }
        start.saturating_add(step)
    }

    /// Forgets a host. Returns whether it was held back.
    pub(super) fn forget(&mut self, leaf: NodeId) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|(_, other)| *other != leaf);
        self.waiting.len() < before
    }

    /// Counts the hosts.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether a host is held back, once.
    #[cfg(test)]
    pub(super) fn has(&self, leaf: NodeId) -> bool {
        self.waiting.iter().filter(|(_, other)| *other == leaf).count() == 1
    }
}
