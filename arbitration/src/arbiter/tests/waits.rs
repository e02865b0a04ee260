//! The reasons of waits: each is named where it is the reason, and together they are the wait.

use super::*;
use crate::limit::Rates;
use crate::session::Session;

/// Makes a world whose arbiters count the reasons of waits.
fn world(reactors: usize, specs: &[SessionSpec], sources: Vec<Source>) -> World {
    let mut world = super::world(reactors, 4, specs, sources);
    world.arbiters.iter_mut().for_each(|arbiter| arbiter.count_waits(true));
    world
}

/// Adds up all reasons of a wait.
fn whole(waited: &Waited) -> u64 {
    let Waited { iops, bandwidth, credits, reservation, order, window, .. } = waited;
    iops + bandwidth + credits + reservation + order + window
}

/// Returns the reasons for which the commands of a source waited, in a second after 100 ms, and the whole wait.
fn reasons(world: &mut World, index: usize) -> (Waited, f64) {
    world.run(100 * MS);
    world.reasons.clear();
    world.run(SECOND);
    let mut sum = Waited::default();
    for (of, wait, waited) in &world.reasons {
        assert_eq!(whole(waited), *wait, "the parts are the whole: {waited:?}");
        if *of == index {
            sum.iops += waited.iops;
            sum.bandwidth += waited.bandwidth;
            sum.credits += waited.credits;
            sum.reservation += waited.reservation;
            sum.order += waited.order;
            sum.window += waited.window;
            sum.session = waited.session.clone().or(sum.session);
        }
    }
    let all = whole(&sum);
    assert!(all > 0, "commands of the source waited");
    (sum, all as f64)
}

/// Asserts that a reason is nearly all of a wait, and which session is named for it.
fn assert_blamed(reason: u64, (waited, all): &(Waited, f64), session: &str) {
    assert!(reason as f64 > 0.98 * all, "{reason} of {waited:?}");
    assert_eq!(waited.session.as_deref().map(Session::name), Some(session));
}

fn in_session(session: &'static str, depth: usize) -> Source {
    Source { session, ..source(0, Class::Low, depth) }
}

#[test]
fn limits_are_named_with_their_sessions() {
    let bandwidth = Rates { iops: Rate::per_second(9000), bandwidth: Rate::per_second(4_096_000) };
    for (rates, limited) in [(iops(1000), "a"), (bandwidth, "a"), (iops(1000), "pool")] {
        let of = |name, parent| {
            let Rates { iops, bandwidth } = if name == limited { rates } else { Rates::default() };
            SessionSpec { iops, bandwidth, ..spec(name, parent) }
        };
        let specs = [of("pool", None), of("a", Some("pool"))];
        let found = reasons(&mut world(1, &specs, vec![in_session("a", 32)]), 0);
        let is_bytes = rates.bandwidth.is_some();
        assert_blamed(if is_bytes { found.0.bandwidth } else { found.0.iops }, &found, limited);
    }
}

#[test]
fn limit_on_writes_is_named_for_writes_alone() {
    let writes = Rates { iops: None, bandwidth: Rate::per_second(4_096_000) };
    let limited = SessionSpec { writes, ..spec("a", None) };
    let write = Source { write: true, ..in_session("a", 16) };
    let mut world = world(1, &[limited], vec![write, in_session("a", 16)]);
    let found = reasons(&mut world, 0);
    assert_blamed(found.0.bandwidth, &found, "a");
    world.run(10 * MS);
    let (waited, all) = reasons(&mut world, 1);
    assert!(waited.bandwidth == 0 && waited.window as f64 > 0.9 * all, "{waited:?}");
}

#[test]
fn credits_are_named() {
    let root = RootSpec { caps: Caps { operations: 100, payload: u64::MAX }, ..ROOT };
    let capped = SessionSpec { operations: Some(1), ..spec("a", None) };
    let mut world = world(1, &[spec("a", None)], vec![in_session("a", 16)]);
    world.apply(&root, &[capped]);
    let found = reasons(&mut world, 0);
    assert_blamed(found.0.credits, &found, "a");
}

#[test]
fn window_is_named_alone_and_order_beside_others() {
    let mut alone = world(1, &[], vec![source(0, Class::Low, 64)]);
    let (waited, all) = reasons(&mut alone, 0);
    assert!(waited.window as f64 == all && waited.session.is_none(), "{waited:?}");
    for reactors in [1, 2] {
        // High has three of four commands.
        let sources = vec![source(0, Class::Low, 64), source(reactors - 1, Class::High, 64)];
        let mut beside = world(reactors, &[], sources);
        let (waited, all) = reasons(&mut beside, 0);
        let [order, window] = [waited.order, waited.window].map(|ns| ns as f64 / all);
        assert!((0.70..0.80).contains(&order), "{reactors} reactors: {waited:?}");
        assert!((0.20..0.30).contains(&window), "{reactors} reactors: {waited:?}");
    }
}

#[test]
fn reservations_of_others_are_named() {
    let beside = Source { host: 2, ..in_session("b", 64) };
    let specs = [spec("r", None), spec("b", None)];
    let mut world = world(1, &specs, vec![in_session("r", 64), beside]);
    // Three quarters of 40,000 a second.
    world.reserve(vec![world.reservation("r", &per_second(30_000))]);
    let (waited, all) = reasons(&mut world, 1);
    // The tenant has a part of its budget by its turns, too.
    assert!(waited.reservation as f64 > 0.5 * all && waited.session.is_none(), "{waited:?}");
    let (waited, all) = reasons(&mut world, 0);
    let own = waited.reservation as f64;
    assert!(own < 0.1 * all, "its own reservation delays nobody: {waited:?}");
}

#[test]
fn block_that_began_before_counting_is_named() {
    let limited = SessionSpec { iops: Rate::per_second(1), ..spec("a", None) };
    let mut world = world(1, &[limited], vec![in_session("a", 4)]);
    world.arbiters[0].count_waits(false);
    world.run(500 * MS);
    world.arbiters[0].count_waits(true);
    world.send(0);
    world.run(6000 * MS);
    let (_, wait, waited) = world.reasons.last().unwrap();
    assert!(waited.iops * 100 >= wait * 99, "{waited:?} of {wait}");
}
