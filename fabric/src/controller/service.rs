//! The service: everything that hosts see of the target beside I/O.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use super::access::refusal;
use super::auth::Gate;
use super::channels::Channels;
use super::ending::EndedControllers;
use super::instance::{Controller, ControllerKind};
use super::room::Room;
use super::users::Users;
use super::without_acre::HostsWithoutAcre;
use super::{
    AbortTicket, Action, AllowedHost, ConfigError, ConnectionId, ControllerId, ListenerId,
    ListenerSpec, MachineAddress, Namespace, NamespaceTable, NodeCredits, Refusal, RegionGrants,
    ServiceConfig, SubsystemSpec,
};
use crate::fabrics::DISCOVERY_NQN;

/// A subsystem and its namespaces.
#[derive(Debug)]
pub(super) struct Subsystem {
    pub(super) spec: SubsystemSpec,
    pub(super) namespaces: Arc<NamespaceTable>,
    /// The same for hosts that may only read; not made before there is one.
    pub(super) protected: OnceLock<Arc<NamespaceTable>>,
    /// The number of namespaces that not every host sees.
    pub(super) restricted: usize,
    /// The NSID of each UUID.
    pub(super) uuids: HashMap<[u8; 16], u32>,
    /// The NSID of each NGUID.
    pub(super) nguids: HashMap<[u8; 16], u32>,
    pub(super) controllers: BTreeSet<ControllerId>,
}

impl Subsystem {
    /// Returns why `host` may not connect from `address`; `None`: it may.
    pub(super) fn refusal(&self, host: &str, address: Option<IpAddr>) -> Option<Refusal> {
        refusal(self.spec.allow_any_host, &self.spec.hosts, host, address)
    }

    /// Returns whether a discovery controller's host learns of the subsystem.
    pub(super) fn shows_itself_to(&self, controller: &Controller) -> bool {
        self.refusal(controller.host(), controller.address).is_none()
    }
}

/// The queue that belongs to a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attachment {
    pub(super) controller: ControllerId,
    pub(super) qid: u16,
    /// The peer's address, where the daemon told it.
    pub(super) address: Option<IpAddr>,
    /// Entries of the submission queue.
    pub(super) entries: u16,
    /// Whether a close was ordered and the daemon has not yet reported its end.
    pub(super) closing: bool,
}

/// An Abort command whose target the daemon looks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingAbort {
    pub(super) controller: ControllerId,
    /// The Abort command's own identifier.
    pub(super) cid: u16,
    /// The I/O queue's connection.
    pub(super) target: ConnectionId,
}

/// All subsystems, listeners and controllers. See the [module](super).
#[derive(Debug)]
pub struct Service {
    pub(super) config: ServiceConfig,
    pub(super) subsystems: BTreeMap<String, Subsystem>,
    pub(super) listeners: BTreeMap<ListenerId, ListenerSpec>,
    /// The addresses of this machine, in ascending order.
    pub(super) addresses: Vec<MachineAddress>,
    pub(super) controllers: BTreeMap<ControllerId, Controller>,
    pub(super) connections: HashMap<ConnectionId, Attachment>,
    pub(super) aborts: BTreeMap<AbortTicket, PendingAbort>,
    pub(super) room: Room,
    pub(super) gate: Gate,
    pub(super) channels: Channels,
    pub(super) ending: EndedControllers,
    pub(super) users: Users,
    pub(super) without_acre: HostsWithoutAcre,
    pub(super) actions: VecDeque<Action>,
    pub(super) tables_changed: BTreeSet<ControllerId>,
    /// The controller identifier given last.
    pub(super) last_id: u16,
    pub(super) last_ticket: u64,
    /// GENCTR of the discovery log page.
    pub(super) generation: u64,
    /// Change count of the ANA log page.
    pub(super) ana_changes: u64,
    pub(super) draining: bool,
    /// Decides on Get Region; `None` if no regions are served.
    pub(super) region_grants: Option<Arc<dyn RegionGrants>>,
    pub(super) node_credits: Option<Arc<dyn NodeCredits>>,
}

/// A subsystem as it is now.
#[derive(Clone, Debug)]
pub struct SubsystemSummary<'a> {
    /// The subsystem as it was added, with its present hosts.
    pub spec: &'a SubsystemSpec,
    /// The subsystem's namespaces, in ascending order of NSID.
    pub namespaces: Vec<&'a Arc<Namespace>>,
    /// The subsystem's controllers.
    pub controllers: Vec<ControllerId>,
}

/// A controller as it is now.
#[derive(Clone, Debug)]
pub struct ControllerSummary<'a> {
    /// The controller's identifier.
    pub id: ControllerId,
    /// Whether the controller is a discovery controller.
    pub discovery: bool,
    /// The host's NQN.
    pub host: &'a str,
    /// The subsystem's NQN.
    pub subsystem: &'a str,
    /// The listener through which the admin queue came.
    pub listener: ListenerId,
    /// The admin queue's connection.
    pub admin: ConnectionId,
    /// The I/O queues: queue identifier and connection.
    pub queues: Vec<(u16, ConnectionId)>,
    /// Keep alive timeout in milliseconds; 0: off.
    pub keep_alive_ms: u32,
}

impl Service {
    /// Makes a service without subsystems and listeners.
    ///
    /// # Errors
    /// The wire formats cannot express one of the limits.
    pub fn new(config: ServiceConfig) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            subsystems: BTreeMap::new(),
            listeners: BTreeMap::new(),
            addresses: Vec::new(),
            controllers: BTreeMap::new(),
            connections: HashMap::new(),
            aborts: BTreeMap::new(),
            room: Room::default(),
            gate: Gate::default(),
            channels: Channels::default(),
            ending: EndedControllers::default(),
            users: Users::new(config.reconnect_time),
            without_acre: HostsWithoutAcre::default(),
            actions: VecDeque::new(),
            tables_changed: BTreeSet::new(),
            last_id: 0,
            last_ticket: 0,
            generation: 1,
            ana_changes: 1,
            draining: false,
            region_grants: None,
            node_credits: None,
            config,
        })
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &ServiceConfig {
        &self.config
    }

    /// Returns the next action; `None` where there are no more.
    pub fn poll_action(&mut self) -> Option<Action> {
        let changed =
            || Some(Action::TableChanged { controller: self.tables_changed.pop_first()? });
        self.actions.pop_front().or_else(changed)
    }

    /// Returns the namespaces that a controller's host sees; an empty table where there is no such
    /// controller.
    #[must_use]
    pub fn namespaces(&self, id: ControllerId) -> Arc<NamespaceTable> {
        self.controllers.get(&id).map_or_else(Arc::default, |c| Arc::clone(&c.table))
    }

    /// Returns all subsystems, by NQN.
    pub fn subsystems(&self) -> impl Iterator<Item = SubsystemSummary<'_>> {
        self.subsystems.values().map(|s| SubsystemSummary {
            spec: &s.spec,
            namespaces: s.namespaces.iter().collect(),
            controllers: self.controllers_of(&s.spec.nqn),
        })
    }

    /// Returns one subsystem.
    #[must_use]
    pub fn subsystem(&self, nqn: &str) -> Option<SubsystemSummary<'_>> {
        let s = self.subsystems.get(nqn)?;
        Some(SubsystemSummary {
            spec: &s.spec,
            namespaces: s.namespaces.iter().collect(),
            controllers: self.controllers_of(nqn),
        })
    }

    /// Returns one namespace.
    #[must_use]
    pub fn namespace(&self, nqn: &str, nsid: u32) -> Option<&Arc<Namespace>> {
        self.subsystems.get(nqn)?.namespaces.get(nsid)
    }

    /// Returns the lowest NSID of a subsystem that is free; `None` where there is no such
    /// subsystem.
    #[must_use]
    pub fn free_nsid(&self, nqn: &str) -> Option<u32> {
        Some(self.subsystems.get(nqn)?.namespaces.lowest_free())
    }

    /// Returns all listeners, by number.
    pub fn listeners(&self) -> impl Iterator<Item = &ListenerSpec> {
        self.listeners.values()
    }

    /// Returns all controllers, by identifier.
    pub fn controllers(&self) -> impl Iterator<Item = ControllerSummary<'_>> {
        self.controllers.values().map(|c| ControllerSummary {
            id: c.id,
            discovery: c.kind == ControllerKind::Discovery,
            host: c.host(),
            subsystem: c.subsystem(),
            listener: c.listener,
            admin: c.admin,
            queues: c.queues.iter().map(|(&qid, &connection)| (qid, connection)).collect(),
            keep_alive_ms: c.keep_alive.milliseconds,
        })
    }

    /// Returns the controller and the queue identifier of a connection.
    #[must_use]
    pub fn queue_of(&self, connection: ConnectionId) -> Option<(ControllerId, u16)> {
        self.connections.get(&connection).map(|a| (a.controller, a.qid))
    }

    /// Returns GENCTR of the discovery log page, which grows with every change that hosts can see
    /// in it.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the controllers of a subsystem that could not stay if it had these hosts: the host is
    /// not among them, or one of its connections comes from an address that is not.
    #[must_use]
    pub fn refused_by(&self, nqn: &str, any: bool, hosts: &[AllowedHost]) -> Vec<ControllerId> {
        let refused = |c: &&Controller| {
            let mut queues = std::iter::once(&c.admin).chain(c.queues.values());
            queues.any(|queue| {
                let address = self.connections.get(queue).and_then(|known| known.address);
                refusal(any, hosts, c.host(), address).is_some()
            })
        };
        let of = self.subsystems.get(nqn).into_iter().flat_map(|s| &s.controllers);
        of.filter_map(|id| self.controllers.get(id)).filter(refused).map(|c| c.id).collect()
    }

    /// Returns the identifiers of a subsystem's controllers.
    pub(super) fn controllers_of(&self, nqn: &str) -> Vec<ControllerId> {
        let of = self.subsystems.get(nqn).map(|s| s.controllers.iter().copied().collect());
        of.unwrap_or_default()
    }

    /// Returns the serial number and the model number that a controller shows.
    pub(super) fn identity_of<'a>(&'a self, controller: &'a Controller) -> (&'a str, &'a str) {
        match self.subsystems.get(controller.subsystem()) {
            Some(s) if controller.subsystem() != DISCOVERY_NQN => (&s.spec.serial, &s.spec.model),
            _ => ("discovery", "Sluicegate Discovery"),
        }
    }
}
