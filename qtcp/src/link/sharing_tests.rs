//! Tests of the shares of hosts on unlike paths, by how many cases are how far off.

use fastrand::Rng;

use super::ClassGoal;
use super::cases::*;
use super::model::Kernel;
use crate::Rate;

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

/// Holds half of the cases to 3 % of each share, and the others to `held`. Prints the deviations.
fn shares_hold(found: impl Iterator<Item = Found>, held: Held) {
    let mut found: Vec<_> = found.collect();
    found.sort_by(|one, other| one.0.total_cmp(&other.0));
    let off: Vec<_> = found.iter().filter(|found| found.0 > 0.05).collect();
    let all = found.len() as f64;
    let least = found.iter().min_by(|one, other| one.1.total_cmp(&other.1)).unwrap();
    let [half, three, nine] = [2, 4, 10].map(|part| found[found.len() - found.len() / part - 1].0);
    eprintln!(
        "{}: off by {half:.3} (half), {three:.3} (three in four), {nine:.3} (nine in ten), {:.3} (all); \
         {:.3} by more than 0.05; total {:.3}",
        std::thread::current().name().unwrap_or_default(),
        found[found.len() - 1].0,
        off.len() as f64 / all,
        least.1,
    );
    assert!(found[found.len() / 2].0 < 0.03, "{:?}", found[found.len() / 2]);
    assert!(off.len() as f64 <= held.off * all, "{} of {all}: {off:#?}", off.len());
    assert!(found.iter().all(|found| found.0 < held.most), "{off:#?}");
    assert!(least.1 > held.throughput, "{least:?}");
}

#[test]
fn e7_shares_hold_on_unlike_paths_while_hosts_come_and_go() {
    let seeds = seeds((0..40).chain([75]), 15);
    let found = seeds.flat_map(|seed| come_and_go(Kernel::Dctcp, seed));
    shares_hold(found, Held { off: 0.12, most: 1.0, throughput: 0.97 });
}

/// A window that is cut to 0.7 needs seconds to grow again where a single connection fills a fast
/// link with a long round trip.
#[test]
fn e7_shares_hold_on_unlike_paths_with_cubic_but_for_few() {
    let found = (0..40).flat_map(|seed| come_and_go(Kernel::Cut(0.7), seed));
    shares_hold(found, Held { off: 0.14, most: 0.6, throughput: 0.9 });
}

#[test]
fn e7_shares_hold_in_both_directions_at_once_while_hosts_come_and_go() {
    let kept = [26, 27, 51, 63, 75, 113, 132, 157, 194, 287];
    let found = seeds(kept.into_iter(), 10).flat_map(come_and_go_both_ways);
    shares_hold(found, Held { off: 0.32, most: 1.5, throughput: 0.95 });
}

#[test]
fn e7_shares_hold_where_each_host_reads_and_writes_at_once() {
    let found = seeds(0..10, 10).flat_map(come_and_go_with_commands);
    shares_hold(found, Held { off: 0.3, most: 0.6, throughput: 0.8 });
}

/// A host that wants 0.3 to 0.8 of its part, beside greedy others, has as much as without the stage, and the link
/// carries as much.
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
            [(); 5].map(|()| {
                bottleneck.run(1.0);
                case.got(&bottleneck, 1.0)
            })
        });
        let [had, plain] = [&with, &without].map(|of| of.iter().map(|got| got[0]).sum::<f64>());
        assert!(had > 0.99 * plain, "{with:?} {without:?} {case:?}");
        for (with, without) in with.iter().zip(&without) {
            assert!(with[0] > 0.98 * without[0], "{with:?} {without:?} {case:?}");
            let [all, plain] = [with, without].map(|got| got.iter().sum::<f64>());
            assert!(all > 0.97 * plain, "{with:?} {without:?} {case:?}");
        }
    }
}

/// Windows of a single connection grow for two seconds here, while others would have filled the
/// link.
#[test]
fn e7_a_single_connection_with_a_long_round_trip_is_left_its_part_of_a_fast_link() {
    let goals = [(ClassGoal::Share(2.0), 6.5), (ClassGoal::Share(1.0), 2.4)];
    let mut case = hosts(850.0, &goals);
    case.hosts[1].connections = 4;
    let found = case.settled(&mut case.both(Kernel::Dctcp));
    assert!(found.0 < 0.2 && found.1 > 0.93, "{found:.3?}");
}

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
        let found = case.settled(&mut case.both(Kernel::Dctcp));
        assert!(found.0 < 0.05 && found.1 > 0.98, "{found:.3?}");
    }
}

/// A window that marks halve grows for seconds, into the throughput that others leave beyond the rate.
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
            had += case.run(&mut bottleneck, SETTLE, MEASURE)[0] / half / 3.0;
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
        let got = case.run(&mut bottleneck, SETTLE, 10.0);
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
        let got = case.run(&mut bottleneck, SETTLE + 20.0, 10.0);
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
        let found = case.settled(&mut both);
        assert!(found.0 < error && found.1 > 0.85, "{stalls}: {found:.3?}");
    }
}

#[test]
fn e12_what_is_never_held_back_leaves_others_what_it_would_leave_without_control() {
    for (high, low) in [(3.0, 1.0), (1.0, 1.0), (1.0, 8.0)] {
        for ms in [0.2, 3.0] {
            let goals = [ClassGoal::Free, ClassGoal::Share(high), ClassGoal::Share(low)];
            let case = hosts(75.0, &goals.map(|goal| (goal, ms)));
            let both = case.both(Kernel::Dctcp);
            let [got, plain] = both.map(|mut one| case.run(&mut one, SETTLE + 20.0, 10.0));
            let total = |got: &[f64]| got.iter().sum::<f64>();
            assert!(got[0] > 0.95 * plain[0], "the free one has less: {got:?} {plain:?}");
            assert!(got[0] < 2.0 * plain[0], "others are starved: {got:?} {plain:?}");
            assert!(total(&got) > 0.98 * total(&plain), "{got:?} {plain:?}");
            let off = got[1] / got[2] / (high / low) - 1.0;
            assert!(off.abs() < 0.05, "{high}:{low}: {got:?}");
        }
    }
}
