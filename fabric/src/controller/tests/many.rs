//! Tests of more namespaces than fit into one page: every list is complete, and the cost of a
//! change does not depend on their number.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::controller::{AllowedHost, HostRights, NamespaceTable};

const SECOND: &str = "nqn.2026-01.io.x:second";

/// Returns a namespace that differs from all others.
fn numbered(nsid: u32) -> Namespace {
    let mut id = [7; 16];
    id[..4].copy_from_slice(&nsid.to_le_bytes());
    Namespace { nsid, uuid: id, nguid: id, backend: BackendId(nsid.into()), ..namespace(9) }
}

impl Bench {
    /// Adds namespaces of these identifiers besides 1.
    fn filled(nsids: impl Iterator<Item = u32>) -> Self {
        let mut bench = Self::new();
        for nsid in nsids {
            bench.add_namespace(numbered(nsid));
        }
        bench
    }

    /// Returns the active namespaces by scanning as a Linux host does: 1,024 at a time, after the
    /// last.
    fn scan(&mut self, admin: ConnectionId) -> Vec<u32> {
        let mut all = Vec::new();
        loop {
            self.ok(admin, &identify(0x02, all.last().copied().unwrap_or(0)));
            assert_eq!(self.out.len(), 4096);
            let page = nsids(&self.out);
            all.extend(&page);
            if page.len() < 1024 {
                return all;
            }
        }
    }
}

#[test]
fn host_handles_ten_thousand_namespaces() {
    let mut bench = Bench::filled((2..=10_000).chain([16_384]));
    let (admin, connected) = bench.admin_queue(0);
    let all: Vec<u32> = (1..=10_000).chain([16_384]).collect();
    assert_eq!(bench.scan(admin), all);
    // NN and MNAN tell hosts the room that the ANA log needs, which they read in one piece.
    bench.ok(admin, &identify(0x01, 0));
    for field in [516..520, 540..544] {
        assert_eq!(bench.out[field], 16_384u32.to_le_bytes());
    }
    let size = 16 + 2 * 32 + 4 * 16_384;
    bench.ok(admin, &log(0x0c, size, 0, true));
    assert_eq!(bench.out.len(), size as usize);
    assert_eq!(u32_at(&bench.out, 20), 10_001);
    assert_eq!(nsids(&bench.out[48..48 + 4 * all.len()]), all);
    // Changes are listed by name up to 1,024, more as "any".
    bench.ok(admin, &set_feature(0x0b, 0x100));
    bench.ok(admin, &log(0x04, 4096, 0, false));
    for nsid in 5001..=6024 {
        bench.remove_namespace(nsid);
    }
    bench.ok(admin, &log(0x04, 4096, 0, false));
    assert_eq!(nsids(&bench.out), (5001..=6024).collect::<Vec<_>>());
    for nsid in 7001..=8025 {
        bench.service.resize_namespace(bench.now, SUBSYSTEM, nsid, 5).unwrap();
    }
    bench.ok(admin, &log(0x04, 4096, 0, false));
    assert_eq!(bench.out[..8], [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    assert_eq!(bench.scan(admin).len(), 10_001 - 1024);
    let table = bench.service.namespaces(connected.controller);
    assert!(table.get(5500).is_none() && table.get(7500).unwrap().geometry.blocks == 5);
    // A new namespace takes the lowest NSID that is free, up to the last.
    assert_eq!(bench.service.free_nsid(SUBSYSTEM), Some(5001));
    let beyond = bench.service.add_namespace(bench.now, SUBSYSTEM, numbered(16_385));
    assert!(matches!(beyond, Err(ConfigError::NamespaceLimit { limit: 16_384, .. })));
}

#[test]
fn identifiers_are_unique_and_released_on_removal() {
    let mut bench = Bench::filled(2..=3000);
    let copy = |bench: &mut Bench, of: u32, nsid: u32| {
        let copy = Namespace { nsid, ..numbered(of) };
        bench.service.add_namespace(bench.now, SUBSYSTEM, copy)
    };
    let error = copy(&mut bench, 2500, 4000).unwrap_err();
    assert!(matches!(error, ConfigError::DuplicateIdentifier { nsid: 2500, what: "UUID" }));
    let other = Namespace { uuid: [99; 16], ..numbered(2500) };
    let error = bench.service.add_namespace(bench.now, SUBSYSTEM, Namespace { nsid: 0, ..other });
    assert!(matches!(error, Err(ConfigError::DuplicateIdentifier { nsid: 2500, what: "NGUID" })));
    bench.remove_namespace(2500);
    assert_eq!(copy(&mut bench, 2500, 4000), Ok(4000));
    // The same identifiers in the same place are no clash.
    bench.replace_namespace(Namespace { nsid: 4000, ..numbered(2500) });
}

#[test]
fn hosts_with_equal_view_share_a_table() {
    let reader = HostRights { read_only: true, ..HostRights::default() };
    for rights in [HostRights::default(), reader] {
        let mut bench = Bench::filled(2..=2000);
        let with_rights = |host: &str| AllowedHost { rights: rights.clone(), ..host.into() };
        bench.service.set_host(bench.now, SUBSYSTEM, with_rights(HOST)).unwrap();
        bench.service.add_host(bench.now, SUBSYSTEM, with_rights(SECOND)).unwrap();
        let (_, first) = bench.admin_queue(0);
        let second = Connect::admin(SUBSYSTEM).host(SECOND).accepted(&mut bench).1;
        let tables = |bench: &Bench| {
            [first.controller, second.controller].map(|id| bench.service.namespaces(id))
        };
        bench.service.resize_namespace(bench.now, SUBSYSTEM, 700, 9).unwrap();
        let [a, b] = tables(&bench);
        assert!(Arc::ptr_eq(&a, &b), "made once");
        bench.add_namespace(Namespace { hosts: Some(vec![HOST.to_owned()]), ..numbered(3000) });
        let [a, b] = tables(&bench);
        assert!(a.get(3000).is_some() && b.get(3000).is_none());
        assert_eq!((a.len(), b.len()), (2001, 2000));
        bench.remove_namespace(3000);
        bench.remove_namespace(1000);
        let [a, b] = tables(&bench);
        assert!(Arc::ptr_eq(&a, &b) && a.len() == 1999 && a.get(1000).is_none());
    }
}

proptest! {
    #[test]
    fn table_holds_inserted_namespaces(
        steps in proptest::collection::vec((1u32..400, any::<bool>()), 1..200),
    ) {
        let (mut table, mut known) = (NamespaceTable::default(), BTreeMap::new());
        for (nsid, there) in steps {
            let before = table.clone();
            let namespace = there.then(|| Arc::new(numbered(nsid)));
            table = table.with(nsid, namespace.clone());
            prop_assert!(before.shares_all_but_one_page_with(&table));
            match namespace {
                Some(namespace) => known.insert(nsid, namespace),
                None => known.remove(&nsid),
            };
            let nsids = |table: &NamespaceTable| table.iter().map(|n| n.nsid).collect::<Vec<_>>();
            prop_assert_eq!(nsids(&table), known.keys().copied().collect::<Vec<_>>());
            prop_assert_eq!(table.len(), known.len());
            for probe in [0, nsid - 1, nsid, nsid + 1, u32::MAX] {
                prop_assert_eq!(table.get(probe).is_some(), known.contains_key(&probe));
                let after: Vec<u32> = table.after(probe).map(|n| n.nsid).collect();
                let wanted = known.keys().copied().filter(|nsid| *nsid > probe);
                prop_assert_eq!(after, wanted.collect::<Vec<_>>());
            }
            let free = (1..).find(|nsid| !known.contains_key(nsid)).unwrap();
            prop_assert_eq!(table.lowest_free(), free);
        }
    }
}
