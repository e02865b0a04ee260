use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use proptest::prelude::*;

use super::turns::Turns;
use super::*;
use crate::overload::{RetryDelays, WAIT_MAX};
use crate::testing::SECOND;

fn limiter(rate: u64) -> Limiter {
    Limiter::new(Rate::per_second(rate))
}

/// The amounts that passed, in the order of time: (ns, amount).
type Passed = Vec<(u64, u64)>;

/// Returns the most that passed in any span of this length. Such a span begins with something that
/// passed.
fn most(passed: &Passed, span: u64) -> u64 {
    let (mut inside, mut sum, mut most) = (VecDeque::new(), 0, 0);
    for &(at, amount) in passed {
        inside.push_back((at, amount));
        sum += amount;
        while let Some((_, gone)) = inside.front().filter(|(first, _)| first + span <= at) {
            sum -= gone;
            inside.pop_front();
        }
        most = most.max(sum);
    }
    most
}

/// Returns the least that passed in any span of this length up to `end`. Such a span begins after
/// something.
fn least(passed: &Passed, span: u64, end: u64) -> u64 {
    let (mut next, mut sum, mut least) = (0, 0_u64, u64::MAX);
    let starts = std::iter::once((0, 0)).chain(passed.iter().copied());
    for (at, amount) in starts.take_while(|(at, _)| at + span <= end) {
        sum = sum.saturating_sub(amount);
        while let Some((_, amount)) = passed.get(next).filter(|(then, _)| *then <= at + span) {
            sum += amount;
            next += 1;
        }
        least = least.min(sum);
    }
    least
}

/// Returns the sum of the amounts.
fn total(passed: &[(u64, u64)]) -> u64 {
    passed.iter().map(|(_, amount)| amount).sum()
}

/// Takes an amount, or charges it after a check (`split`), if the limit permits.
fn passes(limiter: &Limiter, now: Nanos, asked: Nanos, amount: u64, split: bool) -> bool {
    if !split {
        return limiter.take(now, amount).is_ok();
    }
    let may_pass = limiter.check(now).is_ok();
    if may_pass {
        limiter.charge(now, asked, amount);
    }
    may_pass
}

/// Runs a user who always has work and asks at these intervals, until `end`.
fn backlogged(limiter: &Limiter, gaps: &[u64], amounts: &[u64], split: bool, end: u64) -> Passed {
    let mut gaps = gaps.iter().copied().cycle();
    let mut amounts = amounts.iter().copied().cycle();
    let (mut passed, mut now, mut amount) = (Vec::new(), 0, amounts.next().unwrap());
    let mut asked = Nanos::ZERO;
    while now < end {
        let time = Nanos(now);
        while passes(limiter, time, asked, amount, split) {
            passed.push((now, amount));
            amount = amounts.next().unwrap();
        }
        asked = time;
        now += gaps.next().unwrap();
    }
    passed
}

/// Generates a rate, and amounts of which no more than some ten thousand pass in a second.
fn load() -> impl Strategy<Value = (u64, Vec<u64>)> {
    (0_u32..=40, any::<u64>(), 0_u32..=15, any::<u64>()).prop_flat_map(
        |(rate_digits, rate, count_digits, count)| {
            let rate = (1 << rate_digits | rate & ((1 << rate_digits) - 1)).min(1 << 40);
            let count = 1 << count_digits | count & ((1 << count_digits) - 1);
            let usual = (rate / count).max(1);
            let least = if rate > 100_000 { usual.div_ceil(2) } else { 1 };
            (Just(rate), prop::collection::vec(least..=usual.saturating_mul(2), 1..50))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_limit_holds_over_every_second_and_every_hundredth(
        (rate, amounts) in load(),
        gaps in prop::collection::vec(1_000_u64..=1_000_000, 1..50),
        split in any::<bool>(),
    ) {
        let end = 3 * SECOND;
        let passed = backlogged(&limiter(rate), &gaps, &amounts, split, end);
        let largest = *amounts.iter().max().unwrap() as f64;
        for (span, tolerance) in [(SECOND, 0.002), (SECOND / 100, 0.1)] {
            let due = rate as f64 * span as f64 / 1e9;
            let most = most(&passed, span) as f64;
            prop_assert!(most <= due * (1.0 + tolerance) + largest, "{most} of {due} in {span} ns");
            let least = least(&passed, span, end - 2_000_000) as f64;
            prop_assert!(least >= due * (1.0 - tolerance) - largest, "{least} of {due} in {span} ns");
        }
    }

    /// A user with phases of work and of idleness: what passes in any span is within the rate and
    /// the burst, and after a long idle phase the whole burst passes at once.
    #[test]
    fn an_idle_user_saves_its_burst_and_no_more(
        (rate, amounts) in load(),
        burst in 0..2 * SECOND,
        phases in prop::collection::vec((1_u64..=300, 0..3 * SECOND), 1..4),
    ) {
        let limiter = Limiter::default();
        limiter.set_with_burst(Nanos::ZERO, Rate::per_second(rate), Nanos(burst));
        let depth = burst.max(TOLERANCE.0) as f64 / 1e9;
        let largest = *amounts.iter().max().unwrap() as f64;
        let mut amounts = amounts.iter().copied().cycle();
        let (mut passed, mut now) = (Vec::new(), 0);
        for (asks, idle) in phases {
            let (start, first) = (now, passed.len());
            let mut asked = now;
            for _ in 0..asks {
                while limiter.check(Nanos(now)).is_ok() {
                    let amount = amounts.next().unwrap();
                    limiter.charge(Nanos(now), Nanos(asked), amount);
                    passed.push((now, amount));
                }
                asked = now;
                now += 1_000_000;
            }
            let got = total(&passed[first..]);
            let due = rate as f64 * (now - 1_000_000 - start) as f64 / 1e9;
            prop_assert!(got as f64 >= due * 0.999 - largest, "{got} of {due}");
            if start == 0 {
                let at_once = total(&passed[..passed.partition_point(|(at, _)| *at == 0)]);
                // Without a burst, the first command is a part of the depth.
                let first = if burst > TOLERANCE.0 { 0.0 } else { largest };
                prop_assert!(at_once as f64 >= rate as f64 * depth * 0.999 - first, "{at_once} saved");
            }
            now += idle;
        }
        for span in [SECOND / 100, SECOND, 4 * SECOND] {
            let bound = rate as f64 * (span as f64 / 1e9 + depth) * 1.001 + largest + 1.0;
            let most = most(&passed, span) as f64;
            prop_assert!(most <= bound, "{most} of {bound} in {span} ns");
        }
    }

    /// Commands of one size come in bursts, and pass as soon as the limit lets them: no 10 ms have more than the rate
    /// and a tenth, or one command where that is more.
    #[test]
    fn d1_bursts_stay_within_a_tenth_or_a_command(
        rate in 50_u64..20_000,
        bursts in prop::collection::vec((1_u64..300, 0..SECOND / 5), 1..30),
    ) {
        let limiter = limiter(rate);
        let (mut passed, mut now) = (Vec::new(), 0);
        for (count, idle) in bursts {
            now += idle;
            let since = Nanos(now);
            for _ in 0..count {
                if let Err(when) = limiter.check(Nanos(now)) {
                    now = when.0;
                }
                limiter.charge(Nanos(now), since, 1);
                passed.push((now, 1));
            }
        }
        let due = rate as f64 / 100.0;
        let most = most(&passed, SECOND / 100) as f64;
        prop_assert!(most <= due + (due / 10.0).max(1.0) + 1e-3, "{most} of {due}");
    }

    /// A user always has work, and its turns at the device come late. Delays that are shorter than a
    /// command's time at the limit cost it nothing, and no span has more than the rate, the burst (or the
    /// largest command where that is more) and the last command.
    #[test]
    fn late_turns_lose_no_rate_and_add_one_command(
        (rate, amounts) in load(),
        burst in prop_oneof![Just(0), 0..SECOND / 10],
        delays in prop::collection::vec(0_u64..1000, 1..50),
        most_late in prop_oneof![Just(900_u64), Just(2000)],
    ) {
        let limiter = Limiter::default();
        limiter.set_with_burst(Nanos::ZERO, Rate::per_second(rate), Nanos(burst));
        let smallest = u128::from(*amounts.iter().min().unwrap());
        let largest = *amounts.iter().max().unwrap() as f64;
        let latest = smallest * u128::from(SECOND * most_late) / u128::from(rate) / 1000;
        let latest = u64::try_from(latest).unwrap();
        let (mut delays, mut amounts) = (delays.iter().cycle(), amounts.iter().copied().cycle());
        let (mut passed, mut now, mut since) = (Vec::new(), 0, 0);
        while now < 3 * SECOND && passed.len() < 30_000 {
            if let Err(Nanos(when)) = limiter.check(Nanos(now)) {
                now = when + latest * delays.next().unwrap() / 1000;
                continue;
            }
            let amount = amounts.next().unwrap();
            limiter.charge(Nanos(now), Nanos(since), amount);
            passed.push((now, amount));
            since = now;
        }
        let depth = (rate as f64 * burst.max(TOLERANCE.0) as f64 / 1e9).max(largest);
        for span in [SECOND / 100, SECOND / 10, SECOND, 2 * SECOND] {
            let bound = rate as f64 * span as f64 / 1e9 * 1.001 + depth + largest + 1.0;
            let most = most(&passed, span) as f64;
            prop_assert!(most <= bound, "{most} of {bound} in {span} ns");
        }
        let (got, due) = (total(&passed), rate as f64 * now as f64 / 1e9);
        prop_assert!(most_late > 1000 || got as f64 >= due * 0.999 - 2.0 * largest, "{got} of {due}");
    }

    #[test]
    fn retry_at_hinted_time_passes(
        (rate, amounts) in load(),
        start in 0..1_u64 << 55,
    ) {
        let limiter = limiter(rate);
        let mut now = Nanos(start);
        for &amount in amounts.iter().cycle().take(200) {
            while let Err(later) = limiter.take(now, amount) {
                prop_assert!(later > now, "no wait at all, and yet refused");
                prop_assert!(limiter.check(Nanos(later.0 - 1)).is_err(), "told to come late");
                prop_assert_eq!(limiter.check(later), Ok(()));
                now = later;
            }
        }
    }

    #[test]
    fn no_call_goes_wrong_at_any_value(
        calls in prop::collection::vec((0_u8..6, any::<u64>(), any::<u64>()), 1..60),
    ) {
        let limiter = Limiter::default();
        for (call, now, value) in calls {
            match call {
                0 => limiter.set(Nanos(now), Rate::per_second(value >> (now % 64))),
                1 => limiter.charge(Nanos(now), Nanos(value), value),
                2 => drop(limiter.take(Nanos(now), value)),
                3 => limiter.give_back(value),
                _ => drop(limiter.check(Nanos(now))),
            }
        }
        limiter.set(Nanos::ZERO, None);
        prop_assert_eq!(limiter.check(Nanos::ZERO), Ok(()));
    }

    #[test]
    fn refunded_amount_can_be_used_again(rate in 1_000_u64..1 << 40, amount in 1_u64..1 << 20) {
        let (given, kept) = (limiter(rate), limiter(rate));
        for limiter in [&given, &kept] {
            limiter.charge(Nanos(SECOND), Nanos(SECOND), rate);
        }
        given.charge(Nanos(SECOND), Nanos(SECOND), amount);
        given.give_back(amount);
        prop_assert_eq!(given.check(Nanos(SECOND)), kept.check(Nanos(SECOND)));
    }
}

#[test]
fn two_threads_together_keep_the_limit() {
    const RATE: u64 = 300_000_000;
    const LARGEST: u64 = 65536;
    for split in [false, true] {
        let limiter = limiter(RATE);
        let (clock, all) = (AtomicU64::new(0), Mutex::new(Vec::new()));
        // Both move the clock, in steps of up to 0.1 ms.
        let run = &|seed| {
            let (mut passed, mut random) = (Vec::new(), fastrand::Rng::with_seed(seed));
            loop {
                let step = random.u64(..100_000);
                let now = clock.fetch_add(step, Ordering::SeqCst) + step;
                if now >= 3 * SECOND {
                    return all.lock().unwrap().extend(passed);
                }
                let amount = random.u64(512..LARGEST);
                while passes(&limiter, Nanos(now), Nanos(now), amount, split) {
                    passed.push((now, amount));
                }
            }
        };
        thread::scope(|scope| {
            for seed in [1, 2] {
                scope.spawn(move || run(seed));
            }
        });
        let mut passed = all.into_inner().unwrap();
        passed.sort_unstable();
        for (span, tolerance) in [(SECOND, 0.02), (SECOND / 100, 0.1)] {
            let due = RATE as f64 * span as f64 / 1e9;
            let most = most(&passed, span) as f64;
            let bound = due * (1.0 + tolerance) + 2.0 * LARGEST as f64;
            assert!(most <= bound, "{most} of {due} in {span} ns");
        }
        let total = total(&passed);
        assert!(total as f64 >= RATE as f64 * 3.0 * 0.98, "{total} in 3 s");
    }
}

#[test]
fn new_rate_applies_at_once_and_debts_expire() {
    let limiter = limiter(1_000_000);
    let now = Nanos(SECOND);
    limiter.charge(now, now, 500_000);
    limiter.set(now, Rate::per_second(1_000_000_000));
    let later = limiter.check(Nanos(now.0 + 500_000));
    assert_eq!(later, Ok(()), "half a second's worth is half a millisecond's now");
    limiter.charge(now, now, 500_000_000);
    limiter.set(now, Rate::per_second(1));
    let later = limiter.check(now).expect_err("in debt");
    assert!(later <= Nanos(2 * SECOND), "{later:?}");
    limiter.set(now, None);
    assert_eq!((limiter.check(now), limiter.is_limited()), (Ok(()), false));
    limiter.set(now, Rate::per_second(7));
    assert_eq!((limiter.check(now), limiter.rate()), (Ok(()), Rate::per_second(7)));
}

#[test]
fn setting_the_same_rate_again_forgives_nothing() {
    let limiter = limiter(1);
    limiter.charge(Nanos::ZERO, Nanos::ZERO, 10);
    let before = limiter.check(Nanos::ZERO);
    limiter.set(Nanos::ZERO, Rate::per_second(1));
    assert_eq!(limiter.check(Nanos::ZERO), before);
}

#[test]
fn changed_burst_adds_no_credit_or_delay() {
    let limiter = limiter(1000);
    let now = Nanos(100 * SECOND);
    let long = Nanos(10 * SECOND);
    let passes = |now| at_once(&limiter, now);
    limiter.set_with_burst(now, Rate::per_second(1000), long);
    assert_eq!(passes(now), 2, "a burst that was set just now has not been saved");
    assert_eq!(passes(now.after(SECOND)), 1000, "a second of idleness");
    limiter.set_with_burst(now.after(SECOND), Rate::per_second(1000), Nanos::ZERO);
    assert_eq!(passes(now.after(SECOND)), 0);
    assert_eq!(passes(now.after(SECOND + 2_000_000)), 2, "nobody waits for the burst that ended");
    let later = now.after(2 * SECOND);
    limiter.set_with_burst(later, None, long);
    limiter.set_with_burst(later, Rate::per_second(1000), long);
    assert_eq!(passes(later), 10_001, "a new limit begins with all its credit");
}

#[test]
fn rates_are_between_1_and_2_to_the_40() {
    assert_eq!(Rate::per_second(0), None);
    assert_eq!(Rate::per_second(1).map(Rate::get), Some(1));
    assert_eq!(Rate::per_second(1 << 40), Some(Rate::MAX));
    assert_eq!(Rate::per_second((1 << 40) + 1), None);
}

/// Runs a closed loop of `depth` commands of a byte at a limit of one a second, as a Linux host keeps
/// it: the target sends a command back after 10 s, with one timer for all retries. Returns how often
/// any command was sent back, and the number that passed in `end` seconds.
fn closed_loop(depth: u64, end: u64) -> (u32, u64) {
    let (limit, delays) = (limiter(1), RetryDelays::DEFAULT);
    let (mut here, mut retries) = (VecDeque::new(), VecDeque::new());
    (0..depth).for_each(|_| here.push_back((0, 0)));
    let (mut timer, mut most, mut passed) = (u64::MAX, 0, 0);
    for second in 0..end {
        let now = Nanos(second * SECOND);
        if second >= timer {
            timer = u64::MAX;
            for times in retries.drain(..) {
                limit.came_again(now, 1);
                here.push_back((second, times));
            }
        }
        let mut fresh = 0;
        while !here.is_empty() && limit.take(now, 1).is_ok() {
            here.pop_front();
            (passed, fresh) = (passed + 1, fresh + 1);
        }
        let mut sent_back = Vec::new();
        while let Some(&(since, times)) = here.front()
            && second - since >= 10
        {
            here.pop_front();
            sent_back.push(times);
        }
        for _ in 0..fresh {
            // A new command waits behind the waiting commands and the ones that were sent back.
            let behind = limit.wait_behind_sent_back(now);
            match behind > 0 && behind + here.len() as u64 * SECOND > 10 * SECOND {
                true => sent_back.push(0),
                false => here.push_back((second, 0)),
            }
        }
        for times in sent_back {
            limit.send_back(now, 1, now.after(delays.ns(1) + WAIT_MAX));
            let crd = delays.choose(limit.wait_behind_sent_back(now)).max(1);
            limit.postpone_retries(now.after(delays.ns(crd) + WAIT_MAX));
            let delay = delays.ns(crd) / SECOND;
            (timer, most) = (second + delay, most.max(times + 1));
            retries.push_back(times + 1);
        }
    }
    (most, passed)
}

#[test]
fn d1_retried_commands_keep_turn_and_rate() {
    for depth in (1..=150).chain((160..=800).step_by(40)) {
        let (most, passed) = closed_loop(depth, 3600);
        assert!(most <= 5, "depth {depth}: sent back {most} times, and Linux gives up after 5");
        assert!(passed.abs_diff(3600) <= 40, "depth {depth}: {passed} in an hour at 1/s");
    }
}

#[test]
fn hosts_that_give_up_leave_nothing_of_their_commands() {
    let limit = limiter(1);
    limit.send_back(Nanos(0), 100, Nanos(40 * SECOND));
    assert_eq!(limit.wait_behind_sent_back(Nanos(0)), 100 * SECOND);
    assert_eq!(limit.wait_behind_sent_back(Nanos(41 * SECOND)), 0);
    let burst = at_once(&limit, Nanos(41 * SECOND));
    assert_eq!(burst, 1, "the time that nobody used is not made up for");
}

#[test]
fn d1_late_turn_admits_one_more_command() {
    let limit = limiter(100);
    let now = Nanos(SECOND);
    limit.charge(now, now, 1);
    // The limit lets the next one pass 10 ms later, and it goes after half a second.
    let late = now.after(SECOND / 2);
    for expected in [Ok(()), Err(late.after(10_000_000)), Err(late.after(20_000_000))] {
        limit.charge(late, now, 1);
        assert_eq!(limit.check(late), expected);
    }
}

/// Returns how many commands of 1 pass at once.
fn at_once(limit: &Limiter, now: Nanos) -> usize {
    std::iter::from_fn(|| limit.take(now, 1).ok()).count()
}

#[test]
fn d1_returned_retries_leave_no_credit() {
    let limit = limiter(100);
    let mut now = Nanos(SECOND);
    // For ten minutes 20 commands a second are sent back, and come again after five seconds.
    for second in 0..600_u64 {
        now = Nanos((second + 1) * SECOND);
        for _ in 0..20 {
            limit.send_back(now, 1, now.after(15 * SECOND));
            if second >= 5 {
                limit.came_again(now, 1);
            }
        }
        at_once(&limit, now);
    }
    // The other hundred come, after four seconds without a command.
    now = now.after(4 * SECOND);
    (0..100).for_each(|_| limit.came_again(now, 1));
    now = now.after(5 * SECOND);
    assert!(at_once(&limit, now).abs_diff(100) <= 2, "as many as were out at once");
    (0..20).for_each(|_| limit.send_back(now, 1, now.after(15 * SECOND)));
    now = now.after(2 * SECOND);
    (0..20).for_each(|_| limit.came_again(now, 1));
    assert!(at_once(&limit, now.after(11 * SECOND)) <= 2, "they have gone by now");
}

#[test]
fn d1_limit_compensates_for_retry_delays() {
    let limit = limiter(10);
    let now = Nanos(SECOND);
    let send_back = |now: Nanos, count| {
        (0..count).for_each(|_| limit.send_back(now, 1, now.after(15 * SECOND)));
    };
    send_back(now, 200);
    let now = now.after(14 * SECOND);
    assert!(at_once(&limit, now).abs_diff(140) <= 2, "as they come again");
    (0..200).for_each(|_| limit.came_again(now, 1));
    assert!(at_once(&limit, now.after(9 * SECOND)) <= 2, "no time since then is made up for");
    let now = now.after(9 * SECOND);
    send_back(now, 300);
    limit.postpone_retries(now.after(100 * SECOND));
    assert!(at_once(&limit, now.after(99 * SECOND)).abs_diff(300) <= 2, "what was out at once");
    assert!(at_once(&limit, now.after(200 * SECOND)) <= 2, "they have not come");
}

#[test]
fn d1_abandoned_retries_leave_no_credit() {
    let limit = limiter(10);
    let now = Nanos(SECOND);
    (0..100).for_each(|_| limit.send_back(now, 1, now.after(160 * SECOND)));
    (0..99).for_each(|_| limit.lose_sent_back(1));
    assert_eq!(limit.wait_behind_sent_back(now.after(SECOND)), 0, "one, and ten a second");
    limit.lose_sent_back(1);
    assert!(at_once(&limit, now.after(100 * SECOND)) <= 2);
}

/// A reactor that belongs to no party.
fn alone(reactor: u32) -> Waiter {
    Waiter { reactor, party: 0, is_due: false }
}

#[test]
fn d1_party_of_reactors_has_one_share_of_a_limit() {
    let (turns, now) = (Turns::default(), Nanos(SECOND));
    // Reactors 1 and 2 are one party, by turns as their device orders them; reactor 3 has thrice their weight.
    let waiters =
        [(1, 9), (2, 9), (3, 0)].map(|(reactor, party)| Waiter { reactor, party, is_due: false });
    let mut done = [0_u32; 3];
    for turn in 0..4000 {
        waiters.iter().for_each(|waiter| turns.wait(*waiter));
        let [may_1, may_2, may_3] = waiters.map(|waiter| turns.check(now, waiter, || now).is_ok());
        assert_eq!(may_1, may_2, "the party has the turn, or not");
        assert!(may_1 || may_3);
        let at = if may_3 { 2 } else { usize::from(turn % 4 != 0) };
        turns.took(waiters[at], || true, || if at == 2 { 100 } else { 300 });
        done[at] += 1;
    }
    assert!(done[2].abs_diff(3000) <= 2 && done[0] > 200, "{done:?}");
}

#[test]
fn d1_reactor_yields_exhausted_limit_briefly() {
    let (turns, now) = (Turns::default(), Nanos(SECOND));
    let check = |now, reactor| turns.check(now, alone(reactor), || Nanos(SECOND));
    let took = |reactor, is_used_up| turns.took(alone(reactor), || is_used_up, || 10);
    took(5, true);
    assert_eq!(check(now, 5), Ok(()), "nobody waits");
    [1, 5, 63].into_iter().for_each(|reactor| turns.wait(alone(reactor)));
    for (reactor, next) in [(5, 1), (1, 63), (63, 1)] {
        took(reactor, false);
        assert_eq!(check(now, reactor), Ok(()), "the limit lets more pass");
        took(reactor, true);
        let until = now.after(500_000);
        assert_eq!(check(now, reactor), Err(until));
        assert_eq!(check(now.after(499_999), reactor), Err(until));
        assert_eq!(check(now, next), Ok(()));
    }
    let now = now.after(500_000);
    assert_eq!(check(now, 5), Ok(()), "reactor 1 has not come");
    took(5, true);
    assert!(check(now, 5).is_err() && check(now, 63).is_ok(), "reactor 5 is ahead");
}

/// Reactors share a limit by the costs over weights of their commands. Use or disuse while they did
/// not wait leaves neither debt nor credit.
#[test]
fn d1_reactors_share_limit_by_command_cost() {
    let (turns, mut now) = (Turns::default(), Nanos(SECOND));
    let mut share = |reactors: [(u32, u64); 2], commands: usize| {
        let mut done = [0_usize; 2];
        for _ in 0..commands {
            reactors.iter().for_each(|(reactor, _)| turns.wait(alone(*reactor)));
            let open = now;
            let at = loop {
                // A turn of a reactor that has gone ends after half a millisecond.
                now = now.after(100_000);
                let may = |(reactor, _)| turns.check(now, alone(reactor), || open).is_ok();
                if let Some(at) = reactors.into_iter().position(may) {
                    break at;
                }
            };
            turns.took(alone(reactors[at].0), || true, || reactors[at].1);
            done[at] += 1;
        }
        done
    };
    let done = share([(3, 100), (7, 300)], 400);
    assert!(done[0].abs_diff(300) <= 2 && done[1].abs_diff(100) <= 2, "{done:?}");
    let done = share([(3, 1000), (8, 1)], 1001);
    assert!(done[0].abs_diff(1) <= 1, "reactor 8 begins level with the others: {done:?}");
}

#[test]
fn commands_without_data_pay_by_time() {
    let limit = limiter(1000);
    limit.charge_time(Nanos(SECOND), SECOND / 2, 2000);
    assert_eq!(limit.check(Nanos(SECOND)), Err(Nanos(SECOND + SECOND / 2 - TOLERANCE.0)));
    let limit = limiter(1000);
    limit.charge_time(Nanos(SECOND), SECOND / 2, 100);
    let paid = limit.check(Nanos(SECOND));
    assert_eq!(paid, Err(Nanos(SECOND + SECOND / 10 - TOLERANCE.0)), "no more than for its length");
}
