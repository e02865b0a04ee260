//! Tests of the weights of sessions.

use super::*;
use crate::reservation::{Broker, Budget, Reserved, Terms};
use crate::session::Reservation;

fn weighted(name: &str, parent: Option<&str>, weight: u16) -> SessionSpec {
    SessionSpec { weight: Some(weight), ..spec(name, parent) }
}

/// Makes a source of one host on a session's account.
fn host(reactor: usize, session: &'static str, host: u64) -> Source {
    Source { session, host, ..source(reactor, Class::Low, 64) }
}

fn world(reactors: usize, specs: &[SessionSpec], list: Vec<Source>) -> World {
    World::new(reactors, fixed(8), OrderSettings::default(), specs, list)
}

/// Runs the world, and asserts the share of each source in the completed commands.
fn assert_shares(name: &str, world: &mut World, time_ns: u64, shares: &[f64]) {
    let before = world.done.clone();
    world.run(time_ns);
    let done: Vec<f64> =
        world.done.iter().zip(before).map(|(done, before)| (done - before) as f64).collect();
    let total: f64 = done.iter().sum();
    let most = time_ns as f64 / world.service_ns as f64 * world.channels.len() as f64;
    assert!(total >= 0.98 * most, "{name}: the device is kept busy: {total}");
    for (index, (done, share)) in done.iter().zip(shares).enumerate() {
        let what = format!("{name}: source {index} of {:?}", world.done);
        if *share > 0.0 {
            assert_close(&what, done / total, *share, 0.02);
        } else {
            assert!(*done <= 64.0, "{what}");
        }
    }
}

#[test]
fn sessions_share_by_weight_on_all_reactors() {
    let specs = [weighted("a", None, 300), spec("b", None)];
    // Reactors and sessions of the sources, and their shares.
    type Given = (usize, &'static [(usize, &'static str, u64, f64)]);
    let worlds: [Given; 6] = [
        (1, &[(0, "a", 1, 0.75), (0, "b", 2, 0.25)]),
        (2, &[(0, "a", 1, 0.75), (1, "b", 2, 0.25)]),
        // The hosts of a session share its part, wherever they are.
        (2, &[(0, "a", 1, 0.375), (1, "a", 2, 0.375), (1, "b", 3, 0.125), (1, "b", 4, 0.125)]),
        // The reactor of the other session is the first to look, or the last.
        (2, &[(0, "a", 1, 0.375), (0, "b", 2, 0.25), (1, "a", 3, 0.375)]),
        (3, &[(0, "a", 1, 0.25), (1, "a", 2, 0.25), (2, "a", 3, 0.25), (2, "b", 4, 0.25)]),
        // A host in the root is beside the sessions, with the weight that they have by themselves.
        (2, &[(0, "a", 1, 0.6), (1, "b", 2, 0.2), (0, "root", 3, 0.2)]),
    ];
    for (reactors, sources) in worlds {
        for eager in [None, Some(0), Some(reactors - 1)] {
            let list = sources.iter().map(|(reactor, of, id, _)| host(*reactor, of, *id)).collect();
            let mut world = world(reactors, &specs, list);
            world.eager = eager;
            let shares: Vec<f64> = sources.iter().map(|(.., share)| *share).collect();
            let name = format!("{sources:?}, {eager:?} first");
            assert_shares(&name, &mut world, 1_000_000_000, &shares);
        }
    }
}

#[test]
fn unweighted_sessions_share_equally_on_all_reactors() {
    let specs = [spec("a", None), spec("b", None)];
    // Session b has one host, and session a three, wherever they are.
    for places in [[0, 0, 0], [0, 0, 1], [1, 1, 1], [0, 1, 1]] {
        for eager in [None, Some(0), Some(1)] {
            let mut list: Vec<Source> =
                (2..).zip(places).map(|(id, reactor)| host(reactor, "a", id)).collect();
            list.push(host(0, "b", 1));
            let mut world = world(2, &specs, list);
            world.eager = eager;
            let shares = [1.0 / 6.0, 1.0 / 6.0, 1.0 / 6.0, 0.5];
            let name = format!("{places:?}, {eager:?} first");
            assert_shares(&name, &mut world, 1_000_000_000, &shares);
        }
    }
}

#[test]
fn host_of_weighted_session_counts_once_over_reactors() {
    let specs = [weighted("a", None, 200)];
    let list = vec![
        host(0, "a", 1),
        host(0, "a", 2),
        host(1, "a", 2),
        host(2, "a", 2),
        host(2, "root", 3),
    ];
    let mut world = world(3, &specs, list);
    world.run(1_000_000_000);
    let total = world.done.iter().sum::<u64>() as f64;
    let spread = (world.done[1] + world.done[2] + world.done[3]) as f64;
    for (name, done) in [("1", world.done[0] as f64), ("2", spread), ("3", world.done[4] as f64)] {
        assert_close(name, done / total, 1.0 / 3.0, 0.02);
    }
}

#[test]
fn weights_act_at_each_level_of_the_tree() {
    let specs = [
        weighted("pool", None, 300),
        weighted("x", Some("pool"), 200),
        spec("y", Some("pool")),
        spec("other", None),
    ];
    let shares = [0.5, 0.25, 0.25];
    // The reactors of x, y and other. No reactor has the parts that its own hosts would give it.
    for (reactors, [x, y, other]) in
        [(1, [0, 0, 0]), (2, [0, 1, 0]), (2, [0, 1, 1]), (2, [0, 0, 1]), (3, [0, 1, 2])]
    {
        for eager in [None, Some(0), Some(reactors - 1)] {
            let list = vec![host(x, "x", 1), host(y, "y", 2), host(other, "other", 3)];
            let mut world = world(reactors, &specs, list);
            world.eager = eager;
            let name = format!("reactors {x}, {y} and {other}, {eager:?} first");
            assert_shares(&name, &mut world, 1_000_000_000, &shares);
        }
    }
    // Hosts of the pool itself are together beside its sessions; one reactor has such hosts alone.
    let list = vec![
        host(0, "x", 1),
        host(0, "y", 2),
        host(1, "pool", 4),
        host(1, "pool", 5),
        host(0, "other", 3),
    ];
    let shares = [0.375, 0.1875, 0.09375, 0.09375, 0.25];
    assert_shares("hosts in the pool", &mut world(2, &specs, list), 2_000_000_000, &shares);
}

#[test]
fn limit_leaves_rest_to_share_by_weight() {
    for (reactors, [a, b, c, d]) in [(1, [0; 4]), (2, [0, 0, 1, 1]), (3, [2, 0, 1, 2])] {
        // Of 40,000 a second, a would have two thirds by its weight.
        let limited = SessionSpec { iops: Rate::per_second(4000), ..weighted("a", None, 1000) };
        let specs = [limited, weighted("b", None, 300), spec("c", None), spec("d", None)];
        let list = vec![host(a, "a", 1), host(b, "b", 2), host(c, "c", 3), host(d, "d", 4)];
        let mut world = world(reactors, &specs, list);
        world.run(500_000_000);
        let name = format!("{reactors} reactors");
        assert_shares(&name, &mut world, 1_000_000_000, &[0.1, 0.54, 0.18, 0.18]);
        // Inside a pool, too.
        let pool = weighted("pool", None, 300);
        let limited =
            SessionSpec { iops: Rate::per_second(3000), ..weighted("a", Some("pool"), 500) };
        let specs = [
            pool,
            limited,
            weighted("b", Some("pool"), 200),
            spec("c", Some("pool")),
            spec("d", None),
        ];
        let list = vec![host(a, "a", 1), host(b, "b", 2), host(c, "c", 3), host(d, "d", 4)];
        let mut world = self::world(reactors, &specs, list);
        world.run(500_000_000);
        let name = format!("{name}, in a pool");
        assert_shares(&name, &mut world, 1_000_000_000, &[0.075, 0.45, 0.225, 0.25]);
    }
}

#[test]
fn reservation_limit_and_weight_combine() {
    for reactors in [1, 2] {
        let limited = SessionSpec { iops: Rate::per_second(4000), ..weighted("c", None, 1000) };
        let specs = [weighted("r", None, 1), weighted("a", None, 300), spec("b", None), limited];
        let last = reactors - 1;
        let list = vec![host(last, "r", 1), host(0, "a", 2), host(last, "b", 3), host(0, "c", 4)];
        let mut world = world(reactors, &specs, list);
        let profile = world.profile();
        let terms = Terms::of(Budget::Operations(8000), Nanos(1_000_000_000));
        let admitted = Broker::admit(&profile, &[], 20, &terms).unwrap();
        let reserved = Arc::new(Reserved::new(world.now, &admitted));
        let session = Arc::clone(world.sessions.named("r").unwrap());
        world.device.reserve(vec![Reservation { session, reserved }]);
        world.arbiters.iter_mut().for_each(|arbiter| arbiter.touch_device(DEVICE));
        world.run(1_000_000_000);
        // Of 40,000 a second: 8000 reserved, 4000 within the limit, 28,000 by weight.
        let name = format!("{reactors} reactors");
        assert_shares(&name, &mut world, 2_000_000_000, &[0.2, 0.525, 0.175, 0.1]);
    }
}

#[test]
fn weights_change_live_and_default_to_turns() {
    for reactors in [1, 2] {
        let list = vec![host(0, "a", 1), host(reactors - 1, "b", 2)];
        let mut world = world(reactors, &[spec("a", None), spec("b", None)], list);
        let mut run = |specs: &[SessionSpec], share: f64| {
            world.apply(&ROOT, specs);
            world.run(20_000_000);
            let name = format!("{reactors} reactors, {specs:?}");
            assert_shares(&name, &mut world, 1_000_000_000, &[share, 1.0 - share]);
            world.device.tags.are_used()
        };
        assert!(!run(&[spec("a", None), spec("b", None)], 0.5));
        assert!(run(&[weighted("a", None, 300), spec("b", None)], 0.75));
        assert!(run(&[weighted("a", None, 25), spec("b", None)], 0.2));
        assert!(run(&[spec("a", None), weighted("b", None, 400)], 0.2));
        assert!(!run(&[weighted("a", None, 100), spec("b", None)], 0.5), "100 is what all have");
        assert!(run(&[spec("a", None), weighted("b", None, 900)], 0.1));
    }
}

#[test]
fn uncontended_use_by_session_leaves_no_debt() {
    for reactors in [1, 2] {
        let list = vec![host(0, "a", 1), host(reactors - 1, "b", 2)];
        let mut world = world(reactors, &[weighted("a", None, 300), spec("b", None)], list);
        for alone in [0, 1] {
            world.sources[1 - alone].depth = 0;
            world.run(1_000_000_000);
            let before = world.done.clone();
            world.resume(1 - alone, 64);
            // As many commands as the lead of both reactors and the window's capacity.
            world.run(10_000_000);
            let done = [0, 1].map(|index| (world.done[index] - before[index]) as f64);
            let off = (done[0] - 0.75 * (done[0] + done[1])).abs();
            assert!(off <= 40.0, "{done:?} after {alone} alone, {reactors} reactors");
        }
    }
}

/// Sessions of the histories below, with their parents.
const TREE: [(&str, Option<&str>); 6] =
    [("p", None), ("x", Some("p")), ("y", Some("p")), ("q", None), ("z", Some("q")), ("r", None)];

/// Computes the shares of the sources that wait: at each node by weight.
fn fair_shares(weights: &[u16; 6], list: &[Source], waits: &[bool]) -> Vec<f64> {
    let number = |name: &str| TREE.iter().position(|(session, _)| *session == name);
    let line = |session: &'static str| {
        std::iter::successors(number(session), |at| TREE[*at].1.and_then(number))
    };
    let waiting = || list.iter().zip(waits).filter(|(_, waits)| **waits).map(|(source, _)| source);
    let has = |session: usize| waiting().any(|source| line(source.session).any(|at| at == session));
    let share = |source: &Source| {
        let mut share = 1.0;
        for at in line(source.session) {
            let beside = (0..6).filter(|other| TREE[*other].1 == TREE[at].1 && has(*other));
            let mut sum: f64 = beside.map(|other| f64::from(weights[other])).sum();
            // The hosts that are in the session above itself count as one session.
            let above = TREE[at].1.unwrap_or("root");
            sum += if waiting().any(|other| other.session == above) { 100.0 } else { 0.0 };
            share *= f64::from(weights[at]) / sum;
        }
        let below = (0..6)
            .filter(|other| TREE[*other].1.unwrap_or("root") == source.session && has(*other));
        let below: f64 = below.map(|other| f64::from(weights[other])).sum();
        let hosts: HashSet<u64> = waiting()
            .filter(|other| other.session == source.session)
            .map(|other| other.host)
            .collect();
        share * 100.0 / (100.0 + below) / hosts.len() as f64
    };
    list.iter().zip(waits).map(|(source, waits)| if *waits { share(source) } else { 0.0 }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// After any history, and while hosts join and leave: while the same hosts wait, each has its
    /// share, except for a number of commands that depends only on the number of hosts waiting
    /// beside it.
    #[test]
    fn waiting_hosts_get_weighted_shares_after_any_history(
        sources in proptest::collection::vec((0usize..3, 0usize..7), 2..7),
        phases in proptest::collection::vec(
            (any::<u8>(), proptest::array::uniform6(prop_oneof![Just(100u16), 1..=1000u16])),
            1..4,
        ),
        reactors in 1usize..=3,
        eager in proptest::option::of(0usize..3),
    ) {
        let of = |(index, (reactor, session)): (usize, &(usize, usize))| {
            let session = TREE.get(*session).map_or("root", |(name, _)| name);
            Source { depth: 0, ..host(reactor % reactors, session, index as u64) }
        };
        let list: Vec<Source> = sources.iter().enumerate().map(of).collect();
        let specs = |weights: &[u16; 6]| -> Vec<SessionSpec> {
            let of = |((name, parent), weight): (&(&str, Option<&str>), &u16)| {
                weighted(name, *parent, *weight)
            };
            TREE.iter().zip(weights).map(of).collect()
        };
        let mut world = world(reactors, &specs(&[200; 6]), list.clone());
        world.eager = eager.filter(|reactor| *reactor < reactors);
        let mut waited = vec![false; list.len()];
        for (set, weights) in phases {
            let waits: Vec<bool> = (0..list.len()).map(|n| set >> n & 1 == 1).collect();
            world.apply(&ROOT, &specs(&weights));
            for index in 0..list.len() {
                world.sources[index].depth = 0;
                if !waits[index] || waited[index] {
                    continue;
                }
                world.resume(index, 64);
            }
            for index in (0..list.len()).filter(|index| waits[*index]) {
                world.sources[index].depth = 64;
            }
            waited.clone_from(&waits);
            // Earlier waiting commands are gone then, unless their share is small.
            world.run(10_000_000);
            let quiet = |world: &World| (0..list.len()).all(|index| {
                waits[index] || world.commands.iter().filter(|(of, _)| *of == index).count() as u64
                    == world.done[index]
            });
            while !quiet(&world) {
                world.run(10_000_000);
            }
            // Hosts of one session go in turn.
            if reactors > 1 && !world.device.goes_by_weight() {
                continue;
            }
            let before = world.done.clone();
            world.run(30_000_000);
            let shares = fair_shares(&weights, &list, &waits);
            let done = world.done.iter().zip(&before).map(|(done, before)| (done - before) as f64);
            let done: Vec<f64> = done.collect();
            let total: f64 = done.iter().sum();
            for (index, share) in shares.iter().enumerate() {
                let off = share * total - done[index];
                prop_assert!(
                    off <= 30.0 + 10.0 * list.len() as f64,
                    "source {index} of {:?}: {done:?} of {total}, not {shares:?}; {weights:?}",
                    world.sources,
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Limits in any place beside any weights, classes and reactors: the device is kept busy, each limit holds, and a
    /// limit below the fair share of its session is reached.
    #[test]
    fn limits_beside_weights_keep_device_busy(
        sources in proptest::collection::vec((0usize..3, 0usize..6), 2..7),
        weights in proptest::array::uniform6(prop_oneof![Just(100u16), 1..=1000u16]),
        rate in prop_oneof![Just(10u64), Just(300), Just(5000), Just(15_000)],
        at in 0usize..6,
        low in 0usize..3,
        reactors in 1usize..=3,
        eager in proptest::option::of(0usize..3),
    ) {
        let below = |session: usize| {
            let (name, parent) = TREE[session];
            session == at || parent == Some(TREE[at].0) || name == TREE[at].0
        };
        // Hosts below the limit are High, and a flood and all others Low: three quarters of the device are High's.
        let of = |(index, (reactor, session)): (usize, &(usize, usize))| {
            let class = if below(*session) { Class::High } else { Class::Low };
            let (reactor, session) = (reactor % reactors, TREE[*session].0);
            Source { session, host: 10 + index as u64, ..source(reactor, class, 64) }
        };
        let mut list: Vec<Source> = sources.iter().enumerate().map(of).collect();
        list.push(Source { host: 1, ..source(low % reactors, Class::Low, 64) });
        let specs = TREE.iter().zip(weights).enumerate().map(|(index, ((name, parent), weight))| {
            let iops = if index == at { Rate::per_second(rate) } else { None };
            SessionSpec { iops, ..weighted(name, *parent, weight) }
        });
        let mut world = world(reactors, &specs.collect::<Vec<_>>(), list.clone());
        world.eager = eager.filter(|reactor| *reactor < reactors);
        world.run(500_000_000);
        let before = world.done.clone();
        world.run(1_000_000_000);
        let done: Vec<u64> = world.done.iter().zip(&before).map(|(done, was)| done - was).collect();
        prop_assert!(done.iter().sum::<u64>() >= 39_600, "the device is kept busy: {:?}", done);
        let limited: Vec<u64> =
            list.iter().zip(&done).filter(|(of, _)| of.class == Class::High).map(|(_, n)| *n).collect();
        let (got, slack) = (limited.iter().sum::<u64>(), (rate / 50).max(2));
        prop_assert!(got <= rate + slack, "{} of {}: {:?}", got, rate, limited);
        prop_assert!(limited.is_empty() || got + slack >= rate, "{} of {}: {:?}", got, rate, limited);
    }
}
