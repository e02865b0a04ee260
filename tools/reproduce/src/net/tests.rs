use crate::models::law::{Law, Settings, WindowControl};
use qtcp::Rate;

use super::time::{MICRO, MILLI};
use super::traffic::Size;
use super::*;

const WIRE: u32 = 1500;
const PAYLOAD: u32 = 1448;

/// Makes a bottleneck of 10 Gb/s and 100 us.
fn network(end: Time) -> Network {
    let link = PortSetup { rate: 10_000_000_000, delay: 50 * MICRO, threshold: Some(20) };
    Network::new(link, Record::new(end, MILLI))
}

fn flow(controller: WindowControl, class: Option<usize>) -> SenderSetup {
    let (back, payload, wire, deadline) = (50 * MICRO, PAYLOAD, WIRE, None);
    SenderSetup { back, payload, wire, class, deadline, controller }
}

/// Runs three flows that always have something to send for 100 ms. Returns their rates in the second half.
fn saturate(network: &mut Network, flow_of: impl Fn(usize) -> SenderSetup) -> [f64; 3] {
    let end = 100 * MILLI;
    for class in 0..3 {
        let flow = network.flow(flow_of(class));
        network.start(flow, true, 0);
    }
    network.run(end);
    [0, 1, 2].map(|flow| network.record().rate(flow, 50 * MILLI, end))
}

/// The payload rate of 10 Gb/s of packets, in bits per second.
const GOODPUT: f64 = 10e9 * PAYLOAD as f64 / WIRE as f64;

#[test]
fn dctcp_flows_fill_the_link_and_share_it() {
    let mut network = network(100 * MILLI);
    let rates = saturate(&mut network, |_| flow(WindowControl::dctcp(), None));
    let total: f64 = rates.iter().sum();
    assert!((0.95..1.0001).contains(&(total / GOODPUT)), "{rates:?}");
    assert!(rates.iter().all(|rate| (rate / total * 3.0 - 1.0).abs() < 0.15), "{rates:?}");
    let waiting = network.link.queued();
    assert!(waiting < 100, "the queue stays about its threshold: {waiting}");
}

#[test]
fn e1_qtcp_flows_share_by_their_targets() {
    let mut network = network(100 * MILLI);
    network.share(Shares::new(Rate::from_bits(GOODPUT), vec![3.0, 2.0, 1.0]));
    let qtcp = || WindowControl::new(Law::Qtcp, &Settings::default());
    let rates = saturate(&mut network, |class| flow(qtcp(), Some(class)));
    let total: f64 = rates.iter().sum();
    assert!(total / GOODPUT > 0.9, "{rates:?}");
    // Windows of 14 packets grow by a fourteenth each round trip: Low stays past its target.
    for (rate, share) in rates.iter().zip([3.0, 2.0, 1.0]) {
        assert!((rate / total * 6.0 / share - 1.0).abs() < 0.25, "{rates:?}");
    }
    assert!(rates[0] > 1.2 * rates[1] && rates[1] > 1.3 * rates[2], "{rates:?}");
}

#[test]
fn requests_take_their_time_on_the_wire_and_back() {
    let end = 10 * MILLI;
    let mut network = network(end);
    let number = network.flow(flow(WindowControl::dctcp(), None));
    network.start(number, false, 0);
    network.give(number, 3 * u64::from(PAYLOAD));
    network.run(end);
    let done = &network.record().completions;
    assert_eq!(done.len(), 1);
    assert_eq!(done[0].time, 100 * MICRO + 3 * u64::from(WIRE) * 800);
    assert_eq!(network.record().rate(0, 0, end), 3.0 * f64::from(PAYLOAD) * 8.0 / 0.01);
}

#[test]
fn requests_of_a_source_complete_in_order_and_the_same_each_time() {
    let run = |seed| {
        let end = 20 * MILLI;
        let mut network = network(end);
        let number = network.flow(flow(WindowControl::dctcp(), None));
        network.start(number, false, 0);
        let size = Size::Exponential(50e3);
        let flows = vec![number];
        network.source(SourceSetup { size, rate: 0.5e9, flows }, seed, 0);
        network.run(end);
        let done: Vec<Time> = network.record().completions.iter().map(|done| done.time).collect();
        assert!(done.len() > 100 && done.is_sorted());
        assert!(network.record().completions.iter().all(|done| done.given < done.time));
        (done, network.handled())
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}
