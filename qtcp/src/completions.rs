//! Measurements from the completions of a queue pair (docs/research/sources.md, E2): how much has arrived,
//! and how long it took.
//!
//! A target in user space cannot see which packets of a queue pair were marked. But a device
//! reports each work request as complete when all of it has arrived (the peer has acknowledged it,
//! or the answer to a READ is here), regardless of the threads of either machine. Time beyond the
//! observed minimum is time in queues: in the network's, or behind the work request's own bytes on
//! a slow link.
//!
//! Data and what acknowledges it go opposite ways, and either may stand in a queue. A link carries as
//! much one way as the other, so the queue is taken for one of the direction in which more moves.
//!
//! Threads that get their turn late, on either machine, look like a queue for a moment. A queue that
//! stands lets nothing through sooner: what counts is the least time that any work request took, and
//! that it stays long (RFC 8289, section 3.1, says the same of the packets in a queue).

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;

use units::{Nanos, nanos};

use crate::{Observation, Rate};

/// The counters of one direction of a queue pair since its connection began, written by the posting
/// thread and read by the thread that watches the network. A reading between two stores is off by
/// one work request, which the next reading corrects.
#[derive(Debug, Default)]
pub struct Completions {
    /// Bytes of data that have arrived.
    bytes: AtomicU64,
    /// Completed work requests; of a batch that was posted together, one.
    works: AtomicU64,
    /// The time from posting to completion of all of them, added up, in ns.
    latency_ns: AtomicU64,
    /// The number of times that the counters were read.
    reading: AtomicU64,
    /// The least time from posting to completion since the last reading, in ns, and the bytes that were
    /// under way when that work request was posted, its own among them.
    least_ns: AtomicU64,
    least_ahead: AtomicU64,
}

/// A work request that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posted {
    at: Nanos,
    bytes: u64,
    /// The bytes that were under way then, its own among them.
    ahead: u64,
}

/// The values of [`Completions`] at one time. The counters wrap around.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    bytes: u64,
    works: u64,
    latency_ns: u64,
    least: Quickest,
}

/// The work request that took the least time since a reading.
#[derive(Clone, Copy, Debug)]
struct Quickest {
    reading: u64,
    latency_ns: u64,
    /// The bytes that were under way when it was posted, its own among them.
    ahead: u64,
}

impl Default for Quickest {
    fn default() -> Self {
        Self { reading: 0, latency_ns: u64::MAX, ahead: 0 }
    }
}

impl Counts {
    /// Computes the counts since an earlier time.
    fn since(&self, earlier: &Self) -> Self {
        Self {
            bytes: self.bytes.wrapping_sub(earlier.bytes),
            works: self.works.wrapping_sub(earlier.works),
            latency_ns: self.latency_ns.wrapping_sub(earlier.latency_ns),
            least: self.least,
        }
    }

    /// Computes the mean latency of a work request. There is none where nothing is complete.
    fn mean(&self) -> Option<Duration> {
        Some(Duration::from_nanos(self.latency_ns.checked_div(self.works)?))
    }
}

impl Completions {
    fn publish(&self, counts: &Counts) {
        self.bytes.store(counts.bytes, Relaxed);
        self.latency_ns.store(counts.latency_ns, Relaxed);
        self.least_ns.store(counts.least.latency_ns, Relaxed);
        self.least_ahead.store(counts.least.ahead, Relaxed);
        self.works.store(counts.works, Relaxed);
    }

    /// Reads the counters. The least time restarts with later completions.
    fn read(&self) -> Counts {
        let (bytes, works) = (self.bytes.load(Relaxed), self.works.load(Relaxed));
        let latency_ns = self.latency_ns.load(Relaxed);
        let least = Quickest {
            reading: self.reading.fetch_add(1, Relaxed),
            latency_ns: self.least_ns.load(Relaxed),
            ahead: self.least_ahead.load(Relaxed),
        };
        Counts { bytes, works, latency_ns, least }
    }
}

/// The side of the thread that posts.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    counts: Counts,
    /// Bytes of data in flight.
    under_way: u64,
}

impl Meter {
    /// Notes that a work request with so many bytes of data is posted.
    #[inline]
    pub fn post(&mut self, now: Nanos, bytes: u64) -> Posted {
        self.under_way = self.under_way.saturating_add(bytes);
        Posted { at: now, bytes, ahead: self.under_way }
    }

    /// Notes that a work request is complete, and publishes it.
    #[inline]
    pub fn complete(&mut self, now: Nanos, posted: Posted, completions: &Completions) {
        self.under_way = self.under_way.saturating_sub(posted.bytes);
        let counts = &mut self.counts;
        counts.bytes = counts.bytes.wrapping_add(posted.bytes);
        counts.works = counts.works.wrapping_add(1);
        let latency_ns = nanos(now.since(posted.at));
        counts.latency_ns = counts.latency_ns.wrapping_add(latency_ns);
        let reading = completions.reading.load(Relaxed);
        if latency_ns < counts.least.latency_ns || counts.least.reading != reading {
            counts.least = Quickest { reading, latency_ns, ahead: posted.ahead };
        }
        completions.publish(counts);
    }
}

/// The least time from posting to completion of the last five to ten minutes, or before a longer
/// rest: the first work requests after a rest may stand in queues. A longer route is recognised
/// after that time; until then its packets seem to stand in queues.
#[derive(Clone, Copy, Debug, Default)]
struct Least {
    since: Nanos,
    before: Option<Duration>,
    now: Option<Duration>,
}

impl Least {
    const WINDOW: Duration = Duration::from_secs(300);

    fn see(&mut self, now: Nanos, value: Duration) -> Duration {
        if now.since(self.since) > Self::WINDOW {
            (self.since, self.before, self.now) = (now, self.now, None);
        }
        let least = self.now.map_or(value, |least| least.min(value));
        self.now = Some(least);
        self.before.map_or(least, |before| before.min(least))
    }
}

/// The time in queues from which on data counts as marked: as for sockets without ECN, where slow
/// threads make round trips long as well.
const QUEUED: Duration = Duration::from_millis(1);
/// How long a queue must have stood for data to count as marked. The turns of threads that share a CPU
/// take up to 10 ms.
const STANDING: Duration = Duration::from_millis(25);
/// The time in queues that a flow may cause by itself: its data in flight is bounded by the bytes
/// that it moves in this time and a round trip without queues. It exceeds the time that switches
/// let the packets of other senders wait before they mark them: with less, a flow would not reach
/// its part beside these.
const ALLOWED: Duration = Duration::from_millis(10);
/// By how much more may be under way than the flow moves in that time, so that it can get more.
const GROWTH: f64 = 1.25;

/// The time in queues of which the other direction's part may be, where more moves that way.
const PATIENT: Duration = Duration::from_millis(50);
/// The ratio by which the other direction must move more for the observed queue to be attributed to
/// it.
const CLEARLY: f64 = 4.0 / 3.0;

/// The load of all flows of a link in one direction, and the opposite one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkLoad {
    /// The most that they were seen to move lately.
    pub fastest: Rate,
    /// Their present rate.
    pub total: Rate,
    /// Their present rate in the opposite direction.
    pub other: Rate,
}

impl LinkLoad {
    /// Returns whether a queue is one of the other direction.
    fn is_lesser(&self) -> bool {
        self.other > self.total.times(CLEARLY)
    }
}

/// Makes the observations of one direction of a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct Sampler {
    at: Option<Nanos>,
    counts: Counts,
    least: Least,
    empty: Duration,
    rtt: Duration,
    /// The time since which a queue has stood.
    standing: Option<Nanos>,
    /// Whether the queues are attributed to the other direction.
    lesser: bool,
    /// Bytes of data in a packet.
    mtu: u32,
    /// The rates of data to which the device held the queue pair at the last look and holds it now.
    held: [Option<Rate>; 2],
}

impl Sampler {
    /// Makes a sampler of a queue pair whose packets have up to `mtu` bytes of data.
    #[must_use]
    pub fn new(mtu: u32) -> Self {
        let (counts, least, empty, rtt) = Default::default();
        let (standing, held) = Default::default();
        Self { at: None, counts, least, empty, rtt, standing, lesser: false, mtu: mtu.max(1), held }
    }

    /// Sets the rate of data that the device limits the queue pair to from now on; `None`: no
    /// limit. Data held back by the device stands in no queue of the network.
    pub fn held_to(&mut self, rate: Option<Rate>) {
        self.held[1] = rate;
    }

    /// Forgets when it last read the counters, after a rest: the first observation then counts nothing.
    pub fn rest(&mut self) {
        self.at = None;
    }

    /// Makes the observation of the time since the last one; at the first, an interval of zero
    /// without counts. Data in flight needs at least its time at the link's fastest rate. The data
    /// counts as marked if all of it stood in queues for longer, and so did the data before it.
    pub fn sample(&mut self, now: Nanos, read: &Completions, link: &LinkLoad) -> Observation {
        let counts = match self.at {
            Some(at) if now <= at => return self.observation(Duration::ZERO, 0, false),
            _ => read.read(),
        };
        let new = counts.since(&self.counts);
        self.counts = counts;
        let Some(before) = self.at.replace(now) else {
            return self.observation(Duration::ZERO, 0, false);
        };
        let mut marked = false;
        if let Some(mean) = new.mean() {
            let least = Duration::from_nanos(new.least.latency_ns);
            self.empty = self.least.see(now, least);
            let own = time_of(new.least.ahead, link.fastest);
            // Data posted before the limit changed drains at the old rate.
            let held = self.held.into_iter().flatten();
            let held = held.map(|rate| time_of(new.least.ahead, rate)).max().unwrap_or_default();
            let held = held.saturating_sub(own);
            self.rtt = mean.saturating_sub(held).max(self.empty);
            self.lesser = link.is_lesser();
            let queued = least.saturating_sub(held).saturating_sub(own).saturating_sub(self.empty);
            self.standing = (queued > QUEUED).then(|| self.standing.unwrap_or(before));
            let stands = self.standing.is_some_and(|since| now.since(since) >= STANDING);
            marked = stands && !self.lesser;
        }
        self.held[0] = self.held[1];
        self.observation(now.since(before), new.bytes, marked)
    }

    fn observation(&self, interval: Duration, bytes: u64, marked: bool) -> Observation {
        let packets = u32::try_from(bytes.div_ceil(self.mtu.into())).unwrap_or(u32::MAX);
        Observation {
            interval,
            delivered: packets,
            marked: if marked { packets } else { 0 },
            bytes,
            rtt: self.rtt,
            mss: self.mtu,
            app_limited: false,
        }
    }

    /// Computes how many bytes may be under way of a flow that moves, or is to move, this much.
    #[must_use]
    pub fn window(&self, rate: Rate) -> u64 {
        let allowed = self.empty + ALLOWED;
        let time = match self.lesser {
            true => self.rtt.clamp(allowed, allowed + PATIENT),
            false => allowed,
        };
        rate.times(GROWTH).bytes_in(time).max(LEAST_WINDOW)
    }
}

/// The least bound on data in flight.
pub const LEAST_WINDOW: u64 = 16 << 10;

/// Computes the time that bytes take at a rate; none at a rate of zero.
fn time_of(bytes: u64, rate: Rate) -> Duration {
    #[expect(clippy::cast_precision_loss, reason = "bytes that are under way")]
    let seconds = bytes as f64 / rate.bytes();
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A queue pair over a link, at work: the sampler sees the behaviour of a modelled link.
    struct Rig {
        meter: Meter,
        completions: Completions,
        sampler: Sampler,
        link: LinkLoad,
        now: u64,
        /// The time between two observations, in ms.
        interval: u64,
    }

    impl Rig {
        fn new() -> Self {
            let mut sampler = Sampler::new(1024);
            let completions = Completions::default();
            sampler.sample(Nanos(0), &completions, &LinkLoad::default());
            // 10 MB/s.
            let fastest = Rate::new(1e7);
            let link = LinkLoad { fastest, total: fastest, other: Rate::ZERO };
            Self { meter: Meter::default(), completions, sampler, link, now: 0, interval: 100 }
        }

        /// Posts `count` work requests of `bytes` at once; each takes `took` ms more than the one
        /// before. Returns the observation.
        fn see(&mut self, count: u64, bytes: u64, first: u64, took: u64) -> Observation {
            let posted: Vec<_> =
                (0..count).map(|_| self.meter.post(Nanos(self.now), bytes)).collect();
            for (each, posted) in posted.into_iter().enumerate() {
                let at = Nanos(self.now + (first + each as u64 * took) * MS);
                self.meter.complete(at, posted, &self.completions);
            }
            self.now += self.interval * MS;
            self.sampler.sample(Nanos(self.now), &self.completions, &self.link)
        }
    }

    #[test]
    fn e2_observation_counts_arrived_bytes() {
        let mut rig = Rig::new();
        let seen = rig.see(4, 10_000, 3, 1);
        assert_eq!((seen.bytes, seen.delivered, seen.marked), (40_000, 40, 0));
        assert_eq!(seen.interval, Duration::from_millis(100));
        assert_eq!(seen.rtt, Duration::from_nanos(4_500_000), "3, 4, 5 and 6 ms");
        let seen = rig.see(0, 0, 0, 0);
        assert_eq!((seen.bytes, seen.delivered, seen.marked), (0, 0, 0));
        assert_eq!(seen.rtt, Duration::from_nanos(4_500_000), "that of the last");
    }

    #[test]
    fn e2_no_time_counts_nothing_and_loses_nothing() {
        let mut rig = Rig::new();
        let posted = rig.meter.post(Nanos(0), 5000);
        rig.meter.complete(Nanos(MS), posted, &rig.completions);
        let now = Nanos(0);
        let seen = rig.sampler.sample(now, &rig.completions, &rig.link);
        assert_eq!((seen.interval, seen.bytes), (Duration::ZERO, 0));
        let seen = rig.sampler.sample(Nanos(MS), &rig.completions, &rig.link);
        assert_eq!((seen.interval, seen.bytes), (Duration::from_millis(1), 5000));
        rig.sampler.rest();
        let seen = rig.sampler.sample(Nanos(2 * MS), &rig.completions, &rig.link);
        assert_eq!(seen.interval, Duration::ZERO, "a rest has no rate");
    }

    #[test]
    fn e2_excess_queueing_time_is_a_mark() {
        let mut rig = Rig::new();
        assert_eq!(rig.see(1, 10_000, 2, 0).marked, 0, "2 ms alone");
        // 10 work requests of 1 ms each on this link: the last of them takes 11 ms by itself.
        let seen = rig.see(10, 10_000, 2, 1);
        assert_eq!((seen.delivered, seen.marked), (98, 0));
        // Each takes three times as long: others are in between.
        let seen = rig.see(10, 10_000, 6, 3);
        assert_eq!((seen.delivered, seen.marked), (98, 98));
        assert_eq!(rig.see(1, 10_000, 3, 0).marked, 0, "a millisecond and its own are nothing");
        assert_eq!(rig.see(1, 10_000, 5, 0).marked, 10, "two are");
    }

    #[test]
    fn e2_threads_that_are_late_are_no_queue() {
        let mut rig = Rig::new();
        rig.see(1, 10_000, 2, 0);
        rig.interval = 5;
        let seen = rig.see(10, 1000, 2, 30);
        assert_eq!((seen.marked, seen.rtt), (0, Duration::from_millis(137)), "one was quick");
        for _ in 0..10 {
            let marks: Vec<u32> = (0..4).map(|_| rig.see(4, 10_000, 50, 0).marked).collect();
            assert_eq!(marks, [0; 4], "all are late, for 20 ms");
            assert_eq!(rig.see(4, 10_000, 3, 1).marked, 0);
        }
        let marks: Vec<u32> = (0..7).map(|_| rig.see(4, 10_000, 50, 0).marked).collect();
        assert_eq!(marks, [0, 0, 0, 0, 40, 40, 40], "for longer than threads are");
        rig.see(0, 0, 0, 0);
        assert_eq!(rig.see(4, 10_000, 50, 0).marked, 40, "silence is no sign of a change");
    }

    #[test]
    fn e2_time_held_by_device_is_not_queueing() {
        let mut rig = Rig::new();
        rig.see(1, 10_000, 2, 0);
        // At 2 MB/s a work request takes 5 ms; at the link's 10 MB/s it would be one.
        rig.sampler.held_to(Some(Rate::new(2e6)));
        let seen = rig.see(1, 10_000, 6, 0);
        assert_eq!((seen.marked, seen.rtt), (0, Duration::from_millis(2)), "6 ms, 4 of them held");
        assert_eq!(rig.see(1, 10_000, 9, 0).marked, 10, "a queue beside that is one");
        rig.sampler.held_to(None);
        assert_eq!(rig.see(1, 10_000, 6, 0).marked, 0, "posted when it still held data back");
        assert_eq!(rig.see(1, 10_000, 6, 0).marked, 10);
        // A device's limit above the link's capacity changes nothing.
        rig.sampler.held_to(Some(Rate::new(1e9)));
        let seen = rig.see(1, 10_000, 6, 0);
        assert_eq!((seen.marked, seen.rtt), (10, Duration::from_millis(6)));
    }

    #[test]
    fn e2_queue_is_attributed_to_busier_direction() {
        let mut rig = Rig::new();
        rig.see(1, 10_000, 2, 0);
        let rate = Rate::new(1e7);
        for (other, marked) in [(1.3e7, 10), (1.4e7, 0)] {
            rig.link.other = Rate::new(other);
            assert_eq!(rig.see(1, 10_000, 25, 0).marked, marked, "{other}");
        }
        assert_eq!(rig.sampler.window(rate), 312_500, "25 ms at 10 MB/s, and a quarter");
        rig.see(1, 10_000, 1000, 0);
        assert_eq!(rig.sampler.window(rate), 775_000, "62 ms at the most");
        rig.link.other = Rate::ZERO;
        rig.see(1, 10_000, 25, 0);
        assert_eq!(rig.sampler.window(rate), 150_000, "12 ms");
    }

    #[test]
    fn e2_a_longer_route_is_known_after_ten_minutes() {
        let mut rig = Rig::new();
        rig.see(1, 10_000, 2, 0);
        let mut marks = Vec::new();
        for _ in 0..13 {
            rig.now += 50_000 * MS;
            marks.push(rig.see(1, 10_000, 20, 0).marked > 0);
        }
        assert!(marks[..9].iter().all(|&marked| marked), "{marks:?}");
        assert!(!marks[12], "{marks:?}");
    }

    #[test]
    fn e2_arrivals_bound_data_in_flight() {
        let mut rig = Rig::new();
        assert_eq!(rig.sampler.window(Rate::ZERO), LEAST_WINDOW);
        rig.see(1, 10_000, 2, 0);
        let window = rig.sampler.window(Rate::new(1e8));
        assert_eq!(window, 1_500_000, "12 ms at 100 MB/s, and a quarter");
        assert_eq!(rig.sampler.window(Rate::new(1e6)), LEAST_WINDOW);
    }

    #[test]
    fn works_under_way_count_once() {
        let mut meter = Meter::default();
        let completions = Completions::default();
        let first = meter.post(Nanos(0), 100);
        let second = meter.post(Nanos(0), 50);
        assert_eq!((first.ahead, second.ahead), (100, 150));
        meter.complete(Nanos(5), first, &completions);
        assert_eq!(meter.post(Nanos(5), 1).ahead, 51);
    }
}
