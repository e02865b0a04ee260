//! Limits on the commands or bytes a second of a session (docs/research/sources.md, D1: sessions form a
//! tree).
//!
//! A limit follows the generic cell rate algorithm: one word holds the time at which all charges so
//! far will have been paid for at the limit's rate. A command may pass while that time is at most
//! the limit's depth ahead of the present: its burst, or [`TOLERANCE`] without one. So a limit is
//! one word that any number of reactors move with a compare-exchange, nothing has to be refilled,
//! and a rate of one a second is as exact as one of 10^9. The unused depth is the credit that an
//! idle user has saved.
//!
//! Without a burst, at most the rate times (the span and 1 ms) passes in any span of time, or times the
//! span and one command, whichever is more. That is 10 % or one command over 10 ms, and 0.1 % over a second. With a
//! burst, the rate times (the span and the depth) and one command pass. Each further thread may add a command. A
//! user who always has work and asks at once when a command may pass gets the rate.
//!
//! A command that the limit lets pass may have to wait for its turn at a busy device. The limit then
//! counts from when the command could have gone, and so the depth is at least the cost of the largest
//! command that waited. Counted from when the command goes, each wait would be lost to its user: at
//! 50/s beside commands of 8 ms, a sixth of the rate. Nothing can have both: commands never closer
//! than the rate's interval, and the full rate, where each goes a little late.

use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;

use units::Nanos;

mod directions;
mod sent_back;
#[cfg(test)]
mod tests;
mod turns;

pub(crate) use directions::{Amount, Directions, Limiters};
pub use directions::{Content, Rates};
use sent_back::SentBack;
pub(crate) use turns::Waiter;

/// Time by which an idle user may be ahead of its rate where no longer burst is set: 1 ms of the
/// rate, the time by which a reactor may be late.
pub const TOLERANCE: Nanos = Nanos(1_000_000);

/// Ticks in a ns. A tick of 1/64 ns is fine enough for 16 threads that do nothing but charge, and
/// 64 bits of ticks last nine years, after which nothing is limited any more.
const TICKS_PER_NS: u64 = 64;
const TOLERANCE_TICKS: u64 = TOLERANCE.0 * TICKS_PER_NS;
const SECOND_TICKS: u64 = 1_000_000_000 * TICKS_PER_NS;
/// Binary digits of an interval below a tick.
const INTERVAL_DIGITS: u32 = 28;

/// The reason for which a session's commands are blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockReason {
    /// A limit on commands.
    Iops,
    /// A limit on bytes.
    Bandwidth,
    /// Too few operation or payload credits.
    Credits,
}

/// A rate in operations or bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

impl Rate {
    /// The greatest rate.
    pub const MAX: Self = Self(1 << 40);

    /// Makes a rate of `n` a second. `None` where `n` is 0 or more than 2^40.
    #[must_use]
    pub const fn per_second(n: u64) -> Option<Self> {
        if n >= 1 && n <= Self::MAX.0 { Some(Self(n)) } else { None }
    }

    /// Returns the operations or bytes a second.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the time of one operation or byte, in 1/2^28 ticks: 2^64 is just more than the time
    /// at 1/s.
    const fn interval(self) -> u64 {
        (SECOND_TICKS << INTERVAL_DIGITS) / self.0
    }
}

/// A limit on a rate, shared by all reactors.
///
/// Amounts are in the unit of the limit's rate. Threads may pass present times that differ a
/// little.
#[derive(Debug, Default)]
pub struct Limiter {
    /// Time at which all charges are paid for, in ticks.
    paid: AtomicU64,
    /// Time of one operation or byte, as [`Rate::interval`] computes it; 0: no limit.
    interval: AtomicU64,
    /// The rate that was set, in operations or bytes a second; 0: no limit.
    rate: AtomicU64,
    /// Time by which the depth is more than [`TOLERANCE`], in ticks.
    beyond: AtomicU64,
    /// Commands whose hosts were asked to send them again later.
    sent_back: SentBack,
}

impl Limiter {
    /// Makes a limit of this rate; `None`: no limit.
    #[must_use]
    pub fn new(rate: Option<Rate>) -> Self {
        Self {
            paid: AtomicU64::new(0),
            interval: AtomicU64::new(rate.map_or(0, Rate::interval)),
            rate: AtomicU64::new(rate.map_or(0, Rate::get)),
            beyond: AtomicU64::new(0),
            sent_back: SentBack::default(),
        }
    }

    /// Changes the rate, and keeps the burst; see [`set_with_burst`](Self::set_with_burst).
    pub fn set(&self, now: Nanos, rate: Option<Rate>) {
        self.set_with_burst(now, rate, self.burst());
    }

    /// Changes the rate, and the time for which an idle user saves credit. Debts and saved credit
    /// stay the same in operations or bytes, but nobody waits longer than a second at the new rate
    /// for what went before it, and credit beyond the new burst is lost. A limit where there was
    /// none begins with all its credit.
    ///
    /// Only one thread at a time may call this. A command charged at the same moment may count at
    /// either rate.
    pub fn set_with_burst(&self, now: Nanos, rate: Option<Rate>, burst: Nanos) {
        let new = rate.map_or(0, Rate::interval);
        let beyond = ticks(burst).saturating_sub(TOLERANCE_TICKS);
        self.rate.store(rate.map_or(0, Rate::get), Relaxed);
        let (old, was_beyond) =
            (self.interval.swap(new, Relaxed), self.beyond.swap(beyond, Relaxed));
        if (old, was_beyond) == (new, beyond) {
            return;
        }
        let now = ticks(now);
        let empty = |beyond: u64| now.saturating_add(TOLERANCE_TICKS).saturating_add(beyond);
        let (was_empty, is_empty) = (empty(was_beyond), empty(beyond));
        self.update(|paid| {
            if old == 0 {
                return now;
            }
            let debt = converted(paid.saturating_sub(was_empty), old, new).min(SECOND_TICKS);
            let credit = converted(was_empty.saturating_sub(paid.max(now)), old, new);
            is_empty.saturating_add(debt).saturating_sub(credit).max(now)
        });
    }

    /// Returns the time for which an idle user saves credit; at least [`TOLERANCE`].
    #[must_use]
    pub fn burst(&self) -> Nanos {
        Nanos(TOLERANCE.0 + self.beyond.load(Relaxed) / TICKS_PER_NS)
    }

    /// Returns the rate; `None`: no limit.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        Rate::per_second(self.rate.load(Relaxed))
    }

    /// Returns whether there is a limit.
    #[inline]
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.interval.load(Relaxed) != 0
    }

    /// Checks whether one more command of any size may pass now.
    ///
    /// # Errors
    ///
    /// The time at which a command may pass, if nothing else is charged until then.
    #[inline]
    pub fn check(&self, now: Nanos) -> Result<(), Nanos> {
        if !self.is_limited() {
            return Ok(());
        }
        may_pass(self.paid.load(Relaxed), ticks(now), self.depth())
    }

    /// Returns the time since which the limit lets the next command pass; 0 without a limit.
    pub(crate) fn open_since(&self) -> Nanos {
        Nanos(self.paid_at().0.saturating_sub(self.depth() / TICKS_PER_NS))
    }

    /// Charges a command that passed a [`check`](Self::check), by `amount`. The limit goes into
    /// debt: a large command passes as early as a small one would, and the wait comes after it.
    ///
    /// The command has waited since `since`. The time in which the limit let it pass and others had
    /// their turns before it is not lost, as far as the depth is then no more than the command costs.
    ///
    /// Between the check and the charge other threads may have charged one command each.
    #[inline]
    pub fn charge(&self, now: Nanos, since: Nanos, amount: u64) {
        let interval = self.interval.load(Relaxed);
        if interval == 0 {
            return;
        }
        let cost = cost(interval, amount);
        let late = ticks(now).saturating_sub(cost.saturating_sub(self.depth()));
        let [floor, since] =
            [self.floor(now, interval), ticks(since)].map(|at| self.begin(at, cost));
        let floor = floor.min(late.max(since));
        self.update(|paid| paid.max(floor).saturating_add(cost));
    }

    /// Returns the time that the charge of `cost` begins with, in ticks, for a command that could first pass at `at`.
    /// Without a burst, the command itself is a part of the depth.
    #[inline]
    fn begin(&self, at: u64, cost: u64) -> u64 {
        let has_burst = self.beyond.load(Relaxed) > 0;
        at.saturating_add(if has_burst { 0 } else { cost.min(TOLERANCE_TICKS) })
    }

    /// Charges time for which a command occupied its device, instead of an amount. A command never
    /// pays for more than `most`, which is in the unit of the rate.
    #[inline]
    pub fn charge_time(&self, now: Nanos, nanos: u64, most: u64) {
        let interval = self.interval.load(Relaxed);
        if interval == 0 {
            return;
        }
        let cost = ticks(Nanos(nanos)).min(cost(interval, most));
        let floor = self.floor(now, interval);
        self.update(|paid| paid.max(floor).saturating_add(cost));
    }

    /// Returns the time at which all charges are paid for, which may be in the past; 0 without a limit.
    #[must_use]
    pub fn paid_at(&self) -> Nanos {
        match self.is_limited() {
            true => Nanos(self.paid.load(Relaxed).div_ceil(TICKS_PER_NS)),
            false => Nanos::ZERO,
        }
    }

    /// Notes that a host was asked to send a command of this amount again by `until`. The limit
    /// compensates for the unused time until then: a host that waits as requested loses nothing of
    /// its rate.
    pub fn send_back(&self, now: Nanos, amount: u64, until: Nanos) {
        if self.is_limited() {
            self.sent_back.add(now, amount, until);
        }
    }

    /// Notes that hosts may wait until `until` before they resend the commands that were sent back.
    pub fn postpone_retries(&self, until: Nanos) {
        self.sent_back.postpone(until);
    }

    /// Notes that a command which was sent back has come again.
    pub fn came_again(&self, now: Nanos, amount: u64) {
        self.sent_back.remove(now, amount, Nanos(self.paid.load(Relaxed) / TICKS_PER_NS));
    }

    /// Notes that the host of a command which was sent back has gone.
    pub fn lose_sent_back(&self, amount: u64) {
        self.sent_back.lose(amount);
    }

    /// Returns the time in ns at this rate until a new command may pass behind all commands that
    /// were sent back; 0 if none is to come again.
    #[must_use]
    pub fn wait_behind_sent_back(&self, now: Nanos) -> u64 {
        let interval = self.interval.load(Relaxed);
        let out = cost(interval, self.sent_back.out(now));
        if out == 0 {
            return 0;
        }
        let paid = self.paid.load(Relaxed).max(self.floor(now, interval));
        let saved = self.beyond.load(Relaxed);
        paid.saturating_add(out).saturating_sub(ticks(now).saturating_add(saved)) / TICKS_PER_NS
    }

    /// Returns the earliest time, in ticks, that may still be paid with: the present, or less while
    /// commands are sent back.
    #[inline]
    fn floor(&self, now: Nanos, interval: u64) -> u64 {
        ticks(self.sent_back.earliest(now, |amount| cost(interval, amount) / TICKS_PER_NS))
    }

    /// Checks and charges in one atomic step. The depth passes at once, and one command more.
    ///
    /// # Errors
    ///
    /// The time at which the command may pass, as in [`check`](Self::check). Nothing was charged.
    #[inline]
    pub fn take(&self, now: Nanos, amount: u64) -> Result<(), Nanos> {
        let interval = self.interval.load(Relaxed);
        if interval == 0 {
            return Ok(());
        }
        let (floor, cost) = (self.floor(now, interval), cost(interval, amount));
        let (now, depth) = (ticks(now), self.depth());
        let mut paid = self.paid.load(Relaxed);
        loop {
            may_pass(paid, now, depth)?;
            let next = paid.max(floor).saturating_add(cost);
            match self.paid.compare_exchange_weak(paid, next, Relaxed, Relaxed) {
                Ok(_) => return Ok(()),
                Err(seen) => paid = seen,
            }
        }
    }

    /// Refunds an unused charge. Amounts that time has already paid for are not refunded.
    #[inline]
    pub fn give_back(&self, amount: u64) {
        let cost = cost(self.interval.load(Relaxed), amount);
        if cost != 0 {
            self.update(|paid| paid.saturating_sub(cost));
        }
    }

    /// Returns how far charges may be ahead of the present, in ticks.
    #[inline]
    fn depth(&self) -> u64 {
        TOLERANCE_TICKS.saturating_add(self.beyond.load(Relaxed))
    }

    #[inline]
    fn update(&self, next: impl Fn(u64) -> u64) {
        let mut paid = self.paid.load(Relaxed);
        while let Err(seen) = self.paid.compare_exchange_weak(paid, next(paid), Relaxed, Relaxed) {
            paid = seen;
        }
    }
}

#[inline]
fn ticks(time: Nanos) -> u64 {
    time.0.saturating_mul(TICKS_PER_NS)
}

#[inline]
fn may_pass(paid: u64, now: u64, depth: u64) -> Result<(), Nanos> {
    if paid <= now.saturating_add(depth) {
        return Ok(());
    }
    Err(Nanos((paid - depth).div_ceil(TICKS_PER_NS)))
}

/// Returns the time that `amount` takes at this interval, in ticks, rounded to the nearest.
#[inline]
fn cost(interval: u64, amount: u64) -> u64 {
    let half = 1 << (INTERVAL_DIGITS - 1);
    let ticks = (u128::from(interval) * u128::from(amount) + half) >> INTERVAL_DIGITS;
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

/// Converts a debt or credit in ticks at the interval `old` to ticks at the interval `new`.
fn converted(ticks: u64, old: u64, new: u64) -> u64 {
    let ticks = (u128::from(ticks) * u128::from(new)).checked_div(u128::from(old)).unwrap_or(0);
    u64::try_from(ticks).unwrap_or(u64::MAX)
}
