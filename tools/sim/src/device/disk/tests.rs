use std::time::Duration;

use fastrand::Rng;
use proptest::prelude::*;
use units::Class;

use super::*;

const MS: u64 = 1_000_000;

/// Returns the mean and the worst time of a small command, ns.
fn times(of: &Settings) -> (u64, u64) {
    let (mean, worst) = of.profile();
    (nanos(mean), nanos(worst))
}

fn disk() -> Disk {
    Disk::sata_7200(1)
}

/// Measures the mean time of `count` reads of 4 KiB at places that `place` chooses, each right
/// after the one before.
fn mean(disk: &mut Disk, count: u64, mut place: impl FnMut(u64) -> u64) -> u64 {
    let mut now = Nanos::ZERO;
    for index in 0..count {
        now = now.after(disk.service(now, place(index), 8, false));
    }
    now.0 / count
}

#[test]
fn it_is_as_large_and_as_fast_as_its_maker_says() {
    let mut disk = disk();
    let sectors = disk.sectors();
    assert!(sectors.abs_diff(976_773_168) < 9_767_731, "{sectors} sectors");
    let mut random = Rng::with_seed(7);
    let time = mean(&mut disk, 20_000, |_| random.below(sectors));
    let (expected, worst) = times(&Settings::default());
    // A data sheet's mean seek is over random cylinders; more sectors are at the edge.
    assert!(time.abs_diff(expected) < MS / 2, "{time} beside {expected}");
    assert!(worst > 25 * MS && worst < 27 * MS);
    let start = disk.free_at;
    let mut now = start;
    for index in 0..1000 {
        now = now.after(disk.service(now, index * 2048, 2048, false));
    }
    let rate = 1000 * 2048 * 512 * 1000 / (now.ns_since(start) / MS);
    assert!((115_000_000..140_000_000).contains(&rate), "{rate} bytes per second at the edge");
}

#[test]
fn no_command_is_faster_than_the_fastest() {
    let quick = Settings {
        seek_min: Duration::ZERO,
        head_switch: Duration::ZERO,
        settle_spread: Duration::ZERO,
        overhead: Duration::ZERO,
        ..Settings::default()
    };
    for settings in [Settings::default(), quick] {
        let fastest = nanos(settings.fastest(8));
        let mut disk = Disk::new(settings, 2).unwrap();
        let (mut random, mut now, mut place, mut least) =
            (Rng::with_seed(5), Nanos::ZERO, 0, u64::MAX);
        for _ in 0..20_000 {
            // Most reads go on where the last one ended, and some of these find all of it in the buffer.
            place =
                if random.below(10) == 0 { random.below(disk.sectors() - 8) } else { place + 8 };
            let time = disk.service(now, place, 8, false);
            least = least.min(time);
            now = now.after(time + random.below(MS));
        }
        assert!(least >= fastest, "{least} ns, and {fastest}");
        assert!(least < fastest + fastest / 10, "the bound is near: {least} ns, and {fastest}");
    }
}

#[test]
fn no_command_takes_longer_than_the_worst_case() {
    let mut disk = disk();
    let (mut random, (_, worst)) = (Rng::with_seed(3), times(&Settings::default()));
    let mut now = Nanos::ZERO;
    for _ in 0..20_000 {
        let write = random.below(2) == 0;
        let time = disk.service(now, random.below(disk.sectors()), 8, write);
        assert!(time <= worst + MS / 10, "{time}");
        now = now.after(time + random.below(MS));
    }
}

#[test]
fn near_is_quicker_than_far_and_next_is_quickest() {
    let sectors = |bytes: u64| bytes / 512;
    let mut random = Rng::with_seed(5);
    let mut within = |bytes| random.below(sectors(bytes));
    let near = mean(&mut disk(), 5000, |_| within(128 << 20));
    let far = mean(&mut disk(), 5000, |index| sectors(32 << 30) * (index % 2) + within(128 << 20));
    let next = mean(&mut disk(), 5000, |index| index * 8);
    assert!(near > 4 * MS && near < 6 * MS, "{near}");
    assert!(far > near + 2 * MS && far < 10 * MS, "{far}");
    assert!(next < MS / 4, "{next}");
}

#[test]
fn the_seed_decides_everything() {
    let run = |seed| {
        let mut disk = Disk::sata_7200(seed);
        mean(&mut disk, 100, |index| index * 7_919_777 % 900_000_000)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn sectors_beyond_the_end_are_not_read() {
    let mut disk = disk();
    let (_, worst) = times(&Settings::default());
    assert!(disk.service(Nanos::ZERO, u64::MAX, u32::MAX, true) <= worst);
}

#[test]
fn requests_wait_for_the_arm_in_order_of_arrival() {
    let mut disk = disk();
    let request = |id, kind, offset| Request { id, kind, offset, length: 4096, class: Class::Low };
    disk.submit(Nanos::ZERO, request(1, Kind::Write, 400 << 30));
    disk.submit(Nanos::ZERO, request(2, Kind::Read, 0));
    disk.submit(Nanos::ZERO, request(3, Kind::Flush, 0));
    disk.submit(Nanos::ZERO, request(4, Kind::Deallocate, 0));
    let mut done = Vec::new();
    disk.advance(Nanos(100 * MS), &mut done);
    let order: Vec<u64> = done.iter().map(|(_, id)| *id).collect();
    assert_eq!(order, [4, 1, 2, 3], "{done:?}");
    let [_, first, second, flush] = &done[..] else { panic!("four requests") };
    assert!(second.0.ns_since(first.0) > 5 * MS, "the arm goes all the way back: {done:?}");
    assert_eq!(flush.0, second.0);
    assert_eq!(disk.next(), None);
}

#[test]
fn what_cannot_be_names_its_key_and_what_it_may_be() {
    let ms = core::time::Duration::from_millis;
    let source = Settings::default();
    for (settings, key, says) in [
        (Settings { rpm: 0, ..source }, "rpm", "7200"),
        (Settings { cylinders: 0, ..source }, "cylinders", "264000"),
        (Settings { heads: 65, ..source }, "heads", "1 to 64"),
        (Settings { outer_sectors: 0, ..source }, "outer_sectors", "2278"),
        (Settings { inner_sectors: 2279, ..source }, "inner_sectors", "`outer_sectors`"),
        (Settings { zones: 0, ..source }, "zones", "`cylinders`"),
        (Settings { read_ahead: u32::MAX, ..source }, "read_ahead", "512 MiB"),
        (Settings { seek_mean: ms(18), ..source }, "seek_mean", "`seek_max`"),
        (Settings { seek_min: ms(9), ..source }, "seek_min", "`seek_mean`"),
        (Settings { overhead: ms(1001), ..source }, "overhead", "1 s"),
    ] {
        let error = Disk::new(settings, 1).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(&format!("`{key}`")) && error.contains(says), "{error}");
    }
    assert_eq!(source.check(), Ok(()));
}

proptest! {
    /// Any valid disk serves any request within its worst case, a head switch and a revolution.
    #[test]
    fn any_disk_serves_within_its_worst_case(
        (rpm, heads, zones) in (1000_u32..=30_000, 1_u32..=64, 1_u32..=1000),
        cylinders in 1000_u32..=10_000_000,
        (inner, more) in (1_u32..=50_000, 0_u32..=50_000),
        seeks in prop::array::uniform3(0_u64..=333_000_000),
        others in prop::array::uniform4(0_u64..=1_000_000_000),
        commands in prop::collection::vec((any::<u64>(), any::<bool>()), 1..20),
    ) {
        let ns = core::time::Duration::from_nanos;
        let [one, two, three] = seeks;
        let settings = Settings {
            rpm, cylinders, heads, zones, inner_sectors: inner, outer_sectors: inner + more,
            seek_min: ns(one), seek_mean: ns(one + two), seek_max: ns(one + two + three),
            head_switch: ns(others[0]), write_settle: ns(others[1]),
            settle_spread: ns(others[2]), overhead: ns(others[3]), read_ahead: 1024,
        };
        let mut disk = Disk::new(settings, 1).unwrap();
        let (_, worst) = times(&settings);
        // A switch of surfaces counts in no seek, and a sector passes.
        let most = worst + others[0] + settings.revolution();
        let mut now = Nanos::ZERO;
        for (place, write) in commands {
            let took = disk.service(now, place % disk.sectors(), 1, write);
            prop_assert!(took <= most, "{took} ns, at most {most}");
            now = now.after(took);
        }
    }
}
