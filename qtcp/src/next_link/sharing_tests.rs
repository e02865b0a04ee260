//! Tests of the shares of hosts on unlike paths: random weights, round trips and numbers of
//! connections, hosts that come and go, and hosts that want little.

use fastrand::Rng;

use super::ClassGoal;
use super::model::{Bottleneck, Commands, Kernel, MSS};
use crate::Rate;

/// A host: all its connections are of one class.
#[derive(Clone, Copy, Debug)]
struct Host {
    goal: ClassGoal,
    /// The round trip beside the queue, in seconds.
    base: f64,
    connections: usize,
    /// The rate that the host would take, in bits per second.
    wants: f64,
    here: bool,
}

/// Hosts on a link, each of a class of its own.
#[derive(Debug)]
struct Case {
    seed: u64,
    mbit: f64,
    hosts: Vec<Host>,
}

/// The time to settle after a change, in seconds.
const SETTLE: f64 = 2.0;
/// The time over which shares are measured, in seconds.
const MEASURE: f64 = 3.0;
/// The bytes of reads, and of writes, that a connection has at once: eight commands of 128 KiB.
const DEPTH: f64 = 1_048_576.0;

impl Case {
    /// Draws 50 to 1000 Mbit/s with two to four hosts of weights 1 to 8 or equal ones, one to eight
    /// connections and round trips of 0.2 to 10 ms. Some have a rate to keep; some want
    /// less than their part.
    fn draw(seed: u64) -> Self {
        Self::draw_on(seed, 50.0 * 20_f64.powf(Rng::with_seed(seed ^ 77777).f64()))
    }

    fn draw_on(seed: u64, mbit: f64) -> Self {
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

    /// Takes out of a random case what no shares are promised for: a connection whose window would
    /// need more than a second to grow to the whole link by a packet in a round trip, and a host
    /// that wants nearly what its part is, who counts now as one and now as the other.
    fn keep_to_bounds(&mut self) {
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
    fn parts(&self, total: f64) -> Vec<f64> {
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
            // What no host with a share wants goes to the one with a rate.
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

    fn goals(&self) -> Vec<ClassGoal> {
        self.hosts.iter().map(|host| host.goal).collect()
    }

    fn bottleneck(&self, kernel: Kernel, control: bool) -> Bottleneck {
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
    fn both(&self, kernel: Kernel) -> [Bottleneck; 2] {
        [true, false].map(|control| self.bottleneck(kernel, control))
    }

    /// Computes the bits per second that each host had in the last run.
    fn got(&self, bottleneck: &Bottleneck, seconds: f64) -> Vec<f64> {
        let mut rates = bottleneck.rates(seconds).into_iter();
        let each = self.hosts.iter();
        each.map(|host| rates.by_ref().take(host.connections).sum()).collect()
    }

    /// Makes a host come or go.
    fn turn<'a>(
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

    /// Lets flows settle, with and without control. Returns the largest deviation of a host from
    /// its part, as a part of it, and the throughput of all, as a part of that without control.
    fn settled(&self, both: &mut [Bottleneck; 2]) -> (f64, f64) {
        for bottleneck in &mut *both {
            bottleneck.run(SETTLE);
            bottleneck.run(MEASURE);
        }
        self.compared(&both[0], &both[1])
    }

    /// Returns what [`Self::settled`] does, of runs that are over.
    fn compared(&self, with: &Bottleneck, without: &Bottleneck) -> (f64, f64) {
        let (got, plain) = (self.got(with, MEASURE), self.got(without, MEASURE));
        let total: f64 = got.iter().sum();
        (self.deviation(&got), total / plain.iter().sum::<f64>())
    }

    /// Returns the host that goes and comes back.
    fn goes(&self) -> usize {
        usize::try_from(self.seed % self.hosts.len() as u64).unwrap()
    }

    fn deviation(&self, got: &[f64]) -> f64 {
        let parts = self.parts(got.iter().sum());
        let off =
            |(got, part): (&f64, f64)| if part > 0.0 { (got / part - 1.0).abs() } else { 0.0 };
        got.iter().zip(parts).map(off).fold(0.0, f64::max)
    }
}

/// Runs a random case: with all hosts, without one of them, and with it again. Calls back with the
/// largest deviation of each, and the part of the throughput without control.
fn come_and_go(kernel: Kernel, seed: u64, found: &mut dyn FnMut(f64, f64, &Case)) {
    let mut case = Case::draw(seed);
    let (mut both, goes) = (case.both(kernel), case.goes());
    for here in [true, false, true] {
        case.turn(&mut both, goes, here);
        let (off, of_plain) = case.settled(&mut both);
        found(off, of_plain, &case);
    }
}

/// Does the same in both directions of a link at once, with hosts of their own in each.
fn come_and_go_both_ways(seed: u64, found: &mut dyn FnMut(f64, f64, &Case)) {
    let mut out = Case::draw(seed);
    let mut into = Case::draw_on(seed.wrapping_add(1000), out.mbit);
    let (mut outs, mut intos) = (out.both(Kernel::Dctcp), into.both(Kernel::Dctcp));
    for here in [true, false, true] {
        out.turn(&mut outs, out.goes(), here);
        into.turn(&mut intos, into.goes(), here);
        for (one, other) in outs.iter_mut().zip(&mut intos) {
            one.run_both(other, SETTLE);
            one.run_both(other, MEASURE);
        }
        for (case, [with, without]) in [(&out, &outs), (&into, &intos)] {
            let (off, of_plain) = case.compared(with, without);
            found(off, of_plain, case);
        }
    }
}

/// Does the same with hosts that read and write at once, on one connection: what the target and the
/// host tell each other waits behind the data that they send.
fn come_and_go_with_commands(seed: u64, found: &mut dyn FnMut(f64, f64, &Case)) {
    let mut case = Case::draw_on(seed, 50.0 + 150.0 * Rng::with_seed(seed).f64());
    for host in &mut case.hosts {
        (host.wants, host.connections) = (f64::INFINITY, 1);
        host.base = host.base.min(5e-3);
    }
    let make = || case.bottleneck(Kernel::Dctcp, true);
    let mut both = Commands::new(make(), make());
    both.connect(DEPTH);
    let goes = case.goes();
    for here in [true, false, true] {
        case.turn([&mut both.out, &mut both.into], goes, here);
        both.run(SETTLE);
        both.run(MEASURE);
        for bottleneck in [&both.out, &both.into] {
            let got = case.got(bottleneck, MEASURE);
            let usage = got.iter().sum::<f64>() / (bottleneck.data_capacity() * 8.0);
            found(case.deviation(&got), usage, &case);
        }
    }
}

/// Returns seeds of random cases: those that once found something, and `fresh` others (or as many as
/// `SHARES_CASES` says), which follow from `PROPTEST_RNG_SEED`.
fn seeds(kept: impl IntoIterator<Item = u64>, fresh: usize) -> Vec<u64> {
    let number = |variable| std::env::var(variable).ok()?.parse::<u64>().ok();
    let mut random = fastrand::Rng::with_seed(number("PROPTEST_RNG_SEED").unwrap_or(1));
    let count = number("SHARES_CASES").and_then(|cases| usize::try_from(cases).ok());
    let fresh = std::iter::repeat_with(|| random.u64(..)).take(count.unwrap_or(fresh));
    kept.into_iter().chain(fresh).collect()
}

/// The largest deviation from a part, the part of the throughput without control, and the case.
type Found = (f64, f64, String);

/// How well shares hold in many cases.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// The part of cases that are off by more than 5 %.
    off: f64,
    /// The deviation that none has.
    most: f64,
    /// The throughput that all have, as a part of that without control.
    throughput: f64,
}

/// Holds half of the cases to 2.5 % of each share, and the others to what is told.
fn shares_hold(mut found: Vec<Found>, held: Held) {
    found.sort_by(|one, other| one.0.total_cmp(&other.0));
    let off: Vec<_> = found.iter().filter(|found| found.0 > 0.05).collect();
    let all = found.len() as f64;
    assert!(found[found.len() / 2].0 < 0.025, "{:?}", found[found.len() / 2]);
    assert!(off.len() as f64 <= held.off * all, "{} of {all}: {off:#?}", off.len());
    assert!(found.iter().all(|found| found.0 < held.most), "{off:#?}");
    let least = found.iter().min_by(|one, other| one.1.total_cmp(&other.1)).unwrap();
    assert!(least.1 > held.throughput, "{least:?}");
}

/// Runs cases one after the other.
fn run(seeds: Vec<u64>, mut case: impl FnMut(u64, &mut dyn FnMut(f64, f64, &Case))) -> Vec<Found> {
    let mut found = Vec::new();
    for seed in seeds {
        case(seed, &mut |off, of_plain, case| found.push((off, of_plain, format!("{case:?}"))));
    }
    found
}

#[test]
fn e7_shares_hold_on_unlike_paths_while_hosts_come_and_go() {
    let found =
        run(seeds((0..60).chain([75]), 15), |seed, found| come_and_go(Kernel::Dctcp, seed, found));
    shares_hold(found, Held { off: 0.1, most: 1.0, throughput: 0.95 });
}

/// A window that is cut to 0.7 needs seconds to grow again where a single connection fills a fast
/// link with a long round trip.
#[test]
fn e7_shares_hold_on_unlike_paths_with_cubic_but_for_few() {
    let found = run((0..60).collect(), |seed, found| come_and_go(Kernel::Cut(0.7), seed, found));
    shares_hold(found, Held { off: 0.12, most: 0.6, throughput: 0.9 });
}

#[test]
fn e7_shares_hold_in_both_directions_at_once_while_hosts_come_and_go() {
    let kept = [26, 27, 51, 63, 75, 113, 132, 157, 194, 287];
    let found = run(seeds(kept, 10), |seed, found| come_and_go_both_ways(seed, found));
    shares_hold(found, Held { off: 0.3, most: 1.5, throughput: 0.95 });
}

#[test]
fn e7_shares_hold_where_each_host_reads_and_writes_at_once() {
    let found = run(seeds(0..10, 10), |seed, found| come_and_go_with_commands(seed, found));
    shares_hold(found, Held { off: 0.3, most: 0.6, throughput: 0.8 });
}

/// A host that wants 0.3 to 0.8 of its part, beside others that take what they get, has as much as without the stage,
/// and the link carries as much.
#[test]
fn e8_a_class_below_its_share_has_what_it_has_without_the_stage() {
    for seed in seeds(0..40, 10) {
        let mut case = Case::draw(seed);
        let part = case.parts(case.mbit * 1e6)[0];
        case.hosts[0].goal = ClassGoal::Share(1.0);
        case.hosts[0].wants =
            part.min(case.parts(case.mbit * 1e6)[0]) * (0.3 + 0.5 * Rng::with_seed(seed).f64());
        let [with, without] = case.both(Kernel::Dctcp).map(|mut bottleneck| {
            bottleneck.run(SETTLE);
            (0..5)
                .map(|_| {
                    bottleneck.run(1.0);
                    case.got(&bottleneck, 1.0)
                })
                .collect::<Vec<_>>()
        });
        for (with, without) in with.iter().zip(&without) {
            assert!(with[0] > 0.99 * without[0], "{with:?} {without:?} {case:?}");
            let [all, plain] = [with, without].map(|got| got.iter().sum::<f64>());
            assert!(all > 0.97 * plain, "{with:?} {without:?} {case:?}");
        }
    }
}

/// Makes a case of hosts with goals and round trips in ms beside the queue, of a connection each.
fn hosts(mbit: f64, hosts: &[(ClassGoal, f64)]) -> Case {
    let host = |&(goal, ms): &(ClassGoal, f64)| Host {
        goal,
        base: ms / 1e3,
        connections: 1,
        wants: f64::INFINITY,
        here: true,
    };
    Case { seed: 0, mbit, hosts: hosts.iter().map(host).collect() }
}

/// Windows of a single connection grow for two seconds here, while others would have filled the
/// link.
#[test]
fn e7_a_single_connection_with_a_long_round_trip_is_left_its_part_of_a_fast_link() {
    let goals = [(ClassGoal::Share(2.0), 6.5), (ClassGoal::Share(1.0), 2.4)];
    let mut case = hosts(850.0, &goals);
    case.hosts[1].connections = 4;
    let (off, of_plain) = case.settled(&mut case.both(Kernel::Dctcp));
    assert!(off < 0.5 && of_plain > 0.95, "{off:.3} {of_plain:.3} {case:?}");
}

const FIVE_THREE_TWO: [ClassGoal; 3] =
    [ClassGoal::Share(5.0), ClassGoal::Share(3.0), ClassGoal::Share(2.0)];

#[test]
fn e7_a_class_that_fills_the_link_is_held_back_for_those_with_long_round_trips() {
    let [five, three, two] = FIVE_THREE_TWO;
    let even = ClassGoal::Share(1.0);
    let rate = ClassGoal::Rate(Rate::from_bits(20e6));
    for goals in [
        [(five, 0.2), (three, 3.0), (two, 8.0)],
        [(five, 8.0), (three, 3.0), (two, 0.2)],
        [(even, 0.2), (even, 0.2), (even, 10.0)],
        [(even, 1.0), (even, 1.0), (rate, 1.0)],
    ] {
        let case = hosts(75.0, &goals);
        let (off, of_plain) = case.settled(&mut case.both(Kernel::Dctcp));
        assert!(off < 0.05 && of_plain > 0.98, "{off:.3} {of_plain:.3} {case:?}");
    }
}

/// A window that marks halve grows for seconds, and what others leave beside the rate is what it
/// grows into.
#[test]
fn e8_a_host_with_a_rate_is_left_more_than_that_while_it_has_less() {
    for (mbit, others, least) in [(75.0, 1, 0.92), (300.0, 4, 0.83)] {
        let half = mbit * 1e6 / 2.0;
        let goals = [(ClassGoal::Rate(Rate::from_bits(half)), 5.0), (ClassGoal::Share(1.0), 0.2)];
        let mut case = hosts(mbit, &goals);
        case.hosts[1].connections = others;
        let mut had = 0.0;
        for seed in 0..3 {
            case.seed = seed;
            let mut bottleneck = case.bottleneck(Kernel::Cut(0.5), true);
            bottleneck.run(SETTLE);
            bottleneck.run(MEASURE);
            had += case.got(&bottleneck, MEASURE)[0] / half / 3.0;
        }
        assert!(had > least, "{had:.3} of a rate of {half} bit/s");
    }
}

#[test]
fn e8_a_slow_host_that_seems_to_want_more_costs_the_others_nothing() {
    for (slow, other) in [(1.0, 1.0), (8.0, 1.0), (1.0, 8.0)] {
        let goals = [(ClassGoal::Share(slow), 1.0), (ClassGoal::Share(other), 1.0)];
        let mut case = hosts(100.0, &goals);
        case.hosts[0].wants = 5e6;
        let mut bottleneck = case.bottleneck(Kernel::Dctcp, true);
        bottleneck.flows[0].silent = true;
        bottleneck.run(SETTLE);
        bottleneck.run(10.0);
        let got = case.got(&bottleneck, 10.0);
        assert!(got[0] > 4.9e6 && got[1] > 80e6, "{slow}:{other}: {got:?}");
    }
}

#[test]
fn e8_hosts_with_long_round_trips_are_not_starved_by_other_senders() {
    let [five, three, two] = FIVE_THREE_TWO;
    for far in [0.2, 3.0, 8.0] {
        let case = hosts(100.0, &[(five, 0.2), (three, 3.0), (two, far)]);
        let mut bottleneck = case.bottleneck(Kernel::Dctcp, true);
        let other = bottleneck.flow(None, Kernel::Dctcp, f64::INFINITY);
        bottleneck.run(SETTLE + 20.0);
        bottleneck.run(10.0);
        let got = case.got(&bottleneck, 10.0);
        let (ours, others) = (got.iter().sum::<f64>(), bottleneck.rates(10.0)[other]);
        assert!(ours > 30e6 && others > 30e6 && ours + others > 95e6, "{far} ms: {got:?}");
        assert!(case.deviation(&got) < 0.05, "{far} ms: {got:?}");
    }
}

#[test]
fn e7_shares_hold_where_all_stands_still_now_and_then() {
    let [five, three, two] = FIVE_THREE_TWO;
    // Everything stands still for up to 25 ms ten times a second, or for up to 85 ms.
    for (stalls, error) in [(0.025, 0.08), (0.085, 0.1)] {
        let case = hosts(75.0, &[(five, 0.2), (three, 3.0), (two, 8.0)]);
        let mut both = case.both(Kernel::Dctcp);
        both.iter_mut().for_each(|bottleneck| bottleneck.stalls = stalls);
        let (off, of_plain) = case.settled(&mut both);
        assert!(off < error && of_plain > 0.85, "{stalls}: {off:.3} {of_plain:.3}");
    }
}

#[test]
fn e12_what_is_never_held_back_leaves_others_what_it_would_leave_without_control() {
    for (high, low) in [(3.0, 1.0), (1.0, 1.0), (1.0, 8.0)] {
        for ms in [0.2, 3.0] {
            let [high, low] = [high, low].map(ClassGoal::Share);
            let case = hosts(75.0, &[(ClassGoal::Free, ms), (high, ms), (low, ms)]);
            let [got, plain] = case.both(Kernel::Dctcp).map(|mut bottleneck| {
                bottleneck.run(SETTLE + 20.0);
                bottleneck.run(10.0);
                case.got(&bottleneck, 10.0)
            });
            let total = |got: &[f64]| got.iter().sum::<f64>();
            assert!(got[0] > 0.95 * plain[0], "the free one has less: {got:?} {plain:?}");
            assert!(got[0] < 2.0 * plain[0], "others are starved: {got:?} {plain:?}");
            assert!(total(&got) > 0.98 * total(&plain), "{got:?} {plain:?}");
            let parts = [(&got[1], high), (&got[2], low)].map(|(got, goal)| match goal {
                ClassGoal::Share(share) => got / share,
                _ => 0.0,
            });
            assert!((parts[0] / parts[1] - 1.0).abs() < 0.05, "{high:?} {low:?}: {got:?}");
        }
    }
}
