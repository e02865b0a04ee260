use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proptest::prelude::*;

use super::*;

const fn cost(operations: u32, payload: u32) -> Cost {
    Cost { operations, payload }
}

const fn caps(operations: u32, payload: u64) -> Caps {
    Caps { operations, payload }
}

const fn used(operations: u32, payload: u64) -> Used {
    Used { operations, payload }
}

#[test]
fn d2_a_command_costs_one_operation_and_its_kib() {
    assert_eq!(Cost::user(0), cost(1, 0));
    assert_eq!(Cost::user(1), cost(1, 1));
    assert_eq!(Cost::user(4096), cost(1, 4));
    assert_eq!(Cost::user(4097), cost(1, 5));
    assert_eq!(Cost::user(u64::MAX), cost(1, u32::MAX));
    assert_eq!(Cost::system(16, 1 << 20), cost(16, 1024), "D3: system tasks may cost more");
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Take(Cost),
    /// The n-th of the running ones.
    Give(usize),
    Set(Caps),
}

fn step() -> impl Strategy<Value = Step> {
    let cost = (0_u32..6, prop_oneof![0_u32..40, Just(u32::MAX)])
        .prop_map(|(operations, payload)| Cost { operations, payload });
    let caps = (prop_oneof![0_u32..20, Just(u32::MAX)], prop_oneof![0_u64..200, Just(u64::MAX)])
        .prop_map(|(operations, payload)| Caps { operations, payload });
    prop_oneof![
        6 => cost.prop_map(Step::Take),
        4 => any::<usize>().prop_map(Step::Give),
        1 => caps.prop_map(Step::Set),
    ]
}

proptest! {
    #[test]
    fn d1_use_stays_within_the_caps_and_all_comes_back(
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let credits = Credits::new(caps(8, 100));
        let mut running: Vec<Cost> = Vec::new();
        for step in steps {
            let sum = used(
                running.iter().map(|cost| cost.operations).sum(),
                running.iter().map(|cost| u64::from(cost.payload)).sum(),
            );
            prop_assert_eq!(credits.used(), sum);
            match step {
                Step::Take(cost) => {
                    let caps = credits.caps();
                    let fits = sum.operations.saturating_add(cost.operations) <= caps.operations
                        && sum.payload + u64::from(cost.payload) <= caps.payload;
                    prop_assert_eq!(credits.fits(cost), fits || sum == used(0, 0));
                    prop_assert_eq!(credits.take(cost), fits || sum == used(0, 0));
                    if fits || sum == used(0, 0) {
                        running.push(cost);
                    }
                }
                Step::Give(_) if running.is_empty() => {}
                Step::Give(which) => {
                    credits.give(running.swap_remove(which % running.len()));
                }
                Step::Set(caps) => credits.set(caps),
            }
        }
        running.into_iter().for_each(|cost| credits.give(cost));
        prop_assert_eq!(credits.used(), used(0, 0));
    }

    #[test]
    fn one_kind_of_credit_never_spills_into_the_other(
        calls in prop::collection::vec((any::<bool>(), any::<u32>(), any::<u32>()), 1..100),
    ) {
        let credits = Credits::default();
        for (take, operations, payload) in calls {
            let before = credits.used();
            if take && credits.take(cost(operations, payload)) {
                let after = credits.used();
                prop_assert_eq!(after.operations, before.operations + operations.min(MAX_OPERATIONS));
                prop_assert_eq!(after.payload, before.payload + u64::from(payload));
            } else if !take {
                credits.give(cost(operations, payload));
                let payload = before.payload.saturating_sub(u64::from(payload));
                prop_assert_eq!(credits.used().payload, payload);
            }
        }
    }
}

#[test]
fn lower_caps_count_once_use_has_fallen() {
    let credits = Credits::new(caps(4, u64::MAX));
    assert!((0..4).all(|_| credits.take(Cost::user(512))));
    credits.set(caps(2, u64::MAX));
    for _ in 0..2 {
        assert!(!credits.take(Cost::user(512)));
        credits.give(Cost::user(512));
    }
    assert!(!credits.take(Cost::user(512)), "two are running");
    credits.give(Cost::user(512));
    assert!(credits.take(Cost::user(512)));
}

#[test]
fn two_threads_never_run_more_than_the_caps() {
    let root = Credits::new(caps(7, 50));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for start in 1..=2_u32 {
            let own = Credits::new(caps(5, 40));
            let (root, over) = (&root, &over);
            scope.spawn(move || {
                let mut running = Vec::new();
                let give = |cost| {
                    own.give(cost);
                    root.give(cost);
                };
                for turn in 0..20_000_u32 {
                    let cost = cost(1 + (turn + start) % 2, turn * start % 20);
                    let taken = own.take(cost) && {
                        let taken = root.take(cost);
                        if !taken {
                            own.give(cost);
                        }
                        taken
                    };
                    if taken {
                        running.push(cost);
                    } else {
                        running.drain(..).for_each(give);
                    }
                    let used = root.used();
                    if used.operations > 7 || used.payload > 50 {
                        over.store(true, Ordering::Relaxed);
                    }
                }
                running.drain(..).for_each(give);
                assert_eq!(own.used(), Used::default());
            });
        }
    });
    assert!(!over.into_inner(), "more was running than the root allows");
    assert_eq!(root.used(), Used::default());
}
