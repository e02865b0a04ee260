//! A paced connection: the poller observes what it moves, and sets its limits.

use std::time::Duration;

use arbitration::{Class, PerClass};
use qtcp::class_split::{ClassFlow, ClassSplit, REST, moves};
use qtcp::lately::Lately;
use qtcp::{Nanos, Observation, Rate};

use super::links::{Direction, Links};
use super::look::{Allowed, Both, Seen};
use super::path::NewConnection;
use crate::engine::{ConnectionNetwork, FlowState};

/// The shortest time between two looks at a connection.
const SHORTEST: Duration = Duration::from_micros(200);
/// The longest time between two looks at a connection that moves data.
pub(super) const LONGEST: Duration = Duration::from_millis(5);
/// The time between two looks at a connection that rests.
pub(super) const RESTING: Duration = Duration::from_millis(20);

/// A connection as the poller knows it.
#[derive(Debug)]
pub(super) struct PacedConnection {
    pub(super) of: NewConnection,
    /// The generation, which tells this connection from earlier ones in the same place of the
    /// poller's table.
    pub(super) generation: u32,
    /// The index of the connection's link.
    pub(super) link: usize,
    /// The time at which data last moved.
    moved_at: Nanos,
    lately: Lately,
    flows: Both<PerClass<ClassFlow>>,
    /// The limits on the rates of sending and receiving.
    limits: Both<Option<Rate>>,
}

impl PacedConnection {
    /// Makes the entry of a new connection.
    pub(super) fn new(now: Nanos, of: NewConnection, generation: u32, link: usize) -> Self {
        let (lately, flows, limits) = Default::default();
        Self { of, generation, link, moved_at: now, lately, flows, limits }
    }

    /// Looks at the connection: observes what it has moved, computes its limits and sets them. Returns
    /// the time until the next look.
    pub(super) fn look(&mut self, now: Nanos, links: &mut Links) -> Duration {
        // The host sends data, or is to be asked for some.
        let writes = moves(&self.of.pacing.into, &self.flows.into);
        if !writes && !moves(&self.of.pacing.out, &self.flows.out) {
            if now.since(self.moved_at) > REST {
                self.leave(links);
                self.lift_limits();
                self.expect_traffic();
                return RESTING;
            }
        } else {
            self.moved_at = now;
        }
        let load = links.load(self.link);
        let NewConnection { pacing, path, .. } = &mut self.of;
        let Some(Seen { out, into, rtt, idle }) = path.look(now, pacing, &load) else {
            return RESTING;
        };
        if out.interval.is_zero() {
            return SHORTEST;
        }
        pacing.set_rtt(rtt);
        self.lately.see(now, out.marked > 0 || into.marked > 0, writes);
        self.limits.out = self.observe(now, Direction::Out, (&out, idle), links);
        self.limits.into = self.observe(now, Direction::Into, (&into, true), links);
        let limits = self.limits;
        let rate = |flows: &PerClass<ClassFlow>| flows.values().map(|one| one.standing.rate).sum();
        let rates = Both { out: rate(&self.flows.out), into: rate(&self.flows.into) };
        let is_free = |flow: &ClassFlow| flow.id.is_some() && flow.standing.target.is_none();
        let free = Both {
            out: self.flows.out.values().any(is_free),
            into: self.flows.into.values().any(is_free),
        };
        let allowed = Allowed { now, limits, rates, free, rtt, lately: &self.lately };
        let NewConnection { pacing, path, .. } = &mut self.of;
        path.allow(pacing, &allowed);
        let is_limited = limits.out.is_some() || limits.into.is_some();
        let watched = is_limited || self.lately.is_congested(now);
        if watched { rtt.clamp(SHORTEST, LONGEST) } else { LONGEST }
    }

    /// Lets each class observe its part of what was `seen` in one direction. Returns the limit of all
    /// of them together.
    fn observe(
        &mut self,
        now: Nanos,
        direction: Direction,
        (all, idle): (&Observation, bool),
        links: &mut Links,
    ) -> Option<Rate> {
        let (traffic, flows) = match direction {
            Direction::Out => (&self.of.pacing.out, &mut self.flows.out),
            Direction::Into => (&self.of.pacing.into, &mut self.flows.into),
        };
        let link = links.direction(self.link, direction)?;
        ClassSplit { all, idle }.observe(now, link, traffic, flows)
    }

    /// Returns the flows of the connection's classes in one direction.
    pub(super) const fn flows(&self, direction: Direction) -> &PerClass<ClassFlow> {
        match direction {
            Direction::Out => &self.flows.out,
            Direction::Into => &self.flows.into,
        }
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

    /// Lets little be handed over at once until it is known what the connection moves.
    pub(super) fn expect_traffic(&mut self) {
        self.of.path.rest(&self.of.pacing);
    }

    /// Lifts the connection's limits.
    pub(super) fn lift_limits(&mut self) {
        self.limits = Both::default();
        self.of.path.lift(&self.of.pacing);
    }

    /// Makes the connection's state for the control socket.
    pub(super) fn state(&self, links: &Links) -> ConnectionNetwork {
        let Both { out, into } = &self.flows;
        let class = Class::ALL
            .into_iter()
            .find(|&class| out[class].id.is_some() || into[class].id.is_some());
        ConnectionNetwork {
            link: links.name(self.link).to_owned(),
            class: class.unwrap_or_default().name().to_owned(),
            base: self.of.path.base().to_owned(),
            rtt_us: u64::try_from(self.of.pacing.rtt().as_micros()).unwrap_or(u64::MAX),
            out: state(out, self.limits.out),
            into: state(into, self.limits.into),
        }
    }
}

/// Adds up a connection's classes in one direction.
fn state(flows: &PerClass<ClassFlow>, limit: Option<Rate>) -> FlowState {
    let mut sum = FlowState::default();
    let (mut active, mut target) = (0.0, Some(0.0));
    for flow in flows.values() {
        (sum.delivered, sum.marked) = (sum.delivered + flow.delivered, sum.marked + flow.marked);
        if flow.id.is_none() {
            continue;
        }
        let standing = flow.standing;
        active += 1.0;
        sum.rate += standing.rate.bits();
        sum.alpha += standing.alpha;
        sum.quality += standing.quality;
        target = target.zip(standing.target).map(|(sum, rate)| sum + rate.bits());
    }
    if active > 0.0 {
        (sum.alpha, sum.quality) = (sum.alpha / active, sum.quality / active);
        (sum.target, sum.limit) = (target, limit.map(Rate::bits));
    } else {
        sum.quality = 1.0;
    }
    sum
}
