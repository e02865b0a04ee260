//! Fig. 8 (docs/sources.md, E3): the discrete-time model beside the packet simulation.

use std::fmt::Write as _;
use std::time::Duration;

use qtcp::control::dctcp::Settings;
use qtcp::dtm::{self, Model};

use super::fig9;
use super::net::bottleneck::{Bottleneck, Law, OFFERED, PAYLOAD, SHARES, WIRE, part};
use super::net::event::{MICRO, seconds};
use super::net::record::Record;

/// The round-trip time at which the threshold of 140 packets is the source's 0.17 C d.
const RTT: u64 = 98 * MICRO;
/// The flows of each class. With more, windows are smaller, and the packets of one window, which
/// come one after the other, are marked together: the model marks all alike.
const FLOWS: u32 = 5;
/// Round trips left out at the start.
const WARM: u64 = 100;
/// Round trips that are counted.
const COUNTED: u64 = 1000;

/// Gigabits per second of High, Medium and Low.
type Rates = [f64; 3];

/// Makes the bottleneck of the source's runs. Rates are not smoothed, as the model has no
/// smoothing.
fn bottleneck() -> Bottleneck {
    let bottleneck = fig9::bottleneck(RTT);
    Bottleneck { settings: Settings { gamma: 0.0, ..bottleneck.settings }, ..bottleneck }
}

/// Runs the packet simulation. Returns its rates, and the events that it took.
fn packets(bottleneck: &Bottleneck, seed: u64) -> (Rates, u64) {
    let (from, end) = (WARM * RTT, (WARM + COUNTED) * RTT);
    let (mut network, classes) = bottleneck.offered(Law::Qtcp, FLOWS, Record::new(end, RTT), seed);
    network.run(end);
    let rates = classes.map(|flows| network.record().rates(flows, from, end) / 1e9);
    (rates, network.handled())
}

/// Runs the model. Returns its rates.
fn model(bottleneck: &Bottleneck, seed: u64) -> anyhow::Result<Rates> {
    let mut model = Model::new(setup(bottleneck, seed))?;
    let mut carried = [0.0; 3];
    let mut time = 0.0;
    for slot in 0..WARM + COUNTED {
        let before = model.time();
        model.step();
        if slot < WARM {
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
fn setup(bottleneck: &Bottleneck, seed: u64) -> dtm::Setup {
    let settings = &bottleneck.settings;
    let class = |(share, (bits, size)): (f64, (f64, super::net::traffic::Size))| dtm::ModelClass {
        goal: dtm::Goal::Share(share),
        flows: FLOWS,
        delay: Duration::from_secs_f64(seconds(bottleneck.rtt) / 2.0),
        arrivals: dtm::Arrivals::Poisson {
            rate: bits / 8.0 / f64::from(WIRE),
            burst: (size.mean() / f64::from(PAYLOAD)).max(1.0),
        },
    };
    dtm::Setup {
        capacity: bottleneck.rate as f64 / 8.0 / f64::from(WIRE),
        threshold: bottleneck.threshold as f64,
        gain: settings.g,
        epsilon: settings.epsilon,
        limits: settings.limits,
        seed,
        classes: SHARES.into_iter().zip(OFFERED).map(class).collect(),
    }
}

/// Makes the figure as text.
///
/// # Errors
///
/// The model refuses the scenario.
pub(super) fn run(seed: u64) -> anyhow::Result<String> {
    let bottleneck = bottleneck();
    let ((packets, events), model) = (packets(&bottleneck, seed), model(&bottleneck, seed)?);
    let mut text =
        "Fig. 8 (E3): carried throughput in Gb/s, offered 90, 60 and 30 on 100, K = 140 packets, \
         RTT 98 us\nsource: model and simulation almost identical, target ratios 3:2:1 kept\n\n\
         class    target   model   packets   difference\n"
            .to_owned();
    let rows = ["High", "Medium", "Low"].into_iter().zip(SHARES).zip(model.iter().zip(packets));
    for ((class, share), (model, packets)) in rows {
        let target = bottleneck.goodput() * part(share) / 1e9;
        let off = (model / packets - 1.0) * 100.0;
        _ = writeln!(text, "{class:7}  {target:6.1}  {model:6.1}   {packets:7.1}   {off:+9.1} %");
    }
    _ = writeln!(
        text,
        "\n{} round trips, of which the first {WARM} are left out; {events} events",
        WARM + COUNTED
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e3_model_and_packets_agree_and_keep_the_ratios() {
        let bottleneck = bottleneck();
        for seed in 1..4 {
            let (packets, _) = packets(&bottleneck, seed);
            let model = model(&bottleneck, seed).unwrap();
            for rates in [packets, model] {
                let total: f64 = rates.iter().sum();
                assert!(total > 0.98 * bottleneck.goodput() / 1e9, "{rates:?}");
                for (rate, share) in rates.iter().zip(SHARES) {
                    let off = rate / total / part(share) - 1.0;
                    assert!(off.abs() < 0.05, "seed {seed}: {rates:?}");
                }
            }
            for (model, packets) in model.iter().zip(packets) {
                assert!((model / packets - 1.0).abs() < 0.03, "seed {seed}: {model} {packets}");
            }
        }
    }
}
