//! The system of the paper's experiments, at its own size or smaller.

use core::time::Duration;

use crate::capacity::Profile;
use crate::in_process::Nics;
use crate::simulation::{ClientSetup, Faults, Kind, Record, Setup, Workload, run, time_of_io};
use crate::token::{Iops, Tokens};

/// C_G: what the data node can do, in I/Os per second.
pub const AGGREGATE: u64 = 1_570_000;
/// C_L: what one client can do, in I/Os per second.
pub const LOCAL: u64 = 400_000;
/// The number of clients.
pub const CLIENTS: usize = 10;
/// The I/Os that a client keeps under way.
pub(super) const WINDOW: u64 = 64;
/// B: tokens of a batch.
const BATCH: u64 = 1000;

/// The size and the seed of a simulation of the paper's testbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Testbed {
    /// The number by which capacities, windows and batches are divided, so that a simulation takes as
    /// much less time: 1 is the paper's own size, and 0 counts as 1. Periods and intervals stay as
    /// they are, and so does the time that an operation on a word takes: with a scale of n, the
    /// overhead counts n times.
    pub scale: u64,
    /// The seed of all that is random.
    pub seed: u64,
}

impl Testbed {
    /// Makes a testbed of some scale, with the seed 1.
    #[must_use]
    pub const fn scaled(scale: u64) -> Self {
        Self { scale, seed: 1 }
    }

    /// Scales a number of I/Os down.
    #[must_use]
    pub fn down(self, ios: u64) -> u64 {
        ios / self.scale.max(1)
    }

    /// Scales a number of I/Os up to the paper's size.
    #[must_use]
    pub fn up(self, ios: f64) -> f64 {
        ios * self.scale.max(1) as f64
    }
}

/// The ways in which the paper divides a sum among the ten clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Equal parts.
    Uniform,
    /// Five groups of two clients, with parts after Zipf's law with the exponent 0.6.
    Zipf,
    /// C1 to C3 have 285 parts each, C4 to C10 have 80 (Experiment Set 3).
    Spike,
}

impl Distribution {
    /// Divides a sum among the ten clients, C1 first.
    #[must_use]
    pub fn divide(self, sum: u64) -> Vec<u64> {
        match self {
            Self::Uniform => zipf(sum, CLIENTS, 0.0),
            Self::Zipf => zipf(sum, CLIENTS, 0.6),
            Self::Spike => {
                let parts = (0..CLIENTS).map(|client| if client < 3 { 285.0 } else { 80.0 });
                divide(sum, &parts.collect::<Vec<f64>>())
            }
        }
    }
}

/// The number of groups of clients with equal parts in Zipf's distribution.
const GROUPS: usize = 5;

/// Divides a sum among some clients in five groups (fewer where there are fewer clients), with parts
/// after Zipf's law, C1 first. With an exponent of 0 all parts are equal.
#[must_use]
pub fn zipf(sum: u64, clients: usize, exponent: f64) -> Vec<u64> {
    let group = clients.div_ceil(GROUPS).max(1);
    let part = |client: usize| ((client / group + 1) as f64).powf(-exponent);
    divide(sum, &(0..clients).map(part).collect::<Vec<f64>>())
}

/// Divides a sum in proportion to some parts.
fn divide(sum: u64, parts: &[f64]) -> Vec<u64> {
    let all: f64 = parts.iter().sum();
    parts.iter().map(|part| Tokens::rounded(sum as f64 * part / all).0).collect()
}

/// The systems that the experiments compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Clients without engines.
    Bare,
    /// Haechi without token conversion: the paper's "Basic Haechi".
    Basic,
    /// Haechi.
    Haechi,
    /// Haechi in which I/Os with global tokens have a window of 1: a lower priority for I/Os beyond
    /// the reservation, of which the paper speaks in its model ("lower priority than requests from
    /// clients with remaining reservation") without giving a mechanism. Beside traffic outside of
    /// Haechi it has its price: these I/Os give way to that too.
    LowPriority,
}

/// Makes the data node of the paper without clients, with its profiled capacity.
///
/// The paper does not give the time that an operation on a word takes of a NIC, nor that of
/// travelling, nor how times vary; these are 20 ns, 1 us and 5 %. An 8-byte word is a 500th of an
/// I/O's 4 KiB, and 20 ns is a 30th of its time.
#[must_use]
pub fn data_node(testbed: Testbed) -> Setup {
    let scaled =
        |time: Duration| time.saturating_mul(u32::try_from(testbed.scale.max(1)).unwrap_or(1));
    Setup {
        nics: Nics {
            io_at_node: scaled(time_of_io(AGGREGATE)),
            io_at_client: scaled(time_of_io(LOCAL)),
            word: Duration::from_nanos(20),
            travel: scaled(Duration::from_micros(1)),
            jitter: 5,
        },
        local: Iops(testbed.down(LOCAL)),
        period: Duration::from_secs(1),
        interval: Duration::from_millis(1),
        batch: Tokens(testbed.down(BATCH).max(1)),
        conversion: true,
        profile: Profile { mean: Tokens(testbed.down(AGGREGATE)), sigma: 0.0 },
        increment: Tokens(testbed.down(AGGREGATE) / 100),
        history: 5,
        measures: false,
        clients: Vec::new(),
        faults: Faults::default(),
        monitor_down: None,
        latencies: false,
        seed: testbed.seed,
    }
}

/// Makes the clients of an experiment. `reserved` and `workloads` are those of each client, in I/Os
/// of a period at the paper's size.
#[must_use]
pub fn clients(
    testbed: Testbed,
    system: System,
    reserved: &[u64],
    workloads: &[Workload],
) -> Vec<ClientSetup> {
    let window = u32::try_from(testbed.down(WINDOW).max(1)).unwrap_or(1);
    let each = reserved.iter().zip(workloads);
    let make = |(reserved, workload): (&u64, &Workload)| {
        let workload = match *workload {
            Workload::Burst(requests) => Workload::Burst(testbed.down(requests)),
            Workload::Constant(requests) => Workload::Constant(testbed.down(requests)),
        };
        let engine = ClientSetup {
            window,
            best_effort_window: if system == System::LowPriority { 1 } else { window },
            ..ClientSetup::new(Tokens(testbed.down(*reserved)), workload)
        };
        match system {
            System::Bare => ClientSetup { kind: Kind::Bare, reservation: None, ..engine },
            System::Basic | System::Haechi | System::LowPriority => engine,
        }
    };
    each.map(make).collect()
}

/// The result of an experiment, in I/Os of a period at the paper's size.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The system that was simulated.
    pub system: System,
    /// R_i of each client.
    pub reserved: Vec<f64>,
    /// The mean of each client's I/Os in the measured periods.
    pub means: Vec<f64>,
    /// The least of each client's I/Os in a measured period.
    pub least: Vec<f64>,
    /// The mean throughput of all clients together.
    pub total: f64,
    /// Operations on words for each I/O.
    pub words: f64,
    /// What was recorded, as it was simulated.
    pub record: Record,
}

impl Outcome {
    /// Tells whether a client had its reservation in each measured period, but for a part of it.
    #[must_use]
    pub fn keeps(&self, client: usize, tolerance: f64) -> bool {
        let reserved = self.reserved.get(client).copied().unwrap_or_default();
        self.least.get(client).is_some_and(|least| *least >= reserved * (1.0 - tolerance))
    }
}

/// Runs a setup for `periods` periods after `warm` others that are not measured.
#[must_use]
pub fn measure(
    testbed: Testbed,
    system: System,
    reserved: &[u64],
    setup: Setup,
    warm: usize,
    periods: usize,
) -> Outcome {
    let clients = reserved.len();
    let record =
        run(Setup { conversion: system != System::Basic, ..setup }, warm.saturating_add(periods));
    let all = record.mean_total(usize::MAX, 0) * record.periods.len() as f64;
    Outcome {
        system,
        reserved: reserved.iter().map(|reserved| *reserved as f64).collect(),
        means: (0..clients).map(|client| testbed.up(record.mean(client, warm))).collect(),
        least: (0..clients).map(|client| testbed.up(record.least(client, warm) as f64)).collect(),
        total: testbed.up(record.mean_total(clients, warm)),
        words: record.words as f64 / all.max(1.0),
        record,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_are_those_of_the_paper() {
        let reserved = AGGREGATE * 9 / 10;
        let uniform = Distribution::Uniform.divide(reserved);
        assert_eq!(uniform, [141_300; CLIENTS]);
        let zipf = Distribution::Zipf.divide(reserved);
        assert!((7_000_000..7_100_000).contains(&(zipf[0] * 30)), "7080K in 30 s: {zipf:?}");
        assert_eq!(zipf[0], zipf[1]);
        let spike = Distribution::Spike.divide(3 * 285_000 + 7 * 80_000);
        assert_eq!((spike[2], spike[3]), (285_000, 80_000));
    }
}
