//! The listeners: the first reactor accepts from the sockets of all of them, and the thread of RDMA
//! connections from those without one.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Mutex;

use arbitration::Class;
use fabric::controller::{AddressFamily, ListenerId, ListenerSpec, TransportType};
use nix::sys::socket::{Shutdown, shutdown};

use crate::config::{Listener, Transport};
use crate::engine::EngineError;
use crate::reactor::mailbox::Message;
use crate::shared::Shared;
use crate::socket;
use crate::sync::lock;

/// The present listeners.
#[derive(Debug, Default)]
pub(super) struct Listeners(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    all: Vec<Listening>,
    /// The number of identifiers that were given.
    given: u32,
}

#[derive(Debug)]
struct Listening {
    id: ListenerId,
    listener: Listener,
    /// The same socket that the reactor accepts from; RDMA has none.
    socket: Option<OwnedFd>,
}

impl Table {
    fn find(&mut self, address: SocketAddr) -> Result<&mut Listening, EngineError> {
        let found = self.all.iter_mut().find(|known| known.listener.address == address);
        found.ok_or_else(|| EngineError::NotFound(format!("there is no listener {address}")))
    }
}

impl Listeners {
    /// Starts listening.
    pub(super) fn add(&self, shared: &Shared, listener: &Listener) -> Result<(), EngineError> {
        let mut table = lock(&self.0);
        if table.all.iter().any(|other| other.listener.address == listener.address) {
            return Err(EngineError::Exists(format!(
                "there is a listener on {} already",
                listener.address
            )));
        }
        table.given += 1;
        let id = ListenerId(table.given);
        let socket = open(shared, id, listener)?;
        let network = &shared.network;
        let now = shared.clock.now();
        shared.qos.set_listener(now, id, listener.class);
        network.set_listener(id, listener.link.as_deref());
        let spec = spec(id, listener);
        shared.with_service(|service| service.add_listener(now, spec))?;
        let ours = match socket {
            None => None,
            Some((socket, ours)) => {
                if let Some(mailbox) = shared.mailbox(0) {
                    mailbox.post(Message::Listen { listener: id, socket });
                }
                Some(ours)
            }
        };
        table.all.push(Listening { id, listener: listener.clone(), socket: ours });
        Ok(())
    }

    /// Stops listening.
    pub(super) fn remove(&self, shared: &Shared, address: SocketAddr) -> Result<(), EngineError> {
        let mut table = lock(&self.0);
        let position = table.all.iter().position(|other| other.listener.address == address);
        let Some(Listening { id, socket, .. }) = position.map(|at| table.all.remove(at)) else {
            return Err(EngineError::NotFound(format!("there is no listener on {address}")));
        };
        match socket {
            None => shared.rdma.unlisten(id),
            Some(socket) => {
                // The shutdown frees the address for another listener at once, however late the
                // reactor closes its socket.
                let _ = shutdown(socket.as_raw_fd(), Shutdown::Both);
                if let Some(mailbox) = shared.mailbox(0) {
                    mailbox.post(Message::Unlisten(id));
                }
            }
        }
        let now = shared.clock.now();
        shared.qos.set_listener(now, id, None);
        shared.network.set_listener(id, None);
        shared.with_service(|service| service.remove_listener(now, id))?;
        Ok(())
    }

    /// Sets the class of a listener's connections.
    pub(super) fn set_class(
        &self,
        shared: &Shared,
        address: SocketAddr,
        class: Option<Class>,
    ) -> Result<(), EngineError> {
        let mut table = lock(&self.0);
        let listening = table.find(address)?;
        listening.listener.class = class;
        shared.qos.set_listener(shared.clock.now(), listening.id, class);
        shared.refresh();
        Ok(())
    }

    /// Sets the link that a listener's connections share.
    pub(super) fn set_link(
        &self,
        shared: &Shared,
        address: SocketAddr,
        link: Option<&str>,
    ) -> Result<(), EngineError> {
        let mut table = lock(&self.0);
        let listening = table.find(address)?;
        listening.listener.link = link.map(str::to_owned);
        shared.network.set_listener(listening.id, link);
        Ok(())
    }

    /// Returns a listener's identifier.
    pub(super) fn id(&self, address: SocketAddr) -> Option<ListenerId> {
        lock(&self.0).find(address).ok().map(|listening| listening.id)
    }

    /// Returns the present listeners.
    pub(super) fn list(&self) -> Vec<Listener> {
        lock(&self.0).all.iter().map(|listening| listening.listener.clone()).collect()
    }
}

/// The socket that a reactor accepts from, and another handle to it.
type Sockets = Option<(OwnedFd, OwnedFd)>;

/// Opens a listener's address: with a socket, or over RDMA without one.
fn open(shared: &Shared, id: ListenerId, listener: &Listener) -> Result<Sockets, EngineError> {
    match listener.transport {
        Transport::Tcp => {
            let network = &shared.network;
            let socket = socket::listen_on(listener.address, |socket| network.prepare(socket))
                .map_err(|error| EngineError::System(socket::refusal(listener.address, &error)))?;
            let ours = socket.try_clone().map_err(|e| EngineError::System(e.to_string()))?;
            Ok(Some((socket, ours)))
        }
        Transport::Rdma => {
            shared.rdma.listen(id, listener.address).map_err(EngineError::System)?;
            Ok(None)
        }
    }
}

/// Returns the entry of a listener in discovery.
fn spec(id: ListenerId, listener: &Listener) -> ListenerSpec {
    let address = listener.advertise.unwrap_or(listener.address);
    ListenerSpec {
        id,
        transport: match listener.transport {
            Transport::Tcp => TransportType::Tcp,
            Transport::Rdma => TransportType::Rdma,
        },
        traddr: address.ip().to_string(),
        family: if address.is_ipv4() { AddressFamily::Ipv4 } else { AddressFamily::Ipv6 },
        trsvcid: address.port().to_string(),
        discovery_only: listener.discovery_only,
        subsystems: listener.subsystems.clone(),
    }
}
