//! The order in which hosts go on whose reads, or writes, a session's limit on them holds back.
//!
//! The trees cannot have that order: a host that is held back in one direction keeps its turns there
//! for the other one. Here the host with the least start tag goes on first. A command's start tag is
//! the finish tag of the one before it in its host's direction, at least the start tag of the host that
//! went on last; its finish tag is later by its cost over its host's part of the limit.

use std::collections::BTreeSet;

use crate::order::{NodeId, USUAL};

/// The hosts that one limit on a direction holds back.
#[derive(Debug, Default)]
pub(super) struct HeldBack {
    /// Start tag of the host that went on last.
    now: u64,
    /// The hosts, by their start tags.
    waiting: BTreeSet<(u64, NodeId)>,
}

impl HeldBack {
    pub(super) const NONE: Self = Self { now: 0, waiting: BTreeSet::new() };

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

    /// Computes the finish tag of a host's next command of the direction. Its last one had the finish
    /// tag `last`; `share` is the host's part of the limit, in 1/[`USUAL`].
    pub(super) fn finish(&self, last: u64, cost: u32, share: u64) -> u64 {
        // Without a step, a host with a large part would always go first.
        let step = (u64::from(cost) * USUAL / share.max(1)).max(1);
        self.now.max(last).saturating_add(step)
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

    /// Says whether a host is held back, once.
    #[cfg(test)]
    pub(super) fn has(&self, leaf: NodeId) -> bool {
        self.waiting.iter().filter(|(_, other)| *other == leaf).count() == 1
    }
}
