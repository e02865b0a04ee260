//! Properties that hold in any history.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A waiting command is served after a number of others that depends on the weights, the
    /// sessions and the hosts, but not on the amount that any of them sends.
    #[test]
    fn d4_no_command_waits_longer_than_its_bound(
        floods in proptest::collection::vec((0usize..3, 1u64..6, 0usize..3, 1usize..200), 1..8),
        victim in (0usize..3, 0usize..3),
        window in 1u32..8,
    ) {
        const SESSIONS: [&str; 3] = ["a", "b", "c"];
        const CLASSES: [Class; 3] = [Class::High, Class::Medium, Class::Low];
        let specs = [spec("a", None), spec("b", Some("a")), spec("c", None)];
        let of = |(session, host, class, depth): (usize, u64, usize, usize)| {
            Source { session: SESSIONS[session], host, ..source(0, CLASSES[class], depth) }
        };
        let hosts = floods.len() as u64;
        let list = floods.into_iter().chain([(victim.0, 99, victim.1, 1)]).map(of).collect();
        let mut world = world(1, window, &specs, list);
        world.channels = vec![Nanos(0); window as usize];
        world.run(500_000_000);
        let last = world.longest_wait.len() - 1;
        // One burst for each host and each level of sessions, in its class; for each of these the
        // other classes have at most (3 + 2) commands, and a burst.
        let burst = u64::from(OrderSettings::default().burst);
        let turns = (hosts + 1) * 3 * burst;
        let commands = turns * 6 + 16;
        let per_command = world.service_ns / u64::from(window);
        let bound = commands * per_command + 2 * world.service_ns;
        prop_assert!(world.longest_wait[last] <= bound, "{} > {bound}", world.longest_wait[last]);
        prop_assert!(world.done[last] > 0);
    }

    /// Any history of changes: nothing is lost, nothing is dispatched twice, credits come back.
    #[test]
    fn nothing_is_lost_whatever_changes(
        steps in proptest::collection::vec((0u8..7, 0usize..4, 1u64..2_000_000), 1..60),
        window in 1u32..20,
    ) {
        const NAMES: [&str; 4] = ["a", "b", "c", "d"];
        let base: Vec<SessionSpec> = NAMES.iter().map(|name| spec(name, None)).collect();
        let list = (0..8)
            .map(|n| Source {
                session: NAMES[n % 4],
                host: n as u64,
                write: n % 3 == 0,
                ..source(n % 2, Class::ALL[n % 4], 1 + n * 5)
            })
            .collect();
        let mut world = world(2, window, &base, list);
        let mut specs = base;
        for (what, which, ns) in steps {
            let one = &mut specs[which];
            match what {
                0 => one.operations = (one.operations.is_none()).then_some(25),
                1 => one.iops = Rate::per_second(ns),
                2 => one.iops = None,
                3 => one.parent = (which > 0).then(|| NAMES[which - 1].to_owned()),
                4 => one.parent = None,
                5 => one.weight = (one.weight.is_none()).then_some(1 + (ns % 1000) as u16),
                _ => one.payload = (one.payload.is_none()).then_some(20),
            }
            let root = RootSpec { caps: Caps { operations: 40, payload: 400 }, bounded: true, queue: 64 };
            world.apply(&root, &specs);
            world.run(ns);
        }
        // Without limits, everything that was sent comes to its end.
        for one in &mut specs {
            (one.iops, one.operations, one.payload) = (None, None, None);
        }
        world.apply(&ROOT, &specs);
        world.sources.iter_mut().for_each(|source| source.rate = Some(1));
        world.next_due = vec![Nanos::MAX; world.sources.len()];
        world.run(100_000_000_000);
        prop_assert_eq!(world.done.iter().sum::<u64>(), world.commands.len() as u64);
        prop_assert!(world.device.window.in_use() == 0.0);
        for session in world.sessions.iter() {
            let used = session.credits.used();
            prop_assert_eq!((used.operations, used.payload), (0, 0), "{}", session.name());
            prop_assert_eq!(session.backlog.waiting(), 0);
        }
        prop_assert!(!world.device.clock.contended());
    }
}
