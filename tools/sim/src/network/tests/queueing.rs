//! Queues beside queueing theory.

use super::*;

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
    let port = port_to(&network, 1);
    assert_eq!((port.packets + port.waiting + 10) / 1_000_000, 1);
    port.waited.as_nanos() as f64 / port.packets as f64
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
