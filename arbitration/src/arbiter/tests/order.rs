//! Tests of the order in which commands go: classes, sessions, hosts.

use super::*;

/// Makes a host of Low on a reactor.
fn host(reactor: usize, host: u64, depth: usize) -> Source {
    Source { host, ..source(reactor, Class::Low, depth) }
}

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
        for (weights, window) in [([3, 2, 1], 8), ([16, 4, 1], 4), ([1, 1, 1], 16)] {
            let [high, medium, low] = weights;
            let order =
                OrderSettings { weights: Weights { high, medium, low }, ..Default::default() };
            let list = sources.iter().map(|(r, c, d)| source(*r, *c, *d)).collect();
            let mut world = World::new(reactors, fixed(window), order, &[], list);
            let case = format!("{weights:?} with {reactors} reactors");
            let parts = world.parts(&case, 2 * SECOND);
            for (class, weight) in [High, Medium, Low].into_iter().zip(weights) {
                let part = world.sum(&parts, |source| source.class == class);
                let due = f64::from(weight) / f64::from(high + medium + low);
                assert_close(&format!("{class} of {case}"), part, due, 0.02);
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
            let mut world = world(reactors, 128, &[], list);
            world.run(2 * SECOND);
            world.sources[1].depth = 240 * (1 - pause);
            world.run(100 * MS);
            world.resume(0, 240);
            world.resume(1, 240 * pause);
            world.sources[1].depth = 240;
            let done = world.serve(2 * SECOND);
            let share = if other == Class::High { 0.75 } else { 0.25 };
            let name = format!("{other} after {alone} alone, {reactors} reactors, pause {pause}");
            assert_close(&name, done[0] / (done[0] + done[1]), share, 0.02);
        }
    }
}

#[test]
fn d4_uncontended_use_by_reactor_leaves_no_debt() {
    let mut world = world(2, 8, &[], vec![host(0, 0, 0), host(1, 1, 100)]);
    world.run(2 * SECOND);
    world.sources[1].depth = 0;
    world.run(100 * MS);
    world.resume(0, 100);
    world.resume(1, 100);
    let done = world.serve(2 * SECOND);
    assert_close("the reactor that was alone", done[1] / (done[0] + done[1]), 0.5, 0.02);
}

#[test]
fn d4_hosts_of_one_class_share_whichever_reactor_serves_them() {
    // Three hosts at one reactor, one at another; the first refills the window whenever it can.
    let list = vec![host(0, 1, 128), host(0, 2, 128), host(0, 3, 128), host(1, 4, 128)];
    let mut world = world(2, 8, &[], list);
    world.eager = Some(0);
    for part in world.parts("four hosts", 2 * SECOND) {
        assert_close("a host's share", part, 0.25, 0.02);
    }
}

#[test]
fn d4_a_host_on_several_reactors_has_one_hosts_part() {
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
            let mut world = world(reactors, window, &[], list);
            world.eager = eager;
            let case = format!("{flows:?}, window {window}, {eager:?} first");
            let parts = world.parts(&case, 2 * SECOND);
            let hosts = flows.iter().map(|(_, host)| host).max().copied().unwrap();
            for host in 1..=hosts {
                let part = world.sum(&parts, |source| source.host == host);
                assert_close(&format!("host {host} of {case}"), part, 1.0 / hosts as f64, 0.05);
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
    let mut world = world(3, 8, &[], list);
    let parts = world.parts("three reactors", 4 * SECOND);
    for (class, weight) in [(High, 3.0), (Medium, 2.0), (Low, 1.0)] {
        let part = world.sum(&parts, |source| source.class == class);
        assert_close(&format!("{class}"), part, weight / 6.0, 0.02);
    }
    for (host, share) in [(2, 1.0 / 9.0), (3, 1.0 / 9.0), (5, 1.0 / 12.0), (6, 1.0 / 12.0)] {
        let part = world.sum(&parts, |source| source.host == host);
        assert_close(&format!("host {host}"), part, share, 0.05);
    }
}

#[test]
fn e5_bytes_share_by_weight_whatever_the_sizes() {
    let order = OrderSettings { unit: Unit::Bytes, ..OrderSettings::default() };
    let sources = [(Class::High, 4096), (Class::Medium, 131_072), (Class::Low, 32_768)]
        .map(|(class, bytes)| Source { bytes, ..source(0, class, 64) });
    let mut world = World::new(1, fixed(8), order, &[], sources.to_vec());
    world.ns_per_kib = 5000;
    let done = world.serve(20 * SECOND);
    let [high, medium, low] = [0, 1, 2].map(|n| done[n] * f64::from(sources[n].bytes));
    assert_close("High : Low", high / low, 3.0, 0.02);
    assert_close("Medium : Low", medium / low, 2.0, 0.02);
}

#[test]
fn work_is_conserved_when_a_class_is_idle() {
    let alone = world(2, 8, &[], vec![source(0, Class::Low, 64)]).serve(SECOND)[0];
    // A High class that asks for next to nothing, at another reactor.
    let high = Source { rate: Some(100), ..source(1, Class::High, 1) };
    let share = world(2, 8, &[], vec![source(0, Class::Low, 64), high]).serve(SECOND)[0] / alone;
    assert!(share >= 0.95, "Low gets {share} of the device");
}

#[test]
fn e5_urgent_within_share_neither_waits_nor_starves() {
    // Urgent asks for 10 % of 40,000 commands per second; the rest is flooded.
    let urgent = Source { rate: Some(4000), ..source(0, Class::Urgent, 1) };
    let list = vec![urgent, source(0, Class::High, 128), source(0, Class::Low, 128)];
    let mut within = world(1, 4, &[], list);
    within.run(SECOND);
    // An Urgent command waits for a place in the window, and for the Urgent commands just before
    // it.
    assert!(within.longest_wait[0] <= 2 * within.service_ns, "{} ns", within.longest_wait[0]);
    // Urgent floods too: it has its share, and High's weight beyond.
    let list = vec![
        source(0, Class::Urgent, 256),
        source(0, Class::High, 128),
        source(0, Class::Medium, 128),
        source(0, Class::Low, 128),
    ];
    let mut world = world(1, 4, &[], list);
    let parts = world.parts("Urgent floods", 2 * SECOND);
    // (1 - 0.2) / (3 + 3 + 2 + 1).
    assert_close("Low under an Urgent flood", parts[3], 0.8 / 9.0, 0.02);
    // 128 of its own before it, each once in 11.25 commands.
    let bound = 129.0 * 11.25 * 25_000.0 * 1.1;
    assert!((world.longest_wait[3] as f64) < bound, "{} ns", world.longest_wait[3]);
}

#[test]
fn d1_sessions_take_turns_and_d4_hosts_share() {
    let specs = [spec("a", None), spec("b", None), spec("b1", Some("b")), spec("b2", Some("b"))];
    let list = [("a", 1, 100), ("a", 2, 3), ("b1", 3, 20), ("b2", 4, 20), ("b2", 5, 200)]
        .map(|(session, id, depth)| Source { session, ..host(0, id, depth) })
        .to_vec();
    let mut world = world(1, 2, &specs, list);
    let done = world.serve(SECOND);
    let total: f64 = done.iter().sum();
    for (index, share) in [0.25, 0.25, 0.25, 0.125, 0.125].into_iter().enumerate() {
        // Three outstanding are too few to be backlogged for bursts of four.
        let tolerance = if index < 2 { 0.35 } else { 0.02 };
        assert_close("share", done[index] / total, share, tolerance);
    }
}

#[test]
fn d4_a_giant_neither_blocks_the_small_nor_is_starved() {
    let order = OrderSettings { unit: Unit::Bytes, ..OrderSettings::default() };
    let giant = Source { bytes: 1 << 20, ..host(0, 7, 8) };
    let mut world = World::new(1, fixed(16), order, &[], vec![giant, source(0, Class::Low, 64)]);
    world.ns_per_kib = 1000;
    let done = world.serve(5 * SECOND);
    let (big, small) = (done[0] * f64::from(1 << 20), done[1] * 4096.0);
    assert!(big / small > 0.9 && big / small < 1.1, "{big} {small}");
}

#[test]
fn i3_device_serves_more_hosts_than_streams() {
    let sessions = Sessions::new(&ROOT);
    let mut arbiter = arbiter(DeviceRules { containers: by_place(8), ..DeviceRules::default() });
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
