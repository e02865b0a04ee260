//! The poller, a thread beside the reactors. It looks at every connection about once in a round
//! trip, and limits the connection's rates of sending and of R2T.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use arbitration::Class;
use fabric::controller::{ConnectionId, ListenerId};
use qtcp::Nanos;
use qtcp::link::Standing;
use slab::Slab;
use units::nanos;

use super::connection::{LONGEST, PacedConnection, RESTING};
use super::links::{Direction, Links};
use super::notifications::Ports;
use super::path::NewConnection;
use crate::config::Network;
use crate::engine::ConnectionNetwork;

/// The CPU time of one look.
const LOOK_COST: Duration = Duration::from_nanos(1500);
/// The part of a core, as its inverse, that all looks together may take. With more connections the
/// looks become rarer, down to one in the longest interval for each connection.
const CORE_PART: u32 = 20;

/// All connections that are paced, or would be if the stage were on.
#[derive(Debug, Default)]
pub(super) struct Poller {
    pub(super) links: Links,
    /// The ports of RDMA devices that connections use.
    ports: Ports,
    version: u64,
    enabled: bool,
    connections: Slab<PacedConnection>,
    /// The index of each connection in `connections`.
    places: HashMap<ConnectionId, usize>,
    /// The next looks: the time, the connection's index and its generation.
    due: BinaryHeap<Reverse<(Nanos, usize, u32)>>,
    generation: u32,
    /// Connections that were looked at in the last round of the longest interval.
    busy: u32,
    busy_since: Nanos,
    busy_next: u32,
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
        let begun = config.enabled && !self.enabled;
        self.enabled = config.enabled;
        let links = &mut self.links;
        for (_, connection) in &mut self.connections {
            connection.leave(links);
            if !config.enabled {
                connection.lift_limits();
            }
        }
        links.configure(config);
        for (_, connection) in &mut self.connections {
            connection.link = link_of(links, listeners, connection.of.listener);
        }
        if !self.enabled {
            self.due.clear();
        } else if begun {
            let all = self.connections.iter();
            self.due.extend(all.map(|(index, one)| Reverse((Nanos::ZERO, index, one.generation))));
        }
    }

    /// Adds a new connection.
    pub(super) fn add(
        &mut self,
        now: Nanos,
        mut connection: NewConnection,
        listeners: &HashMap<u32, String>,
    ) {
        connection.path.begin(&mut self.ports);
        self.generation = self.generation.wrapping_add(1);
        let id = connection.id;
        let link = link_of(&self.links, listeners, connection.listener);
        let mut connection = PacedConnection::new(now, connection, self.generation, link);
        if self.enabled {
            connection.expect_traffic();
        }
        let index = self.connections.insert(connection);
        if self.enabled {
            self.due.push(Reverse((now, index, self.generation)));
        }
        self.places.insert(id, index);
    }

    /// Removes a connection that has ended.
    pub(super) fn remove(&mut self, id: ConnectionId) {
        let place = self.places.remove(&id);
        if let Some(mut connection) = place.and_then(|index| self.connections.try_remove(index)) {
            connection.leave(&mut self.links);
        }
    }

    /// Says whether there is nothing to look at: the stage is off, or there is no connection.
    pub(super) fn is_idle(&self) -> bool {
        !self.enabled || self.places.is_empty()
    }

    /// Looks at the connections whose time has come. Returns the time at which the next one is due.
    pub(super) fn poll(&mut self, now: Nanos) -> Option<Nanos> {
        while let Some(&Reverse((at, index, generation))) = self.due.peek() {
            if at > now {
                return Some(at);
            }
            self.due.pop();
            let place = self.connections.get_mut(index);
            let Some(connection) = place.filter(|one| one.generation == generation) else {
                continue;
            };
            let wait = connection.look(now, &mut self.links);
            let at = if wait >= RESTING {
                shared_wakeup(now + wait)
            } else {
                self.busy_next += 1;
                now + wait.max(LOOK_COST * CORE_PART * self.busy).min(wait.max(LONGEST))
            };
            self.due.push(Reverse((at, index, generation)));
            if now.since(self.busy_since) > LONGEST {
                // The number of looks in one longest interval is at most one for each connection.
                let known = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
                self.busy = self.busy_next.min(known);
                (self.busy_since, self.busy_next) = (now, 0);
            }
        }
        None
    }

    /// Returns a connection's rates and limits; `None` while the stage is off.
    pub(super) fn connection(&self, id: ConnectionId) -> Option<ConnectionNetwork> {
        let connection = self.connections.get(*self.places.get(&id)?)?;
        self.enabled.then(|| connection.state(&self.links))
    }

    /// Sums up the connections that move data of a class on a link: their number, their rates added
    /// up, and the means of their alpha and Q.
    pub(super) fn class_standing(
        &self,
        link: usize,
        class: Class,
        direction: Direction,
    ) -> (u32, Standing) {
        let mut sum = Standing { quality: 0.0, ..Standing::default() };
        let (mut flows, mut limited) = (0_u32, true);
        let here = self.connections.iter().filter(|(_, connection)| connection.link == link);
        for flow in here.map(|(_, connection)| &connection.flows(direction)[class]) {
            if flow.id.is_none() {
                continue;
            }
            flows += 1;
            let standing = flow.standing;
            sum.rate = sum.rate + standing.rate;
            sum.alpha += standing.alpha;
            sum.quality += standing.quality;
            match standing.limit {
                Some(limit) => sum.limit = Some(sum.limit.unwrap_or_default() + limit),
                None => limited = false,
            }
        }
        let count = f64::from(flows.max(1));
        (sum.alpha, sum.quality) = (sum.alpha / count, sum.quality / count);
        if flows == 0 {
            sum.quality = 1.0;
        }
        sum.limit = sum.limit.filter(|_| limited);
        (flows, sum)
    }
}

/// Rounds the time of a look up, so that one wake-up serves all connections that rest.
fn shared_wakeup(at: Nanos) -> Nanos {
    Nanos(at.0.checked_next_multiple_of(nanos(RESTING)).unwrap_or(at.0))
}

/// Finds the link that a listener's connections share.
fn link_of(links: &Links, listeners: &HashMap<u32, String>, listener: ListenerId) -> usize {
    links.find(listeners.get(&listener.0).map(String::as_str))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

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
            path: Path::Socket(SocketPath::new(OwnedFd::from(socket.try_clone().unwrap()))),
            pacing: Arc::clone(pacing),
        }
    }

    /// Makes a connection that moves nothing.
    fn quiet(socket: &TcpStream, id: u64) -> NewConnection {
        paced(socket, id, &Arc::default())
    }

    fn poller(enabled: bool) -> Poller {
        let mut poller = Poller::default();
        let config = Network { enabled, ..Network::default() };
        poller.configure(1, &config, &HashMap::new());
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
            poller.add(Nanos(id * 97_000), quiet(&socket, id), &HashMap::new());
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
            for id in 0..4 {
                poller.add(Nanos(round), quiet(&socket, id), &HashMap::new());
            }
            (0..4).for_each(|id| poller.remove(ConnectionId(id)));
        }
        assert_eq!((poller.due.len(), poller.connections.capacity()), (0, 4));
        poller.add(Nanos(0), quiet(&socket, 0), &HashMap::new());
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
