use units::Nanos;

use crate::reservation::profiler::{BEAT_SHIFT, FADE};
use crate::reservation::{Occupancy, Overrides, Probe, Profile, Profiler};

const NONE: Overrides = Overrides { mean: None, worst: None, parallelism: None, seeks: false };

/// A device with `channels`, each of which takes `ns` for a command and `per_kib` ns for each
/// KiB beyond 4. Keeps `depth` commands in it until `count` have completed.
struct Model {
    channels: u64,
    ns: u64,
    per_kib: u64,
    now: u64,
}

impl Model {
    fn run(&mut self, profiler: &Profiler, depth: u32, count: u64, write: bool, bytes: u32) {
        let work = self.ns + self.per_kib * u64::from(bytes >> 10).saturating_sub(4);
        let busy = self.channels.min(depth.into());
        for _ in 0..count {
            // In the steady state one completes every work/busy, and each waits its turn.
            self.now += work / busy;
            let in_device = work * u64::from(depth) / busy;
            let dispatched = Nanos(self.now - in_device.min(self.now));
            profiler.record(Nanos(self.now), write, bytes, dispatched, Occupancy::steady(depth));
        }
    }
}

fn model(channels: u64, ns: u64) -> Model {
    Model { channels, ns, per_kib: 800, now: 1 << 32 }
}

#[test]
fn f1_it_finds_the_mean_share_and_the_parallelism() {
    for (channels, ns) in [(1, 5_000_000), (4, 100_000), (16, 80_000)] {
        let (profiler, mut device) = (Profiler::new(&NONE), model(channels, ns));
        for depth in [1, 32, 128] {
            device.run(&profiler, depth, 500, false, 4096);
        }
        let found = profiler.profile(&NONE).expect("measured");
        assert_eq!(u64::from(found.parallelism), channels);
        let share = ns / channels;
        assert!(found.mean(false, 4096).abs_diff(share) <= share / 100, "{found:?}");
        assert_eq!(found.write, found.read, "writes were not seen");
    }
}

#[test]
fn f1_bursts_reveal_mean_share_and_parallelism() {
    for (channels, burst) in [(1_u64, 16_u64), (1, 64), (4, 24), (16, 64)] {
        let (profiler, mut device) = (Profiler::new(&NONE), model(channels, 100_000));
        device.run(&profiler, 1, 100, false, 4096);
        let mut charged = 0;
        for _ in 0..100 {
            let begin = Nanos(device.now);
            for n in 1..=burst {
                let now = begin.after(device.ns * n.div_ceil(channels));
                let [at_begin, at_end] = [n, burst + 1 - n].map(|n| u32::try_from(n).unwrap());
                let occupancy = Occupancy { at_begin, at_end };
                charged += profiler.record(now, false, 4096, begin, occupancy);
            }
            device.now += device.ns * (burst.div_ceil(channels) + 1);
        }
        let found = profiler.profile(&NONE).expect("measured");
        let share = device.ns / channels;
        assert!(found.mean(false, 4096).abs_diff(share) <= share / 3, "{channels}: {found:?}");
        assert!(u64::from(found.parallelism).abs_diff(channels) <= channels / 4, "{found:?}");
        let took = share * burst * 100;
        assert!(charged.abs_diff(took) <= took / 3, "{channels}: charged {charged} ns of {took}");
    }
}

#[test]
fn f1_large_commands_reveal_cost_per_kib() {
    let (profiler, mut device) = (Profiler::new(&NONE), model(4, 100_000));
    device.run(&profiler, 1, 100, true, 4096);
    device.run(&profiler, 64, 500, true, 4096);
    device.run(&profiler, 64, 500, true, 131_072);
    let found = profiler.profile(&NONE).unwrap();
    assert!(found.per_kib.write.abs_diff(200) <= 2, "{found:?}");
    let expected = (100_000 + 1020 * 800) / 4;
    assert!(found.mean(true, 1 << 20).abs_diff(expected) <= expected / 50);
}

#[test]
fn f1_mixed_sizes_preserve_profile() {
    let (profiler, mut device) = (Profiler::new(&NONE), model(4, 100_000));
    device.run(&profiler, 1, 100, false, 4096);
    device.run(&profiler, 64, 500, false, 4096);
    device.run(&profiler, 64, 500, false, 131_072);
    let before = profiler.profile(&NONE);
    for _ in 0..5000 {
        // In one queue all wait for the same time.
        for bytes in [4096, 131_072] {
            device.now += 40_000;
            let dispatched = Nanos(device.now - 64 * 40_000);
            profiler.record(Nanos(device.now), false, bytes, dispatched, Occupancy::steady(64));
        }
    }
    let (before, after) = (before.unwrap(), profiler.profile(&NONE).unwrap());
    assert!(after.mean(false, 4096) <= before.mean(false, 4096) * 9 / 8, "{after:?}");
    let per_kib = before.per_kib.read;
    assert!(after.per_kib.read >= per_kib - per_kib / 4, "{after:?}, {before:?}");
}

#[test]
fn f1_only_large_commands_do_for_their_own_size() {
    let (profiler, mut device) = (Profiler::new(&NONE), model(1, 100_000));
    device.run(&profiler, 4, 500, false, 131_072);
    let (found, expected) = (profiler.profile(&NONE).unwrap(), 100_000 + 124 * 800);
    assert!(found.mean(false, 131_072).abs_diff(expected) <= expected / 50, "{found:?}");
}

#[test]
fn f1_the_worst_time_is_remembered_for_a_while() {
    let four = Overrides { parallelism: Some(4), ..NONE };
    let (profiler, mut device) = (Profiler::new(&four), model(4, 100_000));
    device.run(&profiler, 8, 500, false, 4096);
    assert_eq!(profiler.probe(Nanos(0)), Probe::NONE, "the parallelism is configured");
    let (now, hiccup) = (Nanos(device.now), Nanos(device.now - 10_000_000));
    let share = profiler.record(now, false, 512, hiccup, Occupancy::steady(1));
    assert_eq!(share, 2_500_000, "a lone command holds one of four channels");
    assert_eq!(profiler.profile(&NONE).unwrap().read.worst, Nanos(2_500_000));
    device.now += (2 * FADE) << BEAT_SHIFT;
    device.run(&profiler, 8, 500, false, 4096);
    device.now += FADE << BEAT_SHIFT;
    device.run(&profiler, 8, 500, false, 4096);
    assert!(profiler.profile(&NONE).unwrap().read.worst < Nanos(60_000));
}

#[test]
fn f1_worst_time_follows_parallelism() {
    // Until it was seen at few commands, the device of one channel seems to serve many at once.
    let (profiler, mut device) = (Profiler::new(&NONE), model(1, 8_000_000));
    device.run(&profiler, 54, 500, false, 4096);
    assert_eq!(profiler.profile(&NONE).unwrap().parallelism, 54);
    device.run(&profiler, 27, 500, false, 4096);
    device.run(&profiler, 1, 500, false, 4096);
    let Profile { read, parallelism, .. } = profiler.profile(&NONE).unwrap();
    assert_eq!((read.worst, parallelism), (Nanos(8_000_000), 1));
}

#[test]
fn f1_profile_follows_slowing_device() {
    let (profiler, mut device) = (Profiler::new(&NONE), model(4, 100_000));
    device.run(&profiler, 64, 2000, false, 4096);
    device.ns = 300_000;
    device.run(&profiler, 64, 2000, false, 4096);
    let mean = profiler.profile(&NONE).unwrap().mean(false, 4096);
    assert!(mean.abs_diff(75_000) < 1000, "{mean}");
}

#[test]
fn f1_a_faster_depth_of_long_ago_fades() {
    let (profiler, mut device) = (Profiler::new(&NONE), model(4, 100_000));
    device.run(&profiler, 128, 2000, false, 4096);
    device.ns = 300_000;
    for _ in 0..8 {
        device.now += FADE << BEAT_SHIFT;
        device.run(&profiler, 16, 500, false, 4096);
    }
    assert!(profiler.profile(&NONE).unwrap().mean(false, 4096) > 70_000);
}

#[test]
fn f1_profile_needs_measurements_or_settings() {
    let profiler = Profiler::new(&NONE);
    assert_eq!(profiler.profile(&NONE), None);
    let (mean, worst) = (Some(Nanos(80_000)), Some(Nanos(1_000_000)));
    let by = Overrides { mean, worst, parallelism: Some(8), seeks: false };
    let profiler = Profiler::new(&by);
    let found = profiler.profile(&by).unwrap();
    assert_eq!((found.mean(true, 4096), found.worst(true, 4096)), (10_000, 125_000));
    let share = profiler.record(Nanos(160_000), false, 4096, Nanos(0), Occupancy::steady(2));
    assert_eq!(share, 20_000, "one of eight, though two were there");
}

#[test]
fn f1_absurd_times_do_no_harm() {
    let profiler = Profiler::new(&NONE);
    for _ in 0..300 {
        profiler.record(Nanos::MAX, false, u32::MAX, Nanos::ZERO, Occupancy::steady(0));
        profiler.record(Nanos::MAX, false, 1, Nanos::ZERO, Occupancy::steady(0));
        profiler.record(Nanos::ZERO, true, 1, Nanos::MAX, Occupancy::steady(u32::MAX));
    }
    assert!(profiler.profile(&NONE).is_some());
}

#[test]
fn f1_probes_reveal_parallelism_from_any_depth() {
    for channels in [1, 2, 3, 8, 16, 40, 100] {
        for first in [1, 2, 5, 16, 100, 128, 200] {
            for bytes in [512, 8192, 131_072] {
                let (profiler, mut device) = (Profiler::new(&NONE), model(channels, 100_000));
                device.run(&profiler, first, 100, false, bytes);
                let mut probes = 0;
                // At this time it may be probed both more and less deeply.
                while profiler.probe(Nanos(0)) != Probe::NONE {
                    let Probe { at_least, at_most } = profiler.probe(Nanos(0));
                    let depth = first.max(at_least).min(at_most).clamp(1, 256);
                    device.run(&profiler, depth, 100, false, bytes);
                    probes += 1;
                    assert!(probes < 12, "{channels} channels from {first}: {depth}");
                }
                let found = profiler.profile(&NONE).unwrap();
                let case = format!("{channels} channels from {first}, {bytes} bytes: {found:?}");
                assert!(u64::from(found.parallelism).abs_diff(channels) <= channels / 8, "{case}");
                let share = (100_000 + 800 * u64::from(bytes >> 10).saturating_sub(4)) / channels;
                let mean = found.mean(false, bytes);
                assert!(mean.abs_diff(share) <= share / 8, "{case}: {mean}, not {share}");
            }
        }
    }
}

#[test]
fn f1_probes_leave_most_of_the_time_alone() {
    let (profiler, mut device) = (Profiler::new(&NONE), model(4, 100_000));
    device.run(&profiler, 16, 100, false, 4096);
    let at = |ms: u64| profiler.probe(Nanos(ms * 1_000_000));
    let count = |is: fn(&Probe) -> bool| (0..17_180).filter(|ms| is(&at(*ms))).count();
    assert!(count(|probe| probe.at_least > 1).abs_diff(17_180 / 32) < 40);
    assert!(count(|probe| probe.at_most < u32::MAX).abs_diff(17_180 / 8) < 40);
}

#[test]
fn f1_middle_sizes_alone_are_measured() {
    let (profiler, mut device) = (Profiler::new(&NONE), model(4, 100_000));
    for depth in [1, 64] {
        device.run(&profiler, depth, 500, true, 8192);
    }
    let found = profiler.profile(&NONE).expect("a database has pages of 8 KiB");
    let expected = (100_000 + 4 * 800) / 4;
    assert!(found.mean(true, 8192).abs_diff(expected) <= expected / 50, "{found:?}");
    assert_eq!(found.parallelism, 4);
    let worst = found.worst(true, 8192);
    assert!((expected..2 * expected).contains(&worst), "{worst}");
}
