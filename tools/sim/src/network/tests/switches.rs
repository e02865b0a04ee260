//! The behaviour of switches, by hand-computed cases.

use super::*;
use crate::network::{Marking, Pause, RateControl, URGENT};

/// Makes a network of one switch (node 2 of two hosts, 3 of three, ...) and its hosts.
fn star(hosts: u32, delay: u64, switch: Switch) -> Network {
    let mut topology = Topology::new(PLAIN);
    let hosts: Vec<NodeId> = (0..hosts).map(|_| topology.host()).collect();
    let middle = topology.switch(switch);
    hosts.iter().for_each(|host| topology.link(*host, middle, link(delay)));
    Network::new(topology, 1).unwrap()
}

const LINE: Sender = Sender::Rate { control: RateControl::Line };

fn arrivals(events: &[Event], of: FlowId) -> Vec<u64> {
    let time = |event: &Event| match event {
        Event::Arrived { at, flow, .. } if *flow == of => Some(at.0),
        _ => None,
    };
    events.iter().filter_map(time).collect()
}

/// Keeps a link full with three flows of DCTCP, and sends messages of 128 or 256 bytes of Urgent over it at random, a
/// tenth of its capacity. Returns the times of all, shortest first, in ns.
fn urgent_on_a_full_link(priority: bool) -> Vec<u64> {
    let mut network = Network::new(dumbbell(4, 200, Switch { priority, ..Switch::default() }), 1);
    let network = network.as_mut().unwrap();
    for from in 1..4 {
        start(network, flow(from, from + 4, window(Control::Dctcp)), 1 << 40);
    }
    let urgent = network.open(Nanos::ZERO, FlowSpec { dscp: URGENT, ..flow(0, 4, LINE) });
    let mut random = fastrand::Rng::with_seed(1);
    let (mut now, mut events, mut sent) = (5_000_000, Vec::new(), Vec::new());
    while now < 25_000_000 {
        network.advance(Nanos(now), &mut events);
        network.write(Nanos(now), urgent, if random.bool() { 128 } else { 256 });
        sent.push(now);
        now += 100 + random.u64(0..200);
    }
    network.advance(Nanos(now + 1_000_000), &mut events);
    // Each message is a packet, and they arrive in order.
    let arrivals = arrivals(&events, urgent).into_iter();
    let mut times: Vec<u64> = arrivals.zip(sent).map(|(arrived, sent)| arrived - sent).collect();
    assert!(times.len() > 90_000);
    times.sort_unstable();
    times
}

#[test]
fn e12_urgent_waits_for_one_packet_on_a_full_link_and_without_priority_for_the_queue() {
    let (with, without) = (urgent_on_a_full_link(true), urgent_on_a_full_link(false));
    let at = |times: &[u64], part: usize| times[times.len() * part / 100];
    // Three links of 200 ns, and the packet on each: 15 or 26 ns. It waits for a packet of 120 ns at
    // most, and sometimes for another of its own.
    assert!(at(&with, 1) >= 642 && at(&with, 50) <= 780 && at(&with, 99) <= 900, "{with:?}");
    // The queue is up to 140 packets, which take 17 us: the source has 17 to 23 us from end to end,
    // and 82 % less with priority.
    for part in [50, 90, 99] {
        let (with, without) = (at(&with, part), at(&without, part));
        assert!((10_000..23_000).contains(&without), "{part} %: {without} ns");
        assert!(with * 10 < without, "{part} %: {with}, {without} ns");
    }
}

/// Two hosts send four full packets each to a third, and one of them, at the same time, a packet of
/// Urgent. Returns when the packets arrive.
fn urgent_beside_bulk(priority: bool) -> (Vec<u64>, Vec<u64>) {
    let mut network = star(4, 1000, Switch { priority, ..Switch::default() });
    // 1024 bytes and 44 of headers: 85.44 ns.
    let bulk = start(&mut network, flow(0, 2, LINE), 4 * 1024);
    start(&mut network, flow(1, 2, LINE), 4 * 1024);
    let urgent = FlowSpec { dscp: URGENT, ..flow(3, 2, LINE) };
    let mut events = Vec::new();
    network.advance(Nanos(171), &mut events);
    let urgent = network.open(Nanos(171), urgent);
    network.write(Nanos(171), urgent, 256);
    network.advance(Nanos(100_000), &mut events);
    (arrivals(&events, urgent), arrivals(&events, bulk))
}

#[test]
fn e12_urgent_goes_first_and_interrupts_nothing() {
    // The packet of 300 bytes takes 24 ns: it is sent at 171, and is at the switch at 1195. There the
    // first of the bulk have come at 1085.44 (two of them), 1170.88, 1256.32, 1341.76.
    let (urgent, _) = urgent_beside_bulk(true);
    // The second packet began at 1170.88, and is sent at 1256.32. Then 24 ns, then the link.
    assert_eq!(urgent, [2281]);
    let (urgent, _) = urgent_beside_bulk(false);
    // In order of arrival four packets are before it: until 1085.44 + 4 * 85.44.
    assert_eq!(urgent, [2452]);
}

#[test]
fn a_queue_marks_what_finds_so_many_packets_waiting() {
    // Two hosts send ten packets each at once. Each 120 ns two come and one goes, so that the n-th
    // pair finds n - 1 waiting each.
    let four = Some(Marking::Bytes(6000));
    for (marking, marked) in [(Some(Marking::Packets(3)), 14), (four, 12), (None, 0)] {
        let mut network = star(3, 1000, Switch { marking, ..Switch::default() });
        for from in [0, 1] {
            start(&mut network, flow(from, 2, window(Control::Dctcp)), 10 * 1448);
        }
        network.advance(Nanos(1_000_000), &mut Vec::new());
        let port = port_to(&network, 2);
        assert_eq!((port.packets, port.marked, port.most), (20, marked, 15_000), "{marking:?}");
        // The n-th pair waits (n - 1) * 120 ns and n * 120 ns.
        assert_eq!(port.waited, Duration::from_nanos(120 * 100));
    }
}

#[test]
fn a_queue_takes_its_share_of_the_free_buffer_and_no_more() {
    // With a share of 1 a queue may hold as many bytes as the buffer has free: 30000 of 60000.
    let switch = Switch { buffer: 60_000, share: 1.0, marking: None, ..Switch::default() };
    let mut network = star(9, 1000, switch);
    for from in 1..9 {
        start(&mut network, flow(from, 0, window(Control::Reno { ecn: false })), 10 * 1448);
    }
    network.advance(Nanos(2_400), &mut Vec::new());
    let port = port_to(&network, 0);
    assert!(port.dropped > 0);
    assert!((30_000..=31_500).contains(&port.most), "{port:?}");
}

#[test]
fn e12_urgent_has_its_reserved_buffer_when_all_else_is_taken() {
    let lost = |reserved| {
        let full = Switch { buffer: 40_000, share: 64.0, marking: None, ..Switch::default() };
        let mut network = star(10, 1000, Switch { priority: true, reserved, ..full });
        for from in 1..9 {
            start(&mut network, flow(from, 0, LINE), 100 * 1024);
        }
        network.advance(Nanos(5_000), &mut Vec::new());
        // Three hosts send to Urgent at once: more than the link takes.
        let urgent = [7, 8, 9].map(|from| {
            let spec = FlowSpec { dscp: URGENT, ..flow(from, 0, LINE) };
            let flow = network.open(Nanos(5_000), spec);
            network.write(Nanos(5_000), flow, 1024);
            flow
        });
        network.advance(Nanos(100_000_000), &mut Vec::new());
        urgent.iter().map(|flow| network.info(*flow).retransmitted).sum::<u64>()
    };
    assert!(lost(0) > 0);
    assert_eq!(lost(3_000), 0);
}

#[test]
fn a_pause_comes_before_the_buffer_is_full_and_ends() {
    let run = |pause| {
        // Each link may bring 2 us * 12.5 GB/s and a few packets after its pause.
        let switch = Switch { buffer: 800_000, pause, marking: None, ..Switch::default() };
        let mut network = star(9, 1000, switch);
        let flows: Vec<FlowId> =
            (1..9).map(|from| start(&mut network, flow(from, 0, LINE), 1 << 40)).collect();
        let got = super::run(&mut network, 10_000_000, &flows);
        let pauses = network.counters().map(|(_, port)| port.pauses).sum::<u64>();
        (got, port_to(&network, 0), pauses)
    };
    let (_, port, pauses) = run(None);
    assert!(port.dropped > 0 && pauses == 0, "what pauses are for");
    let (got, port, pauses) = run(Some(Pause { pause: 20_000, resume: 10_000 }));
    assert_eq!(port.dropped, 0);
    assert!(pauses > 100, "{pauses}");
    // 1024 of each 1068 bytes.
    let all = got.iter().sum::<u64>();
    assert!(all > 119_000_000, "the link is never idle: {all}");
    assert!(got.iter().all(|bytes| bytes.abs_diff(all / 8) < all / 100), "fair: {got:?}");
}

/// Sends over a switch that loses this part of all packets. Returns the bytes that came in 20 ms,
/// and the port.
fn over_losses(loss: f64) -> (u64, PortCounters) {
    let mut network = star(2, 1000, Switch { loss, ..Switch::default() });
    let flow = start(&mut network, flow(0, 1, LINE), 1 << 30);
    let got = super::run(&mut network, 20_000_000, &[flow])[0];
    (got, port_to(&network, 1))
}

#[test]
fn a_part_of_packets_is_lost_at_random() {
    let (_, port) = over_losses(0.001);
    let part = port.lost as f64 / (port.packets + port.lost) as f64;
    assert!((0.0005..0.0015).contains(&part), "{port:?}");
    // A loss costs the packets sent until the sender is notified: a round trip of 4.3 us, 50 packets. A time-out of 67
    // ms would take longer than the whole run.
    let (got, port) = over_losses(0.0002);
    assert!(port.lost > 20, "{port:?}");
    assert!(got > 225_000_000, "{got}");
}
