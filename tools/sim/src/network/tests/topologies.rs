//! Ways through topologies, and what cannot be one.

use std::collections::BTreeSet;

use super::*;
use crate::network::{FatTree, Pause, TopologyError};

fn tree(pods: u32) -> FatTree {
    let (edge, inner, switch) = (link(500), link(500), Switch::default());
    FatTree { pods, hosts: None, edge, inner, switch, packets: PLAIN }
}

/// The ways of a hundred flows between two hosts.
fn ways(network: &mut Network, from: u32, to: u32) -> BTreeSet<Vec<u32>> {
    let mut ways = BTreeSet::new();
    for _ in 0..100 {
        let flow = network.open(Nanos::ZERO, flow(from, to, window(Control::Dctcp)));
        ways.insert(network.way(flow).map(|node| node.0).collect());
    }
    ways
}

#[test]
fn flows_of_a_fat_tree_take_all_of_the_shortest_ways_and_no_other() {
    // Four pods: 16 hosts; edge and aggregation switches 16, 17, 18, 19 of the first pod, 20 to 23
    // of the second, and so on; core switches 32 to 35, the first two above the pods' first
    // aggregation switches.
    let mut network = Network::new(tree(4).build().unwrap(), 1).unwrap();
    let same = |ways: &BTreeSet<Vec<u32>>, expected: &[&[u32]]| {
        assert_eq!(*ways, expected.iter().map(|way| way.to_vec()).collect());
    };
    same(&ways(&mut network, 0, 1), &[&[0, 16, 1]]);
    same(&ways(&mut network, 0, 2), &[&[0, 16, 18, 17, 2], &[0, 16, 19, 17, 2]]);
    // Host 6 is at the second edge switch of the second pod.
    let expected = [(18, 32, 22), (18, 33, 22), (19, 34, 23), (19, 35, 23)]
        .map(|(up, core, down)| vec![0, 16, up, core, down, 21, 6]);
    assert_eq!(ways(&mut network, 0, 6), BTreeSet::from(expected));
}

#[test]
fn the_seed_decides_the_ways() {
    let way = |seed| {
        let mut network = Network::new(tree(8).build().unwrap(), seed).unwrap();
        let flow = network.open(Nanos::ZERO, flow(0, 100, window(Control::Dctcp)));
        network.way(flow).collect::<Vec<_>>()
    };
    assert_eq!(way(1), way(1));
    assert!((2..20).any(|seed| way(seed) != way(1)));
}

#[test]
fn a_full_fat_tree_carries_what_its_hosts_send() {
    // Each host sends to the one half of the tree away. The four ways of a pair are chosen by hash,
    // so that some are shared; all is carried in the end, and six links away.
    let mut network = Network::new(tree(4).build().unwrap(), 7).unwrap();
    let flows: Vec<FlowId> = (0..16)
        .map(|host| {
            start(&mut network, flow(host, (host + 8) % 16, window(Control::Dctcp)), 1_448_000)
        })
        .collect();
    let got = run(&mut network, 50_000_000, &flows);
    assert_eq!(got, [1_448_000; 16]);
    assert_eq!(network.totals().dropped, 0);
    // A packet and its acknowledgement on six links each.
    let all = network.totals();
    assert_eq!((all.made, all.hops), (32_000, 6 * 32_000));
}

#[test]
fn what_is_no_topology_says_which_key_and_what_would_be_right() {
    let odd = FatTree { pods: 5, ..tree(4) }.build().unwrap_err();
    assert_eq!(odd.to_string(), "`pods` is 5: it must be an even number from 2 to 64, such as 4");
    let of = |switch| dumbbell(1, 10, switch);
    let switch = Switch::default();
    let mut slow = of(switch);
    slow.edges[0].link.rate = 0;
    let mut alone = of(switch);
    alone.host();
    let mut apart = of(switch);
    let (host, other) = (apart.host(), apart.host());
    apart.link(host, other, link(10));
    let pause = Some(Pause { pause: 100_000, resume: 200_000 });
    let paused = of(Switch { pause, ..switch });
    let lossy = of(Switch { loss: 1.5, ..switch });
    let reserved = of(Switch { priority: true, reserved: 6_000_000, ..switch });
    for (topology, says) in [
        (slow, "`rate` is 0 bit/s: it must be 1000 (1 kbit/s) to 10000000000000 (10 Tbit/s)"),
        (
            lossy,
            "`loss` is 1.5: it must be 0.0 to below 1.0, such as 0.001 for one packet in a thousand",
        ),
        (paused, "`resume` is 200000 bytes, `pause` is 100000: set `resume` to at most 100000"),
        (alone, "host 4 has 0 links: a host has one, to a switch or another host"),
        (apart, "host 4 cannot be reached from host 0: add a link between their switches"),
        (
            reserved,
            "`reserved` is 6000000 bytes at each of 2 ports, `buffer` is 12000000 bytes: set `reserved` \
             to less than 6000000",
        ),
    ] {
        assert_eq!(Network::new(topology, 1).unwrap_err().to_string(), says);
    }
}

#[test]
fn a_buffer_that_is_too_small_for_pauses_says_how_much_it_takes() {
    let with = |buffer| {
        let pause = Some(Pause { pause: 50_000, resume: 25_000 });
        dumbbell(4, 1000, Switch { buffer, pause, ..Switch::default() }).check()
    };
    let Err(TopologyError::Headroom { needed, ports: 5, .. }) = with(200_000) else {
        panic!("{:?}", with(200_000));
    };
    // Five links, each with its 50000 bytes, 2 us at 12.5 GB/s, three packets and the pause.
    assert_eq!(needed, 5 * (50_000 + 25_000 + 3 * 1500 + 84));
    assert_eq!(with(needed), Ok(()));
}
