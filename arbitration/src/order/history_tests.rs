//! Tests that earlier use leaves no debt: after any history, each waiting host has its share.

use proptest::prelude::*;
use units::Nanos;

use super::super::fairness::{Fairness, WHOLE};
use super::*;
use crate::reservation::Profile;

/// The costs of commands of 4, 32 and 128 KiB and of 1 MiB where bytes count.
const COSTS: [u32; 4] = [COST, 8 * COST, 32 * COST, 256 * COST];

/// A time during which the same commands wait: for each reactor the set of what waits there, the order in
/// which they begin, and the number of commands that the device takes.
type Phase = ([u8; 3], u64, usize);

fn phases() -> impl Strategy<Value = Vec<Phase>> {
    prop::collection::vec((any::<[u8; 3]>(), any::<u64>(), 0..3000_usize), 1..8)
}

proptest! {
    #[test]
    fn e5_classes_that_wait_have_their_shares_whatever_was_before(
        phases in phases(),
        reactors in 1..=3_usize,
        weights in prop::array::uniform3(1..=16_u8),
        sizes in 1..=COSTS.len(),
    ) {
        let costs = &COSTS[..sizes];
        let largest = u64::from(costs[sizes - 1]);
        let bound = 32 * u64::from(COST) + 2 * largest;
        let classes = [Class::High, Class::Medium, Class::Low];
        let [high, medium, low] = weights.map(u16::from);
        let weights = Weights { high, medium, low };
        let pace = Pace::new(&OrderSettings { weights, ..OrderSettings::default() });
        let clock = ClassClock::new(Sharing::Several);
        let mut waiting = [0_u8; 3];
        for (sets, seed, commands) in phases {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut changes: Vec<(usize, Class)> =
                (0..reactors).flat_map(|reactor| classes.map(|class| (reactor, class))).collect();
            random.shuffle(&mut changes);
            for (reactor, class) in changes {
                match (waiting[reactor] & bit(class) != 0, sets[reactor] & bit(class) != 0) {
                    (false, true) => clock.begins(class),
                    (true, false) => clock.ends(class),
                    _ => continue,
                }
                waiting[reactor] ^= bit(class);
            }
            let mut served = PerClass::from_fn(|_| 0_u64);
            for _ in 0..commands {
                let reactor = random.usize(..reactors);
                if let Some(class) = clock.pick(waiting[reactor], None) {
                    let cost = costs[random.usize(..sizes)];
                    served[class] += u64::from(cost);
                    clock.charge(&pace, class, cost);
                }
            }
            let all = waiting.iter().fold(0, |all, set| all | set);
            let present = classes.iter().filter(|class| all & bit(**class) != 0);
            let total: u64 = present.clone().map(|class| served[*class]).sum();
            let sum: u64 = present.clone().map(|class| weight(&weights, *class)).sum();
            for class in present {
                let weight = weight(&weights, *class);
                let off = (served[*class] * sum).abs_diff(total * weight);
                let most = (bound * weight + 2 * largest) * sum;
                prop_assert!(off <= most, "{class:?} of {served:?}, {weights:?}");
            }
        }
    }

    #[test]
    fn d5_reactors_that_wait_have_like_parts_whatever_was_before(
        phases in phases(),
        sizes in 1..=COSTS.len(),
    ) {
        let costs = &COSTS[..sizes];
        let bound = 32 * u64::from(COST) + 4 * u64::from(costs[sizes - 1]);
        let fairness = Fairness::new(3);
        let mut waiting = 0_u8;
        for ([set, ..], seed, commands) in phases {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut changes = [0_u32, 1, 2];
            random.shuffle(&mut changes);
            for reactor in changes {
                match (waiting >> reactor & 1, set >> reactor & 1) {
                    (0, 1) => fairness.begins(Class::Low, reactor),
                    (1, 0) => fairness.ends(Class::Low, reactor),
                    _ => continue,
                }
                waiting ^= 1 << reactor;
            }
            let mut served = [0_u64; 3];
            for _ in 0..commands {
                let reactor = random.u32(..3);
                if waiting >> reactor & 1 == 1 && fairness.may(Class::Low, reactor, WHOLE) {
                    let cost = costs[random.usize(..sizes)];
                    served[reactor as usize] += u64::from(cost);
                    fairness.charge(Class::Low, reactor, cost, WHOLE);
                }
            }
            let (total, present) = (served.iter().sum::<u64>(), u64::from((waiting & 7).count_ones()));
            for (reactor, served) in served.iter().enumerate().filter(|(r, _)| waiting >> r & 1 == 1) {
                let off = (served * present).abs_diff(total);
                prop_assert!(off <= bound * present, "reactor {reactor}: {served} of {total}");
            }
        }
    }
}

#[test]
fn commands_without_data_have_least_cost() {
    let pace = |unit| Pace::new(&OrderSettings { unit, ..OrderSettings::default() });
    let zeroes = CommandKind { write: true, bytes: 1 << 20, has_data: false };
    let verify = CommandKind { write: false, ..zeroes };
    let write = CommandKind { has_data: true, ..zeroes };
    let small = CommandKind { bytes: 512, ..write };
    let times = DeviceTimes::default();
    for unit in [Unit::Bytes, Unit::Time] {
        let costs = [zeroes, verify, write, small].map(|kind| pace(unit).cost_at(&times, kind));
        assert_eq!(costs, [COST, 256 * COST, 256 * COST, COST], "{unit:?}, without a profile");
    }
    times.refresh(Nanos(1), || Some(Profile::of_device(Nanos(128_000), Nanos(1_280_000), 1000, 1)));
    assert_eq!(pace(Unit::Bytes).cost_at(&times, zeroes), COST);
    assert_eq!(pace(Unit::Time).cost_at(&times, zeroes), COST + 1020 * 2);
    assert_eq!(pace(Unit::Commands).cost_at(&times, write), COST);
}
