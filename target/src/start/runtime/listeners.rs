//! The listeners: the first reactor accepts from the sockets of all of them, and the thread of RDMA
//! connections from those without one.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Mutex;

use arbitration::Class;
use fabric::controller::{ListenerId, ListenerSpec, SecureChannel, TransportType};
use nix::sys::socket::{Shutdown, shutdown};
use sluice_config::{Endpoint, Listener, Transport};

use crate::serve::engine::{EngineError, ListenerState};
use crate::serve::reactor::mailbox::Message;
use crate::serve::shared::Shared;
use crate::serve::tls;
use crate::serve::upkeep;
use crate::sys::socket;
use crate::sys::socket::InUse;
use crate::sys::sync::lock;

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
    fn find(&mut self, endpoint: Endpoint) -> Result<&mut Listening, EngineError> {
        let found = self.all.iter_mut().find(|known| known.listener.endpoint() == endpoint);
        found.ok_or_else(|| EngineError::NotFound(format!("there is no listener {endpoint}")))
    }
}

impl Listeners {
    /// Starts listening; an RDMA listener whose device is not there begins once it is.
    pub(super) fn add_at_start(
        &self,
        shared: &Shared,
        listener: &Listener,
    ) -> Result<(), EngineError> {
        self.add_with(shared, listener, InUse::Retry, |id, error| {
            match (listener.transport, error) {
                (Transport::Rdma, EngineError::System(why)) => {
                    let endpoint = listener.endpoint();
                    tracing::error!(listener = %endpoint, why, "the RDMA listener is closed");
                    shared.rdma.listen_later(id, endpoint, why);
                    Ok(None)
                }
                (_, error) => Err(error),
            }
        })
    }

    /// Starts listening while the daemon runs: an address that is in use is refused at once.
    pub(super) fn add(&self, shared: &Shared, listener: &Listener) -> Result<(), EngineError> {
        self.add_with(shared, listener, InUse::Fail, |_, error| Err(error))
    }

    fn add_with(
        &self,
        shared: &Shared,
        listener: &Listener,
        in_use: InUse,
        closed: impl Fn(ListenerId, EngineError) -> Result<Sockets, EngineError>,
    ) -> Result<(), EngineError> {
        let mut table = lock(&self.0);
        if table.all.iter().any(|other| other.listener.endpoint() == listener.endpoint()) {
            let endpoint = listener.endpoint();
            return Err(EngineError::Exists(format!("there is a listener on {endpoint} already")));
        }
        if listener.tls != SecureChannel::Off
            && let Some(why) = tls::refusal()
        {
            let endpoint = listener.endpoint();
            return Err(EngineError::System(format!("listener {endpoint} with TLS: {why}")));
        }
        table.given += 1;
        let id = ListenerId(table.given);
        let socket = open(shared, id, listener, in_use).or_else(|error| closed(id, error))?;
        let network = &shared.network;
        let now = shared.clock.now();
        shared.qos.set_listener(now, id, listener.class);
        network.set_listener(id, listener.link.as_deref());
        shared.tls.set_listener(id, Some(listener.tls));
        let spec = spec(id, listener);
        upkeep::look_at_addresses(shared);
        if let Err(error) = shared.with_service(|service| service.add_listener(now, spec)) {
            shared.rdma.unlisten(id);
            return Err(error.into());
        }
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
    pub(super) fn remove(&self, shared: &Shared, endpoint: Endpoint) -> Result<(), EngineError> {
        let mut table = lock(&self.0);
        let position = table.all.iter().position(|other| other.listener.endpoint() == endpoint);
        let Some(Listening { id, socket, .. }) = position.map(|at| table.all.remove(at)) else {
            return Err(EngineError::NotFound(format!("there is no listener {endpoint}")));
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
        shared.tls.set_listener(id, None);
        shared.with_service(|service| service.remove_listener(now, id))?;
        Ok(())
    }

    /// Sets the class of a listener's connections.
    pub(super) fn set_class(
        &self,
        shared: &Shared,
        endpoint: Endpoint,
        class: Option<Class>,
    ) -> Result<(), EngineError> {
        let mut table = lock(&self.0);
        let listening = table.find(endpoint)?;
        listening.listener.class = class;
        shared.qos.set_listener(shared.clock.now(), listening.id, class);
        shared.refresh();
        Ok(())
    }

    /// Sets the link that a listener's connections share.
    pub(super) fn set_link(
        &self,
        shared: &Shared,
        endpoint: Endpoint,
        link: Option<&str>,
    ) -> Result<(), EngineError> {
        let mut table = lock(&self.0);
        let listening = table.find(endpoint)?;
        listening.listener.link = link.map(str::to_owned);
        shared.network.set_listener(listening.id, link);
        Ok(())
    }

    /// Returns a listener's identifier.
    pub(super) fn id(&self, endpoint: Endpoint) -> Option<ListenerId> {
        lock(&self.0).find(endpoint).ok().map(|listening| listening.id)
    }

    /// Returns the present listeners.
    pub(super) fn list(&self, shared: &Shared) -> Vec<ListenerState> {
        let table = lock(&self.0);
        let state = |listening: &Listening| ListenerState {
            listener: listening.listener.clone(),
            closed: match listening.listener.transport {
                Transport::Tcp => None,
                Transport::Rdma => shared.rdma.why_closed(listening.id),
            },
        };
        table.all.iter().map(state).collect()
    }
}

/// The socket that a reactor accepts from, and another handle to it.
type Sockets = Option<(OwnedFd, OwnedFd)>;

/// Opens a listener's address: with a socket, or over RDMA without one.
fn open(
    shared: &Shared,
    id: ListenerId,
    listener: &Listener,
    in_use: InUse,
) -> Result<Sockets, EngineError> {
    match listener.transport {
        Transport::Tcp => {
            let network = &shared.network;
            let address = socket::resolve(listener.address).map_err(EngineError::System)?;
            let socket = socket::listen_on(address, in_use, |socket| network.prepare(socket))
                .map_err(|error| EngineError::System(socket::refusal(address, &error)))?;
            let ours = socket.try_clone().map_err(|e| EngineError::System(e.to_string()))?;
            Ok(Some((socket, ours)))
        }
        Transport::Rdma => {
            shared.rdma.listen(id, listener.endpoint()).map_err(EngineError::System)?;
            Ok(None)
        }
    }
}

/// Returns the entry of a listener in discovery.
fn spec(id: ListenerId, listener: &Listener) -> ListenerSpec {
    // The interface of an RDMA listener may come later, as its device may.
    let address = socket::resolve(listener.address).unwrap_or_else(|_| listener.address.socket(0));
    ListenerSpec {
        id,
        name: listener.endpoint().to_string(),
        transport: match listener.transport {
            Transport::Tcp => TransportType::Tcp,
            Transport::Rdma => TransportType::Rdma,
        },
        address,
        advertise: listener.advertise,
        discovery_only: listener.discovery_only,
        subsystems: listener.subsystems.clone(),
        secure_channel: listener.tls,
        require_authentication: listener.require_authentication,
    }
}
