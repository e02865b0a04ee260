//! Tests of changes of sessions, devices and settings.

use super::*;

#[test]
fn a_plan_takes_effect_while_commands_wait() {
    let specs = [spec("a", None), spec("b", None)];
    let from = |session, class| Source { session, ..source(0, class, 64) };
    let list = vec![from("a", Class::High), from("b", Class::Low)];
    let mut world = world(1, 4, &specs, list);
    let done = world.serve(SECOND);
    assert_close("3:1", done[0] / done[1], 3.0, 0.02);
    // Now the weights change, and the sessions go.
    let weights = Weights { high: 1, medium: 1, low: 4 };
    world.apply(&ROOT, &[]);
    world.arbiters[0].set_order(&OrderSettings { weights, ..OrderSettings::default() });
    let done = world.serve(SECOND);
    assert_close("1:4", done[0] / done[1], 0.25, 0.02);
}

#[test]
fn withdrawn_command_leaves_no_trace() {
    let specs = [SessionSpec { operations: Some(1), ..spec("a", None) }];
    let mut world = world(1, 1, &specs, Vec::new());
    let session = world.sessions.named("a").unwrap();
    let arbiter = &mut world.arbiters[0];
    let flow = arbiter.flow(DEVICE, session, HostId(1)).unwrap();
    let entries: Vec<_> = (0..10)
        .map(|n| {
            let submission = Submission::of_host(n, false, 4096);
            arbiter.enqueue(Nanos(1), flow, Class::Medium, submission).unwrap()
        })
        .collect();
    for n in [1, 3, 5, 7, 9] {
        let withdrawn = [(); 2].map(|()| arbiter.cancel(Nanos(1), entries[n]));
        assert_eq!(withdrawn, [Some(n as u64), None]);
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
    let mut world = world(1, 2, &specs, list);
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
    let mut world = world(1, 8, &specs, list);
    let start = world.now;
    let [group, own] = ["group", "host"].map(|name| world.reservation(name, &per_second(100)));
    world.reserve(vec![group.clone()]);
    let submission = Submission::of_host(1, false, 4096);
    world.arbiters[0].enqueue(start, world.flows[0], Class::Low, submission).unwrap();
    let grant = world.arbiters[0].dispatch(start, DEVICE).unwrap().grant;
    world.reserve(vec![group.clone(), own.clone()]);
    world.arbiters[0].complete(start.after(MS), grant, true);
    let periods = [group, own].map(|term| {
        let _ = term.reserved.due(start.after(3 * SECOND));
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
    let mut world = world(1, 8, &specs, list);
    let terms = Terms { latency: Some(Nanos(40 * MS)), ..per_second(100) };
    let own = world.reservation("a", &terms);
    world.reserve(vec![own.clone()]);
    let (arbiter, flow) = (&mut world.arbiters[0], world.flows[0]);
    for (waited, late) in [(37, 0), (39, 1)] {
        let arrived = world.now.after((1 + late) * SECOND);
        let entered = arrived.after(waited * MS);
        let submission = Submission::of_host(late, false, 4096);
        arbiter.enqueue_since(entered, arrived, flow, Class::Low, submission).unwrap();
        let grant = arbiter.dispatch(entered, DEVICE).unwrap().grant;
        arbiter.complete(entered.after(2 * MS), grant, true);
        assert_eq!(own.reserved.late(), (1 + late, late));
    }
}

#[test]
fn flow_ends_with_its_device_and_stays_stale() {
    let specs = [spec("a", None), spec("b", None)];
    let from = |session, host| Source { session, host, ..source(0, Class::High, 1) };
    let list = vec![from("a", 1), from("b", 2), from("b", 3)];
    let mut world = world(1, 4, &specs, list);
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
