//! Words that processes share. Each access is one step: a process may be killed between any two of
//! them, and the tests cut there.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::sys::futex;

#[cfg(test)]
use crate::steps::step;

/// Marks the place between two accesses, for tests.
#[cfg(not(test))]
#[inline(always)]
fn step() {}

/// A word of 64 bits. All accesses are sequentially consistent: the argument in `tally.rs`
/// needs one order of all of them.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct Word(AtomicU64);

impl Word {
    #[inline]
    pub(crate) fn load(&self) -> u64 {
        step();
        self.0.load(SeqCst)
    }

    #[inline]
    pub(crate) fn store(&self, value: u64) {
        step();
        self.0.store(value, SeqCst);
    }

    /// Adds, wraps around, and returns the value before.
    #[inline]
    pub(crate) fn add(&self, value: u64) -> u64 {
        step();
        self.0.fetch_add(value, SeqCst)
    }

    /// Subtracts, and wraps around.
    #[inline]
    pub(crate) fn subtract(&self, value: u64) {
        step();
        self.0.fetch_sub(value, SeqCst);
    }

    #[inline]
    pub(crate) fn set_bits(&self, bits: u64) {
        step();
        self.0.fetch_or(bits, SeqCst);
    }

    #[inline]
    pub(crate) fn clear_bits(&self, bits: u64) {
        step();
        self.0.fetch_and(!bits, SeqCst);
    }

    #[inline]
    pub(crate) fn raise(&self, least: u64) {
        step();
        self.0.fetch_max(least, SeqCst);
    }

    /// Stores `new` if the word is `current`. Returns whether it was.
    #[inline]
    pub(crate) fn replace(&self, current: u64, new: u64) -> bool {
        step();
        self.0.compare_exchange(current, new, SeqCst, SeqCst).is_ok()
    }
}

/// The value of a bell whose waiter is about to sleep, or sleeps.
const ASLEEP: u32 = 1;

/// A word that one thread sleeps on.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct Bell(AtomicU32);

impl Bell {
    /// Announces a sleep. The caller then checks once more for a reason not to sleep.
    pub(crate) fn arm(&self) {
        step();
        self.0.store(ASLEEP, SeqCst);
    }

    /// Sleeps until [`Self::ring`], for at most `ns` nanoseconds. Returns at once if the bell has rung
    /// since [`Self::arm`].
    pub(crate) fn sleep(&self, ns: u64) {
        futex::wait(&self.0, ASLEEP, ns);
    }

    /// Wakes the waiter. Makes no system call if nobody sleeps.
    pub(crate) fn ring(&self) {
        step();
        if self.0.swap(0, SeqCst) != 0 {
            futex::wake(&self.0);
        }
    }
}
