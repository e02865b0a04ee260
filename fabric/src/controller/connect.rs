//! The Connect command (NVMe base 2.0, section 6.3).

use core::sync::atomic::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use zerocopy::FromBytes;

use super::error_log::ErrorLog;
use super::events::{ChangedNamespaces, Events};
use super::feature_values::Features;
use super::instance::{Controller, ControllerKind, KeepAlive};
use super::registers::Properties;
use super::service::Attachment;
use super::{
    Connected, ConnectionId, ControllerId, ControllerShared, HostPath, ListenerId, ListenerSpec,
    QueueKind, Refusal, Rejected, SecureChannel, Service, TransportType,
};
use crate::Nanos;
use crate::fabrics::{
    AUTHENTICATION_REQUIRED, ConnectAttributes, ConnectCommand, ConnectData, DISCOVERY_NQN,
    nqn_field,
};
use crate::nvme::Sqe;

/// The CNTLID with which a host asks for any controller.
const DYNAMIC: u16 = 0xffff;
/// The largest controller identifier; FFF0h and up are reserved.
const LAST_ID: u16 = 0xffef;

/// A Connect command whose own fields are good.
struct ConnectRequest<'a> {
    connection: ConnectionId,
    listener: ListenerId,
    command: ConnectCommand,
    data: &'a ConnectData,
    subsystem: &'a str,
    host: &'a str,
}

impl ConnectRequest<'_> {
    /// Returns the kind of controller that an admin queue is asked for.
    fn controller_kind(&self) -> ControllerKind {
        let discovery = self.subsystem == DISCOVERY_NQN;
        if discovery { ControllerKind::Discovery } else { ControllerKind::Io }
    }
}

impl Service {
    /// Answers a Connect command. `data` is the command's data; `connection` must not be
    /// connected yet.
    ///
    /// # Errors
    /// Status and result with which to complete the command:
    /// - Invalid Field, Command Sequence Error, Data SGL Length Invalid: not a Connect, on a
    ///   connected queue, without 1024 bytes of data;
    /// - Connect Incompatible Format: RECFMT is not 0;
    /// - Connect Invalid Parameters, with IPO and IATTR: SQSIZE, QID, CNTLID, HOSTID, an NQN that
    ///   is not one, a subsystem that is not served here, an I/O queue that does not fit its
    ///   controller;
    /// - Command Sequence Error without DNR: the queue identifier is in use, but its connection
    ///   may be about to end;
    /// - Connect Invalid Host: the host may not use the subsystem, or not from its address (a host
    ///   with an empty NQN has the rights of any host); or the TLS key of the connection is for
    ///   another host or subsystem, or there is none and the host has one; or the host has generated a
    ///   TLS key on the controller's admin queue; or authentication is required, and the host has no
    ///   secret and no TLS key in use;
    /// - Keep Alive Timeout Invalid: a discovery controller's is too long;
    /// - Connect Controller Busy, without DNR: there is no room for the controller or its queue, the
    ///   target is draining, or the host has failed to authenticate and has to wait.
    pub fn connect(
        &mut self,
        now: Nanos,
        connection: ConnectionId,
        listener: ListenerId,
        sqe: &Sqe,
        data: &[u8],
    ) -> Result<Connected, Rejected> {
        let command = ConnectCommand::from(sqe);
        if !command.is_connect() {
            return Err(Refusal::NotConnect.rejected());
        }
        if self.connections.contains_key(&connection) {
            return Err(Refusal::Connected.rejected());
        }
        let data = ConnectData::ref_from_bytes(data);
        let data = data.map_err(|_| Refusal::DataLength.rejected())?;
        let names = self.check_fields(&command, data);
        let (subsystem, host) = names.map_err(Refusal::rejected)?;
        let request = ConnectRequest { connection, listener, command, data, subsystem, host };
        self.check_access(now, &request).map_err(Refusal::rejected)?;
        let connected = if command.qid.get() == 0 {
            self.connect_admin(now, &request)
        } else {
            self.connect_io(now, &request)
        };
        connected.map_err(Refusal::rejected)
    }

    /// Checks the fields that do not depend on the subsystem.
    fn check_fields<'a>(
        &self,
        command: &ConnectCommand,
        data: &'a ConnectData,
    ) -> Result<(&'a str, &'a str), Refusal> {
        if command.recfmt.get() != 0 {
            return Err(Refusal::Format);
        }
        let admin = command.qid.get() == 0;
        let most = if admin { self.config.admin_queue_entries } else { self.config.queue_entries };
        let size = command.sqsize.get();
        if size == 0 || size >= most {
            return Err(Refusal::QueueSize);
        }
        if data.hostid == [0; 16] {
            return Err(Refusal::NoHostId);
        }
        let subsystem = nqn_field(&data.subnqn).ok_or(Refusal::SubsystemName)?;
        // Some hosts have no name: they may use what any host may use.
        let nameless = data.hostnqn.first() == Some(&0);
        let host = if nameless { Some("") } else { nqn_field(&data.hostnqn) };
        Ok((subsystem, host.ok_or(Refusal::HostName)?))
    }

    /// Checks whether the subsystem is served on the listener and to the host.
    fn check_access(&self, now: Nanos, request: &ConnectRequest<'_>) -> Result<(), Refusal> {
        let listener = self.listeners.get(&request.listener).ok_or(Refusal::NoListener)?;
        if self.draining {
            return Err(Refusal::Draining);
        }
        let discovery = request.subsystem == DISCOVERY_NQN;
        let names = (request.host, request.subsystem);
        let channel = match listener.secure_channel {
            // Discovery tells a host with a key that it has to use it.
            SecureChannel::Allowed if discovery => SecureChannel::Off,
            channel => channel,
        };
        if let Some(refusal) = self.channels.refusal(request.connection, names, channel) {
            return Err(refusal);
        }
        let address = self.room.address(request.connection);
        let mut required = self.requires_authentication(request.listener);
        if !discovery {
            let subsystem = self.subsystems.get(request.subsystem).ok_or(Refusal::NoSubsystem)?;
            if !listener.serves(request.subsystem) {
                return Err(Refusal::NotServedHere);
            }
            if let Some(refusal) = subsystem.refusal(request.host, address) {
                return Err(refusal);
            }
            required |= subsystem.spec.require_authentication;
        }
        let over_tls = self.channels.names(request.connection).is_some();
        if required && !over_tls && self.gate.secrets(request.host).is_none() {
            return Err(Refusal::Unauthenticated);
        }
        if discovery && !required {
            return Ok(());
        }
        let proved = self.channels.proves(request.connection);
        let waits = !proved && self.gate.must_wait(now, request.host, address);
        if waits { Err(Refusal::TooManyTries) } else { Ok(()) }
    }

    /// Returns whether all hosts that connect through a listener must authenticate, also to the
    /// discovery controller.
    fn requires_authentication(&self, listener: ListenerId) -> bool {
        let listener = self.listeners.get(&listener);
        self.config.require_authentication
            || listener.is_some_and(|spec| spec.require_authentication)
    }

    fn connect_admin(
        &mut self,
        now: Nanos,
        request: &ConnectRequest<'_>,
    ) -> Result<Connected, Refusal> {
        if request.data.cntlid.get() != DYNAMIC {
            return Err(Refusal::StaticController);
        }
        let address = self.room.address(request.connection);
        self.room.check(request.controller_kind(), address, &self.config)?;
        if !KeepAlive::allows(request.command.kato.get(), request.controller_kind(), &self.config) {
            return Err(Refusal::KeepAliveTime);
        }
        let id = self.allocate_id().ok_or(Refusal::TooManyControllers)?;
        let mut controller = self.new_controller(now, id, request);
        self.room.settle(&mut controller);
        let kind = match controller.kind {
            ControllerKind::Io => QueueKind::Admin,
            ControllerKind::Discovery => QueueKind::Discovery,
        };
        let without_acre = match controller.kind {
            ControllerKind::Io => self.without_acre.queues(request.host),
            ControllerKind::Discovery => None,
        };
        let connected = Connected { without_acre, ..connected(&controller, request, kind) };
        let connected = self.gate_for(now, request, address, connected);
        if let Some(subsystem) = self.subsystems.get_mut(request.subsystem) {
            subsystem.controllers.insert(id);
        }
        self.controllers.insert(id, controller);
        self.attach(request.connection, id, (0, connected.entries));
        Ok(connected)
    }

    /// Returns the next controller identifier that is not in use. No identifier is given again
    /// before all others were.
    fn allocate_id(&mut self) -> Option<ControllerId> {
        if self.controllers.len() >= usize::from(self.config.max_controllers) {
            return None;
        }
        let after = self.last_id.saturating_add(1);
        let id = (after..=LAST_ID)
            .chain(1..after)
            .map(ControllerId)
            .find(|id| !self.controllers.contains_key(id) && !self.ending.has(*id))?;
        self.last_id = id.0;
        Some(id)
    }

    /// Returns the transport of a listener's connections.
    fn transport_of(&self, listener: ListenerId) -> TransportType {
        self.listeners.get(&listener).map(|spec| spec.transport).unwrap_or_default()
    }

    fn new_controller(
        &self,
        now: Nanos,
        id: ControllerId,
        request: &ConnectRequest<'_>,
    ) -> Controller {
        let kind = request.controller_kind();
        let subsystem = self.subsystems.get(request.subsystem);
        let rights = subsystem.map(|s| s.rights_of(request.host)).unwrap_or_default();
        let table = subsystem.map(|s| s.table_for(request.host, &rights));
        let features = Features::new(&self.config);
        let path = path(self.listeners.get(&request.listener), request);
        let shared =
            ControllerShared::new(id, request.host, request.subsystem, self.config.arbitration);
        shared.set_max_class(rights.highest_class());
        let mut controller = Controller {
            id,
            kind,
            shared: Arc::new(shared),
            rights,
            table: Arc::default(),
            withheld: std::collections::BTreeMap::new(),
            identified: path.as_ref().map(|p| self.users.identified_by_all(p)).unwrap_or_default(),
            host_id: request.data.hostid,
            listener: request.listener,
            transport: self.transport_of(request.listener),
            address: self.room.address(request.connection),
            places: 0,
            local_address: None,
            queue_entries: self.config.queue_entries,
            admin: request.connection,
            queues: std::collections::BTreeMap::new(),
            last_qid: 0,
            settled: std::collections::BTreeSet::new(),
            settled_at: None,
            properties: Properties::default(),
            features,
            events: Events::default(),
            errors: ErrorLog::default(),
            changed: ChangedNamespaces::default(),
            ana_read: None,
            keep_alive: KeepAlive::new(now, request.command.kato.get(), kind, &self.config),
            regions: None,
        };
        if let Some(table) = table {
            controller.show_first(table, |namespace| {
                let (nsid, uuid) = (namespace.nsid, &namespace.uuid);
                path.as_ref().is_some_and(|path| self.users.knows_other(path, nsid, uuid))
            });
        }
        controller
    }

    fn connect_io(
        &mut self,
        now: Nanos,
        request: &ConnectRequest<'_>,
    ) -> Result<Connected, Refusal> {
        let id = ControllerId(request.data.cntlid.get());
        let controller = self.controllers.get_mut(&id).ok_or(Refusal::NoController)?;
        let qid = request.command.qid.get();
        let over_tls = |connection| self.channels.names(connection).is_some();
        let wrong = if controller.subsystem() != request.subsystem {
            Some(Refusal::OtherSubsystem)
        } else if controller.host() != request.host {
            Some(Refusal::OtherHost)
        } else if controller.host_id != request.data.hostid {
            Some(Refusal::OtherHostId)
        } else if controller.kind == ControllerKind::Discovery {
            Some(Refusal::NoIoQueues)
        } else if !controller.shared.is_ready() {
            Some(Refusal::NotEnabled)
        } else if over_tls(controller.admin) && !over_tls(request.connection) {
            Some(Refusal::OnlyWithTls)
        } else if qid > controller.features.queues_granted {
            Some(Refusal::QueueId)
        } else if request.command.sqsize.get() >= controller.queue_entries {
            Some(Refusal::QueueSize)
        } else {
            controller.queues.contains_key(&qid).then_some(Refusal::QueueInUse)
        };
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        self.room.check_queue(controller, &self.config)?;
        controller.queues.insert(qid, request.connection);
        self.room.settle(controller);
        controller.shared.note_traffic();
        let acre = controller.shared.acre.load(Ordering::Relaxed);
        let queues = u16::try_from(controller.queues.len()).unwrap_or(u16::MAX);
        self.without_acre.connected(request.host, acre, queues);
        let mut connected = connected(controller, request, QueueKind::Io);
        let (listener, address) = (controller.listener, controller.address);
        let path = || path(self.listeners.get(&listener), request);
        if self.users.connected(&controller.shared, path, address, &controller.identified) {
            controller.shared.begin_resending(now);
        }
        self.users.note_without_acre(id, if acre { 0 } else { queues });
        // Each queue's content is resent once. Linux connects the queues in ascending order.
        connected.resends =
            qid > controller.last_qid && controller.shared.resends_since().is_some();
        controller.last_qid = controller.last_qid.max(qid);
        let address = self.room.address(request.connection);
        let connected = self.gate_for(now, request, address, connected);
        self.attach(request.connection, id, (qid, connected.entries));
        Ok(connected)
    }

    /// Requires authentication on a queue that the host has just connected, if it must authenticate. Discovery requires
    /// none unless all hosts of the listener must authenticate.
    fn gate_for(
        &mut self,
        now: Nanos,
        request: &ConnectRequest<'_>,
        address: Option<IpAddr>,
        connected: Connected,
    ) -> Connected {
        let connection = request.connection;
        let guarded = connected.kind != QueueKind::Discovery
            || self.requires_authentication(request.listener);
        let authentication = guarded
            && !self.channels.proves(connection)
            && self.gate.connected(now, connection, &connected.shared, address);
        let required = if authentication { AUTHENTICATION_REQUIRED } else { 0 };
        Connected { result: connected.result | required, authentication, ..connected }
    }

    fn attach(
        &mut self,
        connection: ConnectionId,
        controller: ControllerId,
        (qid, entries): (u16, u16),
    ) {
        let address = self.room.address(connection);
        self.room.not_waiting(connection);
        let attachment = Attachment { controller, qid, address, entries, closing: false };
        self.connections.insert(connection, attachment);
    }
}

/// Returns the way by which a host uses a subsystem; `None`: its listener is gone.
fn path(listener: Option<&ListenerSpec>, request: &ConnectRequest<'_>) -> Option<HostPath> {
    let (subsystem, host) = (request.subsystem.to_owned(), request.host.to_owned());
    Some(HostPath { subsystem, host, listener: listener?.name.clone() })
}

fn connected(controller: &Controller, request: &ConnectRequest<'_>, kind: QueueKind) -> Connected {
    let attributes = ConnectAttributes::from_bits_truncate(request.command.cattr);
    Connected {
        result: u64::from(controller.id.0),
        controller: controller.id,
        shared: Arc::clone(&controller.shared),
        qid: request.command.qid.get(),
        entries: request.command.sqsize.get().saturating_add(1),
        sq_flow_control: !attributes.contains(ConnectAttributes::DISABLE_SQ_FLOW_CONTROL),
        kind,
        priority_class: request.command.cattr & 0b11,
        keep_alive: controller.keep_alive.timeout(),
        authentication: false,
        without_acre: None,
        resends: false,
        namespaces: Arc::clone(&controller.table),
    }
}
