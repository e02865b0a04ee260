//! Races that need two or three accesses at exact places.

use super::*;
use crate::layout::Phase;
use crate::steps::outside;

fn phase(shared: &Shared, index: usize) -> Phase {
    outside(|| shared.spot(seat(index), number(0)).unwrap().1.state().phase())
}

#[test]
fn d6_credits_are_seen_while_they_leave_their_spot() {
    // The taker sums up twice: one spot is settled during each sum.
    for (first, second) in (1..15).flat_map(|first| (1..15).map(move |second| (first, second))) {
        let shared = Arc::<Shared>::from(segment(2, u64::MAX, 2));
        (0..2).for_each(|index| shared.enqueue(seat(0), number(index), cost(1, 0)));
        let mut taker = actor(&shared, |shared| {
            shared.take(seat(1), cost(1, 0), START);
        });
        for (spot, steps) in [first, second].into_iter().enumerate() {
            taker.run(steps);
            let spot = number(u32::try_from(spot).unwrap());
            assert!(shared.settle(seat(0), spot, cost(1, 0), START));
        }
        finish(taker);
        assert_eq!(shared.tally().held.operations, 2, "{first} {second}");
    }
}

#[test]
fn d6_waiter_refused_during_settlement_is_served_after_it() {
    for steps in 1..40 {
        let shared = Arc::<Shared>::from(segment(2, u64::MAX, 3));
        assert!(shared.take(seat(0), cost(2, 0), START));
        shared.enqueue(seat(1), number(0), cost(1, 0));
        shared.enqueue(seat(2), number(0), cost(1, 0));
        shared.give(seat(0), cost(1, 0));
        let mut settling = actor(&shared, |shared| {
            assert!(shared.settle(seat(1), number(0), cost(1, 0), START));
        });
        settling.run(steps);
        shared.give(seat(0), cost(1, 0));
        finish(settling);
        assert_eq!(phase(&shared, 2), Phase::Ready, "{steps}");
    }
}

#[test]
fn d6_decision_about_an_earlier_trial_fails() {
    for (early, late) in (1..25).flat_map(|early| (1..25).map(move |late| (early, late))) {
        let shared = Arc::<Shared>::from(segment(1, u64::MAX, 3));
        assert!(shared.take(seat(0), cost(1, 0), START));
        shared.enqueue(seat(1), number(0), cost(1, 0));
        let free = |shared: &Shared| shared.slots[0].operations.subtract(1);
        free(&shared);
        let mut stale = actor(&shared, Shared::dispatch);
        stale.run(early);
        // An expired allowance binds nobody: the credit is held, and the trial fails.
        assert!(shared.take(seat(0), cost(1, 0), EXPIRED));
        if phase(&shared, 1) == Phase::Ready {
            continue;
        }
        shared.dispatch();
        assert_eq!(phase(&shared, 1), Phase::Waiting);
        free(&shared);
        let mut fresh = actor(&shared, Shared::dispatch);
        fresh.run(late);
        assert!(shared.take(seat(0), cost(1, 0), EXPIRED));
        let was_ready = phase(&shared, 1) == Phase::Ready;
        finish(stale);
        assert_eq!(phase(&shared, 1) == Phase::Ready, was_ready, "{early} {late}");
        finish(fresh);
    }
}

#[test]
fn d6_waiter_missed_by_a_sum_is_not_overtaken() {
    for steps in 1..15 {
        let shared = Arc::<Shared>::from(segment(2, u64::MAX, 3));
        assert!(shared.take(seat(1), cost(1, 0), START));
        let mut dispatcher = actor(&shared, Shared::dispatch);
        dispatcher.run(steps);
        shared.enqueue(seat(0), number(0), cost(2, 0));
        shared.enqueue(seat(2), number(0), cost(1, 0));
        finish(dispatcher);
        assert_eq!(phase(&shared, 2), Phase::Waiting, "{steps}");
    }
}
