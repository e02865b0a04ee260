use core::time::Duration;

use proptest::prelude::*;

use super::*;
use sluice_sim::control::Limits;

const MICRO: u64 = 1000;

fn class(goal: Goal, arrivals: Arrivals) -> ModelClass {
    ModelClass { goal, flows: 10, delay: Duration::from_nanos(49 * MICRO), arrivals }
}

/// Converts Gbit/s to packets per second.
fn gigabits(rate: f64) -> f64 {
    rate * 1e9 / 8.0 / 1500.0
}

/// Runs `warm` slots, then `slots` more, of which it answers each class's mean carried rate.
fn carried(model: &mut Model, warm: u32, slots: u32) -> Vec<f64> {
    (0..warm).for_each(|_| model.step());
    let mut sums = vec![0.0; model.classes().len()];
    let start = model.time();
    for _ in 0..slots {
        let before = model.time();
        model.step();
        for (sum, class) in sums.iter_mut().zip(model.classes()) {
            *sum += class.carried * (model.time() - before);
        }
    }
    let time = model.time() - start;
    sums.iter().map(|sum| sum / time).collect()
}

fn offered_90_60_30(goals: [Goal; 3]) -> Setup {
    let classes = goals.into_iter().zip([90.0, 60.0, 30.0]);
    let classes = classes
        .map(|(goal, rate)| class(goal, Arrivals::Poisson { rate: gigabits(rate), burst: 1.0 }));
    Setup { classes: classes.collect(), ..Setup::default() }
}

#[test]
fn e3_shares_are_kept_under_congestion() {
    let goals = [Goal::Share(3.0), Goal::Share(2.0), Goal::Share(1.0)];
    let mut model = Model::new(offered_90_60_30(goals)).unwrap();
    let rates = carried(&mut model, 500, 5000);
    let total: f64 = rates.iter().sum();
    assert!(total > 0.95 * gigabits(100.0), "the link is used: {total}");
    for (rate, share) in rates.iter().zip([3.0, 2.0, 1.0]) {
        let part = rate / total * 6.0 / share;
        assert!((0.95..1.05).contains(&part), "{rates:?}");
    }
}

#[test]
fn e3_without_targets_it_is_dctcp() {
    let mut model = Model::new(offered_90_60_30([Goal::None; 3])).unwrap();
    for _ in 0..3000 {
        model.step();
        assert!(model.classes().iter().all(|class| class.quality == 1.0));
    }
    let rates = carried(&mut model, 0, 5000);
    // Low offers less than an equal part and gets it; the others share the rest.
    assert!(rates[2] > 0.9 * gigabits(30.0), "{rates:?}");
    assert!((rates[0] / rates[1] - 1.0).abs() < 0.1, "{rates:?}");
}

/// Compares with a window law of DCTCP that is written out (Eq. 4 and "No ECN" of Eq. 5).
#[test]
fn e3_a_quality_of_one_is_the_law_of_dctcp() {
    let setup = Setup {
        classes: vec![class(Goal::None, Arrivals::Saturated); 2],
        epsilon: 0.0,
        ..Setup::default()
    };
    let mut model = Model::new(setup).unwrap();
    model.step();
    let (mut window, mut alpha) = (model.classes()[0].window, 0.0);
    for _ in 0..2000 {
        model.step();
        alpha += 0.5 * (model.marked() - alpha);
        window = if model.marked() == 0.0 { window + 1.0 } else { window * (1.0 - alpha / 2.0) };
        assert_eq!(model.classes()[0].window, window);
    }
    assert!(model.queue() > 0.0, "and it did come to congestion");
}

/// Windows hold the data of the round trip and of the queue: `B = sum W - 2 d C`.
#[test]
fn e3_queue_is_excess_of_windows() {
    let setup = Setup {
        classes: vec![
            class(Goal::Share(2.0), Arrivals::Saturated),
            class(Goal::Share(1.0), Arrivals::Saturated),
        ],
        ..Setup::default()
    };
    let pipe = setup.capacity * 98e-6;
    let mut model = Model::new(setup).unwrap();
    for _ in 0..2000 {
        model.step();
        let windows: f64 = model.classes().iter().map(|class| class.sent).sum();
        assert!((model.queue() - (windows - pipe).max(0.0)).abs() < 1e-6 * pipe);
    }
}

#[test]
fn e3_class_with_slack_yields_to_late_class() {
    // A queue of 400 packets is 48 us: one target is out of reach, the other is easy.
    let latency = |micros| class(Goal::Latency(Duration::from_micros(micros)), Arrivals::Saturated);
    let setup = Setup { classes: vec![latency(40), latency(200)], ..Setup::default() };
    let mut model = Model::new(setup).unwrap();
    let rates = carried(&mut model, 500, 2000);
    assert!(rates[0] > 2.0 * rates[1], "{rates:?}");
}

#[test]
fn arrivals_keep_their_rate() {
    let on = Duration::from_micros(200);
    let of = |arrivals, seed| {
        let mut process = Process::new(arrivals, seed);
        (0..200_000).map(|_| process.within(1e-4)).sum::<f64>() / 20.0
    };
    for arrivals in [
        Arrivals::Constant { rate: 123_456.0 },
        Arrivals::Poisson { rate: 123_456.0, burst: 1.0 },
        Arrivals::Poisson { rate: 123_456.0, burst: 37.0 },
        Arrivals::OnOff { rate: 123_456.0, on, off: 3 * on },
    ] {
        let rate = of(arrivals, 7);
        assert!((rate / 123_456.0 - 1.0).abs() < 0.03, "{arrivals:?}: {rate}");
        assert_eq!(rate, of(arrivals, 7), "the same for the same seed");
    }
    assert_eq!(of(Arrivals::Poisson { rate: 0.0, burst: 1.0 }, 1), 0.0);
    let many = Process::new(Arrivals::Poisson { rate: 1e9, burst: 1.0 }, 1).within(10.0);
    assert_eq!(many, 1e10, "and takes no time for many");
}

#[test]
fn invalid_models_are_refused_with_valid_ranges() {
    assert_eq!(Model::new(Setup::default()).unwrap_err(), SetupError::NoClasses);
    let with = |class: ModelClass| Model::new(Setup { classes: vec![class], ..Setup::default() });
    let good = class(Goal::None, Arrivals::Saturated);
    assert!(with(good.clone()).is_ok());
    for bad in [
        ModelClass { flows: 0, ..good.clone() },
        ModelClass { delay: Duration::ZERO, ..good.clone() },
        ModelClass { goal: Goal::Share(f64::NAN), ..good.clone() },
        ModelClass { goal: Goal::Latency(Duration::ZERO), ..good.clone() },
        ModelClass { arrivals: Arrivals::Constant { rate: -1.0 }, ..good.clone() },
        ModelClass { arrivals: Arrivals::Poisson { rate: 1.0, burst: 0.0 }, ..good.clone() },
    ] {
        let error = with(bad).unwrap_err().to_string();
        assert!(error.contains("class 1") && error.contains("must be"), "{error}");
    }
    let bad = Setup { capacity: f64::INFINITY, classes: vec![good], ..Setup::default() };
    assert!(Model::new(bad).is_err());
}

fn goals() -> impl Strategy<Value = Goal> {
    prop_oneof![
        Just(Goal::None),
        (0.01..100.0f64).prop_map(Goal::Share),
        (1u64..10_000).prop_map(|micros| Goal::Latency(Duration::from_micros(micros))),
    ]
}

fn processes() -> impl Strategy<Value = Arrivals> {
    let time = || (1u64..10_000).prop_map(Duration::from_micros);
    prop_oneof![
        Just(Arrivals::Saturated),
        (0.0..1e7f64).prop_map(|rate| Arrivals::Constant { rate }),
        (0.0..1e7f64, 1.0..500.0f64).prop_map(|(rate, burst)| Arrivals::Poisson { rate, burst }),
        (0.0..1e7f64, time(), time()).prop_map(|(rate, on, off)| Arrivals::OnOff { rate, on, off }),
    ]
}

fn setups() -> impl Strategy<Value = Setup> {
    let class =
        (goals(), 1u32..50, 1u64..500, processes()).prop_map(|(goal, flows, micros, arrivals)| {
            ModelClass { goal, flows, delay: Duration::from_micros(micros), arrivals }
        });
    let classes = prop::collection::vec(class, 1..6);
    (classes, 1e3..1e7f64, 1.0..1000.0f64, 0.01..1.0f64, 0.0..0.2f64, any::<u64>()).prop_map(
        |(classes, capacity, threshold, gain, epsilon, seed)| {
            let limits = Limits { min: 1.0, max: 5000.0, initial: 10.0 };
            Setup { capacity, threshold, gain, epsilon, limits, seed, classes }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn e3_any_setup_stays_within_its_bounds(setup in setups()) {
        let [mut model, mut twin] = [(); 2].map(|()| Model::new(setup.clone()).unwrap());
        for _ in 0..300 {
            model.step();
            twin.step();
            prop_assert_eq!(model.classes(), twin.classes(), "the same each time");
            let total: f64 = model.classes().iter().map(|class| class.carried).sum();
            prop_assert!(total <= setup.capacity * (1.0 + 1e-9), "{total}");
            prop_assert!(model.queue() >= 0.0 && model.queue().is_finite());
            prop_assert!((0.0..=1.0).contains(&model.marked()));
            for class in model.classes() {
                prop_assert!((1.0..=5000.0).contains(&class.window), "{class:?}");
                prop_assert!((0.0..=1.0).contains(&class.alpha), "{class:?}");
                prop_assert!(class.queue >= 0.0 && class.quality >= 0.0, "{class:?}");
                prop_assert!(class.sent <= class.backlog && class.latency.is_finite(), "{class:?}");
            }
        }
    }
}
