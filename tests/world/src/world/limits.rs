//! A check of sessions' limits, by what went to devices and not by the product's own counters.

use std::collections::HashMap;

use arbitration::limit::{Rate, Rates, TOLERANCE};
use arbitration::session::{Session, SessionSpec};
use fabric::Nanos;

/// One limit, as a bucket that commands to devices fill and the rate empties.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: u64,
    /// The burst, as a time at the rate: its amount may pass at once.
    burst: Nanos,
    /// Level of the bucket, in 1/10^9 of a command or byte.
    level: u128,
    at: Nanos,
    /// Largest amount that went at that time.
    largest: u64,
    /// Largest amount that went since the bucket was empty.
    late: u64,
}

/// Number of units of the level in a command or byte, and of ns in a second.
const NANO: u128 = 1_000_000_000;

impl Bucket {
    fn new(rate: u64, burst: Nanos, at: Nanos) -> Self {
        Self { rate, burst, level: 0, at, largest: 0, late: 0 }
    }

    /// Counts an amount that passes at a time. Returns false if more has passed than the limit permits: its rate,
    /// at once its burst or the largest command that may have waited for its turn, and the last command.
    fn passes(&mut self, at: Nanos, amount: u64) -> bool {
        if at < self.at {
            // The command has waited for memory of its device since its turn. The time that paid
            // for the command was forgotten when the bucket ran empty, so the command is not
            // counted.
            return true;
        }
        if at > self.at {
            self.largest = 0;
        }
        // The order of commands that several reactors let go at one time is not seen here.
        self.largest = self.largest.max(amount);
        let (rate, largest) = (u128::from(self.rate), u128::from(self.largest));
        self.level = self.level.saturating_sub(u128::from(at.ns_since(self.at)) * rate);
        self.at = at;
        if self.level == 0 {
            self.late = 0;
        }
        self.late = self.late.max(amount);
        self.level += u128::from(amount) * NANO;
        // Calculation with whole ticks adds a rounding error.
        let rounded = largest * NANO / 1000 + NANO;
        let burst = u128::from(self.burst.0.max(TOLERANCE.0)) * rate;
        self.level <= burst.max(u128::from(self.late) * NANO) + largest * NANO + rounded
    }
}

/// One session.
#[derive(Clone, Debug)]
struct Watched {
    name: String,
    parent: Option<u32>,
    /// The limits on all commands, on reads, and on writes.
    limits: [Limit; 3],
}

/// The limits on commands and on bytes.
#[derive(Clone, Copy, Debug)]
struct Limit {
    iops: Option<Bucket>,
    bandwidth: Option<Bucket>,
}

impl Limit {
    fn passes(&mut self, at: Nanos, (operations, bytes): (u64, u64)) -> bool {
        let iops = self.iops.as_mut().is_none_or(|bucket| bucket.passes(at, operations));
        let bandwidth = self.bandwidth.as_mut().is_none_or(|bucket| bucket.passes(at, bytes));
        iops && bandwidth
    }
}

/// All sessions with limits, by their places.
#[derive(Debug, Default)]
pub(super) struct Limits {
    watched: HashMap<u32, Watched>,
    /// Places of sessions that are gone. Their last commands are not limited, and another session
    /// may have the place.
    left: Vec<u32>,
}

impl Limits {
    /// Sets a session to what `spec` says.
    pub(super) fn set(&mut self, now: Nanos, session: &Session, spec: &SessionSpec) {
        let id = session.id().0;
        if self.left.contains(&id) {
            return;
        }
        let before = self.watched.get(&id);
        let burst = spec.burst;
        let bucket = |rate: Option<Rate>, before: Option<Bucket>| {
            let rate = rate?.get();
            // After a change the old rate's excess is not held against the new one.
            let same = before.filter(|bucket| (bucket.rate, bucket.burst) == (rate, burst));
            Some(same.unwrap_or(Bucket::new(rate, burst, now)))
        };
        let limit = |rates: Rates, before: Option<Limit>| Limit {
            iops: bucket(rates.iops, before.and_then(|before| before.iops)),
            bandwidth: bucket(rates.bandwidth, before.and_then(|before| before.bandwidth)),
        };
        let [all, reads, writes] = before.map_or([None; 3], |before| before.limits.map(Some));
        let total = Rates { iops: spec.iops, bandwidth: spec.bandwidth };
        let watched = Watched {
            name: spec.name.clone(),
            parent: session.parent().map(|parent| parent.id().0),
            limits: [limit(total, all), limit(spec.reads, reads), limit(spec.writes, writes)],
        };
        self.watched.insert(id, watched);
    }

    /// Forgets a session that is gone.
    pub(super) fn forget(&mut self, session: &Session) {
        self.watched.remove(&session.id().0);
        self.left.push(session.id().0);
    }

    /// Takes note that a command of a session, of so many operations and bytes, went to a device. Returns the session whose limit
    /// that exceeds.
    pub(super) fn passed(
        &mut self,
        session: u32,
        at: Nanos,
        write: bool,
        amount: (u64, u64),
    ) -> Option<&str> {
        let (mut next, mut exceeded) = (Some(session), None);
        while let Some(id) = next {
            let Some(watched) = self.watched.get_mut(&id) else { break };
            next = watched.parent;
            let [all, reads, writes] = &mut watched.limits;
            let passes = all.passes(at, amount);
            if !(if write { writes } else { reads }).passes(at, amount) || !passes {
                exceeded = Some(id);
            }
        }
        exceeded.and_then(|id| self.watched.get(&id)).map(|watched| watched.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_notices_what_is_beyond_its_rate() {
        let mut bucket = Bucket::new(1000, Nanos(4_000_000), Nanos(0));
        for command in 0..5 {
            assert!(bucket.passes(Nanos(0), 1), "4 ms of the rate, and one: command {command}");
        }
        assert!(bucket.passes(Nanos(1_000_000), 1));
        assert!(bucket.passes(Nanos(2_000_000), 1));
        bucket.passes(Nanos(2_000_000), 1);
        assert!(!bucket.passes(Nanos(2_000_000), 1));
        // At 100/s a burst of 1 ms is less than one command, which may have waited.
        let mut bucket = Bucket::new(100, Nanos(0), Nanos(0));
        // The third is within the rounding error.
        assert!((0..3).all(|_| bucket.passes(Nanos(0), 1)));
        assert!(!bucket.passes(Nanos(5_000_000), 1), "two at once, and then 10 ms apart");
    }
}
