//! Tests of namespaces whose disk is missing: hosts keep them, and learn when the disk comes back.

use core::sync::atomic::Ordering;

use super::*;

/// CNS values of Identify Namespace, of an allocated one, and independent of the command set.
const LEGACY: u8 = 0x00;
const ALLOCATED: u8 = 0x11;
const INDEPENDENT: u8 = 0x08;
/// CNS of the Namespace Identification Descriptor list.
const DESCRIPTORS: u8 = 0x03;

impl Bench {
    /// Reads NSTAT.NRDY, as a Linux host does before it takes or keeps a disk.
    fn tells_ready(&mut self, admin: ConnectionId) -> bool {
        self.ok(admin, &identify(INDEPENDENT, 1));
        self.out[14] == 1
    }
}

#[test]
fn unready_namespace_exists_but_is_not_ready() {
    let (mut bench, admin, connected) = Bench::connected();
    assert!(bench.tells_ready(admin));
    for readiness in [AWAY, UNSEEN] {
        bench.set_readiness(1, readiness);
        assert!(!bench.tells_ready(admin));
        for list in [0x02, 0x07, 0x10] {
            bench.ok(admin, &identify(list, 0));
            assert_eq!(bench.out[..8], [1, 0, 0, 0, 0, 0, 0, 0], "{list:#x}");
        }
        bench.ok(admin, &identify(DESCRIPTORS, 1));
        assert_eq!(bench.out[4..20], [1; 16], "its UUID");
        let table = bench.service.namespaces(connected.controller);
        assert_eq!(table.get(1).unwrap().backend, BackendId::NONE);
    }
    bench.set_readiness(1, Readiness::Ready);
    assert!(bench.tells_ready(admin));
    assert_eq!(bench.service.namespaces(connected.controller).get(1).unwrap().backend.0, 1);
}

#[test]
fn unknown_sizes_and_identifiers_are_not_reported() {
    let (mut bench, admin) = Bench::enabled();
    let not_ready = Reply::failed(Status::NAMESPACE_NOT_READY.more());
    for cns in [LEGACY, ALLOCATED] {
        bench.set_readiness(1, AWAY);
        bench.ok(admin, &identify(cns, 1));
        assert_eq!(bench.out[8..16], 1000u64.to_le_bytes(), "NCAP is the last known");
        bench.set_readiness(1, UNSEEN);
        assert_eq!(bench.admin(admin, &identify(cns, 1)), not_ready, "no Do Not Retry");
        assert!(bench.out.is_empty());
    }
    for nsid in [2, 3] {
        let (uuid, geometry) = ([0; 16], Geometry::default());
        let unseen = Namespace { readiness: UNSEEN, geometry, uuid, nguid: uuid, ..namespace(1) };
        bench.add_namespace(Namespace { nsid, ..unseen });
        assert_eq!(bench.admin(admin, &identify(DESCRIPTORS, nsid)), not_ready);
        assert!(bench.out.is_empty());
    }
    bench.replace_namespace(Namespace { nsid: 2, ..namespace(2) });
    bench.ok(admin, &identify(DESCRIPTORS, 2));
    assert_eq!(bench.out[4..20], [2; 16]);
}

#[test]
fn a_namespace_of_unknown_size_needs_no_blocks() {
    let mut bench = Bench::new();
    let unseen = Namespace { geometry: Geometry::default(), readiness: UNSEEN, ..namespace(2) };
    let seen = Namespace { readiness: AWAY, ..unseen.clone() };
    assert_eq!(bench.service.add_namespace(bench.now, SUBSYSTEM, seen), Err(ConfigError::NoBlocks));
    assert_eq!(bench.service.add_namespace(bench.now, SUBSYSTEM, unseen), Ok(2));
}

#[test]
fn replaced_disk_is_withheld_until_identified() {
    let (mut bench, admin, connected) = Bench::connected();
    let (idle, other) = bench.admin_queue(0);
    let backends = |bench: &Bench, of: &Connected| {
        let table = bench.service.namespaces(of.controller);
        [1, 2].map(|nsid| table.get(nsid).unwrap().backend)
    };
    let add = |bench: &mut Bench, nsid: u8, uuid| {
        let (uuid, nsid, rest) = ([uuid; 16], u32::from(nsid), namespace(nsid));
        bench.add_namespace(Namespace { nsid, uuid, replaces: true, ..rest });
    };
    add(&mut bench, 2, 7);
    bench.remove_namespace(1);
    add(&mut bench, 1, 8);
    let (none, one, two) = (BackendId::NONE, BackendId(1), BackendId(2));
    // A host that asks is notified that the disk is ready, or Linux would not look at it again.
    assert!(bench.tells_ready(admin));
    bench.ok(admin, &identify(DESCRIPTORS, 1));
    assert_eq!(backends(&bench, &connected), [none, none], "Linux compares it now");
    let version = connected.shared.table_version.load(Ordering::Acquire);
    bench.ok(admin, &identify(LEGACY, 1));
    let now = connected.shared.table_version.load(Ordering::Acquire);
    assert!(now > version, "its I/O queues take the table again");
    assert_eq!(backends(&bench, &connected), [one, none]);
    bench.ok(admin, &identify(LEGACY, 2));
    assert_eq!(backends(&bench, &connected), [one, two]);
    assert_eq!(backends(&bench, &other), [none, none], "each controller for itself");
    bench.ok(idle, &identify(LEGACY, 1));
    // The same disk with another size is the known one.
    bench.service.resize_namespace(bench.now, SUBSYSTEM, 1, 500).unwrap();
    assert_eq!(backends(&bench, &connected), [one, two]);
    assert_eq!(backends(&bench, &other), [one, none]);
    bench.remove_namespace(1);
    add(&mut bench, 1, 9);
    assert_eq!(backends(&bench, &connected), [none, two], "a third disk");
}

#[test]
fn a_controller_is_ready_before_its_namespaces() {
    let mut bench = Bench::new();
    let (admin, connected) = Connect::admin(SUBSYSTEM).accepted(&mut bench);
    let shared = connected.shared;
    assert_eq!(bench.ok(admin, &property_get(0, 1)) >> 59 & 0b11, 0b11, "CAP.CRMS");
    let times = bench.ok(admin, &property_get(0x68, 0));
    let to = bench.ok(admin, &property_get(0, 1)) >> 24 & 0xff;
    let (with_media, independent) = (times & 0xffff, times >> 16);
    assert!(with_media >= to && with_media > 0, "CRTO.CRWMT");
    assert_eq!(independent, with_media, "CRTO.CRIMT");
    bench.set_readiness(1, UNSEEN);
    // The value sets CC.CRIME: ready independent of media.
    bench.set_cc(admin, ENABLE | 1 << 24);
    assert_eq!(bench.csts(admin), 1);
    assert!(shared.is_ready());
}
