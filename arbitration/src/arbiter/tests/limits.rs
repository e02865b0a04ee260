//! Tests of limits on rates and of credits.

use super::*;
use crate::limit::{Rates, Waiter};

/// Makes a session with a limit of `rate` commands a second: on all, or on the writes (`Some(true)`) or reads alone.
fn limited(name: &str, parent: Option<&str>, rate: u64, write: Option<bool>) -> SessionSpec {
    let (limit, spec) = (iops(rate), spec(name, parent));
    match write {
        None => SessionSpec { iops: limit.iops, ..spec },
        Some(true) => SessionSpec { writes: limit, ..spec },
        Some(false) => SessionSpec { reads: limit, ..spec },
    }
}

#[test]
fn d2_credits_bound_commands_in_flight() {
    let specs = [
        SessionSpec { operations: Some(30), ..spec("a", None) },
        SessionSpec { payload: Some(50), ..spec("b", None) },
    ];
    let root = RootSpec { caps: Caps { operations: 10, payload: 100 }, bounded: true, queue: 100 };
    let from = |reactor, session, bytes| Source {
        session,
        bytes,
        host: reactor as u64,
        ..source(reactor, Class::Low, 32)
    };
    let list = vec![from(0, "a", 4096), from(1, "a", 4096), from(0, "b", 16_384)];
    let mut world = World::new(2, WindowRule::Off, OrderSettings::default(), &specs, list);
    world.apply(&root, &specs);
    world.channels = vec![Nanos(0); 100];
    for _ in 0..2000 {
        world.run(100_000);
        let held = |session: &str| {
            let id = world.sessions.named(session).unwrap().id();
            world.grants.values().filter(|(_, grant)| grant.session() == id).count()
        };
        assert!(held("a") <= 3, "30 % of 10 operations");
        assert!(held("b") <= 3, "50 % of 100 KiB in commands of 16 KiB");
        assert!(held("a") + held("b") <= 10);
    }
    // The device would take more: credits are exhausted, all the time.
    let a = world.done[0] + world.done[1];
    assert!(a as f64 >= 0.95 * 3.0 * 2000.0, "three at a time, 100 us each: {a}");
}

#[test]
fn d1_limits_hold_for_a_session_and_all_below_it() {
    for rate in [1u64, 10, 1000, 20_000] {
        let pool = limited("pool", None, rate, None);
        let specs = [pool, spec("one", Some("pool")), spec("two", Some("pool"))];
        let from = |session, reactor| Source {
            session,
            host: reactor as u64,
            ..source(reactor, Class::High, 64)
        };
        let list = vec![from("one", 0), from("two", 1), source(0, Class::Low, 64)];
        let mut world = world(2, 8, &specs, list);
        for second in 0..5 {
            let done = world.serve(SECOND);
            let (got, slack) = (done[0] + done[1], (rate as f64 * 0.02).max(2.0));
            assert!((got - rate as f64).abs() <= slack, "second {second}: {got} of {rate}");
        }
        let total = world.done.iter().sum::<u64>() as f64;
        assert!(total >= 5.0 * 39_000.0, "others have the rest: {total}");
    }
}

#[test]
fn d1_limit_is_reached_beside_flood_of_same_class() {
    // (time of a command in ms, channels, window, depth of a flood of Low, limit, commands a second). On four channels
    // High has 3,000 of 4,000 a second, and a session 1,500.
    for (service, channels, window, low, rate, due) in [
        (8, 1, 1, 0, 50, 50.0),
        (8, 1, 4, 0, 50, 50.0),
        (1, 1, 4, 0, 300, 300.0),
        (1, 1, 1, 0, 300, 300.0),
        (1, 4, 4, 64, 500, 500.0),
        (1, 4, 4, 64, 3000, 1500.0),
    ] {
        let capped = Source { session: "a", host: 2, ..source(0, Class::High, 32) };
        let list = vec![capped, source(0, Class::High, 512), source(0, Class::Low, low)];
        let mut world = world(1, window, &[limited("a", None, rate, None)], list);
        (world.service_ns, world.channels) = (service * MS, vec![Nanos(0); channels]);
        let case = format!("{rate}/s, {service} ms in each of {channels}, window {window}");
        assert_close(&case, world.serve(20 * SECOND)[0] / 20.0, due, 0.02);
    }
}

#[test]
fn e5_classes_below_one_limit_share_it_by_weight() {
    // (rate, higher class, parts of both)
    for rate in [50, 1000, 9000] {
        for (higher, expected) in
            [(Class::High, 0.75), (Class::Medium, 2.0 / 3.0), (Class::Urgent, 0.8)]
        {
            let of = |class| Source { session: "pool", host: 3, ..source(0, class, 32) };
            let list = vec![of(higher), of(Class::Low)];
            let mut world = world(1, 8, &[limited("pool", None, rate, None)], list);
            // Urgent uses its savings first.
            world.run(5 * SECOND);
            let got = world.serve(20 * SECOND);
            let part = got[0] / (got[0] + got[1]);
            assert!((part - expected).abs() < 0.02, "{higher:?} at {rate}: {part}, not {expected}");
        }
    }
}

#[test]
fn d1_reactors_share_contended_limit() {
    for (rate, reactors) in [(50, 2), (1000, 3), (9000, 2), (30_000, 2)] {
        for direction in [None, Some(true)] {
            let of = |reactor| Source {
                session: "pool",
                host: reactor as u64,
                write: true,
                ..source(reactor, Class::Low, 64)
            };
            let list = (0..reactors).map(of).collect();
            let mut world = world(reactors, 8, &[limited("pool", None, rate, direction)], list);
            world.run(SECOND);
            let due = 4.0 * rate as f64 / reactors as f64;
            for done in world.serve(4 * SECOND) {
                let case = format!("one of {reactors} reactors at {rate}/s, {direction:?}");
                assert_close(&case, done, due, 0.02);
            }
        }
    }
}

/// Makes a pool with a limit and two sessions below it with these weights.
fn pool_of_two(pool: SessionSpec, [one, two]: [u16; 2]) -> [SessionSpec; 3] {
    let below = |name, weight| SessionSpec { weight: Some(weight), ..spec(name, Some("pool")) };
    [pool, below("one", one), below("two", two)]
}

/// Classes on different reactors have their shares of a limit on all commands, and sessions on
/// different reactors their shares of any limit.
#[test]
fn d1_reactors_share_a_limit_by_weight() {
    use Class::{High, Low, Medium};
    for (rate, weights, classes, direction, expected) in [
        (100, [300, 100], [Low, Low], Some(true), 3.0),
        (9000, [100, 1000], [Low, Low], Some(true), 0.1),
        (1000, [300, 100], [Low, Low], None, 3.0),
        (100, [100, 100], [High, Low], None, 3.0),
        (9000, [100, 100], [Low, Medium], None, 0.5),
    ] {
        let specs = pool_of_two(limited("pool", None, rate, direction), weights);
        let of = |reactor, session| Source {
            session,
            write: true,
            ..source(reactor, classes[reactor], 64)
        };
        let mut world = world(2, 8, &specs, vec![of(0, "one"), of(1, "two")]);
        world.run(SECOND);
        let done = world.serve(10 * SECOND);
        let case = format!("{weights:?} and {classes:?} at {rate}/s, {direction:?}");
        assert_close(&case, done[0] / done[1], expected, 0.02);
        assert_close(&format!("{case}: both"), (done[0] + done[1]) / 10.0, rate as f64, 0.02);
    }
}

/// A session with a reused number starts afresh at the limits above it, without its predecessor's
/// debt.
#[test]
fn d1_reused_session_number_inherits_no_debt() {
    let specs = [limited("pool", None, 100, Some(true)), spec("other", Some("pool"))];
    let writer = |session, host| Source { session, host, write: true, ..source(0, Class::High, 8) };
    let mut world = world(1, 8, &specs, vec![writer("other", 1)]);
    let mut ids = Vec::new();
    for index in 1..5 {
        let named = [specs[0].clone(), specs[1].clone(), spec("new", Some("pool"))];
        world.apply(&ROOT, &named);
        ids.push(world.sessions.named("new").unwrap().id());
        world.add(writer("new", 1 + index as u64));
        world.run(2 * SECOND);
        assert_close("half of the limit", world.done[index] as f64, 100.0, 0.05);
        // It ends alone, with the whole limit for itself.
        world.sources[0].depth = 0;
        world.run(3 * SECOND);
        world.sources[index].depth = 0;
        world.run(SECOND);
        world.arbiters[0].release(world.flows[index]);
        world.apply(&ROOT, &specs);
        world.arbiters[0].settle(world.now, usize::MAX);
        world.resume(0, 8);
    }
    assert!(ids[1..].iter().any(|id| *id == ids[0]), "no number was used again: {ids:?}");
}

#[test]
fn d1_devices_share_contended_limit() {
    for late in [0, 300_000] {
        let sessions = sessions(&ROOT, &[limited("a", None, 1000, None)]);
        let mut arbiter: Arbiter<usize> = arbiter(DeviceRules::default());
        arbiter.add_device(DeviceId(1), Arc::new(Device::new(DeviceRules::default(), 1)));
        let flow = |id| arbiter.flow(DeviceId(id), sessions.named("a").unwrap(), HostId(1));
        let flows = [0, 1].map(flow).map(Option::unwrap);
        let mut now = Nanos(SECOND);
        let send = |arbiter: &mut Arbiter<usize>, now, device: usize| {
            let submission = Submission::of_host(device, false, 4096);
            arbiter.enqueue(now, flows[device], Class::Low, submission).unwrap();
        };
        (0..32).for_each(|_| [0, 1].iter().for_each(|device| send(&mut arbiter, now, *device)));
        let mut done = [0_u32; 2];
        while now < Nanos(3 * SECOND) {
            match arbiter.pull(now) {
                Pull::Command(Dispatched { item, grant, .. }) => {
                    arbiter.complete(now, grant, true);
                    done[item] += 1;
                    send(&mut arbiter, now, item);
                }
                Pull::Later(when) => now = when.after(late),
                other => panic!("{other:?}"),
            }
        }
        assert!(done[0].abs_diff(done[1]) <= 2, "{done:?}");
        assert!((1998..=2003).contains(&(done[0] + done[1])), "{done:?}");
    }
}

/// Makes an arbiter of one device that orders commands by place, and holds one at once.
fn arbiter_by_place() -> Arbiter<u64> {
    let rules = DeviceRules { window: fixed(1), containers: by_place(64), ..Default::default() };
    arbiter(rules)
}

/// Commands in the set that is ordered by place hold credits. They return them to the sessions that
/// they were taken from, even after a new plan.
#[test]
fn set_returns_credits_after_new_plan() {
    let capped = |name, percent| SessionSpec { operations: Some(percent), ..spec(name, None) };
    let root = RootSpec { caps: Caps { operations: 1000, payload: u64::MAX }, ..ROOT };
    let mut sessions = sessions(&root, &[capped("a", 40), capped("b", 40)]);
    let (mut arbiter, now) = (arbiter_by_place(), Nanos(SECOND));
    for (host, name) in (0..).zip(["a", "b"]) {
        let flow = arbiter.flow(DEVICE, sessions.named(name).unwrap(), HostId(host)).unwrap();
        for item in 0..10 {
            arbiter.enqueue(now, flow, Class::Low, Submission::of_host(item, false, 4096)).unwrap();
        }
    }
    let first = arbiter.dispatch(now, DEVICE).unwrap();
    sessions.apply(now, &root, &[capped("a", 30), spec("b", None)]).unwrap();
    for session in sessions.take_touched() {
        arbiter.touch_session(&session);
    }
    arbiter.settle(now, usize::MAX);
    arbiter.complete(now, first.grant, true);
    let mut count = 1;
    while let Some(next) = arbiter.dispatch(now, DEVICE) {
        arbiter.complete(now, next.grant, true);
        count += 1;
    }
    assert_eq!(count, 20);
    for name in ["a", "b", "root"] {
        let session = sessions.named(name).unwrap();
        assert_eq!(session.credits.used().operations, 0, "credits of {name} in use");
    }
}

/// A command that is cancelled in the set that is ordered by place never reaches its device: the limits
/// that let it into the set have their charges back.
#[test]
fn d1_cancelled_set_command_refunds_limits() {
    let writes = Rates { iops: Rate::per_second(1), bandwidth: Rate::per_second(4096) };
    let limits =
        SessionSpec { iops: writes.iops, bandwidth: writes.bandwidth, writes, ..spec("a", None) };
    let sessions = sessions(&ROOT, &[limits]);
    let session = sessions.named("a").unwrap();
    let (mut arbiter, now) = (arbiter_by_place(), Nanos(SECOND));
    let flow = arbiter.flow(DEVICE, session, HostId(1)).unwrap();
    let write = |item| Submission::of_host(item, true, 4096);
    let other = arbiter.flow(DEVICE, sessions.root(), HostId(2)).unwrap();
    arbiter.enqueue(now, other, Class::Urgent, write(0)).unwrap();
    let first = arbiter.dispatch(now, DEVICE).unwrap();
    let waiting = arbiter.enqueue(now, flow, Class::Low, write(1)).unwrap();
    assert!(arbiter.dispatch(now, DEVICE).is_none(), "the window is full");
    assert_eq!(session.all.iops.check(now), Err(Nanos(2 * SECOND)), "the command is in the set");
    assert_eq!(arbiter.cancel(now, waiting), Some(1));
    assert_eq!(session.all.check(now), Ok(()));
    let waiter = Waiter { reactor: 0, party: 0, is_due: false };
    assert_eq!(session.admit_direction(now, waiter, true), Ok(()));
    arbiter.complete(now, first.grant, true);
}

/// Resent commands bypass a session that its limit blocks, also behind other commands of the same host.
/// Their flow is removed with the last of them.
#[test]
fn d1_resent_commands_bypass_a_blocked_session() {
    let sessions = sessions(&ROOT, &[limited("a", None, 1, None), spec("b", Some("a"))]);
    let session = sessions.named("b").unwrap();
    let (mut arbiter, now) = (arbiter::<u64>(DeviceRules::default()), Nanos(SECOND));
    let flow = arbiter.flow(DEVICE, session, HostId(1)).unwrap();
    let before = arbiter.flows.sizes().0;
    let plain = |item| Submission::of_host(item, true, 4096);
    for item in 0..3 {
        arbiter.enqueue(now, flow, Class::Low, plain(item)).unwrap();
    }
    let first = arbiter.dispatch(now, DEVICE).unwrap();
    assert!(first.item == 0 && arbiter.dispatch(now, DEVICE).is_none(), "the limit holds");
    let again = [10, 11, 12, 13, 14].map(|item| {
        let again = Submission { past_limits: true, ..plain(item) };
        arbiter.enqueue(now, flow, Class::Low, again).unwrap()
    });
    assert_eq!(arbiter.cancel(now, again[4]), Some(14));
    let mut passed = Vec::new();
    while let Some(next) = arbiter.dispatch(now, DEVICE) {
        passed.push(next.item);
        arbiter.complete(now, next.grant, true);
    }
    assert_eq!(passed, [10, 11, 12, 13]);
    assert_eq!(arbiter.flows.sizes().0, before, "a flow is left");
    assert_eq!(session.backlog.waiting(), 2, "the others still wait");
}

/// The load of reads and writes by hosts of one session, or of sessions below it, beside a limit on
/// one direction.
#[derive(Clone, Copy, Debug)]
struct Directions {
    /// The limited direction, and its limit in commands a second.
    write: bool,
    rate: u64,
    hosts: usize,
    reactors: usize,
    /// Classes of the limited direction and of the other one.
    classes: [Class; 2],
    /// Commands outstanding of each host in the limited direction, and in the other one.
    depths: [usize; 2],
}

/// Runs hosts for `seconds` whose session, or whose session's parent, limits one direction. Returns
/// the number of completed commands of each host, and the longest wait of the other direction in
/// ns.
fn run_directions(case: Directions, is_above: bool, seconds: u64) -> (Vec<[f64; 2]>, u64) {
    let pool = limited("pool", None, case.rate, Some(case.write));
    let specs = [pool, spec("one", Some("pool"))];
    let session = if is_above { "one" } else { "pool" };
    let sources = (0..case.hosts).flat_map(|host| {
        [true, false].map(|limited| Source {
            session,
            host: host as u64,
            write: limited == case.write,
            depth: case.depths[usize::from(!limited)],
            ..source(host % case.reactors, case.classes[usize::from(!limited)], 1)
        })
    });
    let mut world = world(case.reactors, 8, &specs, sources.collect());
    world.run(SECOND);
    world.longest_wait.fill(0);
    let done = world.serve(seconds * SECOND);
    let waits = world.longest_wait.iter().skip(1).step_by(2);
    (done.chunks(2).map(|both| [both[0], both[1]]).collect(), *waits.max().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 10))]

    /// Commands in one direction pass commands that wait for a limit on the other one, with any
    /// sharers of the limit. The limited direction gets its limit, the other the rest of the
    /// device.
    #[test]
    fn d1_direction_passes_limited_other_direction(
        write: bool,
        is_above: bool,
        rate in 20u64..2000,
        hosts in 1usize..6,
        reactors in 1usize..3,
        classes in [0usize..4, 0usize..4],
        depths in [1usize..40, 1usize..8],
    ) {
        let classes = classes.map(|class| Class::ALL[class]);
        let reactors = reactors.min(hosts);
        let case = Directions { write, rate, hosts, reactors, classes, depths };
        let (done, longest) = run_directions(case, is_above, 2);
        let sum = |direction: usize| done.iter().map(|both| both[direction]).sum::<f64>();
        // One command at a time may not reach the limit: it waits for the device, too.
        let reached = sum(0) / 2.0 / rate as f64;
        prop_assert!(reached <= 1.02 + 1.0 / rate as f64, "{} of the limit", reached);
        prop_assert!(reached >= 0.98 - 2.0 / rate as f64 || depths[0] < 4, "{} of the limit", reached);
        // The device carries out 10,000 commands a second on each of 4 channels.
        let others = hosts * depths[1];
        let most = (others.min(4) as f64 * 10_000.0).min(40_000.0 - rate as f64);
        prop_assert!(sum(1) / 2.0 >= 0.9 * most, "{} of {}", sum(1) / 2.0, most);
        // A round of all hosts in both directions.
        let round = 2 * hosts as u64 * (depths[1] as u64 + 8) * 100_000;
        prop_assert!(longest <= round, "{} us", longest / 1000);
    }
}

/// Many hosts wait for one limit: each gets its part of it, also with so many commands a second that
/// several hosts go on within a millisecond.
#[test]
fn d1_many_hosts_share_the_limit_of_a_direction_evenly() {
    for (rate, depth) in [(2000, 4), (20_000, 1)] {
        let (classes, depths) = ([Class::High; 2], [depth, 0]);
        let case = Directions { write: true, rate, hosts: 100, reactors: 1, classes, depths };
        let (done, _) = run_directions(case, true, 5);
        for [writes, _] in done {
            assert_close("one of 100 hosts", writes, rate as f64 / 20.0, 0.05);
        }
    }
}

/// Sessions below the limited one share its limit on writes by their weights, while both read.
#[test]
fn d1_the_limit_of_a_direction_is_shared_by_weight() {
    let specs = pool_of_two(limited("pool", None, 1000, Some(true)), [300, 100]);
    let sources = [("one", true), ("one", false), ("two", true), ("two", false)]
        .map(|(session, write)| Source { session, write, ..source(0, Class::High, 16) });
    let done = world(1, 8, &specs, sources.to_vec()).serve(10 * SECOND);
    assert_close("writes of weight 300", done[0], 7500.0, 0.03);
    assert_close("writes of weight 100", done[2], 2500.0, 0.03);
    assert_close("reads", done[1] + done[3], 10.0 * 39_000.0, 0.02);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 10))]

    /// Two sessions below one limit on a direction have equal parts of it. This also holds if one
    /// has a limit of its own on that direction that permits its part, and with any number of idle
    /// hosts and sessions, and of hosts that use the other direction alone.
    #[test]
    fn d1_sessions_share_direction_limit_equally(
        write: bool,
        rate in 100u64..4000,
        own in prop::option::of(100u64..300),
        hosts in [1usize..4, 1usize..4],
        idle in [0usize..8, 0usize..8],
        others in [0usize..3, 0usize..3],
        depth in 2usize..20,
    ) {
        let own = own.map_or(0, |percent| (rate * percent / 200).max(1));
        let specs = [
            limited("pool", None, rate, Some(write)),
            limited("one", Some("pool"), own, Some(write)),
            spec("two", Some("pool")),
            spec("idle", Some("one")),
            spec("more", Some("pool")),
        ];
        let mut sources = Vec::new();
        let mut add = |session, write, depth| {
            let host = sources.len() as u64;
            sources.push(Source { session, host, write, ..source(0, Class::High, depth) });
        };
        for (session, of) in ["one", "two"].into_iter().zip(0..) {
            (0..hosts[of]).for_each(|_| add(session, write, depth));
            (0..idle[of]).for_each(|_| add(session, write, 0));
            (0..others[of]).for_each(|_| add(session, !write, 2));
        }
        (0..idle[0]).for_each(|_| add("idle", write, 0));
        (0..idle[1]).for_each(|_| add("more", write, 0));
        let asks = |source: &Source, session| {
            (source.session, source.write) == (session, write) && source.depth > 0
        };
        let mut world = world(1, 8, &specs, sources);
        world.run(SECOND);
        let seconds = (4000 / rate).clamp(2, 10);
        let done = world.serve(seconds * SECOND);
        for session in ["one", "two"] {
            let of = world.sources.iter().zip(&done).filter(|(source, _)| asks(source, session));
            let each: Vec<f64> = of.map(|(_, done)| *done).collect();
            let got = each.iter().sum::<f64>() / seconds as f64;
            let due = rate as f64 / 2.0;
            prop_assert!((got / due - 1.0).abs() <= 0.02, "{session}: {got} of {due}");
            let part = got * seconds as f64 / each.len() as f64;
            let is_near = |got: &f64| (got / part - 1.0).abs() <= 0.05;
            prop_assert!(each.iter().all(is_near), "hosts of {session}: {each:?}");
        }
    }
}

/// A session below a limit that several share.
#[derive(Clone, Copy, Debug)]
struct Sharer {
    weight: u16,
    /// Its own limit in per cent of its fair part; `None`: it has none.
    own: Option<u64>,
    depth: usize,
    /// Size of its commands where sizes differ: 4 KiB by this power of two.
    size: u32,
}

/// Returns the commands a second of sessions below a limit of `rate`: max-min fair by weight and cost,
/// each at most its own limit. `of` has weight, cost and limit of each.
fn parts(rate: f64, of: &[(f64, f64, f64)]) -> Vec<f64> {
    let at = |level: f64| -> Vec<f64> {
        of.iter().map(|(weight, cost, own)| (level * weight / cost).min(*own)).collect()
    };
    let (mut low, mut high) = (0.0, 1e12);
    for _ in 0..100 {
        let level = (low + high) / 2.0;
        if at(level).iter().sum::<f64>() < rate { low = level } else { high = level }
    }
    at(low)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Sessions below one limit have their parts of it, by weight and cost: also where a session has a
    /// limit of its own near its part, and whichever of them was idle or alone before.
    #[test]
    fn d1_own_limits_preserve_shares_of_common_limit(
        total: bool,
        write: bool,
        rate in 40u64..1000,
        weighted: bool,
        sizes: bool,
        mut sharers in prop::collection::vec(
            (20u16..500, prop::option::of(75u64..115), 2usize..20, 0u32..5)
                .prop_map(|(weight, own, depth, size)| Sharer { weight, own, depth, size }),
            2..5,
        ),
        idle in prop::option::of((0usize..5, 1u64..3 * SECOND)),
    ) {
        const NAMES: [&str; 4] = ["a", "b", "c", "d"];
        let limited = |name, parent, rate| limited(name, parent, rate, (!total).then_some(write));
        // The first one, and all where sizes differ, have no limit of their own.
        for (index, of) in sharers.iter_mut().enumerate() {
            of.weight = if weighted { of.weight } else { 100 };
            of.own = of.own.filter(|_| index > 0 && !sizes);
            of.size = if sizes { of.size } else { 0 };
        }
        let terms = |owns: &[f64]| -> Vec<(f64, f64, f64)> {
            let of = |(of, own): (&Sharer, &f64)| (of.weight.into(), f64::from(1 << of.size), *own);
            sharers.iter().zip(owns).map(of).collect()
        };
        let fair = parts(rate as f64, &terms(&[f64::MAX; 4]));
        let near = |due: f64| (1..=2 * rate).take_while(|own| *own as f64 <= due).last().unwrap_or(1);
        let owns: Vec<u64> = sharers
            .iter()
            .zip(&fair)
            .map(|(of, fair)| of.own.map_or(0, |percent| near(*fair * percent as f64 / 100.0)))
            .collect();
        let bounds: Vec<f64> =
            owns.iter().map(|own| if *own == 0 { f64::MAX } else { *own as f64 }).collect();
        let due = parts(rate as f64, &terms(&bounds));
        let mut specs = vec![limited("pool", None, rate)];
        for ((name, of), own) in NAMES.iter().zip(&sharers).zip(&owns) {
            specs.push(SessionSpec { weight: Some(of.weight), ..limited(name, Some("pool"), *own) });
        }
        let sources = NAMES.iter().zip(&sharers).zip(0..).map(|((session, of), host)| {
            let (depth, bytes) = (of.depth, 4096 << of.size);
            Source { session, host, write, bytes, ..source(0, Class::High, depth) }
        });
        let mut world = world(1, 8, &specs, sources.collect());
        world.run(SECOND);
        if let Some((index, time)) = idle {
            let index = index % sharers.len();
            world.sources[index].depth = 0;
            world.run(time);
            let sent = world.commands.iter().filter(|(source, _)| *source == index).count() as u64;
            let waiting = usize::try_from(sent - world.done[index]).unwrap();
            world.sources[index].depth = sharers[index].depth;
            (waiting..sharers[index].depth).for_each(|_| world.send(index));
        }
        let done = world.serve(5 * SECOND);
        for (index, (due, got)) in due.iter().zip(done).enumerate() {
            prop_assert!(got >= 5.0 * due * 0.98 - 2.0, "{index} of {sharers:?}: {got} of {}", 5.0 * due);
        }
    }
}

/// A session with a limit of its own near its part of another one above it has that part: beside large
/// commands, and after it was alone.
#[test]
fn d1_session_near_its_share_gets_all_of_it() {
    // (limit above, its own, size of the others' commands, due of it)
    for (above, own, bytes, due) in [(942, 845, 32_768, 837.3), (629, 308, 4096, 308.0)] {
        for direction in [None, Some(false)] {
            let specs = [
                limited("pool", None, above, direction),
                limited("one", Some("pool"), own, direction),
                spec("two", Some("pool")),
            ];
            let of = |session, host| Source { session, host, ..source(0, Class::High, 8) };
            let list = vec![of("one", 1), Source { bytes, ..of("two", 2) }];
            let mut world = world(1, 8, &specs, list);
            world.run(SECOND);
            world.sources[1].depth = 0;
            world.run(3 * SECOND);
            world.resume(1, 8);
            let case = format!("{own}/s below {above}/s, {direction:?}");
            assert_close(&case, world.serve(5 * SECOND)[0] / 5.0, due, 0.02);
        }
    }
}

/// Commands that a limit on their direction holds back go on when the limit goes, and wait longer
/// under a tighter one.
#[test]
fn a_limit_of_a_direction_changes_live() {
    let limited = |rate| limited("a", None, rate, Some(true));
    let writes = Source { session: "a", write: true, ..source(0, Class::High, 16) };
    let reads = Source { write: false, ..writes.clone() };
    let mut world = world(1, 4, &[limited(100)], vec![writes, reads]);
    let mut seconds = |specs: &[SessionSpec]| {
        world.apply(&ROOT, specs);
        let done = world.serve(2 * SECOND);
        [done[0] / 2.0, done[1] / 2.0]
    };
    assert_close("writes", seconds(&[limited(100)])[0], 100.0, 0.02);
    assert_close("writes, tighter", seconds(&[limited(10)])[0], 10.0, 0.1);
    let [writes, reads] = seconds(&[spec("a", None)]);
    assert_close("writes without a limit", writes, reads, 0.05);
    assert_close("writes again", seconds(&[limited(100)])[0], 100.0, 0.02);
}

/// Weights of many levels below a limit multiply, and their product may exceed any number.
#[test]
fn direction_limit_applies_to_deep_sessions() {
    let pool = limited("0", None, 100, Some(true));
    let below = |n: u32| SessionSpec {
        weight: Some(1000),
        ..spec(&n.to_string(), Some(&(n - 1).to_string()))
    };
    let specs: Vec<SessionSpec> = [pool].into_iter().chain((1..20).map(below)).collect();
    let writer = |host| Source { session: "19", host, write: true, ..source(0, Class::High, 4) };
    for done in world(1, 4, &specs, vec![writer(1), writer(2)]).serve(10 * SECOND) {
        assert_close("one of two hosts", done, 500.0, 0.02);
    }
}

/// Whichever reactor looks first: the order by weight and the turns at a limit must not each wait for the reactor that
/// the other one holds back.
#[test]
fn d1_reactors_reach_a_limit_in_shares_by_weight() {
    for weights in [[100, 100], [200, 100], [100, 900]] {
        for rate in [1000_u64, 10_000, 20_000, 30_000] {
            for eager in [None, Some(0), Some(1)] {
                let specs = pool_of_two(limited("pool", None, rate, None), weights);
                let of = |reactor, session| Source { session, ..source(reactor, Class::High, 64) };
                let list = vec![of(0, "one"), of(1, "two"), source(0, Class::Low, 64)];
                let mut world = world(2, 8, &specs, list);
                world.eager = eager;
                world.run(500 * MS);
                let done = world.serve(SECOND);
                let (one, two) = (done[0], done[1]);
                let case = format!("{weights:?} at {rate}/s, {eager:?} first");
                assert_close(&case, one + two, rate as f64, 0.01);
                let expected = f64::from(weights[0]) / f64::from(weights[0] + weights[1]);
                assert_close(&case, one / (one + two), expected, 0.02);
            }
        }
    }
}

/// Several reactors with one class have the share of one class at a limit.
#[test]
fn d1_classes_share_a_limit_across_reactors() {
    for reactors in 2..=4 {
        let specs = pool_of_two(limited("pool", None, 8000, None), [200, 100]);
        let of = |reactor, class| Source { session: "one", ..source(reactor, class, 64) };
        let class = |reactor| if reactor == 0 { Class::Low } else { Class::High };
        let list = (0..reactors).map(|reactor| of(reactor, class(reactor))).collect();
        let mut world = world(reactors, 8, &specs, list);
        world.run(500 * MS);
        let done = world.serve(SECOND);
        let (low, high) = (done[0], done[1..].iter().sum::<f64>());
        assert_close(&format!("{reactors} reactors: {done:?}"), high / low, 3.0, 0.02);
        assert_close(&format!("{reactors} reactors"), high + low, 8000.0, 0.01);
    }
}
