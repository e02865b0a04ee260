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
    /// Whether new commands of the session take from the set.
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
        Some(CreditSetId::from_index(Index::nth(self.sets.insert(set))))
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

    /// Lets no new command take from a set. The set goes with the last command that holds credits
    /// of it.
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
        // The set stays under any new plan until the credits are returned.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::Caps;
    use crate::session::{RootSpec, SessionSpec};
    use crate::testing::{ROOT, sessions, spec};

    #[test]
    fn command_takes_credits_of_whole_line_or_none() {
        let root = RootSpec { caps: Caps { operations: 10, payload: u64::MAX }, ..ROOT };
        let half = SessionSpec { operations: Some(50), ..spec("a", None) };
        let sessions = sessions(&root, &[half]);
        let line = [sessions.named("a").unwrap(), sessions.root()].map(Arc::clone);
        let used = || line.each_ref().map(|session| session.credits.used().operations);

        let (waiters, cost) = (Waiters::new(1), Cost { operations: 4, payload: 0 });
        let mut sets = CreditSets::default();
        let set = sets.add(line.to_vec()).unwrap();
        // Others have taken most of the root's credits.
        let others = Cost { operations: 7, payload: 0 };
        assert!(line[1].credits.take(others));
        let refused = sets.take(set, cost, &waiters).unwrap_err();
        assert_eq!(refused.0, SessionId::ROOT, "the session that has too few");
        assert_eq!(used(), [0, 7], "what was taken below is given back");

        line[1].credits.give(others);
        assert!(sets.take(set, cost, &waiters).is_ok());
        assert_eq!(used(), [4, 4]);
        // The set stays until the credits are given back.
        sets.retire(set);
        assert_eq!(sets.check(), 1);
        sets.give(set, cost, &waiters);
        assert_eq!((used(), sets.check()), ([0, 0], 0));
    }
}
