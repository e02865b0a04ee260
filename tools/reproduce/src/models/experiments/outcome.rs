//! The results of an experiment.

use core::ops::Range;
use core::time::Duration;

use super::experiment::{Experiment, ExperimentError, Testbed};
use pmem::capacity::{Profile, ProfileError};
use pmem::monitor::Finding;
use pmem::simulation::{Record, run};
use pmem::token::Tokens;

/// The result of an experiment, in I/Os of a period at full size.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The experiment.
    pub experiment: Experiment,
    /// The size and the seed of the simulation.
    pub testbed: Testbed,
    /// R_i of each client: the simulated value, which is a multiple of the scale.
    pub reserved: Vec<f64>,
    /// The mean of each client's I/Os in the measured periods.
    pub means: Vec<f64>,
    /// The least of each client's I/Os in a measured period.
    pub least: Vec<f64>,
    /// The mean of the I/Os of all clients together, without the background's I/Os.
    pub total: f64,
    /// Operations on words for each I/O.
    pub words: f64,
    /// The latencies of the clients' I/Os in all periods, where they were to be kept.
    pub latencies: Latencies,
    /// The record at simulated scale, except for the latencies.
    pub record: Record,
}

/// Latencies of I/Os, from the start of each to its completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// The mean.
    pub mean: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The 99.9th percentile.
    pub p999: Duration,
}

/// Runs an experiment.
///
/// # Errors
///
/// [`ExperimentError`] for settings that are out of range, for reservations that are not admitted, and for
/// a scale that leaves nothing of them.
pub fn measure(experiment: &Experiment, testbed: Testbed) -> Result<Outcome, ExperimentError> {
    experiment.check()?;
    experiment.check_scale(testbed)?;
    let Experiment { warmup, periods, .. } = *experiment;
    let clients = experiment.clients.len();
    let mut record = run(experiment.setup(testbed), warmup.saturating_add(periods));
    let latencies = Latencies::new(core::mem::take(&mut record.latencies));
    let all = record.mean_total(usize::MAX, 0) * record.periods.len() as f64;
    let reserved = experiment.reservations().into_iter();
    Ok(Outcome {
        experiment: experiment.clone(),
        testbed,
        reserved: reserved.map(|reserved| testbed.up(testbed.down(reserved) as f64)).collect(),
        means: (0..clients).map(|client| testbed.up(record.mean(client, warmup))).collect(),
        least: (0..clients).map(|client| testbed.up(record.least(client, warmup) as f64)).collect(),
        total: testbed.up(record.mean_total(clients, warmup)),
        words: record.words as f64 / all.max(1.0),
        latencies,
        record,
    })
}

impl Outcome {
    /// Returns whether a client had its reservation in each measured period, but for a part of it.
    #[must_use]
    pub fn keeps(&self, client: usize, tolerance: f64) -> bool {
        let reserved = self.reserved.get(client).copied().unwrap_or_default();
        self.least.get(client).is_some_and(|least| *least >= reserved * (1.0 - tolerance))
    }

    /// Lists the clients that did not have their reservation in some measured period, but for the
    /// I/Os that were under way at its end: a window, and a tenth of the reservation at most.
    #[must_use]
    pub fn missed(&self) -> Vec<usize> {
        let window = self.experiment.window as f64;
        let each = self.least.iter().zip(&self.reserved).enumerate();
        let less = each
            .filter(|(_, (least, reserved))| *least + window.min(**reserved / 10.0) < **reserved);
        less.map(|(client, _)| client).collect()
    }

    /// Lists the clients whose reservations the monitor found to be out of reach, in order, each
    /// once. By Definition 2 of the paper, the rest that the data node left them exceeds one
    /// client's capacity.
    #[must_use]
    pub fn out_of_reach(&self) -> Vec<usize> {
        self.named(|finding| matches!(finding, Finding::OutOfReach { .. }))
    }

    /// Lists the clients of which the monitor said, when it admitted all, that they cannot count on
    /// their reservations, in order.
    #[must_use]
    pub fn contended(&self) -> Vec<usize> {
        self.named(|finding| matches!(finding, Finding::Contended { .. }))
    }

    /// Lists the clients of some findings, in order, each once.
    fn named(&self, is_meant: impl Fn(&Finding) -> bool) -> Vec<usize> {
        let findings = self.record.findings.iter().map(|(_, finding)| finding);
        let clients = findings.filter(|finding| is_meant(finding)).filter_map(Finding::client);
        let clients = clients.filter_map(|client| usize::try_from(client.0).ok());
        let mut named: Vec<usize> = clients.collect();
        named.sort_unstable();
        named.dedup();
        named
    }

    /// Returns the capacity that was estimated for each period, of those before the measured ones too;
    /// 0 without a monitor.
    #[must_use]
    pub fn estimates(&self) -> Vec<f64> {
        let periods = self.record.periods.iter();
        periods.map(|period| self.testbed.up(period.capacity.0 as f64)).collect()
    }

    /// Returns the I/Os that some clients completed together in each period, of those before the
    /// measured ones too.
    #[must_use]
    pub fn completed(&self, clients: Range<usize>) -> Vec<f64> {
        let periods = self.record.periods.iter();
        let sum = |all: &[u64]| all.iter().skip(clients.start).take(clients.len()).sum::<u64>();
        periods.map(|period| self.testbed.up(sum(&period.completed) as f64)).collect()
    }

    /// Computes the mean of [`Self::completed`] in some periods.
    #[must_use]
    pub fn mean(&self, clients: Range<usize>, periods: Range<usize>) -> f64 {
        let count = periods.len().max(1) as f64;
        let completed = self.completed(clients);
        completed.iter().skip(periods.start).take(periods.len()).sum::<f64>() / count
    }

    /// Computes a profile of the data node from the measured periods, in which all clients have to be
    /// backlogged (the paper: 1000 periods). It is of the simulation's size.
    ///
    /// # Errors
    ///
    /// [`ProfileError`] for fewer than two periods.
    pub fn profile(&self) -> Result<Profile, ProfileError> {
        let periods = self.record.periods.iter().skip(self.experiment.warmup);
        let samples: Vec<Tokens> = periods.map(|period| Tokens(period.total())).collect();
        Profile::from_samples(&samples)
    }
}

impl Latencies {
    /// Computes them of the latencies of I/Os.
    fn new(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        let part = |share: f64| {
            let place = usize::try_from(Tokens::rounded(all.len() as f64 * share).0);
            place.ok().and_then(|place| all.get(place.min(all.len().saturating_sub(1)))).copied()
        };
        let sum: Duration = all.iter().sum();
        let count = u32::try_from(all.len()).unwrap_or(u32::MAX).max(1);
        Self {
            mean: sum / count,
            p99: part(0.99).unwrap_or_default(),
            p999: part(0.999).unwrap_or_default(),
        }
    }
}
