//! Classes share a congested link (docs/research/sources.md, E7): the daemon's stage, on simulated sockets.
//!
//! The source offers 90, 60 and 30 Gb/s on a link of 100 Gb/s: with DCTCP the classes get about 33,
//! 33 and 30, with its controller 48, 31 and 17.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "tests fail where something is not there"
)]

use std::time::Duration;

use crate::common::*;
use sluice_sim::model::{Measured, OtherPlan, Way};
use sluice_sim::network::{Link, Packets, Switch, Topology};
use units::Class;

/// Runs three hosts of High, Medium and Low that offer so many tenths of a link.
fn three(write: bool, enabled: bool, link: u64) -> Measured {
    let mut plan = plan(3, link, 9000, on_memory());
    three_classes(&mut plan);
    plan.stage.enabled = enabled;
    plan.record_quality = true;
    plan.target.reactors = 3;
    plan.target.io_memory = 256 << 20;
    (plan.warmup, plan.duration) = (Duration::from_millis(1500), Duration::from_millis(500));
    for (host, tenths) in [9.0, 6.0, 3.0].into_iter().enumerate() {
        plan.hosts[host].queues = 4;
        let bits = link as f64 / 10.0 * tenths;
        load(&mut plan, host, steady(write, 128 << 10, bits));
    }
    run(plan)
}

/// Returns the throughput of each host, in Gb/s of a link of 100 Gb/s.
fn gigabits(measured: &Measured, link: u64) -> Vec<f64> {
    let seconds = measured.time.as_secs_f64();
    let scale = 100.0 / link as f64;
    bytes(measured).into_iter().map(|bytes| bytes * 8.0 / seconds * scale).collect()
}

/// Checks what classes get of a link with the stage and without it.
fn shares(write: bool, link: u64) {
    let [with, without] = [true, false].map(|stage| gigabits(&three(write, stage, link), link));
    eprintln!("write: {write}, with the stage {with:.1?}, without it {without:.1?}");
    assert_parts(&with, &[3.0, 2.0, 1.0], 0.12);
    assert!(with.iter().sum::<f64>() > 85.0, "{with:.1?}: the link is used");
    for one in &without {
        assert!((27.0..37.0).contains(one), "{without:.1?}: about equal, as with DCTCP alone");
    }
}

#[test]
fn e7_reads_share_a_congested_link_three_to_two_to_one() {
    shares(false, 10 * GIGABIT);
}

#[test]
fn e7_writes_share_a_congested_link_three_to_two_to_one() {
    shares(true, 10 * GIGABIT);
}

#[test]
#[ignore = "10 times as many packets: some minutes"]
fn e7_a_link_of_100_gigabits_is_shared_as_one_of_10() {
    shares(false, 100 * GIGABIT);
    shares(true, 100 * GIGABIT);
}

/// A network of a target and hosts on a link of 1 Gbit/s; each host's bytes are under way for its delay.
fn unlike_paths(delays: &[Duration]) -> Topology {
    let mut topology = Topology::new(Packets::default());
    let target = topology.host();
    let hosts: Vec<_> = delays.iter().map(|_| topology.host()).collect();
    let [near, far] = [(); 2].map(|()| topology.switch(Switch::default()));
    let link = |gigabits, delay| Link { rate: gigabits * GIGABIT, delay };
    topology.link(target, near, link(4, Duration::from_micros(10)));
    topology.link(near, far, link(1, Duration::from_micros(10)));
    for (host, delay) in hosts.into_iter().zip(delays) {
        topology.link(host, far, link(4, *delay));
    }
    topology
}

/// Runs hosts of these classes that always have more to read (`false`), to write (`true`), or both, than
/// their link carries: the first has one queue, each other one three. Bytes are under way for as long for
/// all, or for 10 us to 2.5 ms. Each class has its share of each direction.
fn share(classes: &[Class], ways: &[bool]) {
    for unlike in [false, true] {
        let hosts = u32::try_from(classes.len()).unwrap();
        let delay = |host: u32| Duration::from_micros(if unlike { 10 << (4 * host) } else { 10 });
        let mut plan = plan(hosts, GIGABIT, 1500, on_memory());
        plan.topology = unlike_paths(&(0..hosts).map(delay).collect::<Vec<_>>());
        plan.target.reactors = 2;
        plan.target.io_memory = 256 << 20;
        (plan.warmup, plan.duration) = (Duration::from_secs(3), Duration::from_secs(3));
        for (host, class) in classes.iter().enumerate() {
            plan.hosts[host].class = Some(*class);
            plan.hosts[host].queues = if host == 0 { 1 } else { 3 };
            ways.iter().for_each(|write| load(&mut plan, host, closed(*write, 64 << 10, 64)));
        }
        let measured = run(plan);
        for (way, write) in ways.iter().enumerate() {
            let had = |class: Class| {
                let hosts = measured.hosts.iter().zip(classes).filter(|(_, of)| **of == class);
                hosts.map(|(host, _)| moved(&host.loads[way])).sum::<f64>()
            };
            let shares = [(Class::High, 3.0), (Class::Medium, 2.0), (Class::Low, 1.0)];
            let present = shares.into_iter().filter(|(class, _)| classes.contains(class));
            let (had, shares): (Vec<f64>, Vec<f64>) =
                present.map(|(class, share)| (had(class), share)).unzip();
            eprintln!("{classes:?}, unlike: {unlike}, write: {write}: {had:?}");
            assert_parts(&had, &shares, 0.1);
            let used = had.iter().sum::<f64>() * 8.0 / measured.time.as_secs_f64() / 1e9;
            // If hosts read and write at once, requests for data wait behind answers.
            let least = if ways.len() > 1 { 0.6 } else { 0.85 };
            assert!(used > least, "unlike: {unlike}, write: {write}: {used:.2} of the link");
        }
    }
}

#[test]
fn e7_classes_share_a_link_to_read_by_whatever_their_queues_and_paths() {
    share(&[Class::High, Class::Medium, Class::Low], &[false]);
    share(&[Class::Low, Class::High], &[false]);
}

#[test]
fn e7_classes_share_a_link_to_write_by_whatever_their_queues_and_paths() {
    share(&[Class::High, Class::Medium, Class::Low], &[true]);
    share(&[Class::Medium, Class::Low, Class::Low], &[true]);
}

#[test]
fn e7_classes_share_both_directions_of_a_link_at_once() {
    share(&[Class::High, Class::Medium, Class::Low], &[false, true]);
    share(&[Class::Low, Class::High], &[false, true]);
}

#[test]
fn e12_urgent_answers_pass_bulk_where_switches_know_them() {
    let latency = |class: Option<Class>| {
        let mut plan = plan(4, 10 * GIGABIT, 1500, on_memory());
        let switch = Switch { priority: true, ..Switch::default() };
        plan.topology = dumbbell(4, 10 * GIGABIT, 1500, 10, switch);
        plan.target.reactors = 4;
        for bulk in 1..4 {
            load(&mut plan, bulk, closed(false, 128 << 10, 32));
        }
        // The target sets the DSCP of answers by the class, and the host sets its own packets' DSCP.
        plan.hosts[0].class = class;
        plan.hosts[0].dscp = class.map_or(0, |class| plan.qos.dscp[class]);
        load(&mut plan, 0, steady(false, 4096, 4096.0 * 8.0 * 5000.0));
        p99(&run(plan))
    };
    let (urgent, low) = (latency(Some(Class::Urgent)), latency(None));
    // There and back over three links, and packets that are being sent.
    assert!(urgent < 75_000, "{urgent} ns");
    assert!(low > 2 * urgent, "{low} ns beside {urgent} ns");
}

#[test]
fn the_quality_of_flows_is_recorded() {
    let measured = three(false, true, 10 * GIGABIT);
    for (host, class) in [Class::High, Class::Medium, Class::Low].into_iter().enumerate() {
        let flow = measured.flows.iter().find(|flow| flow.host == host && flow.way == Way::Out);
        let looks = &flow.map(|flow| &flow.looks[..]).unwrap_or_default();
        assert!(looks.len() > 100, "{} looks", looks.len());
        assert!(looks.iter().all(|look| look.class == class));
        let kept = looks.iter().filter(|look| look.quality > 0.9).count();
        assert!(kept * 2 > looks.len(), "of {} looks {kept} have nearly their target", looks.len());
    }
}

#[test]
fn e8_flows_of_others_have_their_part_while_they_are_there() {
    let mut plan = plan(2, 10 * GIGABIT, 9000, on_memory());
    plan.stage.enabled = false;
    load(&mut plan, 0, closed(true, 128 << 10, 64));
    let (from, to) = (plan.hosts[1].node, plan.target.node);
    let [begins, ends] = [100, 400].map(Duration::from_millis);
    plan.duration = Duration::from_millis(450);
    plan.others.push(OtherPlan { name: "backup".into(), from, to, sender: DCTCP, begins, ends });
    let measured = run(plan);
    // The warm-up takes 50 ms, an interval 10.
    let series = |of: &[u64], range: std::ops::Range<usize>| {
        range.map(|at| of.get(at).copied().unwrap_or(0)).sum::<u64>() as f64 * 8.0 / 1e7
    };
    let (other, own) = (&measured.others[0].series, &measured.hosts[0].loads[0].series);
    assert_eq!(series(other, 0..5) + series(other, 36..45), 0.0, "{other:?}");
    let (others, beside) = (series(other, 25..34) / 9.0, series(own, 25..34) / 9.0);
    assert!((2.0..8.0).contains(&others), "{others} Gb/s of 10");
    assert!((8.5..10.0).contains(&(others + beside)), "{others} {beside}: the link is full");
    for alone in [series(own, 1..5) / 4.0, series(own, 37..45) / 8.0] {
        assert!(alone > 8.5, "{alone} Gb/s without others");
    }
}
