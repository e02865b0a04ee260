//! The throughput and losses of senders on a link.

use crate::control::dcqcn::Settings;
use qtcp::Rate;

use super::*;
use crate::network::{Marking, Pause, RateControl};

/// Runs so many flows over a dumbbell that have something to send all the time, for `ms` after a warm-up of as long.
/// Returns the bytes of each, and the port in the middle.
fn saturate(
    senders: &[Sender],
    delay: u64,
    switch: Switch,
    ms: u64,
) -> (Vec<u64>, PortCounters, Network) {
    let hosts = u32::try_from(senders.len()).unwrap();
    let mut network = Network::new(dumbbell(hosts, delay, switch), 1).unwrap();
    let flows: Vec<FlowId> = (0..)
        .zip(senders)
        .map(|(from, sender)| start(&mut network, flow(from, from + hosts, *sender), 1 << 40))
        .collect();
    run(&mut network, ms * 1_000_000, &flows);
    let got = run(&mut network, ms * 2_000_000, &flows);
    let ends = (NodeId(2 * hosts), NodeId(2 * hosts + 1));
    let is_middle = |port: &PortCounters| (port.from, port.to) == ends;
    let middle = network.counters().map(|(_, port)| port).find(is_middle).unwrap();
    (got, middle, network)
}

/// The bytes of data that 100 Gb/s carry in a millisecond, with TCP.
const GOODPUT: f64 = 12_500_000.0 * 1448.0 / 1500.0;

fn fair(got: &[u64], tolerance: f64) -> bool {
    let mean = got.iter().sum::<u64>() as f64 / got.len() as f64;
    got.iter().all(|bytes| (*bytes as f64 / mean - 1.0).abs() < tolerance)
}

#[test]
fn dctcp_keeps_the_queue_near_its_threshold_and_the_link_full() {
    let (got, port, _) = saturate(&[window(Control::Dctcp); 4], 8_000, Switch::default(), 50);
    let used = got.iter().sum::<u64>() as f64 / (50.0 * GOODPUT);
    assert!(used > 0.999, "{used}");
    assert!(fair(&got, 0.1), "{got:?}");
    assert_eq!(port.dropped, 0);
    let mean = port.waited.as_nanos() as f64 / port.packets as f64 / 120.0;
    assert!((100.0..160.0).contains(&mean), "{mean} packets wait in the mean");
}

#[test]
fn with_losses_instead_of_marks_windows_share_a_link_too() {
    for control in [Control::Reno { ecn: false }, Control::Cubic { ecn: false }] {
        let switch = Switch { buffer: 600_000, marking: None, ..Switch::default() };
        let (got, port, network) = saturate(&[window(control); 4], 8_000, switch, 100);
        let used = got.iter().sum::<u64>() as f64 / (100.0 * GOODPUT);
        assert!(used > 0.95, "{control:?}: {used}");
        assert!(fair(&got, 0.5), "{control:?}: {got:?}");
        assert!(port.dropped > 0);
        let again: u64 = (0..4).map(|flow| network.info(FlowId(flow)).retransmitted).sum();
        // Lost packets are sent again, and few others.
        assert!(again >= port.dropped && again < port.dropped * 12 / 10 + 20, "{again}, {port:?}");
    }
}

#[test]
fn with_marks_reno_and_cubic_lose_nothing() {
    for control in [Control::Reno { ecn: true }, Control::Cubic { ecn: true }] {
        let (got, port, _) = saturate(&[window(control); 4], 8_000, Switch::default(), 100);
        assert!(fair(&got, 0.4), "{control:?}: {got:?}");
        assert!(port.dropped == 0 && port.marked > 0, "{port:?}");
    }
}

#[test]
fn what_is_lost_amid_data_is_sent_again_at_once_and_a_lost_tail_after_the_time_out() {
    // Ten times slower behind a buffer of 20 packets.
    let switch = Switch { buffer: 30_000, share: 64.0, marking: None, ..Switch::default() };
    let mut topology = dumbbell(1, 10_000, switch);
    topology.edges[2].link.rate = 10_000_000_000;
    let transfer = |packets: u64| {
        let mut network = Network::new(topology.clone(), 1).unwrap();
        let spec = flow(0, 1, window(Control::Reno { ecn: false }));
        let flow = start(&mut network, spec, 1448 * packets);
        let mut events = Vec::new();
        network.advance(Nanos(10_000_000_000), &mut events);
        let Some(Event::Arrived { at, .. }) = events.last() else { panic!("{events:?}") };
        (network.info(flow).retransmitted, *at)
    };
    // The first window of ten packets fits. The next packets arrive at the pace of the acknowledgements, two for each:
    // the queue grows by one for each, to 20 with the window of 40.
    assert_eq!(transfer(30).0, 0);
    // 4000 packets take 4.8 ms.
    let (lost, at) = transfer(4000);
    assert!(lost > 0 && at < Nanos(20_000_000), "{lost} lost, all there at {at:?}");
    // If the last packets of a transfer are lost, no later packet reveals the loss.
    let ends = (30..200).map(transfer).find(|(lost, _)| *lost > 0).unwrap();
    assert!((200_000_000..300_000_000).contains(&ends.1.0), "{ends:?}");
}

/// DCQCN on 100 Gb/s.
fn dcqcn() -> Sender {
    Sender::Rate { control: RateControl::Dcqcn(Settings::of(Rate::from_bits(100e9))) }
}

/// The marks of DCQCN's paper (5 KB, 200 KB, 1 % at 40 Gb/s), for 100 Gb/s.
const RAMP: Option<Marking> = Some(Marking::Ramp { from: 12_500, to: 500_000, most: 0.01 });

#[test]
fn e2_rates_of_dcqcn_share_a_link_and_notifications_keep_its_queue_short() {
    let switch = Switch { marking: RAMP, ..Switch::default() };
    let (got, port, network) = saturate(&[dcqcn(); 2], 2_000, switch, 100);
    assert!(fair(&got, 0.1), "{got:?}");
    // 1024 of 1068 bytes.
    let used = got.iter().sum::<u64>() as f64 / (100.0 * 12_500_000.0 * 1024.0 / 1068.0);
    assert!(used > 0.8, "{used}");
    assert_eq!(port.dropped, 0);
    let info = network.info(FlowId(0));
    assert!(info.delivered_ce > 50, "notifications: {info:?}");
    assert!(info.rate.is_some_and(|rate| rate < 9_000_000_000), "{info:?}");
    let mean = port.waited.as_nanos() as f64 / port.packets as f64 * 12.5;
    assert!(mean < 500_000.0, "{mean} bytes wait in the mean");
}

#[test]
fn a_flow_of_dcqcn_alone_has_the_link() {
    let switch = Switch { marking: RAMP, ..Switch::default() };
    let (got, ..) = saturate(&[dcqcn()], 2_000, switch, 10);
    let used = got[0] as f64 / (10.0 * 12_500_000.0 * 1024.0 / 1068.0);
    assert!(used > 0.999, "{used}");
}

#[test]
fn dcqcn_pauses_far_less_than_the_bare_link() {
    let pauses = |sender| {
        let pause = Some(Pause { pause: 100_000, resume: 50_000 });
        let switch = Switch { buffer: 3_000_000, marking: RAMP, pause, ..Switch::default() };
        let (.., network) = saturate(&[sender; 8], 2_000, switch, 20);
        assert_eq!(network.totals().dropped, 0);
        network.counters().map(|(_, port)| port.pauses).sum::<u64>()
    };
    let (bare, decided) = (pauses(Sender::Rate { control: RateControl::Line }), pauses(dcqcn()));
    assert!(decided * 5 < bare, "{decided} and {bare}");
}
