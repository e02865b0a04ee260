//! Tests of changes of sessions, devices and settings.

use super::*;
use crate::reservation::{Broker, Budget, Overrides, Reserved, Terms};
use crate::session::Reservation;

#[test]
fn a_plan_takes_effect_while_commands_wait() {
    let specs = [spec("a", None), spec("b", None)];
    let from = |session, class| Source { session, ..source(0, class, 64) };
    let list = vec![from("a", Class::High), from("b", Class::Low)];
    let mut world = World::new(1, fixed(4), OrderSettings::default(), &specs, list);
    world.run(1_000_000_000);
    assert_close("3:1", world.done[0] as f64 / world.done[1] as f64, 3.0, 0.02);
    // Now the weights change, and the sessions go.
    let order = OrderSettings {
        weights: Weights { high: 1, medium: 1, low: 4 },
        ..OrderSettings::default()
    };
    world.apply(&ROOT, &[]);
    world.arbiters[0].set_order(&order);
    let before = world.done.clone();
    world.run(1_000_000_000);
    let ratio = (world.done[0] - before[0]) as f64 / (world.done[1] - before[1]) as f64;
    assert_close("1:4", ratio, 0.25, 0.02);
}

#[test]
fn withdrawn_command_leaves_no_trace() {
    let specs = [SessionSpec { operations: Some(1), ..spec("a", None) }];
    let mut world = World::new(1, fixed(1), OrderSettings::default(), &specs, Vec::new());
    let session = world.sessions.named("a").unwrap();
    let arbiter = &mut world.arbiters[0];
    let flow = arbiter.flow(DEVICE, session, HostId(1)).unwrap();
    let entries: Vec<EntryId> = (0..10)
        .map(|n| {
            arbiter
                .enqueue(Nanos(1), flow, Class::Medium, Submission::of_host(n, false, 4096))
                .unwrap()
        })
        .collect();
    for (n, entry) in entries.iter().enumerate() {
        if n % 2 == 1 {
            assert_eq!(arbiter.cancel(Nanos(1), *entry), Some(n as u64));
            assert_eq!(arbiter.cancel(Nanos(1), *entry), None);
        }
    }
    let mut order = Vec::new();
    while let Some(command) = arbiter.dispatch(Nanos(2), DEVICE) {
        order.push(command.item);
        arbiter.complete(Nanos(3), command.grant, true);
        arbiter.poll(Nanos(3));
    }
    assert_eq!(order, [0, 2, 4, 6, 8], "first come, first served");
    assert_eq!(session.backlog.waiting(), 0);
    assert_eq!(session.credits.used().operations, 0);
    assert!(!world.device.clock.contended());
    arbiter.release(flow);
    assert!(arbiter.retire_device(Nanos(9), DEVICE, 0, &mut Vec::new()));
}

#[test]
fn removed_subtree_completes_its_commands() {
    let specs = [
        SessionSpec { operations: Some(10), ..spec("a", None) },
        spec("b", Some("a")),
        spec("c", Some("b")),
    ];
    let list = vec![Source { session: "c", ..source(0, Class::High, 64) }];
    let mut world = World::new(1, fixed(2), OrderSettings::default(), &specs, list);
    world.run(1_000_000);
    for specs in [&specs[..0], &specs[..1], &specs[..0]] {
        world.apply(&ROOT, specs);
        let before = world.done[0];
        world.run(10_000_000);
        assert!(world.done[0] > before, "they stand still");
    }
}

/// A command stays with the reservation that it was charged to, although its session has a reservation
/// of its own since, which began at the same time.
#[test]
fn f3_command_is_settled_with_the_reservation_that_was_charged() {
    let specs = [spec("group", None), spec("host", Some("group"))];
    let list = vec![Source { session: "host", ..source(0, Class::Low, 0) }];
    let mut world = World::new(1, fixed(8), OrderSettings::default(), &specs, list);
    let measured = Overrides { mean: Some(Nanos(1_000_000)), ..Overrides::default() };
    let rules = DeviceRules { profile: measured, ..DeviceRules::default() };
    let profile = Device::new(rules, 1).profile().unwrap();
    let second = 1_000_000_000;
    let terms = Terms::of(Budget::Operations(100), Nanos(second));
    let admitted = Broker::admit(&profile, &[], 20, &terms).unwrap();
    let start = world.now;
    let [group, own] = ["group", "host"].map(|name| {
        let session = Arc::clone(world.sessions.named(name).unwrap());
        Reservation { session, reserved: Arc::new(Reserved::new(start, &admitted)) }
    });
    let arbiter = &mut world.arbiters[0];
    let reserve = |arbiter: &mut Arbiter<u64>, all| {
        world.device.reserve(all);
        arbiter.touch_device(DEVICE);
        arbiter.settle(start, usize::MAX);
    };
    reserve(arbiter, vec![group.clone()]);
    let submission = Submission::of_host(1, false, 4096);
    arbiter.enqueue(start, world.flows[0], Class::Low, submission).unwrap();
    let grant = arbiter.dispatch(start, DEVICE).unwrap().grant;
    reserve(arbiter, vec![group.clone(), own.clone()]);
    arbiter.complete(start.after(1_000_000), grant, true);
    let periods = [group, own].map(|term| {
        let _ = term.reserved.due(start.after(3 * second));
        term.reserved.kept().0
    });
    assert_eq!(periods, [1, 0], "the group had one command, in the first period");
}

/// A reservation's latency counts from a command's arrival: a command that waited for memory before its
/// turn is late by that time, too.
#[test]
fn f1_latency_counts_from_arrival_at_target() {
    let specs = [spec("a", None)];
    let list = vec![Source { session: "a", ..source(0, Class::Low, 0) }];
    let mut world = World::new(1, fixed(8), OrderSettings::default(), &specs, list);
    let measured = Overrides { mean: Some(Nanos(1_000_000)), ..Overrides::default() };
    let rules = DeviceRules { profile: measured, ..DeviceRules::default() };
    let profile = Device::new(rules, 1).profile().unwrap();
    let (second, ms) = (1_000_000_000, 1_000_000);
    let terms = Terms::of(Budget::Operations(100), Nanos(second));
    let terms = Terms { latency: Some(Nanos(40 * ms)), ..terms };
    let admitted = Broker::admit(&profile, &[], 20, &terms).unwrap();
    let reserved = Arc::new(Reserved::new(world.now, &admitted));
    let session = Arc::clone(world.sessions.named("a").unwrap());
    world.device.reserve(vec![Reservation { session, reserved: Arc::clone(&reserved) }]);
    let (arbiter, flow) = (&mut world.arbiters[0], world.flows[0]);
    arbiter.touch_device(DEVICE);
    arbiter.settle(world.now, usize::MAX);
    for (waited, late) in [(37, 0), (39, 1)] {
        let arrived = world.now.after((1 + late) * second);
        let entered = arrived.after(waited * ms);
        let submission = Submission::of_host(late, false, 4096);
        arbiter.enqueue_since(entered, arrived, flow, Class::Low, submission).unwrap();
        let grant = arbiter.dispatch(entered, DEVICE).unwrap().grant;
        arbiter.complete(entered.after(2 * ms), grant, true);
        assert_eq!(reserved.late(), (1 + late, late));
    }
}

#[test]
fn flow_ends_with_its_device_and_stays_stale() {
    let specs = [spec("a", None), spec("b", None)];
    let from = |session, host| Source { session, host, ..source(0, Class::High, 1) };
    let list = vec![from("a", 1), from("b", 2), from("b", 3)];
    let mut world = World::new(1, fixed(4), OrderSettings::default(), &specs, list);
    let flows = world.flows.clone();
    let submission = |n| Submission::of_host(n, false, 512);
    let arbiter = &mut world.arbiters[0];
    let first = arbiter.pass(Nanos(1), flows[2], &submission(0)).unwrap();
    for n in 0..5 {
        arbiter.enqueue(Nanos(1), flows[0], Class::Low, submission(n)).unwrap();
    }
    // The steps withdraw two flows, five commands that wait, and their flow; then the command in
    // the device is left.
    let mut back = Vec::new();
    assert!(!arbiter.retire_device(Nanos(9), DEVICE, 5, &mut back));
    assert_eq!(back, [0, 1, 2]);
    let b = world.sessions.named("b").unwrap();
    assert!(arbiter.flow(DEVICE, b, HostId(9)).is_none(), "nothing new comes");
    assert!(!arbiter.retire_device(Nanos(9), DEVICE, 100, &mut back));
    assert_eq!(back, [0, 1, 2, 3, 4]);
    assert!(arbiter.device(DEVICE).is_some(), "a command is in it");
    arbiter.complete(Nanos(2), first, true);
    assert!(arbiter.retire_device(Nanos(9), DEVICE, 0, &mut back));
    assert!(arbiter.device(DEVICE).is_none());
    arbiter.add_device(DEVICE, Arc::new(Device::new(DeviceRules::default(), 1)));
    let fresh = arbiter.flow(DEVICE, b, HostId(2)).unwrap();
    for flow in flows {
        assert!(arbiter.enqueue(Nanos(3), flow, Class::Low, submission(7)).is_none());
        assert!(arbiter.pass(Nanos(3), flow, &submission(0)).is_none());
        assert!(arbiter.session_of(flow).is_none() && !arbiter.is_plain(flow));
        arbiter.release(flow);
    }
    let grant = arbiter.pass(Nanos(4), fresh, &submission(0)).expect("others' flows are untouched");
    arbiter.complete(Nanos(5), grant, true);
    arbiter.release(fresh);
    assert!(arbiter.retire_device(Nanos(9), DEVICE, 0, &mut back));
}
