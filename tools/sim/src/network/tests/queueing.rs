//! Queues beside queueing theory, and DCTCP's beside the discrete-time model.

use qtcp::control::Limits;
use qtcp::dtm::{Arrivals, Goal, Model, ModelClass, Setup};

use super::*;
use crate::network::PortCounters;

/// 10 Gb/s: a byte takes 0.8 ns.
const SLOW: u64 = 10_000_000_000;

/// A host behind a link of 1 Tb/s, a switch, and a host behind one of [`SLOW`]: packets wait at the
/// switch only.
fn queue(mtu: u32) -> Network {
    let mut topology = Topology::new(Packets { mtu, frame: 0 });
    let (from, to) = (topology.host(), topology.host());
    let switch =
        topology.switch(Switch { marking: None, buffer: 1_000_000_000, ..Switch::default() });
    let delay = Duration::from_nanos(10);
    topology.link(from, switch, Link { rate: 1_000_000_000_000, delay });
    topology.link(to, switch, Link { rate: SLOW, delay });
    Network::new(topology, 1).unwrap()
}

/// Sends packets at exponentially distributed distances, of `mean` ns, of so many bytes each with
/// headers. Returns how long they waited in the mean, in ns.
fn mean_wait(mean: f64, mut bytes: impl FnMut(&mut fastrand::Rng) -> u64) -> f64 {
    let mut network = queue(65_000);
    let mut random = fastrand::Rng::with_seed(3);
    // A flow has no more than the ten packets of its first window under way: 400 of them limit
    // nothing.
    let flows: Vec<FlowId> =
        (0..400).map(|_| network.open(Nanos::ZERO, flow(0, 1, window(Control::Dctcp)))).collect();
    let (mut time, mut events) = (0.0, Vec::new());
    for number in 0..1_000_000_usize {
        time += -mean * random.f64().max(1e-12).ln();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive")]
        let now = Nanos(time as u64);
        network.advance(now, &mut events);
        events.clear();
        network.write(now, flows[number % flows.len()], bytes(&mut random) - 52);
    }
    let port = port(&network);
    assert_eq!((port.packets + port.waiting + 10) / 1_000_000, 1);
    port.waited.as_nanos() as f64 / port.packets as f64
}

/// The counters of the switch's port to the host.
fn port(network: &Network) -> PortCounters {
    network.counters().map(|(_, port)| port).find(|port| port.to == NodeId(1)).unwrap()
}

#[test]
fn packets_of_one_size_wait_as_m_d_1_says() {
    // 1500 bytes take 1200 ns.
    for load in [0.5, 0.8] {
        let wait = mean_wait(1200.0 / load, |_| 1500);
        let theory = 1200.0 * load / (2.0 * (1.0 - load));
        assert!((wait / theory - 1.0).abs() < 0.02, "at {load}: {wait}, {theory} ns");
    }
}

#[test]
fn packets_of_exponential_sizes_wait_as_m_m_1_says() {
    // 5000 bytes in the mean take 4000 ns. The bounds change the mean by less than one part in ten thousand.
    let size = |random: &mut fastrand::Rng| {
        let bytes = -5000.0 * random.f64().max(1e-12).ln();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive")]
        let bytes = bytes.clamp(53.0, 65_000.0) as u64;
        bytes
    };
    for load in [0.4, 0.7] {
        let wait = mean_wait(4000.0 / load, size);
        let theory = 4000.0 * load / (1.0 - load);
        assert!((wait / theory - 1.0).abs() < 0.02, "at {load}: {wait}, {theory} ns");
    }
}

/// The mean queue in packets, and the part of the link that is used, of DCTCP with so many flows on
/// 100 Gb/s with a round trip of 98 us: packet by packet.
fn simulated(flows: u32) -> (f64, f64) {
    let (edge, middle) = (link(100), link(48_800));
    let edge = Link { rate: 1_000_000_000_000, ..edge };
    let topology = Dumbbell {
        left: flows,
        right: flows,
        edge,
        middle,
        switch: Switch::default(),
        packets: PLAIN,
    };
    let mut network = Network::new(topology.build(), 1).unwrap();
    let flows: Vec<FlowId> = (0..flows)
        .map(|from| start(&mut network, flow(from, from + flows, window(Control::Dctcp)), 1 << 40))
        .collect();
    let middle = |network: &Network| {
        let mut ports = network.counters().map(|(_, port)| port);
        let hosts = 2 * u32::try_from(flows.len()).unwrap();
        ports.find(|port| (port.from, port.to) == (NodeId(hosts), NodeId(hosts + 1))).unwrap()
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
    let class = ModelClass {
        goal: Goal::None,
        flows,
        delay: Duration::from_micros(49),
        arrivals: Arrivals::Saturated,
    };
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
