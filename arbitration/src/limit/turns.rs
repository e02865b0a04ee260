//! Turns of the reactors whose commands wait for one limit.
//!
//! All of them look again when the limit lets the next command pass. Without turns, the reactor
//! that looks first would win every time: one that polls before one that sleeps, or the lower
//! number. So each reactor has a virtual time at the limit, which grows by cost / weight with every
//! command. While several wait, the reactor of the least time has the next command, and the others
//! leave it to that reactor for half a millisecond. The limit loses nothing by that, because it
//! saves credit for a millisecond at least.
//!
//! In the order by weight, the tags at a device decide between the reactors that wait for it with commands of one class.
//! Here these are one party: they do not wait for each other's turns, and have one share together. Two orders at once
//! could each wait for the reactor that the other one holds back.
//!
//! A command that is due by a reservation below the limit goes first. Admission grants no reservation above a limit, so
//! the others have the rest of it.

use std::sync::OnceLock;

use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;

use units::Nanos;

use super::TOLERANCE;
use crate::order::{advance, first_of};
use crate::sharing::REACTORS_MAX;

/// Time in ns for which a reactor leaves the next command at a limit to another reactor.
const PATIENCE: u64 = TOLERANCE.0 / 2;

/// The virtual times of the reactors, by number, and their parties.
#[derive(Debug)]
struct Times {
    times: Box<[AtomicU64]>,
    parties: Box<[AtomicU64]>,
}

/// A reactor at the limits of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) reactor: u32,
    /// The party of the reactor's command: reactors of one party other than 0 are ordered at their device.
    pub(crate) party: u64,
    /// Whether a reservation is due to the command.
    pub(crate) is_due: bool,
}

/// The reactors that wait for the limits of one session on all its commands, or on one direction.
/// Reactors that change this at once may let one of them have two turns in a row.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Reactors whose commands wait, or waited when their last turn came: one bit each.
    waiting: AtomicU64,
    /// The reactor whose turn it is; 0: any.
    next: AtomicU64,
    /// Reactors of which commands wait that are due by reservations: one bit each.
    due: AtomicU64,
    /// Time since which the others leave the turn to that reactor, in ns; 0: none wanted it.
    left: AtomicU64,
    /// Made when several reactors first wait: most limits are waited for by one.
    times: OnceLock<Box<Times>>,
}

const fn bit(reactor: u32) -> u64 {
    1 << (reactor & 63)
}

impl Turns {
    /// Checks whether a reactor may use the limits now, which have let the next command pass since
    /// `open`.
    ///
    /// # Errors
    /// The time until which it leaves them to another.
    #[inline]
    pub(crate) fn check(
        &self,
        now: Nanos,
        waiter: Waiter,
        open: impl FnOnce() -> Nanos,
    ) -> Result<(), Nanos> {
        if waiter.is_due {
            return Ok(());
        }
        let due = self.due.load(Relaxed) & !bit(waiter.reactor);
        if due != 0 {
            return self.leave(now, due, open());
        }
        let next = self.next.load(Relaxed);
        if next == 0 || next == bit(waiter.reactor) || self.is_of(waiter.party, next) {
            return Ok(());
        }
        self.leave(now, next, open())
    }

    /// Returns whether the reactor whose turn it is belongs to a party.
    fn is_of(&self, party: u64, next: u64) -> bool {
        party != 0 && self.members(party) & next != 0
    }

    /// Finds the reactors of a party, one bit each.
    fn members(&self, party: u64) -> u64 {
        let is_member = |of: &AtomicU64| of.load(Relaxed) == party;
        let members = (0_u32..).zip(&self.times().parties).filter(|(_, of)| is_member(of));
        members.fold(0, |bits, (reactor, _)| bits | bit(reactor))
    }

    #[cold]
    fn leave(&self, now: Nanos, next: u64, open: Nanos) -> Result<(), Nanos> {
        let mut left = self.left.load(Relaxed);
        if left == 0 {
            left = now.0.max(1);
            self.left.store(left, Relaxed);
        }
        let until = Nanos(left).max(open).after(PATIENCE);
        if now < until {
            return Err(until);
        }
        self.waiting.fetch_and(!next, Relaxed);
        self.due.fetch_and(!next, Relaxed);
        Ok(())
    }

    /// Notes that a command of a reactor waits for the limits.
    #[inline]
    pub(crate) fn wait(&self, waiter: Waiter) {
        if self.waiting.load(Relaxed) & bit(waiter.reactor) == 0 {
            self.begin(waiter.reactor);
        }
        if self.times.get().is_some() {
            self.party(waiter.reactor).store(waiter.party, Relaxed);
        }
        if waiter.is_due {
            self.due.fetch_or(bit(waiter.reactor), Relaxed);
        }
    }

    /// Adds a reactor to the waiting ones. Its virtual time advances to the least of theirs, so
    /// that it gains nothing from the time in which it did not wait.
    #[cold]
    fn begin(&self, reactor: u32) {
        let others = self.waiting.fetch_or(bit(reactor), Relaxed) & !bit(reactor);
        if others != 0
            && let Some((_, least)) = first_of(&self.times().times, others)
        {
            advance(self.time(reactor), least);
        }
    }

    fn times(&self) -> &Times {
        self.times.get_or_init(|| {
            let zeroes = || (0..REACTORS_MAX).map(|_| AtomicU64::new(0)).collect();
            Box::new(Times { times: zeroes(), parties: zeroes() })
        })
    }

    /// Finds the party of a reactor.
    #[expect(
        clippy::indexing_slicing,
        reason = "the index is below the length: it is taken modulo that"
    )]
    fn party(&self, reactor: u32) -> &AtomicU64 {
        &self.times().parties[reactor as usize % REACTORS_MAX]
    }

    /// Finds the virtual time of a reactor.
    #[expect(
        clippy::indexing_slicing,
        reason = "the index is below the length: it is taken modulo that"
    )]
    fn time(&self, reactor: u32) -> &AtomicU64 {
        &self.times().times[reactor as usize % REACTORS_MAX]
    }

    /// Counts a reactor's command that has passed, with its cost over its weight. Gives the turn to the
    /// reactor of the least virtual time if others wait and the limits are used up.
    #[inline]
    pub(crate) fn took(
        &self,
        waiter: Waiter,
        are_used_up: impl FnOnce() -> bool,
        step: impl FnOnce() -> u64,
    ) {
        if waiter.is_due && self.due.load(Relaxed) & bit(waiter.reactor) != 0 {
            self.due.fetch_and(!bit(waiter.reactor), Relaxed);
            self.left.store(0, Relaxed);
        }
        let others = self.waiting.load(Relaxed) & !bit(waiter.reactor);
        if others != 0 || self.next.load(Relaxed) != 0 {
            self.count(waiter, others, are_used_up, step);
        }
    }

    #[cold]
    fn count(
        &self,
        Waiter { reactor, party, .. }: Waiter,
        others: u64,
        are_used_up: impl FnOnce() -> bool,
        step: impl FnOnce() -> u64,
    ) {
        let step = step();
        self.time(reactor).fetch_add(step, Relaxed);
        if party != 0 {
            self.party(reactor).store(party, Relaxed);
            let mut members = self.members(party) & others;
            while members != 0 {
                let member = members.trailing_zeros();
                self.time(member).fetch_add(step, Relaxed);
                members &= members - 1;
            }
        }
        let next = if others == 0 {
            0
        } else if are_used_up() {
            first_of(&self.times().times, others | bit(reactor)).map_or(0, |(first, _)| bit(first))
        } else {
            bit(reactor)
        };
        if self.next.swap(next, Relaxed) != next {
            self.left.store(0, Relaxed);
        }
    }
}
