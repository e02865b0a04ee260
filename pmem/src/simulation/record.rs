//! The results of a simulation.

use core::time::Duration;

use crate::monitor::Finding;
use crate::token::Tokens;

/// One period.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeriodRecord {
    /// The I/Os that each client completed.
    pub completed: Vec<u64>,
    /// The capacity that the monitor estimated for the period, in tokens; 0 without a monitor.
    pub capacity: Tokens,
    /// Whether the monitor has asked for reports.
    pub asked: bool,
}

impl PeriodRecord {
    /// Computes the I/Os that all clients completed.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.completed.iter().sum()
    }
}

/// All periods of a simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The periods that were finished, in order.
    pub periods: Vec<PeriodRecord>,
    /// The monitor's findings, with the number of the period that ran, counted from 0.
    pub findings: Vec<(usize, Finding)>,
    /// The clients that were evicted, with the number of the period that ran, counted from 0.
    pub evicted: Vec<(usize, u32)>,
    /// The number of operations on words.
    pub words: u64,
    /// The time from the start of each I/O to its completion, where it was to be kept.
    pub latencies: Vec<Duration>,
}

impl Record {
    /// Computes the mean number of I/Os that a client completed in the periods from `first` on.
    #[must_use]
    pub fn mean(&self, client: usize, first: usize) -> f64 {
        let periods = self.periods.iter().skip(first);
        let done = periods.filter_map(|period| period.completed.get(client));
        mean(done.map(|done| *done as f64))
    }

    /// Computes the least number of I/Os that a client completed in a period from `first` on.
    #[must_use]
    pub fn least(&self, client: usize, first: usize) -> u64 {
        let periods = self.periods.iter().skip(first);
        periods.filter_map(|period| period.completed.get(client)).copied().min().unwrap_or(0)
    }

    /// Computes the mean number of I/Os that the first `clients` clients completed together in the
    /// periods from `first` on.
    #[must_use]
    pub fn mean_total(&self, clients: usize, first: usize) -> f64 {
        let periods = self.periods.iter().skip(first);
        let sum = |all: &[u64]| all.iter().take(clients).sum::<u64>();
        mean(periods.map(|period| sum(&period.completed) as f64))
    }
}

/// Computes the mean of some numbers; 0 where there are none.
fn mean(numbers: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = numbers.fold((0.0, 0_u32), |(sum, count), number| (sum + number, count + 1));
    sum / f64::from(count.max(1))
}
