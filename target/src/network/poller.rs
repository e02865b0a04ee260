//! The poller: looks at every connection about once for each round trip, and says how fast it may
//! send and be asked for data. One thread for all of them, beside the reactors.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use arbitration::Class;
use fabric::controller::{ConnectionId, ListenerId};
use qtcp::Nanos;
use qtcp::link::Standing;

use super::links::{Direction, Links};
use super::socket::PacedSocket;
use super::tracked::{LONGEST, RESTING, Tracked};
use crate::config::Network;
use crate::engine::ConnectionNetwork;

/// What one look costs, and the part of a core that all looks together may take while some are
/// oftener than they must be.
const LOOK_COST: Duration = Duration::from_nanos(1500);
const CORE_PART: u32 = 20;

/// All connections that are looked at.
#[derive(Debug, Default)]
pub(super) struct Poller {
    pub(super) links: Links,
    version: u64,
    enabled: bool,
    tracked: Vec<Option<Tracked>>,
    free: Vec<u32>,
    places: HashMap<ConnectionId, u32>,
    due: BinaryHeap<Reverse<(Nanos, u32, u32)>>,
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
        for tracked in self.tracked.iter_mut().flatten() {
            tracked.leave(links);
            if !config.enabled {
                tracked.let_go();
            }
        }
        links.configure(config);
        for tracked in self.tracked.iter_mut().flatten() {
            tracked.link = link_of(links, listeners, tracked.of.listener);
        }
        if !self.enabled {
            self.due.clear();
        } else if begun {
            let all = (0_u32..).zip(&self.tracked);
            let all = all.filter_map(|(index, one)| Some((index, one.as_ref()?.generation)));
            self.due.extend(all.map(|(index, generation)| Reverse((Nanos(0), index, generation))));
        }
    }

    /// A connection has come.
    pub(super) fn add(
        &mut self,
        now: Nanos,
        socket: PacedSocket,
        listeners: &HashMap<u32, String>,
    ) {
        self.generation = self.generation.wrapping_add(1);
        let id = socket.id;
        let link = link_of(&self.links, listeners, socket.listener);
        let tracked = Tracked::new(now, socket, self.generation, link);
        let index = self.free.pop().unwrap_or_else(|| {
            self.tracked.push(None);
            u32::try_from(self.tracked.len() - 1).unwrap_or(u32::MAX)
        });
        if self.enabled {
            self.due.push(Reverse((now, index, tracked.generation)));
        }
        if let Some(place) = self.tracked.get_mut(index as usize) {
            *place = Some(tracked);
        }
        self.places.insert(id, index);
    }

    /// A connection has gone.
    pub(super) fn remove(&mut self, id: ConnectionId) {
        let Some(index) = self.places.remove(&id) else { return };
        let Some(mut tracked) = self.tracked.get_mut(index as usize).and_then(Option::take) else {
            return;
        };
        tracked.leave(&mut self.links);
        self.free.push(index);
    }

    /// Whether there is anything to look at.
    pub(super) fn is_idle(&self) -> bool {
        !self.enabled || self.places.is_empty()
    }

    /// Looks at the connections whose time has come; when the next is due.
    pub(super) fn poll(&mut self, now: Nanos) -> Option<Nanos> {
        while let Some(&Reverse((at, index, generation))) = self.due.peek() {
            if at > now {
                return Some(at);
            }
            self.due.pop();
            let place = self.tracked.get_mut(index as usize).and_then(Option::as_mut);
            let Some(tracked) = place.filter(|tracked| tracked.generation == generation) else {
                continue;
            };
            let wait = tracked.look(now, &mut self.links);
            let at = if wait >= RESTING {
                together(now + wait)
            } else {
                self.busy_next += 1;
                now + wait.max(LOOK_COST * CORE_PART * self.busy).min(wait.max(LONGEST))
            };
            self.due.push(Reverse((at, index, generation)));
            if now.since(self.busy_since) > LONGEST {
                // Looks in the time of one longest interval, as if all were that rare.
                let known = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
                self.busy = self.busy_next.min(known);
                (self.busy_since, self.busy_next) = (now, 0);
            }
        }
        None
    }

    /// What each connection gets: its identifier and everything else of its state.
    pub(super) fn connection(&self, id: ConnectionId) -> Option<ConnectionNetwork> {
        let index = *self.places.get(&id)?;
        let tracked = self.tracked.get(index as usize)?.as_ref()?;
        self.enabled.then(|| tracked.state(&self.links))
    }

    /// The smoothed rate, alpha and Q of a class on a link, over its connections that move
    /// something.
    pub(super) fn class_standing(
        &self,
        link: usize,
        class: Class,
        way: Direction,
    ) -> (u32, Standing) {
        let mut sum = Standing { quality: 0.0, ..Standing::default() };
        let (mut flows, mut limited) = (0_u32, true);
        let here = self.tracked.iter().flatten().filter(|tracked| tracked.link == link);
        for half in here.map(|tracked| &tracked.halves(way)[class]) {
            if half.flow.is_none() {
                continue;
            }
            flows += 1;
            let standing = half.standing;
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

/// The time at which all connections that rest are looked at: one wake-up for all of them.
fn together(at: Nanos) -> Nanos {
    let step = u64::try_from(RESTING.as_nanos()).unwrap_or(u64::MAX);
    Nanos(at.0.checked_next_multiple_of(step).unwrap_or(at.0))
}

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

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (here, listener.accept().unwrap().0)
    }

    fn paced(socket: &TcpStream, id: u64, pacing: &Arc<Pacing>) -> PacedSocket {
        PacedSocket {
            id: ConnectionId(id),
            listener: ListenerId(0),
            socket: OwnedFd::from(socket.try_clone().unwrap()),
            pacing: Arc::clone(pacing),
        }
    }

    /// A connection that moves nothing.
    fn quiet(socket: &TcpStream, id: u64) -> PacedSocket {
        paced(socket, id, &Arc::default())
    }

    fn poller(enabled: bool) -> Poller {
        let mut poller = Poller::default();
        let config = Network { enabled, ..Network::default() };
        poller.configure(1, &config, &HashMap::new());
        poller
    }

    /// Rounds of looks from one time to another.
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
        assert_eq!((poller.due.len(), poller.tracked.len()), (0, 4));
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
