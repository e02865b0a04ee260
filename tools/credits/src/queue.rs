//! The wait queue: credits go to the spot with the lowest ticket, then to the next one.
//!
//! Any process dispatches, and several may at once. A dispatcher puts the first spot on trial: from
//! then on its cost counts. It adds up the held credits. If the sum is within the allowance and no spot
//! has a lower ticket, the spot becomes ready, else waiting again. Each change is one compare-exchange
//! from a state with a number that is used once. So the next dispatcher decides about a spot that a
//! killed or stopped one has left on trial, before any other spot; a later decision of the stopped one
//! fails. There is no lock.

use std::ptr;

use arbitration::credit::Cost;
use units::Nanos;

use crate::layout::{Phase, SPOTS, Seat, Shared, Slot, SpotWords, State};
use crate::tally::{Waiter, fits};

/// The most steps of one dispatch. The spots that it makes ready go on from there.
const ROUNDS: usize = 64;

/// Index of a process's spot, below [`SPOTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number(u32);

impl Number {
    pub(crate) fn new(index: u32) -> Option<Self> {
        usize::try_from(index).is_ok_and(|index| index < SPOTS).then_some(Self(index))
    }

    /// Returns the bit of the spot in a mask of spots.
    pub(crate) const fn bit(self) -> u32 {
        1 << self.0
    }
}

impl Shared {
    /// Returns the words of a spot.
    #[inline]
    pub(crate) fn spot(&self, seat: Seat, number: Number) -> Option<(&Slot, &SpotWords)> {
        let (slot, spots) = self.slot(seat)?;
        Some((slot, spots.get(number.0 as usize)?))
    }

    /// Enters the queue with a spot that is empty.
    pub(crate) fn enqueue(&self, seat: Seat, number: Number, cost: Cost) {
        let Some((slot, spot)) = self.spot(seat, number) else { return };
        let ticket = self.header.sequence.add(1);
        spot.describe(ticket, cost);
        slot.spots.set_bits(number.bit().into());
        spot.state.store(State::new(Phase::Waiting, ticket).0);
        slot.waited.add(1);
        self.dispatch();
    }

    /// Hands credits to waiters in their order, as long as they fit.
    pub(crate) fn dispatch(&self) {
        for _ in 0..ROUNDS {
            let tally = self.tally();
            let waiter = match (tally.trial, tally.first) {
                (Some(waiter), _) => waiter,
                (None, Some(first)) => {
                    if !fits(tally.held.with(first.cost), first.cost, self.header.caps()) {
                        return;
                    }
                    let trial = State::new(Phase::Trial, self.header.sequence.add(1));
                    if !first.spot.state.replace(first.state.0, trial.0) {
                        continue;
                    }
                    Waiter { state: trial, ..first }
                }
                (None, None) => return,
            };
            // Read after the trial has begun, here or in another process. A spot with a lower ticket,
            // which the first tally has missed, is seen now.
            let tally = self.tally();
            let is_first = tally.first.is_some_and(|first| ptr::eq(first.spot, waiter.spot));
            let is_ready = is_first && fits(tally.held, waiter.cost, self.header.caps());
            let next = waiter.state.with(if is_ready { Phase::Ready } else { Phase::Waiting });
            if waiter.spot.state.replace(waiter.state.0, next.0) && is_ready {
                waiter.spot.bell.ring();
            }
        }
    }

    /// Returns whether a spot's owner can have its credits.
    #[inline]
    pub(crate) fn is_due(&self, seat: Seat, number: Number, now: Nanos) -> bool {
        let ready = |(_, spot): (&Slot, &SpotWords)| spot.state().phase() == Phase::Ready;
        self.spot(seat, number).is_none_or(ready) || !self.header.is_enforced(now)
    }

    /// Leaves the queue with the credits of a spot, which the slot then holds. Returns whether the spot
    /// was due.
    pub(crate) fn settle(&self, seat: Seat, number: Number, cost: Cost, now: Nanos) -> bool {
        if !self.is_due(seat, number, now) {
            return false;
        }
        if let Some((slot, _)) = self.spot(seat, number) {
            // Counts twice until the spot is empty, rather than not at all.
            slot.hold(cost);
            slot.taken.add(1);
        }
        self.leave(seat, number);
        true
    }

    /// Leaves the queue. If the spot is ready, its credits are free again.
    pub(crate) fn leave(&self, seat: Seat, number: Number) {
        if let Some((slot, spot)) = self.spot(seat, number) {
            spot.state.store(State::EMPTY.0);
            slot.spots.clear_bits(number.bit().into());
        }
        self.dispatch();
    }

    /// Wakes all waiters that sleep, to look at the header again.
    pub(crate) fn wake_all(&self) {
        self.used().flat_map(|(_, spots)| spots).for_each(|spot| spot.bell.ring());
    }
}

impl Slot {
    /// Counts credits as held by the process.
    #[inline]
    pub(crate) fn hold(&self, cost: Cost) {
        self.operations.add(cost.operations.into());
        self.payload.add(cost.payload.into());
    }
}
