//! Experiment Set 1: the system without Haechi (Fig. 6 to 8).

use super::system::{
    AGGREGATE, CLIENTS, Distribution, Outcome, System, Testbed, clients, data_node, measure,
};
use crate::capacity::{Profile, ProfileError};
use crate::simulation::{Setup, Workload, run};
use crate::token::Tokens;

/// More requests than a client can make in a period.
const BACKLOG: Workload = Workload::Burst(AGGREGATE);

/// Measures clients without engines, each with a workload.
fn bare(testbed: Testbed, workloads: &[Workload]) -> Outcome {
    let reserved = vec![0; workloads.len()];
    let clients = clients(testbed, System::Bare, &reserved, workloads);
    measure(testbed, System::Bare, &reserved, Setup { clients, ..data_node(testbed) }, 1, 3)
}

/// Fig. 6: returns the throughput of a client that is alone, in I/Os per second.
///
/// The paper has "around 400 KIOPS" for each of ten clients, between which ours do not differ.
#[must_use]
pub fn fig6(testbed: Testbed) -> f64 {
    bare(testbed, &[BACKLOG]).total
}

/// Fig. 7: returns the throughput of 1 to 10 clients together, in I/Os per second.
///
/// The paper: linear for the first four, then "slightly less than 1600 KIOPS" (1570).
#[must_use]
pub fn fig7(testbed: Testbed) -> Vec<f64> {
    (1..=CLIENTS).map(|clients| bare(testbed, &vec![BACKLOG; clients]).total).collect()
}

/// Fig. 8: measures a demand of 1580K I/Os per second, uniform or as a spike (340K for C1 to C3, 80K
/// for the others), with bursts or at a constant rate.
///
/// The paper: uniform bursts get 157K each; of the spike, bursts get 278K for C1 to C3 and 1380K
/// in all, requests at a constant rate 332K and 1564K. Ours: 157K; 276K and 1389K; 337K and 1570K.
#[must_use]
pub fn fig8(testbed: Testbed, distribution: Distribution, constant: bool) -> Outcome {
    let requests = match distribution {
        Distribution::Spike => spike_demand(),
        other => other.divide(1_580_000),
    };
    let pattern = if constant { Workload::Constant } else { Workload::Burst };
    let workloads: Vec<Workload> = requests.into_iter().map(pattern).collect();
    bare(testbed, &workloads)
}

/// Returns the spike demand of Experiment 1C, in I/Os of a period.
pub(super) fn spike_demand() -> Vec<u64> {
    (0..CLIENTS).map(|client| if client < 3 { 340_000 } else { 80_000 }).collect()
}

/// Profiles the data node: ten clients that are always backlogged, for `periods` periods (the paper:
/// 1000) after one that does not count.
///
/// # Errors
///
/// [`ProfileError`] for fewer than two periods.
pub fn profile(testbed: Testbed, periods: usize) -> Result<Profile, ProfileError> {
    let clients = clients(testbed, System::Bare, &[0; CLIENTS], &[BACKLOG; CLIENTS]);
    let record = run(Setup { clients, ..data_node(testbed) }, periods.saturating_add(1));
    let samples: Vec<Tokens> =
        record.periods.iter().skip(1).map(|period| Tokens(period.total())).collect();
    Profile::of(&samples)
}

#[cfg(test)]
mod tests {
    use super::super::system::LOCAL;
    use super::*;
    use crate::experiments::tests::near;

    const SMALL: Testbed = Testbed::scaled(8);

    #[test]
    fn h5_fig6_a_client_alone_does_400k() {
        assert!(near(fig6(SMALL), LOCAL as f64, 0.005));
    }

    #[test]
    fn h5_fig7_four_clients_saturate_the_data_node() {
        for (total, clients) in fig7(SMALL).into_iter().zip(1_u64..) {
            let expected = (clients * LOCAL).min(AGGREGATE) as f64;
            assert!(near(total, expected, 0.005), "{clients} clients: {total}");
        }
    }

    #[test]
    fn h5_fig8_bursts_of_a_spike_leave_the_data_node_idle_and_a_constant_rate_does_not() {
        let uniform = fig8(SMALL, Distribution::Uniform, false);
        assert!(uniform.means.iter().all(|mean| near(*mean, 157e3, 0.005)), "{uniform:?}");
        let burst = fig8(SMALL, Distribution::Spike, false);
        let constant = fig8(SMALL, Distribution::Spike, true);
        assert!(burst.means[..3].iter().all(|mean| near(*mean, 278e3, 0.01)), "{burst:?}");
        assert!(near(burst.total, 1380e3, 0.02), "{}", burst.total);
        assert!(constant.means[..3].iter().all(|mean| near(*mean, 332e3, 0.03)), "{constant:?}");
        assert!(near(constant.total, 1564e3, 0.01), "{}", constant.total);
    }

    #[test]
    fn h4_a_profile_of_the_node_is_its_capacity() {
        let profile = profile(Testbed::scaled(80), 100).unwrap();
        assert!(near(profile.mean.0 as f64 * 80.0, AGGREGATE as f64, 0.005), "{profile:?}");
        assert!(profile.sigma > 0.0 && profile.sigma < profile.mean.0 as f64 / 100.0);
        assert_eq!(super::profile(Testbed::scaled(80), 1), Err(ProfileError::TooFew(1)));
    }
}
