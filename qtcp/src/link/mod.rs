//! One direction of a link, and the flows of several classes that share it.
//!
//! If a kernel's own congestion controller stays in charge of a flow's window, Eq. 5 cannot be
//! applied as printed: both would answer the same marks, and the window would be cut twice. The two
//! divide the work instead. The kernel takes the step of DCTCP (Eq. 4), or its own controller's
//! step; this module limits the rates of classes above their shares, in favour of classes below.
//! The link's capacity is not estimated: classes are compared with each other.
//!
//! - `level`: the law, and why it does no harm.
//! - `goal`: the goals of classes.
//! - `flow`: measurements of one flow, and of the flows of a class together.
//! - `latency`: how much of the link is left empty for classes that have a latency to keep.

mod flow;
mod goal;
mod latency;
mod level;

pub use flow::Rules;
pub use goal::ClassGoal;

use core::time::Duration;

use slab::Slab;
use units::{Class, PerClass, weight_of};

use crate::quality::{of_latency, of_throughput};
use crate::{Nanos, Observation, Rate};
use flow::{Demand, Flow};
use latency::Headroom;
use level::{Activity, Level, Seen};

/// A flow on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClassFlowId(pub(crate) usize);

/// The measurements of a flow, its target and its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Standing {
    /// The smoothed rate (Eq. 1).
    pub rate: Rate,
    /// The target rate; `None`: nobody is held back, or the flow never is.
    pub target: Option<Rate>,
    /// The upper bound of the rate; `None`: the flow is not limited.
    pub limit: Option<Rate>,
    /// Whether the flow is never held back, regardless of other flows.
    pub is_free: bool,
    /// The smoothed fraction of marked packets (Eq. 3).
    pub alpha: f64,
    /// The quality factor Q (Eq. 1, 2).
    pub quality: f64,
}

impl Standing {
    /// Returns the rate that the flow is to have, or has where this is greater.
    #[inline]
    pub(crate) fn aim(&self) -> Rate {
        self.target.map_or(self.rate, |target| target.max(self.rate))
    }
}

/// The totals of the flows of a class.
#[derive(Clone, Copy, Debug, Default)]
struct ClassState {
    demand: Demand,
    /// Of those flows alone that meet a queue.
    queued: Demand,
    /// The time of its last observation with marks.
    marked_at: Option<Nanos>,
    /// The longest time without marks between two of the last ones.
    gap: Duration,
    /// The longest round trip lately, in seconds: it is forgotten over [`TRIP_MEMORY`].
    trip: f64,
    trip_at: Nanos,
}

impl ClassState {
    /// Subtracts a flow's contribution.
    fn take(&mut self, flow: &Flow) {
        self.demand.take(&flow.counted);
        if flow.is_queued {
            self.queued.take(&flow.counted);
        }
    }

    /// Returns the demand that counts on a link that has a capacity, or none.
    #[inline]
    const fn on(&self, capacity: Option<Rate>) -> &Demand {
        if capacity.is_some() { &self.demand } else { &self.queued }
    }
}

/// The time over which long round trips are forgotten.
const TRIP_MEMORY: Duration = Duration::from_millis(300);

/// The longest time without marks that a full link is taken to have.
const LONGEST_GAP: Duration = Duration::from_millis(300);

/// One direction of a link.
#[derive(Debug)]
pub struct Link {
    rules: Rules,
    goals: PerClass<ClassGoal>,
    /// Payload that the link carries, where it is given.
    capacity: Option<Rate>,
    flows: Slab<Flow>,
    classes: PerClass<ClassState>,
    headroom: Headroom,
    level: Level,
    /// Whether the given capacity is nearly used up: the link is full, with or without marks.
    is_full: bool,
    /// The greatest throughput of all flows lately.
    most: RecentMost,
    fastest: Rate,
}

/// The part of a given capacity from which on a link is full.
const FULL: f64 = 0.97;

impl Link {
    /// Makes a link without flows. `capacity` is the payload that it carries, where it is known.
    #[must_use]
    pub fn new(goals: PerClass<ClassGoal>, capacity: Option<Rate>, rules: Rules) -> Self {
        Self {
            rules,
            goals,
            capacity,
            flows: Slab::new(),
            classes: PerClass::default(),
            headroom: Headroom::default(),
            level: Level::default(),
            is_full: false,
            most: RecentMost::default(),
            fastest: Rate::ZERO,
        }
    }

    /// Changes the goals of classes, and the capacity, from the next observation on.
    pub fn configure(&mut self, goals: PerClass<ClassGoal>, capacity: Option<Rate>) {
        (self.goals, self.capacity) = (goals, capacity);
        self.headroom = Headroom::default();
    }

    /// Adds a flow of a class.
    pub fn add(&mut self, class: Class) -> ClassFlowId {
        ClassFlowId(self.flows.insert(Flow::new(class, false)))
    }

    /// Adds a flow of a class to a host on this machine: before it sees a mark it counts only where the link has a
    /// given capacity.
    pub fn add_local(&mut self, class: Class) -> ClassFlowId {
        ClassFlowId(self.flows.insert(Flow::new(class, true)))
    }

    /// Removes a flow. Its identifier may name another one from then on.
    pub fn remove(&mut self, id: ClassFlowId) {
        if let Some(flow) = self.flows.try_remove(id.0) {
            self.classes[flow.class].take(&flow);
        }
    }

    /// Adds a flow's observation of the interval that ends `now`. Returns the flow's throughput, target and limit from
    /// now on.
    pub fn observe(&mut self, id: ClassFlowId, now: Nanos, seen: &Observation) -> Standing {
        let Some(class) = self.count(id, now, seen) else { return Standing::default() };
        self.fastest = Rate::new(self.most.see(now, self.total().bytes()));
        let goal = self.goals[class];
        if let ClassGoal::Latency(target) = goal
            && seen.delivered > 0
        {
            self.headroom.see(now, class, seen.rtt, target);
        }
        if self.level.is_due(now) {
            self.judge(now);
        }
        let limit = self.level.limit(class, goal);
        let demand = self.classes[class].on(self.capacity);
        let Some(flow) = self.flows.get_mut(id.0) else { return Standing::default() };
        let is_bound = self.is_full || self.level.is_bound();
        let target = self.level.part(goal).map(|part| demand.part_of_each(part));
        let limit = limit
            .filter(|_| is_bound || flow.shares_queue(now))
            .map(|limit| flow.at_least_a_packet(seen, demand.part_of_each(limit)));
        flow.limit = limit;
        let (rate, alpha) = (flow.rate(), flow.alpha());
        let quality = match goal {
            // The kernel has smoothed its round-trip time already.
            ClassGoal::Latency(target) => of_latency(seen.rtt.as_secs_f64(), target),
            _ => target.map_or(1.0, |target| of_throughput(target, rate)),
        };
        Standing { rate, target, limit, is_free: goal.is_free(), alpha, quality }
    }

    /// Counts a flow's throughput for its class. Returns the class.
    #[inline]
    fn count(&mut self, id: ClassFlowId, now: Nanos, seen: &Observation) -> Option<Class> {
        let flow = self.flows.get_mut(id.0)?;
        let class = &mut self.classes[flow.class];
        class.take(flow);
        flow.see(&self.rules, now, seen);
        class.demand.put(&flow.counted);
        if flow.is_queued {
            class.queued.put(&flow.counted);
        }
        let forgotten = weight_of(now.since(class.trip_at), TRIP_MEMORY);
        class.trip = seen.rtt.as_secs_f64().max(class.trip * (1.0 - forgotten));
        class.trip_at = now;
        if seen.marked > 0 {
            let gap = class.marked_at.replace(now).map_or(Duration::ZERO, |at| now.since(at));
            class.gap = gap.min(LONGEST_GAP).max(class.gap - class.gap / 16);
        }
        Some(flow.class)
    }

    /// Shows the level what classes do.
    fn judge(&mut self, now: Nanos) {
        let is_full = self.capacity.is_some_and(|capacity| self.total() >= capacity.times(FULL));
        self.is_full = is_full;
        let activities = PerClass::from_fn(|class| {
            let ClassState { marked_at, gap, trip, .. } = self.classes[class];
            let demand = self.classes[class].on(self.capacity);
            let since = marked_at.map(|at| now.since(at));
            Activity {
                rate: demand.rate.bytes(),
                backlogged: demand.backlogged,
                marked: is_full
                    || since.is_some_and(|since| since <= self.rules.memory_on(trip).max(gap * 2)),
                freshly_marked: is_full
                    || since.is_some_and(|since| since <= self.rules.fresh_on(trip).max(gap)),
                growth: demand.growth.max(0.0),
                trip,
            }
        });
        let part = self.headroom.part(now);
        let lambda = match self.capacity {
            Some(capacity) => Some(capacity.times(part)),
            None if part < 1.0 => {
                let congested = activities.values().any(|one| one.marked);
                Some(self.headroom.known(part, self.total(), congested).times(part))
            }
            None => {
                self.headroom.forget();
                None
            }
        };
        self.level.see(&Seen { now, goals: &self.goals, activities: &activities }, lambda);
    }

    /// Returns whether flows of a class would take more than they get.
    #[must_use]
    pub fn is_backlogged(&self, class: Class) -> bool {
        self.classes[class].demand.backlogged > 0
    }

    /// Returns the class for which a class is held back; `None` where it is not, or is for a capacity or a latency.
    #[must_use]
    pub fn held_for(&self, class: Class) -> Option<Class> {
        let reference = self.level.reference().filter(|reference| *reference != class);
        reference.filter(|_| self.level.limit(class, self.goals[class]).is_some())
    }

    /// Returns the present target of a class; `None` if it has no rate while no flow is held back,
    /// or if it is never held back.
    #[must_use]
    pub fn class_target(&self, class: Class) -> Option<Rate> {
        self.level.part(self.goals[class])
    }

    /// Returns whether no class has seen marks for as long as a full link is taken to have none.
    #[must_use]
    pub fn is_calm(&self, now: Nanos) -> bool {
        let marks = self.classes.values().filter_map(|class| class.marked_at);
        marks.max().is_none_or(|at| now.since(at) > LONGEST_GAP)
    }

    /// Returns the least that the link is known to carry: its given capacity, or the greatest throughput
    /// of all flows of the last seconds.
    #[must_use]
    pub fn fastest(&self) -> Rate {
        self.capacity.unwrap_or(self.fastest)
    }

    /// Adds up the throughput of all flows.
    #[must_use]
    pub fn total(&self) -> Rate {
        self.classes.values().map(|class| class.demand.rate).sum()
    }
}

/// The greatest value of the last five to ten seconds, in two windows of five.
#[derive(Clone, Copy, Debug, Default)]
struct RecentMost {
    since: Nanos,
    before: f64,
    now: f64,
}

impl RecentMost {
    const WINDOW: Duration = Duration::from_secs(5);

    /// Adds a value. Returns the greatest one.
    #[inline]
    fn see(&mut self, now: Nanos, value: f64) -> f64 {
        let age = now.since(self.since);
        if age > Self::WINDOW {
            let before = if age > 2 * Self::WINDOW { 0.0 } else { self.now };
            (self.since, self.before, self.now) = (now, before, 0.0);
        }
        self.now = self.now.max(value);
        self.now.max(self.before)
    }
}

#[cfg(test)]
mod cases;
#[cfg(test)]
mod decision_tests;
#[cfg(test)]
mod model;
#[cfg(test)]
mod sharing_tests;
#[cfg(test)]
mod tests;
