//! The sum of the credits that processes hold, and the rule by which it stays within the allowance.
//!
//! Nothing counts credits in one place. Each process's slot says how much it holds, and somebody who
//! wants more adds the cost to a slot first, or puts a spot on trial, which counts as well. Then it
//! adds up all slots, and keeps the credits if the sum is within the allowance; else it withdraws.
//!
//! Therefore the holders that are granted credits never hold more than the allowance together. Take
//! the holder among them that added last. It read all slots after that, so it saw the costs of all
//! others, which had been added before and are still there. A process that adds later sees this one.
//! A sum may count credits that somebody withdraws or returns at the same moment: it is then too
//! large, never too small. A process that lowers the sum dispatches afterwards (`queue.rs`), so
//! a waiter that was refused for that reason is not forgotten.

use arbitration::credit::{Caps, Cost};

use crate::layout::{Phase, SPOTS, Shared, SpotWords, State};
use crate::word::Word;

/// A larger count than processes can hold. A word above it was not written by one, and counts as 0.
const ABSURD: u64 = 1 << 48;

/// An amount of credits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Operations.
    pub operations: u64,
    /// KiB.
    pub payload: u64,
}

impl Amount {
    /// Returns the sum with a cost.
    #[inline]
    #[must_use]
    pub(crate) fn with(self, cost: Cost) -> Self {
        self.plus(Self { operations: cost.operations.into(), payload: cost.payload.into() })
    }

    #[inline]
    fn plus(self, other: Self) -> Self {
        Self {
            operations: self.operations.saturating_add(other.operations),
            payload: self.payload.saturating_add(other.payload),
        }
    }
}

/// A spot of the queue, as it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter<'a> {
    pub(crate) spot: &'a SpotWords,
    pub(crate) state: State,
    pub(crate) cost: Cost,
    pub(crate) ticket: u64,
}

/// All slots and spots, added up.
#[derive(Debug, Default)]
pub(crate) struct Tally<'a> {
    pub(crate) held: Amount,
    pub(crate) waiting: Amount,
    /// The spot with the lowest ticket, which may be on trial.
    pub(crate) first: Option<Waiter<'a>>,
    /// A spot that is on trial, wherever it is in the queue.
    pub(crate) trial: Option<Waiter<'a>>,
}

impl Shared {
    /// Adds up the credits that are held and those for which commands wait. The slots are read one after
    /// the other.
    #[inline]
    pub(crate) fn tally(&self) -> Tally<'_> {
        let mut tally = Tally::default();
        for (slot, spots) in self.used() {
            // Spots before the slot's own counts: a process adds the cost of a ready spot to its slot,
            // and then empties the spot. In this order at least one of the two is seen.
            let mut mask = slot.spots.load() & ((1 << SPOTS) - 1);
            while mask != 0 {
                if let Some(spot) = spots.get(mask.trailing_zeros() as usize) {
                    tally.add_spot(spot);
                }
                mask &= mask - 1;
            }
            let (operations, payload) = (count(&slot.operations), count(&slot.payload));
            tally.held = tally.held.plus(Amount { operations, payload });
        }
        tally
    }
}

impl<'a> Tally<'a> {
    fn add_spot(&mut self, spot: &'a SpotWords) {
        // The state is read first: a compare-exchange from it confirms the rest.
        let state = spot.state();
        let (ticket, cost) = (spot.ticket(), spot.cost());
        let waiter = Waiter { spot, state, cost, ticket };
        match state.phase() {
            Phase::Empty => return,
            Phase::Ready => {
                self.held = self.held.with(cost);
                return;
            }
            Phase::Trial => {
                self.held = self.held.with(cost);
                self.trial = Some(waiter);
            }
            Phase::Waiting => self.waiting = self.waiting.with(cost),
        }
        if self.first.as_ref().is_none_or(|first| ticket < first.ticket) {
            self.first = Some(waiter);
        }
    }
}

/// Reads a count.
#[inline]
fn count(word: &Word) -> u64 {
    Some(word.load()).filter(|count| *count <= ABSURD).unwrap_or_default()
}

/// Returns whether `held`, which includes `cost`, is within the allowance, or `cost` is alone: a
/// command that is larger than the allowance would otherwise never run.
#[inline]
pub(crate) fn fits(held: Amount, cost: Cost, caps: Caps) -> bool {
    let operations = match caps.operations {
        u32::MAX => u64::MAX,
        cap => u64::from(cap.max(1)),
    };
    let is_within = held.operations <= operations && held.payload <= caps.payload;
    is_within || held == Amount::default().with(cost)
}
