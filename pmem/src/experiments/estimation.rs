//! Experiment Set 4: the estimate of the capacity (Fig. 16 to 19).

use super::system::{
    AGGREGATE, Distribution, Outcome, System, Testbed, clients, data_node, measure,
};
use crate::capacity::Profile;
use crate::simulation::{ClientSetup, Kind, Setup, Workload};
use crate::token::Tokens;

/// The period in which congestion begins or ends.
pub const CHANGE: usize = 15;
/// Standard deviation of the profile, in I/Os of a period. The paper does not give it. Congestion is
/// followed by the estimate only down to three of them, so this is what Fig. 16 needs.
const SIGMA: u64 = 90_000;

/// Fig. 16 to 19: measures 35 periods with 80 % reserved, bursts, and background jobs on all ten
/// client nodes, which take up to a ninth of the data node, either from period 15 on (`congested`,
/// Fig. 16 and 17) or until then (Fig. 18 and 19).
///
/// The paper, where congestion begins: throughput falls; with uniform reservations C1 keeps its own;
/// with Zipf's it misses it at first, and has gradually more as the estimate falls. Where congestion
/// ends: throughput grows gradually, by an increment in each period; C1 keeps its reservation, with
/// Zipf's it gets no more than that, and clients with small ones get what is added.
///
/// Ours differs in this:
/// - The estimate falls within M = 5 periods and grows by an increment in each, as in the paper, but
///   throughput follows the node at once: conversion sets the pool to what the estimate leaves of
///   the *time* (C_G * (T - t) - L), whatever was done before, so the pool of a node that does more
///   than estimated does not run dry before the period's end.
/// - When the estimate was too low, the period in which it becomes too high makes it the mean of a
///   history from the time of congestion; it falls back and grows again (algorithm 1 as printed).
/// - C1 with Zipf's reservation is out of reach already without congestion (see
///   [`fig9`](super::fig9)); it loses when congestion begins, and gains gradually.
#[must_use]
pub fn fig16(
    testbed: Testbed,
    distribution: Distribution,
    system: System,
    congested: bool,
) -> Outcome {
    let reserved = distribution.divide(AGGREGATE * 8 / 10);
    let pool = AGGREGATE * 2 / 10;
    let workloads: Vec<Workload> =
        reserved.iter().map(|reserved| Workload::Burst(reserved + pool)).collect();
    let mut clients = clients(testbed, system, &reserved, &workloads);
    let jobs: Vec<ClientSetup> = clients
        .iter()
        .map(|client| ClientSetup {
            kind: Kind::Bare,
            reservation: None,
            workload: Workload::Burst(testbed.down(AGGREGATE)),
            active: if congested { CHANGE..usize::MAX } else { 0..CHANGE },
            window: (client.window / 8).max(1),
            ..client.clone()
        })
        .collect();
    clients.extend(jobs);
    let profile =
        Profile { mean: Tokens(testbed.down(AGGREGATE)), sigma: testbed.down(SIGMA) as f64 };
    let setup = Setup { clients, profile, ..data_node(testbed) };
    measure(testbed, system, &reserved, setup, 0, 35)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::tests::near;

    const SMALL: Testbed = Testbed::scaled(8);

    fn capacity(outcome: &Outcome, period: usize) -> f64 {
        SMALL.up(outcome.record.periods[period].capacity.0 as f64)
    }

    /// Returns the mean I/Os of the first clients in some periods.
    fn mean(outcome: &Outcome, clients: core::ops::Range<usize>, periods: &[usize]) -> f64 {
        let done = |period: &usize| -> u64 {
            outcome.record.periods[*period].completed[clients.clone()].iter().sum()
        };
        SMALL.up(periods.iter().map(done).sum::<u64>() as f64) / periods.len() as f64
    }

    #[test]
    fn h4_fig16_the_estimate_follows_a_node_that_gets_slower() {
        let uniform = fig16(SMALL, Distribution::Uniform, System::Haechi, true);
        let before = mean(&uniform, 0..10, &[10, 11, 12]);
        let after = mean(&uniform, 0..10, &[20, 25, 30]);
        assert!(near(before, 1570e3, 0.005) && near(after, 1395e3, 0.01), "{before} {after}");
        let estimates: Vec<f64> = (16..=20).map(|period| capacity(&uniform, period)).collect();
        assert!(estimates.is_sorted_by(|a, b| a > b), "it falls gradually: {estimates:?}");
        assert!(near(capacity(&uniform, 21), after, 0.02), "{}", capacity(&uniform, 21));
        assert!(uniform.keeps(0, 0.0), "Fig. 17a: {:?}", uniform.least);
    }

    #[test]
    fn h4_fig17_a_large_reservation_gains_as_the_estimate_falls() {
        let zipf = fig16(SMALL, Distribution::Zipf, System::Haechi, true);
        let c1 = |periods: &[usize]| mean(&zipf, 0..1, periods);
        let (first, last) = (c1(&[15, 16]), c1(&[28, 30, 32, 34]));
        assert!(first < c1(&[10, 12, 14]) * 0.97, "it loses when congestion begins: {first}");
        assert!(last > first * 1.03, "and gains: {first} {last}");
        let rising: Vec<f64> = (15..=20).map(|period| c1(&[period])).collect();
        assert!(rising.is_sorted(), "gradually: {rising:?}");
        let small = mean(&zipf, 9..10, &[15]) - mean(&zipf, 9..10, &[30]);
        assert!(small > 0.0, "from those with small reservations");
        assert!(zipf.keeps(9, 0.0), "who keep their own");
    }

    #[test]
    fn h4_fig18_the_estimate_follows_a_node_that_gets_faster() {
        let uniform = fig16(SMALL, Distribution::Uniform, System::Haechi, false);
        let estimates: Vec<f64> = (16..=26).map(|period| capacity(&uniform, period)).collect();
        assert!(estimates.is_sorted(), "{estimates:?}");
        let steps = estimates.windows(2).all(|two| near(two[1] - two[0], 15_700.0, 0.01));
        assert!(steps, "by an increment each: {estimates:?}");
        assert!(near(mean(&uniform, 0..10, &[25, 30]), 1570e3, 0.005));
        assert!(uniform.keeps(0, 0.0), "Fig. 19a: {:?}", uniform.least);
    }

    #[test]
    fn h4_fig19_what_is_added_goes_to_small_reservations() {
        let zipf = fig16(SMALL, Distribution::Zipf, System::Haechi, false);
        let gain = |clients: core::ops::Range<usize>| {
            mean(&zipf, clients.clone(), &[20, 22, 24]) / mean(&zipf, clients, &[8, 10, 12])
        };
        assert!(near(gain(0..1), 1.0, 0.03), "C1: {}", gain(0..1));
        assert!(gain(8..10) > 1.15, "C9, C10: {}", gain(8..10));
    }
}
