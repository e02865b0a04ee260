//! Tests of namespaces whose disk is missing: hosts keep them, and learn when the disk comes back.

use core::sync::atomic::Ordering;

use super::*;

const KNOWN: Readiness = Readiness::NotReady { geometry_known: true, since: Nanos::ZERO };
const UNKNOWN: Readiness = Readiness::NotReady { geometry_known: false, since: Nanos::ZERO };
/// CNS values of Identify Namespace, of an allocated one, and independent of the command set.
const LEGACY: u8 = 0x00;
const ALLOCATED: u8 = 0x11;
const INDEPENDENT: u8 = 0x08;

fn first(readiness: Readiness) -> Namespace {
    Namespace { nsid: 1, readiness, ..namespace(1) }
}

impl Bench {
    fn becomes(&mut self, readiness: Readiness) {
        self.service.replace_namespace(self.now, SUBSYSTEM, first(readiness)).unwrap();
    }

    /// Reads NSTAT.NRDY, as a Linux host does before it takes or keeps a disk.
    fn tells_ready(&mut self, admin: ConnectionId) -> bool {
        self.ok(admin, &identify(INDEPENDENT, 1));
        self.out[14] == 1
    }
}

fn status(reply: Reply) -> Status {
    match reply {
        Reply::Done { status, .. } => status,
        Reply::Deferred => panic!("deferred"),
    }
}

#[test]
fn a_namespace_that_is_not_ready_is_neither_gone_nor_ready() {
    let mut bench = Bench::new();
    let (admin, connected) = bench.admin_queue(0);
    assert!(bench.tells_ready(admin));
    for readiness in [KNOWN, UNKNOWN] {
        bench.becomes(readiness);
        assert!(!bench.tells_ready(admin));
        for list in [0x02, 0x07, 0x10] {
            bench.ok(admin, &identify(list, 0));
            assert_eq!(bench.out[..8], [1, 0, 0, 0, 0, 0, 0, 0], "{list:#x}");
        }
        bench.ok(admin, &identify(0x03, 1));
        assert_eq!(bench.out[4..20], [1; 16], "its UUID");
        let table = bench.service.namespaces(connected.controller);
        assert_eq!(table.get(1).unwrap().backend, BackendId::NONE);
    }
    bench.becomes(Readiness::Ready);
    assert!(bench.tells_ready(admin));
    assert_eq!(bench.service.namespaces(connected.controller).get(1).unwrap().backend.0, 1);
}

#[test]
fn a_size_that_is_not_known_is_not_told_as_zero() {
    let mut bench = Bench::new();
    let (admin, _) = bench.admin_queue(0);
    for cns in [LEGACY, ALLOCATED] {
        bench.becomes(KNOWN);
        bench.ok(admin, &identify(cns, 1));
        assert_eq!(bench.out[8..16], 1000u64.to_le_bytes(), "NCAP is the last known");
        bench.becomes(UNKNOWN);
        let answer = status(bench.admin(admin, &identify(cns, 1)));
        assert_eq!(answer, Status::NAMESPACE_NOT_READY.more(), "no Do Not Retry");
        assert!(bench.out.is_empty());
    }
}

#[test]
fn a_namespace_of_unknown_size_needs_no_blocks() {
    let mut bench = Bench::new();
    let nothing = Geometry::default();
    let unseen = Namespace { geometry: nothing, readiness: UNKNOWN, ..namespace(2) };
    let seen = Namespace { readiness: KNOWN, ..unseen.clone() };
    let refused = bench.service.add_namespace(bench.now, SUBSYSTEM, seen);
    assert_eq!(refused, Err(ConfigError::NoBlocks));
    assert_eq!(bench.service.add_namespace(bench.now, SUBSYSTEM, unseen), Ok(2));
}

#[test]
fn a_disk_in_the_place_of_another_is_withheld_from_hosts_that_have_not_identified_it() {
    let mut bench = Bench::new();
    let (admin, connected) = bench.admin_queue(0);
    let (idle, other) = bench.admin_queue(0);
    let backend = |bench: &Bench, controller: ControllerId| {
        let table = bench.service.namespaces(controller);
        (table.get(1).unwrap().backend, table.get(2).unwrap().backend)
    };
    let add = |bench: &mut Bench, nsid: u8, uuid| {
        let (uuid, nsid, rest) = ([uuid; 16], u32::from(nsid), namespace(nsid));
        let replacing = Namespace { nsid, uuid, replaces: true, ..rest };
        bench.service.add_namespace(bench.now, SUBSYSTEM, replacing).unwrap();
    };
    add(&mut bench, 2, 7);
    bench.service.remove_namespace(bench.now, SUBSYSTEM, 1).unwrap();
    add(&mut bench, 1, 8);
    let (none, one, two) = (BackendId::NONE, BackendId(1), BackendId(2));
    assert_eq!(backend(&bench, connected.controller), (none, none));
    // Whoever asks is told that the disk is ready, or Linux would not look at it again.
    assert!(bench.tells_ready(admin));
    bench.ok(admin, &identify(0x03, 1));
    assert_eq!(backend(&bench, connected.controller), (none, none), "Linux compares it now");
    let version = connected.shared.table_version.load(Ordering::Acquire);
    bench.ok(admin, &identify(LEGACY, 1));
    let now = connected.shared.table_version.load(Ordering::Acquire);
    assert!(now > version, "its I/O queues take the table again");
    assert_eq!(backend(&bench, connected.controller), (one, none));
    bench.ok(admin, &identify(LEGACY, 2));
    assert_eq!(backend(&bench, connected.controller), (one, two));
    assert_eq!(backend(&bench, other.controller), (none, none), "each controller for itself");
    bench.ok(idle, &identify(LEGACY, 1));
    // The same disk with another size, or after an outage, is the one that hosts know.
    bench.service.resize_namespace(bench.now, SUBSYSTEM, 1, 500).unwrap();
    assert_eq!(backend(&bench, connected.controller), (one, two));
    assert_eq!(backend(&bench, other.controller), (one, none));
    let (_, again) = bench.admin_queue(0);
    assert_eq!(backend(&bench, again.controller), (none, none), "a host that comes back");
    bench.service.remove_namespace(bench.now, SUBSYSTEM, 1).unwrap();
    add(&mut bench, 1, 9);
    assert_eq!(backend(&bench, connected.controller), (none, two), "a third disk");
}

#[test]
fn identifiers_that_are_not_known_are_not_told() {
    /// CNS of the Namespace Identification Descriptor list.
    const DESCRIPTORS: u8 = 0x03;
    let mut bench = Bench::new();
    let (admin, _) = bench.admin_queue(0);
    let unknown = |nsid| Namespace {
        nsid,
        uuid: [0; 16],
        nguid: [0; 16],
        geometry: Geometry::default(),
        readiness: UNKNOWN,
        ..namespace(1)
    };
    for nsid in [2, 3] {
        assert_eq!(bench.service.add_namespace(bench.now, SUBSYSTEM, unknown(nsid)), Ok(nsid));
        let answer = status(bench.admin(admin, &identify(DESCRIPTORS, nsid)));
        assert_eq!(answer, Status::NAMESPACE_NOT_READY.more(), "no Do Not Retry");
        assert!(bench.out.is_empty());
    }
    let here = Namespace { nsid: 2, ..namespace(2) };
    bench.service.replace_namespace(bench.now, SUBSYSTEM, here).unwrap();
    bench.ok(admin, &identify(DESCRIPTORS, 2));
    assert_eq!(bench.out[4..20], [2; 16]);
}

#[test]
fn hosts_are_told_when_a_namespace_goes_and_when_it_is_back() {
    let mut bench = Bench::new();
    let (admin, connected) = bench.admin_queue(0);
    bench.ok(admin, &set_feature(0x0b, 0x100));
    for readiness in [KNOWN, Readiness::Ready, UNKNOWN, Readiness::Ready] {
        let version = connected.shared.table_version.load(Ordering::Acquire);
        bench.admin(admin, &command(op::ASYNC_EVENT_REQUEST, 31));
        bench.becomes(readiness);
        let event = Action::Complete {
            connection: admin,
            cid: 31,
            result: 0x04_0002,
            status: Status::SUCCESS,
        };
        let table = Action::TableChanged { controller: connected.controller };
        assert_eq!(bench.actions(), [event, table], "{readiness:?}");
        assert!(connected.shared.table_version.load(Ordering::Acquire) > version);
        bench.ok(admin, &log(0x04, 4096, 0, false));
        assert_eq!(bench.out[..4], [1, 0, 0, 0], "the changed namespace list");
    }
}

#[test]
fn a_host_with_acre_is_told_a_retry_delay() {
    let mut bench = Bench::new();
    let (admin, connected) = bench.admin_queue(0);
    let shared = &connected.shared;
    assert_eq!(shared.namespace_not_ready(), Status::NAMESPACE_NOT_READY);
    // Byte 0 of Host Behavior Support is ACRE.
    let mut behavior = [0; 512];
    behavior[0] = 1;
    let reply = bench.admin_with(admin, &set_feature(0x16, 0), &behavior);
    assert_eq!(reply, Reply::OK);
    bench.becomes(KNOWN);
    let table = bench.service.namespaces(connected.controller);
    for (seconds, delay) in [(0, 2), (19, 2), (20, 3), (1000, 3)] {
        let now = Nanos(seconds * 1_000_000_000);
        let answer = shared.unavailable(table.get(1).unwrap(), now);
        assert_eq!(answer, Status::NAMESPACE_NOT_READY.with_retry_delay(delay), "{seconds} s");
        assert!(!answer.is_dnr());
    }
    bench.ok(admin, &identify(1, 0));
    assert_ne!(bench.out[130..134], [0; 4], "CRDT2 and CRDT3 are times");
}

#[test]
fn features_of_a_missing_disk_are_not_ruled_out() {
    let mut bench = Bench::new();
    let (admin, _) = bench.admin_queue(0);
    let able = |readiness| Namespace { features: NamespaceFeatures::empty(), ..first(readiness) };
    for (readiness, oncs) in [(Readiness::Ready, 0x10), (KNOWN, 0x9d), (UNKNOWN, 0x9d)] {
        bench.service.replace_namespace(bench.now, SUBSYSTEM, able(readiness)).unwrap();
        bench.ok(admin, &identify(1, 0));
        assert_eq!(bench.out[520], oncs, "{readiness:?}");
    }
}

#[test]
fn a_controller_is_ready_before_its_namespaces() {
    let mut bench = Bench::new();
    let (admin, connected) = Connect::new(SUBSYSTEM, 0, 0xffff).send(&mut bench);
    let shared = connected.unwrap().shared;
    assert_eq!(bench.ok(admin, &property_get(0, 1)) >> 59 & 0b11, 0b11, "CAP.CRMS");
    let times = bench.ok(admin, &property_get(0x68, 0));
    let to = bench.ok(admin, &property_get(0, 1)) >> 24 & 0xff;
    assert!(times & 0xffff >= to && times >> 16 >= to, "CRTO: CRWMT, CRIMT");
    bench.becomes(UNKNOWN);
    // The value sets CC.CRIME: ready independent of media.
    bench.set_cc(admin, ENABLE | 1 << 24);
    assert_eq!(bench.csts(admin), 1);
    assert!(shared.is_ready());
}
