//! Tests of a sender with a window, which need no network.

use super::*;
use crate::network::packet::Kind;
use crate::network::receiver::tests::data;
use crate::network::time::{MICRO, MILLI};

/// A sender of packets of 100 bytes that has much to send.
fn sender(control: Control) -> WindowSender {
    let mut sender = WindowSender::new(control, 100);
    sender.write(1 << 40);
    sender
}

/// Sends all packets that the window permits. Returns their number.
fn send(sender: &mut WindowSender, now: Picos) -> usize {
    core::iter::from_fn(|| sender.packet(now)).count()
}

/// An acknowledgement of all before a packet, sent at the origin.
fn acknowledgement(packets: u64, marked: bool) -> Packet {
    let (number, kind) = (packets * 100, Kind::Ack);
    Packet { number, kind, bytes: 52, capable: false, ..data(0, 0, marked, false) }
}

#[test]
fn slow_start_sends_two_packets_for_each_that_was_acknowledged() {
    let mut sender = sender(Control::Dctcp);
    assert_eq!(send(&mut sender, 0), 10);
    for packet in 1..=10 {
        sender.acknowledge(MICRO, &acknowledgement(packet, false));
        assert_eq!(send(&mut sender, MICRO), 2);
    }
    assert_eq!((sender.window(), sender.flying()), (20, 20));
}

#[test]
fn a_mark_shrinks_the_window_over_one_round_trip_and_once() {
    let mut sender = sender(Control::Dctcp);
    send(&mut sender, 0);
    // Alpha is 1 still, so that half of the window stays: of the ten in the network each second one
    // is replaced.
    let mut sent = 0;
    for packet in 1..=10 {
        sender.acknowledge(MICRO, &acknowledgement(packet, true));
        sent += send(&mut sender, MICRO);
    }
    assert_eq!((sent, sender.flying(), sender.window()), (5, 5, 5));
    assert!(matches!(sender.phase, Phase::Reducing(1000)));
    sender.acknowledge(MICRO, &acknowledgement(11, false));
    assert_eq!(sender.phase, Phase::Open);
    assert_eq!(sender.window(), 5);
    // Slow start is over: a packet for each window.
    for packet in 12..=17 {
        send(&mut sender, MICRO);
        sender.acknowledge(MICRO, &acknowledgement(packet, false));
    }
    assert_eq!(sender.window(), 6);
}

#[test]
fn the_sender_that_reacted_says_so_once() {
    let mut sender = sender(Control::Reno { ecn: true });
    send(&mut sender, 0);
    sender.acknowledge(MICRO, &acknowledgement(1, true));
    let said: Vec<bool> = (2..=10)
        .filter_map(|packet| {
            let outgoing = sender.packet(MICRO);
            sender.acknowledge(MICRO, &acknowledgement(packet, true));
            outgoing.map(|outgoing| outgoing.asks)
        })
        .collect();
    assert_eq!(said.iter().filter(|said| **said).count(), 1, "{said:?}");
    assert_eq!(said.first(), Some(&true));
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut sender = WindowSender::new(Control::Dctcp, 100);
    for packet in 1..=50 {
        sender.write(100);
        assert_eq!(send(&mut sender, 0), 1);
        sender.acknowledge(MICRO, &acknowledgement(packet, false));
    }
    assert_eq!(sender.window(), 10);
    assert!(sender.application_limited());
}

#[test]
fn a_sender_that_was_silent_for_long_begins_anew() {
    let mut sender = sender(Control::Dctcp);
    let mut acknowledged = 0;
    send(&mut sender, MICRO);
    while sender.window() < 80 {
        acknowledged += 1;
        sender.acknowledge(2 * MICRO, &acknowledgement(acknowledged, false));
        send(&mut sender, 2 * MICRO);
    }
    let all = sender.stream.sent / 100;
    sender.stream.written = sender.stream.sent;
    sender.acknowledge(2 * MICRO, &acknowledgement(all, false));
    let before = sender.window();
    sender.write(1000);
    // Two time-outs of 200 ms went by: it is halved twice.
    sender.packet(500 * MILLI);
    assert_eq!(sender.window(), before / 4);
    sender.acknowledge(500 * MILLI, &acknowledgement(all + 10, false));
    sender.write(1000);
    sender.packet(10_000 * MILLI);
    assert_eq!(sender.window(), 10, "down to that of a new flow");
}

#[test]
fn after_the_time_out_everything_is_sent_again_from_a_window_of_one() {
    let mut sender = sender(Control::Dctcp);
    send(&mut sender, 0);
    assert_eq!(sender.time_out(), SECOND);
    sender.expire(SECOND);
    assert_eq!((sender.window(), sender.time_out()), (1, 3 * SECOND));
    let numbers = |sender: &mut WindowSender| -> Vec<u64> {
        core::iter::from_fn(|| sender.packet(SECOND)).map(|outgoing| outgoing.number).collect()
    };
    assert_eq!(numbers(&mut sender), [0]);
    sender.acknowledge(SECOND, &acknowledgement(1, false));
    assert_eq!(numbers(&mut sender), [100, 200], "slow start");
}

#[test]
fn pacing_keeps_packets_apart_at_the_limit_or_at_the_window_s_rate() {
    let mut sender = sender(Control::Dctcp);
    // 100 bytes at 100 MB/s are a microsecond.
    sender.pace(0, Some(100_000_000));
    assert!(sender.packet(0).is_some());
    assert_eq!(sender.ready(0), Ready::At(MICRO));
    assert!(sender.packet(MICRO).is_some());
    // A round trip of 1 ms, 10 packets in it, twice that while the window doubles: 50 us.
    sender.acknowledge(MILLI, &acknowledgement(1, false));
    assert!(sender.packet(MILLI).is_some());
    let Ready::At(at) = sender.ready(MILLI) else { panic!() };
    assert!((45 * MICRO..=50 * MICRO).contains(&(at - MILLI)), "{at}");
    sender.pace(MILLI, None);
    assert_eq!(sender.ready(MILLI), Ready::Now);
}
