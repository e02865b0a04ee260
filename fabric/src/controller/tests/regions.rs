//! Tests of Get Region: the request to the server of regions, the answer to the host, and the end
//! of its grants.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::*;
use crate::nvme::log::ErrorEntry;
use crate::nvme::region::{GetRegion, RegionGrant, RegionName, RegionRights, Survives};

/// A request as it was passed on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    host: String,
    address: Option<IpAddr>,
    controller: ControllerId,
    pub(crate) command: GetRegion,
}

#[derive(Debug, Default)]
struct State {
    asked: Vec<Asked>,
    /// The answer to requests; `None`: all are granted.
    refusal: Option<RegionRefusal>,
    held: BTreeSet<ControllerId>,
    ended: Vec<ControllerId>,
}

/// A server of regions that grants all it is asked for, or nothing.
#[derive(Debug, Default)]
pub(crate) struct Regions(Mutex<State>);

impl Regions {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn refuse(&self, refusal: Option<RegionRefusal>) {
        self.state().refusal = refusal;
    }

    /// Returns the controllers that have grants.
    pub(crate) fn held(&self) -> BTreeSet<ControllerId> {
        self.state().held.clone()
    }

    /// Returns the controllers whose end was reported, since the last call.
    pub(crate) fn ended(&self) -> Vec<ControllerId> {
        std::mem::take(&mut self.state().ended)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state().asked)
    }
}

impl RegionGrants for Regions {
    fn grant(&self, asked: &RegionRequest<'_>) -> Result<RegionGrant, RegionRefusal> {
        let RegionRequest { host, address, controller, name, rights, reservation } = *asked;
        let command = GetRegion { name, rights, reservation };
        let mut state = self.state();
        state.asked.push(Asked { host: host.to_owned(), address, controller, command });
        if let Some(refusal) = state.refusal {
            return Err(refusal);
        }
        state.held.insert(controller);
        Ok(grant())
    }

    fn controller_ended(&self, controller: ControllerId) {
        let mut state = self.state();
        state.held.remove(&controller);
        state.ended.push(controller);
    }
}

pub(crate) fn grant() -> RegionGrant {
    RegionGrant {
        rights: RegionRights::ReadWrite,
        address: "192.0.2.1:4430".parse().unwrap(),
        secret: 0x1234,
        length: 1 << 30,
        reservation: 5,
        limit: 6,
        survives: Survives::PowerCut,
    }
}

impl Bench {
    pub(crate) fn regions(&mut self) -> Arc<Regions> {
        let regions = Arc::new(Regions::default());
        self.service.set_region_grants(Arc::<Regions>::clone(&regions));
        regions
    }
}

fn fields() -> GetRegion {
    let name = RegionName::from_text("log").unwrap();
    GetRegion { name, rights: RegionRights::ReadWrite, reservation: 1000 }
}

/// Makes a Get Region that can be granted.
pub(crate) fn get_region() -> Sqe {
    let sqe = command(op::GET_REGION, 9);
    Sqe { flags: sqe.flags, cid: sqe.cid, sgl: sqe.sgl, ..fields().sqe() }
}

#[test]
fn request_is_forwarded_with_host_and_address() {
    let mut bench = Bench::new();
    let regions = bench.regions();
    // Another controller first, so that identifiers differ from counts elsewhere.
    bench.admin_queue(0);
    for (host, address, seen) in [
        (HOST, "192.0.2.7", "192.0.2.7"),
        (STRANGER, "::ffff:192.0.2.8", "192.0.2.8"),
        ("", "2001:db8::1", "2001:db8::1"),
    ] {
        let connect = Connect::admin(OTHER).host(host);
        let (admin, connected) = bench.connect_from(address.parse().unwrap(), &connect);
        bench.set_cc(admin, ENABLE);
        let length = DataLength { host_to_controller: 0, controller_to_host: 128 };
        assert_eq!(bench.service.data_length(admin, &get_region()), length);
        assert_eq!(bench.ok(admin, &get_region()), 0);
        assert_eq!(bench.out, grant().emit());
        let controller = connected.unwrap().controller;
        let (host, address) = (host.to_owned(), Some(seen.parse().unwrap()));
        assert_eq!(regions.asked(), [Asked { host, address, controller, command: fields() }]);
    }
    let (admin, _) = bench.admin_queue(0);
    bench.ok(admin, &get_region());
    assert_eq!(regions.asked()[0].address, None, "an address that is not known");
}

#[test]
fn refusal_has_status_and_error_log_entry() {
    const DNR: u16 = 1 << 14;
    const MORE: u16 = 1 << 13;
    let mut bench = Bench::new();
    let regions = bench.regions();
    let (admin, _) = bench.admin_queue(0);
    for (refusal, dw0, bits) in [
        (RegionRefusal::NotGranted, 0, 0x1c0 | DNR),
        (RegionRefusal::Reservation { fits: u32::MAX }, u64::from(u32::MAX), 0x1c1 | DNR),
        (RegionRefusal::Reservation { fits: 0 }, 0, 0x1c1 | DNR),
        (RegionRefusal::NoRoom, 0, 0x1c2),
    ] {
        regions.refuse(Some(refusal));
        let status = Status::from_bits(bits | MORE);
        assert_eq!(bench.admin(admin, &get_region()), Reply::Done { result: dw0, status });
        assert!(bench.out.is_empty(), "{refusal:?}");
        bench.ok(admin, &log(0x01, 64, 0, false));
        let entry: ErrorEntry = zerocopy::FromBytes::read_from_bytes(&bench.out).unwrap();
        assert_eq!((entry.opcode, entry.cid.get()), (0xc2, 9));
        assert_eq!(entry.status.get() >> 1 & 0x7ff, bits & 0x7ff);
    }
    assert_eq!(regions.asked().len(), 4);
    bench.disconnect(admin);
    assert_eq!(regions.ended(), [], "nothing was granted that could end");
}

#[test]
fn malformed_get_region_is_not_forwarded() {
    let mut bench = Bench::new();
    let regions = bench.regions();
    let (admin, _) = bench.admin_queue(0);
    let good = get_region();
    let room = |bytes| SglDescriptor::transport(bytes);
    let table = [
        (Sqe { cdw10: U32::ZERO, ..good }, Status::INVALID_FIELD),
        (Sqe { cdw15: U32::ZERO, ..good }, Status::INVALID_FIELD),
        (Sqe { nsid: U32::new(1), ..good }, Status::INVALID_FIELD),
        (Sqe { flags: 0x41, ..good }, Status::INVALID_FIELD),
        (Sqe { sgl: room(0), ..good }, Status::DATA_SGL_LENGTH_INVALID),
        (Sqe { sgl: room(127), ..good }, Status::DATA_SGL_LENGTH_INVALID),
    ];
    for (sqe, status) in table {
        assert_eq!(bench.admin(admin, &sqe), Reply::failed(status.dnr().more()), "{sqe:?}");
        assert!(bench.out.is_empty());
    }
    assert_eq!(regions.asked(), []);
    bench.ok(admin, &Sqe { sgl: room(128), ..good });
    assert_eq!(regions.asked().len(), 1);
}

#[test]
fn get_region_needs_enabled_io_controller() {
    let mut bench = Bench::new();
    let (plain, _) = bench.admin_queue(0);
    bench.fails(plain, &get_region(), Status::INVALID_OPCODE);
    assert_eq!(bench.service.data_length(plain, &get_region()), DataLength::default());

    let regions = bench.regions();
    let discovery = bench.discovery(0, HOST);
    let (disabled, _) = Connect::admin(SUBSYSTEM).send(&mut bench);
    let (admin, connected) = bench.admin_queue(0);
    let io = bench.io_queue(1, connected.controller.0);
    for (queue, status) in [
        (discovery, Status::INVALID_OPCODE),
        (disabled, Status::COMMAND_SEQUENCE_ERROR),
        (io, Status::COMMAND_SEQUENCE_ERROR),
        (ConnectionId(u64::MAX), Status::COMMAND_SEQUENCE_ERROR),
    ] {
        bench.fails(queue, &get_region(), status);
    }
    assert_eq!(bench.service.data_length(discovery, &get_region()), DataLength::default());
    assert_eq!(bench.service.data_length(io, &get_region()), DataLength::default());
    assert_eq!(regions.asked(), []);
    bench.disconnect(io);
    bench.ok(admin, &get_region());
    bench.set_cc(admin, ENABLE & !1);
    bench.set_cc(admin, ENABLE);
    assert_eq!(regions.ended(), [connected.controller]);
    bench.ok(admin, &get_region());
    drop(bench);
    assert_eq!(regions.ended(), [connected.controller], "grants end with the service");
}

/// A way in which a controller ends.
type End = fn(&mut Bench, ConnectionId);

const ENDS: [(&str, End); 10] = [
    ("reset", |b, admin| b.set_cc(admin, ENABLE & !1)),
    ("shutdown", |b, admin| b.set_cc(admin, SHUT_DOWN)),
    ("abrupt shutdown", |b, admin| b.set_cc(admin, ENABLE | 2 << 14)),
    ("shutdown with reset", |b, admin| b.set_cc(admin, ENABLE & !1 | 1 << 14)),
    ("keep alive", |b, _| {
        for _ in 0..2 {
            b.pass(Duration::from_secs(5));
            b.service.tick(b.now);
        }
    }),
    ("admin queue lost", |b, admin| b.service.disconnected(b.now, admin)),
    ("host removed", |b, _| b.service.remove_host(b.now, SUBSYSTEM, HOST).unwrap()),
    ("host bound to another address", |b, _| {
        let sources = ["192.0.2.0/24".parse::<ipnet::IpNet>().unwrap()].into_iter().collect();
        b.service.set_host(b.now, SUBSYSTEM, AllowedHost { sources, ..HOST.into() }).unwrap();
    }),
    ("subsystem removed", |b, _| drop(b.service.remove_subsystem(b.now, SUBSYSTEM).unwrap())),
    ("listener removed", |b, _| drop(b.service.remove_listener(b.now, LISTENER).unwrap())),
];

#[test]
fn every_end_of_a_controller_ends_its_grants_once() {
    for (name, end) in ENDS {
        let mut bench = Bench::new();
        let regions = bench.regions();
        let (admin, connected) = bench.admin_queue(5000);
        let io = bench.io_queue(1, connected.controller.0);
        // A controller that ends with the other, but was granted nothing.
        bench.admin_queue(5000);
        for _ in 0..2 {
            bench.ok(admin, &get_region());
        }
        bench.disconnect(io);
        assert_eq!(regions.ended(), [], "the end of an I/O queue is none of its controller");
        end(&mut bench, admin);
        assert_eq!(regions.ended(), [connected.controller], "{name}");
        // Later events are no second end.
        for (_, another) in &ENDS[4..6] {
            another(&mut bench, admin);
        }
        drop(bench);
        assert_eq!(regions.ended(), [], "{name}");
    }
}
