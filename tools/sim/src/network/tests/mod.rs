//! Tests of whole networks.

mod conservation;
mod control;
mod queueing;
mod switches;
mod topologies;

use core::time::Duration;

use units::Nanos;

use super::{
    Control, Dumbbell, Event, FlowId, FlowSpec, Link, Network, NodeId, Packets, PortCounters,
    Sender, Switch, Topology,
};

/// 100 Gb/s and a delay in ns.
const fn link(delay: u64) -> Link {
    Link { rate: 100_000_000_000, delay: Duration::from_nanos(delay) }
}

/// Packets without what Ethernet adds, so that times are whole: 1500 bytes take 120 ns.
const PLAIN: Packets = Packets { mtu: 1500, frame: 0 };

/// A dumbbell of so many hosts on each side, whose middle link is as fast as the hosts' links.
fn dumbbell(hosts: u32, delay: u64, switch: Switch) -> Topology {
    let link = link(delay);
    Dumbbell { left: hosts, right: hosts, edge: link, middle: link, switch, packets: PLAIN }.build()
}

/// A flow with a large send buffer.
fn flow(from: u32, to: u32, sender: Sender) -> FlowSpec {
    let (from, to, send_buffer) = (NodeId(from), NodeId(to), u64::MAX);
    FlowSpec { from, to, dscp: 0, sender, send_buffer, notsent_lowat: None }
}

const fn window(control: Control) -> Sender {
    Sender::Window { control }
}

/// Opens the flow and gives it so many bytes to send at the start.
fn start(network: &mut Network, spec: FlowSpec, bytes: u64) -> FlowId {
    let flow = network.open(Nanos::ZERO, spec);
    network.write(Nanos::ZERO, flow, bytes);
    flow
}

/// Runs until then. Returns the bytes that each flow's receiver got.
fn run(network: &mut Network, until: u64, flows: &[FlowId]) -> Vec<u64> {
    let mut events = Vec::new();
    network.advance(Nanos(until), &mut events);
    received(events, flows)
}

/// Returns the bytes that each flow's receiver got.
fn received(events: Vec<Event>, flows: &[FlowId]) -> Vec<u64> {
    let mut got = vec![0; flows.len()];
    for event in events {
        if let Event::Arrived { flow, bytes, .. } = event
            && let Some(at) = flows.iter().position(|known| *known == flow)
        {
            got[at] += bytes;
        }
    }
    got
}

/// The counters of a switch's port to a host.
fn port_to(network: &Network, host: u32) -> PortCounters {
    network.counters().map(|(_, port)| port).find(|port| port.to == NodeId(host)).unwrap()
}

#[test]
fn a_packet_takes_its_time_on_each_link_and_so_does_its_acknowledgement() {
    let mut network = Network::new(dumbbell(1, 1000, Switch::default()), 1).unwrap();
    let flow = start(&mut network, flow(0, 1, window(Control::Dctcp)), 1448);
    let mut events = Vec::new();
    network.advance(Nanos(u64::MAX / 2000), &mut events);
    // Three links of 120 ns and 1 us; the 52 bytes of an acknowledgement take 4.16 ns.
    assert_eq!(events, [Event::Arrived { at: Nanos(3360), flow, bytes: 1448 }]);
    assert_eq!(network.info(flow).srtt, Duration::from_nanos(6372));
    assert_eq!(network.info(flow).delivered, 1);
    assert_eq!(network.next(), None, "nothing goes on for ever");
}

#[test]
fn the_send_buffer_is_full_and_has_room_again() {
    let mut network = Network::new(dumbbell(1, 1000, Switch::default()), 1).unwrap();
    let (send_buffer, notsent_lowat) = (30_000, Some(10_000));
    let spec = flow(0, 1, window(Control::Dctcp));
    let flow = network.open(Nanos::ZERO, FlowSpec { send_buffer, notsent_lowat, ..spec });
    assert_eq!(network.room(flow), 10_000);
    network.write(Nanos::ZERO, flow, 10_000);
    assert!(network.room(flow) > 0, "a packet is being sent already");
    network.write(Nanos::ZERO, flow, network.room(flow));
    assert_eq!(network.room(flow), 0);
    let mut events = Vec::new();
    network.advance(Nanos(1_000_000), &mut events);
    let writable = events.iter().filter(|event| matches!(event, Event::Writable { .. }));
    assert_eq!(writable.count(), 1, "once");
    assert_eq!((network.room(flow), network.info(flow).unsent), (10_000, 0));
}

#[test]
fn a_flow_that_is_paced_has_its_rate() {
    let mut network = Network::new(dumbbell(1, 1000, Switch::default()), 1).unwrap();
    let flow = start(&mut network, flow(0, 1, window(Control::Dctcp)), 1 << 40);
    network.set_pacing(Nanos::ZERO, flow, Some(1_000_000_000));
    let got = run(&mut network, 10_000_000, &[flow]);
    assert!(got[0].abs_diff(10_000_000) < 100_000, "{got:?}");
    network.set_pacing(Nanos(10_000_000), flow, None);
    let got = run(&mut network, 20_000_000, &[flow]);
    assert!(got[0] > 100_000_000, "all of the link: {got:?}");
}

#[test]
fn a_closed_flow_is_silent_until_its_number_is_free() {
    for (delay, bytes, closed, second) in [
        (1000, 1 << 40, Nanos(50_000), Nanos(50_000)),
        // The packet is on its way for nine seconds, longer than any timer of its flow.
        (3_000_000_000, 10, Nanos(1), Nanos(5_000_000_000)),
    ] {
        let mut network = Network::new(dumbbell(1, delay, Switch::default()), 1).unwrap();
        let spec = flow(0, 1, window(Control::Dctcp));
        let first = start(&mut network, spec, bytes);
        network.advance(closed, &mut Vec::new());
        network.close(closed, first);
        let mut events = Vec::new();
        network.advance(second, &mut events);
        assert_ne!(first, network.open(second, spec), "its packets are still on their way");
        network.advance(Nanos::MAX, &mut events);
        assert_eq!(events, [], "nobody hears of them");
        // Time has not run away.
        let third = Nanos(10_000_000_000);
        assert_eq!(first, network.open(third, spec));
        network.write(third, first, 10);
        network.advance(Nanos::MAX, &mut events);
        assert!(matches!(events[..], [Event::Arrived { bytes: 10, .. }]), "{events:?}");
    }
}
