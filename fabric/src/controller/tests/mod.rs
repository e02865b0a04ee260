//! Tests of the service as a whole, through the commands and answers of hosts.

mod admin;
mod ana;
mod channels;
mod conformance;
mod connect;
mod discovery;
mod history;
mod identified;
mod life;
mod many;
mod pages;
mod queue_bounds;
mod ready;
mod regions;
mod rights;
mod room;
mod sources;
mod transports;
mod users;
mod walk;

use core::time::Duration;
use std::net::SocketAddr;

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromZeros, IntoBytes};

use super::*;
use crate::Nanos;
use crate::fabrics::{ConnectCommand, ConnectData, DISCOVERY_NQN};
use crate::nvm::BlockFormat;
use crate::nvme::identify::nul_padded;
use crate::nvme::opcode::{FABRICS, admin as op, fabrics};
use crate::nvme::{SglDescriptor, Sqe, Status};

pub(super) const SUBSYSTEM: &str = "nqn.2024-01.test:one";
pub(super) const OTHER: &str = "nqn.2024-01.test:two";
pub(super) const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:host";
pub(super) const STRANGER: &str = "nqn.2014-08.org.nvmexpress:uuid:stranger";
pub(super) const LISTENER: ListenerId = ListenerId(1);
pub(super) const DISCOVERY_LISTENER: ListenerId = ListenerId(2);
/// Value of CC from a Linux host: IOCQES 4, IOSQES 6, CSS 110b, EN.
pub(super) const ENABLE: u32 = 0x0046_0061;

/// A Connect command and its data, in which tests change fields.
#[derive(Clone)]
pub(super) struct Connect {
    pub(super) listener: ListenerId,
    pub(super) command: ConnectCommand,
    pub(super) data: Box<ConnectData>,
}

impl Connect {
    pub(super) fn new(subsystem: &str, qid: u16, cntlid: u16) -> Self {
        let mut command = ConnectCommand::new_zeroed();
        command.opcode = FABRICS;
        command.fctype = fabrics::CONNECT;
        command.qid = U16::new(qid);
        command.sqsize = U16::new(31);
        let mut data = Box::new(ConnectData::new_zeroed());
        data.hostid = [7; 16];
        data.cntlid = U16::new(cntlid);
        data.subnqn = nul_padded(subsystem);
        data.hostnqn = nul_padded(HOST);
        Self { listener: LISTENER, command, data }
    }

    pub(super) fn kato(mut self, milliseconds: u32) -> Self {
        self.command.kato = U32::new(milliseconds);
        self
    }

    pub(super) fn host(mut self, nqn: &str) -> Self {
        self.data.hostnqn = nul_padded(nqn);
        self
    }

    pub(super) fn send(&self, bench: &mut Bench) -> (ConnectionId, Result<Connected, Rejected>) {
        bench.connections += 1;
        let id = ConnectionId(bench.connections);
        let sqe = Sqe::from(&self.command);
        let data = self.data.as_bytes();
        (id, bench.service.connect(bench.now, id, self.listener, &sqe, data))
    }
}

/// A service with two subsystems, an I/O and a discovery listener, and a clock.
pub(super) struct Bench {
    pub(super) service: Service,
    pub(super) now: Nanos,
    pub(super) connections: u64,
    pub(super) out: Vec<u8>,
}

pub(super) fn namespace(tag: u8) -> Namespace {
    Namespace {
        nsid: 0,
        uuid: [tag; 16],
        nguid: [tag; 16],
        geometry: Geometry { format: BlockFormat::BYTES_4096, blocks: 1000 },
        features: NamespaceFeatures::all() - NamespaceFeatures::READ_ONLY,
        preferred: None,
        used: None,
        hosts: None,
        backend: BackendId(u64::from(tag)),
        readiness: Readiness::Ready,
        replaces: false,
        identify: None,
        device: None,
    }
}

pub(super) fn subsystem(nqn: &str, any: bool) -> SubsystemSpec {
    SubsystemSpec {
        nqn: nqn.to_owned(),
        // The end of the NQN, as long as a serial number may be.
        serial: nqn[nqn.len().saturating_sub(20)..].to_owned(),
        model: "Test".to_owned(),
        allow_any_host: any,
        hosts: vec![HOST.into()],
        require_authentication: false,
    }
}

pub(super) fn listener(id: ListenerId, discovery_only: bool) -> ListenerSpec {
    let address = SocketAddr::from(([192, 0, 2, 1], if discovery_only { 8009 } else { 4420 }));
    ListenerSpec {
        id,
        name: address.to_string(),
        transport: TransportType::Tcp,
        address,
        advertise: None,
        discovery_only,
        subsystems: None,
        secure_channel: SecureChannel::Off,
        require_authentication: false,
    }
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::with(ServiceConfig::default())
    }

    pub(super) fn with(config: ServiceConfig) -> Self {
        let now = Nanos(1_000_000_000);
        let mut service = Service::new(config).unwrap();
        service.add_subsystem(now, subsystem(SUBSYSTEM, false)).unwrap();
        service.add_subsystem(now, subsystem(OTHER, true)).unwrap();
        service.add_namespace(now, SUBSYSTEM, namespace(1)).unwrap();
        service.add_listener(now, listener(LISTENER, false)).unwrap();
        service.add_listener(now, listener(DISCOVERY_LISTENER, true)).unwrap();
        Self { service, now, connections: 0, out: Vec::new() }
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    pub(super) fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.service.poll_action()).collect()
    }

    /// Returns an admin queue of an enabled I/O controller.
    pub(super) fn admin_queue(&mut self, kato: u32) -> (ConnectionId, Connected) {
        let (id, connected) = Connect::new(SUBSYSTEM, 0, 0xffff).kato(kato).send(self);
        let connected = connected.unwrap();
        self.set_cc(id, ENABLE);
        (id, connected)
    }

    /// Returns an enabled discovery controller.
    pub(super) fn discovery(&mut self, kato: u32, host: &str) -> ConnectionId {
        let connect = Connect::new(DISCOVERY_NQN, 0, 0xffff).kato(kato).host(host);
        let (id, connected) = connect.send(self);
        assert_eq!(connected.unwrap().kind, QueueKind::Discovery);
        self.set_cc(id, ENABLE);
        id
    }

    pub(super) fn io_queue(&mut self, qid: u16, cntlid: u16) -> ConnectionId {
        let (id, connected) = Connect::new(SUBSYSTEM, qid, cntlid).send(self);
        assert_eq!(connected.unwrap().kind, QueueKind::Io);
        id
    }

    pub(super) fn admin_with(&mut self, id: ConnectionId, sqe: &Sqe, data: &[u8]) -> Reply {
        let smart = SmartCounters { bytes_read: 512_001, ..SmartCounters::default() };
        self.service.admin(self.now, id, sqe, data, &smart, &mut self.out)
    }

    pub(super) fn admin(&mut self, id: ConnectionId, sqe: &Sqe) -> Reply {
        self.admin_with(id, sqe, &[])
    }

    /// Sends a command that must succeed. Returns its result.
    pub(super) fn ok(&mut self, id: ConnectionId, sqe: &Sqe) -> u64 {
        match self.admin(id, sqe) {
            Reply::Done { result, status } if status.is_success() => result,
            other => panic!("{other:?} for {sqe:?}"),
        }
    }

    pub(super) fn set_cc(&mut self, id: ConnectionId, value: u32) {
        self.ok(id, &property_set(0x14, value));
    }

    pub(super) fn csts(&mut self, id: ConnectionId) -> u64 {
        self.ok(id, &property_get(0x1c, 0))
    }
}

/// Returns the status code (with type) of a reply, without DNR, M and CRD.
pub(super) fn code(reply: Reply) -> u16 {
    match reply {
        Reply::Done { status, .. } => status.bits() & 0x7ff,
        Reply::Deferred => panic!("deferred"),
    }
}

pub(super) fn command(opcode: u8, cid: u16) -> Sqe {
    let sgl = SglDescriptor::transport(1 << 20);
    Sqe { opcode, cid: U16::new(cid), flags: 0x40, sgl, ..Sqe::default() }
}

pub(super) fn property_set(offset: u32, value: u32) -> Sqe {
    let mut sqe = command(FABRICS, 1);
    sqe.nsid = U32::new(u32::from(fabrics::PROPERTY_SET));
    sqe.cdw11 = U32::new(offset);
    sqe.cdw12 = U32::new(value);
    sqe
}

pub(super) fn property_get(offset: u32, attrib: u32) -> Sqe {
    let mut sqe = command(FABRICS, 1);
    sqe.nsid = U32::new(u32::from(fabrics::PROPERTY_GET));
    sqe.cdw10 = U32::new(attrib);
    sqe.cdw11 = U32::new(offset);
    sqe
}

pub(super) fn identify(cns: u8, nsid: u32) -> Sqe {
    let mut sqe = command(op::IDENTIFY, 1);
    sqe.nsid = U32::new(nsid);
    sqe.cdw10 = U32::new(u32::from(cns));
    sqe
}

/// Makes a Get Log Page command; `length` is in bytes.
pub(super) fn log(lid: u8, length: u32, offset: u64, retain: bool) -> Sqe {
    let mut sqe = command(op::GET_LOG_PAGE, 1);
    let dwords = length / 4 - 1;
    sqe.nsid = U32::new(u32::MAX);
    sqe.cdw10 = U32::new(u32::from(lid) | u32::from(retain) << 15 | dwords << 16);
    sqe.cdw11 = U32::new(dwords >> 16);
    sqe.cdw12 = U32::new((offset & 0xffff_ffff) as u32);
    sqe.cdw13 = U32::new((offset >> 32) as u32);
    sqe
}

pub(super) fn set_feature(fid: u8, value: u32) -> Sqe {
    let mut sqe = command(op::SET_FEATURES, 1);
    sqe.cdw10 = U32::new(u32::from(fid));
    sqe.cdw11 = U32::new(value);
    sqe
}

pub(super) fn get_feature(fid: u8, select: u32, cdw11: u32) -> Sqe {
    let mut sqe = command(op::GET_FEATURES, 1);
    sqe.cdw10 = U32::new(u32::from(fid) | select << 8);
    sqe.cdw11 = U32::new(cdw11);
    sqe
}

pub(super) fn status_code(status: Status) -> u16 {
    status.bits() & 0x7ff
}
