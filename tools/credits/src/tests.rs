//! The protocol in plain memory, under simulated time.

mod interleavings;
mod kills;
mod machine;
mod races;
mod wild;

use std::sync::Arc;
use std::time::Duration;

use arbitration::credit::{Caps, Cost};
use units::Nanos;

use crate::layout::{Seat, Shared};
use crate::queue::Number;
use crate::steps::Actor;
use crate::word::Word;

/// Time at which tests begin.
const START: Nanos = Nanos(1_000);
/// Time at which the allowance of [`segment`] has expired.
const EXPIRED: Nanos = Nanos(1_001_000);

fn seat(index: usize) -> Seat {
    Seat::all().nth(index).unwrap()
}

fn number(index: u32) -> Number {
    Number::new(index).unwrap()
}

fn cost(operations: u32, payload: u32) -> Cost {
    Cost { operations, payload }
}

/// Makes a segment with an allowance and this many processes.
fn segment(operations: u32, payload: u64, processes: usize) -> Box<Shared> {
    let shared = Shared::plain();
    shared.header.set_caps(Caps { operations, payload });
    shared.header.extend(START, Duration::from_millis(1));
    (0..processes).for_each(|index| shared.occupy(seat(index), 1));
    shared
}

/// Makes a process that acts on a segment.
fn actor(shared: &Arc<Shared>, act: impl FnOnce(&Shared) + Send + 'static) -> Actor {
    let shared = shared.clone();
    Actor::new(move || act(&shared))
}

fn finish(mut actor: Actor) {
    while actor.run(1_000) {}
}

fn assert_free(shared: &Shared) {
    let tally = shared.tally();
    assert_eq!((tally.held, tally.waiting), Default::default());
    assert!(tally.first.is_none());
}

#[test]
fn d6_processes_together_keep_within_the_allowance() {
    let shared = segment(4, 100, 3);
    for taken in 0..4 {
        assert!(shared.take(seat(taken % 3), cost(1, 20), START));
    }
    assert!(!shared.take(seat(2), cost(1, 20), START), "operations are in use");
    shared.give(seat(0), cost(1, 20));
    assert!(!shared.take(seat(2), cost(1, 41), START), "payload is in use");
    assert!(shared.take(seat(2), cost(1, 40), START));
    assert!(shared.take(seat(1), cost(9, 900), EXPIRED), "an expired allowance binds nobody");
}

#[test]
fn d6_waiters_get_credits_in_their_order() {
    let shared = segment(2, u64::MAX, 3);
    assert!(shared.take(seat(0), cost(2, 0), START));
    shared.enqueue(seat(1), number(3), cost(2, 0));
    shared.enqueue(seat(2), number(0), cost(1, 0));
    shared.enqueue(seat(1), number(0), cost(1, 0));
    shared.give(seat(0), cost(1, 0));
    assert!(!shared.take(seat(0), cost(1, 0), START), "others wait");
    assert!(!shared.is_due(seat(2), number(0), START), "the first needs more");
    shared.give(seat(0), cost(1, 0));
    assert!(shared.settle(seat(1), number(3), cost(2, 0), START));
    assert!(!shared.is_due(seat(2), number(0), START));
    shared.give(seat(1), cost(2, 0));
    assert!(shared.settle(seat(1), number(0), cost(1, 0), START));
    assert!(shared.settle(seat(2), number(0), cost(1, 0), START));
    assert!(!shared.take(seat(0), cost(1, 0), START));
}

#[test]
fn d6_oversized_command_runs_alone() {
    let shared = segment(4, 64, 2);
    let oversized = cost(1, 1024);
    assert!(shared.take(seat(0), cost(1, 1), START));
    assert!(!shared.take(seat(1), oversized, START));
    shared.enqueue(seat(1), number(0), oversized);
    assert!(!shared.take(seat(0), cost(1, 1), START));
    shared.give(seat(0), cost(1, 1));
    assert!(shared.settle(seat(1), number(0), oversized, START));
    assert!(!shared.take(seat(0), cost(1, 1), START));
    shared.give(seat(1), oversized);
    assert!(shared.take(seat(0), oversized, START));
}

#[test]
fn d6_smaller_allowance_waits_for_returns_and_larger_one_dispatches() {
    let shared = segment(4, u64::MAX, 2);
    assert!(shared.take(seat(0), cost(4, 0), START));
    shared.header.set_caps(Caps { operations: 2, payload: u64::MAX });
    shared.give(seat(0), cost(2, 0));
    assert!(!shared.take(seat(1), cost(1, 0), START));
    shared.enqueue(seat(1), number(0), cost(1, 0));
    assert!(!shared.is_due(seat(1), number(0), START));
    shared.header.set_caps(Caps { operations: 3, payload: u64::MAX });
    shared.dispatch();
    assert!(shared.settle(seat(1), number(0), cost(1, 0), START));
}

#[test]
fn d6_spot_that_leaves_frees_its_credits_and_its_place() {
    let shared = segment(1, u64::MAX, 3);
    assert!(shared.take(seat(0), cost(1, 0), START));
    (0..3).for_each(|index| shared.enqueue(seat(1), number(index), cost(1, 0)));
    shared.leave(seat(1), number(0));
    shared.give(seat(0), cost(1, 0));
    assert!(shared.is_due(seat(1), number(1), START));
    shared.leave(seat(1), number(1));
    assert!(shared.settle(seat(1), number(2), cost(1, 0), START));
    shared.give(seat(1), cost(1, 0));
    assert_free(&shared);
}

#[test]
fn d6_expiry_and_closing_release_waiters() {
    let shared = segment(1, u64::MAX, 2);
    assert!(shared.take(seat(0), cost(1, 0), START));
    (0..3).for_each(|index| shared.enqueue(seat(1), number(index), cost(1, 0)));
    assert!(!shared.settle(seat(1), number(2), cost(1, 0), START));
    assert!(shared.settle(seat(1), number(2), cost(1, 0), EXPIRED));
    // A wild expiry is no reason to wait for ever.
    shared.header.expiry.store(u64::MAX);
    assert!(shared.settle(seat(1), number(0), cost(1, 0), START));
    shared.header.extend(START, Duration::from_millis(1));
    assert!(!shared.settle(seat(1), number(1), cost(1, 0), START));
    shared.header.closed.store(1);
    assert!(shared.settle(seat(1), number(1), cost(1, 0), START));
    shared.give(seat(1), cost(3, 0));
    shared.give(seat(0), cost(1, 0));
    assert_free(&shared);
}

#[test]
fn d6_actors_stop_between_any_two_steps() {
    let words = Arc::new([Word::default(), Word::default()]);
    let theirs = words.clone();
    let mut actor = Actor::new(move || theirs.iter().for_each(|word| word.store(1)));
    assert!(actor.run(1));
    assert_eq!(words.each_ref().map(Word::load), [1, 0]);
    actor.kill();
    assert!(actor.was_killed);
    assert_eq!(words.each_ref().map(Word::load), [1, 0]);
}
