//! The answer of a session to more commands than it can carry out (docs/research/sources.md, D5: a full
//! session says when to retry).
//!
//! A session first holds its hosts back: nothing more is read from their connections. A host that
//! goes on over other connections is refused at last, with a hint when to try again: after the time
//! that the session's own rate needs for what waits already. A Linux host gives a command up after
//! five retries, so no command is refused twice on arrival.

use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU32, AtomicU64};
use std::sync::Arc;

use units::{Nanos, follow};

use crate::sharing::Sharing;

mod retry;
#[cfg(test)]
mod tests;

pub use retry::{
    HOST_TRIES, HOST_WAIT_MAX, RetryDelays, Returned, SentBackTable, WAIT_MAX, command_key,
};

/// Length of one measurement of the rate, in ns.
const SPAN: u64 = 100_000_000;
/// Commands that make a measurement valid which ended before [`SPAN`], because nothing waited any
/// more.
const ENOUGH: u32 = 16;
/// Divisor of the newest waiting time's weight in the average.
const WAITS: u64 = 32;
/// Binary digits below a ns in the mean time between two departures.
const GAP_DIGITS: u32 = 8;

/// The commands of one session that wait, shared by all reactors.
///
/// The number of commands is exact under any interleaving. The mean waiting time may miss one of
/// two commands that leave within the same few ns.
#[derive(Debug)]
pub struct Backlog {
    sharing: Sharing,
    /// Bits 31:0: number of commands that wait; bits 63:32: number that have left, modulo 2^32.
    counts: AtomicU64,
    /// The session's own bound, in commands; 0: `common` applies.
    bound: AtomicU32,
    /// The bound of all queues without one of their own, in commands.
    common: Arc<AtomicU32>,
    /// The mean waiting time in ns.
    waited: AtomicU64,
    /// The mean time between two departures, in 1/256 ns; 0: not known.
    gap: AtomicU64,
    /// Time at which the present measurement began, in ns; 0: none is under way.
    since: AtomicU64,
    /// Number of commands that had left when the measurement began, modulo 2^32.
    left_then: AtomicU32,
    /// Number of commands that were refused.
    refused: AtomicU64,
}

impl Backlog {
    /// Makes an empty queue. A `bound` of 0 counts as 1.
    #[must_use]
    pub fn new(bound: u32) -> Self {
        Self::shared(bound, Sharing::Several)
    }

    /// Makes an empty queue that as many threads use as `sharing` says.
    #[must_use]
    pub fn shared(bound: u32, sharing: Sharing) -> Self {
        Self::common(Arc::new(AtomicU32::new(bound.max(1))), sharing)
    }

    /// Makes an empty queue whose bound is `common` with others.
    pub(crate) fn common(common: Arc<AtomicU32>, sharing: Sharing) -> Self {
        Self {
            sharing,
            counts: AtomicU64::new(0),
            bound: AtomicU32::new(0),
            common,
            waited: AtomicU64::new(0),
            gap: AtomicU64::new(0),
            since: AtomicU64::new(0),
            left_then: AtomicU32::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Changes the bound; 0 counts as 1.
    pub fn set(&self, bound: u32) {
        self.bound.store(bound.max(1), Relaxed);
    }

    /// Sets the bound to the common one.
    pub(crate) fn inherit(&self) {
        self.bound.store(0, Relaxed);
    }

    /// Returns the bound.
    #[inline]
    #[must_use]
    pub fn bound(&self) -> u32 {
        match self.bound.load(Relaxed) {
            0 => self.common.load(Relaxed),
            own => own,
        }
    }

    /// Counts a command that begins to wait.
    #[inline]
    pub fn entered(&self) {
        self.count(|waiting, left| (waiting.saturating_add(1), left));
    }

    /// Counts a command that goes on, after `waited` ns.
    #[inline]
    pub fn left(&self, now: Nanos, waited: u64) {
        let (waiting, left) =
            self.count(|waiting, left| (waiting.saturating_sub(1), left.wrapping_add(1)));
        self.note_wait(waited);
        let since = self.since.load(Relaxed);
        if since == 0 {
            if waiting != 0 {
                self.begin(now.0.saturating_sub(waited), left.wrapping_sub(1));
            }
        } else if waiting == 0 || now.0.saturating_sub(since) >= SPAN {
            self.measure(now, since, left, waiting == 0);
        }
    }

    /// Counts a command that was cancelled while it waited.
    #[inline]
    pub fn withdrawn(&self) {
        let (waiting, _) = self.count(|waiting, left| (waiting.saturating_sub(1), left));
        if waiting == 0 {
            self.since.store(0, Relaxed);
        }
    }

    /// Counts the commands that wait.
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> u32 {
        counts(self.counts.load(Relaxed)).0
    }

    /// Returns whether the bound is reached, and hosts should send no more.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.waiting() >= self.bound()
    }

    /// Returns whether twice the bound is reached, and commands should be refused where the host
    /// understands.
    #[inline]
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.waiting() >= self.bound().saturating_mul(2)
    }

    /// Forecasts how long a command that comes now waits, in ns: what waits already, at the rate at
    /// which it leaves. The forecast is never below the running average of the waiting times.
    #[must_use]
    pub fn expected_wait(&self, now: Nanos) -> u64 {
        let (waiting, left) = counts(self.counts.load(Relaxed));
        let since = self.since.load(Relaxed);
        if since == 0 && waiting != 0 {
            self.begin(now.0, left);
        }
        let elapsed = if since == 0 { 0 } else { now.0.saturating_sub(since) };
        let mut gap = self.gap.load(Relaxed);
        // A session that stands still measures nothing: take it that a command leaves just now.
        if gap == 0 || elapsed > SPAN {
            let left = left.wrapping_sub(self.left_then.load(Relaxed));
            gap = gap.max(between(elapsed, left.saturating_add(1)));
        }
        let wait = (u128::from(gap) * u128::from(waiting)) >> GAP_DIGITS;
        u64::try_from(wait).unwrap_or(u64::MAX).max(self.waited.load(Relaxed))
    }

    /// Counts the commands that were refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Counts a command that was refused.
    #[inline]
    pub fn note_refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// Changes how many commands wait and how many have left. Returns both numbers.
    #[inline]
    fn count(&self, next: impl Fn(u32, u32) -> (u32, u32)) -> (u32, u32) {
        let change = |word: u64| {
            let (waiting, left) = counts(word);
            next(waiting, left)
        };
        let word = |(waiting, left): (u32, u32)| u64::from(left) << 32 | u64::from(waiting);
        match self.sharing.update(&self.counts, |before| Some(word(change(before)))) {
            Ok(before) | Err(before) => change(before),
        }
    }

    #[inline]
    fn note_wait(&self, waited: u64) {
        let mean = self.waited.load(Relaxed);
        let mean = if mean == 0 { waited } else { follow(mean, waited, WAITS) };
        self.waited.store(mean, Relaxed);
    }

    /// Begins a measurement, in one of the competing threads.
    fn begin(&self, now: u64, left: u32) {
        if self.since.compare_exchange(0, now.max(1), Relaxed, Relaxed).is_ok() {
            self.left_then.store(left, Relaxed);
        }
    }

    /// Ends a measurement of the time between two departures, in one of the competing threads.
    /// Begins the next one, unless nothing waits (`idle`): that time is no part of any measurement.
    #[cold]
    fn measure(&self, now: Nanos, since: u64, left: u32, idle: bool) {
        let next = if idle { 0 } else { now.0 };
        if self.since.compare_exchange(since, next, Relaxed, Relaxed).is_err() {
            return;
        }
        let count = left.wrapping_sub(self.left_then.swap(left, Relaxed));
        let elapsed = now.0.saturating_sub(since);
        if count == 0 || elapsed < SPAN && count < ENOUGH {
            return;
        }
        let (old, new) = (self.gap.load(Relaxed), between(elapsed, count));
        // The newest measurement has three quarters of the weight.
        self.gap.store(if old == 0 { new } else { follow(new, old, 4) }, Relaxed);
    }
}

#[inline]
fn counts(word: u64) -> (u32, u32) {
    let part = |word: u64| u32::try_from(word & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    (part(word), part(word >> 32))
}

/// Returns the mean time between `count` commands in `elapsed` ns, in 1/256 ns.
fn between(elapsed: u64, count: u32) -> u64 {
    (elapsed.saturating_mul(1 << GAP_DIGITS)).checked_div(u64::from(count)).unwrap_or(0)
}
