//! The bound on lines of the log that others cause: peers, by their addresses, and users whose changes are refused.
//! Without it, anybody with access to a listener or the control socket could fill the journal.
//!
//! Each source may cause ten lines at once and one a second after that, all sources together a hundred at once and
//! twenty a second. Lines beyond that are left out and counted; every ten seconds at most, a line tells the count.
//! Time is an argument.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use fabric::Nanos;

/// The lines that a source may cause at once, and the time for one more.
const SOURCE: Rate = Rate { burst: 10, each: Duration::from_secs(1) };
/// The lines that all sources together may cause at once, and the time for one more.
const ALL: Rate = Rate { burst: 100, each: Duration::from_millis(50) };
/// The most sources that are counted one by one. A line of any other source is left out.
const SOURCES_MAX: usize = 1024;
/// The least time between two lines about lines that were left out.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// A rate of what others may cause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// How often at once.
    pub(crate) burst: u32,
    /// The time for once more.
    pub(crate) each: Duration,
}

/// A token bucket of one source: the time at which the bucket is full again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bucket(Nanos);

impl Bucket {
    /// Returns whether once more is within the rate.
    pub(crate) fn has_one(self, now: Nanos, rate: Rate) -> bool {
        self.0.since(now) <= rate.each * (rate.burst - 1)
    }

    /// Counts once.
    pub(crate) fn take_one(&mut self, now: Nanos, rate: Rate) {
        self.0 = self.0.max(now) + rate.each;
    }
}

/// The lines of one source.
#[derive(Clone, Copy, Debug, Default)]
struct Lines {
    bucket: Bucket,
    left_out: u64,
}

/// The lines that were left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeftOut<K> {
    /// The number of lines left out since the last line about that.
    pub(crate) lines: u64,
    /// The source that caused most of these lines; `None` where none is counted by itself.
    pub(crate) most: Option<K>,
}

/// The lines that sources have caused recently, with an entry for each of at most 1024.
#[derive(Debug)]
pub(crate) struct LineBound<K> {
    sources: HashMap<K, Lines>,
    all: Bucket,
    /// The number of lines left out since the last line about that.
    unreported: u64,
    /// The number of lines left out in all.
    left_out: u64,
    /// The time of the last line about lines that were left out.
    reported: Nanos,
}

impl<K> Default for LineBound<K> {
    fn default() -> Self {
        Self {
            sources: HashMap::new(),
            all: Bucket::default(),
            unreported: 0,
            left_out: 0,
            reported: Nanos::default(),
        }
    }
}

impl<K: Copy + Eq + Hash> LineBound<K> {
    /// Returns whether a line that a source causes now is logged; otherwise it is counted.
    pub(crate) fn allows(&mut self, now: Nanos, source: K) -> bool {
        if self.sources.len() >= SOURCES_MAX && !self.sources.contains_key(&source) {
            self.sources.retain(|_, lines| lines.bucket.0 > now || lines.left_out > 0);
        }
        let known = self.sources.contains_key(&source);
        let mut lines = self.sources.get(&source).copied().unwrap_or_default();
        let allowed = (known || self.sources.len() < SOURCES_MAX)
            && lines.bucket.has_one(now, SOURCE)
            && self.all.has_one(now, ALL);
        if allowed {
            lines.bucket.take_one(now, SOURCE);
            self.all.take_one(now, ALL);
        } else {
            lines.left_out += 1;
            self.unreported += 1;
            self.left_out += 1;
        }
        if known || self.sources.len() < SOURCES_MAX {
            self.sources.insert(source, lines);
        }
        allowed
    }

    /// Returns the lines left out since the last call that returned some, if that call was [`TELL_EVERY`] ago or
    /// longer.
    pub(crate) fn tell(&mut self, now: Nanos) -> Option<LeftOut<K>> {
        if self.unreported == 0 || now.since(self.reported) < TELL_EVERY {
            return None;
        }
        self.reported = now;
        let most = self.sources.iter().max_by_key(|(_, lines)| lines.left_out);
        let most = most.filter(|(_, lines)| lines.left_out > 0).map(|(source, _)| *source);
        self.sources.values_mut().for_each(|lines| lines.left_out = 0);
        Some(LeftOut { lines: std::mem::take(&mut self.unreported), most })
    }

    /// Returns the number of lines that were left out since the start.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn address(n: u32) -> IpAddr {
        Ipv4Addr::from(n).into()
    }

    #[test]
    fn ten_thousand_lines_a_second_become_one_and_a_count() {
        let mut log = LineBound::default();
        let mut lines = 0;
        let mut left_out = Vec::new();
        for n in 0..600_000_u64 {
            let now = Nanos(20 * SECOND + n * SECOND / 10_000);
            lines += u64::from(log.allows(now, address(1)));
            left_out.extend(log.tell(now));
        }
        assert_eq!(lines, u64::from(SOURCE.burst) + 59, "a minute of them");
        assert!(left_out.len() <= 7, "{left_out:?}");
        assert!(left_out.iter().all(|one| one.most == Some(address(1))));
        left_out.extend(log.tell(Nanos(1000 * SECOND)));
        assert_eq!(left_out.iter().map(|one| one.lines).sum::<u64>() + lines, 600_000);
        assert_eq!(log.left_out() + lines, 600_000);
        assert_eq!(log.tell(Nanos(2000 * SECOND)), None, "told once");
    }

    #[test]
    fn an_address_does_not_use_up_anothers_lines() {
        let mut log = LineBound::default();
        for n in 0..50_000_u64 {
            log.allows(Nanos(SECOND + n * SECOND / 10_000), address(1));
        }
        for _ in 0..SOURCE.burst {
            assert!(log.allows(Nanos(6 * SECOND), address(2)));
        }
        assert!(!log.allows(Nanos(6 * SECOND), address(2)));
        assert!(log.allows(Nanos(7 * SECOND), address(2)));
    }

    proptest! {
        #[test]
        fn lines_and_memory_are_bounded_and_all_are_counted(
            tries in prop::collection::vec((0u64..SECOND / 100, 0u32..3000), 1..4000)
        ) {
            let mut log = LineBound::default();
            let (mut now, mut lines) = (SECOND, 0);
            let count = tries.len() as u64;
            for (pause, from) in tries {
                now += pause;
                lines += u64::from(log.allows(Nanos(now), address(from)));
                prop_assert!(log.sources.len() <= SOURCES_MAX);
            }
            let most = u64::from(ALL.burst) + (now - SECOND) / 50_000_000;
            prop_assert!(lines <= most, "{lines} of at most {most}");
            prop_assert_eq!(log.left_out() + lines, count);
        }
    }
}
