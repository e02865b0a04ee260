//! The poller's thread, which runs [`qtcp::poller`] on the daemon's connections beside the reactors.

use std::collections::HashMap;

use arbitration::{Class, PerClass};
use fabric::controller::{ConnectionId, ListenerId};
use qtcp::Nanos;
use qtcp::link::{ClassGoal, Standing};
use qtcp::poller::{self, Direction, LinkSettings, Links, Settings, payload};
use sluice_config::{Goal, LinkConfig, Network};

use super::connection::shown;
use super::notifications::Ports;
use super::path::NewConnection;
use crate::serve::engine::ConnectionNetwork;

/// All connections that are paced, or would be if the stage were on.
#[derive(Debug, Default)]
pub(super) struct Poller {
    connections: poller::Poller<NewConnection>,
    /// The ports of RDMA devices that connections use.
    ports: Ports,
    version: u64,
}

impl Poller {
    /// Takes settings that have changed.
    pub(super) fn configure(
        &mut self,
        version: u64,
        config: &Network,
        listeners: &HashMap<u32, String>,
    ) {
        if version == self.version {
            return;
        }
        self.version = version;
        self.connections.configure(&settings(config), |links, connection| {
            link_of(links, listeners, connection.listener)
        });
    }

    /// Adds a new connection.
    pub(super) fn add(
        &mut self,
        now: Nanos,
        mut connection: NewConnection,
        listeners: &HashMap<u32, String>,
    ) {
        connection.path.begin(&mut self.ports);
        let link = link_of(self.links(), listeners, connection.listener);
        self.connections.add(now, connection, link);
    }

    /// Removes a connection that has ended.
    pub(super) fn remove(&mut self, id: ConnectionId) {
        self.connections.remove(id);
    }

    pub(super) fn links(&self) -> &Links {
        self.connections.links()
    }

    /// Returns whether there is nothing to look at: the stage is off, or there is no connection.
    pub(super) fn is_idle(&self) -> bool {
        self.connections.is_idle()
    }

    /// Looks at the connections whose time has come. Returns the time at which the next one is due.
    pub(super) fn poll(&mut self, now: Nanos) -> Option<Nanos> {
        self.connections.poll(now)
    }

    /// Returns a connection's rates and limits; `None` while the stage is off.
    pub(super) fn connection(&self, id: ConnectionId) -> Option<ConnectionNetwork> {
        let connection = self.connections.connection(id)?;
        Some(shown(connection, self.links()))
    }

    /// Sums up the connections that move data of a class on a link: their number, their rates added
    /// up, and the means of their alpha and Q.
    pub(super) fn class_standing(
        &self,
        link: usize,
        class: Class,
        direction: Direction,
    ) -> (u32, Standing) {
        self.connections.class_standing(link, class, direction)
    }
}

/// Finds the link that a listener's connections share.
fn link_of(links: &Links, listeners: &HashMap<u32, String>, listener: ListenerId) -> usize {
    links.find(listeners.get(&listener.0).map(String::as_str))
}

/// Makes the poller's settings.
fn settings(config: &Network) -> Settings {
    let links = config.all_links().map(|link| LinkSettings {
        name: link.name.clone(),
        capacity: link.capacity,
        goals: goals(link),
    });
    Settings { enabled: config.enabled, writes: config.writes, links: links.collect() }
}

/// Returns the configured goals of classes, in payload.
fn goals(link: &LinkConfig) -> PerClass<ClassGoal> {
    link.goals.map(|goal| match goal {
        Goal::Share(share) => ClassGoal::Share(f64::from(share)),
        Goal::Rate(bits) => ClassGoal::Rate(payload(bits)),
        Goal::Latency(time) => ClassGoal::Latency(time),
        Goal::Free => ClassGoal::Free,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::time::Duration;

    use qtcp::pacing::Pacing;

    use super::super::path::Path;
    use super::super::socket::SocketPath;
    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (here, listener.accept().unwrap().0)
    }

    fn paced(socket: &TcpStream, id: u64, pacing: &Arc<Pacing>) -> NewConnection {
        NewConnection {
            id: ConnectionId(id),
            listener: ListenerId(0),
            path: Path::Socket(Box::new(SocketPath::new(socket.try_clone().unwrap().into()))),
            pacing: Arc::clone(pacing),
        }
    }

    /// Adds a connection that moves nothing.
    fn add_quiet(poller: &mut Poller, now: u64, socket: &TcpStream, id: u64) {
        poller.add(Nanos(now), paced(socket, id, &Arc::default()), &HashMap::new());
    }

    fn poller(enabled: bool) -> Poller {
        let mut poller = Poller::default();
        poller.configure(1, &Network { enabled, ..Network::default() }, &HashMap::new());
        poller
    }

    /// Counts the rounds of looks from one time to another.
    fn rounds(poller: &mut Poller, mut now: Nanos, end: Nanos) -> u32 {
        let mut rounds = 0;
        while now < end {
            let next = poller.poll(now).unwrap();
            now = Nanos(next.0.max(now.0 + 50_000));
            rounds += 1;
        }
        rounds
    }

    #[test]
    fn e1_connections_that_rest_are_looked_at_together() {
        let mut poller = poller(true);
        let socket = pair().0;
        for id in 0..200 {
            add_quiet(&mut poller, id * 97_000, &socket, id);
        }
        rounds(&mut poller, Nanos(0), Nanos(2_000_000_000));
        let rounds = rounds(&mut poller, Nanos(2_000_000_000), Nanos(3_000_000_000));
        assert!(rounds <= 51, "the thread wakes up {rounds} times in a second");
    }

    #[test]
    fn what_comes_and_goes_while_the_stage_is_off_leaves_nothing_behind() {
        let mut poller = poller(false);
        let socket = pair().0;
        for round in 0..1000 {
            (0..4).for_each(|id| add_quiet(&mut poller, round, &socket, id));
            (0..4).for_each(|id| poller.remove(ConnectionId(id)));
        }
        assert_eq!(poller.connections.held(), (0, 4));
        add_quiet(&mut poller, 0, &socket, 0);
        poller.configure(2, &Network::default(), &HashMap::new());
        assert!(poller.poll(Nanos(5)).is_some(), "on again, it is looked at");
    }

    #[test]
    fn e1_a_connection_that_has_rested_has_its_rate_at_once() {
        let (mut here, mut there) = pair();
        let (id, pacing) = (ConnectionId(0), Arc::default());
        let mut poller = poller(true);
        poller.add(Nanos(0), paced(&here, id.0, &pacing), &HashMap::new());
        rounds(&mut poller, Nanos(0), Nanos(10_000_000_000));
        let mut now = Nanos(10_000_000_000);
        for look in 1..=3 {
            here.write_all(&[0; 100_000]).unwrap();
            there.read_exact(&mut [0; 100_000]).unwrap();
            pacing.out.high.publish(look * 100_000, 0);
            now = now + Duration::from_millis(20);
            poller.poll(now).unwrap();
        }
        let rate = poller.connection(id).unwrap().out.rate;
        assert!(rate > 8.0 * 4e6, "{rate} bit/s of 40 Mbit/s");
    }
}
