//! Turns of the reactors whose commands wait for one limit.
//!
//! All of them look again when the limit lets the next command pass. The one that looks first would
//! have that command every time: one that polls before one that sleeps, or that of the lower number.
//! So a reactor leaves the next commands to another that waits, for half a millisecond. The limit loses
//! nothing by that, because it saves credit for a millisecond at least.

use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU32, AtomicU64};

use units::Nanos;

use super::TOLERANCE;

/// Time in ns for which a reactor leaves what a limit lets pass to another.
const PATIENCE: u64 = TOLERANCE.0 / 2;

/// The most commands that a reactor has in a turn because another had as many.
const RUN_MAX: u32 = 64;

/// The reactors that wait for the limits of one session on all its commands, or on one direction.
/// Reactors that change this at once may let one of them have two turns in a row.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Reactors whose commands wait, or waited when their last turn came: one bit each.
    waiting: AtomicU64,
    /// The reactor whose turn it is; 0: any.
    next: AtomicU64,
    /// Time since which the others leave the turn to that reactor, in ns; 0: none wanted it.
    left: AtomicU64,
    /// Commands of the present turn, and of the one before it.
    run: AtomicU32,
    run_before: AtomicU32,
}

const fn bit(reactor: u32) -> u64 {
    1 << (reactor & 63)
}

impl Turns {
    /// Says whether a reactor may use the limits now, which have let the next command pass since `open`.
    ///
    /// # Errors
    /// The time until which it leaves them to another.
    #[inline]
    pub(crate) fn check(
        &self,
        now: Nanos,
        reactor: u32,
        open: impl FnOnce() -> Nanos,
    ) -> Result<(), Nanos> {
        let next = self.next.load(Relaxed);
        if next == 0 || next == bit(reactor) { Ok(()) } else { self.leave(now, next, open()) }
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
        Ok(())
    }

    /// Notes that a command of a reactor waits for the limits.
    pub(crate) fn wait(&self, reactor: u32) {
        if self.waiting.load(Relaxed) & bit(reactor) == 0 {
            self.waiting.fetch_or(bit(reactor), Relaxed);
        }
    }

    /// Counts a reactor's command that has passed. Ends its turn if others wait, the limits are used up, and
    /// the reactor had as many commands as the one before it.
    #[inline]
    pub(crate) fn took(&self, reactor: u32, are_used_up: impl FnOnce() -> bool) {
        let others = self.waiting.load(Relaxed) & !bit(reactor);
        if others != 0 || self.next.load(Relaxed) != 0 {
            self.count(reactor, others, are_used_up);
        }
    }

    #[cold]
    fn count(&self, reactor: u32, others: u64, are_used_up: impl FnOnce() -> bool) {
        let next = self.next.load(Relaxed);
        let goes_on = next == 0 || next == bit(reactor);
        let run = if goes_on { self.run.load(Relaxed).saturating_add(1) } else { 1 };
        let ends = others == 0 || are_used_up() && run >= self.run_before.load(Relaxed);
        self.run.store(if ends { 0 } else { run }, Relaxed);
        if ends {
            self.run_before.store(run.min(RUN_MAX), Relaxed);
            // Reactors of higher numbers first, then from the lowest on.
            let higher = others & !(bit(reactor) | (bit(reactor) - 1));
            let from = if higher == 0 { others } else { higher };
            self.next.store(from & from.wrapping_neg(), Relaxed);
            self.left.store(0, Relaxed);
        } else if !goes_on {
            self.next.store(bit(reactor), Relaxed);
        }
    }
}
