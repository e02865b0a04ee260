//! The measurement of a device while it works, for the profile that the broker needs
//! (docs/research/sources.md, F1: reservations in the tenant's terms).

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use std::fmt;

use units::Nanos;

use super::average::{Average, ENOUGH, Mix, PLENTY};
use super::profile::{Overrides, PerKib, Profile, ServiceTime};

/// Number of separate depths: 1, 2, 4 and so on to 256 and more.
const DEPTHS: usize = 9;
/// Largest command of ordinary size, in bytes.
const SMALL: u32 = 4096;
/// Smallest command whose time shows the cost of a KiB, in bytes.
const LARGE: u32 = 16_384;
/// Length of a beat, the interval between estimates of the parallelism, as a power of two of ns:
/// about a second.
pub(super) const BEAT_SHIFT: u32 = 30;
/// Beats after which old samples lose half of their weight: about a minute.
pub(super) const FADE: u64 = 64;
/// Minutes after which nothing is left of any number of samples.
const FORGOTTEN: u64 = 10;

/// Measures a device's service times from its completions, shared by all reactors.
///
/// Every completion reports how long a command was in the device and how many were there with it;
/// the time divided by the number is the command's share. The mean share depends on how full the
/// device is: it falls until the device works at full parallelism. The least mean of all depths is
/// the mean of a busy device, and a lone command's time divided by it is the parallelism.
///
/// Commands that share a device with others of another size or kind wait for those: their times
/// tell of the mix, and count only as long as nothing better is known.
///
/// Threads do not wait for each other: of two samples at the same moment one may be lost.
#[derive(Debug, Default)]
pub struct Profiler {
    reads: Kind,
    writes: Kind,
    /// Parallelism by which times are divided, configured or estimated; 0: not known yet.
    parallelism: AtomicU32,
    configured: AtomicU32,
    beat: AtomicU64,
    mix: Mix,
}

/// The measurements of reads, or of writes.
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

/// The certainty of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sureness {
    /// Fewer than 64 recent commands.
    Unmeasured,
    /// Fewer than 1,024 recent commands.
    Rough,
    /// At least 1,024 recent commands.
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
    /// Makes a profiler that knows nothing but a configured parallelism.
    #[must_use]
    pub fn new(overrides: &Overrides) -> Self {
        let profiler = Self::default();
        profiler.set(overrides);
        profiler
    }

    /// Takes a changed configuration; measurements stay.
    pub fn set(&self, overrides: &Overrides) {
        let configured = overrides.parallelism.unwrap_or(0);
        self.configured.store(configured, Ordering::Relaxed);
        if configured != 0 {
            self.parallelism.store(configured, Ordering::Relaxed);
        }
    }

    /// Records a command of `bytes` bytes, in the device since `dispatched`, that has completed;
    /// `in_device` commands were there with it, itself among them (when it came or when it left).
    /// Returns its share of the device's time in ns, which is what
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
        let (time, depth) = (now.ns_since(dispatched), in_device.max(1));
        let beat = now.0 >> BEAT_SHIFT;
        if beat > self.beat.load(Ordering::Relaxed) {
            self.begin_beat(beat);
        }
        let parallelism = self.parallelism.load(Ordering::Relaxed).max(1);
        let share = self.share(now, dispatched, in_device);
        let kind = if write { &self.writes } else { &self.reads };
        let mixed = self.mix.count(write, bytes >= LARGE) && depth > 1;
        if bytes <= SMALL {
            kind.note_worst(share.saturating_mul(parallelism.into()), beat);
            kind.small_at(depth).add(time / u64::from(depth), mixed);
        } else if bytes >= LARGE {
            kind.large_kib.add(u64::from(bytes >> 10), mixed);
            kind.large.add(share, mixed);
        }
        share
    }

    /// Computes a command's share of the device's time in ns, as [`record`](Self::record) does, and
    /// learns nothing: for a command that moves no data, such as a Flush, whose time says nothing about
    /// reads and writes.
    #[must_use]
    pub fn share(&self, now: Nanos, dispatched: Nanos, in_device: u32) -> u64 {
        let parallelism = self.parallelism.load(Ordering::Relaxed);
        now.ns_since(dispatched) / u64::from(in_device.max(parallelism).max(1))
    }

    /// Checks only whether a command took longer than any before. For commands that are not
    /// [recorded](Self::record): this takes a fraction of the time.
    #[inline]
    pub fn glance(&self, now: Nanos, write: bool, bytes: u32, dispatched: Nanos, in_device: u32) {
        if bytes > SMALL {
            return;
        }
        let (time, depth) = (now.ns_since(dispatched), in_device.max(1));
        let beat = now.0 >> BEAT_SHIFT;
        let parallelism = self.parallelism.load(Ordering::Relaxed).max(1);
        let sharers = u64::from(depth.max(parallelism));
        let kind = if write { &self.writes } else { &self.reads };
        let worst = kind.worst_of(beat / FADE).load(Ordering::Relaxed);
        if time.saturating_mul(parallelism.into()) > worst.saturating_mul(sharers) {
            kind.note_worst((time / sharers).saturating_mul(parallelism.into()), beat);
        }
    }

    /// Returns the measured profile, with configured values in place of measured ones; `None` until
    /// there is one.
    #[must_use]
    pub fn profile(&self, overrides: &Overrides) -> Option<Profile> {
        let measured = self.measured();
        let configured = overrides.mean.map(|_| Profile::default());
        Some(measured.or(configured)?.overridden(overrides))
    }

    /// Returns how reliable the measurements are so far.
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
        // Commands of a kind that was never seen are taken to be like the other kind.
        let ((read, read_kib), (write, write_kib)) = (read.or(write)?, write.or(read)?);
        let per_kib = PerKib { read: read_kib, write: write_kib };
        Some(Profile { read, write, per_kib, parallelism, seeks: false })
    }

    /// Estimates the number of commands that the device serves at once.
    fn estimate(&self) -> u32 {
        match self.configured.load(Ordering::Relaxed) {
            0 => self.reads.parallelism().max(self.writes.parallelism()).unwrap_or(1),
            configured => configured,
        }
    }

    /// Begins a beat, in one thread: estimates the parallelism and lets old samples fade.
    #[cold]
    fn begin_beat(&self, beat: u64) {
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
    fn note_worst(&self, alone: u64, beat: u64) {
        let worst = self.worst_of(beat / FADE);
        if alone > worst.load(Ordering::Relaxed) {
            worst.fetch_max(alone, Ordering::Relaxed);
        }
    }

    /// Returns the mean for commands that are `depth` together.
    #[inline]
    fn small_at(&self, depth: u32) -> &Average {
        let [.., last] = &self.small;
        let at = usize::try_from(depth.max(1).ilog2()).unwrap_or(DEPTHS);
        self.small.get(at).unwrap_or(last)
    }

    #[inline]
    const fn worst_of(&self, minute: u64) -> &AtomicU64 {
        let [even, odd] = &self.worst;
        if minute.is_multiple_of(2) { even } else { odd }
    }

    fn samples(&self) -> u64 {
        self.small.iter().map(Average::count).sum::<u64>() + self.large.count()
    }

    /// Returns the mean share of a small command in a busy device.
    fn busy(&self) -> Option<u64> {
        self.small.iter().filter_map(Average::get).min()
    }

    /// Estimates the number of lone commands that would fit into the time of one: their time over
    /// their share in a busy device. If none was alone, the least depth that made the device busy.
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

    /// Returns the service time of 4 KiB, and the time of each further KiB.
    fn times(&self, parallelism: u32) -> Option<(ServiceTime, u64)> {
        let (mean, per_kib) = match (self.busy(), self.large()) {
            (Some(mean), Some((share, kib))) => (mean, share.saturating_sub(mean) / (kib - 4)),
            (Some(mean), None) => (mean, Profile::default().per_kib.read),
            // This is right for the size that was seen, and not too little for others.
            (None, Some((share, kib))) => (share / 2, share.div_ceil(2) / (kib - 4)),
            (None, None) => return None,
        };
        let mean = Nanos(mean.max(1));
        let [even, odd] = self.worst.each_ref().map(|worst| worst.load(Ordering::Relaxed));
        let worst = Nanos(even.max(odd).div_ceil(u64::from(parallelism))).max(mean);
        Some((ServiceTime { mean, worst }, per_kib))
    }

    /// Returns the mean share and size, in KiB, of large commands.
    fn large(&self) -> Option<(u64, u64)> {
        Some((self.large.get()?, self.large_kib.get()?.max(u64::from(LARGE >> 10))))
    }

    /// Begins minute number `minute`, and lets samples fade.
    fn fade(&self, minute: u64) {
        self.small.iter().chain([&self.large, &self.large_kib]).for_each(Average::fade);
        self.worst_of(minute).store(0, Ordering::Relaxed);
    }
}
