//! Random settings of persistent memory.

use std::time::Duration;

use proptest::prelude::*;

use crate::{Pmem, PmemConfig, RegionConfig};

fn general() -> impl Strategy<Value = Pmem> {
    let address = proptest::option::of(1u16..);
    // No client does more in a period than it can report.
    let capacity = proptest::option::of(100u64..1_000_000);
    let parts = (proptest::option::of(1u64..100), proptest::option::of(0u64..100));
    let times = (10u64..60_000, 1u64..10);
    let sizes = (1u64..=1_000_000, 1u32..=4096, proptest::option::of(64u64..=16 << 20));
    (address, capacity, parts, times, sizes).prop_map(
        |(port, capacity, (client, deviation), (period, interval), (batch, clients, io_size))| {
            Pmem {
                address: port
                    .filter(|_| capacity.is_some())
                    .map(|port| ([10, 0, 0, 1], port).into()),
                capacity,
                client_capacity: client,
                deviation,
                period: Duration::from_millis(period),
                interval: Duration::from_millis(interval),
                batch,
                clients,
                io_size,
            }
        },
    )
}

fn region() -> impl Strategy<Value = RegionConfig> {
    let path = proptest::option::of("/regions/[a-z\"\\\\ é]{1,9}");
    let size = proptest::option::of((1u64..1 << 30).prop_map(|pages| pages * 4096));
    let hosts = proptest::sample::subsequence(vec!["h0", "h1", "h2"], 0..=3);
    let (flags, limit) =
        ((any::<bool>(), any::<bool>()), proptest::option::of(100u64..1_000_000_000));
    (path, size, flags, hosts, 0u64..100, limit).prop_map(
        |(path, size, (create, read_only), hosts, reserve, limit)| RegionConfig {
            name: String::new(),
            create: create && path.is_some() && size.is_some(),
            // A file that is only read is not made.
            read_only: read_only && !(create && path.is_some() && size.is_some()),
            size: size.or_else(|| path.is_none().then_some(4096)),
            path: path.map(Into::into),
            hosts: hosts.iter().map(|host| format!("nqn.2026-01.io.x:{host}")).collect(),
            reserve,
            limit,
        },
    )
}

/// Makes any settings that `[pmem]` and `[[region]]` can have.
pub(crate) fn pmems() -> impl Strategy<Value = PmemConfig> {
    (general(), proptest::collection::vec(region(), 0..4)).prop_map(|(general, regions)| {
        let mut paths = std::collections::BTreeSet::new();
        let alone =
            regions.into_iter().filter(|r| r.path.is_none() || paths.insert(r.path.clone()));
        let most = general.capacity.map_or(u64::MAX, |_| general.capacity_of_client());
        let named = (0..).zip(alone).map(|(n, region)| RegionConfig {
            name: format!("r{n}"),
            reserve: region.reserve.min(most),
            ..region
        });
        PmemConfig { regions: named.collect(), general }
    })
}
