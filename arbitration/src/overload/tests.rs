use std::collections::{HashMap, VecDeque};
use std::thread;

use proptest::prelude::*;

use super::*;
use crate::testing::{MS, SECOND};

/// Runs a session that lets a command go on every `gap` ns, and in which `depth` commands always
/// wait, for this long. Returns the time at its end.
fn keep_busy(
    backlog: &Backlog,
    queue: &mut VecDeque<u64>,
    start: u64,
    (depth, gap): (usize, u64),
    long: u64,
) -> u64 {
    let mut now = start;
    while now < start + long {
        while queue.len() < depth {
            backlog.entered();
            queue.push_back(now);
        }
        now += gap;
        backlog.left(Nanos(now), now - queue.pop_front().unwrap());
    }
    now
}

fn is_near(wait: u64, due: u64) -> bool {
    wait.abs_diff(due) <= due / 10
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn d5_hint_equals_expected_wait(
        start in 0..SECOND * 1_000_000,
        gaps in prop::collection::vec(20_000_u64..5 * MS, 1..4),
        depth in 2_usize..200,
        pause in 0..SECOND * 3600,
    ) {
        let (backlog, mut queue, mut now) = (Backlog::new(100), VecDeque::new(), start);
        for gap in gaps {
            let depths = (depth, gap);
            // Long enough for ten spans, and for a queue of the old rate to leave.
            let long = 10 * SPAN + depth as u64 * gap * 4;
            now = keep_busy(&backlog, &mut queue, now, depths, long);
            let (wait, due) = (backlog.expected_wait(Nanos(now)), gap * depth as u64);
            prop_assert!(is_near(wait, due), "{wait} of {due} ns");
        }
        while let Some(entered) = queue.pop_front() {
            now += 1000;
            backlog.left(Nanos(now), now - entered);
        }
        // Time in which nothing waited says nothing about the rate.
        now = keep_busy(&backlog, &mut queue, now + pause, (depth, MS), 10 * SPAN + depth as u64 * MS * 4);
        let (wait, due) = (backlog.expected_wait(Nanos(now)), MS * depth as u64);
        prop_assert!(is_near(wait, due), "{wait} of {due} ns after a pause");
    }

    #[test]
    fn no_call_goes_wrong_in_any_order(calls in prop::collection::vec((0_u8..6, any::<u64>()), 1..100)) {
        let (backlog, mut waiting) = (Backlog::new(3), 0_u32);
        for (call, value) in calls {
            match call {
                0 | 1 => {
                    backlog.entered();
                    waiting += 1;
                }
                2 => {
                    backlog.left(Nanos(value), value);
                    waiting = waiting.saturating_sub(1);
                }
                3 => {
                    backlog.withdrawn();
                    waiting = waiting.saturating_sub(1);
                }
                4 => backlog.set(u32::try_from(value % 8).unwrap()),
                _ => drop(backlog.expected_wait(Nanos(value))),
            }
            prop_assert_eq!(backlog.waiting(), waiting);
        }
    }

    #[test]
    fn delay_is_longest_not_above_wait(
        delays in prop::array::uniform3(0_u16..3010),
        wait in 0..SECOND * 10_000,
    ) {
        for delays in RetryDelays::new(delays).into_iter().chain([RetryDelays::DEFAULT]) {
            let crd = usize::from(delays.choose(wait));
            let all = delays.hundreds_of_ms().map(|delay| u64::from(delay) * UNIT);
            prop_assert!(crd == 0 || all[crd - 1] <= wait, "comes back too late");
            prop_assert!(all[crd..].iter().all(|longer| *longer > wait), "comes back too early");
        }
    }

    #[test]
    fn none_is_refused_twice(
        calls in prop::collection::vec((any::<bool>(), 0_u64..30, 0..100 * SECOND), 1..300),
        commands in 1_usize..40,
    ) {
        let (mut table, mut now) = (SentBackTable::new(commands), Nanos::ZERO);
        let mut refused: HashMap<u64, Vec<u64>> = HashMap::new();
        let mut held = 0;
        for (note, key, later) in calls {
            now = now.after(later);
            let times = refused.entry(key).or_default();
            if note {
                if table.note(now, key, 1, ()) {
                    times.push(now.0);
                    held += 1;
                }
            } else {
                times.retain(|time| {
                    let is_kept = time + 600 * SECOND > now.0;
                    held -= usize::from(!is_kept);
                    is_kept
                });
                let is_other = times.len() > 1 && now.0 - times[times.len() - 1] < 4500 * MS;
                let known = (!times.is_empty() && !is_other).then_some(0);
                prop_assert_eq!(table.take(now, key, RetryDelays::DEFAULT).is_some(), known.is_some());
                if let Some(known) = known {
                    times.remove(known);
                    held -= 1;
                }
            }
            for times in refused.values_mut() {
                let before = times.len();
                times.retain(|time| time + 600 * SECOND > now.0);
                held -= before - times.len();
            }
            prop_assert!(held <= commands, "more than there is room for");
        }
    }
}

const UNIT: u64 = 100 * MS;

#[test]
fn d5_default_delays_match_documentation() {
    let all = [5000, 30_000, 150_000].map(|delay| u16::try_from(delay * MS / UNIT).unwrap());
    assert_eq!(RetryDelays::DEFAULT.hundreds_of_ms(), all);
    for (wait, crd) in [(0, 0), (4999, 0), (5000, 1), (29_999, 1), (30_000, 2), (150_000, 3)] {
        assert_eq!(RetryDelays::DEFAULT.choose(wait * MS), crd, "{wait} ms");
    }
    let [_, second, third] = RetryDelays::DEFAULT.hundreds_of_ms().map(u64::from);
    assert!((second + 4 * third) / 10 >= 600, "an outage may last as long as ctrl_loss_tmo");
}

#[test]
fn d5_first_hosts_are_held_back_then_refused() {
    let backlog = Backlog::new(2);
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push((backlog.is_full(), backlog.is_over()));
        backlog.entered();
    }
    let (room, full, over) = ((false, false), (true, false), (true, true));
    assert_eq!(seen, [room, room, full, full, over]);
    backlog.set(4);
    assert_eq!((backlog.is_full(), backlog.is_over()), full);
    backlog.withdrawn();
    backlog.left(Nanos(1), 1);
    assert_eq!((backlog.waiting(), backlog.is_full()), (3, false));
    backlog.inherit();
    assert_eq!(backlog.bound(), 2, "the common bound in place of its own");
    (0..3).for_each(|_| backlog.note_refused());
    assert_eq!(backlog.refused(), 3);
}

#[test]
fn commands_far_apart_do_not_make_a_session_slow() {
    let (backlog, mut queue, mut now) = (Backlog::new(10), VecDeque::new(), SECOND);
    for _ in 0..100 {
        now += 60 * SECOND;
        backlog.entered();
        backlog.left(Nanos(now), 20_000);
    }
    let now = keep_busy(&backlog, &mut queue, now, (50, 100_000), 50 * MS);
    let wait = backlog.expected_wait(Nanos(now));
    assert!(is_near(wait, 50 * 100_000), "{wait} ns, half a span after the flood began");
}

#[test]
fn stalled_session_hints_growing_delays() {
    let (backlog, mut queue) = (Backlog::new(10), VecDeque::new());
    let now = keep_busy(&backlog, &mut queue, SECOND, (10, 100_000), SECOND);
    let waits = [0, 1, 2, 4].map(|later| backlog.expected_wait(Nanos(now + later * SECOND)));
    assert!(waits.is_sorted() && waits[1] > 4 * SECOND, "{waits:?}");
    let backlog = Backlog::new(1);
    backlog.entered();
    assert_eq!(backlog.expected_wait(Nanos(SECOND)), 0, "nothing is known");
    assert_eq!(backlog.expected_wait(Nanos(3 * SECOND)), 2 * SECOND, "it has stood since then");
}

#[test]
fn hint_is_never_below_actual_wait() {
    let backlog = Backlog::new(4);
    backlog.entered();
    backlog.left(Nanos(5 * SECOND), 3 * SECOND);
    assert_eq!(backlog.expected_wait(Nanos(5 * SECOND)), 3 * SECOND);
}

#[test]
fn full_table_takes_no_command() {
    let mut table = SentBackTable::new(8);
    assert!((0..8).all(|key| table.note(Nanos::ZERO, key, 1, key)));
    assert!(!table.note(Nanos::ZERO, 8, 1, 8));
    let first = Some(Returned { times: 1, with: 3 });
    assert_eq!([(); 2].map(|()| table.take(Nanos(SECOND), 3, RetryDelays::DEFAULT)), [first, None]);
    assert!(table.note(Nanos(SECOND), 8, 1, 8));
    assert_eq!(table.take(Nanos(601 * SECOND), 0, RetryDelays::DEFAULT), None, "too long ago");
    assert_eq!(table.room(Nanos(602 * SECOND)), 1, "for the one that was looked for");
    assert!((10..18).all(|key| table.note(Nanos(602 * SECOND), key, 1, key)));
    let mut all: Vec<u64> = table.into_all().collect();
    all.sort_unstable();
    assert_eq!(all, [10, 11, 12, 13, 14, 15, 16, 17]);
}

#[test]
fn d1_equal_commands_come_again_in_order_after_first_delay() {
    let (mut table, now) = (SentBackTable::new(100), Nanos(SECOND));
    for times in 0..100 {
        assert!(table.note(now, 7, times, ()), "{times}");
    }
    assert_eq!(table.room(now), 0);
    let mut take = |ms| table.take(now.after(ms * MS), 7, RetryDelays::DEFAULT);
    assert_eq!(take(4400), None, "another one: the host still waits");
    let times = |_| take(5000).map(|returned| returned.times);
    assert!((0..100).map(times).eq((0..100).map(Some)));
    assert!(!table.has_out());
}

#[test]
fn keys_tell_commands_apart() {
    let commands =
        [(1, 1, 0, 8), (2, 1, 0, 8), (1, 2, 0, 8), (1, 1, 8, 8), (1, 1, 0, 7), (8, 1, 0, 1)];
    let mut keys = commands.map(|(opcode, nsid, slba, nlb)| command_key(opcode, nsid, slba, nlb));
    keys.sort_unstable();
    assert!(keys.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn threads_together_count_every_command() {
    let backlog = Backlog::new(10);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for turn in 0..10_000_u64 {
                    backlog.entered();
                    if turn % 7 == 0 {
                        backlog.withdrawn();
                    } else {
                        backlog.left(Nanos(turn * 50_000), 1000);
                    }
                }
                backlog.entered();
            });
        }
    });
    assert_eq!(backlog.waiting(), 3);
}

#[test]
fn d5_small_burst_gives_no_rate_estimate() {
    let (backlog, mut queue) = (Backlog::new(100), VecDeque::new());
    let mut now = keep_busy(&backlog, &mut queue, SECOND, (2, 10 * MS), 2 * SECOND);
    let expected = |backlog: &Backlog, now| {
        let gap = backlog.gap.load(Relaxed) >> GAP_DIGITS;
        assert!(is_near(gap, 10 * MS), "{gap} ns between two that leave, at {now}");
    };
    expected(&backlog, now);
    while let Some(entered) = queue.pop_front() {
        now += 10 * MS;
        backlog.left(Nanos(now), now - entered);
    }
    for _ in 0..100 {
        now += SECOND;
        (0..3).for_each(|_| backlog.entered());
        (0..3).for_each(|n| backlog.left(Nanos(now + n * 1000), 1000));
        expected(&backlog, now);
    }
}
