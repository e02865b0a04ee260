//! The paper's experiments and others, with their results.

use core::ops::Range;
use core::time::Duration;

use proptest::prelude::*;

use super::*;
use pmem::capacity::ProfileError;
use pmem::monitor::Finding;

const SMALL: Testbed = Testbed::scaled(8);
const SMALLER: Testbed = Testbed::scaled(16);
const PAPER: Testbed = Testbed::scaled(1);
const UNIFORM: Distribution = Distribution::UNIFORM;
const ZIPF: Distribution = Distribution::Zipf(0.6);

/// Returns whether a number is as expected, but for a part of it.
fn near(number: f64, expected: f64, tolerance: f64) -> bool {
    (number - expected).abs() <= expected * tolerance
}

fn run(testbed: Testbed, experiment: Experiment) -> Outcome {
    measure(&experiment, testbed).unwrap()
}

/// Experiment Set 1: clients without engines.
fn bare(clients: Vec<Client>) -> Experiment {
    Experiment { system: System::Bare, reserved: 0.0, clients, ..Experiment::default() }
}

/// Experiment 2A and 2C: each client wants its reservation and the initial global tokens.
fn eager(distribution: Distribution, percent: u32, system: System) -> Experiment {
    let reserved = f64::from(percent) / 100.0;
    Experiment { distribution, reserved, system, ..Experiment::default() }
}

/// Clients that want all they can get, with reservations that fall by an exponent, in periods of so many ms.
fn skewed(clients: usize, exponent: f64, percent: u32, millis: u64) -> Experiment {
    Experiment {
        clients: vec![Client::EAGER; clients],
        period: Duration::from_millis(millis),
        periods: 2,
        ..eager(Distribution::Zipf(exponent), percent, System::Haechi)
    }
}

/// The spike of Experiment 1C and Experiment Set 3.
fn spike(constant: bool) -> Vec<Client> {
    let client = |part: f64, ios| Client { part, demand: Demand::Ios(ios), constant };
    [vec![client(285.0, 340_000); 3], vec![client(80.0, 80_000); 7]].concat()
}

/// Experiment Set 3.
fn reserved_spike(constant: bool) -> Outcome {
    let experiment = Experiment {
        clients: spike(constant),
        distribution: Distribution::Parts,
        periods: 4,
        latencies: true,
        ..Experiment::default()
    };
    run(SMALL, experiment)
}

/// Experiment Set 4: background jobs from period 15 on, or until then.
fn congested(distribution: Distribution, periods: Range<usize>) -> Outcome {
    let experiment = Experiment {
        node: DataNode { sigma: 90_000, ..DataNode::default() },
        background: Some(Background { from: periods.start, until: periods.end, window: 8 }),
        warmup: 0,
        periods: 35,
        ..eager(distribution, 80, System::Haechi)
    };
    run(SMALL, experiment)
}

/// Returns the mean I/Os of some clients in some periods.
fn mean(outcome: &Outcome, clients: Range<usize>, periods: &[usize]) -> f64 {
    let completed = outcome.completed(clients);
    periods.iter().map(|period| completed[*period]).sum::<f64>() / periods.len() as f64
}

#[test]
fn distributions_match_the_paper() {
    assert_eq!(eager(UNIFORM, 90, System::Haechi).reservations(), [141_300; CLIENTS]);
    let zipf = eager(ZIPF, 90, System::Haechi).reservations();
    assert!((7_000_000..7_100_000).contains(&(zipf[0] * 30)), "7080K in 30 s: {zipf:?}");
    assert_eq!(zipf[0], zipf[1]);
    let distribution = Distribution::Parts;
    let reserved = (3 * 285_000 + 7 * 80_000) as f64 / AGGREGATE as f64;
    let clients = spike(false);
    let spike = Experiment { clients, distribution, reserved, ..Experiment::default() };
    assert_eq!((spike.reservations()[2], spike.reservations()[3]), (285_000, 80_000));
}

#[test]
fn h5_fig6_a_client_alone_does_400k() {
    assert!(near(run(SMALL, bare(vec![Client::EAGER])).total, LOCAL as f64, 0.005));
}

#[test]
fn h5_fig7_four_clients_saturate_the_data_node() {
    for clients in 1..=CLIENTS {
        let total = run(SMALL, bare(vec![Client::EAGER; clients])).total;
        let expected = (clients as u64 * LOCAL).min(AGGREGATE) as f64;
        assert!(near(total, expected, 0.005), "{clients} clients: {total}");
    }
}

#[test]
fn h5_fig8_spike_bursts_leave_data_node_idle() {
    let equal = Client { demand: Demand::Ios(158_000), ..Client::EAGER };
    let uniform = run(SMALL, bare(vec![equal; CLIENTS]));
    assert!(uniform.means.iter().all(|mean| near(*mean, 157e3, 0.005)), "{uniform:?}");
    let [burst, constant] = [false, true].map(|constant| run(SMALL, bare(spike(constant))));
    assert!(burst.means[..3].iter().all(|mean| near(*mean, 278e3, 0.01)), "{burst:?}");
    assert!(near(burst.total, 1380e3, 0.02), "{}", burst.total);
    assert!(constant.means[..3].iter().all(|mean| near(*mean, 332e3, 0.03)), "{constant:?}");
    assert!(near(constant.total, 1564e3, 0.01), "{}", constant.total);
}

#[test]
fn h4_a_profile_of_the_node_is_its_capacity() {
    let clients = vec![Client::EAGER; CLIENTS];
    let of = |periods| {
        let experiment = Experiment { periods, ..bare(clients.clone()) };
        run(SMALLER, experiment).profile()
    };
    let profile = of(50).unwrap();
    assert!(near(profile.mean.0 as f64 * 16.0, AGGREGATE as f64, 0.005), "{profile:?}");
    assert!(profile.sigma > 0.0 && profile.sigma < profile.mean.0 as f64 / 100.0);
    assert_eq!(of(1), Err(ProfileError::TooFew(1)));
}

#[test]
fn h5_fig9_uniform_reservations_are_met_within_thousandth() {
    let bare = run(PAPER, eager(UNIFORM, 90, System::Bare));
    let haechi = run(PAPER, eager(UNIFORM, 90, System::Haechi));
    for client in 0..10 {
        assert!(haechi.keeps(client, 0.0) && bare.keeps(client, 0.0), "{:?}", haechi.least);
        assert!(near(haechi.means[client], 157e3, 0.005), "{:?}", haechi.means);
    }
    let cost = 1.0 - haechi.total / bare.total;
    assert!(cost < 0.001, "{cost}: {} of {}", haechi.total, bare.total);
    assert!(haechi.words < 0.002, "operations on words for each I/O: {}", haechi.words);
}

#[test]
fn h5_fig9_low_priority_meets_zipf_reservations() {
    let bare = run(SMALL, eager(ZIPF, 90, System::Bare));
    assert!(near(bare.means[0] * 30.0, 4742e3, 0.01), "{:?}", bare.means);
    let haechi = run(PAPER, eager(ZIPF, 90, System::LowPriority));
    assert!(near(haechi.means[0] * 30.0, 7080e3, 0.005), "{:?}", haechi.means);
    for client in 2..10 {
        assert!(haechi.keeps(client, 0.0), "{client}: {:?}", haechi.least);
    }
    assert_eq!((haechi.missed(), haechi.contended()), (vec![0, 1], vec![0, 1]), "by 0.3 %");
    assert!(haechi.least[0] > 0.997 * haechi.reserved[0], "{:?}", haechi.least);
    for client in 4..10 {
        assert!(haechi.means[client] < bare.means[client], "at the expense of C5 to C10");
    }
}

/// The results of clients as shipped, beside the results with windows of their depth: the number of
/// reservations that are met in each period, exactly.
#[test]
fn h5_best_effort_window_of_one_meets_reservations() {
    // Five clients reserve equal parts, and 18 nothing.
    let clients = [1.0, 1e-9].map(|part| Client { part, ..Client::EAGER });
    let clients = [vec![clients[0]; 5], vec![clients[1]; 18]].concat();
    let distribution = Distribution::Parts;
    let parts = Experiment { clients, distribution, ..skewed(0, 0.0, 85, 500) };
    for (shipped, as_depth, as_shipped) in [
        (skewed(10, 0.6, 90, 1000), 8, 8),
        (skewed(7, 0.9, 60, 500), 5, 7),
        (skewed(23, 0.6, 80, 1000), 18, 23),
        (skewed(16, 0.6, 90, 1000), 12, 16),
        (parts, 0, 5),
    ] {
        let met = |system| {
            let outcome = run(PAPER, Experiment { system, ..shipped.clone() });
            let reserving = outcome.reserved.iter().filter(|reserved| **reserved > 0.0).count();
            let short = (0..reserving).filter(|client| !outcome.keeps(*client, 0.0)).count();
            (reserving - short, outcome)
        };
        let (depth, printed) = met(System::Haechi);
        assert_eq!(depth, as_depth, "{:?} of {:?}", printed.least, printed.reserved);
        let (one, shipped) = met(System::LowPriority);
        assert_eq!(one, as_shipped, "{:?} of {:?}", shipped.least, shipped.reserved);
        let short = shipped.reserved.iter().zip(&shipped.least);
        let short = short.enumerate().filter(|(_, (reserved, least))| least < reserved);
        let short: Vec<usize> = short.map(|(client, _)| client).collect();
        assert_eq!(shipped.contended(), short, "admission names those, and no others");
        // The paper's own set-up leaves nearly all to C1 and C2, in place of five sixths.
        let part = |outcome: &Outcome| outcome.least[0] / outcome.reserved[0];
        assert!(part(&shipped) > 0.997, "{}", part(&shipped));
        assert!(part(&printed) < 0.9995, "{}", part(&printed));
    }
}

#[test]
fn h5_fig9_printed_protocol_misses_zipf_reservations() {
    let haechi = run(SMALL, eager(ZIPF, 90, System::Haechi));
    assert!(near(haechi.means[0], 196e3, 0.01), "not 236K: {:?}", haechi.means);
    for client in 2..10 {
        assert!(haechi.keeps(client, 0.0), "{client}: {:?}", haechi.least);
    }
    let findings = haechi.record.findings.iter();
    let named = findings.filter_map(|(_, finding)| match finding {
        Finding::OutOfReach { client, .. } => Some(client.0),
        _ => None,
    });
    let periods = haechi.record.periods.len();
    let named: Vec<u32> = named.collect();
    assert_eq!(named, [0, 1].repeat(periods), "C1 and C2 are named in each period");
}

#[test]
fn h5_verdicts_are_equal_at_each_allowed_scale() {
    for (clients, exponent, percent, millis) in
        [(10, 0.6, 90, 1000), (7, 0.9, 60, 500), (16, 0.6, 90, 1000), (10, 0.0, 90, 500)]
    {
        let wanted = skewed(clients, exponent, percent, millis);
        let verdicts = |scale| {
            let outcome = run(Testbed::scaled(scale), wanted.clone());
            let met: Vec<bool> = (0..clients).map(|client| outcome.keeps(client, 0.0)).collect();
            (met, outcome.missed(), outcome.out_of_reach())
        };
        let full = verdicts(1);
        for scale in [4, 5, 8, 16, 21] {
            assert_eq!(verdicts(scale), full, "{clients} {exponent}: scale {scale}");
        }
    }
}

#[test]
fn scale_changing_verdicts_is_refused() {
    let refused = |wanted: &Experiment, scale| {
        measure(wanted, Testbed::scaled(scale)).unwrap_err().to_string()
    };
    let text = refused(&eager(ZIPF, 90, System::Haechi), 22);
    assert_eq!(
        text,
        "`scale` is 22: with a `window` of 2 in place of 64 a client does 389332 of 400000 I/Os per \
         second: give at most 21"
    );
    let text = refused(&eager(ZIPF, 90, System::LowPriority), 2);
    assert_eq!(
        text,
        "`scale` is 2: a window for global tokens of 1 I/Os cannot be divided by it: give at most 1"
    );
    let background = Some(Background { from: 1, until: 2, window: 8 });
    let text = refused(&Experiment { background, ..eager(ZIPF, 80, System::Haechi) }, 9);
    assert!(text.contains("`window` in `[background]` of 8") && text.contains("most 8"), "{text}");
}

#[test]
fn h2_fig10_converted_tokens_are_used_by_the_others() {
    let half = Client { demand: Demand::Part(0.5), ..Client::EAGER };
    let clients = [vec![half; 2], vec![Client::EAGER; 8]].concat();
    for distribution in [UNIFORM, ZIPF] {
        let [bare, basic, haechi] = [System::Bare, System::Basic, System::Haechi].map(|system| {
            let clients = clients.clone();
            run(SMALL, Experiment { clients, ..eager(distribution, 90, system) })
        });
        for client in 2..10 {
            assert!(haechi.keeps(client, 0.0), "{distribution:?} {:?}", haechi.least);
            assert!(haechi.means[client] > 1.05 * basic.means[client], "{distribution:?}");
        }
        // Fig. 11.
        assert!(near(haechi.total, bare.total, 0.001), "{distribution:?} {}", haechi.total);
        assert!(basic.total < 0.92 * bare.total, "{distribution:?} {}", basic.total);
    }
}

#[test]
fn h5_fig12_throughput_falls_where_much_is_reserved_unevenly() {
    let mut before = f64::MAX;
    for percent in [50, 60, 70, 80, 90] {
        let uniform = run(SMALL, eager(UNIFORM, percent, System::Haechi));
        assert!(near(uniform.total, AGGREGATE as f64, 0.001), "{percent}: {}", uniform.total);
        assert!((0..10).all(|client| uniform.keeps(client, 0.0)), "{percent}");
        let zipf = run(SMALL, eager(ZIPF, percent, System::Haechi));
        assert!(zipf.total <= before * 1.0001, "{percent}: {} after {before}", zipf.total);
        // Above 60 % the reservation of C1 and C2 exceeds an equal part of the node.
        let met = if percent > 60 { 2 } else { 0 };
        assert!((met..10).all(|client| zipf.keeps(client, 0.0)), "{percent}");
        before = zipf.total;
    }
    assert!(before < 0.96 * AGGREGATE as f64, "{before}");
    let low = run(PAPER, Experiment { periods: 1, ..eager(ZIPF, 80, System::LowPriority) });
    assert!((0..10).all(|client| low.keeps(client, 0.0)), "{:?}", low.least);
    assert!(near(low.total, AGGREGATE as f64, 0.001), "{}", low.total);
}

#[test]
fn h5_fig13_spike_bursts_miss_reservations() {
    let [burst, constant] = [false, true].map(reserved_spike);
    for client in 0..3 {
        assert!(burst.means[client] < 0.98 * burst.reserved[client], "{:?}", burst.means);
        assert!(constant.keeps(client, 0.0), "{:?}", constant.least);
        assert!(constant.means[client] > 1.1 * constant.reserved[client]);
    }
    for client in 3..10 {
        assert!(burst.keeps(client, 0.0) && constant.keeps(client, 0.0));
    }
    let drop = |outcome: &Outcome| 1.0 - outcome.total / AGGREGATE as f64;
    assert!((drop(&burst) - 0.129).abs() < 0.02, "Fig. 14: 12.9 %, {}", drop(&burst));
    assert!((drop(&constant) - 0.007).abs() < 0.01, "Fig. 14: 0.7 %, {}", drop(&constant));
}

#[test]
fn h5_fig15_a_constant_rate_waits_less() {
    let [burst, constant] = [false, true].map(|constant| reserved_spike(constant).latencies);
    assert!(constant.mean < burst.mean * 3 / 4, "{constant:?} {burst:?}");
    assert!(constant.p99 < burst.p99 * 3 / 4, "{constant:?} {burst:?}");
    assert!(constant.p999 < burst.p999 * 3 / 4, "{constant:?} {burst:?}");
}

#[test]
fn h4_fig16_the_estimate_follows_a_node_that_gets_slower() {
    let uniform = congested(UNIFORM, 15..usize::MAX);
    let before = mean(&uniform, 0..10, &[10, 11, 12]);
    let after = mean(&uniform, 0..10, &[20, 25, 30]);
    assert!(near(before, 1570e3, 0.005) && near(after, 1395e3, 0.01), "{before} {after}");
    let estimates = uniform.estimates();
    assert!(estimates[16..=20].is_sorted_by(|a, b| a > b), "it falls gradually: {estimates:?}");
    assert!(near(estimates[21], after, 0.02), "{}", estimates[21]);
    assert!(uniform.keeps(0, 0.0), "Fig. 17a: {:?}", uniform.least);
}

#[test]
fn h4_fig17_a_large_reservation_gains_as_the_estimate_falls() {
    let zipf = congested(ZIPF, 15..usize::MAX);
    let c1 = |periods: &[usize]| mean(&zipf, 0..1, periods);
    let (first, last) = (c1(&[15, 16]), c1(&[28, 30, 32, 34]));
    assert!(first < c1(&[10, 12, 14]) * 0.97, "it loses when congestion begins: {first}");
    assert!(last > first * 1.03, "and gains: {first} {last}");
    let rising: Vec<f64> = (15..=20).map(|period| c1(&[period])).collect();
    assert!(rising.is_sorted(), "gradually: {rising:?}");
    let small = mean(&zipf, 9..10, &[15]) - mean(&zipf, 9..10, &[30]);
    assert!(small > 0.0, "from those with small reservations");
    assert!(zipf.keeps(9, 0.0), "who keep their own");
}

#[test]
fn h4_fig18_the_estimate_follows_a_node_that_gets_faster() {
    let uniform = congested(UNIFORM, 0..15);
    let estimates = &uniform.estimates()[16..=26];
    assert!(estimates.is_sorted(), "{estimates:?}");
    let steps = estimates.windows(2).all(|two| near(two[1] - two[0], 15_700.0, 0.01));
    assert!(steps, "by an increment each: {estimates:?}");
    assert!(near(mean(&uniform, 0..10, &[25, 30]), 1570e3, 0.005));
    assert!(uniform.keeps(0, 0.0), "Fig. 19a: {:?}", uniform.least);
}

#[test]
fn h4_fig19_added_capacity_goes_to_small_reservations() {
    let zipf = congested(ZIPF, 0..15);
    let gain = |clients: Range<usize>| {
        mean(&zipf, clients.clone(), &[20, 22, 24]) / mean(&zipf, clients, &[8, 10, 12])
    };
    assert!(near(gain(0..1), 1.0, 0.03), "C1: {}", gain(0..1));
    assert!(gain(8..10) > 1.15, "C9, C10: {}", gain(8..10));
}

#[test]
fn h5_guarantees_hold_at_other_exponents_client_counts_and_periods() {
    for (clients, exponent, millis, percent) in [
        (4, 0.0, 1000, 95),
        (7, 0.3, 250, 80),
        (10, 0.9, 500, 60),
        (25, 1.2, 1000, 60),
        (100, 0.6, 2000, 80),
        (100, 0.0, 1000, 95),
    ] {
        let wanted = skewed(clients, exponent, percent, millis);
        let low = Experiment { system: System::LowPriority, periods: 1, ..wanted.clone() };
        let printed = run(SMALLER, wanted);
        let least = &printed.least;
        assert_eq!(printed.missed(), printed.out_of_reach(), "{clients} {exponent}: {least:?}");
        let low = run(PAPER, low);
        assert_eq!(low.missed(), [] as [usize; 0], "{clients} {exponent}: {:?}", low.least);
    }
}

#[test]
fn h5_bare_system_misses_reservations_haechi_keeps() {
    let missed = |testbed, system| {
        let clients = vec![Client { constant: true, ..Client::EAGER }; CLIENTS];
        run(testbed, Experiment { clients, system, ..skewed(0, 0.9, 60, 1000) }).missed()
    };
    assert_eq!(missed(SMALLER, System::Bare), [0, 1]);
    assert_eq!(missed(PAPER, System::LowPriority), [] as [usize; 0]);
}

#[test]
fn invalid_experiments_are_refused_with_valid_ranges() {
    let refused = |wanted: Experiment| measure(&wanted, SMALLER).unwrap_err().to_string();
    let paper = Experiment::default;
    let text = refused(Experiment { clients: Vec::new(), ..paper() });
    assert_eq!(text, "`clients` is 0: give 1 to 1000");
    for exponent in [-0.1, f64::NAN, f64::INFINITY] {
        let distribution = Distribution::Zipf(exponent);
        let text = refused(Experiment { distribution, ..paper() });
        assert!(text.starts_with("`exponent` is ") && text.contains("give 0"), "{text}");
    }
    let text = refused(Experiment { period: Duration::from_millis(9), ..paper() });
    assert_eq!(text, "`period` is 9ms: give 10ms to 60s");
    assert!(Experiment { window: 1, ..paper() }.check().is_ok(), "194K I/Os per second are enough");
    let window = Experiment { window: 1, ..eager(ZIPF, 90, System::Haechi) };
    let text = refused(window);
    let start = "`window` is 1: client C1 reserves 23";
    assert!(text.starts_with(start) && text.contains("give at least 2, or"), "{text}");
    let text = refused(Experiment { reserved: 1.3, ..paper() });
    assert_eq!(text, "`reserved` is 130 %: give \"0 %\" to \"100 %\" of the capacity");
    let clients = vec![Client::EAGER; 5];
    let distribution = Distribution::Zipf(3.0);
    let text = refused(Experiment { clients, distribution, ..paper() });
    let start = "`reserved`: client C1 is not admitted: a reservation of 1";
    assert!(text.starts_with(start) && text.contains("give at most 400000"), "{text}");
    let node = DataNode { local: 2_000_000, ..DataNode::default() };
    let text = refused(Experiment { node, period: Duration::from_secs(60), ..paper() });
    assert!(text.starts_with("`local` is 2000000: ") && text.contains("`period`"), "{text}");
    let background = Some(Background { from: 3, until: 3, window: 8 });
    let text = refused(Experiment { background, ..paper() });
    assert!(text.starts_with("`until` is 3: "), "{text}");
    let text = refused(Experiment { latencies: true, periods: 1000, ..paper() });
    assert!(text.starts_with("`latencies` is true: ") && text.contains("`periods`"), "{text}");
    let node = DataNode { aggregate: 1000, local: 1000, ..DataNode::default() };
    let text = refused(Experiment { node, period: Duration::from_millis(50), ..paper() });
    assert!(text.starts_with("`scale` is 16: ") && text.contains("give less"), "{text}");
    let node = DataNode { aggregate: 100_000_000, ..DataNode::default() };
    let text = refused(Experiment { node, periods: 10_000, reserved: 0.0, ..paper() });
    assert!(text.starts_with("`periods` is 10001: ") && text.contains("fewer"), "{text}");
}

#[test]
fn outstanding_ios_do_not_count_as_served() {
    let mut outcome =
        run(SMALLER, Experiment { window: 65_536, ..eager(UNIFORM, 30, System::Haechi) });
    assert_eq!(outcome.missed(), [] as [usize; 0]);
    outcome.least.fill(0.0);
    assert_eq!(outcome.missed().len(), CLIENTS);
}

fn any_client() -> impl Strategy<Value = Client> {
    let demand = prop_oneof![
        Just(Demand::All),
        (0.0..=1.0).prop_map(Demand::Part),
        (0_u64..100_000).prop_map(Demand::Ios),
    ];
    let client = (0.001..1000.0, demand, any::<bool>());
    client.prop_map(|(part, demand, constant)| Client { part, demand, constant })
}

prop_compose! {
    fn any_experiment()(
        (aggregate, local, jitter) in (1000_u64..5_000_000, 1000_u64..5_000_000, 0_u8..=100),
        (batch, sigma, window) in (1_u64..2000, 0_u64..1000, 1_u64..100),
        clients in prop::collection::vec(any_client(), 1..13),
        system in prop::sample::select(vec![
            System::Bare, System::Basic, System::Haechi, System::LowPriority,
        ]),
        distribution in prop_oneof![
            Just(Distribution::Parts), (0.0..=10.0).prop_map(Distribution::Zipf),
        ],
        reserved in 0.0..=1.0,
        (warmup, periods, latencies) in (0_usize..3, 1_usize..3, any::<bool>()),
    ) -> Experiment {
        let node = DataNode { aggregate, local, jitter, batch, sigma, history: 1, ..DataNode::default() };
        let background = latencies.then_some(Background { from: 1, until: 2, window });
        let period = Duration::from_millis(10);
        Experiment {
            node, system, clients, reserved, distribution, window, period, warmup, periods,
            background, latencies,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn reservations_fit_capacity_and_are_measured(
        experiment in any_experiment(), scale in 1_u64..=100,
    ) {
        let sum: u64 = experiment.reservations().iter().sum();
        let most = (experiment.capacity() as f64 * experiment.reserved).round();
        prop_assert!(sum as f64 <= most, "{sum} of {most}: no more than is to be reserved");
        prop_assume!(experiment.check().is_ok());
        let outcome = match measure(&experiment, Testbed { scale, seed: 1 }) {
            Ok(outcome) => outcome,
            Err(error) => {
                prop_assert!(error.to_string().starts_with("`scale` is "), "{error}");
                return Ok(());
            }
        };
        prop_assert_eq!(outcome.means.len(), experiment.clients.len());
        prop_assert_eq!(outcome.estimates().len(), experiment.warmup + experiment.periods);
    }
}
