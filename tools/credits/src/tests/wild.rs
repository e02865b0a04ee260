//! Segments with arbitrary content.

use proptest::prelude::*;

use super::*;
use crate::layout::{SPOTS, State};

/// Values at which something may go wrong, or any.
fn value() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), Just(u64::MAX - 1), Just(1 << 48), 0..20_u64, any::<u64>()]
}

fn fill(shared: &Shared, values: &[u64]) {
    let mut values = values.iter().copied().cycle();
    let mut next = || values.next().unwrap();
    let header = &shared.header;
    let words = [&header.operations, &header.payload, &header.expiry, &header.used_slots];
    words.into_iter().chain([&header.sequence]).for_each(|word| word.store(next()));
    for index in (0..5).chain([511]) {
        let (slot, spots) = shared.slot(seat(index)).unwrap();
        let words = [&slot.operations, &slot.payload, &slot.spots, &slot.process, &slot.taken];
        words.into_iter().for_each(|word| word.store(next()));
        for spot in spots {
            let mut half = || u32::try_from(next() >> 32).unwrap();
            let cost = cost(half(), half());
            spot.describe(next(), cost);
            spot.state.store(State(next()).0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 8))]
    #[test]
    fn d6_wild_words_neither_panic_nor_block(
        values in proptest::collection::vec(value(), 37),
        operations in any::<u32>(),
        payload in any::<u32>(),
    ) {
        let shared = segment(4, 100, 2);
        fill(&shared, &values);
        let cost = cost(operations, payload);
        let now = Nanos(values[2].saturating_sub(5));
        shared.take(seat(0), cost, now);
        shared.give(seat(0), cost);
        for spot in 0..u32::try_from(SPOTS).unwrap() {
            shared.enqueue(seat(511), number(spot), cost);
            shared.settle(seat(511), number(spot), cost, now);
            shared.leave(seat(511), number(spot));
        }
        shared.wake_all();
        shared.header.name();
        // An agent that reclaims all slots and sets its values again makes the segment usable.
        (0..5).chain([511]).for_each(|index| shared.clear(seat(index)));
        shared.header.used_slots.store(512);
        shared.header.set_caps(Caps { operations: 1, payload: 100 });
        shared.header.extend(START, Duration::from_millis(1));
        assert_free(&shared);
        assert!(shared.take(seat(3), Cost { operations: 1, payload: 100 }, START));
        assert!(!shared.take(seat(4), Cost { operations: 1, payload: 0 }, START));
    }
}
