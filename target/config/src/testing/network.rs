//! Random settings of the network.

use std::time::Duration;

use arbitration::PerClass;
use proptest::prelude::*;

use crate::{DEFAULT_LINK, Goal, LinkConfig, Network};

fn goal() -> impl Strategy<Value = Goal> {
    prop_oneof![
        (1u32..=1000).prop_map(Goal::Share),
        (1_000_000u64..1 << 38).prop_map(Goal::Rate),
        (50_000u64..1_000_000_000).prop_map(|ns| Goal::Latency(Duration::from_nanos(ns))),
        Just(Goal::Free),
    ]
}

fn link() -> impl Strategy<Value = LinkConfig> {
    // The capacity exceeds four of the greatest rates together.
    let capacity = proptest::option::of(1u64 << 40..10_000_000_000_000);
    (capacity, goal(), goal(), goal(), goal()).prop_map(|(capacity, urgent, high, medium, low)| {
        LinkConfig {
            name: DEFAULT_LINK.into(),
            capacity,
            goals: PerClass { urgent, high, medium, low },
        }
    })
}

/// Makes any settings that `[network]` and `[[link]]` can have.
pub(crate) fn networks() -> impl Strategy<Value = Network> {
    let flags = (any::<bool>(), any::<bool>());
    let base = proptest::option::of("[a-z][a-z0-9_]{0,14}").prop_map(|base| {
        // "auto" stands for `None`.
        base.filter(|base| base != "auto")
    });
    let links = proptest::collection::vec(link(), 0..4);
    (flags, base, link(), links).prop_map(|((enabled, writes), base, link, links)| Network {
        enabled,
        writes,
        base,
        link,
        links: (0..).zip(links).map(|(n, l)| LinkConfig { name: format!("l{n}"), ..l }).collect(),
    })
}
