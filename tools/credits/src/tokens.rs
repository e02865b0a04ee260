//! Credits that a process takes and returns itself, and the return of a dead process's credits.

use arbitration::credit::Cost;
use units::Nanos;

use crate::layout::{Seat, Shared, State};
use crate::tally::fits;

impl Shared {
    /// Takes credits if they are free and nobody waits, or the allowance is not enforced.
    #[inline]
    pub(crate) fn take(&self, seat: Seat, cost: Cost, now: Nanos) -> bool {
        let Some((slot, _)) = self.slot(seat) else { return false };
        let is_enforced = self.header.is_enforced(now);
        if is_enforced {
            let tally = self.tally();
            let is_queue = tally.first.is_some();
            if is_queue || !fits(tally.held.with(cost), cost, self.header.caps()) {
                return false;
            }
        }
        slot.hold(cost);
        if is_enforced && !fits(self.tally().held, cost, self.header.caps()) {
            self.give(seat, cost);
            return false;
        }
        slot.taken.add(1);
        true
    }

    /// Returns credits, and hands them to waiters.
    #[inline]
    pub(crate) fn give(&self, seat: Seat, cost: Cost) {
        if let Some((slot, _)) = self.slot(seat) {
            slot.operations.subtract(cost.operations.into());
            slot.payload.subtract(cost.payload.into());
        }
        self.dispatch();
    }

    /// Assigns a slot to a process. The caller has locked the slot's byte of the file.
    pub(crate) fn occupy(&self, seat: Seat, process: u32) {
        self.reclaim(seat);
        if let Some((slot, _)) = self.slot(seat) {
            self.header.used_slots.raise(seat.index() as u64 + 1);
            slot.process.store(process.into());
        }
    }

    /// Returns whether a slot has a process, alive or dead.
    pub(crate) fn is_occupied(&self, seat: Seat) -> bool {
        self.slot(seat).is_some_and(|(slot, _)| slot.process.load() != 0)
    }

    /// Empties the slot of a dead process, if there is one, and returns whether there was. The caller
    /// has locked the slot's byte of the file.
    pub(crate) fn reclaim(&self, seat: Seat) -> bool {
        let is_occupied = self.is_occupied(seat);
        if is_occupied {
            self.header.reclaimed.add(1);
            self.clear(seat);
        }
        is_occupied
    }

    /// Empties a slot, and hands its credits to waiters. The process is removed last: a call that was
    /// cut off is repeated by [`Self::reclaim`].
    pub(crate) fn clear(&self, seat: Seat) {
        if let Some((slot, spots)) = self.slot(seat) {
            spots.iter().for_each(|spot| spot.state.store(State::EMPTY.0));
            slot.spots.store(0);
            slot.operations.store(0);
            slot.payload.store(0);
            slot.process.store(0);
        }
        self.dispatch();
    }
}
