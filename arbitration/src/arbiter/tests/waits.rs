//! The reasons of waits: each is named where it is the reason, and together they are the wait.

use super::*;
use crate::limit::Rates;
use crate::reservation::{Broker, Budget, Reserved, Terms};
use crate::session::Reservation;

const MS: u64 = 1_000_000;

/// Makes a world whose arbiters count the reasons of waits.
fn world(reactors: usize, specs: &[SessionSpec], sources: Vec<Source>) -> World {
    let order = OrderSettings::default();
    let mut world = World::new(reactors, fixed(4), order, specs, sources);
    world.arbiters.iter_mut().for_each(|arbiter| arbiter.count_waits(true));
    world
}

/// Returns the reasons for which the commands of a source waited, in a second after 100 ms: shares of the wait.
fn reasons(world: &mut World, index: usize) -> (Shares, Option<String>) {
    world.run(100 * MS);
    world.reasons.clear();
    world.run(1000 * MS);
    let mut sum = Waited::default();
    let mut blamed = None;
    for (of, wait, waited) in &world.reasons {
        let Waited { iops, bandwidth, credits, reservation, order, window, session } = waited;
        let parts = [iops, bandwidth, credits, reservation, order, window];
        assert_eq!(parts.into_iter().sum::<u64>(), *wait, "the parts are the whole: {waited:?}");
        if *of == index {
            sum.iops += iops;
            sum.bandwidth += bandwidth;
            sum.credits += credits;
            sum.reservation += reservation;
            sum.order += order;
            sum.window += window;
            blamed = session.as_ref().map(|session| session.name().to_owned()).or(blamed);
        }
    }
    let Waited { iops, bandwidth, credits, reservation, order, window, .. } = sum;
    let whole = (iops + bandwidth + credits + reservation + order + window) as f64;
    assert!(whole > 0.0, "commands of the source waited");
    let part = |ns: u64| ns as f64 / whole;
    let shares = Shares {
        iops: part(iops),
        bandwidth: part(bandwidth),
        credits: part(credits),
        reservation: part(reservation),
        order: part(order),
        window: part(window),
    };
    (shares, blamed)
}

#[derive(Debug)]
struct Shares {
    iops: f64,
    bandwidth: f64,
    credits: f64,
    reservation: f64,
    order: f64,
    window: f64,
}

fn in_session(session: &'static str, depth: usize) -> Source {
    Source { session, ..source(0, Class::Low, depth) }
}

#[test]
fn limits_are_named_with_their_sessions() {
    let rate = |n| Rate::per_second(n);
    let own = |rates: Rates| SessionSpec {
        iops: rates.iops,
        bandwidth: rates.bandwidth,
        ..spec("a", Some("pool"))
    };
    let iops = Rates { iops: rate(1000), bandwidth: None };
    let bandwidth = Rates { iops: rate(9000), bandwidth: rate(4_096_000) };
    for (rates, of_session) in [(iops, "a"), (bandwidth, "a"), (iops, "pool")] {
        let pool = match of_session {
            "pool" => SessionSpec { iops: rates.iops, ..spec("pool", None) },
            _ => spec("pool", None),
        };
        let own = if of_session == "a" { own(rates) } else { spec("a", Some("pool")) };
        let mut world = world(1, &[pool, own], vec![in_session("a", 32)]);
        let (shares, blamed) = reasons(&mut world, 0);
        let share = if rates.bandwidth.is_some() { shares.bandwidth } else { shares.iops };
        assert!(share > 0.98, "{rates:?}: {shares:?}");
        assert_eq!(blamed.as_deref(), Some(of_session));
    }
}

#[test]
fn limit_on_writes_is_named_for_writes_alone() {
    let writes = Rates { iops: None, bandwidth: Rate::per_second(4_096_000) };
    let limited = SessionSpec { writes, ..spec("a", None) };
    let write = Source { write: true, ..in_session("a", 16) };
    let mut world = world(1, &[limited], vec![write, in_session("a", 16)]);
    let (shares, blamed) = reasons(&mut world, 0);
    assert!(shares.bandwidth > 0.98, "{shares:?}");
    assert_eq!(blamed.as_deref(), Some("a"));
    world.run(10 * MS);
    let (shares, _) = reasons(&mut world, 1);
    assert!(shares.bandwidth == 0.0 && shares.window > 0.9, "{shares:?}");
}

#[test]
fn credits_are_named() {
    let root = RootSpec { caps: Caps { operations: 100, payload: u64::MAX }, ..ROOT };
    let capped = SessionSpec { operations: Some(1), ..spec("a", None) };
    let mut world = world(1, &[spec("a", None)], vec![in_session("a", 16)]);
    world.apply(&root, &[capped]);
    let (shares, blamed) = reasons(&mut world, 0);
    assert!(shares.credits > 0.98, "{shares:?}");
    assert_eq!(blamed.as_deref(), Some("a"));
}

#[test]
fn window_is_named_alone_and_order_beside_others() {
    let mut alone = world(1, &[], vec![source(0, Class::Low, 64)]);
    let (shares, blamed) = reasons(&mut alone, 0);
    assert_eq!((shares.window, blamed), (1.0, None), "{shares:?}");
    for reactors in [1, 2] {
        // High has three of four commands.
        let sources = vec![source(0, Class::Low, 64), source(reactors - 1, Class::High, 64)];
        let mut beside = world(reactors, &[], sources);
        let (shares, _) = reasons(&mut beside, 0);
        assert!((0.70..0.80).contains(&shares.order), "{reactors} reactors: {shares:?}");
        assert!((0.20..0.30).contains(&shares.window), "{reactors} reactors: {shares:?}");
    }
}

#[test]
fn reservations_of_others_are_named() {
    let sources = vec![in_session("r", 64), in_session("b", 64)];
    let sources = sources.into_iter().zip(1..).map(|(of, host)| Source { host, ..of }).collect();
    let mut world = world(1, &[spec("r", None), spec("b", None)], sources);
    let profile = world.profile();
    // Three quarters of 40,000 a second.
    let terms = Terms::of(Budget::Operations(30_000), Nanos(1000 * MS));
    let admitted = Broker::admit(&profile, &[], 0, &terms).unwrap();
    let reserved = Arc::new(Reserved::new(world.now, &admitted));
    let session = Arc::clone(world.sessions.named("r").unwrap());
    world.device.reserve(vec![Reservation { session, reserved }]);
    world.arbiters.iter_mut().for_each(|arbiter| arbiter.touch_device(DEVICE));
    let (shares, blamed) = reasons(&mut world, 1);
    // The tenant has a part of its budget by its turns, too.
    assert!(shares.reservation > 0.5, "{shares:?}");
    assert_eq!(blamed, None);
    let (shares, _) = reasons(&mut world, 0);
    assert!(shares.reservation < 0.1, "its own reservation delays nobody: {shares:?}");
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
