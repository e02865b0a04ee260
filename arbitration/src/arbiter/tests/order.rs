//! Tests of the order in which commands go: classes, sessions, hosts.

use super::*;

#[test]
fn e5_backlogged_classes_share_by_weight_on_all_reactors() {
    use Class::{High, Low, Medium};
    // (reactor, class, depth): together; each on its own reactor; spread unevenly.
    type Given = Vec<(usize, Class, usize)>;
    let worlds: [(usize, Given); 4] = [
        (1, vec![(0, High, 64), (0, Medium, 64), (0, Low, 64)]),
        (2, vec![(0, High, 64), (1, Medium, 64), (0, Low, 64)]),
        (2, vec![(0, High, 64), (1, High, 16), (1, Medium, 64), (1, Low, 128)]),
        (3, vec![(2, High, 32), (0, Medium, 64), (1, Low, 128), (2, Low, 8)]),
    ];
    for (reactors, sources) in worlds {
        for (weights, window) in [((3, 2, 1), 8), ((16, 4, 1), 4), ((1, 1, 1), 16)] {
            let order = OrderSettings {
                weights: Weights { high: weights.0, medium: weights.1, low: weights.2 },
                ..OrderSettings::default()
            };
            let list = sources.iter().map(|(r, c, d)| source(*r, *c, *d)).collect();
            let mut world = World::new(reactors, fixed(window), order, &[], list);
            world.run(2_000_000_000);
            let total = world.done.iter().sum::<u64>() as f64;
            assert!(total >= 79_000.0, "the device is kept busy: {total}");
            let sum = f64::from(weights.0 + weights.1 + weights.2);
            for (class, weight) in [(High, weights.0), (Medium, weights.1), (Low, weights.2)] {
                let name = format!("{class} of {weights:?} with {reactors} reactors");
                assert_close(&name, world.done_by(class) / total, f64::from(weight) / sum, 0.02);
            }
        }
    }
}

#[test]
fn e5_uncontended_use_by_class_leaves_no_debt() {
    for (reactors, pause) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
        for (alone, other) in [(Class::Low, Class::High), (Class::High, Class::Low)] {
            // After the pause, the class that did nothing begins first.
            let list = vec![source(0, other, 0), source(reactors - 1, alone, 240)];
            let mut world = World::new(reactors, fixed(128), OrderSettings::default(), &[], list);
            world.run(2_000_000_000);
            world.sources[1].depth = 240 * (1 - pause);
            world.run(100_000_000);
            let before = world.done.clone();
            world.resume(0, 240);
            world.resume(1, 240 * pause);
            world.sources[1].depth = 240;
            world.run(2_000_000_000);
            let done = [0, 1].map(|index| (world.done[index] - before[index]) as f64);
            let share = if other == Class::High { 0.75 } else { 0.25 };
            let name = format!("{other} after {alone} alone, {reactors} reactors, pause {pause}");
            assert_close(&name, done[0] / (done[0] + done[1]), share, 0.02);
        }
    }
}

#[test]
fn d4_uncontended_use_by_reactor_leaves_no_debt() {
    let host =
        |reactor, depth| Source { host: reactor as u64, ..source(reactor, Class::Low, depth) };
    let mut world =
        World::new(2, fixed(8), OrderSettings::default(), &[], vec![host(0, 0), host(1, 100)]);
    world.run(2_000_000_000);
    world.sources[1].depth = 0;
    world.run(100_000_000);
    let before = world.done.clone();
    world.resume(0, 100);
    world.resume(1, 100);
    world.run(2_000_000_000);
    let done = [0, 1].map(|index| (world.done[index] - before[index]) as f64);
    assert_close("the reactor that was alone", done[1] / (done[0] + done[1]), 0.5, 0.02);
}

#[test]
fn d4_hosts_of_one_class_share_whichever_reactor_serves_them() {
    // Three hosts at one reactor, one at another; the first refills the window whenever it can.
    let host = |reactor, host, depth| Source { host, ..source(reactor, Class::Low, depth) };
    let list = vec![host(0, 1, 128), host(0, 2, 128), host(0, 3, 128), host(1, 4, 128)];
    let mut world = World::new(2, fixed(8), OrderSettings::default(), &[], list);
    world.eager = Some(0);
    world.run(2_000_000_000);
    let total = world.done.iter().sum::<u64>() as f64;
    assert!(total >= 79_000.0, "the device is kept busy: {total}");
    for done in &world.done {
        assert_close("a host's share", *done as f64 / total, 0.25, 0.02);
    }
}

#[test]
fn d4_a_host_on_several_reactors_has_one_hosts_part() {
    let host = |reactor, host, depth| Source { host, ..source(reactor, Class::Low, depth) };
    // Each entry is the reactor and the host of a source.
    let worlds: [(usize, &[(usize, u64)]); 5] = [
        (2, &[(0, 1), (0, 2), (1, 2)]),
        (3, &[(1, 1), (0, 2), (1, 2), (2, 2)]),
        (3, &[(0, 1), (1, 2), (2, 2), (0, 3), (1, 3), (2, 3)]),
        (3, &[(0, 1), (1, 1), (1, 2), (2, 2), (2, 3), (0, 3), (0, 4)]),
        (8, &[(3, 1), (0, 2), (1, 2), (2, 2), (3, 2), (4, 2), (5, 2), (6, 2), (7, 2)]),
    ];
    for (reactors, flows) in worlds {
        for (window, eager) in [(8, None), (4, Some(0)), (16, Some(reactors - 1))] {
            let list = flows.iter().map(|(reactor, of)| host(*reactor, *of, 64)).collect();
            let mut world =
                World::new(reactors, fixed(window), OrderSettings::default(), &[], list);
            world.eager = eager;
            world.run(2_000_000_000);
            let total = world.done.iter().sum::<u64>() as f64;
            assert!(total >= 79_000.0, "the device is kept busy: {total}");
            let hosts = flows.iter().map(|(_, host)| host).max().copied().unwrap();
            for host in 1..=hosts {
                let of = flows.iter().zip(&world.done).filter(|((_, of), _)| *of == host);
                let done: u64 = of.map(|(_, done)| done).sum();
                let name = format!("host {host} of {flows:?}, window {window}, {eager:?} first");
                assert_close(&name, done as f64 / total, 1.0 / hosts as f64, 0.05);
            }
        }
    }
}

#[test]
fn e5_unevenly_spread_classes_share_by_weight() {
    use Class::{High, Low, Medium};
    let of = |reactor, class, host| Source { host, ..source(reactor, class, 64) };
    // One host of High on one reactor; three of Medium, one of them everywhere; one of Low that is
    // everywhere, and one beside it.
    let mut list = vec![of(0, High, 1), of(1, Medium, 3), of(2, Medium, 4), of(2, Low, 6)];
    for reactor in 0..3 {
        list.extend([of(reactor, Medium, 2), of(reactor, Low, 5)]);
    }
    let mut world = World::new(3, fixed(8), OrderSettings::default(), &[], list);
    world.run(4_000_000_000);
    let total = world.done.iter().sum::<u64>() as f64;
    assert!(total >= 159_000.0, "the device is kept busy: {total}");
    for (class, weight) in [(High, 3.0), (Medium, 2.0), (Low, 1.0)] {
        assert_close(&format!("{class}"), world.done_by(class) / total, weight / 6.0, 0.02);
    }
    for (host, share) in [(2, 1.0 / 9.0), (3, 1.0 / 9.0), (5, 1.0 / 12.0), (6, 1.0 / 12.0)] {
        let of = world.sources.iter().zip(&world.done).filter(|(source, _)| source.host == host);
        let done: u64 = of.map(|(_, done)| done).sum();
        assert_close(&format!("host {host}"), done as f64 / total, share, 0.05);
    }
}

#[test]
fn e5_bytes_share_by_weight_whatever_the_sizes() {
    let order = OrderSettings { unit: Unit::Bytes, ..OrderSettings::default() };
    let mut sources =
        vec![source(0, Class::High, 64), source(0, Class::Medium, 64), source(0, Class::Low, 64)];
    (sources[0].bytes, sources[1].bytes, sources[2].bytes) = (4096, 131_072, 32_768);
    let mut world = World::new(1, fixed(8), order, &[], sources);
    world.ns_per_kib = 5000;
    world.run(20_000_000_000);
    let low = world.bytes_by(Class::Low);
    assert_close("High : Low", world.bytes_by(Class::High) / low, 3.0, 0.02);
    assert_close("Medium : Low", world.bytes_by(Class::Medium) / low, 2.0, 0.02);
}

#[test]
fn work_is_conserved_when_a_class_is_idle() {
    let list = vec![source(0, Class::Low, 64)];
    let mut alone = World::new(2, fixed(8), OrderSettings::default(), &[], list);
    alone.run(1_000_000_000);
    // A High class that asks for next to nothing, at another reactor.
    let mut high = source(1, Class::High, 1);
    high.rate = Some(100);
    let list = vec![source(0, Class::Low, 64), high];
    let mut world = World::new(2, fixed(8), OrderSettings::default(), &[], list);
    world.run(1_000_000_000);
    let share = world.done[0] as f64 / alone.done[0] as f64;
    assert!(share >= 0.95, "Low gets {share} of the device");
}

#[test]
fn e5_urgent_within_share_neither_waits_nor_starves() {
    // Urgent asks for 10 % of 40,000 commands per second; the rest is flooded.
    let mut urgent = source(0, Class::Urgent, 1);
    urgent.rate = Some(4000);
    let list = vec![urgent, source(0, Class::High, 128), source(0, Class::Low, 128)];
    let mut world = World::new(1, fixed(4), OrderSettings::default(), &[], list);
    world.run(1_000_000_000);
    // An Urgent command waits for a place in the window, and for the Urgent commands just before
    // it.
    assert!(world.longest_wait[0] <= 2 * world.service_ns, "{} ns", world.longest_wait[0]);
    // Urgent floods too: it has its share, and High's weight beyond.
    let list = vec![
        source(0, Class::Urgent, 256),
        source(0, Class::High, 128),
        source(0, Class::Medium, 128),
        source(0, Class::Low, 128),
    ];
    let mut world = World::new(1, fixed(4), OrderSettings::default(), &[], list);
    world.run(2_000_000_000);
    let total = world.done.iter().sum::<u64>() as f64;
    // (1 - 0.2) / (3 + 3 + 2 + 1).
    assert_close("Low under an Urgent flood", world.done_by(Class::Low) / total, 0.8 / 9.0, 0.02);
    // 128 of its own before it, each once in 11.25 commands.
    let bound = 129.0 * 11.25 * 25_000.0 * 1.1;
    assert!((world.longest_wait[3] as f64) < bound, "{} ns", world.longest_wait[3]);
}

#[test]
fn d1_sessions_take_turns_and_d4_hosts_share() {
    let specs = [spec("a", None), spec("b", None), spec("b1", Some("b")), spec("b2", Some("b"))];
    let from = |session, host, depth| Source { session, host, ..source(0, Class::Low, depth) };
    let list = vec![
        from("a", 1, 100),
        from("a", 2, 3),
        from("b1", 3, 20),
        from("b2", 4, 20),
        from("b2", 5, 200),
    ];
    let mut world = World::new(1, fixed(2), OrderSettings::default(), &specs, list);
    world.run(1_000_000_000);
    let total = world.done.iter().sum::<u64>() as f64;
    for (index, share) in [(0, 0.25), (1, 0.25), (2, 0.25), (3, 0.125), (4, 0.125)] {
        // Three outstanding are too few to be backlogged for bursts of four.
        let tolerance = if index < 2 { 0.35 } else { 0.02 };
        assert_close("share", world.done[index] as f64 / total, share, tolerance);
    }
}

#[test]
fn d4_a_giant_neither_blocks_the_small_nor_is_starved() {
    let order = OrderSettings { unit: Unit::Bytes, ..OrderSettings::default() };
    let mut giant = source(0, Class::Low, 8);
    (giant.bytes, giant.host) = (1 << 20, 7);
    let list = vec![giant, source(0, Class::Low, 64)];
    let mut world = World::new(1, fixed(16), order, &[], list);
    world.ns_per_kib = 1000;
    world.run(5_000_000_000);
    let (big, small) = (world.bytes_done[0] as f64, world.bytes_done[1] as f64);
    assert!(big / small > 0.9 && big / small < 1.1, "{big} {small}");
}

#[test]
fn i3_device_serves_more_hosts_than_streams() {
    let rules = DeviceRules {
        containers: Some(crate::device::ContainerRules {
            scheduler: crate::container::Scheduler::Containers,
            capacity: 8,
            deadline_ns: 20_000_000,
        }),
        ..DeviceRules::default()
    };
    let sessions = Sessions::new(&ROOT);
    let order = OrderSettings::default();
    let mut arbiter = Arbiter::new(0, &order, Arc::new(Waiters::new(1)), 64);
    arbiter.add_device(DEVICE, Arc::new(Device::new(rules, 1)));
    let hosts = 1200;
    for host in 0..hosts {
        let flow = arbiter.flow(DEVICE, sessions.root(), HostId(host)).unwrap();
        let submission =
            Submission { lba: host * 8, blocks: 8, ..Submission::of_host(host, false, 4096) };
        arbiter.enqueue(Nanos(1), flow, Class::Low, submission).unwrap();
        arbiter.output(Nanos(2), flow, Class::Low);
    }
    let mut served = HashSet::new();
    while let Pull::Command(command) = arbiter.pull(Nanos(3)) {
        assert!(served.insert(command.item));
        arbiter.complete(Nanos(4), command.grant, true);
    }
    assert_eq!((served.len() as u64, arbiter.waiting()), (hosts, 0));
}
