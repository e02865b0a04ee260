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
mod nodes;
mod pages;
mod queue_bounds;
mod ready;
pub(crate) mod regions;
mod rights;
mod room;
mod sources;
mod transports;
mod users;
mod walk;

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::*;
use crate::Nanos;
use crate::fabrics::{ConnectCommand, ConnectData, DISCOVERY_NQN};
use crate::host::commands::connect_data;
use crate::nvm::BlockFormat;
use crate::nvme::identify::nul_padded;
use crate::nvme::opcode::{FABRICS, admin as op, fabrics};
use crate::nvme::{SglDescriptor, Sqe, Status};

pub(crate) const SUBSYSTEM: &str = "nqn.2024-01.test:one";
pub(crate) const OTHER: &str = "nqn.2024-01.test:two";
pub(crate) const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:host";
pub(crate) const STRANGER: &str = "nqn.2014-08.org.nvmexpress:uuid:stranger";
pub(crate) const LISTENER: ListenerId = ListenerId(1);
pub(crate) const DISCOVERY_LISTENER: ListenerId = ListenerId(2);
/// Listeners on which hosts may use TLS, and on which they must, where there are such.
pub(crate) const TLS_ALLOWED: ListenerId = ListenerId(11);
pub(crate) const TLS_REQUIRED: ListenerId = ListenerId(12);
/// Value of CC from a Linux host: IOCQES 4, IOSQES 6, CSS 110b, EN.
pub(crate) const ENABLE: u32 = 0x0046_0061;
/// Value of CC with which a host shuts down (CC.SHN 01b).
pub(crate) const SHUT_DOWN: u32 = ENABLE | 1 << 14;
/// Readiness of a disk that is missing, whose size is known or not.
pub(crate) const AWAY: Readiness = Readiness::NotReady { geometry_known: true, since: Nanos::ZERO };
pub(crate) const UNSEEN: Readiness =
    Readiness::NotReady { geometry_known: false, since: Nanos::ZERO };

/// A Connect command and its data, in which tests change fields.
#[derive(Clone)]
pub(crate) struct Connect {
    pub(crate) listener: ListenerId,
    pub(crate) command: ConnectCommand,
    pub(crate) data: Box<ConnectData>,
}

impl Connect {
    pub(crate) fn new(subsystem: &str, qid: u16, cntlid: u16) -> Self {
        let mut command = ConnectCommand::new_zeroed();
        command.opcode = FABRICS;
        command.fctype = fabrics::CONNECT;
        command.qid = U16::new(qid);
        command.sqsize = U16::new(31);
        let data = connect_data([7; 16], cntlid, subsystem, HOST);
        let data = Box::new(ConnectData::read_from_bytes(&data).unwrap());
        Self { listener: LISTENER, command, data }
    }

    pub(crate) fn admin(subsystem: &str) -> Self {
        Self::new(subsystem, 0, 0xffff)
    }

    pub(crate) fn kato(mut self, milliseconds: u32) -> Self {
        self.command.kato = U32::new(milliseconds);
        self
    }

    pub(crate) fn host(mut self, nqn: &str) -> Self {
        self.data.hostnqn = nul_padded(nqn);
        self
    }

    pub(crate) fn send(&self, bench: &mut Bench) -> (ConnectionId, Result<Connected, Rejected>) {
        bench.connections += 1;
        let id = ConnectionId(bench.connections);
        let sqe = Sqe::from(&self.command);
        (id, bench.service.connect(bench.now, id, self.listener, &sqe, self.data.as_bytes()))
    }

    pub(crate) fn accepted(&self, bench: &mut Bench) -> (ConnectionId, Connected) {
        let (id, connected) = self.send(bench);
        (id, connected.unwrap())
    }

    /// Sends the Connect of an admin queue, which is accepted, and enables the controller.
    pub(crate) fn enabled(&self, bench: &mut Bench) -> (ConnectionId, Connected) {
        let (id, connected) = self.accepted(bench);
        bench.set_cc(id, ENABLE);
        (id, connected)
    }

    pub(crate) fn refused(&self, bench: &mut Bench) -> Rejected {
        self.send(bench).1.unwrap_err()
    }
}

/// The event that tells of changes of discovery: its bit of Asynchronous Event Configuration, and its result.
pub(crate) const DISCOVERY_EVENTS: u32 = 1 << 31;
pub(crate) const DISCOVERY_CHANGED: u64 = 0x70_f002;

/// A service with two subsystems, an I/O and a discovery listener, and a clock.
pub(crate) struct Bench {
    pub(crate) service: Service,
    pub(crate) now: Nanos,
    pub(crate) connections: u64,
    pub(crate) smart: SmartCounters,
    pub(crate) out: Vec<u8>,
}

pub(crate) fn namespace(tag: u8) -> Namespace {
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

pub(crate) fn subsystem(nqn: &str, any: bool) -> SubsystemSpec {
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

pub(crate) fn listener(id: ListenerId, discovery_only: bool) -> ListenerSpec {
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
    pub(crate) fn new() -> Self {
        Self::with(ServiceConfig::default())
    }

    pub(crate) fn with(config: ServiceConfig) -> Self {
        let now = Nanos(1_000_000_000);
        let mut service = Service::new(config).unwrap();
        service.add_subsystem(now, subsystem(SUBSYSTEM, false)).unwrap();
        service.add_subsystem(now, subsystem(OTHER, true)).unwrap();
        service.add_namespace(now, SUBSYSTEM, namespace(1)).unwrap();
        service.add_listener(now, listener(LISTENER, false)).unwrap();
        service.add_listener(now, listener(DISCOVERY_LISTENER, true)).unwrap();
        let smart = SmartCounters { bytes_read: 512_001, ..SmartCounters::default() };
        Self { service, now, connections: 0, smart, out: Vec::new() }
    }

    /// Returns a service with an enabled I/O controller, and its admin queue.
    pub(crate) fn enabled() -> (Self, ConnectionId) {
        let (bench, admin, _) = Self::connected();
        (bench, admin)
    }

    /// Returns the same as [`Bench::enabled`], and the answer to Connect.
    pub(crate) fn connected() -> (Self, ConnectionId, Connected) {
        let mut bench = Self::new();
        let (admin, connected) = bench.admin_queue(0);
        (bench, admin, connected)
    }

    pub(crate) fn add_tls_listeners(&mut self) {
        for (id, secure_channel) in
            [(TLS_ALLOWED, SecureChannel::Allowed), (TLS_REQUIRED, SecureChannel::Required)]
        {
            let spec = ListenerSpec { secure_channel, ..listener(id, false) };
            self.service.add_listener(self.now, spec).unwrap();
        }
    }

    /// Makes the next connection one over TLS, with a key for a host and a subsystem.
    pub(crate) fn secure_next(&mut self, host: &str, subsystem: &str, generated: bool) {
        let (host, subsystem) = (host.to_owned(), subsystem.to_owned());
        let names = KeyNames { host, subsystem, generated };
        self.service.secured(ConnectionId(self.connections + 1), names);
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    pub(crate) fn tick(&mut self) -> Option<Nanos> {
        self.service.tick(self.now)
    }

    pub(crate) fn disconnect(&mut self, connection: ConnectionId) {
        self.service.disconnected(self.now, connection);
    }

    pub(crate) fn add_namespace(&mut self, namespace: Namespace) {
        self.service.add_namespace(self.now, SUBSYSTEM, namespace).unwrap();
    }

    pub(crate) fn replace_namespace(&mut self, namespace: Namespace) {
        self.service.replace_namespace(self.now, SUBSYSTEM, namespace).unwrap();
    }

    /// Changes the readiness of a namespace whose tag is its identifier.
    pub(crate) fn set_readiness(&mut self, nsid: u8, readiness: Readiness) {
        self.replace_namespace(Namespace { nsid: nsid.into(), readiness, ..namespace(nsid) });
    }

    pub(crate) fn remove_namespace(&mut self, nsid: u32) {
        self.service.remove_namespace(self.now, SUBSYSTEM, nsid).unwrap();
    }

    pub(crate) fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.service.poll_action()).collect()
    }

    /// Removes all actions. Returns the queues and results of the completions among them.
    pub(crate) fn take_completions(&mut self) -> Vec<(ConnectionId, u64)> {
        let completion = |action| match action {
            Action::Complete { connection, result, .. } => Some((connection, result)),
            _ => None,
        };
        self.actions().into_iter().filter_map(completion).collect()
    }

    /// Returns an admin queue of an enabled I/O controller.
    pub(crate) fn admin_queue(&mut self, kato: u32) -> (ConnectionId, Connected) {
        Connect::admin(SUBSYSTEM).kato(kato).enabled(self)
    }

    /// Returns an enabled discovery controller.
    pub(crate) fn discovery(&mut self, kato: u32, host: &str) -> ConnectionId {
        let (id, connected) = Connect::admin(DISCOVERY_NQN).kato(kato).host(host).enabled(self);
        assert_eq!(connected.kind, QueueKind::Discovery);
        id
    }

    /// Accepts a connection from an address, which sends a Connect.
    pub(crate) fn connect_from(
        &mut self,
        address: IpAddr,
        connect: &Connect,
    ) -> (ConnectionId, Result<Connected, Rejected>) {
        self.service.accepted(ConnectionId(self.connections + 1), address);
        connect.send(self)
    }

    /// Sends a Connect, which is accepted, or refused for good because of its host.
    pub(crate) fn admit(
        &mut self,
        connect: &Connect,
    ) -> Result<(ConnectionId, Connected), Refusal> {
        let (id, answer) = connect.send(self);
        answer.map(|connected| (id, connected)).map_err(|rejected| {
            assert_eq!(rejected.status, Status::CONNECT_INVALID_HOST.dnr());
            rejected.reason
        })
    }

    pub(crate) fn io_queue(&mut self, qid: u16, cntlid: u16) -> ConnectionId {
        let (id, connected) = Connect::new(SUBSYSTEM, qid, cntlid).accepted(self);
        assert_eq!(connected.kind, QueueKind::Io);
        id
    }

    pub(crate) fn admin_with(&mut self, id: ConnectionId, sqe: &Sqe, data: &[u8]) -> Reply {
        self.service.admin(self.now, id, sqe, data, &self.smart, &mut self.out)
    }

    pub(crate) fn admin(&mut self, id: ConnectionId, sqe: &Sqe) -> Reply {
        self.admin_with(id, sqe, &[])
    }

    pub(crate) fn io_fabrics(&mut self, id: ConnectionId, sqe: &Sqe, data: &[u8]) -> Reply {
        self.service.fabrics_on_io_queue(self.now, id, sqe, data, &mut self.out)
    }

    /// Sends a command that must succeed. Returns its result.
    pub(crate) fn ok(&mut self, id: ConnectionId, sqe: &Sqe) -> u64 {
        match self.admin(id, sqe) {
            Reply::Done { result, status } if status.is_success() => result,
            other => panic!("{other:?} for {sqe:?}"),
        }
    }

    /// Sends a command that must fail with a status, with any flags.
    #[track_caller]
    pub(crate) fn fails(&mut self, id: ConnectionId, sqe: &Sqe, status: Status) {
        assert_eq!(code(self.admin(id, sqe)), status_code(status), "{sqe:?}");
    }

    /// Sends an event request, which is held.
    pub(crate) fn request_event(&mut self, id: ConnectionId, cid: u16) {
        assert_eq!(self.admin(id, &command(op::ASYNC_EVENT_REQUEST, cid)), Reply::Deferred);
    }

    /// Enables events, and sends as many requests as there may be.
    pub(crate) fn listen(&mut self, id: ConnectionId, events: u32) {
        self.ok(id, &set_feature(0x0b, events));
        for cid in 100..104 {
            self.request_event(id, cid);
        }
    }

    /// Sets ACRE: the host honours retry delays.
    pub(crate) fn set_acre(&mut self, id: ConnectionId) {
        // Byte 0 of Host Behavior Support is ACRE.
        let mut behavior = [0; 512];
        behavior[0] = 1;
        assert_eq!(self.admin_with(id, &set_feature(0x16, 0), &behavior), Reply::OK);
    }

    pub(crate) fn set_cc(&mut self, id: ConnectionId, value: u32) {
        self.ok(id, &property_set(0x14, value));
    }

    pub(crate) fn csts(&mut self, id: ConnectionId) -> u64 {
        self.ok(id, &property_get(0x1c, 0))
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Reads a list of namespaces, which ends with 0 or the page.
pub(crate) fn nsids(page: &[u8]) -> Vec<u32> {
    let all = page.chunks_exact(4).map(|nsid| u32_at(nsid, 0));
    all.take_while(|nsid| *nsid != 0).collect()
}

/// Returns the status code (with type) of a reply, without DNR, M and CRD.
pub(crate) fn code(reply: Reply) -> u16 {
    let Reply::Done { status, .. } = reply else { panic!("deferred") };
    status_code(status)
}

pub(crate) fn close(connection: ConnectionId, reason: CloseReason) -> Action {
    Action::Close { connection, reason }
}

pub(crate) fn complete(connection: ConnectionId, cid: u16, result: u64, status: Status) -> Action {
    Action::Complete { connection, cid, result, status }
}

pub(crate) fn command(opcode: u8, cid: u16) -> Sqe {
    let sgl = SglDescriptor::transport(1 << 20);
    Sqe { opcode, cid: U16::new(cid), flags: 0x40, sgl, ..Sqe::default() }
}

/// Makes a command of the Fabrics command set, of a type.
pub(crate) fn fabrics_command(fctype: u8) -> Sqe {
    Sqe { nsid: U32::new(fctype.into()), ..command(FABRICS, 1) }
}

pub(crate) fn property_set(offset: u32, value: u32) -> Sqe {
    let (cdw11, cdw12) = (U32::new(offset), U32::new(value));
    Sqe { cdw11, cdw12, ..fabrics_command(fabrics::PROPERTY_SET) }
}

pub(crate) fn property_get(offset: u32, attrib: u32) -> Sqe {
    let (cdw10, cdw11) = (U32::new(attrib), U32::new(offset));
    Sqe { cdw10, cdw11, ..fabrics_command(fabrics::PROPERTY_GET) }
}

pub(crate) fn identify(cns: u8, nsid: u32) -> Sqe {
    Sqe { nsid: U32::new(nsid), cdw10: U32::new(cns.into()), ..command(op::IDENTIFY, 1) }
}

/// Makes a Get Log Page command; `length` is in bytes.
pub(crate) fn log(lid: u8, length: u32, offset: u64, retain: bool) -> Sqe {
    let dwords = length / 4 - 1;
    let cdw10 = u32::from(lid) | u32::from(retain) << 15 | dwords << 16;
    let half = |shift: u32| U32::new((offset >> shift & 0xffff_ffff) as u32);
    let (cdw10, cdw11, nsid) = (U32::new(cdw10), U32::new(dwords >> 16), U32::MAX_VALUE);
    Sqe { nsid, cdw10, cdw11, cdw12: half(0), cdw13: half(32), ..command(op::GET_LOG_PAGE, 1) }
}

pub(crate) fn set_feature(fid: u8, value: u32) -> Sqe {
    Sqe { cdw10: U32::new(fid.into()), cdw11: U32::new(value), ..command(op::SET_FEATURES, 1) }
}

pub(crate) fn get_feature(fid: u8, select: u32, cdw11: u32) -> Sqe {
    let (cdw10, cdw11) = (U32::new(u32::from(fid) | select << 8), U32::new(cdw11));
    Sqe { cdw10, cdw11, ..command(op::GET_FEATURES, 1) }
}

pub(crate) fn abort(qid: u32, cid: u32, own: u16) -> Sqe {
    Sqe { cdw10: U32::new(qid | cid << 16), ..command(op::ABORT, own) }
}

pub(crate) fn status_code(status: Status) -> u16 {
    status.bits() & 0x7ff
}
