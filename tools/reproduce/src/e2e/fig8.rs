//! Fig. 8 (docs/research/sources.md, E3): the discrete-time model beside the packet simulation.

use std::time::Duration;

use crate::models::dtm::{self, Model};
use sluice_sim::claim::{Bound, Claim};

use super::{CLASSES, series};
use crate::figure::{Made, Request};
use crate::net::bottleneck::{PAYLOAD, SHARES, WIRE, part};
use crate::net::scenario::{Class, Scenario};
use crate::net::time::seconds;
use crate::plot;

/// The scenario of the figure.
const SCENARIO: &str = include_str!("../../../scenarios/e2e-8.toml");
/// Round trips that are counted at reduced length.
const COUNTED_QUICK: u64 = 400;
/// Runs of the model and of packets whose mean is shown.
const RUNS: u64 = 16;

/// Gigabits per second of High, Medium and Low.
pub(super) type Rates = [f64; 3];

fn scenario(quick: bool) -> anyhow::Result<Scenario> {
    let mut scenario = Scenario::parse(SCENARIO)?;
    if quick {
        scenario.counted = COUNTED_QUICK;
    }
    Ok(scenario)
}

/// Runs the packet simulation. Returns its rates, and the events that it took.
fn packets(scenario: &Scenario, seed: u64) -> (Rates, u64) {
    let (from, end) = (scenario.warm * scenario.bottleneck.rtt, scenario.end());
    let run = scenario.simulate(seed);
    ([0, 1, 2].map(|class| run.rate(class, from, end) / 1e9), run.network.handled())
}

/// Runs the packet simulation for another figure: rates of High, Medium and Low with Eq. 5 as printed.
pub(super) fn rates(request: Request) -> anyhow::Result<Rates> {
    Ok(packets(&scenario(true)?, request.seed).0)
}

/// Runs the model. Returns its rates.
fn model(scenario: &Scenario, seed: u64) -> anyhow::Result<Rates> {
    let mut model = Model::new(setup(scenario, seed))?;
    let mut carried = [0.0; 3];
    let mut time = 0.0;
    for slot in 0..scenario.warm + scenario.counted {
        let before = model.time();
        model.step();
        if slot < scenario.warm {
            continue;
        }
        let length = model.time() - before;
        time += length;
        for (sum, class) in carried.iter_mut().zip(model.classes()) {
            *sum += class.carried * length;
        }
    }
    Ok(carried.map(|packets| packets / time * f64::from(PAYLOAD) * 8.0 / 1e9))
}

/// Makes the same scenario for the model.
fn setup(scenario: &Scenario, seed: u64) -> dtm::Setup {
    let bottleneck = &scenario.bottleneck;
    let settings = &bottleneck.settings;
    let class = |(class, share): (&Class, &f64)| dtm::ModelClass {
        goal: dtm::Goal::Share(*share),
        flows: class.flows,
        delay: Duration::from_secs_f64(seconds(bottleneck.rtt) / 2.0),
        arrivals: class.offered.map_or(dtm::Arrivals::Saturated, |(bits, size)| {
            dtm::Arrivals::Poisson {
                rate: bits / 8.0 / f64::from(WIRE),
                burst: (size.mean() / f64::from(PAYLOAD)).max(1.0),
            }
        }),
    };
    dtm::Setup {
        capacity: bottleneck.rate as f64 / 8.0 / f64::from(WIRE),
        threshold: bottleneck.threshold as f64,
        gain: settings.g,
        epsilon: settings.epsilon,
        limits: settings.limits,
        seed,
        classes: scenario.classes.iter().zip(&bottleneck.shares).map(class).collect(),
    }
}

/// Adds a run's part of the mean rates.
fn add(mean: &mut Rates, run: Rates) {
    mean.iter_mut().zip(run).for_each(|(mean, rate)| *mean += rate / RUNS as f64);
}

/// Makes the figure.
///
/// # Errors
///
/// The model refuses the scenario.
pub(super) fn run(request: Request) -> anyhow::Result<Made> {
    let scenario = scenario(request.quick)?;
    let (mut model, mut packets, mut events) = ([0.0; 3], [0.0; 3], 0);
    for run in 0..RUNS {
        let seed = request.seed.wrapping_add(run);
        let (rates, handled) = self::packets(&scenario, seed);
        add(&mut packets, rates);
        add(&mut model, self::model(&scenario, seed)?);
        events += handled;
    }
    let part_of = |rates: &Rates, class: usize| {
        rates.get(class).copied().unwrap_or_default() / rates.iter().sum::<f64>()
    };
    let mut claims = Vec::new();
    for (class, (name, share)) in CLASSES.into_iter().zip(SHARES).enumerate() {
        for (of, rates) in [("model", &model), ("packets", &packets)] {
            claims.push(Claim::percent(
                format!("{name}, {of}: share of the carried data"),
                format!("{:.1} %", part(share) * 100.0),
                part_of(rates, class),
                Bound::Near(part(share), 0.05),
            ));
        }
    }
    for ((name, model), packets) in CLASSES.into_iter().zip(&model).zip(&packets) {
        claims.push(Claim::percent(
            format!("{name}: the model, of packets"),
            "almost identical",
            model / packets,
            Bound::Near(1.0, 0.035),
        ));
    }
    let title = format!(
        "End-to-end QoS, Fig. 8 (E3): the discrete-time model beside packets; offered 90, 60 and 30 \
         Gb/s on 100, K = 140\npackets, RTT 98 us, Eq. 5 as printed. Gb/s of payload: model {}, packets \
         {}.\nThe mean of {RUNS} runs of {} round trips, of which the first {} are left out; {events} events",
        series(&model),
        series(&packets),
        scenario.warm + scenario.counted,
        scenario.warm
    );
    let target = [0, 1, 2].map(|class| scenario.bottleneck.target(class) / 1e9);
    let bars = [("target", target), ("model", model), ("packets", packets)];
    let chart = plot::bars("carried throughput, Gb/s of payload", CLASSES, bars);
    Ok(Made::of(&title, claims, [("e2e-8", chart)]))
}
