//! Measures a device while it works: the profile that the broker needs (seed row F1).

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::profile::{Overrides, PerKib, Profile, ServiceTime};
use crate::time::Nanos;

/// So many samples make a mean that is used.
const ENOUGH: u64 = 64;
/// So many make one to rely on.
const PLENTY: u64 = 1024;
/// A sample's weight in the long run: one in 2^8.
const WEIGHT_SHIFT: u32 = 8;
/// Depths apart from each other: 1, 2, 4 and so on to 256 and more.
const DEPTHS: usize = 9;
/// Commands up to here are of ordinary size.
const SMALL: u32 = 4096;
/// From here on they tell what a KiB adds.
const LARGE: u32 = 16_384;
/// How often the parallelism is estimated anew, as a power of two of ns: about a second.
const BEAT_SHIFT: u32 = 30;
/// After so many beats, about a minute, what is old loses half of its weight.
const FADE: u64 = 64;
/// After so many minutes nothing is left of the most samples.
const FORGOTTEN: u64 = 10;

/// Measures a device's service times from its completions, shared by all reactors.
///
/// Every completion tells how long a command was in the device and how many were there with it;
/// the time divided by the number is the command's share. The mean share depends on how full the
/// device is: it falls until all that the device can do at once is done. The least mean of all
/// depths is that of a busy device, and a lone command's time divided by it is the parallelism.
///
/// Threads do not wait for each other: of two samples at the same moment one may be lost.
#[derive(Debug, Default)]
pub struct Profiler {
    reads: Kind,
    writes: Kind,
    /// The parallelism to divide by: configured or estimated; 0: not known yet.
    parallelism: AtomicU32,
    configured: AtomicU32,
    beat: AtomicU64,
}

/// What is measured of reads, or of writes.
#[derive(Debug, Default)]
struct Kind {
    /// Mean shares of small commands by the depth they met.
    small: [Average; DEPTHS],
    large: Average,
    /// The mean size of large commands in KiB.
    large_kib: Average,
    /// The worst times in the device of small commands, of this minute and the one before.
    worst: [AtomicU64; 2],
}

/// How well a profile is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sureness {
    /// Too few commands have completed for any profile.
    Unmeasured,
    /// Hundreds have.
    Rough,
    /// Enough have, lately.
    Sure,
}

impl fmt::Display for Sureness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unmeasured => "unmeasured",
            Self::Rough => "rough",
            Self::Sure => "sure",
        })
    }
}

impl Profiler {
    /// A profiler that knows nothing but a configured parallelism.
    #[must_use]
    pub fn new(overrides: &Overrides) -> Self {
        let profiler = Self::default();
        profiler.set(overrides);
        profiler
    }

    /// Takes over a changed configuration; what was measured stays.
    pub fn set(&self, overrides: &Overrides) {
        let configured = overrides.parallelism.unwrap_or(0);
        self.configured.store(configured, Ordering::Relaxed);
        if configured != 0 {
            self.parallelism.store(configured, Ordering::Relaxed);
        }
    }

    /// A command of `bytes` bytes, in the device since `dispatched`, has completed; `in_device`
    /// commands were there with it, itself among them (when it came or when it left). Returns its
    /// share of the device's time in ns, which is what
    /// [`Reserved::settle`](super::Reserved::settle) wants.
    #[inline]
    pub fn record(
        &self,
        now: Nanos,
        write: bool,
        bytes: u32,
        dispatched: Nanos,
        in_device: u32,
    ) -> u64 {
        let (time, depth) = (now.since(dispatched), in_device.max(1));
        let beat = now.0 >> BEAT_SHIFT;
        if beat > self.beat.load(Ordering::Relaxed) {
            self.go_on(beat);
        }
        let parallelism = self.parallelism.load(Ordering::Relaxed).max(1);
        let share = time / u64::from(depth.max(parallelism));
        let kind = if write { &self.writes } else { &self.reads };
        if bytes <= SMALL {
            let alone = share.saturating_mul(parallelism.into());
            kind.record_small(time / u64::from(depth), depth, alone, beat);
        } else if bytes >= LARGE {
            kind.large.add(share);
            kind.large_kib.add(u64::from(bytes >> 10));
        }
        share
    }

    /// The profile, as far as it was measured and with what was configured instead; `None` until
    /// there is one.
    #[must_use]
    pub fn profile(&self, overrides: &Overrides) -> Option<Profile> {
        let measured = self.measured();
        let configured = overrides.mean.map(|_| Profile::default());
        Some(measured.or(configured)?.overridden(overrides))
    }

    /// How well the device is known by now.
    #[must_use]
    pub fn sureness(&self) -> Sureness {
        match self.reads.samples().max(self.writes.samples()) {
            0..ENOUGH => Sureness::Unmeasured,
            ENOUGH..PLENTY => Sureness::Rough,
            _ => Sureness::Sure,
        }
    }

    fn measured(&self) -> Option<Profile> {
        let parallelism = self.estimate();
        let of = |kind: &Kind| kind.times(parallelism);
        let (read, write) = (of(&self.reads), of(&self.writes));
        // What was never seen is taken to be like the other.
        let ((read, read_kib), (write, write_kib)) = (read.or(write)?, write.or(read)?);
        let per_kib = PerKib { read: read_kib, write: write_kib };
        Some(Profile { read, write, per_kib, parallelism, seeks: false })
    }

    /// How many commands the device serves at once.
    fn estimate(&self) -> u32 {
        match self.configured.load(Ordering::Relaxed) {
            0 => self.reads.parallelism().max(self.writes.parallelism()).unwrap_or(1),
            configured => configured,
        }
    }

    /// Once in a while, in one thread: estimates the parallelism, and lets old samples fade.
    #[cold]
    fn go_on(&self, beat: u64) {
        let before = self.beat.fetch_max(beat, Ordering::Relaxed);
        if before >= beat {
            return;
        }
        self.parallelism.store(self.estimate(), Ordering::Relaxed);
        let (before, minute) = (before / FADE, beat / FADE);
        for minute in (before + 1).max(minute.saturating_sub(FORGOTTEN))..=minute {
            self.reads.fade(minute);
            self.writes.fade(minute);
        }
    }
}

impl Kind {
    #[inline]
    fn record_small(&self, share: u64, depth: u32, alone: u64, beat: u64) {
        if let Some(average) = usize::try_from(depth.ilog2()).ok().and_then(|at| self.depth(at)) {
            average.add(share);
        }
        let worst = self.worst_of(beat / FADE);
        if alone > worst.load(Ordering::Relaxed) {
            worst.fetch_max(alone, Ordering::Relaxed);
        }
    }

    #[inline]
    fn depth(&self, at: usize) -> Option<&Average> {
        self.small.get(at.min(DEPTHS - 1))
    }

    #[inline]
    const fn worst_of(&self, minute: u64) -> &AtomicU64 {
        let [even, odd] = &self.worst;
        if minute.is_multiple_of(2) { even } else { odd }
    }

    fn samples(&self) -> u64 {
        self.small.iter().map(Average::count).sum::<u64>() + self.large.count()
    }

    /// The mean share of a small command in a busy device.
    fn busy(&self) -> Option<u64> {
        self.small.iter().filter_map(Average::get).min()
    }

    /// How many lone commands would fit into the time of one: their time over their share in a
    /// busy device. Where none was alone, the least depth that made the device busy.
    fn parallelism(&self) -> Option<u32> {
        let busy = self.busy()?.max(1);
        let found = match self.small.first().and_then(Average::get) {
            Some(alone) => (alone + busy / 2) / busy,
            None => {
                let mut depths = self.small.iter().map(Average::get);
                1 << depths.position(|mean| mean.is_some_and(|mean| mean <= busy + busy / 8))?
            }
        };
        Some(u32::try_from(found).unwrap_or(u32::MAX).clamp(1, 1024))
    }

    /// The service time of 4 KiB, and what a KiB adds.
    fn times(&self, parallelism: u32) -> Option<(ServiceTime, u64)> {
        let (mean, per_kib) = match (self.busy(), self.large()) {
            (Some(mean), Some((share, kib))) => (mean, share.saturating_sub(mean) / (kib - 4)),
            (Some(mean), None) => (mean, Profile::default().per_kib.read),
            // Right for the size that was seen, and not too little for others.
            (None, Some((share, kib))) => (share / 2, share.div_ceil(2) / (kib - 4)),
            (None, None) => return None,
        };
        let mean = Nanos(mean.max(1));
        let [even, odd] = self.worst.each_ref().map(|worst| worst.load(Ordering::Relaxed));
        let worst = Nanos(even.max(odd).div_ceil(u64::from(parallelism))).max(mean);
        Some((ServiceTime { mean, worst }, per_kib))
    }

    /// The mean share and size, in KiB, of large commands.
    fn large(&self) -> Option<(u64, u64)> {
        Some((self.large.get()?, self.large_kib.get()?.max(u64::from(LARGE >> 10))))
    }

    /// Minute number `minute` begins.
    fn fade(&self, minute: u64) {
        self.small.iter().chain([&self.large, &self.large_kib]).for_each(Average::fade);
        self.worst_of(minute).store(0, Ordering::Relaxed);
    }
}

/// A mean in which the latest samples count most: its count in the upper 16 bits, up to `PLENTY`,
/// and the mean in 1/16 in the lower 48.
#[derive(Debug, Default)]
struct Average(AtomicU64);

const MEAN_BITS: u32 = 48;
const MEAN_MASK: u64 = (1 << MEAN_BITS) - 1;

impl Average {
    #[inline]
    fn add(&self, sample: u64) {
        let word = self.0.load(Ordering::Relaxed);
        let (count, mean) = (word >> MEAN_BITS, word & MEAN_MASK);
        let sample = sample.min(MEAN_MASK >> 4) << 4;
        let new = if count >= 1 << WEIGHT_SHIFT {
            mean - (mean >> WEIGHT_SHIFT) + (sample >> WEIGHT_SHIFT)
        } else {
            (mean * count + sample) / (count + 1)
        };
        let count = (count + 1).min(PLENTY);
        self.0.store(count << MEAN_BITS | new.min(MEAN_MASK), Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed) >> MEAN_BITS
    }

    /// The mean, once it is one.
    fn get(&self) -> Option<u64> {
        let word = self.0.load(Ordering::Relaxed);
        (word >> MEAN_BITS >= ENOUGH).then_some((word & MEAN_MASK) >> 4)
    }

    fn fade(&self) {
        let word = self.0.load(Ordering::Relaxed);
        self.0.store(word >> (MEAN_BITS + 1) << MEAN_BITS | word & MEAN_MASK, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Overrides = Overrides { mean: None, worst: None, parallelism: None, seeks: false };

    /// A device with `channels`, each of which takes `ns` for a command and `per_kib` ns for each
    /// KiB beyond 4. Keeps `depth` commands in it until `count` have completed.
    struct Model {
        channels: u64,
        ns: u64,
        per_kib: u64,
        now: u64,
    }

    impl Model {
        fn run(&mut self, profiler: &Profiler, depth: u32, count: u64, write: bool, bytes: u32) {
            let work = self.ns + self.per_kib * u64::from(bytes >> 10).saturating_sub(4);
            let busy = self.channels.min(depth.into());
            for _ in 0..count {
                // In the steady state one completes every work/busy, and each waits its turn.
                self.now += work / busy;
                let in_device = work * u64::from(depth) / busy;
                let dispatched = Nanos(self.now - in_device.min(self.now));
                profiler.record(Nanos(self.now), write, bytes, dispatched, depth);
            }
        }
    }

    fn model(channels: u64, ns: u64) -> Model {
        Model { channels, ns, per_kib: 800, now: 1 << 32 }
    }

    #[test]
    fn f1_it_finds_the_mean_share_and_the_parallelism() {
        for (channels, ns) in [(1, 5_000_000), (4, 100_000), (16, 80_000)] {
            let (profiler, mut device) = (Profiler::new(&NONE), model(channels, ns));
            for depth in [1, 32, 128] {
                device.run(&profiler, depth, 500, false, 4096);
            }
            let found = profiler.profile(&NONE).expect("measured");
            assert_eq!(u64::from(found.parallelism), channels);
            let share = ns / channels;
            assert!(found.mean(false, 4096).abs_diff(share) <= share / 100, "{found:?}");
            assert_eq!(found.write, found.read, "writes were not seen");
            assert_eq!(profiler.sureness(), Sureness::Sure);
        }
    }

    #[test]
    fn f1_larger_commands_tell_what_a_kib_costs() {
        let (profiler, mut device) = (Profiler::new(&NONE), model(4, 100_000));
        device.run(&profiler, 1, 100, true, 4096);
        device.run(&profiler, 64, 500, true, 4096);
        device.run(&profiler, 64, 500, true, 131_072);
        let found = profiler.profile(&NONE).unwrap();
        assert!(found.per_kib.write.abs_diff(200) <= 2, "{found:?}");
        let expected = (100_000 + 1020 * 800) / 4;
        assert!(found.mean(true, 1 << 20).abs_diff(expected) <= expected / 50);
    }

    #[test]
    fn f1_only_large_commands_do_for_their_own_size() {
        let (profiler, mut device) = (Profiler::new(&NONE), model(1, 100_000));
        device.run(&profiler, 4, 500, false, 131_072);
        let (found, expected) = (profiler.profile(&NONE).unwrap(), 100_000 + 124 * 800);
        assert!(found.mean(false, 131_072).abs_diff(expected) <= expected / 50, "{found:?}");
    }

    #[test]
    fn f1_the_worst_time_is_remembered_for_a_while() {
        let four = Overrides { parallelism: Some(4), ..NONE };
        let (profiler, mut device) = (Profiler::new(&four), model(4, 100_000));
        device.run(&profiler, 8, 500, false, 4096);
        let (now, hiccup) = (Nanos(device.now), Nanos(device.now - 10_000_000));
        let share = profiler.record(now, false, 512, hiccup, 1);
        assert_eq!(share, 2_500_000, "a lone command holds one of four channels");
        assert_eq!(profiler.profile(&NONE).unwrap().read.worst, Nanos(2_500_000));
        device.now += (2 * FADE) << BEAT_SHIFT;
        device.run(&profiler, 8, 500, false, 4096);
        device.now += FADE << BEAT_SHIFT;
        device.run(&profiler, 8, 500, false, 4096);
        assert!(profiler.profile(&NONE).unwrap().read.worst < Nanos(60_000));
    }

    #[test]
    fn f1_a_device_that_becomes_slower_is_followed() {
        let (profiler, mut device) = (Profiler::new(&NONE), model(4, 100_000));
        device.run(&profiler, 64, 2000, false, 4096);
        device.ns = 300_000;
        device.run(&profiler, 64, 2000, false, 4096);
        let mean = profiler.profile(&NONE).unwrap().mean(false, 4096);
        assert!(mean.abs_diff(75_000) < 1000, "{mean}");
    }

    #[test]
    fn f1_a_faster_depth_of_long_ago_fades() {
        let (profiler, mut device) = (Profiler::new(&NONE), model(4, 100_000));
        device.run(&profiler, 128, 2000, false, 4096);
        device.ns = 300_000;
        for _ in 0..8 {
            device.now += FADE << BEAT_SHIFT;
            device.run(&profiler, 16, 500, false, 4096);
        }
        assert!(profiler.profile(&NONE).unwrap().mean(false, 4096) > 70_000);
    }

    #[test]
    fn f1_nothing_is_made_up_but_what_is_configured_counts() {
        let profiler = Profiler::new(&NONE);
        assert_eq!(profiler.profile(&NONE), None);
        assert_eq!(profiler.sureness(), Sureness::Unmeasured);
        let by = Overrides {
            mean: Some(Nanos(80_000)),
            worst: Some(Nanos(1_000_000)),
            parallelism: Some(8),
            seeks: false,
        };
        let profiler = Profiler::new(&by);
        let found = profiler.profile(&by).unwrap();
        assert_eq!((found.mean(true, 4096), found.worst(true, 4096)), (10_000, 125_000));
        let share = profiler.record(Nanos(160_000), false, 4096, Nanos(0), 2);
        assert_eq!(share, 20_000, "one of eight, though two were there");
    }

    #[test]
    fn f1_absurd_times_do_no_harm() {
        let profiler = Profiler::new(&NONE);
        for _ in 0..300 {
            profiler.record(Nanos::MAX, false, u32::MAX, Nanos::ZERO, 0);
            profiler.record(Nanos::MAX, false, 1, Nanos::ZERO, 0);
            profiler.record(Nanos::ZERO, true, 1, Nanos::MAX, u32::MAX);
        }
        assert!(profiler.profile(&NONE).is_some());
    }
}
