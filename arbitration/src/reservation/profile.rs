//! The time that a device takes for a command: the mean and the worst, as the broker counts them
//! (docs/research/sources.md, F1: reservations in the tenant's terms).

use units::Nanos;

use super::terms::{Locality, Terms};
use crate::window::kib_beyond;

/// A device's time for a command of 4 KiB while the device is busy: the command's share of the
/// device, which is the time it spends there divided by the number of commands that are served
/// together. The shares of all commands of a second add up to a second when the device is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceTime {
    /// MET: the mean.
    pub mean: Nanos,
    /// WCET: the worst. Not below the mean.
    pub worst: Nanos,
}

/// The time that one KiB beyond the first four adds to a command's share of the device, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerKib {
    /// Time for a read.
    pub read: u64,
    /// Time for a write.
    pub write: u64,
}

/// A device as the broker sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Times of a read of 4 KiB.
    pub read: ServiceTime,
    /// Times of a write of 4 KiB.
    pub write: ServiceTime,
    /// Time that larger commands add.
    pub per_kib: PerKib,
    /// Number of commands that the device serves at once, at least 1. A command's share, times
    /// this, is its time in the device.
    pub parallelism: u32,
    /// The device has a head that moves: Eq. (1) applies as printed (docs/research/sources.md, F1:
    /// reservations in the tenant's terms), with two more worst times in each period, and commands
    /// one after the other cost their transfer alone.
    pub seeks: bool,
}

/// The configuration's values for a device, which take precedence over measured ones. Times are for
/// one command in the device, as in a data sheet, not shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// The mean time of a command of 4 KiB in the device.
    pub mean: Option<Nanos>,
    /// The worst time of a command of 4 KiB in the device.
    pub worst: Option<Nanos>,
    /// Number of commands that the device serves at once.
    pub parallelism: Option<u32>,
    /// Whether the device has a head that moves.
    pub seeks: bool,
}

impl Profile {
    /// Makes a profile from times in the device, for reads and writes alike: `mean` and `worst` of
    /// a command of 4 KiB, `per_kib` ns for each KiB beyond, of which the device serves
    /// `parallelism` at once.
    #[must_use]
    pub fn of_device(mean: Nanos, worst: Nanos, per_kib: u64, parallelism: u32) -> Self {
        let parallelism = parallelism.max(1);
        let share = |ns: u64| ns.div_ceil(u64::from(parallelism));
        let mean = Nanos(share(mean.0).max(1));
        let time = ServiceTime { mean, worst: Nanos(share(worst.0)).max(mean) };
        let per_kib = PerKib { read: share(per_kib), write: share(per_kib) };
        Self { read: time, write: time, per_kib, parallelism, seeks: false }
    }

    /// Returns this profile with configured values in place of measured ones.
    #[must_use]
    pub fn overridden(mut self, by: &Overrides) -> Self {
        self.parallelism = by.parallelism.unwrap_or(self.parallelism).max(1);
        self.seeks |= by.seeks;
        let share = |ns: Nanos| Nanos(ns.0.div_ceil(u64::from(self.parallelism)).max(1));
        for time in [&mut self.read, &mut self.write] {
            time.mean = by.mean.map_or(time.mean, share);
            time.worst = by.worst.map_or(time.worst, share).max(time.mean);
        }
        self
    }

    /// Returns whether another profile of the device differs by more than a quarter in a mean time or in the
    /// parallelism. Worst times count for nothing here: they change with every hiccup.
    #[must_use]
    pub fn differs(&self, other: &Self) -> bool {
        let figures = |of: &Self| {
            let mean = |(write, bytes)| of.mean(write, bytes);
            let kinds = [(false, 4096), (true, 4096), (false, 65_536), (true, 65_536)].map(mean);
            kinds.into_iter().chain([of.parallelism.into()])
        };
        figures(self).zip(figures(other)).any(|(one, other)| {
            let (less, more) = (one.min(other), one.max(other));
            more > less.saturating_add(less / 4).saturating_add(1)
        })
    }

    const fn times(&self, write: bool) -> (ServiceTime, u64) {
        if write { (self.write, self.per_kib.write) } else { (self.read, self.per_kib.read) }
    }

    /// Returns the mean share of a command of `bytes` bytes anywhere on the device, in ns.
    #[must_use]
    pub const fn mean(&self, write: bool, bytes: u32) -> u64 {
        let (time, per_kib) = self.times(write);
        time.mean.0.saturating_add(kib_beyond(bytes).saturating_mul(per_kib))
    }

    /// Returns the worst share of a command of `bytes` bytes, in ns.
    #[must_use]
    pub const fn worst(&self, write: bool, bytes: u32) -> u64 {
        let (time, per_kib) = self.times(write);
        time.worst.0.saturating_add(kib_beyond(bytes).saturating_mul(per_kib))
    }

    /// Computes the worst share of this many commands, in ns. They have `kib` KiB beyond the first
    /// four of each in all.
    pub(super) const fn worst_of_all(&self, write: bool, (commands, kib): (u64, u64)) -> u64 {
        let (time, per_kib) = self.times(write);
        time.worst.0.saturating_mul(commands).saturating_add(per_kib.saturating_mul(kib))
    }

    /// Computes the mean device time of this many commands, in ns. They have `kib` KiB beyond the
    /// first four of each in all.
    pub(super) const fn mean_of_all(&self, write: bool, (commands, kib): (u64, u64)) -> u64 {
        let (time, per_kib) = self.times(write);
        time.mean.0.saturating_mul(commands).saturating_add(per_kib.saturating_mul(kib))
    }

    /// Computes the mean time of a command in the device, in ns.
    pub(crate) fn in_device(&self, write: bool, bytes: u32) -> u64 {
        self.mean(write, bytes).saturating_mul(self.parallelism.max(1).into())
    }

    /// Returns the charge for a command until its time is known, in ns. On a disk, that is its
    /// worst time. A device without seeks serves many commands at once, and a command's time there
    /// reflects the others as well. So there the charge never exceeds the time that the broker sets
    /// aside for a command of its size and kind.
    pub(super) const fn assumed(&self, write: bool, bytes: u32) -> u64 {
        if self.seeks { self.worst(write, bytes) } else { padded(self.mean(write, bytes)) }
    }

    /// Returns the same charge for a tenant's usual command, of the kinds that the tenant sends.
    pub(super) fn assumed_of(&self, terms: &Terms) -> u64 {
        let assumed = |write| self.assumed(write, terms.request_bytes);
        Self::most_of(terms.write_percent, assumed)
    }

    /// Returns the mean time (MET) of a tenant's commands in ns, by their size, their mix and their
    /// locality.
    #[must_use]
    pub fn mean_of(&self, terms: &Terms) -> u64 {
        let mean = |write| match terms.locality {
            Locality::Sequential if self.seeks => self.transfer(write, terms.request_bytes),
            _ => self.mean(write, terms.request_bytes),
        };
        let writes = u128::from(terms.write_percent.min(100));
        let sum = u128::from(mean(false)) * (100 - writes) + u128::from(mean(true)) * writes;
        u64::try_from(sum.div_ceil(100)).unwrap_or(u64::MAX).max(1)
    }

    /// Returns the worst time (WCET) of a tenant's commands in ns: the worst of the kinds that the
    /// tenant sends.
    #[must_use]
    pub fn worst_of(&self, terms: &Terms) -> u64 {
        Self::most_of(terms.write_percent, |write| self.worst(write, terms.request_bytes))
    }

    /// Returns the greater value of a read and a write, of the kinds that there are.
    fn most_of(write_percent: u8, of: impl Fn(bool) -> u64) -> u64 {
        match write_percent {
            0 => of(false),
            1..=99 => of(false).max(of(true)),
            _ => of(true),
        }
    }

    /// Returns the time of a command that needs no seek, in ns: its transfer.
    fn transfer(&self, write: bool, bytes: u32) -> u64 {
        let (time, per_kib) = self.times(write);
        let kib = u64::from(bytes.div_ceil(1024)).max(1);
        per_kib.saturating_mul(kib).clamp(1, time.worst.0.max(1))
    }
}

impl Default for Profile {
    /// Makes the profile of a modest flash drive, for a device that was not measured yet: 100 us
    /// for a command of 4 KiB, 10 ms at the worst, eight at once, 500 MB/s.
    fn default() -> Self {
        Self::of_device(Nanos(100_000), Nanos(10_000_000), 16_384, 8)
    }
}

/// Returns a mean share on a device without seeks as the broker counts it: one eighth more, because
/// it is a measured one, and a tenant's own commands scatter around it. A disk has the two seeks of
/// Eq. (1).
pub(super) const fn padded(mean: u64) -> u64 {
    mean.saturating_add(mean.div_ceil(8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reservation::Budget;

    fn terms(request_bytes: u32, write_percent: u8, locality: Locality) -> Terms {
        let budget = Budget::Operations(10);
        Terms { request_bytes, write_percent, locality, ..Terms::of(budget, Nanos(1_000_000_000)) }
    }

    #[test]
    fn f1_times_in_the_device_become_shares_of_it() {
        let profile = Profile::of_device(Nanos(100_000), Nanos(10_000_000), 800, 8);
        assert_eq!(profile.mean(false, 4096), 12_500);
        assert_eq!(profile.worst(true, 512), 1_250_000);
        assert_eq!(profile.mean(false, 8192), 12_500 + 4 * 100, "four KiB more");
    }

    #[test]
    fn f1_mean_and_worst_follow_the_mix() {
        let mut profile = Profile::of_device(Nanos(100), Nanos(1000), 0, 1);
        profile.write = ServiceTime { mean: Nanos(300), worst: Nanos(500) };
        let of = |percent| terms(4096, percent, Locality::Random);
        assert_eq!(profile.mean_of(&of(0)), 100);
        assert_eq!(profile.mean_of(&of(50)), 200);
        assert_eq!(profile.mean_of(&of(100)), 300);
        assert_eq!(profile.worst_of(&of(100)), 500);
        assert_eq!(profile.worst_of(&of(1)), 1000, "one read suffices");
    }

    #[test]
    fn f1_locality_counts_where_a_head_moves() {
        let mut profile = Profile::of_device(Nanos(8_000_000), Nanos(20_000_000), 10_000, 1);
        let sequential = terms(65_536, 0, Locality::Sequential);
        assert_eq!(profile.mean_of(&sequential), 8_000_000 + 60 * 10_000, "flash: no difference");
        profile.seeks = true;
        assert_eq!(profile.mean_of(&sequential), 64 * 10_000, "a disk: the transfer alone");
    }

    #[test]
    fn f1_configured_times_go_before_measured_ones() {
        let by =
            Overrides { mean: Some(Nanos(80_000)), parallelism: Some(4), ..Overrides::default() };
        let profile = Profile::default().overridden(&by);
        assert_eq!(profile.mean(false, 4096), 20_000);
        assert_eq!(profile.worst(false, 4096), 1_250_000, "not configured: as before");
        assert_eq!(profile.parallelism, 4);
        let worst = Overrides { worst: Some(Nanos(1)), ..by };
        assert_eq!(Profile::default().overridden(&worst).worst(false, 1), 20_000, "not below mean");
    }
}
