//! Credit sets: the sessions that a session's commands take credits from.

use std::sync::Arc;

use slab::Slab;

use super::ids::CreditSetId;
use super::waiters::Waiters;
use crate::credit::Cost;
use crate::index::{Index, Name};
use crate::reactors::Reactors;
use crate::session::{Session, SessionId};

/// A session and those above it whose credits are bounded, while commands hold such credits.
#[derive(Debug)]
struct CreditSet {
    chain: Vec<Arc<Session>>,
    /// Commands that hold credits of the set.
    held: u32,
    /// New commands of the session take from the set.
    current: bool,
}

/// All credit sets of an arbiter.
#[derive(Debug, Default)]
pub(super) struct CreditSets {
    sets: Slab<CreditSet>,
}

impl CreditSets {
    /// Makes a set of these sessions. Returns `None` where there are none to take credits from.
    pub(super) fn add(&mut self, chain: Vec<Arc<Session>>) -> Option<CreditSetId> {
        if chain.is_empty() {
            return None;
        }
        let set = CreditSet { chain, held: 0, current: true };
        Some(CreditSetId::of(Index::nth(self.sets.insert(set))))
    }

    fn get_mut(&mut self, set: CreditSetId) -> Option<&mut CreditSet> {
        let found = self.sets.get_mut(set.index().at());
        debug_assert!(found.is_some(), "a set stays while commands take from it or hold of it");
        found
    }

    /// Lists the sessions of a set.
    pub(super) fn chain(&self, set: Option<CreditSetId>) -> &[Arc<Session>] {
        let set = set.and_then(|set| self.sets.get(set.index().at()));
        set.map(|set| set.chain.as_slice()).unwrap_or_default()
    }

    /// Lets no new command take from a set: the set goes with the last command that holds of it.
    pub(super) fn retire(&mut self, set: CreditSetId) {
        if let Some(found) = self.get_mut(set) {
            found.current = false;
            self.drop_unused(set);
        }
    }

    fn drop_unused(&mut self, set: CreditSetId) {
        if self.get_mut(set).is_some_and(|found| !found.current && found.held == 0) {
            self.sets.remove(set.index().at());
        }
    }

    /// Takes a command's credits from every session of a set, or from none of them.
    ///
    /// # Errors
    /// The session that has too few, and the reactors that wait for credits which were taken and
    /// given back.
    pub(super) fn take(
        &mut self,
        set: CreditSetId,
        cost: Cost,
        waiters: &Waiters,
    ) -> Result<(), (SessionId, Reactors)> {
        let Some(found) = self.get_mut(set) else { return Ok(()) };
        for (taken, capped) in found.chain.iter().enumerate() {
            if !capped.credits.take(cost) {
                let mut wake = Reactors::NONE;
                for earlier in found.chain.iter().take(taken) {
                    // Others may have been turned away meanwhile.
                    wake |= waiters.give(earlier, cost);
                }
                return Err((capped.id(), wake));
            }
        }
        // The set stays, whatever plan comes, until the credits are given back.
        found.held += 1;
        Ok(())
    }

    /// Gives a command's credits back. Returns the reactors that wait for them.
    pub(super) fn give(&mut self, set: CreditSetId, cost: Cost, waiters: &Waiters) -> Reactors {
        let mut wake = Reactors::NONE;
        let Some(found) = self.get_mut(set) else { return wake };
        for capped in &found.chain {
            wake |= waiters.give(capped, cost);
        }
        debug_assert!(found.held > 0, "no command gives credits back twice");
        found.held = found.held.saturating_sub(1);
        if !found.current && found.held == 0 {
            self.drop_unused(set);
        }
        wake
    }

    /// Counts the sets; all are current, or some command holds credits of them.
    #[cfg(test)]
    pub(super) fn check(&self) -> usize {
        let unused = self.sets.iter().filter(|(_, set)| !set.current && set.held == 0);
        assert_eq!(unused.count(), 0, "a set that nobody has a use for");
        self.sets.len()
    }
}
