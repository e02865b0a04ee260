use proptest::prelude::*;

use super::*;

fn at(seconds: f64) -> Nanos {
    Nanos(0) + Duration::from_secs_f64(seconds)
}

/// Returns the times until `end` at which a device that never comes is tried.
fn tries(watch: &mut Watch, from: Nanos, end: Nanos) -> Vec<Nanos> {
    let mut tries = Vec::new();
    let mut now = from;
    while now <= end {
        now = watch.next().unwrap().max(now);
        assert!(watch.is_due(now));
        tries.push(now);
        watch.refused(now, "no".into());
    }
    tries
}

#[test]
fn a_device_that_does_not_come_is_tried_more_and_more_seldom_but_always_again() {
    let mut watch = Watch::closed(at(0.0), "no".into());
    assert!(!watch.is_due(at(0.0)), "it has just been tried");
    let seen = tries(&mut watch, at(0.0), at(100_000.0));
    let gaps: Vec<Duration> = seen.windows(2).map(|pair| pair[1].since(pair[0])).collect();
    assert!(gaps.is_sorted());
    assert_eq!(gaps.last().unwrap().as_secs(), 60);
    let soon = seen.iter().filter(|try_| **try_ <= at(20.0)).count();
    assert!(soon >= 6, "{soon} tries in 20 s");
}

#[test]
fn a_sign_of_the_device_has_it_tried_at_once_and_some_times_after() {
    let mut watch = Watch::closed(at(0.0), "no".into());
    tries(&mut watch, at(0.0), at(1000.0));
    let now = watch.closed.as_ref().unwrap().tried + Duration::from_secs(1);
    assert!(!watch.is_due(now));
    watch.nudge(now);
    assert!(watch.is_due(now));
    let end = now + Duration::from_secs(4);
    let seen = tries(&mut watch, now, end);
    assert!(seen.len() >= 4, "its permissions may come later than its name: {seen:?}");
}

fn said(state: Availability, reason: &str) -> (Availability, Option<String>) {
    (state, Some(reason.to_owned()))
}

#[test]
fn the_state_says_since_when_and_why() {
    let mut watch = Watch::closed(at(10.0), "/dev/x: there is no such device".into());
    let since = said(Availability::Unavailable, "/dev/x: there is no such device (for 14 s)");
    assert_eq!(watch.state(at(24.5)), since);
    assert!(watch.refused(at(25.0), "/dev/x: permission denied".into()), "another reason");
    assert!(!watch.refused(at(26.0), "/dev/x: permission denied".into()), "the same again");
    let later = said(Availability::Unavailable, "/dev/x: permission denied (for 10 min)");
    assert_eq!(watch.state(at(10.0 + 600.0)), later);
    assert_eq!(watch.opened(at(40.0)).as_secs(), 30);
    assert_eq!(watch.state(at(41.0)), (Availability::Ready, None));
    assert_eq!(watch.next(), None);
}

#[test]
fn errors_are_told_at_once_then_seldom_and_none_is_left_out_of_the_count() {
    let mut watch = Watch::open();
    let mut see = |now, total| watch.see_errors(at(now), total, || format!("E{total}"));
    assert_eq!(see(1.0, 1), Some(Note::Errors(1, "E1".into())));
    assert_eq!(see(1.1, 5), None);
    assert_eq!(see(9.0, 100), None);
    assert_eq!(see(11.0, 100), Some(Note::Errors(99, "E100".into())), "without a new one too");
    assert_eq!(see(30.0, 100), None);
    assert_eq!(see(40.0, 101), Some(Note::Errors(1, "E101".into())));
    let last = said(Availability::Errors, "101 errors, last: E101, 12 s ago");
    assert_eq!(watch.state(at(52.0)), last);
    assert_eq!(watch.see_errors(at(339.0), 101, String::new), None);
    assert_eq!(watch.see_errors(at(340.0), 101, String::new), Some(Note::Sound));
    assert_eq!(watch.state(at(340.0)), (Availability::Ready, None));
    assert_eq!(watch.errors(), 101, "the count stays");
    watch.see_errors(at(400.0), 102, || "E102".into());
    let last = said(Availability::Errors, "1 error, last: E102, 0 s ago");
    assert_eq!(watch.state(at(400.0)), last);
}

#[test]
fn damage_is_told_once_and_stays_until_it_is_mended() {
    let mut watch = Watch::open();
    let cut = || Some("cut".to_owned());
    assert_eq!(watch.see_damage(None), None);
    assert_eq!(watch.see_damage(cut()), Some(Note::Damaged("cut".into())));
    assert_eq!(watch.see_damage(cut()), None);
    assert_eq!(watch.state(at(9000.0)), (Availability::Errors, cut()));
    watch.see_errors(at(9000.0), 3, || "EIO".into());
    let both = said(Availability::Errors, "cut; 3 errors, last: EIO, 1 s ago");
    assert_eq!(watch.state(at(9001.0)), both);
    assert_eq!(watch.see_damage(None), None, "the errors are not forgiven yet");
    assert_eq!(watch.see_errors(at(9300.0), 3, String::new), Some(Note::Sound));
}

proptest! {
    /// Signs in any number neither keep a device from being tried nor have it tried without end.
    #[test]
    fn no_storm_of_signs_makes_a_storm_of_tries(signs in prop::collection::vec(0u64..50, 1..400)) {
        let mut watch = Watch::closed(Nanos(0), "no".into());
        let (mut now, mut tried) = (Nanos(0), Vec::new());
        for wait in signs {
            now = now + Duration::from_millis(wait);
            watch.nudge(now);
            if watch.is_due(now) {
                tried.push(now);
                watch.refused(now, "no".into());
            }
        }
        for pair in tried.windows(2) {
            prop_assert!(pair[1].since(pair[0]) >= APART);
        }
        let passed = now.since(Nanos(0));
        let least = passed.as_millis() / (APART + Duration::from_millis(50)).as_millis();
        prop_assert!(tried.len() as u128 >= least.saturating_sub(1), "{} tries", tried.len());
    }

    /// Checks that each error that was noted is logged in the end, once.
    #[test]
    fn all_errors_are_in_the_log(new in prop::collection::vec((0u64..20_000, 0u64..5), 1..100)) {
        let mut watch = Watch::open();
        let (mut now, mut total, mut logged) = (Nanos(0), 0, 0);
        let mut take = |watch: &mut Watch, now, total| {
            if let Some(Note::Errors(count, _)) = watch.see_errors(now, total, String::new) {
                logged += count;
            }
        };
        for (wait, errors) in new {
            now = now + Duration::from_millis(wait);
            total += errors;
            take(&mut watch, now, total);
        }
        if let Some(next) = watch.next() {
            take(&mut watch, next, total);
        }
        prop_assert_eq!(logged, total);
    }
}
