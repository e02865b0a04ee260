//! The budget of buffers for data that hosts will send (docs/research/sources.md, F5: the server asks for
//! data when it has room): an R2T takes its part of the budget for as long as the host may owe
//! data.
//!
//! While there are buffers, the host is asked for data when it has one. When there are none, it may
//! be asked for data whose buffer is expected to be free by the time the data comes, so that the
//! buffer does not stand empty for a round trip: that is a promise, and promises are bounded.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use fabric::Nanos;
use qtcp::forecast::Forecast;

/// The part of the I/O buffers that data from hosts may take, in quarters.
const DATA_QUARTERS: usize = 3;
/// The part of the I/O buffers that may be promised in addition, in eighths.
const PROMISED_EIGHTHS: usize = 1;
/// The part of the I/O buffers that is kept for hosts that hold little, in eighths.
const RESERVED_EIGHTHS: usize = 1;

/// Promised space. Dropping the promise releases the space.
#[derive(Debug)]
pub(crate) struct Promise {
    pub(crate) bytes: usize,
    all: Rc<Cell<usize>>,
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.all.set(self.all.get().saturating_sub(self.bytes));
    }
}

/// The budget of data that one reactor's hosts may be asked for.
#[derive(Debug)]
pub(crate) struct DataBudget {
    forecast: Forecast,
    promised: Rc<Cell<usize>>,
    /// Bytes of buffers for data from hosts.
    data: usize,
    /// Bytes that may be promised in addition.
    most: usize,
    /// Bytes of further buffers for hosts that hold little.
    reserve: usize,
}

impl DataBudget {
    /// Makes the budget of `memory` bytes of I/O buffers.
    pub(crate) fn new(memory: usize) -> Self {
        Self {
            forecast: Forecast::default(),
            promised: Rc::default(),
            data: memory / 4 * DATA_QUARTERS,
            most: memory / 8 * PROMISED_EIGHTHS,
            reserve: memory / 8 * RESERVED_EIGHTHS,
        }
    }

    /// Returns the number of bytes that are promised now.
    pub(crate) fn promised(&self) -> usize {
        self.promised.get()
    }

    /// Returns the number of bytes that hosts may be asked for at one time: with buffers, promised,
    /// and kept for hosts that hold little.
    pub(crate) fn window(&self) -> usize {
        self.data + self.most + self.reserve
    }

    /// Returns the number of bytes of buffers that are kept for data of hosts that hold little.
    pub(crate) fn reserve(&self) -> usize {
        self.reserve
    }

    /// Learns the rate at which buffers become free: `freed` bytes of data since the start.
    pub(crate) fn learn(&mut self, now: Nanos, freed: u64) {
        self.forecast.see(now, freed);
    }

    /// Returns whether `bytes` more may be used beside `used`. One command may always proceed, however few buffers
    /// there are.
    pub(crate) fn has_room(&self, used: usize, bytes: usize) -> bool {
        used == 0 || used + bytes <= self.data
    }

    /// Returns whether `bytes` more may be used beside `used`, with the reserve included.
    pub(crate) fn has_reserve(&self, used: usize, bytes: usize) -> bool {
        self.has_room(used.saturating_sub(self.reserve), bytes)
    }

    /// Promises `bytes` that will be free within `time`.
    pub(crate) fn promise(&self, bytes: usize, time: Duration) -> Option<Promise> {
        let all = self.promised.get() + bytes;
        let soon = usize::try_from(self.forecast.within(time)).unwrap_or(usize::MAX);
        if all > self.most.min(soon) {
            return None;
        }
        self.promised.set(all);
        Some(Promise { bytes, all: Rc::clone(&self.promised) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f5_no_more_is_promised_than_will_be_free() {
        let mut budget = DataBudget::new(8 << 20);
        let mib = 1 << 20;
        assert_eq!((budget.reserve(), budget.window()), (mib, 8 * mib));
        assert!(budget.has_reserve(6 * mib, mib) && !budget.has_reserve(6 * mib, mib + 1));
        let rtt = Duration::from_millis(1);
        assert!(budget.promise(4096, rtt).is_none(), "nothing has become free yet");
        (0..1000).for_each(|ms| budget.forecast.see(qtcp::Nanos(ms * 1_000_000), ms << 20));
        let mut promises = Vec::new();
        while let Some(promise) = budget.promise(65_536, rtt) {
            promises.push(promise);
        }
        assert!((4..=8).contains(&promises.len()), "half of 1 MiB: {}", promises.len());
        promises.pop();
        assert!(budget.promise(65_536, rtt).is_some(), "a promise that is kept may be made again");
        let long = Duration::from_secs(10);
        while let Some(promise) = budget.promise(65_536, long) {
            promises.push(promise);
        }
        assert!(budget.promised.get() <= 1 << 20, "an eighth of the buffers at most");
    }
}
