//! Classes share a device (docs/research/sources.md, E5), reserve parts of it, and Urgent goes first.
#![expect(clippy::indexing_slicing, reason = "tests fail where something is not there")]

use std::time::Duration;

use crate::common::*;
use arbitration::reservation::{Budget, Terms};
use arbitration::session::SessionSpec;
use arbitration::settings::Unit;
use sluice_sim::model::{LoadMeasured, LoadPlan, Measured, Model, Plan, ReservePlan, SessionPlan};
use units::{Class, Nanos};

/// Runs three hosts of High, Medium and Low that each want more of a device than there is: commands of
/// these sizes.
fn three(lengths: [u32; 3], write: bool, unit: Unit, enabled: bool) -> Measured {
    let mut plan = plan(3, 100 * GIGABIT, 9000, on_servers(8, 80_000, 1.0));
    three_classes(&mut plan);
    (plan.qos.order.unit, plan.qos.enabled) = (unit, enabled);
    for (host, length) in lengths.into_iter().enumerate() {
        load(&mut plan, host, closed(write, length, 100));
    }
    run(plan)
}

fn commands(measured: &Measured) -> Vec<f64> {
    let of = |load: &LoadMeasured| load.read.commands + load.write.commands;
    measured.hosts.iter().map(|host| of(&host.loads[0]) as f64).collect()
}

#[test]
fn e5_commands_share_a_device_three_to_two_to_one() {
    for write in [false, true] {
        let measured = three([4096; 3], write, Unit::Commands, true);
        assert_parts(&commands(&measured), &[3.0, 2.0, 1.0], 0.02);
    }
}

#[test]
fn e5_bytes_share_a_device_three_to_two_to_one() {
    let measured = three([4096, 16_384, 65_536], false, Unit::Bytes, true);
    assert_parts(&bytes(&measured), &[3.0, 2.0, 1.0], 0.05);
}

#[test]
fn without_the_stages_a_device_serves_who_asks() {
    let measured = three([4096; 3], false, Unit::Commands, false);
    assert_parts(&commands(&measured), &[1.0, 1.0, 1.0], 0.1);
}

#[test]
fn several_reactors_share_a_device_as_one_does() {
    let mut plan = plan(3, 100 * GIGABIT, 9000, on_servers(8, 80_000, 1.0));
    three_classes(&mut plan);
    plan.target.reactors = 3;
    for host in 0..3 {
        plan.hosts[host].queues = 2;
        load(&mut plan, host, closed(false, 4096, 100));
    }
    assert_parts(&commands(&run(plan)), &[3.0, 2.0, 1.0], 0.05);
}

#[test]
fn a_reactor_is_woken_when_a_device_has_room() {
    let mut plan = plan(2, 100 * GIGABIT, 9000, on_servers(1, 80_000, 0.0));
    plan.target.reactors = 2;
    // Each host has its reactor, and one command at a time: the other's is in the device.
    for host in 0..2 {
        load(&mut plan, host, closed(false, 4096, 1));
    }
    let measured = run(plan);
    let commands = commands(&measured);
    assert_parts(&commands, &[1.0, 1.0], 0.02);
    let busy = commands.iter().sum::<f64>() * 80e-6 / measured.time.as_secs_f64();
    assert!(busy > 0.9, "the device works for {busy:.2} of the time");
}

#[test]
fn urgent_goes_before_bulk_at_a_device() {
    let latency = |class| {
        let mut plan = plan(9, 100 * GIGABIT, 9000, on_servers(4, 80_000, 0.0));
        (1..9).for_each(|bulk| load(&mut plan, bulk, closed(false, 65_536, 100)));
        // 2000 commands a second: 4 % of the device.
        let source = steady(false, 4096, 4096.0 * 8.0 * 2000.0);
        plan.hosts[0].loads.push(LoadPlan { namespace: 0, class, source });
        let measured = run(plan);
        assert_eq!(measured.hosts[0].loads[0].class, class.unwrap_or_default());
        p99(&measured)
    };
    let (urgent, low) = (latency(Some(Class::Urgent)), latency(None));
    assert!(urgent < 250_000, "{urgent} ns: one service time beside its own, and the network");
    // Others have their turns before Low.
    assert!(low > urgent + 60_000, "{low} ns beside {urgent} ns");
}

/// Makes a plan of hosts on a device that does 10,000 commands a second, and a session of the first host
/// that reserves so many of the hundred in 10 ms.
fn reserving(hosts: u32, operations: Option<u64>) -> Plan {
    let mut plan = plan(hosts, 100 * GIGABIT, 9000, on_servers(1, 100_000, 0.0));
    let spec = SessionSpec { name: "gold".to_owned(), ..SessionSpec::default() };
    let terms = |operations| Terms::of(Budget::Operations(operations), Nanos(10_000_000));
    let reserve = operations.map(|of| ReservePlan { namespace: 0, terms: terms(of) });
    plan.qos.sessions.push(SessionPlan { spec, reserve });
    plan.hosts[0].session = Some("gold".to_owned());
    plan
}

#[test]
fn a_reservation_is_kept() {
    let done = |operations: Option<u64>| {
        let mut plan = reserving(4, operations);
        for host in 0..4 {
            plan.hosts[host].class = Some(if host == 0 { Class::Low } else { Class::High });
            load(&mut plan, host, closed(false, 4096, 64));
        }
        let measured = run(plan);
        commands(&measured)[0] / measured.time.as_secs_f64()
    };
    let (with, without) = (done(Some(50)), done(None));
    assert!(with >= 0.97 * 5000.0, "{with} a second of 5000 that are reserved");
    assert!((2400.0..2600.0).contains(&without), "{without} a second by weight, of 10,000");
}

#[test]
fn a_reservation_that_does_not_fit_is_refused() {
    let error = Model::new(reserving(1, Some(500))).expect_err("five times what there is");
    assert!(error.to_string().contains("gold"), "{error}");
}

#[test]
fn a_processor_bounds_a_target() {
    let mut plan = plan(1, 100 * GIGABIT, 9000, on_memory());
    plan.target.costs.command_ns = 10_000.0;
    plan.duration = Duration::from_millis(100);
    load(&mut plan, 0, closed(false, 4096, 100));
    let measured = run(plan);
    let rate = commands(&measured)[0] / measured.time.as_secs_f64();
    assert!((95_000.0..=100_500.0).contains(&rate), "{rate} commands a second");
}
