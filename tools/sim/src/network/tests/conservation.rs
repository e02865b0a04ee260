//! Packets and bytes are conserved, with any losses.

use proptest::prelude::*;

use super::*;
use crate::control::dcqcn::Settings;
use crate::network::{FatTree, Marking, Pause, RateControl};

fn sender() -> impl Strategy<Value = Sender> {
    prop_oneof![
        Just(window(Control::Dctcp)),
        any::<bool>().prop_map(|ecn| window(Control::Reno { ecn })),
        any::<bool>().prop_map(|ecn| window(Control::Cubic { ecn })),
        Just(Sender::Rate { control: RateControl::Line }),
        Just(Sender::Rate {
            control: RateControl::Dcqcn(Settings::of(qtcp::Rate::from_bits(1e11)))
        }),
    ]
}

prop_compose! {
    fn switch()(
        buffer in 20_000u64..200_000,
        share in 0.1f64..4.0,
        priority: bool,
        reserved in 0u64..2_000,
        loss in prop_oneof![Just(0.0), 0.0f64..0.1],
        threshold in 1u32..30,
        ramp: bool,
    ) -> Switch {
        let marking = if ramp {
            Marking::Ramp { from: 1_000, to: 1_000 + u64::from(threshold) * 1500, most: 0.1 }
        } else {
            Marking::Packets(threshold)
        };
        Switch { buffer, share, priority, reserved, loss, marking: Some(marking), pause: None }
    }
}

/// A transfer: from, to, Urgent, sender, bytes of each write.
type Transfer = (u32, u32, bool, Sender, Vec<u32>);

fn transfers(hosts: u32) -> impl Strategy<Value = Vec<Transfer>> {
    let write = prop::collection::vec(1u32..60_000, 1..6);
    let transfer = (0..hosts, 1..hosts, any::<bool>(), sender(), write).prop_map(
        move |(from, to, urgent, sender, writes)| {
            (from, (from + to) % hosts, urgent, sender, writes)
        },
    );
    prop::collection::vec(transfer, 1..8)
}

/// Runs transfers to their ends, and checks on the way that all packets are accounted for.
fn check(topology: Topology, transfers: Vec<Transfer>, seed: u64) -> Result<(), TestCaseError> {
    let mut network = Network::new(topology, seed).unwrap();
    let mut events = Vec::new();
    let flows: Vec<FlowId> = transfers
        .iter()
        .map(|(from, to, urgent, sender, _)| {
            let dscp = if *urgent { crate::network::URGENT } else { 0 };
            network.open(Nanos::ZERO, FlowSpec { dscp, ..flow(*from, *to, *sender) })
        })
        .collect();
    for (round, now) in (0..5).zip((0..).step_by(700)) {
        network.advance(Nanos(now), &mut events);
        for (flow, (.., writes)) in flows.iter().zip(&transfers) {
            let bytes = writes.get(round).copied().unwrap_or(0);
            network.write(Nanos(now), *flow, u64::from(bytes));
        }
    }
    let adapters = transfers.iter().any(|(.., sender, _)| matches!(sender, Sender::Rate { .. }));
    let mut steps = 0;
    while let Some(now) = network.next() {
        network.advance(now, &mut events);
        steps += 1;
        if steps % 64 == 0 {
            let all = network.totals();
            prop_assert_eq!(all.made, all.delivered + all.dropped + all.waiting + all.flying);
            // Two of each port, its pauses, and the timers of flows.
            let most = network.counters().count() * 4 + flows.len() * 4;
            prop_assert!(all.coming <= most as u64, "{:?}", all);
        }
        if steps == 3_000_000 {
            // Adapters send again after the same time each, all from the loss on: they may take each other's
            // room in a queue of some packets for ever. Nothing is lost track of meanwhile.
            prop_assert!(adapters, "it does not end");
            return Ok(());
        }
    }
    let all = network.totals();
    prop_assert_eq!(all.made, all.delivered + all.dropped);
    let counted: u64 = network.counters().map(|(_, port)| port.dropped + port.lost).sum();
    prop_assert_eq!(all.dropped, counted);
    let received = received(events, &flows);
    for ((flow, (.., writes)), got) in flows.iter().zip(&transfers).zip(received) {
        let written = writes.iter().map(|bytes| u64::from(*bytes)).sum::<u64>();
        let info = network.info(*flow);
        prop_assert_eq!((got, info.delivered_bytes, info.unsent), (written, written, 0));
        prop_assert_eq!(info.in_flight, 0);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn all_that_is_written_arrives_over_a_dumbbell_that_loses(
        switch in switch(), transfers in transfers(8), seed: u64,
    ) {
        check(dumbbell(4, 500, switch), transfers, seed)?;
    }

    #[test]
    fn all_that_is_written_arrives_over_a_fat_tree_that_loses(
        switch in switch(), transfers in transfers(16), seed: u64,
    ) {
        let tree = FatTree {
            pods: 4, hosts: None, edge: link(200), inner: link(500), switch, packets: Packets::default(),
        };
        check(tree.build().unwrap(), transfers, seed)?;
    }

    #[test]
    fn with_pauses_nothing_is_lost(
        transfers in transfers(8), pause in 3_000u64..30_000, priority: bool, seed: u64,
    ) {
        let pause = Some(Pause { pause, resume: pause / 2 });
        let switch = Switch { buffer: 2_000_000, priority, pause, ..Switch::default() };
        let topology = dumbbell(4, 500, switch);
        let mut network = Network::new(topology.clone(), seed).unwrap();
        for (from, to, urgent, sender, writes) in &transfers {
            let dscp = if *urgent { crate::network::URGENT } else { 0 };
            let bytes = writes.iter().map(|bytes| u64::from(*bytes)).sum();
            start(&mut network, FlowSpec { dscp, ..flow(*from, *to, *sender) }, bytes);
        }
        network.advance(Nanos(u64::MAX / 2000), &mut Vec::new());
        prop_assert_eq!(network.totals().dropped, 0);
        check(topology, transfers, seed)?;
    }
}
