use proptest::prelude::*;

use super::*;
use crate::limit::{Amount, Rate, Rates};
use crate::testing::{self, SECOND, iops, named, sessions};

const ROOT: RootSpec =
    RootSpec { caps: Caps { operations: 1000, payload: 10_000 }, bounded: true, queue: 5000 };

fn spec(name: &str, parent: Option<&str>, operations: Option<u8>) -> SessionSpec {
    SessionSpec { operations, ..testing::spec(name, parent) }
}

#[test]
fn d1_shares_are_of_the_parents() {
    // A child before its parent.
    let specs =
        [spec("b", Some("a"), Some(50)), spec("a", None, Some(20)), spec("c", Some("b"), None)];
    let mut sessions = sessions(&ROOT, &specs);
    assert_eq!(named(&sessions, "a").credits.caps().operations, 200);
    assert_eq!(named(&sessions, "b").credits.caps().operations, 100);
    assert!(!named(&sessions, "c").is_capped(), "no bound but its parents'");
    assert_eq!(named(&sessions, "a").credits.caps().payload, u64::MAX);
    // Sessions below follow any change above.
    sessions.put(Nanos(0), &spec("a", None, Some(40))).unwrap();
    assert_eq!(named(&sessions, "b").credits.caps().operations, 200);
    let half = RootSpec { caps: Caps { operations: 500, payload: 10_000 }, ..ROOT };
    sessions.set_root(Nanos(0), &half);
    assert_eq!(named(&sessions, "b").credits.caps().operations, 100);
}

#[test]
fn d1_a_session_may_not_give_more_than_it_has() {
    let refusal =
        |specs: &[SessionSpec]| Sessions::new(&ROOT).apply(Nanos(0), &ROOT, specs).unwrap_err();
    let error = refusal(&[spec("a", None, Some(60)), spec("b", None, Some(50))]).to_string();
    assert!(error.contains("110 %"), "{error}");
    let error = refusal(&[spec("a", Some("x"), None)]).to_string();
    assert!(error.contains("x, which is not there"), "{error}");
    let circle = [spec("a", Some("b"), None), spec("b", Some("a"), None)];
    assert!(matches!(refusal(&circle), SessionError::Parent { .. }));
    let twice = [spec("a", None, None), spec("a", None, None)];
    assert!(matches!(refusal(&twice), SessionError::Twice(_)));
}

#[test]
fn session_survives_changes_without_move() {
    let mut sessions = sessions(&ROOT, &[spec("a", None, Some(20))]);
    let a = named(&sessions, "a");
    let next = [spec("z", None, None), spec("a", None, Some(40))];
    sessions.apply(Nanos(0), &ROOT, &next).unwrap();
    assert!(Arc::ptr_eq(&a, &named(&sessions, "a")));
    assert_eq!(a.credits.caps().operations, 400);
    let moved = [spec("z", None, None), spec("a", Some("z"), None)];
    sessions.apply(Nanos(0), &ROOT, &moved).unwrap();
    let new = named(&sessions, "a");
    assert!(!Arc::ptr_eq(&a, &new), "what is in flight is the old place's");
    assert_ne!(a.id(), new.id());
    assert_ne!(a.serial(), new.serial());
    assert!(!a.is_capped(), "what is left of it has no bound");
}

#[test]
fn places_are_given_again_once_nobody_holds_them() {
    let mut sessions = Sessions::new(&ROOT);
    let mut held = None;
    let mut serials = std::collections::HashSet::new();
    for round in 0..100 {
        let name = format!("s{round}");
        sessions.apply(Nanos(0), &ROOT, &[spec(&name, None, None)]).unwrap();
        let session = named(&sessions, &name);
        let id = session.id();
        assert!(id.0 <= 4, "{id:?}");
        assert!(serials.insert(session.serial()), "told from all that had its place");
        if round > 50 {
            assert_ne!(Some(id), held.as_ref().map(|session: &Arc<Session>| session.id()));
        }
        if round == 50 {
            held = Some(session);
        }
    }
}

#[test]
fn changes_touch_only_affected_sessions() {
    let mut sessions = Sessions::new(&ROOT);
    for n in 0..1000 {
        sessions.put(Nanos(0), &spec(&format!("s{n}"), None, None)).unwrap();
    }
    assert!(sessions.take_touched().is_empty(), "nothing limits them");
    let limited = SessionSpec { iops: Rate::per_second(10), ..spec("s7", None, None) };
    sessions.put(Nanos(0), &limited).unwrap();
    let names = |all: Vec<Arc<Session>>| -> Vec<String> {
        all.iter().map(|session| session.name().to_owned()).collect()
    };
    assert_eq!(names(sessions.take_touched()), ["s7"]);
    sessions.put(Nanos(0), &limited).unwrap();
    assert!(sessions.take_touched().is_empty(), "the same again");
    sessions.put(Nanos(0), &SessionSpec { queue: Some(5), ..limited }).unwrap();
    assert!(sessions.take_touched().is_empty(), "the queue's bound is looked up for each command");
    assert_eq!(named(&sessions, "s7").backlog.bound(), 5);
    sessions.set_root(Nanos(0), &RootSpec { queue: 77, ..ROOT });
    assert_eq!(named(&sessions, "s8").backlog.bound(), 77, "the root's, for those without one");
    assert_eq!(named(&sessions, "s7").backlog.bound(), 5);
    sessions.remove(Nanos(0), "s7");
    assert_eq!(names(sessions.take_touched()), ["s7"], "what is left of it is free");
    assert!(sessions.named("s7").is_none());
}

proptest! {
    /// One at a time or all at once, the tree is the same; its places are as many as were needed
    /// at one time.
    #[test]
    fn single_changes_equal_bulk_change(
        steps in proptest::collection::vec((0usize..8, 0usize..9, 0u8..4, any::<bool>()), 1..80),
    ) {
        let mut sessions = Sessions::new(&ROOT);
        let mut specs: std::collections::BTreeMap<String, SessionSpec> = Default::default();
        let mut most = 0;
        for (which, parent, share, goes) in steps {
            let name = format!("s{which}");
            if goes {
                sessions.remove(Nanos(0), &name);
                specs.remove(&name);
                for spec in specs.values_mut().filter(|s| s.parent.as_ref() == Some(&name)) {
                    (spec.parent, spec.operations, spec.payload) = (None, None, None);
                }
            } else {
                let parent = Some(format!("s{parent}")).filter(|name| specs.contains_key(name));
                let share = (share > 0).then_some(share * 20);
                let one = spec(&name, parent.as_deref(), share);
                let before = named_caps(&sessions);
                match sessions.put(Nanos(0), &one) {
                    Ok(()) => {
                        specs.insert(name, one);
                    }
                    Err(_) => prop_assert_eq!(before, named_caps(&sessions)),
                }
            }
            most = most.max(specs.len());
            drop((sessions.take_touched(), sessions.take_replaced()));
            let mut whole = Sessions::new(&ROOT);
            let all: Vec<SessionSpec> = specs.values().cloned().collect();
            whole.apply(Nanos(0), &ROOT, &all).unwrap();
            prop_assert_eq!(named_caps(&sessions), named_caps(&whole));
            // A place may be given again one change late; a change moves eight at the most.
            let places = sessions.iter().map(|s| s.id().0).max().unwrap_or(0) as usize;
            prop_assert!(places <= 2 * most + 8, "{} places for {}", places, most);
        }
    }
}

/// Returns each session's name, its parent's, and its credits.
fn named_caps(sessions: &Sessions) -> Vec<(String, Option<String>, Caps)> {
    let of = |s: &Arc<Session>| {
        let parent = s.parent().map(|parent| parent.name().to_owned());
        (s.name().to_owned(), parent, s.credits.caps())
    };
    let mut all: Vec<_> = sessions.iter().map(of).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

#[test]
fn d1_lowest_limit_bounds_commands_in_time() {
    let specs = [
        SessionSpec { iops: Rate::per_second(10), ..spec("a", None, None) },
        SessionSpec { bandwidth: Rate::per_second(4096), ..spec("b", Some("a"), None) },
        spec("c", None, None),
    ];
    let sessions = sessions(&ROOT, &specs);
    let within = |name: &str, bytes| named(&sessions, name).commands_within(2 * SECOND, bytes);
    assert_eq!(within("a", 1 << 20), Some(20));
    assert_eq!((within("b", 512), within("b", 256)), (Some(16), Some(20)));
    assert_eq!(within("c", 512), None);
}

/// Returns the cost of a command.
fn amount(bytes: u64) -> Amount {
    Amount { operations: 1, bytes }
}

/// Checks whether a command of a direction may pass a session's limits now, or when.
fn check(session: &Session, now: Nanos, write: bool) -> Result<(), Nanos> {
    let own = session.directions.limiters(write).map_or(Ok(()), |own| own.check(now));
    session.all.check(now).max(own)
}

/// Returns how many commands of a direction pass a session's limits at a time.
fn passes(session: &Session, now: Nanos, write: bool, bytes: u64) -> usize {
    let pass = || session.charge_limits(now, now, write, amount(bytes));
    std::iter::from_fn(|| check(session, now, write).ok().map(|()| pass())).take(100_000).count()
}

#[test]
fn limits_per_direction_hold_beside_the_limit_of_both() {
    let writes = Rates { bandwidth: Rate::per_second(1 << 20), ..Rates::default() };
    let (total, reads) = (Rate::per_second(10_000), iops(2000));
    let limited = SessionSpec { iops: total, reads, writes, ..spec("a", None, None) };
    let mut sessions = sessions(&ROOT, std::slice::from_ref(&limited));
    let (session, now) = (named(&sessions, "a"), Nanos(SECOND));
    assert!(session.is_limited());
    assert_eq!(passes(&session, now, true, 4096), 1, "1 KiB is saved");
    assert_eq!(passes(&session, now, false, 4096), 2, "2 are saved; writes take none of them");
    // In a millisecond 1 KiB of writes and 2 reads are paid for.
    let later = now.after(1_000_000);
    assert_eq!((passes(&session, later, true, 4096), passes(&session, later, false, 1)), (0, 2));
    let when = check(&session, later, true).unwrap_err();
    assert_eq!(when.ns_since(now) / 1000, 3906, "until the 4 KiB are paid for");
    let free = SessionSpec { writes: Rates::default(), ..limited };
    sessions.put(later, &free).unwrap();
    assert!(check(&session, later, true).is_ok(), "live");
    assert_eq!(session.limits().reads, reads);
    session.give_back_limits(false, amount(1));
    assert_eq!(passes(&session, later, false, 1), 1, "what was given back may pass again");
    for _ in 0..100 {
        session.charge_limits(later, later, true, amount(0));
    }
    let when = check(&session, later, false).unwrap_err();
    assert!(when.ns_since(later) > 8_000_000, "reads wait for the limit of both: {when:?}");
}

#[test]
fn time_without_data_is_charged_to_direction_limit() {
    let writes = Rates { bandwidth: Rate::per_second(1 << 20), ..Rates::default() };
    let sessions = sessions(&ROOT, &[SessionSpec { writes, ..spec("a", None, None) }]);
    let (session, now) = (sessions.named("a").unwrap(), Nanos(SECOND));
    session.charge_time(now, true, 100_000_000, 1 << 20);
    assert!(check(session, now, false).is_ok(), "reads have no limit");
    let when = check(session, now, true).unwrap_err();
    assert_eq!(when.ns_since(now) / 1_000_000, 99, "100 ms, of which one is saved");
}

#[test]
fn retry_waits_follow_direction_limits() {
    let reads = iops(10);
    let writes = Rates { bandwidth: Rate::per_second(1 << 20), ..Rates::default() };
    let pool = SessionSpec { iops: Rate::per_second(100), ..spec("pool", None, None) };
    let own = SessionSpec { reads, writes, ..spec("a", Some("pool"), None) };
    let sessions = sessions(&ROOT, &[pool, own]);
    let (session, now) = (sessions.named("a").unwrap(), Nanos(SECOND));
    assert_eq!(session.commands_within(SECOND, 4096), Some(10), "reads are the slower");
    assert_eq!(session.commands_within(SECOND, 1 << 19), Some(2), "large writes are");
    for _ in 0..20 {
        session.send_back(now, false, 4096, now.after(60 * SECOND));
    }
    assert_eq!(session.wait_behind_sent_back(now, false), 2 * SECOND, "20 reads at 10/s");
    assert_eq!(session.wait_behind_sent_back(now, true), SECOND / 5, "20 commands at 100/s");
    for _ in 0..20 {
        session.came_again(now, false, 4096);
    }
    assert_eq!(session.wait_behind_sent_back(now, false), 0);
}
