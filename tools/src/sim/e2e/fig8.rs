//! Fig. 8 (docs/sources.md, E3): the discrete-time model beside the packet simulation.

use std::time::Duration;

use qtcp::control::dctcp::Settings;
use qtcp::dtm::{self, Model};

use super::fig9;
use super::{CLASSES, series};
use crate::sim::claim::{Bound, Claim, Unit};
use crate::sim::figure::{Made, Plot, Request};
use crate::sim::net::bottleneck::{Bottleneck, Law, OFFERED, PAYLOAD, SHARES, WIRE, part};
use crate::sim::net::event::{MICRO, seconds};
use crate::sim::net::record::Record;
use crate::sim::plot::bars::{Bars, Series};

/// The round-trip time at which the threshold of 140 packets is the source's 0.17 C d.
const RTT: u64 = 98 * MICRO;
/// The flows of each class. With more, windows are smaller, and the packets of one window, which
/// come one after the other, are marked together: the model marks all alike.
const FLOWS: u32 = 5;
/// Round trips left out at the start.
const WARM: u64 = 100;
/// Round trips that are counted, and those at reduced length.
const COUNTED: u64 = 1000;
const COUNTED_QUICK: u64 = 400;

/// Gigabits per second of High, Medium and Low.
pub(super) type Rates = [f64; 3];

/// Makes the bottleneck of the source's runs. Rates are not smoothed, as the model has no
/// smoothing.
fn bottleneck() -> Bottleneck {
    let bottleneck = fig9::bottleneck(RTT);
    Bottleneck { settings: Settings { gamma: 0.0, ..bottleneck.settings }, ..bottleneck }
}

/// Runs the packet simulation. Returns its rates, and the events that it took.
fn packets(bottleneck: &Bottleneck, counted: u64, seed: u64) -> (Rates, u64) {
    let (from, end) = (WARM * RTT, (WARM + counted) * RTT);
    let (mut network, classes) = bottleneck.offered(Law::Qtcp, FLOWS, Record::new(end, RTT), seed);
    network.run(end);
    let rates = classes.map(|flows| network.record().rates(flows, from, end) / 1e9);
    (rates, network.handled())
}

/// Runs the packet simulation for another figure: rates of High, Medium and Low with Eq. 5 as printed.
pub(super) fn rates(request: Request) -> Rates {
    packets(&bottleneck(), COUNTED_QUICK, request.seed).0
}

/// Runs the model. Returns its rates.
fn model(bottleneck: &Bottleneck, counted: u64, seed: u64) -> anyhow::Result<Rates> {
    let mut model = Model::new(setup(bottleneck, seed))?;
    let mut carried = [0.0; 3];
    let mut time = 0.0;
    for slot in 0..WARM + counted {
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
    let class =
        |(share, (bits, size)): (f64, (f64, crate::sim::net::traffic::Size))| dtm::ModelClass {
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

/// Makes the figure.
///
/// # Errors
///
/// The model refuses the scenario.
pub(super) fn run(request: Request) -> anyhow::Result<Made> {
    let bottleneck = bottleneck();
    let counted = if request.quick { COUNTED_QUICK } else { COUNTED };
    let (packets, events) = packets(&bottleneck, counted, request.seed);
    let model = model(&bottleneck, counted, request.seed)?;
    let part_of = |rates: &Rates, class: usize| {
        rates.get(class).copied().unwrap_or_default() / rates.iter().sum::<f64>()
    };
    let mut claims = Vec::new();
    for (class, (name, share)) in CLASSES.into_iter().zip(SHARES).enumerate() {
        for (of, rates) in [("model", &model), ("packets", &packets)] {
            claims.push(Claim::new(
                format!("{name}, {of}: part of what is carried"),
                format!("{:.1} %", part(share) * 100.0),
                part_of(rates, class),
                Unit::Percent,
                Bound::Near(part(share), 0.05),
            ));
        }
    }
    for ((name, model), packets) in CLASSES.into_iter().zip(&model).zip(&packets) {
        claims.push(Claim::new(
            format!("{name}: the model, of packets"),
            "almost identical",
            model / packets,
            Unit::Percent,
            Bound::Near(1.0, 0.03),
        ));
    }
    let title = format!(
        "End-to-end QoS, Fig. 8 (E3): the discrete-time model beside packets; offered 90, 60 and 30 \
         Gb/s on 100, K = 140\npackets, RTT 98 us, Eq. 5 as printed. Gb/s of payload: model {}, packets \
         {}.\n{} round trips, of which the first {WARM} are left out; {events} events",
        series(&model),
        series(&packets),
        WARM + counted
    );
    let bar = |name: &str, rates: &Rates| Series { name: name.to_owned(), heights: rates.to_vec() };
    let target = SHARES.map(|share| bottleneck.goodput() * part(share) / 1e9);
    let plot = Plot::Bars(Bars {
        title: "carried throughput, Gb/s of payload".to_owned(),
        groups: CLASSES.map(str::to_owned).to_vec(),
        series: vec![bar("target", &target), bar("model", &model), bar("packets", &packets)],
    });
    Ok(Made::of(&title, claims, [("e2e-8", plot)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e3_model_and_packets_agree_and_keep_the_ratios() {
        let bottleneck = bottleneck();
        for seed in 1..4 {
            let (packets, _) = packets(&bottleneck, COUNTED, seed);
            let model = model(&bottleneck, COUNTED, seed).unwrap();
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
