//! Random histories: the target keeps its promises with any behaviour of hosts, networks and devices.
#![expect(clippy::panic, reason = "helpers of tests fail as tests do")]

use std::ops::Range;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arbitration::Class;
use sluice_world::{Hostility, Outcome, Scenario, World};

/// Seeds that once broke a promise.
const KEPT: &[u64] = &[
    11,
    13,
    121,
    124,
    333,
    407,
    117_658_637_107_201,
    117_658_638_418_061,
    117_658_832_732_171,
    117_659_749_711_885,
    117_660_671_083_770,
    117_663_622_365_506,
    117_663_643_274_970,
];

/// Runs one seed: its world, and the same world over TCP alone. Returns the number of commands.
fn run(seed: u64) -> u64 {
    let scenario = Scenario::random(seed);
    run_one(seed, scenario.clone()) + run_one(seed, scenario.over_tcp())
}

/// Runs a world. If it breaks a promise, finds the smallest world that does, and tells its history,
/// unless SHRINK=0 says that it is enough to know.
fn run_one(seed: u64, scenario: Scenario) -> u64 {
    let broken = match World::new(scenario.clone()).run() {
        Ok(outcome) => return outcome.submitted,
        Err(broken) => broken,
    };
    if number("SHRINK") == Some(0) {
        panic!("seed {seed}: {broken}");
    }
    let smallest = World::shrink(scenario);
    let (outcome, history) = World::new(smallest.clone()).tell();
    history.iter().rev().take(200).rev().for_each(|line| println!("{line}"));
    panic!(
        "seed {seed}: {broken}\nthe smallest world that breaks, whose end is above: {smallest:?}: \
         {outcome:?}\nto see it again: SEED={seed} cargo test -p sluice-world given"
    );
}

/// Runs one world, which has to keep its promises. Returns its outcome.
fn hold(scenario: Scenario) -> Outcome {
    let outcome = World::new(scenario.clone()).run();
    outcome.unwrap_or_else(|broken| panic!("{scenario:?}: {broken}"))
}

/// Runs the world of each seed.
fn hold_all(make: impl Fn(u64) -> Scenario) {
    (0..seeds()).for_each(|seed| _ = hold(make(seed)));
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}

/// Returns the number of seeds that a test tries: a quarter of a property's cases.
fn seeds() -> u64 {
    number("PROPTEST_CASES").unwrap_or(64) / 4
}

#[test]
fn a_world_in_which_nothing_goes_wrong_answers_everything() {
    let (mut placed, mut mixed, mut rdma, mut fetched) = (0, 0, 0, 0);
    for seed in 0..seeds() {
        let outcome = hold(Scenario::random(seed).without_faults());
        assert_eq!(outcome.submitted, outcome.answered, "seed {seed}: {outcome:?}");
        mixed += u64::from(outcome.rdma > 0 && outcome.rdma < outcome.connections);
        rdma += u64::from(outcome.rdma > 0);
        fetched += outcome.fetched;
        let outcome = hold(Scenario::random(seed).over_tcp().without_faults());
        assert_eq!(outcome.submitted, outcome.answered, "seed {seed}: {outcome:?}");
        placed += outcome.placed;
    }
    assert!(placed > 256 << 10, "{placed} bytes were received where they belong");
    assert!(mixed > seeds() / 8, "{mixed} worlds had queues of both transports");
    assert!(rdma > seeds() / 2, "{rdma} worlds had queue pairs");
    assert!(fetched > 256 << 10, "{fetched} bytes were fetched from hosts");
}

#[test]
fn hosts_have_their_answers_before_a_target_that_drains_closes_a_queue() {
    hold_all(|seed| Scenario::random(seed).draining());
    hold_all(|seed| Scenario::random(seed).over_tcp().draining());
}

#[test]
fn a_seed_that_is_given_keeps_its_promises() {
    run(number("SEED").unwrap_or(1));
}

#[test]
fn seeds_that_broke_a_promise_keep_it() {
    KEPT.iter().for_each(|&seed| _ = run(seed));
}

/// The seeds follow from `PROPTEST_RNG_SEED`, or from the time where SIMULATE_SECONDS is set.
#[test]
fn fresh_seeds_keep_their_promises() {
    let time = number("SIMULATE_SECONDS").map(Duration::from_secs);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let given = number("PROPTEST_RNG_SEED").unwrap_or(1);
    let first = if time.is_some() { since.as_secs() } else { given } << 16;
    let (start, mut worlds, mut commands) = (Instant::now(), 0, 0);
    while time.map_or(worlds < seeds(), |time| start.elapsed() < time) {
        commands += run(first + worlds);
        worlds += 1;
    }
    println!("{worlds} worlds from seed {first}, {commands} commands");
}

#[test]
fn who_reserves_gets_what_was_reserved() {
    // A host over RDMA that fetches its data with one READ at a time cannot use its reservation (seed 17).
    hold_all(|seed| Scenario::reserving(seed).over_tcp());
}

/// Runs six worlds with one reactor, and with several.
fn hold_with_reactors(make: impl Fn(u64, usize) -> Scenario) {
    for seed in 0..6 {
        for reactors in 1..=3 {
            hold(make(seed, reactors));
        }
    }
}

/// Runs worlds in which hosts of these classes have more to do than the device can, the first with
/// one queue and the others with eight.
fn share(classes: &[Class]) {
    hold_with_reactors(|seed, reactors| Scenario::sharing(seed, reactors, classes));
}

#[test]
fn a_host_has_its_part_with_one_queue_beside_one_with_many_whatever_the_reactors() {
    share(&[Class::Low; 2]);
    share(&[Class::High; 3]);
}

#[test]
fn classes_have_their_parts_whatever_the_queues_and_reactors_of_their_hosts() {
    share(&[Class::High, Class::Medium, Class::Low]);
    share(&[Class::Medium, Class::Low, Class::High, Class::Medium, Class::Low]);
}

#[test]
fn queues_have_their_parts_of_their_hosts_part_by_its_own_weights() {
    hold_with_reactors(|seed, reactors| Scenario::weighing(seed, reactors, 2));
    hold_with_reactors(|seed, reactors| Scenario::weighing(seed, reactors, 4));
}

#[test]
fn who_reserves_with_a_latency_has_each_answer_in_time() {
    hold_all(Scenario::promising);
}

#[test]
fn hosts_come_from_their_addresses_and_from_no_others() {
    hold_all(Scenario::bound);
}

#[test]
fn hosts_do_what_they_may_and_no_more_while_their_rights_change() {
    let (mut succeeded, mut forbidden) = (0, 0);
    for seed in 0..seeds() {
        for scenario in [Scenario::ruled(seed), Scenario::ruled(seed).over_tcp()] {
            let outcome = hold(scenario);
            assert_eq!(outcome.submitted, outcome.answered, "seed {seed}: {outcome:?}");
            succeeded += outcome.succeeded;
            forbidden += outcome.forbidden;
        }
    }
    assert!(succeeded > 40_000, "{succeeded} commands were carried out");
    assert!(forbidden > 4_000, "{forbidden} commands that write were refused");
}

/// Runs worlds with hosts that are hostile, and the same worlds over TCP alone.
fn beside(hostility: &[Hostility], seeds: Range<u64>) {
    for seed in seeds {
        let scenario = Scenario::hostile(seed, hostility);
        let over_tcp = scenario.clone().over_tcp();
        if scenario != over_tcp {
            hold(scenario);
        }
        hold(over_tcp);
    }
}

#[test]
fn who_reserves_of_a_disk_gets_what_was_reserved() {
    hold_all(Scenario::reserving_of_a_disk);
}

#[test]
fn hosts_that_hold_what_they_can_keep_nothing_from_another() {
    beside(&[Hostility::KeepsAnswers], 0..seeds() / 8);
    beside(&[Hostility::OwesData], 0..seeds() / 8);
    beside(&[Hostility::KeepsAnswers, Hostility::OwesData], 0..seeds() / 8);
}

#[test]
fn hosts_that_send_without_end_keep_no_turn_from_another() {
    // In the world of seed 1, a connection is in line while the data of its Connect is fetched.
    beside(&[Hostility::FloodsAdmin], 0..3);
    beside(&[Hostility::Floods], 0..8);
}

#[test]
fn connections_without_end_keep_nothing_from_another_host() {
    beside(&[Hostility::TakesConnections], 0..seeds() / 4);
    beside(&[Hostility::SendsGarbage], 0..seeds() / 4);
}

#[test]
fn hosts_that_are_hostile_in_several_ways_keep_nothing_from_another() {
    for seed in 0..8 {
        let mut ways = Hostility::ALL;
        let mut rng = fastrand::Rng::with_seed(seed);
        rng.shuffle(&mut ways);
        beside(&ways[..rng.usize(2..=ways.len())], seed..seed + 1);
    }
}

#[test]
fn a_seed_is_one_history() {
    for seed in 0..4 {
        let one = World::new(Scenario::random(seed)).run();
        assert_eq!(one, World::new(Scenario::random(seed)).run(), "seed {seed}");
    }
}
