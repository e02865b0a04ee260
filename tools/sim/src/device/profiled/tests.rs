use proptest::prelude::*;
use units::{Class, Nanos};

use super::super::interface::{Device as _, Kind, Request};
use super::*;

fn request(id: u64, kind: Kind, length: u64) -> Request {
    Request { id, kind, offset: 0, length, class: Class::Low }
}

/// Keeps `depth` requests outstanding. Returns their times, and the time from the first to the last end.
fn closed(
    device: &mut Profiled,
    kind: Kind,
    bytes: u64,
    depth: u64,
    count: u64,
) -> (Vec<f64>, f64) {
    let mut begun = std::collections::HashMap::new();
    let mut submit = |device: &mut Profiled, now, id| {
        begun.insert(id, now);
        device.submit(now, request(id, kind, bytes));
    };
    (0..depth).for_each(|id| submit(device, Nanos::ZERO, id));
    let (mut next, mut ended, mut done) = (depth, Vec::new(), Vec::new());
    while let Some(at) = device.next().filter(|_| (ended.len() as u64) < count) {
        device.advance(at, &mut done);
        for (at, id) in done.drain(..) {
            ended.push((at, id));
            submit(device, at, next);
            next += 1;
        }
    }
    let times = ended.iter().map(|(at, id)| at.ns_since(begun[id]) as f64).collect();
    (times, ended.last().unwrap().0.0 as f64)
}

/// Measures a kind of a device, as `sluice sim profile` does it.
fn measured(settings: &Settings, kind: Kind) -> KindMeasured {
    let device = || Profiled::new(settings.clone(), 7);
    let (mut times, _) = closed(&mut device(), kind, 4096, 1, 4000);
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    times.sort_by(f64::total_cmp);
    let at = |permille: usize| times[(times.len() - 1) * permille / 1000];
    let points = [(0.0, 0), (0.5, 500), (0.9, 900), (0.99, 990), (1.0, 1000)];
    let points = points.map(|(part, permille)| (part, at(permille))).to_vec();
    let rate = |bytes: u64| {
        let depth = u64::from(settings.parallelism) * 4;
        let count = depth * 200;
        let (_, ns) = closed(&mut device(), kind, bytes, depth, count);
        Saturated { kib: bytes as f64 / 1024.0, per_second: count as f64 / ns * 1e9 }
    };
    KindMeasured { alone: Alone { mean, points }, small: rate(4096), large: Some(rate(65_536)) }
}

/// The settings of a device whose reads take as long as its writes.
fn alike(parallelism: u32, times: Times) -> Settings {
    Settings { parallelism, read: times.clone(), write: times }
}

#[test]
fn commands_wait_for_a_server_in_order_of_arrival() {
    let times = Times::new(vec![(0.0, 100.0), (1.0, 100.0)], 10.0, 0.0).unwrap();
    let mut device = Profiled::new(alike(2, times), 1);
    (0..3).for_each(|id| device.submit(Nanos(0), request(id, Kind::Read, 4096)));
    device.submit(Nanos(0), request(3, Kind::Read, 8192));
    let mut done = Vec::new();
    device.advance(Nanos(1000), &mut done);
    // The fourth has four KiB more.
    assert_eq!(done, [(Nanos(100), 0), (Nanos(100), 1), (Nanos(200), 2), (Nanos(240), 3)]);
}

#[test]
fn a_write_in_a_buffer_is_complete_before_its_server_is_free() {
    let read = Times::about(100.0, 0.0).unwrap();
    let write = Times::new(vec![(0.0, 20.0), (1.0, 20.0)], 0.0, 500.0).unwrap();
    let mut device = Profiled::new(Settings { parallelism: 1, read, write }, 1);
    (0..2).for_each(|id| device.submit(Nanos(0), request(id, Kind::Write, 4096)));
    let mut done = Vec::new();
    device.advance(Nanos(1000), &mut done);
    assert_eq!(done, [(Nanos(20), 0), (Nanos(520), 1)]);
}

#[test]
fn the_seed_decides_everything() {
    let settings = alike(4, Times::about(1e5, 30.0).unwrap());
    let run = |seed| closed(&mut Profiled::new(settings.clone(), seed), Kind::Read, 4096, 8, 500);
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_cached_write_has_its_time_and_its_rate() {
    let read = Times::about(1e5, 0.0).unwrap();
    let write = Times::new(vec![(0.0, 1e4), (1.0, 1.2e4)], 0.0, 4e5).unwrap();
    let settings = Settings { parallelism: 8, read, write };
    let (read, mut write) = (measured(&settings, Kind::Read), measured(&settings, Kind::Write));
    // A lone command whose predecessor keeps the only server would wait; of eight one is free.
    write.alone = Alone { mean: 1.1e4, points: vec![(0.0, 1e4), (1.0, 1.2e4)] };
    let fitted = fit(Some(&read), Some(&write)).unwrap();
    assert_eq!(fitted.parallelism, 8);
    assert!((fitted.write.mean() / 1.1e4 - 1.0).abs() < 0.01, "{fitted:?}");
    assert!((fitted.write.held() / 4e5 - 1.0).abs() < 0.02, "{fitted:?}");
}

#[test]
fn measurements_of_no_device_are_refused() {
    let kind = measured(&alike(2, Times::about(1e5, 0.0).unwrap()), Kind::Read);
    assert_eq!(fit(None, None), Err(FitError::Nothing));
    let mut idle = kind.clone();
    idle.small.per_second = 0.0;
    assert_eq!(fit(Some(&idle), None), Err(FitError::Zero));
    let mut wide = kind.clone();
    wide.small.per_second *= 1e4;
    assert_eq!(fit(None, Some(&wide)), Err(FitError::Wide));
    let mut odd = kind;
    odd.alone.points.reverse();
    assert_eq!(fit(Some(&odd), None), Err(FitError::Times(TimesError::Ends)));
    let falls = Times::new(vec![(0.0, 9.0), (0.5, 3.0), (1.0, 10.0)], 0.0, 0.0);
    assert_eq!(falls, Err(TimesError::Order));
    assert_eq!(Times::about(0.0, 0.0), Err(TimesError::Range));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A profile that is measured of a device gives the same device back.
    #[test]
    fn what_is_fitted_to_a_device_is_that_device(
        parallelism in 1_u32..40,
        mean in 2e4..5e6,
        tail in 1.0..3.0,
        per_kib in 0.0..0.2,
        write in 0.5..2.0,
    ) {
        let times = |mean: f64| {
            let points = vec![(0.0, mean * 0.9), (0.9, mean), (1.0, mean * tail)];
            Times::new(points, mean * per_kib, 0.0).unwrap()
        };
        let device = Settings { parallelism, read: times(mean), write: times(mean * write) };
        let (reads, writes) = (measured(&device, Kind::Read), measured(&device, Kind::Write));
        let fitted = fit(Some(&reads), Some(&writes)).unwrap();
        prop_assert_eq!(fitted.parallelism, parallelism);
        for (is, was) in [(&fitted.read, &device.read), (&fitted.write, &device.write)] {
            let near = |is: f64, was: f64, part: f64| (is - was).abs() <= part * was.max(1.0);
            prop_assert!(near(is.mean(), was.mean(), 0.05), "{is:?} {was:?}");
            prop_assert!(near(is.longest(), was.longest(), 0.1), "{is:?} {was:?}");
            prop_assert!((is.per_kib() - was.per_kib()).abs() < 0.01 * was.mean(), "{is:?} {was:?}");
            prop_assert!(is.held() <= 0.0, "{is:?}");
        }
        // The device that was fitted does as much in a second.
        let again = measured(&fitted, Kind::Read);
        prop_assert!((again.small.per_second / reads.small.per_second - 1.0).abs() < 0.03);
    }
}
