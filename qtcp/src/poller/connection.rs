//! A paced connection: the poller observes its traffic, and sets its limits.

use core::time::Duration;

use units::PerClass;

use super::links::Links;
use super::look::{AllowedTraffic, Both, Direction, LookObservations, WatchedConnection};
use crate::class_split::{ClassFlow, ClassSplit, REST, moves};
use crate::lately::RecentEvents;
use crate::{Nanos, Rate};

/// The shortest time between two looks at a connection.
const SHORTEST: Duration = Duration::from_micros(200);
/// The longest time between two looks at a connection that moves data, where there are few of them.
const LONGEST: Duration = Duration::from_millis(5);
/// The time between two looks at a connection that rests.
pub(super) const RESTING: Duration = Duration::from_millis(20);

/// A connection as the poller knows it.
#[derive(Debug)]
pub struct PacedConnection<C> {
    /// The connection itself.
    pub of: C,
    /// The generation, which tells this connection from earlier ones in the same place of the
    /// poller's table.
    pub(super) generation: u32,
    /// The index of the connection's link.
    pub link: usize,
    /// Whether the poller counts the connection among the active ones.
    pub(super) is_active: bool,
    /// The time at which data last moved.
    moved_at: Nanos,
    lately: RecentEvents,
    flows: Both<PerClass<ClassFlow>>,
    /// The limits on the rates of sending and receiving.
    limits: Both<Option<Rate>>,
}

impl<C: WatchedConnection> PacedConnection<C> {
    /// Makes the entry of a new connection.
    pub(super) fn new(now: Nanos, of: C, generation: u32, link: usize) -> Self {
        let (lately, flows, limits) = Default::default();
        Self { of, generation, link, is_active: false, moved_at: now, lately, flows, limits }
    }

    /// Looks at the connection: observes its traffic, computes its limits and sets them. Returns
    /// the time until the next look.
    pub(super) fn look(&mut self, now: Nanos, links: &mut Links) -> Duration {
        // The host sends data, or waits to be asked for some.
        let writes = moves(&self.of.pacing().into, &self.flows.into);
        if !writes && !moves(&self.of.pacing().out, &self.flows.out) {
            if now.since(self.moved_at) > REST {
                self.leave(links);
                self.lift_limits();
                self.expect_traffic(now, links);
                return RESTING;
            }
        } else {
            self.moved_at = now;
        }
        let load = links.load(self.link);
        let Some(LookObservations { out, into, rtt, idle, asked, local }) =
            self.of.look(now, &load)
        else {
            return RESTING;
        };
        if out.interval.is_zero() {
            return SHORTEST;
        }
        self.of.pacing().set_rtt(rtt);
        self.lately.see(now, out.marked > 0 || into.marked > 0, writes);
        let sent = ClassSplit { all: &out, idle, asked: false, local };
        self.limits.out = self.observe(now, Direction::Out, sent, links);
        let received = ClassSplit { all: &into, idle: true, asked, local };
        self.limits.into = self.observe(now, Direction::Into, received, links);
        let limits = self.limits;
        let rate = |flows: &PerClass<ClassFlow>| flows.values().map(|one| one.standing.rate).sum();
        let rates = Both { out: rate(&self.flows.out), into: rate(&self.flows.into) };
        let aim = |flows: &PerClass<ClassFlow>| flows.values().map(|one| one.standing.aim()).sum();
        let aims = Both { out: aim(&self.flows.out), into: aim(&self.flows.into) };
        let is_free = |flows: &PerClass<ClassFlow>| flows.values().any(|one| one.standing.is_free);
        let free = Both { out: is_free(&self.flows.out), into: is_free(&self.flows.into) };
        let allowed = AllowedTraffic { now, limits, rates, aims, free, rtt, lately: &self.lately };
        self.of.allow(&allowed);
        let is_limited = limits.out.is_some() || limits.into.is_some();
        let watched = is_limited || self.lately.is_congested(now);
        if watched { rtt.clamp(SHORTEST, LONGEST) } else { LONGEST }
    }

    /// Lets each class observe its part of one direction's traffic. Returns the limit of all of
    /// them together.
    fn observe(
        &mut self,
        now: Nanos,
        direction: Direction,
        split: ClassSplit<'_>,
        links: &mut Links,
    ) -> Option<Rate> {
        let pacing = self.of.pacing();
        let (traffic, flows) = match direction {
            Direction::Out => (&pacing.out, &mut self.flows.out),
            Direction::Into => (&pacing.into, &mut self.flows.into),
        };
        let link = links.direction(self.link, direction)?;
        split.observe(now, link, traffic, flows)
    }

    /// Returns the flows of the connection's classes in one direction.
    pub const fn flows(&self, direction: Direction) -> &PerClass<ClassFlow> {
        self.flows.get(direction)
    }

    /// Returns the limit of all classes together in one direction.
    pub const fn limit(&self, direction: Direction) -> Option<Rate> {
        *self.limits.get(direction)
    }

    /// Takes the connection's flows off their link.
    pub(super) fn leave(&mut self, links: &mut Links) {
        for (flows, direction) in
            [(&mut self.flows.out, Direction::Out), (&mut self.flows.into, Direction::Into)]
        {
            for flow in flows.values_mut() {
                let link = links.direction(self.link, direction);
                flow.leave(link.and_then(|direction| direction.paced()));
            }
        }
    }

    /// Restricts the handed-over data until the connection's traffic is known.
    pub(super) fn expect_traffic(&mut self, now: Nanos, links: &Links) {
        self.of.rest(&links.start(now, self.link));
    }

    /// Lifts the connection's limits.
    pub(super) fn lift_limits(&mut self) {
        self.limits = Both::default();
        self.of.lift();
    }
}
