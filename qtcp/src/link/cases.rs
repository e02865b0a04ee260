//! Cases of hosts on unlike paths: random weights, round trips and numbers of connections, hosts that come and go,
//! and hosts that want little.

use fastrand::Rng;

use super::ClassGoal;
use super::model::{Bottleneck, Commands, Kernel, MSS};
use crate::Rate;

/// A host: all its connections are of one class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    pub(super) goal: ClassGoal,
    /// The round trip beside the queue, in seconds.
    pub(super) base: f64,
    pub(super) connections: usize,
    /// The rate that the host would take, in bits per second.
    pub(super) wants: f64,
    pub(super) here: bool,
}

/// Hosts on a link, each of a class of its own.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) seed: u64,
    pub(super) mbit: f64,
    pub(super) hosts: Vec<Host>,
}

/// The time to settle after a change, in seconds.
pub(super) const SETTLE: f64 = 2.0;
/// The time over which shares are measured, in seconds.
pub(super) const MEASURE: f64 = 3.0;
/// The bytes of reads, and of writes, that a connection has at once: eight commands of 128 KiB.
pub(super) const DEPTH: f64 = 1_048_576.0;

/// The largest deviation of a host from its part, as a part of it, the throughput of all, as a part of the throughput
/// without control, and the case.
pub(super) type Found = (f64, f64, String);

impl Case {
    /// Draws 50 to 1000 Mbit/s with two to four hosts of weights 1 to 8 or equal ones, one to eight
    /// connections and round trips of 0.2 to 10 ms. Some have a rate to keep; some want
    /// less than their part.
    pub(super) fn draw(seed: u64) -> Self {
        Self::draw_on(seed, 50.0 * 20_f64.powf(Rng::with_seed(seed ^ 77777).f64()))
    }

    pub(super) fn draw_on(seed: u64, mbit: f64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let (count, equal) = (rng.usize(2..=4), rng.u8(0..4) == 0);
        let mut hosts: Vec<_> = (0..count)
            .map(|_| Host {
                goal: ClassGoal::Share(if equal { 1.0 } else { f64::from(rng.u8(1..=8)) }),
                base: 0.2e-3 * 50_f64.powf(rng.f64()),
                connections: rng.usize(1..=8),
                wants: f64::INFINITY,
                here: true,
            })
            .collect();
        let part = (0.1 + 0.3 * rng.f64()) * mbit * 1e6;
        match rng.u8(0..6) {
            0 => hosts[0].goal = ClassGoal::Rate(Rate::from_bits(part)),
            1 => hosts[0].wants = part,
            _ => {}
        }
        let mut case = Self { seed, mbit, hosts };
        case.keep_to_bounds();
        case
    }

    /// Removes from a random case the parts without a promise of shares: a connection whose window
    /// would need more than a second to grow to the whole link by a packet in a round trip, and a
    /// host whose demand is so close to its part that its state alternates.
    pub(super) fn keep_to_bounds(&mut self) {
        for host in &mut self.hosts {
            let packets = self.mbit * 1e6 / 8.0 / MSS / host.connections as f64;
            host.base = host.base.min(packets.recip().sqrt());
        }
        let goes = self.goes();
        for here in [true, false] {
            self.hosts[goes].here = here;
            let open = Host { wants: f64::INFINITY, ..self.hosts[0] };
            let wants = core::mem::replace(&mut self.hosts[0], open).wants;
            let part = self.parts(self.mbit * 1e6)[0];
            let near = (0.7..1.3).contains(&(wants / part));
            self.hosts[0].wants = if near { f64::INFINITY } else { wants };
        }
        self.hosts[goes].here = true;
    }

    /// Computes the rate that each host should have, in bits per second, of this much together.
    pub(super) fn parts(&self, total: f64) -> Vec<f64> {
        let weight = |host: &Host| match host.goal {
            ClassGoal::Share(weight) if host.here => weight,
            _ => 0.0,
        };
        let weights: f64 = self.hosts.iter().map(weight).sum();
        let fixed = |host: &Host, even: f64| match host.goal {
            _ if !host.here => Some(0.0),
            ClassGoal::Rate(rate) => Some(rate.bits()),
            _ if host.wants < even * weight(host) => Some(host.wants),
            _ => None,
        };
        let taken: Vec<_> = self.hosts.iter().map(|host| fixed(host, total / weights)).collect();
        let left = total - taken.iter().flatten().sum::<f64>();
        if taken.iter().all(Option::is_some) && weights == 0.0 {
            // Capacity unwanted by hosts with shares goes to the host with a rate.
            return taken
                .iter()
                .map(|taken| if *taken > Some(0.0) { total } else { 0.0 })
                .collect();
        }
        let open = self.hosts.iter().zip(&taken).filter(|(_, taken)| taken.is_none());
        let weights: f64 = open.map(|(host, _)| weight(host)).sum();
        let parts = self.hosts.iter().zip(taken);
        parts.map(|(host, taken)| taken.unwrap_or(left * weight(host) / weights)).collect()
    }

    pub(super) fn goals(&self) -> Vec<ClassGoal> {
        self.hosts.iter().map(|host| host.goal).collect()
    }

    pub(super) fn bottleneck(&self, kernel: Kernel, control: bool) -> Bottleneck {
        let mut bottleneck = Bottleneck::new(self.mbit, &self.goals(), control);
        bottleneck.seed(self.seed);
        for (class, host) in self.hosts.iter().enumerate() {
            let wants = host.wants / host.connections as f64;
            for _ in 0..host.connections {
                bottleneck.far_flow(Some(class), kernel, wants, host.base);
            }
        }
        bottleneck
    }

    /// Makes the case's link with and without control.
    pub(super) fn both(&self, kernel: Kernel) -> [Bottleneck; 2] {
        [true, false].map(|control| self.bottleneck(kernel, control))
    }

    /// Runs flows until they settle, and then for the time that is measured. Returns each host's bits per second.
    pub(super) fn run(&self, bottleneck: &mut Bottleneck, settle: f64, measure: f64) -> Vec<f64> {
        bottleneck.run(settle);
        bottleneck.run(measure);
        self.got(bottleneck, measure)
    }

    /// Computes the bits per second that each host had in the last run.
    pub(super) fn got(&self, bottleneck: &Bottleneck, seconds: f64) -> Vec<f64> {
        let mut rates = bottleneck.rates(seconds).into_iter();
        let each = self.hosts.iter();
        each.map(|host| rates.by_ref().take(host.connections).sum()).collect()
    }

    /// Makes a host come or go.
    pub(super) fn turn<'a>(
        &mut self,
        bottlenecks: impl IntoIterator<Item = &'a mut Bottleneck>,
        index: usize,
        here: bool,
    ) {
        self.hosts[index].here = here;
        let first: usize = self.hosts[..index].iter().map(|host| host.connections).sum();
        for bottleneck in bottlenecks {
            for flow in first..first + self.hosts[index].connections {
                bottleneck.turn(flow, index, here);
            }
        }
    }

    /// Runs flows until they settle, with and without control.
    pub(super) fn settled(&self, both: &mut [Bottleneck; 2]) -> Found {
        for bottleneck in &mut *both {
            self.run(bottleneck, SETTLE, MEASURE);
        }
        self.compared(both)
    }

    /// Returns what [`Self::settled`] does, of runs that are over.
    fn compared(&self, both: &[Bottleneck; 2]) -> Found {
        let [got, plain] = both.each_ref().map(|bottleneck| self.got(bottleneck, MEASURE));
        let total: f64 = got.iter().sum();
        (self.deviation(&got), total / plain.iter().sum::<f64>(), format!("{self:?}"))
    }

    /// Returns the host that goes and comes back.
    pub(super) fn goes(&self) -> usize {
        usize::try_from(self.seed % self.hosts.len() as u64).unwrap()
    }

    pub(super) fn deviation(&self, got: &[f64]) -> f64 {
        let parts = self.parts(got.iter().sum());
        let off =
            |(got, part): (&f64, f64)| if part > 0.0 { (got / part - 1.0).abs() } else { 0.0 };
        got.iter().zip(parts).map(off).fold(0.0, f64::max)
    }
}

/// Runs a random case: with all hosts, without one of them, and with it again.
pub(super) fn come_and_go(kernel: Kernel, seed: u64) -> [Found; 3] {
    let mut case = Case::draw(seed);
    let (mut both, goes) = (case.both(kernel), case.goes());
    [true, false, true].map(|here| {
        case.turn(&mut both, goes, here);
        case.settled(&mut both)
    })
}

/// Does the same in both directions of a link at once, with hosts of their own in each.
pub(super) fn come_and_go_both_ways(seed: u64) -> Vec<Found> {
    let out = Case::draw(seed);
    let into = Case::draw_on(seed.wrapping_add(1000), out.mbit);
    let mut ways = [out, into].map(|case| (case.both(Kernel::Dctcp), case));
    let phases = [true, false, true].map(|here| {
        for (both, case) in &mut ways {
            case.turn(both, case.goes(), here);
        }
        let [(outs, _), (intos, _)] = &mut ways;
        for (one, other) in outs.iter_mut().zip(intos) {
            one.run_both(other, SETTLE);
            one.run_both(other, MEASURE);
        }
        ways.each_ref().map(|(both, case)| case.compared(both))
    });
    phases.concat()
}

/// Does the same with hosts that read and write at once, on one connection: messages between the
/// target and the host wait behind the data that they send. The throughput is the part of the link that is used.
pub(super) fn come_and_go_with_commands(seed: u64) -> Vec<Found> {
    let mut case = Case::draw_on(seed, 50.0 + 150.0 * Rng::with_seed(seed).f64());
    for host in &mut case.hosts {
        (host.wants, host.connections) = (f64::INFINITY, 1);
        host.base = host.base.min(5e-3);
    }
    let make = || case.bottleneck(Kernel::Dctcp, true);
    let mut both = Commands::new(make(), make());
    both.connect(DEPTH);
    let goes = case.goes();
    let phases = [true, false, true].map(|here| {
        case.turn([&mut both.out, &mut both.into], goes, here);
        both.run(SETTLE);
        both.run(MEASURE);
        [&both.out, &both.into].map(|bottleneck| {
            let got = case.got(bottleneck, MEASURE);
            let usage = got.iter().sum::<f64>() / (bottleneck.data_capacity() * 8.0);
            (case.deviation(&got), usage, format!("{case:?}"))
        })
    });
    phases.concat()
}

/// Returns seeds of random cases: the `kept` ones of earlier failures, and `fresh` others (or the number in
/// `SHARES_CASES`), which follow from `PROPTEST_RNG_SEED`.
pub(super) fn seeds(kept: impl Iterator<Item = u64>, fresh: usize) -> impl Iterator<Item = u64> {
    let number = |variable| std::env::var(variable).ok()?.parse::<u64>().ok();
    let mut random = fastrand::Rng::with_seed(number("PROPTEST_RNG_SEED").unwrap_or(1));
    let count = number("SHARES_CASES").and_then(|cases| usize::try_from(cases).ok());
    let fresh = std::iter::repeat_with(move || random.u64(..)).take(count.unwrap_or(fresh));
    kept.chain(fresh)
}

/// Makes a case of hosts with goals and round trips in ms beside the queue, of a connection each.
pub(super) fn hosts(mbit: f64, hosts: &[(ClassGoal, f64)]) -> Case {
    let (wants, connections, here) = (f64::INFINITY, 1, true);
    let host =
        |&(goal, ms): &(ClassGoal, f64)| Host { goal, base: ms / 1e3, connections, wants, here };
    Case { seed: 0, mbit, hosts: hosts.iter().map(host).collect() }
}

pub(super) const FIVE_THREE_TWO: [ClassGoal; 3] =
    [ClassGoal::Share(5.0), ClassGoal::Share(3.0), ClassGoal::Share(2.0)];
