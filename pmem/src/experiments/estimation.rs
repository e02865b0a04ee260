//! Experiment Set 4: the estimate of the capacity (Fig. 16 to 19).

use super::system::{
    AGGREGATE, Distribution, Outcome, Scale, System, clients, data_node, measure,
};
use crate::capacity::Profile;
use crate::simulation::{ClientSetup, Kind, Setup, Workload};
use crate::token::Tokens;

/// The period in which congestion begins or ends.
pub const CHANGE: usize = 15;
/// Standard deviation of the profile, in I/Os of a period. The paper does not give it. Congestion is
/// followed by the estimate only down to three of them, so this is what Fig. 16 needs.
const SIGMA: u64 = 90_000;

/// Measures 35 periods with 80 % reserved, bursts, and background jobs on all ten client nodes,
/// which take up to a ninth of the data node, either from period 15 on (`congested`, Fig. 16 and 17)
/// or until then (Fig. 18 and 19).
#[must_use]
pub fn fig16(
    scale: Scale,
    distribution: Distribution,
    system: System,
    congested: bool,
) -> Outcome {
    let percent = 80;
    let reserved = distribution.divide(AGGREGATE * percent / 100);
    let pool = AGGREGATE - AGGREGATE * percent / 100;
    let workloads: Vec<Workload> =
        reserved.iter().map(|reserved| Workload::Burst(reserved + pool)).collect();
    let mut clients = clients(scale, system, &reserved, &workloads);
    let jobs: Vec<ClientSetup> = clients
        .iter()
        .map(|client| ClientSetup {
            kind: Kind::Bare,
            reservation: None,
            workload: Workload::Burst(scale.down(AGGREGATE)),
            active: if congested { CHANGE..usize::MAX } else { 0..CHANGE },
            window: (client.window / 8).max(1),
            ..client.clone()
        })
        .collect();
    clients.extend(jobs);
    let profile = Profile {
        mean: Tokens(scale.down(AGGREGATE)),
        sigma: scale.down(SIGMA) as f64,
    };
    let setup = Setup { clients, profile, ..data_node(scale) };
    measure(scale, system, &reserved, setup, 0, 35)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explore() {
        for d in [Distribution::Uniform, Distribution::Zipf] {
        for s in [System::Haechi, System::LowPriority] {
        for congested in [true, false] {
            let o = fig16(Scale(8), d, s, congested);
            println!("fig16 {d:?} {s:?} {congested} R1 {:?}", o.reserved[0]);
            println!("  C1  {:?}", o.record.periods.iter().map(|p| p.completed[0]*8/1000).collect::<Vec<_>>());
            println!("  tot {:?}", o.record.periods.iter().map(|p| p.completed[..10].iter().sum::<u64>()*8/1000).collect::<Vec<_>>());
            println!("  cap {:?}", o.record.periods.iter().map(|p| p.capacity.0*8/1000).collect::<Vec<_>>());
        }}}
    }
}
