//! Tests of the unit of a share: commands, bytes or device time.

use super::*;
use crate::limit::Content;

const KIB: u64 = 1024;

/// Computes the amount of a source's command in a unit.
fn amount(world: &World, unit: Unit, index: usize) -> u64 {
    match unit {
        Unit::Commands => 1,
        Unit::Bytes => u64::from(world.sources[index].bytes.max(4096)),
        Unit::Time => world.time_of(index),
    }
}

/// Computes how much of each source was dispatched.
fn dispatched(world: &World, unit: Unit) -> Vec<u64> {
    let mut sums = vec![0; world.sources.len()];
    for id in &world.dispatched {
        let (index, _) = world.commands[usize::try_from(*id).unwrap()];
        sums[index] += amount(world, unit, index);
    }
    sums
}

/// Runs sources that all wait throughout. Returns how much of each went to the device.
fn contend(world: &mut World, unit: Unit, time_ns: u64) -> Vec<u64> {
    let before = dispatched(world, unit);
    world.run(time_ns);
    let after = dispatched(world, unit);
    after.iter().zip(&before).map(|(after, before)| after - before).collect()
}

fn order(unit: Unit) -> OrderSettings {
    let weights = Weights { high: 1, medium: 1, low: 1 };
    OrderSettings { weights, unit, ..OrderSettings::default() }
}

/// Makes two sources of two classes, or of two hosts of one class.
fn two(reactors: usize, classes: bool, sizes: [u32; 2]) -> Vec<Source> {
    let class = |index| if classes && index == 0 { Class::High } else { Class::Low };
    let of = |index: usize| Source {
        host: index as u64,
        bytes: sizes[index],
        ..source(index % reactors, class(index), 64)
    };
    vec![of(0), of(1)]
}

#[test]
fn equal_classes_and_hosts_get_equal_amounts() {
    const LARGE: u32 = 1 << 20;
    let sizes = [[4096, 4096], [4096, 131_072], [131_072, 131_072], [4096, LARGE], [LARGE, LARGE]];
    for unit in [Unit::Commands, Unit::Bytes] {
        for (reactors, classes, sizes) in sizes.into_iter().flat_map(|sizes| {
            [(1, true), (1, false), (2, true), (2, false)].map(|(r, c)| (r, c, sizes))
        }) {
            let list = two(reactors, classes, sizes);
            let mut world = World::new(reactors, fixed(64), order(unit), &[], list);
            (world.service_ns, world.ns_per_kib) = (10_000, 1000);
            // As much as 40 of the larger commands, or 400 where all commands count alike.
            let largest = u64::from(sizes[0].max(sizes[1]));
            let times = if unit == Unit::Bytes { 10 } else { 100 };
            let time = times * (largest / KIB * 1000 + 10_000);
            // The first commands go at once: nothing waits yet.
            let begun = world.now;
            world.run(time / 10);
            let got = contend(&mut world, unit, time);
            let name = format!("{unit:?}, {sizes:?}, {reactors} reactors, classes: {classes}");
            // A lead of 16 small commands and one of the largest, for each of the two.
            let largest = amount(&world, unit, 0).max(amount(&world, unit, 1));
            let small = if unit == Unit::Bytes { 4096 } else { 1 };
            let bound = 2 * (16 * small + largest) + 2 * (4 * small + largest);
            assert!(got[0].abs_diff(got[1]) <= bound, "{name}: {got:?}, {bound}");
            let took: u64 = (0..2).map(|index| world.done[index] * world.time_of(index)).sum();
            let part = took as f64 / (4 * world.now.ns_since(begun)) as f64;
            assert!(part >= 0.93, "{name}: the device is busy for {part} of the time");
        }
    }
}

#[test]
fn device_time_is_shared_by_size_and_direction() {
    // The sizes and directions of two sources.
    let kinds: [[(u32, bool); 2]; 5] = [
        [(4096, false), (1 << 20, true)],
        [(4096, false), (131_072, false)],
        [(4096, false), (4096, true)],
        [(131_072, true), (4096, false)],
        [(131_072, false), (131_072, false)],
    ];
    for (kinds, reactors, classes) in
        kinds.into_iter().flat_map(|kinds| [(kinds, 1, true), (kinds, 2, false)])
    {
        let mut list = two(reactors, classes, kinds.map(|(bytes, _)| bytes));
        for (source, (_, write)) in list.iter_mut().zip(kinds) {
            (source.write, source.depth) = (write, 0);
        }
        // Measurements before contention: reads and writes of 4 KiB, and of the sizes in use.
        let large = kinds.map(|(bytes, _)| bytes).into_iter().max().unwrap().max(131_072);
        let kinds_alone = [(4096, false), (large, false), (4096, true), (large, true)];
        for (index, (bytes, write)) in kinds_alone.into_iter().enumerate() {
            let host = 10 + index as u64;
            list.push(Source { host, bytes, write, ..source(0, Class::Low, 0) });
        }
        let mut world = World::new(reactors, fixed(4), order(Unit::Time), &[], list);
        (world.service_ns, world.ns_per_kib, world.write_ns) = (50_000, 2000, 150_000);
        for index in 2..6 {
            world.resume(index, 16);
            world.run(400_000_000);
            world.sources[index].depth = 0;
            world.run(20_000_000);
        }
        // The costs are taken from the profile about once a second.
        world.run(1_100_000_000);
        world.resume(0, 64);
        world.resume(1, 64);
        let got = contend(&mut world, Unit::Time, 500_000_000);
        let name = format!("{kinds:?}, {reactors} reactors, classes: {classes}");
        assert_close(&name, got[0] as f64 / got[1] as f64, 1.0, 0.1);
    }
}

/// A Flush takes long and Write Zeroes is done at once: neither shows the cost of a read or a
/// write.
#[test]
fn commands_that_move_no_data_change_no_profile() {
    let sessions = Sessions::new(&ROOT);
    let rules = DeviceRules { window: fixed(4), ..DeviceRules::default() };
    let device = Arc::new(Device::new(rules, 1));
    let mut arbiter = arbiters(1, &order(Unit::Time), &device).remove(0);
    let flow = arbiter.flow(DEVICE, sessions.root(), HostId(1)).unwrap();
    let mut now = Nanos(1 << 31);
    let mut run = |submission: Submission<u64>, count, ns| {
        for passes in (0..count).map(|number| number % 2 == 0) {
            let grant = if passes {
                arbiter.pass(now, flow, &submission).unwrap()
            } else {
                arbiter.enqueue(now, flow, Class::Low, submission).unwrap();
                arbiter.dispatch(now, DEVICE).unwrap().grant
            };
            now = now.after(ns);
            arbiter.complete(now, grant, true);
        }
    };
    let moving = |write, bytes| Submission::of_host(0, write, bytes);
    run(moving(false, 4096), 200, 100_000);
    run(moving(true, 4096), 200, 200_000);
    let before = device.profile().unwrap();
    let still = |write, bytes| Submission { content: Content::Nothing, ..moving(write, bytes) };
    run(still(false, 0), 1000, 10_000_000);
    run(moving(false, 0), 1000, 10_000_000);
    run(still(true, 1 << 20), 1000, 5000);
    run(still(true, 4096), 1000, 5000);
    run(moving(false, 4096), 200, 100_000);
    assert_eq!(device.profile().unwrap(), before);
}

#[test]
fn bytes_count_where_a_device_has_no_profile() {
    let list = two(1, true, [4096, 131_072]);
    let mut world = World::new(1, fixed(8), order(Unit::Time), &[], list);
    // The commands of less than the second after which the costs are taken anew.
    world.now = Nanos(1 << 31);
    let got = contend(&mut world, Unit::Bytes, 500_000_000);
    assert_close("bytes", got[0] as f64 / got[1] as f64, 1.0, 0.02);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Four hosts of one class, or of two classes, that join and leave: when all of them wait, they
    /// have equal parts in the unit, after any history.
    #[test]
    fn earlier_membership_changes_no_share(
        unit in prop::sample::select(vec![Unit::Commands, Unit::Bytes]),
        sizes in prop::array::uniform4(prop::sample::select(vec![512, 4096, 131_072, 1 << 20])),
        reactors in 1..=2_usize,
        classes in any::<bool>(),
        steps in prop::collection::vec((0..4_usize, 1_u64..3_000_000), 0..12),
    ) {
        let of = |index: usize| Source {
            host: index as u64,
            bytes: sizes[index],
            ..source(index % reactors, if classes && index < 2 { Class::High } else { Class::Low }, 0)
        };
        let mut world = World::new(reactors, fixed(8), order(unit), &[], (0..4).map(of).collect());
        (world.service_ns, world.ns_per_kib) = (10_000, 20);
        for (index, ns) in steps {
            if world.sources[index].depth == 0 {
                world.resume(index, 32);
            } else {
                world.sources[index].depth = 0;
            }
            world.run(ns);
        }
        for index in 0..4 {
            if world.sources[index].depth == 0 {
                world.resume(index, 32);
            }
        }
        let got = contend(&mut world, unit, 8_000_000);
        let largest = (0..4).map(|index| amount(&world, unit, index)).max().unwrap();
        let small = if unit == Unit::Bytes { 4096 } else { 1 };
        // For each host its part of its class's and its reactor's lead, and a turn.
        let bound = 2 * (16 * small + largest) + 2 * (16 * small + largest) + 2 * (4 * small + largest);
        let (least, most) = (got.iter().min().unwrap(), got.iter().max().unwrap());
        prop_assert!(most - least <= bound, "{got:?}, {bound}");
    }
}
