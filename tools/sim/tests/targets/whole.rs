//! Whole models: the same numbers again for the same seed, and nothing lost or made up.
#![expect(clippy::expect_used, reason = "tests fail where something is not there")]

use std::time::Duration;

use crate::common::*;
use proptest::prelude::*;
use sluice_sim::load::{Arrival, Source};
use sluice_sim::model::{LoadMeasured, LoadPlan, Measured, Model, Plan, PlanError};
use sluice_sim::network::{RateControl, Sender, Switch};
use units::{Class, Nanos};

/// The limit of queue pairs.
const LINE: Sender = Sender::Rate { control: RateControl::Line };

/// A load at random: whether it writes, bytes of an access, the number at a time, and the class that
/// its commands name.
type RandomLoad = (bool, u32, u32, Option<Class>);

#[derive(Clone, Debug)]
struct Random {
    seed: u64,
    reactors: usize,
    stages: bool,
    stage: bool,
    device: bool,
    mtu: u32,
    loss: f64,
    io_memory: usize,
    /// Each host: whether it is over RDMA, its queues, their depth, and its loads.
    hosts: Vec<(bool, u16, u16, Vec<RandomLoad>)>,
}

fn host() -> impl Strategy<Value = (bool, u16, u16, Vec<RandomLoad>)> {
    let class = prop_oneof![Just(None), Just(Some(Class::Medium)), Just(Some(Class::Urgent))];
    let load = (any::<bool>(), 1_u32..3_000_000, 1_u32..40, class);
    (any::<bool>(), 1_u16..4, 1_u16..100, prop::collection::vec(load, 0..3))
}

prop_compose! {
    fn random()(
        seed: u64,
        reactors in 1_usize..4,
        stages: bool,
        stage: bool,
        device: bool,
        mtu in prop_oneof![Just(1500_u32), Just(9000)],
        loss in prop_oneof![Just(0.0), Just(0.002)],
        io_memory in (21_u32..26).prop_map(|log| 1_usize << log),
        hosts in prop::collection::vec(host(), 1..5),
    ) -> Random {
        Random { seed, reactors, stages, stage, device, mtu, loss, io_memory, hosts }
    }
}

/// Wants no more than so many of another source's accesses.
#[derive(Debug)]
struct AtMost(u64, Box<dyn Source>);

impl Source for AtMost {
    fn next(&mut self, now: Nanos) -> Arrival {
        let Some(left) = self.0.checked_sub(1) else { return Arrival::Never };
        self.0 = left;
        self.1.next(now)
    }
}

/// Makes the plan; each load wants no more than so many accesses.
fn plan_of(random: &Random, most: u64) -> Plan {
    let hosts = u32::try_from(random.hosts.len()).expect("few");
    let namespaces = if random.device { on_servers(4, 100_000, 0.5) } else { on_memory() };
    let mut plan = plan(hosts, GIGABIT, random.mtu, namespaces);
    let switch = Switch { loss: random.loss, ..Switch::default() };
    plan.topology = dumbbell(hosts, GIGABIT, random.mtu, 10, switch);
    plan.seed = random.seed;
    plan.target.reactors = random.reactors;
    plan.target.io_memory = random.io_memory;
    plan.qos.enabled = random.stages;
    plan.stage.enabled = random.stage;
    plan.record_quality = true;
    (plan.warmup, plan.duration) = (Duration::from_millis(20), Duration::from_millis(80));
    for (host, (rdma, queues, depth, loads)) in plan.hosts.iter_mut().zip(&random.hosts) {
        (host.queues, host.depth) = (*queues, *depth);
        if *rdma {
            over_rdma(host, LINE);
        }
        for (write, length, outstanding, class) in loads {
            let source = Box::new(AtMost(most, closed(*write, *length, *outstanding)));
            host.loads.push(LoadPlan { namespace: 0, class: *class, source });
        }
    }
    plan
}

fn loads(measured: &Measured) -> impl Iterator<Item = &LoadMeasured> {
    measured.hosts.iter().flat_map(|host| &host.loads)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn nothing_is_lost_or_made_up(random in random()) {
        let measured = run(plan_of(&random, u64::MAX));
        for (host, (.., loads)) in measured.hosts.iter().zip(&random.hosts) {
            for (load, (_, _, outstanding, _)) in host.loads.iter().zip(loads) {
                // A closed loop has as many as it wants, all the time; where packets are lost, a host may
                // not be connected yet.
                let none = random.loss > 0.0 && load.wanted == 0;
                prop_assert!(none || load.unfinished == u64::from(*outstanding), "{}", load.unfinished);
                prop_assert!(load.submitted >= load.outstanding);
            }
        }
        prop_assert!(measured.bytes_to_hosts >= loads(&measured).map(|load| load.read.bytes).sum::<u64>());
        prop_assert!(measured.bytes_to_target >= loads(&measured).map(|load| load.write.bytes).sum::<u64>());
        let none = random.loss > 0.0 || loads(&measured).next().is_none();
        prop_assert!(none || loads(&measured).any(|load| load.answered > 0));
    }

    #[test]
    fn all_that_is_wanted_is_done_and_all_that_is_sent_arrives(random in random()) {
        let mut plan = plan_of(&random, 20);
        // Lost packets are sent again after 200 ms and more.
        plan.duration = Duration::from_secs(if random.loss > 0.0 { 60 } else { 20 });
        plan.record_quality = false;
        let end = Nanos(u64::try_from((plan.warmup + plan.duration).as_nanos()).expect("short"));
        let mut model = Model::new(plan).expect("a right plan");
        let mut now = Nanos(0);
        // Keep alives come three times in 5 s, and are under way for a moment.
        while now < end {
            now = Nanos(now.0 + 100_000_000);
            model.run(now, &mut |_| ());
            let measured = model.report();
            let unread = measured.unread_by_hosts + measured.unread_by_target;
            if unread == 0 && loads(&measured).all(|load| load.ended == 20) {
                break;
            }
        }
        let measured = model.report();
        check(&measured);
        prop_assert_eq!((measured.unread_by_hosts, measured.unread_by_target), (0, 0));
        for load in loads(&measured) {
            prop_assert_eq!((load.wanted, load.ended, load.outstanding), (20, 20, 0));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers(random in random()) {
        let measure = || run(plan_of(&random, u64::MAX));
        prop_assert_eq!(measure(), measure());
    }
}

#[test]
fn a_run_in_parts_is_the_same_run() {
    let made = || {
        let mut plan = plan(2, GIGABIT, 1500, on_servers(4, 50_000, 0.0));
        load(&mut plan, 0, closed(false, 20_000, 10));
        load(&mut plan, 1, closed(true, 60_000, 10));
        Model::new(plan).expect("a right plan")
    };
    let (mut whole, mut parts) = (made(), made());
    let end = whole.end();
    whole.run(end, &mut |_| ());
    for part in 1..=100 {
        parts.run(Nanos(end.0 * part / 100), &mut |_| ());
    }
    assert_eq!(whole.report(), parts.report());
}

#[test]
fn the_targets_own_statistics_are_of_the_time_that_is_measured() {
    let mut plan = plan(1, GIGABIT, 1500, on_servers(4, 500_000, 0.0));
    // The second load has the same commands; the third has another class.
    load(&mut plan, 0, closed(false, 4096, 8));
    load(&mut plan, 0, closed(false, 4096, 8));
    load(&mut plan, 0, closed(true, 4096, 8));
    plan.hosts[0].loads[2].class = Some(Class::High);
    let measured = run(plan);
    let [first, second, third] = &measured.statistics[0][..] else { panic!("three loads") };
    assert_eq!((second.operations(), first.write.ops, third.read.ops), (0, 0, 0));
    let of = |load: usize| &measured.hosts[0].loads[load];
    let reads = of(0).read.commands + of(1).read.commands;
    for (target, host) in [(first.read.ops, reads), (third.write.ops, of(2).write.commands)] {
        let near = host > 300 && target.abs_diff(host) <= 24;
        assert!(near, "{target} in the target, {host} at the host");
    }
    // On the way a command takes some us, and the target's buckets are an eighth wide.
    let target = first.read.latency.quantile_ns(0.5) as f64;
    let host = of(0).read.latency.value_at_quantile(0.5) as f64;
    assert!((0.8..=1.13).contains(&(target / host)), "{target} in the target, {host} at the host");
}

#[test]
fn large_writes_obey_what_the_target_asks_for() {
    let mut plan = plan(1, GIGABIT, 1500, on_memory());
    plan.target.max_transfer = 128 << 10;
    // 1 MiB is eight commands; the link carries about 110 MiB a second.
    load(&mut plan, 0, closed(true, 1 << 20, 2));
    plan.duration = Duration::from_secs(1);
    let measured = run(plan);
    let load = &measured.hosts[0].loads[0];
    assert!((100..=114).contains(&load.write.commands), "{} MiB", load.write.commands);
    assert!(load.answered >= 8 * load.ended, "{} answers, {} accesses", load.answered, load.ended);
    assert_eq!(load.write.bytes, load.write.commands << 20);
}

#[test]
fn a_plan_that_names_what_is_not_there_says_what_there_is() {
    let mut wrong = plan(1, GIGABIT, 1500, on_memory());
    wrong.hosts[0].session = Some("gold".to_owned());
    let error = Model::new(wrong).expect_err("no session");
    assert!(matches!(error, PlanError::Missing { kind: "session", .. }), "{error}");
    let mut wrong = plan(1, GIGABIT, 1500, Vec::new());
    load(&mut wrong, 0, closed(false, 512, 1));
    let error = Model::new(wrong).expect_err("no namespace").to_string();
    assert!(error.contains("namespace 0") && error.contains("none"), "{error}");
    let mut wrong = plan(2, GIGABIT, 1500, Vec::new());
    wrong.hosts[1].name = wrong.hosts[0].name.clone();
    assert!(matches!(Model::new(wrong), Err(PlanError::Twice(_))));
}
