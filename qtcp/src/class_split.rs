//! The class split: a connection may carry several classes, each a flow on its link. The bytes that
//! the connection moved are divided among its classes, and the classes' limits are added up.

use core::time::Duration;

use units::{Class, PerClass};

use crate::link::{ClassFlowId, Link, Standing};
use crate::pacing::Traffic;
use crate::{Nanos, Observation, Rate};

/// The time without traffic after which a class leaves its link, and a connection rests. The poller
/// then looks only at the reports of the connection's reactor.
pub const REST: Duration = Duration::from_secs(1);

/// Counts of a class's packets in one direction of a link.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packets {
    /// Packets that were delivered.
    pub delivered: u64,
    /// Packets with an ECN mark, or lost, or late where nothing is marked.
    pub marked: u64,
}

/// One direction of a link, with its counts.
#[derive(Debug)]
pub struct LinkDirection {
    /// The link.
    pub link: Link,
    /// The packets of each class.
    pub packets: PerClass<Packets>,
    /// Whether connections are held to the link's limits; if not, packets are only counted.
    pub paced: bool,
}

impl LinkDirection {
    /// Makes a direction in which nothing was delivered, and that is paced.
    #[must_use]
    pub fn new(link: Link) -> Self {
        Self { link, packets: PerClass::default(), paced: true }
    }

    /// Returns the link; `None` where it is not paced.
    #[inline]
    pub fn paced(&mut self) -> Option<&mut Link> {
        self.paced.then_some(&mut self.link)
    }

    /// Counts the packets of a class that an observation tells of.
    #[inline]
    fn count(&mut self, class: Class, seen: &Observation) {
        let packets = &mut self.packets[class];
        packets.delivered += u64::from(seen.delivered);
        packets.marked += u64::from(seen.marked);
    }
}

/// One class of one connection in one direction.
#[derive(Debug, Default)]
pub struct ClassFlow {
    /// The flow on the link, while the class has data to move.
    pub id: Option<ClassFlowId>,
    /// The bytes that had moved at the last look.
    pub moved: u64,
    /// The class's part of the connection's bytes when any last moved, 0.0 to 1.0.
    part: f64,
    /// The time at which the class last had data to move.
    busy_at: Nanos,
    /// Throughput and limit of the flow.
    pub standing: Standing,
    /// The packets that were delivered.
    pub delivered: u64,
    /// The packets that were delivered with a mark.
    pub marked: u64,
}

impl ClassFlow {
    /// Removes the flow from its link.
    pub fn leave(&mut self, link: Option<&mut Link>) {
        if let (Some(id), Some(link)) = (self.id.take(), link) {
            link.remove(id);
        }
        self.standing = Standing::default();
    }
}

/// The split of one direction of a connection among its classes.
#[derive(Clone, Copy, Debug)]
pub struct ClassSplit<'a> {
    /// The observation of all classes together.
    pub all: &'a Observation,
    /// Whether the kernel and the network hold nothing back, so that a class has more to move only
    /// if some of it waits in the target.
    pub idle: bool,
    /// Whether the waiting data was requested from the host. Some of it is in transit, and the
    /// class has more to move only if clearly more is waiting: a host that writes a block at a time
    /// always owes one.
    pub asked: bool,
    /// Whether the host is on the target's own machine.
    pub local: bool,
}

/// The round trips of data that a host may owe, and has sent: one, and some room.
const UNDER_WAY: f64 = 1.25;

impl ClassSplit<'_> {
    /// Observes each class that the connection carries. Returns the limit of all classes together, if any is limited. A
    /// class that is not limited, or wants less than its limit, adds its present rate and some room: otherwise the
    /// others would use its unused part.
    pub fn observe(
        &self,
        now: Nanos,
        direction: &mut LinkDirection,
        traffic: &PerClass<Traffic>,
        flows: &mut PerClass<ClassFlow>,
    ) -> Option<Rate> {
        let moved =
            PerClass::from_fn(|class| traffic[class].read().0.saturating_sub(flows[class].moved));
        let all: u64 = moved.values().sum();
        let (mut together, mut limited) = (Rate::ZERO, false);
        for class in Class::ALL {
            let flow = &mut flows[class];
            let waiting = traffic[class].read().1;
            flow.moved += moved[class];
            if moved[class] > 0 || waiting > 0 {
                flow.busy_at = now;
            } else if flow.id.is_none() || now.since(flow.busy_at) > REST {
                flow.leave(direction.paced());
                continue;
            }
            if all > 0 {
                flow.part = part(moved[class], all);
            }
            let part = flow.part;
            let waits = if self.asked { self.is_kept(waiting, part, flow) } else { waiting > 0 };
            let idle = !waits && (self.idle || part <= 0.0);
            let seen = self.seen(part, idle);
            flow.delivered += u64::from(seen.delivered);
            flow.marked += u64::from(seen.marked);
            direction.count(class, &seen);
            let Some(link) = direction.paced() else { continue };
            let id = *flow.id.get_or_insert_with(|| match self.local {
                true => link.add_local(class),
                false => link.add(class),
            });
            flow.standing = link.observe(id, now, &seen);
            let room = self.room(flow.standing.rate);
            limited |= flow.standing.limit.is_some();
            together = together
                + match flow.standing.limit {
                    Some(limit) if !idle || limit < room => limit,
                    _ => room,
                };
        }
        limited.then_some(together)
    }

    /// Returns whether the host keeps some of the data that it owes, since it may not send all of
    /// it.
    fn is_kept(&self, owed: u64, part: f64, flow: &ClassFlow) -> bool {
        let lately = self.all.rate().unwrap_or(Rate::ZERO).times(part);
        let rate = flow.standing.rate.max(lately).bytes();
        #[expect(clippy::cast_precision_loss, reason = "a number of bytes in memory")]
        let owed = owed as f64;
        owed > UNDER_WAY * rate * self.all.rtt.as_secs_f64()
    }

    /// Computes the rate that a class may reach until the next look, from its present one: a
    /// quarter more, and ten packets in a round trip.
    fn room(&self, rate: Rate) -> Rate {
        const PACKETS: f64 = 10.0;
        rate.times(1.25) + Rate::over(PACKETS * f64::from(self.all.mss), self.all.rtt)
    }

    /// Computes a class's part of the observation; a part of a packet counts as one.
    fn seen(&self, part: f64, idle: bool) -> Observation {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of a number of 32 bits"
        )]
        let of = |count: u32| (f64::from(count) * part).ceil() as u32;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a part of the bytes of one interval"
        )]
        let bytes = (self.all.bytes as f64 * part) as u64;
        Observation {
            delivered: of(self.all.delivered),
            marked: of(self.all.marked),
            bytes,
            app_limited: idle,
            ..*self.all
        }
    }
}

/// Returns whether data of any class has moved since the last look, or waits.
#[must_use]
pub fn moves(traffic: &PerClass<Traffic>, flows: &PerClass<ClassFlow>) -> bool {
    traffic.iter().any(|(class, traffic)| traffic.read() != (flows[class].moved, 0))
}

/// Computes a class's part of the bytes that moved.
fn part(moved: u64, all: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let part = moved as f64 / all as f64;
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{ClassGoal, Rules};

    /// The observation of a connection over 5 ms, with a round trip in ms.
    fn seen(bytes: u64, rtt: u64) -> Observation {
        let (interval, rtt) = (Duration::from_millis(5), Duration::from_millis(rtt));
        let (delivered, marked, mss) = (40, 10, 1448);
        Observation { interval, delivered, marked, bytes, rtt, mss, app_limited: false }
    }

    const SPLIT: ClassSplit<'static> =
        ClassSplit { all: &Observation::SEEN, idle: true, asked: false, local: false };

    fn link(goals: [ClassGoal; 4], capacity: Option<Rate>) -> LinkDirection {
        let goals = PerClass::from_fn(|class| goals[class.number()]);
        LinkDirection::new(Link::new(goals, capacity, Rules::default()))
    }

    const EVEN: [ClassGoal; 4] = [ClassGoal::Share(1.0); 4];

    #[derive(Default)]
    struct Connection {
        traffic: PerClass<Traffic>,
        flows: PerClass<ClassFlow>,
        looks: u64,
    }

    impl Connection {
        /// Looks 5 ms later, after classes have moved so many bytes; so many more of each wait.
        fn look(
            &mut self,
            link: &mut LinkDirection,
            split: ClassSplit<'_>,
            classes: &[(Class, u64, u64)],
        ) -> Option<Rate> {
            self.looks += 1;
            for &(class, moved, waiting) in classes {
                self.traffic[class].publish(self.traffic[class].read().0 + moved, waiting);
            }
            let now = Nanos(self.looks * 5_000_000);
            split.observe(now, link, &self.traffic, &mut self.flows)
        }
    }

    /// Runs a connection of which High and Low move `high` and `low` bytes in each of 400 looks,
    /// beside one of Medium that moves as much. Returns the limits of both, and the first one's
    /// flows.
    fn together(high: u64, low: u64) -> (Option<Rate>, Option<Rate>, PerClass<ClassFlow>) {
        let [three, two, one] = [3.0, 2.0, 1.0].map(ClassGoal::Share);
        let mut link = link([ClassGoal::Free, three, two, one], None);
        let (mut mixed, mut other) = (Connection::default(), Connection::default());
        let mut limits = (None, None);
        let split = ClassSplit { all: &seen(high + low, 2), idle: false, ..SPLIT };
        for _ in 0..400 {
            limits.0 =
                mixed.look(&mut link, split, &[(Class::High, high, 0), (Class::Low, low, 0)]);
            limits.1 = other.look(&mut link, split, &[(Class::Medium, high + low, 0)]);
        }
        (limits.0, limits.1, mixed.flows)
    }

    #[test]
    fn e7_connection_limit_is_sum_of_class_limits() {
        let (limit, other, flows) = together(30_000, 30_000);
        let rates = (flows.high.standing.rate.bytes(), flows.low.standing.rate.bytes());
        assert!((rates.0 - 6e6).abs() < 1e5 && (rates.1 - 6e6).abs() < 1e5, "{rates:?}");
        // Of 24 MB/s Low's part is 4, Medium's 8; High has 6 of its 12.
        assert!(flows.high.standing.limit.is_none() && flows.low.standing.limit.is_some());
        let limit = limit.unwrap().bytes();
        assert!((11e6..20e6).contains(&limit), "Low's part, and room for High: {limit}");
        assert!(other.unwrap().bytes() < 9.5e6, "{other:?}");
        assert!(flows.urgent.id.is_none() && flows.medium.id.is_none());
    }

    const MOVED: u64 = 60_000;

    /// A class that wants less than its limit keeps room for its rate only.
    #[test]
    fn e7_idle_class_adds_its_rate_and_not_its_limit() {
        let (mut link, mut connection) = (link(EVEN, Some(Rate::new(4e6))), Connection::default());
        let mut limit = None;
        for (low, waiting) in [(MOVED, 1), (MOVED / 100, 0)] {
            let split = ClassSplit { all: &seen(MOVED + low, 20), ..SPLIT };
            for _ in 0..100 {
                let classes = [(Class::High, MOVED, 1), (Class::Low, low, waiting)];
                limit = connection.look(&mut link, split, &classes);
            }
        }
        let PerClass { high, low, .. } = &connection.flows;
        let (most, own) = (high.standing.limit.unwrap().bytes(), low.standing.rate.bytes());
        let idle = low.standing.limit.unwrap().bytes();
        let room = 1.25 * own + 10.0 * 1448.0 / 0.02;
        assert!(idle > room, "Low may have more than it wants: {idle} of {room}");
        let limit = limit.unwrap().bytes();
        assert!((limit - most - room).abs() < 1.0, "{limit}: {most} and {room}");
    }

    /// Packets of a look in which no class has moved data belong to the classes that moved the last.
    #[test]
    fn e7_look_without_movement_keeps_the_last_parts() {
        let (mut link, mut connection) = (link(EVEN, None), Connection::default());
        let split = ClassSplit { all: &seen(MOVED, 20), ..SPLIT };
        connection.look(&mut link, split, &[(Class::High, MOVED * 3, 1), (Class::Low, MOVED, 1)]);
        connection.look(&mut link, split, &[]);
        let PerClass { high, low, .. } = &connection.flows;
        assert_eq!((high.delivered, low.delivered), (2 * 30, 2 * 10));
    }

    /// An answer that was handed over whole takes many looks to leave the socket.
    #[test]
    fn e7_class_whose_data_waits_in_the_socket_wants_more() {
        let (mut link, mut connection) = (link(EVEN, None), Connection::default());
        connection.traffic.high.publish(100 * MOVED, 0);
        for idle in [false, true] {
            for _ in 0..100 {
                let split = ClassSplit { all: &seen(MOVED, 2), idle, ..SPLIT };
                connection.look(&mut link, split, &[]);
            }
            assert_eq!(link.link.is_backlogged(Class::High), !idle, "all is sent: {idle}");
        }
    }

    /// A host that writes a block at a time owes one at each look, and is limited by nothing but its own depth.
    #[test]
    fn e7_class_with_data_in_transit_wants_no_more() {
        for (owed, wants) in [(MOVED / 5, false), (2 * MOVED, true)] {
            let (mut link, mut connection) = (link(EVEN, None), Connection::default());
            for _ in 0..100 {
                let split = ClassSplit { all: &seen(MOVED, 1), asked: true, ..SPLIT };
                connection.look(&mut link, split, &[(Class::High, MOVED, owed)]);
            }
            // It moves 12 kB in a round trip of 1 ms.
            assert_eq!(link.link.is_backlogged(Class::High), wants, "owes {owed}");
        }
    }

    #[test]
    fn e7_connection_below_its_part_is_not_limited() {
        let (limit, ..) = together(60_000, 0);
        assert_eq!(limit, None);
    }
}
