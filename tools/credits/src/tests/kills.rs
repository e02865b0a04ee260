//! A process that is killed at each step of each operation.

use super::*;

/// Kills process 0 after each number of steps of `operation`, and reclaims its slot. Calls `check` with
/// the result each time.
fn at_each_step(
    prepare: impl Fn(&Shared),
    operation: impl Fn(&Shared) + Send + Copy + 'static,
    check: impl Fn(&Shared),
) {
    for steps in 0.. {
        let shared = Arc::<Shared>::from(segment(2, 8, 3));
        prepare(&shared);
        let mut killed = actor(&shared, operation);
        let is_inside = steps == 0 || killed.run(steps);
        killed.kill();
        // An agent is killed during its reclaim, too.
        for steps in 1..12 {
            let mut agent = actor(&shared, |shared| {
                shared.reclaim(seat(0));
            });
            agent.run(steps);
            agent.kill();
        }
        shared.reclaim(seat(0));
        shared.dispatch();
        check(&shared);
        if !is_inside {
            assert!(steps > 1, "no step to kill at");
            return;
        }
    }
}

/// Lets processes 1 and 2 wait for all credits, which process 0 holds.
fn wait_for_process_0(shared: &Shared) {
    assert!(shared.take(seat(0), cost(2, 8), START));
    shared.enqueue(seat(1), number(0), cost(1, 8));
    shared.enqueue(seat(2), number(5), cost(1, 0));
}

/// Checks that processes 1 and 2 get their credits, and that no others are held.
fn both_are_served(shared: &Shared) {
    assert!(shared.settle(seat(1), number(0), cost(1, 8), START));
    assert!(shared.settle(seat(2), number(5), cost(1, 0), START));
    assert!(!shared.take(seat(0), cost(1, 0), START));
    shared.give(seat(1), cost(1, 8));
    shared.give(seat(2), cost(1, 0));
    assert_free(shared);
    assert!(shared.take(seat(1), cost(2, 8), START));
}

#[test]
fn d6_kill_at_each_step_of_take() {
    let take = |shared: &Shared| {
        shared.take(seat(0), cost(1, 3), START);
    };
    at_each_step(|_| {}, take, assert_free);
    at_each_step(wait_for_process_0, take, both_are_served);
}

#[test]
fn d6_kill_at_each_step_of_give() {
    at_each_step(wait_for_process_0, |shared| shared.give(seat(0), cost(2, 8)), both_are_served);
}

#[test]
fn d6_kill_at_each_step_of_enqueue_and_leave() {
    let enqueue = |shared: &Shared| {
        shared.enqueue(seat(0), number(1), cost(1, 1));
        shared.leave(seat(0), number(1));
    };
    at_each_step(|_| {}, enqueue, assert_free);
    at_each_step(wait_for_process_0, enqueue, both_are_served);
}

#[test]
fn d6_kill_at_each_step_of_settle() {
    let prepare = |shared: &Shared| {
        shared.enqueue(seat(0), number(1), cost(2, 8));
        shared.enqueue(seat(1), number(0), cost(1, 8));
        shared.enqueue(seat(2), number(5), cost(1, 0));
    };
    let settle = |shared: &Shared| {
        shared.settle(seat(0), number(1), cost(2, 8), START);
        shared.give(seat(0), cost(2, 8));
    };
    at_each_step(prepare, settle, both_are_served);
}

#[test]
fn d6_kill_during_trial_leaves_decision_to_next_dispatcher() {
    // Without any reclaim: another process's dispatch is enough.
    for steps in 1..40 {
        let shared = Arc::<Shared>::from(segment(1, u64::MAX, 3));
        assert!(shared.take(seat(0), cost(1, 0), START));
        shared.enqueue(seat(1), number(0), cost(1, 0));
        shared.header.set_caps(Caps { operations: 2, payload: u64::MAX });
        let mut dispatcher = actor(&shared, Shared::dispatch);
        dispatcher.run(steps);
        dispatcher.kill();
        assert!(!shared.take(seat(2), cost(2, 0), START));
        shared.dispatch();
        assert!(shared.settle(seat(1), number(0), cost(1, 0), START));
    }
}

#[test]
fn d6_abandoned_trial_does_not_block_lower_ticket() {
    for steps in 1..60 {
        let shared = Arc::<Shared>::from(segment(1, 8, 3));
        // Process 1 has a ticket, and is not in the queue yet.
        let mut first = actor(&shared, |shared| shared.enqueue(seat(1), number(0), cost(1, 9)));
        first.run(1);
        let mut second = actor(&shared, |shared| shared.enqueue(seat(2), number(0), cost(1, 9)));
        second.run(steps);
        second.kill();
        finish(first);
        shared.dispatch();
        let spots = [seat(1), seat(2)].map(|seat| shared.is_due(seat, number(0), START));
        assert!(spots == [true, false] || spots == [false, true], "{steps}: {spots:?}");
    }
}
