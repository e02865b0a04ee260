//! Linux's deadline scheduler with its usual settings: the disk without reservations.

use std::collections::{BTreeMap, VecDeque};

use super::workload::DiskRequest;
use arbitration::Nanos;

/// The time after which a read expires (`read_expire`: 500 ms).
const EXPIRE: u64 = 500_000_000;
/// The requests of a batch (`fifo_batch`).
const BATCH: u32 = 16;
/// The requests in the scheduler (`nr_requests`); later ones wait outside.
const REQUESTS: usize = 128;

/// A request with its stream.
type Entry = (usize, DiskRequest);

/// Scheduler of reads in the order of positions, in batches; a batch begins with the oldest request
/// once that has waited for too long.
#[derive(Debug, Default)]
pub(super) struct Deadline {
    outside: VecDeque<Entry>,
    /// The requests by position and order of arrival.
    sorted: BTreeMap<(u64, u64), Entry>,
    /// The expiry and the key in `sorted` of each request, in the order of arrival.
    fifo: VecDeque<(Nanos, (u64, u64))>,
    arrived: u64,
    head: u64,
    batched: u32,
}

impl Deadline {
    pub(super) fn arrive(&mut self, now: Nanos, stream: usize, request: DiskRequest) {
        self.outside.push_back((stream, request));
        self.let_in(now);
    }

    pub(super) fn pick(&mut self, now: Nanos) -> Option<Entry> {
        let key = self.next_of_batch().or_else(|| self.new_batch(now))?;
        self.batched += 1;
        let entry = self.sorted.remove(&key)?;
        self.head = key.0;
        self.let_in(now);
        Some(entry)
    }

    fn let_in(&mut self, now: Nanos) {
        while self.sorted.len() < REQUESTS {
            let Some(entry) = self.outside.pop_front() else { return };
            self.arrived += 1;
            let key = (entry.1.position, self.arrived);
            self.sorted.insert(key, entry);
            self.fifo.push_back((now.after(EXPIRE), key));
        }
    }

    fn next_of_batch(&self) -> Option<(u64, u64)> {
        if self.batched >= BATCH {
            return None;
        }
        self.sorted.range((self.head, 0)..).next().map(|(key, _)| *key)
    }

    fn new_batch(&mut self, now: Nanos) -> Option<(u64, u64)> {
        self.batched = 0;
        while self.fifo.front().is_some_and(|(_, key)| !self.sorted.contains_key(key)) {
            self.fifo.pop_front();
        }
        let (expires, oldest) = *self.fifo.front()?;
        if now >= expires {
            return Some(oldest);
        }
        let ahead = self.sorted.range((self.head, 0)..).next();
        ahead.or_else(|| self.sorted.iter().next()).map(|(key, _)| *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(position: u64) -> DiskRequest {
        DiskRequest { due: 0, position }
    }

    #[test]
    fn it_sweeps_until_the_oldest_has_waited_for_too_long() {
        let mut queue = Deadline::default();
        for position in [900, 100, 500] {
            queue.arrive(Nanos(0), 0, request(position));
        }
        let mut next = |now| queue.pick(Nanos(now)).map(|(_, request)| request.position);
        assert_eq!(next(0), Some(100));
        assert_eq!(next(0), Some(500));
        assert_eq!(next(0), Some(900));
        assert_eq!(next(0), None);
        queue.arrive(Nanos(0), 0, request(10));
        for position in 901..950 {
            queue.arrive(Nanos(1), 0, request(position));
        }
        let order: Vec<u64> =
            std::iter::from_fn(|| queue.pick(Nanos(EXPIRE)).map(|(_, r)| r.position)).collect();
        let at = order.iter().position(|position| *position == 10);
        assert!(at.is_some_and(|at| at <= 16), "not after the sweep: {order:?}");
    }
}
