//! Tests of the weights of sessions.

use super::*;

fn weighted(name: &str, parent: Option<&str>, weight: u16) -> SessionSpec {
    SessionSpec { weight: Some(weight), ..spec(name, parent) }
}

/// Makes a source of one host on a session's account.
fn host(reactor: usize, session: &'static str, host: u64) -> Source {
    Source { session, host, ..source(reactor, Class::Low, 64) }
}

/// Runs the world, and asserts the share of each source in the completed commands.
fn assert_shares(case: &str, world: &mut World, time_ns: u64, shares: &[f64]) {
    for (index, (part, share)) in world.parts(case, time_ns).iter().zip(shares).enumerate() {
        assert_close(&format!("{case}: source {index} of {:?}", world.done), *part, *share, 0.02);
    }
}

/// Asserts the shares of hosts, whichever reactor is the first to look. Each host has its reactor, its session, its
/// number and its share.
fn assert_shares_from_any_reactor(
    reactors: usize,
    specs: &[SessionSpec],
    hosts: &[(usize, &'static str, u64, f64)],
) {
    for eager in [None, Some(0), Some(reactors - 1)] {
        let list = hosts.iter().map(|(reactor, of, id, _)| host(*reactor, of, *id)).collect();
        let mut world = world(reactors, 8, specs, list);
        world.eager = eager;
        let shares: Vec<f64> = hosts.iter().map(|(.., share)| *share).collect();
        assert_shares(&format!("{hosts:?}, {eager:?} first"), &mut world, SECOND, &shares);
    }
}

#[test]
fn sessions_share_by_weight_on_all_reactors() {
    let specs = [weighted("a", None, 300), spec("b", None)];
    let check = |reactors, hosts: &_| assert_shares_from_any_reactor(reactors, &specs, hosts);
    check(1, &[(0, "a", 1, 0.75), (0, "b", 2, 0.25)]);
    check(2, &[(0, "a", 1, 0.75), (1, "b", 2, 0.25)]);
    // The hosts of a session share its part, wherever they are.
    check(2, &[(0, "a", 1, 0.375), (1, "a", 2, 0.375), (1, "b", 3, 0.125), (1, "b", 4, 0.125)]);
    // The reactor of the other session is the first to look, or the last.
    check(2, &[(0, "a", 1, 0.375), (0, "b", 2, 0.25), (1, "a", 3, 0.375)]);
    check(3, &[(0, "a", 1, 0.25), (1, "a", 2, 0.25), (2, "a", 3, 0.25), (2, "b", 4, 0.25)]);
    // A host in the root is beside the sessions, with the weight that they have by themselves.
    check(2, &[(0, "a", 1, 0.6), (1, "b", 2, 0.2), (0, "root", 3, 0.2)]);
}

#[test]
fn unweighted_sessions_share_equally_on_all_reactors() {
    let specs = [spec("a", None), spec("b", None)];
    // Session b has one host, and session a three, wherever they are.
    for [x, y, z] in [[0, 0, 0], [0, 0, 1], [1, 1, 1], [0, 1, 1]] {
        let part = 1.0 / 6.0;
        let hosts = [(x, "a", 2, part), (y, "a", 3, part), (z, "a", 4, part), (0, "b", 1, 0.5)];
        assert_shares_from_any_reactor(2, &specs, &hosts);
    }
}

#[test]
fn host_of_weighted_session_counts_once_over_reactors() {
    let hosts = [(0, "a", 1), (0, "a", 2), (1, "a", 2), (2, "a", 2), (2, "root", 3)];
    let list = hosts.map(|(reactor, session, id)| host(reactor, session, id)).to_vec();
    let mut world = world(3, 8, &[weighted("a", None, 200)], list);
    let parts = world.parts("three reactors", SECOND);
    for host in 1..=3 {
        let part = world.sum(&parts, |source| source.host == host);
        assert_close(&format!("host {host}"), part, 1.0 / 3.0, 0.02);
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
    // The reactors of x, y and other. No reactor has the parts that its own hosts would give it.
    for (reactors, [x, y, other]) in
        [(1, [0, 0, 0]), (2, [0, 1, 0]), (2, [0, 1, 1]), (2, [0, 0, 1]), (3, [0, 1, 2])]
    {
        let hosts = [(x, "x", 1, 0.5), (y, "y", 2, 0.25), (other, "other", 3, 0.25)];
        assert_shares_from_any_reactor(reactors, &specs, &hosts);
    }
    // Hosts of the pool itself are together beside its sessions; one reactor has such hosts alone.
    let of_pool = [(1, "pool", 4, 0.09375), (1, "pool", 5, 0.09375)];
    let beside = [(0, "x", 1, 0.375), (0, "y", 2, 0.1875), (0, "other", 3, 0.25)];
    assert_shares_from_any_reactor(2, &specs, &[&beside[..], &of_pool].concat());
}

#[test]
fn limit_leaves_rest_to_share_by_weight() {
    // (parent of a to c, weights of a and b, limit of a, shares): of 40,000 a second, a would have two thirds, or half
    // of the pool's three quarters.
    for (parent, [of_a, of_b], rate, shares) in [
        (None, [1000, 300], 4000, [0.1, 0.54, 0.18, 0.18]),
        (Some("pool"), [500, 200], 3000, [0.075, 0.45, 0.225, 0.25]),
    ] {
        let limited = SessionSpec { iops: Rate::per_second(rate), ..weighted("a", parent, of_a) };
        let (b, c, d) = (weighted("b", parent, of_b), spec("c", parent), spec("d", None));
        let specs = [weighted("pool", None, 300), limited, b, c, d];
        for (reactors, [a, b, c, d]) in [(1, [0; 4]), (2, [0, 0, 1, 1]), (3, [2, 0, 1, 2])] {
            let list = vec![host(a, "a", 1), host(b, "b", 2), host(c, "c", 3), host(d, "d", 4)];
            let mut world = world(reactors, 8, &specs, list);
            world.run(500_000_000);
            let case = format!("{reactors} reactors, below {parent:?}");
            assert_shares(&case, &mut world, SECOND, &shares);
        }
    }
}

#[test]
fn reservation_limit_and_weight_combine() {
    for reactors in [1, 2] {
        let limited = SessionSpec { iops: Rate::per_second(4000), ..weighted("c", None, 1000) };
        let specs = [weighted("r", None, 1), weighted("a", None, 300), spec("b", None), limited];
        let last = reactors - 1;
        let list = vec![host(last, "r", 1), host(0, "a", 2), host(last, "b", 3), host(0, "c", 4)];
        let mut world = world(reactors, 8, &specs, list);
        world.reserve(vec![world.reservation("r", &per_second(8000))]);
        world.run(SECOND);
        // Of 40,000 a second: 8000 reserved, 4000 within the limit, 28,000 by weight.
        let case = format!("{reactors} reactors");
        assert_shares(&case, &mut world, 2 * SECOND, &[0.2, 0.525, 0.175, 0.1]);
    }
}

#[test]
fn weights_change_live_and_default_to_turns() {
    for reactors in [1, 2] {
        let list = vec![host(0, "a", 1), host(reactors - 1, "b", 2)];
        let mut world = world(reactors, 8, &[spec("a", None), spec("b", None)], list);
        let mut run = |[a, b]: [Option<u16>; 2], share: f64| {
            let of = |name, weight| SessionSpec { weight, ..spec(name, None) };
            world.apply(&ROOT, &[of("a", a), of("b", b)]);
            world.run(20 * MS);
            let case = format!("{reactors} reactors, {a:?} and {b:?}");
            assert_shares(&case, &mut world, SECOND, &[share, 1.0 - share]);
            world.device.tags.are_used()
        };
        assert!(!run([None, None], 0.5));
        assert!(run([Some(300), None], 0.75));
        assert!(run([Some(25), None], 0.2));
        assert!(run([None, Some(400)], 0.2));
        assert!(!run([Some(100), None], 0.5), "100 is what all have");
        assert!(run([None, Some(900)], 0.1));
    }
}

#[test]
fn uncontended_use_by_session_leaves_no_debt() {
    for reactors in [1, 2] {
        let list = vec![host(0, "a", 1), host(reactors - 1, "b", 2)];
        let mut world = world(reactors, 8, &[weighted("a", None, 300), spec("b", None)], list);
        for alone in [0, 1] {
            world.sources[1 - alone].depth = 0;
            world.run(SECOND);
            world.resume(1 - alone, 64);
            let done = world.serve(10 * MS);
            // As many commands as the lead of both reactors and the window's capacity.
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
        let mut world = world(reactors, 8, &specs(&[200; 6]), list.clone());
        world.eager = eager.filter(|reactor| *reactor < reactors);
        let mut waited = vec![false; list.len()];
        for (set, weights) in phases {
            let waits: Vec<bool> = (0..list.len()).map(|n| set >> n & 1 == 1).collect();
            world.apply(&ROOT, &specs(&weights));
            for index in 0..list.len() {
                world.sources[index].depth = if waits[index] { 64 } else { 0 };
                if waits[index] && !waited[index] {
                    world.resume(index, 64);
                }
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
            let done = world.serve(30_000_000);
            let shares = fair_shares(&weights, &list, &waits);
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
        let mut world = world(reactors, 8, &specs.collect::<Vec<_>>(), list.clone());
        world.eager = eager.filter(|reactor| *reactor < reactors);
        world.run(500_000_000);
        let done = world.serve(SECOND);
        prop_assert!(done.iter().sum::<f64>() >= 39_600.0, "the device is kept busy: {:?}", done);
        let got = world.sum(&done, |source| source.class == Class::High);
        let (rate, slack) = (rate as f64, (rate / 50).max(2) as f64);
        prop_assert!(got <= rate + slack, "{} of {}: {:?}", got, rate, done);
        let has_limited = list.iter().any(|source| source.class == Class::High);
        prop_assert!(!has_limited || got + slack >= rate, "{} of {}: {:?}", got, rate, done);
    }
}
