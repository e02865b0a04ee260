//! The measurement of a device while it works, for the profile that the broker needs
//! (docs/research/sources.md, F1: reservations in the tenant's terms).

use crate::sync::{AtomicU32, AtomicU64, Ordering};

use units::Nanos;

use super::average::{Average, Mix};
use super::profile::{Overrides, PerKib, Profile, ServiceTime};
use super::size_cost::SizeCost;
use crate::window::Held;

/// Number of separate depths: 1, 2, 4 and so on to 256 and more.
const DEPTHS: usize = 9;
/// Depth beyond which the device is not probed.
const DEEPEST: u64 = 256;
/// Largest command of ordinary size, in bytes.
const SMALL: u32 = 4096;
/// Smallest command whose time shows the cost of a KiB, in bytes.
const LARGE: u32 = 16_384;
/// Length of a beat, the interval between estimates of the parallelism, as a power of two of ns:
/// about a second.
pub(super) const BEAT_SHIFT: u32 = 30;
/// Length of the interval in which the device may be probed more deeply, as a power of two of ns: 34 ms.
const DEEPER_SHIFT: u32 = 25;
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
/// Commands that met another depth than they left say nothing about either: a device that works in order completes the
/// first of a burst as if it were alone.
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
    size_cost: SizeCost,
}

/// The measurements of reads, or of writes.
#[derive(Debug, Default)]
struct Kind {
    /// Mean shares of small commands by the depth they met.
    small: Depths,
    /// Mean shares of all others by the depth they met, for hosts that send no small ones.
    bigger: Depths,
    /// Mean size of these in KiB.
    bigger_kib: Average,
    /// Mean share of large commands.
    large: Average,
    /// Mean size of these in KiB.
    large_kib: Average,
    worst: Worst,
    /// The worst times of commands that are not small.
    bigger_worst: Worst,
}

/// The commands in a device with one of them, itself among them, each as large as that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Commands when it came.
    pub at_begin: u32,
    /// Commands when it left.
    pub at_end: u32,
}

/// The worst times in the device, in ns, of this minute and the one before.
#[derive(Debug, Default)]
struct Worst([AtomicU64; 2]);

/// The measurements by the number of commands in the device: 1, 2 to 3, 4 to 7 and so on to 256 and more.
#[derive(Debug)]
struct Depths(Box<[AtDepth]>);

/// The measurements at one depth.
#[derive(Debug, Default)]
struct AtDepth {
    /// Mean time in the device.
    time: Average,
    /// Mean share.
    share: Average,
}

impl Default for Depths {
    fn default() -> Self {
        Self((0..DEPTHS).map(|_| AtDepth::default()).collect())
    }
}

/// The commands that a device has to hold for its parallelism to be measured.
///
/// The share of a command falls with the depth until the device works at full parallelism. So the parallelism is known
/// once commands were measured at a depth at which the share is greater than in a busy device, and at a depth beyond
/// which it falls no further. Reservations bound the depth by the parallelism: without these samples, an estimate from
/// one depth alone would confirm itself.
///
/// Deeper than reservations permit, the device is probed for 1/32 of the time; less deep, where it may have less to do
/// than it can, for 1/8 of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Commands that the device must be allowed to hold, at least 1.
    pub at_least: u32,
    /// The most commands that the device should hold, at least 1; `u32::MAX` if nothing is missing below.
    pub at_most: u32,
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
            self.take_parallelism(configured);
        }
    }

    /// Divides times by another parallelism from now on. The worst times so far were
    /// computed for commands that share the device with as many others as it seemed to serve at once.
    fn take_parallelism(&self, parallelism: u32) {
        let before = self.parallelism.swap(parallelism, Ordering::Relaxed);
        if parallelism < before {
            for kind in [&self.reads, &self.writes] {
                kind.worst.scale(parallelism, before);
                kind.bigger_worst.scale(parallelism, before);
            }
        }
    }

    /// Records a command of `bytes` bytes, in the device since `dispatched`, that has completed.
    /// Returns its share of the device's time in ns, which is what
    /// [`Reserved::settle`](super::Reserved::settle) wants.
    #[inline]
    pub fn record(
        &self,
        now: Nanos,
        write: bool,
        bytes: u32,
        dispatched: Nanos,
        in_device: Occupancy,
    ) -> u64 {
        let (time, depth) = (now.ns_since(dispatched), in_device.mean());
        let beat = now.0 >> BEAT_SHIFT;
        if beat > self.beat.load(Ordering::Relaxed) {
            self.begin_beat(beat);
        }
        let parallelism = self.parallelism.load(Ordering::Relaxed).max(1);
        let share = self.share(now, dispatched, in_device);
        let kind = if write { &self.writes } else { &self.reads };
        let mixed = self.mix.count(write, bytes >= LARGE) && depth > 1;
        kind.worst_of(bytes).note(share.saturating_mul(parallelism.into()), beat);
        if !in_device.is_steady() {
            return share;
        }
        if bytes <= SMALL {
            kind.small.add(time, depth, mixed);
        } else {
            kind.bigger.add(time, depth, mixed);
            let kib = u64::from(bytes.div_ceil(1024));
            kind.bigger_kib.add(kib, mixed);
            if bytes >= LARGE {
                kind.large_kib.add(kib, mixed);
                kind.large.add(share, mixed);
            }
        }
        share
    }

    /// Computes the commands in the device with one of them, each as large as that one.
    #[inline]
    pub(crate) fn occupancy(&self, own: Held, at_begin: Held, at_end: Held) -> Occupancy {
        let [at_begin, at_end] = [at_begin, at_end].map(|all| self.size_cost.alike(all, own));
        Occupancy { at_begin, at_end }
    }

    /// Learns the cost of a command's size from a command that was in the device for `time` ns, and `met` these there.
    #[inline]
    pub(crate) fn learn_size(&self, time: u64, met: Held) {
        self.size_cost.learn(time, met);
    }

    /// Computes a command's share of the device's time in ns, as [`record`](Self::record) does, and
    /// learns nothing: for a command that moves no data, such as a Flush, whose time says nothing about
    /// reads and writes.
    #[must_use]
    pub fn share(&self, now: Nanos, dispatched: Nanos, in_device: Occupancy) -> u64 {
        let parallelism = self.parallelism.load(Ordering::Relaxed);
        now.ns_since(dispatched) / u64::from(in_device.mean().max(parallelism))
    }

    /// Checks only whether a command took longer than any before. For commands that are not
    /// [recorded](Self::record): this takes a fraction of the time.
    #[inline]
    pub fn glance(
        &self,
        now: Nanos,
        write: bool,
        bytes: u32,
        dispatched: Nanos,
        in_device: Occupancy,
    ) {
        let (time, depth) = (now.ns_since(dispatched), in_device.mean());
        let beat = now.0 >> BEAT_SHIFT;
        let parallelism = self.parallelism.load(Ordering::Relaxed).max(1);
        let sharers = u64::from(depth.max(parallelism));
        let kind = if write { &self.writes } else { &self.reads };
        let worst = kind.worst_of(bytes);
        let before = worst.of_minute(beat / FADE).load(Ordering::Relaxed);
        if time.saturating_mul(parallelism.into()) > before.saturating_mul(sharers) {
            worst.note((time / sharers).saturating_mul(parallelism.into()), beat);
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

    /// Returns the depths at which commands have to be measured at `now` before the parallelism is known.
    #[must_use]
    pub fn probe(&self, now: Nanos) -> Probe {
        if self.configured.load(Ordering::Relaxed) != 0 {
            return Probe::NONE;
        }
        let (reads, writes) = (self.reads.depths(), self.writes.depths());
        let more = if writes.samples() > reads.samples() { writes } else { reads };
        let mut probe = more.probe();
        if now.0 >> DEEPER_SHIFT & 31 != 0 {
            probe.at_least = Probe::NONE.at_least;
        }
        if now.0 >> BEAT_SHIFT & 15 >= 2 {
            probe.at_most = Probe::NONE.at_most;
        }
        probe
    }

    /// Begins a beat, in one thread: estimates the parallelism and lets old samples fade.
    #[cold]
    fn begin_beat(&self, beat: u64) {
        let before = self.beat.fetch_max(beat, Ordering::Relaxed);
        if before >= beat {
            return;
        }
        self.take_parallelism(self.estimate());
        let (before, minute) = (before / FADE, beat / FADE);
        for minute in (before + 1).max(minute.saturating_sub(FORGOTTEN))..=minute {
            self.reads.fade(minute);
            self.writes.fade(minute);
        }
    }
}

impl Occupancy {
    /// Returns the occupancy of a device that always holds `commands`.
    #[must_use]
    pub const fn steady(commands: u32) -> Self {
        Self { at_begin: commands, at_end: commands }
    }

    fn mean(self) -> u32 {
        u32::midpoint(self.at_begin, self.at_end).max(1)
    }

    /// Returns whether the device held about as many commands all the time.
    fn is_steady(self) -> bool {
        let Self { at_begin, at_end } = self;
        at_begin.min(at_end).max(1) >= at_begin.max(at_end) / 2
    }
}

impl Worst {
    #[inline]
    fn note(&self, alone: u64, beat: u64) {
        let worst = self.of_minute(beat / FADE);
        if alone > worst.load(Ordering::Relaxed) {
            worst.fetch_max(alone, Ordering::Relaxed);
        }
    }

    /// Multiplies all by `by` / `of`.
    fn scale(&self, by: u32, of: u32) {
        for time in &self.0 {
            let scaled =
                u128::from(time.load(Ordering::Relaxed)) * u128::from(by) / u128::from(of.max(1));
            time.store(u64::try_from(scaled).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    #[inline]
    const fn of_minute(&self, minute: u64) -> &AtomicU64 {
        let [even, odd] = &self.0;
        if minute.is_multiple_of(2) { even } else { odd }
    }

    /// Returns the worst time; `None` where no command was seen.
    fn get(&self) -> Option<u64> {
        let worst = self.0.iter().map(|worst| worst.load(Ordering::Relaxed)).max();
        worst.filter(|worst| *worst > 0)
    }
}

impl Probe {
    /// Nothing is missing.
    pub const NONE: Self = Self { at_least: 1, at_most: u32::MAX };
}

impl Depths {
    /// Counts a command that was in the device for `time` ns, `depth` together with it.
    #[inline]
    fn add(&self, time: u64, depth: u32, mixed: bool) {
        let at = usize::try_from(depth.max(1).ilog2()).unwrap_or(DEPTHS).min(DEPTHS - 1);
        if let Some(of) = self.0.get(at) {
            of.time.add(time, mixed);
            of.share.add(time / u64::from(depth.max(1)), mixed);
        }
    }

    fn samples(&self) -> u64 {
        self.0.iter().map(|of| of.share.count()).sum()
    }

    /// Returns the mean share in a busy device.
    fn busy(&self) -> Option<u64> {
        self.0.iter().filter_map(|of| of.share.get()).min()
    }

    /// Lists the mean depths at which the device was measured, the least first, each with the mean share there.
    fn measured(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().filter_map(|of| {
            let (time, share) = (of.time.get()?, of.share.get()?.max(1));
            Some((time.saturating_add(share / 2) / share, share))
        })
    }

    /// Estimates the number of lone commands that would fit into the time of one: the shortest mean time over the
    /// share in a busy device.
    fn parallelism(&self) -> Option<u32> {
        let busy = self.busy()?.max(1);
        let shortest = self.0.iter().filter_map(|of| of.time.get()).min()?;
        let found = shortest.saturating_add(busy / 2) / busy;
        Some(u32::try_from(found).unwrap_or(u32::MAX).clamp(1, 1024))
    }

    fn fade(&self) {
        self.0.iter().flat_map(|of| [&of.time, &of.share]).for_each(Average::fade);
    }

    fn probe(&self) -> Probe {
        let Some(busy) = self.busy() else { return Probe::NONE };
        let is_busy = |share: u64| share <= busy.saturating_add(busy / 8);
        let Some((saturated, _)) = self.measured().find(|(_, share)| is_busy(*share)) else {
            return Probe::NONE;
        };
        let deeper = self.measured().any(|(depth, _)| depth * 2 >= saturated * 3);
        // The time of a command that does not wait shows where the device could have done half as much again.
        let waits = |share: u64| share.saturating_mul(2) < busy.saturating_mul(3);
        let shallowest =
            self.measured().next().filter(|(depth, share)| *depth > 1 && waits(*share));
        let bound = |depth: u64| u32::try_from(depth).unwrap_or(u32::MAX).max(1);
        Probe {
            at_least: if deeper || saturated >= DEEPEST { 1 } else { bound(saturated * 2) },
            at_most: shallowest.map_or(u32::MAX, |(depth, _)| bound(depth / 2)),
        }
    }
}

impl Kind {
    #[inline]
    const fn worst_of(&self, bytes: u32) -> &Worst {
        if bytes <= SMALL { &self.worst } else { &self.bigger_worst }
    }

    /// Returns the shares of small commands, or of others where there are no small ones.
    fn depths(&self) -> &Depths {
        if self.small.busy().is_some() { &self.small } else { &self.bigger }
    }

    fn parallelism(&self) -> Option<u32> {
        self.depths().parallelism()
    }

    /// Returns the service time of 4 KiB, and the time of each further KiB.
    fn times(&self, parallelism: u32) -> Option<(ServiceTime, u64)> {
        let small = self.small.busy();
        let large = || Some((self.large.get()?, self.large_kib.get()?));
        let bigger = || Some((self.bigger.busy()?, self.bigger_kib.get()?));
        let sized = if small.is_some() { large().or_else(bigger) } else { bigger() };
        let (mean, per_kib) = match (small, sized) {
            (Some(mean), Some((share, kib))) => (mean, share.saturating_sub(mean) / beyond(kib)),
            (Some(mean), None) => (mean, Profile::default().per_kib.read),
            // This is right for the size that was seen, and not too little for others.
            (None, Some((share, kib))) => (share / 2, share.div_ceil(2) / beyond(kib)),
            (None, None) => return None,
        };
        let mean = Nanos(mean.max(1));
        let worst = if small.is_some() { self.worst.get() } else { self.bigger_worst.get() };
        let worst = worst.unwrap_or(0).div_ceil(u64::from(parallelism));
        Some((ServiceTime { mean, worst: Nanos(worst).max(mean) }, per_kib))
    }

    /// Begins minute number `minute`, and lets samples fade.
    fn fade(&self, minute: u64) {
        self.small.fade();
        self.bigger.fade();
        [&self.bigger_kib, &self.large, &self.large_kib].into_iter().for_each(Average::fade);
        for worst in [&self.worst, &self.bigger_worst] {
            worst.of_minute(minute).store(0, Ordering::Relaxed);
        }
    }
}

/// Returns the KiB beyond the first four of commands of `kib` KiB, at least 1.
const fn beyond(kib: u64) -> u64 {
    match kib.saturating_sub(4) {
        0 => 1,
        kib => kib,
    }
}
