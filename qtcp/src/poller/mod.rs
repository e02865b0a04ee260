//! The poller: what looks at every connection about once in a round trip, and limits the connection's
//! rates of sending and of R2T. The daemon runs it in a thread beside the reactors, on sockets and
//! queue pairs; a simulation runs it on connections of its own.
//!
//! - [`WatchedConnection`]: a connection; [`LookObservations`]: the observations of a look at it; [`AllowedTraffic`]: its
//!   limits.
//! - [`Links`]: the links, and the goals of their classes.
//! - [`SocketPath`]: the connection's way where it is a TCP socket; [`QueuePairPath`]: where it is a
//!   queue pair.

mod connection;
mod links;
mod look;
mod queue_pair;
mod socket;

use core::time::Duration;
use std::collections::HashMap;

use slab::Slab;
use units::{Calendar, Class, nanos};

use self::connection::RESTING;
use crate::Nanos;
use crate::link::Standing;

pub use connection::PacedConnection;
pub use links::{ConfiguredLink, LinkSettings, Links, payload};
pub use look::{AllowedTraffic, Both, Direction, LookObservations, WatchedConnection};
pub use queue_pair::{QueuePairMeters, QueuePairPath, QueuePairTraffic};
pub use socket::{Socket, SocketPath};

/// The CPU time of one look.
const LOOK_COST: Duration = Duration::from_nanos(1500);
/// The part of a core, as its inverse, that all looks together may take. With more connections the
/// looks at each become rarer, down to one in [`RAREST`].
const CORE_PART: u32 = 20;
/// The longest time between two looks at a connection that moves data. With more than 1,600 of them, all looks take
/// more than their part of a core.
const RAREST: Duration = Duration::from_millis(50);

/// The settings of the stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Whether the stage acts.
    pub enabled: bool,
    /// Whether hosts' data is paced, by R2T.
    pub writes: bool,
    /// The links, the default one first.
    pub links: Vec<LinkSettings>,
}

/// All connections that are paced, or would be if the stage were on.
#[derive(Debug)]
pub struct Poller<C: WatchedConnection> {
    links: Links,
    enabled: bool,
    connections: Slab<PacedConnection<C>>,
    /// The index of each connection in `connections`.
    places: HashMap<C::Id, usize>,
    /// The next looks: the connection's index and its generation.
    due: Calendar<(usize, u32)>,
    generation: u32,
    /// Connections that move data.
    active: u32,
}

/// The shortest time for which the poller rests before it looks again.
pub const SHORTEST_REST: Duration = Duration::from_micros(50);

impl<C: WatchedConnection> Default for Poller<C> {
    fn default() -> Self {
        Self {
            links: Links::default(),
            enabled: false,
            connections: Slab::new(),
            places: HashMap::new(),
            due: Calendar::new(),
            generation: 0,
            active: 0,
        }
    }
}

impl<C: WatchedConnection> Poller<C> {
    /// Takes new settings; `link_of` finds each connection's link among them.
    pub fn configure(&mut self, settings: &Settings, link_of: impl Fn(&Links, &C) -> usize) {
        let begun = settings.enabled && !self.enabled;
        self.enabled = settings.enabled;
        let links = &mut self.links;
        for (_, connection) in &mut self.connections {
            connection.leave(links);
            if !settings.enabled {
                connection.lift_limits();
            }
        }
        links.configure(&settings.links, settings.writes);
        for (_, connection) in &mut self.connections {
            connection.link = link_of(links, &connection.of);
        }
        if !self.enabled {
            self.due = Calendar::new();
        } else if begun {
            for (index, connection) in &self.connections {
                self.due.insert(Nanos::ZERO, (index, connection.generation));
            }
        }
    }

    /// Returns the links.
    #[must_use]
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Adds a new connection, on the link of this index.
    pub fn add(&mut self, now: Nanos, connection: C, link: usize) {
        self.generation = self.generation.wrapping_add(1);
        let id = connection.id();
        let mut connection = PacedConnection::new(now, connection, self.generation, link);
        if self.enabled {
            connection.expect_traffic(now, &self.links);
        }
        let index = self.connections.insert(connection);
        if self.enabled {
            self.due.insert(now, (index, self.generation));
        }
        self.places.insert(id, index);
    }

    /// Removes a connection that has ended.
    pub fn remove(&mut self, id: C::Id) {
        let place = self.places.remove(&id);
        if let Some(mut connection) = place.and_then(|index| self.connections.try_remove(index)) {
            connection.leave(&mut self.links);
            self.active -= u32::from(connection.is_active);
        }
    }

    /// Returns whether there is nothing to look at: the stage is off, or there is no connection.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        !self.enabled || self.places.is_empty()
    }

    /// Looks at the connections whose time has come. Returns the time at which the next one is due.
    pub fn poll(&mut self, now: Nanos) -> Option<Nanos> {
        self.poll_with(now, |_| ())
    }

    /// Does the same, and shows each connection after the look at it.
    pub fn poll_with(
        &mut self,
        now: Nanos,
        mut looked: impl FnMut(&PacedConnection<C>),
    ) -> Option<Nanos> {
        while let Some((_, (index, generation))) = self.due.pop_due(now) {
            let place = self.connections.get_mut(index);
            let Some(connection) = place.filter(|one| one.generation == generation) else {
                continue;
            };
            let wait = connection.look(now, &mut self.links);
            looked(connection);
            let is_active = wait < RESTING;
            let was_active = std::mem::replace(&mut connection.is_active, is_active);
            self.active = self.active + u32::from(is_active) - u32::from(was_active);
            let at = if is_active {
                now + wait.max((LOOK_COST * CORE_PART * self.active).min(RAREST))
            } else {
                shared_wakeup(now + wait)
            };
            self.due.insert(at, (index, generation));
        }
        self.due.next_time()
    }

    /// Returns a connection; `None` while the stage is off.
    #[must_use]
    pub fn connection(&self, id: C::Id) -> Option<&PacedConnection<C>> {
        let connection = self.connections.get(*self.places.get(&id)?)?;
        self.enabled.then_some(connection)
    }

    /// Sums up the connections that move data of a class on a link: their number, their rates added
    /// up, and the means of their alpha and Q.
    #[must_use]
    pub fn class_standing(
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

    /// Counts the looks that are planned, and the connections that there is memory for.
    #[must_use]
    pub fn held(&self) -> (usize, usize) {
        (self.due.len(), self.connections.capacity())
    }
}

/// Rounds the time of a look up, so that one wake-up serves all connections that rest.
fn shared_wakeup(at: Nanos) -> Nanos {
    Nanos(at.0.checked_next_multiple_of(nanos(RESTING)).unwrap_or(at.0))
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;
    use std::rc::Rc;

    use units::PerClass;

    use super::*;
    use crate::Observation;
    use crate::link::ClassGoal;
    use crate::pacing::Pacing;

    /// A connection that moves a few kilobytes each millisecond, and counts the looks at it.
    #[derive(Debug)]
    struct Steady {
        id: u32,
        pacing: Pacing,
        seen: Nanos,
        looks: Rc<Cell<u32>>,
    }

    impl WatchedConnection for Steady {
        type Id = u32;

        fn id(&self) -> u32 {
            self.id
        }

        fn pacing(&self) -> &Pacing {
            &self.pacing
        }

        fn look(
            &mut self,
            now: Nanos,
            _: &Both<crate::completions::LinkLoad>,
        ) -> Option<LookObservations> {
            self.looks.set(self.looks.get() + 1);
            let interval = now.since(std::mem::replace(&mut self.seen, now));
            self.pacing.out.low.publish(now.0, 4096);
            let rtt = Duration::from_micros(100);
            let out = Observation { interval, delivered: 3, bytes: 4096, rtt, ..Observation::SEEN };
            let into = Observation { delivered: 0, bytes: 0, ..out };
            Some(LookObservations { out, into, rtt, idle: false, asked: false, local: false })
        }

        fn allow(&mut self, _: &AllowedTraffic<'_>) {}

        fn rest(&mut self, _: &Both<u64>) {}

        fn lift(&mut self) {}
    }

    /// Looks at all connections take a twentieth of a core, however many there are, up to 1,600. With few of them each is
    /// looked at each 5 ms.
    #[test]
    fn looks_take_part_of_core_alone() {
        for connections in [1, 100, 1000, 1600] {
            let mut poller = Poller::default();
            let looks = Rc::new(Cell::new(0));
            let name = "default".to_owned();
            let goals = PerClass::from_fn(|_| ClassGoal::Share(1.0));
            let links = vec![LinkSettings { name, capacity: None, goals }];
            poller.configure(&Settings { enabled: true, writes: true, links }, |_, _| 0);
            for id in 0..connections {
                let (pacing, looks) = (Pacing::default(), Rc::clone(&looks));
                pacing.out.low.publish(1, 4096);
                poller.add(Nanos(1), Steady { id, pacing, seen: Nanos(1), looks }, 0);
            }
            let (mut now, second) = (Nanos(1), Nanos(1_000_000_000));
            let mut begun = 0;
            while now < second.after(second.0) {
                now = poller.poll(now).unwrap();
                if now < second {
                    begun = looks.get();
                }
            }
            let cost = LOOK_COST * (looks.get() - begun);
            let most = Duration::from_secs(1) / CORE_PART;
            assert!(cost <= most + most / 10, "{connections}: {cost:?} of a second");
            // Each 50 ms, or each 5 ms.
            let least = connections * if connections > 100 { 19 } else { 190 };
            assert!(looks.get() - begun >= least, "{connections}: {} looks", looks.get() - begun);
            for id in 0..connections {
                poller.remove(id);
            }
            assert_eq!(poller.active, 0);
        }
    }
}
