//! The room for connections: which of them find a place, and which have to go.
//!
//! There are three kinds of places, each with a bound of its own, so that no kind uses up the
//! places of another: connections that have sent no Connect yet, discovery controllers, and the
//! queues of I/O controllers. Places of queues are reserved: a controller holds a place for each
//! queue that its host was granted, connected or not. So a host with a controller is never refused
//! a queue, and hosts without one are granted the rest.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use super::instance::{Controller, ControllerKind};
use super::{ConnectionId, Refusal, ServiceConfig};

/// The places that a controller is promised at first: its admin queue and one I/O queue.
const FIRST: u32 = 2;
/// Divisor of the number of discovery controllers: the part that one address may have.
const DISCOVERY_PART: u32 = 4;

/// The places that are taken.
#[derive(Debug, Default)]
pub(super) struct Room {
    waiting: Waiting,
    discovery: Tally,
    queues: Tally,
}

/// Places of one kind, in all and by the address of the peer, where that is known.
#[derive(Debug, Default)]
struct Tally {
    total: u32,
    by_address: HashMap<IpAddr, u32>,
}

impl Tally {
    fn count(&self, address: Option<IpAddr>) -> u32 {
        address.and_then(|address| self.by_address.get(&address)).copied().unwrap_or(0)
    }

    /// Changes a holder's number of places.
    fn change(&mut self, address: Option<IpAddr>, before: u32, after: u32) {
        let exchanged = |count: u32| (count + after).saturating_sub(before);
        self.total = exchanged(self.total);
        let Some(address) = address else { return };
        let left = exchanged(self.count(Some(address)));
        if left == 0 {
            self.by_address.remove(&address);
        } else {
            self.by_address.insert(address, left);
        }
    }
}

/// The connections that have sent no Connect that succeeded.
#[derive(Debug, Default)]
struct Waiting {
    addresses: HashMap<ConnectionId, (IpAddr, u64)>,
    /// The connections of each address, in the order in which they came.
    by_address: HashMap<IpAddr, BTreeMap<u64, ConnectionId>>,
    /// The number of connections that have come.
    came: u64,
}

impl Waiting {
    fn add(&mut self, connection: ConnectionId, address: IpAddr) {
        self.came += 1;
        self.addresses.insert(connection, (address, self.came));
        self.by_address.entry(address).or_default().insert(self.came, connection);
    }

    fn remove(&mut self, connection: ConnectionId) -> Option<IpAddr> {
        let (address, came) = self.addresses.remove(&connection)?;
        if let Some(others) = self.by_address.get_mut(&address) {
            others.remove(&came);
            if others.is_empty() {
                self.by_address.remove(&address);
            }
        }
        Some(address)
    }

    /// Returns the connection that goes where there are too many: the oldest one of the address
    /// that has the most. So an address with many makes room for others, never the other way round.
    fn first_to_go(&self) -> Option<ConnectionId> {
        let oldest = |others: &BTreeMap<u64, ConnectionId>| {
            let (came, connection) = others.first_key_value()?;
            Some((others.len(), std::cmp::Reverse(*came), *connection))
        };
        self.by_address.values().filter_map(oldest).max().map(|(.., connection)| connection)
    }
}

impl Controller {
    /// Returns the number of queues that the host may connect, its admin queue among them.
    fn places_wanted(&self) -> u32 {
        match self.kind {
            ControllerKind::Discovery => 1,
            ControllerKind::Io if self.features.queues_asked => {
                u32::from(self.features.queues_granted).saturating_add(1).max(FIRST)
            }
            // The controller keeps its places, so that a host that resets it finds room again.
            ControllerKind::Io => {
                let queues = u32::try_from(self.queues.len()).unwrap_or(u32::MAX);
                queues.saturating_add(1).max(self.places).max(FIRST)
            }
        }
    }
}

impl Room {
    /// Adds a new connection. If too many wait, returns the connection to close, which no longer
    /// counts.
    pub(super) fn come(
        &mut self,
        connection: ConnectionId,
        address: IpAddr,
        config: &ServiceConfig,
    ) -> Option<ConnectionId> {
        self.waiting.add(connection, address.to_canonical());
        let most = usize::try_from(config.max_waiting).unwrap_or(usize::MAX);
        let too_many = self.waiting.addresses.len() > most;
        let gone = self.waiting.first_to_go().filter(|_| too_many)?;
        self.waiting.remove(gone);
        Some(gone)
    }

    fn tally(&mut self, kind: ControllerKind) -> &mut Tally {
        match kind {
            ControllerKind::Discovery => &mut self.discovery,
            ControllerKind::Io => &mut self.queues,
        }
    }

    /// Returns the address of a connection that has sent no Connect yet.
    pub(super) fn address(&self, connection: ConnectionId) -> Option<IpAddr> {
        self.waiting.addresses.get(&connection).map(|(address, _)| *address)
    }

    /// Notes that a connection is a queue now, or has ended.
    pub(super) fn not_waiting(&mut self, connection: ConnectionId) {
        self.waiting.remove(connection);
    }

    /// Assigns a controller the places that it needs now, and releases the places that its host
    /// does not want. Places are released only after a host has set its number of queues.
    pub(super) fn settle(&mut self, controller: &mut Controller) {
        let wanted = controller.places_wanted();
        self.tally(controller.kind).change(controller.address, controller.places, wanted);
        controller.places = wanted;
    }

    /// Releases a controller's places.
    pub(super) fn give_back(&mut self, controller: &Controller) {
        self.tally(controller.kind).change(controller.address, controller.places, 0);
    }

    /// Returns the places for queues that a peer may still be promised.
    fn left(&self, address: Option<IpAddr>, config: &ServiceConfig) -> Result<u32, Refusal> {
        let all = config.max_connections.saturating_sub(self.queues.total);
        let own = config.max_address_connections.saturating_sub(self.queues.count(address));
        match (all, own) {
            (0, _) => Err(Refusal::TooManyConnections),
            (_, 0) => Err(Refusal::TooManyOfAddress),
            _ => Ok(all.min(own)),
        }
    }

    /// Checks whether a new controller of a peer finds room.
    pub(super) fn check(
        &self,
        kind: ControllerKind,
        address: Option<IpAddr>,
        config: &ServiceConfig,
    ) -> Result<(), Refusal> {
        if kind == ControllerKind::Discovery {
            let part = config.max_discovery.div_ceil(DISCOVERY_PART);
            return match () {
                () if self.discovery.total >= config.max_discovery => {
                    Err(Refusal::TooManyDiscovery)
                }
                () if self.discovery.count(address) >= part => Err(Refusal::TooManyOfAddress),
                () => Ok(()),
            };
        }
        let all = config.max_connections.saturating_sub(self.queues.total);
        match self.left(address, config)? {
            left if left >= FIRST => Ok(()),
            _ if all < FIRST => Err(Refusal::TooManyConnections),
            _ => Err(Refusal::TooManyOfAddress),
        }
    }

    /// Checks whether a controller, whose host has not said how many queues it wants, may have one
    /// more.
    pub(super) fn check_queue(
        &self,
        controller: &Controller,
        config: &ServiceConfig,
    ) -> Result<(), Refusal> {
        let queues = u32::try_from(controller.queues.len()).unwrap_or(u32::MAX);
        if controller.features.queues_asked || queues.saturating_add(1) < controller.places {
            return Ok(());
        }
        self.left(controller.address, config).map(drop)
    }

    /// Returns the most I/O queues that a controller may be granted.
    pub(super) fn queues_for(&self, controller: &Controller, config: &ServiceConfig) -> u16 {
        let left = self.left(controller.address, config).unwrap_or(0);
        let queues = controller.places.saturating_sub(1).saturating_add(left);
        u16::try_from(queues).unwrap_or(u16::MAX).min(config.max_queues)
    }
}
