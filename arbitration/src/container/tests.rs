//! Tests of the guarantees to the user of a [`DiskSet`].

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use units::Nanos;

use super::order::Order;
use super::{DiskSet, Need, Predictor, Promise, Scheduler, SetRequest};
use crate::testing::MS;

fn at(ms: u64) -> Nanos {
    Nanos(ms * MS)
}

fn request(id: u32, stream: u32, lba: u64, deadline: Nanos) -> SetRequest {
    SetRequest { id, stream, lba, blocks: 8, deadline }
}

fn picks(set: &mut DiskSet, now: Nanos) -> Vec<u32> {
    std::iter::from_fn(|| set.pick(now)).collect()
}

/// Makes a set of two streams whose device takes 5 ms for a request.
fn set(scheduler: Scheduler) -> DiskSet {
    let mut set = DiskSet::new(scheduler, 64, 2);
    (0..100).for_each(|_| set.completed(5 * MS));
    set
}

const ALL: [Scheduler; 3] = [Scheduler::Vanilla, Scheduler::Batch(3), Scheduler::Containers];

#[test]
fn i3_far_deadlines_leave_the_order_to_the_blocks() {
    for scheduler in ALL {
        let mut set = set(scheduler);
        for (id, lba) in [(0, 500), (1, 900), (2, 100), (3, 700)] {
            assert!(set.insert(at(0), request(id, 0, lba, at(10_000))));
        }
        assert_eq!(set.pick(at(0)), Some(2));
        assert!(set.insert(at(0), request(4, 0, 50, at(10_000))), "behind the head by now");
        assert_eq!(picks(&mut set, at(0)), [0, 3, 1, 4], "{scheduler:?}: CSCAN");
    }
}

#[test]
fn i3_an_imminent_deadline_goes_first() {
    for scheduler in ALL {
        let mut set = set(scheduler);
        for (id, stream, lba, deadline) in [(0, 0, 100, 900), (1, 0, 200, 900), (2, 1, 300, 108)] {
            assert!(set.insert(at(0), request(id, stream, lba, at(deadline))));
        }
        assert_eq!(set.pick(at(90)), Some(0), "{scheduler:?}: there is time for another");
        let batch = matches!(scheduler, Scheduler::Batch(_));
        let next = if batch { [1, 2] } else { [2, 1] };
        assert_eq!(picks(&mut set, at(100)), next, "{scheduler:?}");
    }
}

#[test]
fn i3_a_batch_keeps_to_one_stream() {
    let mut set = set(Scheduler::Batch(3));
    for id in 0..8 {
        // All late, and in turns.
        assert!(set.insert(at(0), request(id, id % 2, u64::from(id) * 100, Nanos(u64::from(id)))));
    }
    assert_eq!(picks(&mut set, at(100)), [0, 2, 4, 1, 3, 5, 6, 7]);
}

/// Ends containers of 30 requests in 300 ms, ten times, and leaves an eleventh begun at 3 s.
fn taught() -> DiskSet {
    let mut set = set(Scheduler::Containers);
    for ms in (0..3000).step_by(10) {
        set.insert(at(ms), request(0, 0, 500, at(ms + 20)));
        assert_eq!(set.pick(at(ms)), Some(0));
        if ms % 300 == 290 {
            set.output(at(ms + 10), 0);
        }
    }
    set
}

#[test]
fn i2_first_two_thirds_of_container_are_postponed() {
    let mut set = taught();
    // Thirty requests at once, and one of another stream that lies before them, and leaves time.
    for id in 0..30 {
        set.insert(at(3000), request(id, 0, 1000 + u64::from(id) * 8, at(3020)));
    }
    set.insert(at(3000), request(40, 1, 600, at(3160)));
    assert_eq!(set.pick(at(3000)), Some(40), "the container's deadlines are not imminent");
    for id in 41..44 {
        set.insert(at(3005), request(id, 1, 600 + u64::from(id) * 8, at(3500)));
    }
    // 20 requests of 5 ms must be done at about 3210 ms, or there would be no safety zone: the
    // others, which lie before them, have to wait from 3105 ms on.
    assert_eq!(set.pick(at(3090)), Some(41), "there is time for another");
    let order: Vec<u32> = (0..20).filter_map(|n| set.pick(at(3105 + n * 5))).collect();
    assert_eq!(order, (0..20).collect::<Vec<_>>());
}

#[test]
fn i2_without_outputs_deadlines_stay_as_they_are() {
    let mut set = set(Scheduler::Containers);
    for id in 0..4 {
        set.insert(at(0), request(id, 0, 100 + u64::from(id), at(20)));
    }
    set.insert(at(0), request(9, 1, 50, at(500)));
    assert_eq!(set.pick(at(10)), Some(0), "due at 20 ms, with 5 ms for each request");
}

#[test]
fn i2_pause_postpones_deadlines_briefly() {
    let mut set = set(Scheduler::Containers);
    for round in 0..5 {
        // One request, an hour of nothing, another, and an output.
        for ms in [0, 3_600_000] {
            let now = at(round * 4_000_000 + ms);
            set.insert(now, request(0, 0, 100, now.after(20 * MS)));
            set.pick(now);
        }
        set.output(at(round * 4_000_000 + 3_600_001), 0);
    }
    let now = at(30_000_000);
    set.insert(now, request(0, 0, 100, now.after(20 * MS)));
    for id in 1..9 {
        set.insert(now, request(id, 1, 200, now.after(100_000 * MS)));
    }
    // Another stream keeps the head busy near it; five seconds is as long as it may take.
    for ms in 0..5000 {
        match set.pick(now.after(ms * MS)) {
            Some(0) => return,
            Some(id) => {
                let deadline = now.after(100_000 * MS);
                set.insert(now.after(ms * MS), request(id, 1, 200 + ms * 8 + 8, deadline));
            }
            None => panic!("something waits"),
        }
    }
    panic!("put off without end");
}

#[test]
fn i3_late_streams_are_served_in_ordered_runs() {
    let seeks = |order: &[u32]| order.windows(2).filter(|pair| pair[0] % 2 != pair[1] % 2).count();
    let (order, lba) = late_streams(false);
    assert!((2..=4).contains(&seeks(&order)), "runs of up to 9 of 24: {order:?}");
    let up = |pair: &&[u32]| pair[0] % 2 == pair[1] % 2 && lba(pair[1]) > lba(pair[0]);
    assert!(order.windows(2).filter(up).count() > 18, "upwards: {order:?}");
    let (order, _) = late_streams(true);
    assert!(seeks(&order) > 12, "by deadline where reservations are kept: {order:?}");
}

/// Returns the order in which two streams are served whose containers are all late, and the place of each
/// request.
fn late_streams(by_deadline: bool) -> (Vec<u32>, impl Fn(u32) -> u64) {
    let mut set = set(Scheduler::Containers);
    set.set_by_deadline(by_deadline);
    // Containers of 9 requests in 180 ms, as promised to both.
    for ms in (0..3600).step_by(20) {
        for stream in [0, 1] {
            set.insert(at(ms), request(stream, stream, 500, at(ms + 20)));
        }
        picks(&mut set, at(ms));
        if ms % 180 == 160 {
            (0..2).for_each(|stream| set.output(at(ms + 10), stream));
        }
    }
    // Both have more than a container, all of it late; the places go down as the ages go up.
    let lba = |id: u32| u64::from(id % 2) * 1_000_000 + u64::from(30 - id / 2) * 8;
    for id in 0..40 {
        assert!(set.insert(at(3600), request(id, id % 2, lba(id), at(3620))));
    }
    ((0..24).filter_map(|n| set.pick(at(6000 + n * 5))).collect(), lba)
}

#[test]
fn i3_need_counts_seeks_of_safety_zones() {
    // Seven requests in 125 ms: four together, three each on their own.
    let promise = Promise { requests: 7, every: 125 * MS, far: 9 * MS, near: 5 * MS };
    assert_eq!((promise.needed(), promise.least()), (408_000, 312_000));
    let two = Need::sum([promise; 2]);
    assert!(two.fits() && two.is_possible(), "{two:?}");
    let three = Need::sum([promise; 3]);
    assert!(!three.fits() && three.is_possible(), "{three:?}");
    let four = Need::sum([promise; 4]);
    assert!(!four.fits() && !four.is_possible(), "{four:?}");
    let one = Promise { requests: 1, ..promise };
    assert_eq!((one.needed(), one.least()), (72_000, 72_000));
    assert_eq!(Promise { requests: 0, ..promise }.needed(), 0);
    let endless = Promise { requests: u64::MAX, every: 0, far: u64::MAX, near: 1 };
    assert_eq!(Need::sum([endless; 2]).needed, u64::MAX, "no overflow");
}

#[test]
fn oversized_requests_are_rejected() {
    let mut set = set(Scheduler::Containers);
    assert!(!set.insert(at(0), request(64, 0, 0, at(1))), "64 requests fit: 0 to 63");
    assert!(!set.insert(at(0), request(0, 2, 0, at(1))), "two streams: 0 and 1");
    assert!(set.insert(at(0), request(0, 1, 0, at(1))));
    assert!(!set.insert(at(0), request(0, 0, 9, at(1))), "there already");
    assert!(!set.remove(1));
    assert_eq!((set.len(), picks(&mut set, at(0))), (1, vec![0]));
    assert!(set.is_empty() && !set.remove(0));
    set.output(at(1), 7);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(SetRequest),
    Remove(u32),
    Pick,
    Output(u32),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let request =
        (0..24_u32, 0..3_u32, 0..40_u64, 0..200_u64).prop_map(|(id, stream, lba, deadline)| {
            SetRequest { id, stream, lba: lba * 8, blocks: 8, deadline: at(deadline) }
        });
    prop_oneof![
        5 => request.prop_map(Step::Insert),
        1 => (0..24_u32).prop_map(Step::Remove),
        4 => Just(Step::Pick),
        1 => (0..3_u32).prop_map(Step::Output),
        2 => (0..20 * MS).prop_map(Step::Pass),
    ]
}

proptest! {
    #[test]
    fn nothing_is_lost_and_nothing_comes_twice(steps in vec(step(), 0..300), which in 0..3_usize) {
        let mut set = DiskSet::new(ALL[which], 24, 3);
        let mut held = BTreeSet::new();
        let mut now = Nanos::ZERO;
        for step in steps {
            match step {
                Step::Insert(request) => {
                    prop_assert_eq!(set.insert(now, request), held.insert(request.id));
                }
                Step::Remove(id) => prop_assert_eq!(set.remove(id), held.remove(&id)),
                Step::Output(stream) => set.output(now, stream),
                Step::Pass(time) => {
                    set.completed(time);
                    now = now.after(time);
                }
                Step::Pick => match set.pick(now) {
                    Some(id) => prop_assert!(held.remove(&id)),
                    None => prop_assert!(held.is_empty(), "work conserving"),
                },
            }
            prop_assert_eq!(set.len(), held.len());
        }
    }

    #[test]
    fn order_equals_sorted_set(steps in vec((0..50_u32, 0..30_u64, any::<bool>()), 0..200)) {
        let mut order = Order::new(50);
        let mut model = BTreeSet::new();
        let mut keys = [None; 50];
        for (slot, key, search) in steps {
            if search {
                let found = order.at_or_after((key, 0)).map(|(key, slot)| (key.0, slot));
                prop_assert_eq!(found, model.range((key, 0)..).next().copied());
            } else if let Some(key) = keys[slot as usize].take() {
                order.remove((key, slot));
                model.remove(&(key, slot));
            } else {
                keys[slot as usize] = Some(key);
                order.insert(slot, (key, slot));
                model.insert((key, slot));
            }
            let first = order.first().map(|(key, slot)| (key.0, slot));
            prop_assert_eq!(first, model.first().copied());
        }
    }

    #[test]
    fn i2_the_estimate_settles_on_the_size_itself(size in 1..1_000_000_u64) {
        let mut predictor = Predictor::default();
        prop_assert_eq!(predictor.mean(), None);
        (0..60).for_each(|_| predictor.add(size));
        let mean = predictor.mean().expect("something was measured");
        prop_assert!(mean >= size && mean <= 1 + size * 103 / 100, "{mean} for {size}");
    }
}

#[test]
fn i2_the_newest_container_counts_an_eighth() {
    let mut predictor = Predictor::default();
    (0..60).for_each(|_| predictor.add(800));
    predictor.add(1600);
    assert!(predictor.mean().is_some_and(|mean| (900..=930).contains(&mean)), "{predictor:?}");
    predictor.add(u64::MAX);
    assert!(predictor.mean().is_some_and(|mean| mean < 1 << 46), "no overflow");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A stream that always has waiting requests gets at least four fifths of its latency's
    /// promise, and a fourth of it from any output to the next, under any load of the others, as
    /// long as the device can do it. It loses the rest at most to streams whose containers are much
    /// shorter, or differ from the learnt ones.
    #[test]
    fn i3_no_stream_starves_between_two_outputs(
        outputs in vec(100..1500_u64, 3),
        depths in vec(2..20_u32, 3),
        places in vec(0..1000_u64, 64),
    ) {
        // 5 ms a request and one in 20 ms for each of three streams: 15 of 20 ms are promised.
        let mut set = DiskSet::new(Scheduler::Containers, 64, 3);
        let lba = |id: u32, round: u64| {
            let place = places[id as usize].wrapping_mul(round * 2 + 1) % 100_000;
            u64::from(id % 3) * 10_000_000 + place * 8
        };
        let enter = |set: &mut DiskSet, now: Nanos, id, round| {
            set.insert(now, request(id, id % 3, lba(id, round), now.after(20 * MS)));
        };
        for (stream, depth) in (0..3).zip(&depths) {
            (0..*depth).for_each(|n| enter(&mut set, at(0), n * 3 + stream, 0));
        }
        let (mut got, mut total) = ([0_u64; 3], [0_u64; 3]);
        for round in 1..6000 {
            let now = at(round * 5);
            let id = set.pick(now).expect("all have something waiting");
            set.completed(5 * MS);
            got[(id % 3) as usize] += 1;
            total[(id % 3) as usize] += 1;
            enter(&mut set, now, id, round);
            for stream in 0..3_u32 {
                let interval = outputs[stream as usize] / 5;
                if round % interval == 0 {
                    let promised = interval * 5 / 20;
                    let got = std::mem::take(&mut got[stream as usize]);
                    prop_assert!(got >= promised / 4, "{got} of {promised} to {stream} at {now:?}");
                    set.output(now, stream);
                }
            }
        }
        // One in 20 ms, over 30 s.
        prop_assert!(total.iter().all(|of| *of >= 1200), "{total:?} of 1500 each");
    }
}
