//! The queue of DCTCP, packet by packet, beside the discrete-time model.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::time::Duration;

use qtcp::Nanos;
use reproduce::models::dtm::{Arrivals, Goal, Model, ModelClass, Setup};
use sluice_sim::control::Limits;
use sluice_sim::network::{
    Control, Dumbbell, FlowSpec, Link, Network, NodeId, Packets, Sender, Switch,
};

/// The mean queue in packets, and the part of the link that is used, of DCTCP with so many flows on
/// 100 Gb/s with a round trip of 98 us: packet by packet.
fn simulated(flows: u32) -> (f64, f64) {
    let edge = Link { rate: 1_000_000_000_000, delay: Duration::from_nanos(100) };
    let middle = Link { rate: 100_000_000_000, delay: Duration::from_nanos(48_800) };
    let (switch, packets) = (Switch::default(), Packets { mtu: 1500, frame: 0 });
    let topology = Dumbbell { left: flows, right: flows, edge, middle, switch, packets };
    let mut network = Network::new(topology.build(), 1).unwrap();
    let open = |from| {
        let (from, to) = (NodeId(from), NodeId(from + flows));
        let (sender, send_buffer) = (Sender::Window { control: Control::Dctcp }, u64::MAX);
        let spec = FlowSpec { from, to, dscp: 0, sender, send_buffer, notsent_lowat: None };
        let flow = network.open(Nanos::ZERO, spec);
        network.write(Nanos::ZERO, flow, 1 << 40);
    };
    (0..flows).for_each(open);
    let middle = |network: &Network| {
        let mut ports = network.counters().map(|(_, port)| port);
        let ends = (NodeId(2 * flows), NodeId(2 * flows + 1));
        ports.find(|port| (port.from, port.to) == ends).unwrap()
    };
    network.advance(Nanos(100_000_000), &mut Vec::new());
    let before = middle(&network);
    network.advance(Nanos(300_000_000), &mut Vec::new());
    let after = middle(&network);
    let (packets, waited) = (after.packets - before.packets, after.waited - before.waited);
    // By Little's law: the time that all have waited, by the time in which they did.
    (waited.as_secs_f64() / 0.2, packets as f64 * 1500.0 * 8.0 / 100e9 / 0.2)
}

/// The same by the model.
fn modelled(flows: u32) -> (f64, f64) {
    let (goal, delay, arrivals) = (Goal::None, Duration::from_micros(49), Arrivals::Saturated);
    let class = ModelClass { goal, flows, delay, arrivals };
    let limits = Limits { min: 2.0, ..Limits::default() };
    let setup =
        Setup { gain: 1.0 / 16.0, epsilon: 0.0, limits, classes: vec![class], ..Setup::default() };
    let mut model = Model::new(setup).unwrap();
    let (mut time, mut queue, mut carried) = (0.0, 0.0, 0.0);
    while model.time() < 0.3 {
        let before = model.time();
        model.step();
        if model.time() > 0.1 {
            let slot = model.time() - before;
            time += slot;
            queue += model.queue() * slot;
            carried += model.classes()[0].carried * slot;
        }
    }
    (queue / time, carried / time / model.setup().capacity)
}

#[test]
fn e3_dctcps_queue_is_as_the_discrete_time_model_has_it() {
    for flows in [2, 5, 10, 20] {
        let ((queue, used), (modelled, carried)) = (simulated(flows), modelled(flows));
        assert!((used - carried).abs() < 0.001, "{flows}: the link is used to {used}, {carried}");
        // The model's windows rest where as much is taken in a round trip as grows: its queue stays at
        // the threshold. Packets see the saw-tooth below it, which is the higher the more flows
        // there are (Alizadeh et al., SIGCOMM 2010, section 3.3): from K + N down by
        // sqrt(2 N (C RTT + K)) / 2.
        let part = queue / modelled;
        assert!((0.73..1.0).contains(&part), "{flows}: {queue}, {modelled} packets");
        let (threshold, count) = (140.0, f64::from(flows));
        let tooth = (2.0 * count * (100e9 / 12_000.0 * 98e-6 + threshold)).sqrt() / 2.0;
        let mean = threshold + count - tooth / 2.0;
        assert!((queue / mean - 1.0).abs() < 0.08, "{flows}: {queue}, {mean} packets");
    }
}
