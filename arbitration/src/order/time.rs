//! Costs of commands in device time, for shares that count it.
//!
//! The costs follow the profile of the device: the time of the device that a command takes while the
//! device is busy. A command is charged once, when it goes, by the costs of that moment, and nothing
//! is settled later. So a change of the profile leaves no debt: at most one command of each class,
//! session and host was charged by the costs from before and is not paid back yet.

use crate::sync::{AtomicU64, Ordering::Relaxed};

use units::Nanos;

use crate::reservation::Profile;
use crate::window::kib_beyond;

/// Cost of a command where commands count, of 4 KiB where bytes count, and of a read of 4 KiB where
/// device time counts.
pub(super) const COST: u32 = 256;

/// Length of the interval in which costs stay, as a power of two of ns: about a second.
const INTERVAL_SHIFT: u32 = 30;

/// Binary digits below 1 of the costs that are kept.
const DIGITS: u32 = 8;

/// Greatest cost of a command: the cost of 4 GiB where bytes count.
const MOST: u64 = 1 << 28;

/// The costs of commands at a device in device time, shared by all reactors. A read of 4 KiB costs
/// [`COST`].
#[derive(Debug, Default)]
pub(crate) struct DeviceTimes {
    /// The interval in which the costs were taken from the profile, counted from 1; 0: none.
    interval: AtomicU64,
    reads: Line,
    writes: Line,
}

/// The costs of reads or of writes in 1/2^[`DIGITS`], in one word so that both are of one profile:
/// the cost of 4 KiB above bit 32, the cost of each further KiB below. 0: there is no profile.
#[derive(Debug, Default)]
struct Line(AtomicU64);

impl Line {
    fn set(&self, line: Option<(u64, u64)>) {
        let most = u64::from(u32::MAX);
        let word = line.map_or(0, |(first, kib)| first.clamp(1, most) << 32 | kib.min(most));
        self.0.store(word, Relaxed);
    }

    #[inline]
    fn cost(&self, bytes: u32) -> Option<u32> {
        let word = self.0.load(Relaxed);
        if word == 0 {
            return None;
        }
        let (first, kib) = (word >> 32, word & u64::from(u32::MAX));
        // At most 2^32 + 2^22 * 2^32.
        let cost = (first + kib_beyond(bytes) * kib) >> DIGITS;
        u32::try_from(cost.clamp(1, MOST)).ok()
    }
}

impl DeviceTimes {
    /// Takes the costs from the profile, where a new interval has begun.
    #[inline]
    pub(crate) fn refresh(&self, now: Nanos, profile: impl FnOnce() -> Option<Profile>) {
        let interval = (now.0 >> INTERVAL_SHIFT) + 1;
        if interval > self.interval.load(Relaxed) {
            self.take(interval, profile);
        }
    }

    #[cold]
    fn take(&self, interval: u64, profile: impl FnOnce() -> Option<Profile>) {
        if self.interval.fetch_max(interval, Relaxed) >= interval {
            return;
        }
        let profile = profile();
        let lines = profile.map(|profile| [false, true].map(|write| costs(&profile, write)));
        let [reads, writes] = lines.map_or([None; 2], |lines| lines.map(Some));
        self.reads.set(reads);
        self.writes.set(writes);
    }

    /// Computes the cost of a command. `None`: the device has no profile yet.
    #[inline]
    pub(crate) fn cost(&self, write: bool, bytes: u32) -> Option<u32> {
        if write { self.writes.cost(bytes) } else { self.reads.cost(bytes) }
    }
}

/// Computes the costs of 4 KiB, and of each KiB beyond, in 1/2^[`DIGITS`].
fn costs(profile: &Profile, write: bool) -> (u64, u64) {
    let unit = profile.mean(false, 4096).max(1);
    let kib = if write { profile.per_kib.write } else { profile.per_kib.read };
    let cost = |ns: u64| {
        let cost = u128::from(ns) * u128::from(COST << DIGITS) / u128::from(unit);
        u64::try_from(cost).unwrap_or(u64::MAX)
    };
    (cost(profile.mean(write, 4096)), cost(kib))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(mean: u64, per_kib: u64) -> Profile {
        Profile::of_device(Nanos(mean), Nanos(10 * mean), per_kib, 1)
    }

    #[test]
    fn costs_are_proportional_to_device_time() {
        let times = DeviceTimes::default();
        assert_eq!(times.cost(false, 4096), None, "bytes count without a profile");
        let mut measured = profile(80_000, 500);
        measured.write.mean = Nanos(20_000);
        measured.per_kib.write = 2000;
        times.refresh(Nanos(1), || Some(measured));
        assert_eq!(times.cost(false, 512), Some(COST), "at least as much as 4 KiB");
        assert_eq!(times.cost(false, 4096), Some(COST));
        assert_eq!(times.cost(true, 4096), Some(COST / 4));
        for (write, bytes) in [131_072, 1 << 20].into_iter().flat_map(|n| [(false, n), (true, n)]) {
            let cost = u64::from(times.cost(write, bytes).unwrap());
            let exact = measured.mean(write, bytes) * u64::from(COST) / 80_000;
            assert!(cost.abs_diff(exact) <= 1 + exact / 256, "{bytes}: {cost}, not {exact}");
        }
    }

    #[test]
    fn costs_follow_profile_within_bounds() {
        let times = DeviceTimes::default();
        times.refresh(Nanos(0), || None);
        times.refresh(Nanos(1000), || panic!("it is the same second"));
        assert_eq!(times.cost(false, 4096), None);
        times.refresh(Nanos(1 << INTERVAL_SHIFT), || Some(profile(1, u64::MAX / 8)));
        assert_eq!(times.cost(true, u32::MAX), Some(1 << 28));
        times.refresh(Nanos(2 << INTERVAL_SHIFT), || Some(profile(u64::MAX / 20, 0)));
        assert_eq!(times.cost(true, u32::MAX), Some(COST));
        let mut cheap = profile(u64::MAX / 20, 0);
        cheap.write.mean = Nanos(1);
        times.refresh(Nanos(3 << INTERVAL_SHIFT), || Some(cheap));
        assert_eq!(times.cost(true, 4096), Some(1), "no command is free");
    }
}
