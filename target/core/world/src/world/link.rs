//! The link that all connections share: it carries so much, queues the rest, and marks what has
//! stood in the queue. What connections see of it is observed and published as the daemon does it.

use std::sync::Arc;
use std::time::Duration;

use arbitration::{Class, PerClass};
use fabric::Nanos;
use qtcp::class_split::{ClassFlow, ClassSplit, LinkDirection, REST};
use qtcp::link::{ClassGoal, Link, Rules};
use qtcp::pacing::{Pacing, Traffic};
use qtcp::{Observation, Rate};

use super::{Event, World};

/// Time between two looks at a connection, in ns.
const LOOK_NS: u64 = 2_000_000;
/// What has stood in the queue for longer is marked, in ns.
const MARK_NS: u64 = 500_000;
/// Bytes of payload in a packet.
const MSS: u32 = 1448;
/// Shares of the classes: High, Medium, Low.
const SHARES: [f64; 3] = [3.0, 2.0, 1.0];

/// A direction of the link, or of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To hosts.
    Down,
    /// To the target.
    Up,
}

/// One direction of the link.
#[derive(Debug)]
struct Lane {
    classes: LinkDirection,
    /// When it has carried all that stands in its queue.
    free_at: Nanos,
}

impl Lane {
    fn new() -> Self {
        let [high, medium, low] = SHARES.map(ClassGoal::Share);
        let goals = PerClass { urgent: ClassGoal::Free, high, medium, low };
        let link = Link::new(goals, None, Rules::default());
        Self { classes: LinkDirection::new(link), free_at: Nanos(0) }
    }
}

/// The link.
#[derive(Debug)]
pub(super) struct SharedLink {
    /// Bytes a second.
    rate: u64,
    down: Lane,
    up: Lane,
}

impl SharedLink {
    pub(super) fn new(rate: u64) -> Self {
        Self { rate, down: Lane::new(), up: Lane::new() }
    }

    fn lane(&mut self, way: Way) -> &mut Lane {
        match way {
            Way::Down => &mut self.down,
            Way::Up => &mut self.up,
        }
    }
}

/// What one direction of a connection has seen of the link since the last look.
#[derive(Debug, Default)]
struct Seen {
    bytes: u64,
    marked: u64,
    /// How long the last bytes stood in the queue, in ns.
    queued: u64,
    flows: PerClass<ClassFlow>,
}

impl Seen {
    /// Makes the observation since the last look.
    fn observation(&mut self, interval: u64, rtt: u64, app_limited: bool) -> Observation {
        let packets = |bytes: u64| u32::try_from(bytes.div_ceil(MSS.into())).unwrap_or(u32::MAX);
        let (bytes, marked) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.marked));
        Observation {
            interval: Duration::from_nanos(interval),
            delivered: packets(bytes),
            marked: packets(marked),
            bytes,
            rtt: Duration::from_nanos(rtt),
            mss: MSS,
            app_limited,
        }
    }

    /// Whether nothing of a connection moves or waits in this direction.
    fn is_quiet(&self, traffic: &PerClass<Traffic>) -> bool {
        let still =
            |(class, traffic): (Class, &Traffic)| traffic.read() == (self.flows[class].moved, 0);
        traffic.iter().all(still)
    }

    fn leave(&mut self, lane: &mut Lane) {
        for flow in self.flows.values_mut() {
            flow.leave(lane.classes.paced());
        }
    }
}

/// A connection that is looked at.
#[derive(Debug)]
pub(super) struct Paced {
    pub(super) pacing: Arc<Pacing>,
    connection: usize,
    looked_at: Nanos,
    moved_at: Nanos,
    down: Seen,
    up: Seen,
}

impl World {
    /// A connection's I/O queue is connected: it is looked at from now on.
    pub(super) fn join_link(&mut self, connection: usize, pacing: Arc<Pacing>) {
        let now = self.now;
        let (down, up) = Default::default();
        let index = self.paced.len();
        let paced = Paced { pacing, connection, looked_at: now, moved_at: now, down, up };
        self.paced.push(paced);
        if let Some(connection) = self.connections.get_mut(connection) {
            connection.paced = Some(index);
        }
        if self.link.is_some() {
            self.after(LOOK_NS, Event::Sample(index));
        }
    }

    /// When bytes arrive that one end of a connection sends now, after the time that they are under
    /// way alone.
    pub(super) fn carry(&mut self, index: usize, way: Way, bytes: usize, alone: u64) -> Nanos {
        let now = self.now;
        let arrives = Nanos(now.0 + alone);
        let Some(link) = &mut self.link else { return arrives };
        let Some(connection) = self.connections.get_mut(index) else { return arrives };
        let bytes = bytes as u64;
        let takes = |rate: u64| bytes.saturating_mul(1_000_000_000) / rate.max(1);
        // The sender's own pace comes before the link.
        let sent = match (way, connection.pace) {
            (Way::Down, Some(rate)) => {
                let sent = arrives.max(connection.pace_at);
                connection.pace_at = Nanos(sent.0 + takes(rate));
                sent
            }
            _ => arrives,
        };
        let rate = link.rate;
        let lane = link.lane(way);
        let through = Nanos(lane.free_at.max(sent).0 + takes(rate));
        let queued = lane.free_at.ns_since(sent);
        lane.free_at = through;
        if let Some(paced) = connection.paced.and_then(|paced| self.paced.get_mut(paced)) {
            let seen = match way {
                Way::Down => &mut paced.down,
                Way::Up => &mut paced.up,
            };
            seen.bytes += bytes;
            seen.marked += if queued > MARK_NS { bytes } else { 0 };
            seen.queued = queued;
        }
        through
    }

    /// A look at a connection, as the daemon's poller has it.
    pub(super) fn sample(&mut self, index: usize) {
        let now = self.now;
        let Some(paced) = self.paced.get_mut(index) else { return };
        let Some(link) = self.link.as_mut().filter(|_| !self.settling) else { return };
        let Some(connection) = self.connections.get_mut(paced.connection) else { return };
        let Paced { pacing, down, up, .. } = paced;
        if connection.key.is_none() {
            down.leave(&mut link.down);
            up.leave(&mut link.up);
            return;
        }
        let quiet = down.is_quiet(&pacing.out) && up.is_quiet(&pacing.into);
        if !quiet {
            paced.moved_at = now;
        }
        let interval = now.ns_since(paced.looked_at);
        paced.looked_at = now;
        let before = (connection.pace, pacing.grant_rate());
        if quiet && now.since(paced.moved_at) > REST {
            down.leave(&mut link.down);
            up.leave(&mut link.up);
            connection.pace = None;
            pacing.set_grant_rate(None);
        } else {
            let rtt = connection.up_ns + connection.down_ns + down.queued + up.queued;
            pacing.set_rtt(Duration::from_nanos(rtt));
            let is_sending = connection.sending.is_some() || !connection.down.is_empty();
            let all = down.observation(interval, rtt, !is_sending);
            let split = ClassSplit { all: &all, idle: !is_sending };
            let limit = split.observe(now, &mut link.down.classes, &pacing.out, &mut down.flows);
            connection.pace = limit.map(whole);
            let all = up.observation(interval, rtt, false);
            let split = ClassSplit { all: &all, idle: true };
            let limit = split.observe(now, &mut link.up.classes, &pacing.into, &mut up.flows);
            pacing.set_grant_rate(limit.map(whole));
        }
        pacing.set_held(connection.pace.is_some());
        if before != (connection.pace, pacing.grant_rate()) {
            self.rates_changed += 1;
        }
        self.after(LOOK_NS, Event::Sample(index));
    }

    /// The link limits nobody any more.
    pub(super) fn lift_limits(&mut self) {
        self.rates_changed += 1;
        for paced in &self.paced {
            paced.pacing.set_grant_rate(None);
            paced.pacing.set_held(false);
            if let Some(connection) = self.connections.get_mut(paced.connection) {
                connection.pace = None;
            }
        }
    }
}

/// A rate in whole bytes a second, of which there is always one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "never negative")]
fn whole(rate: Rate) -> u64 {
    (rate.bytes() as u64).max(1)
}
