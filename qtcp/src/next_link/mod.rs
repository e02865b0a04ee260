//! The law that is to replace that of [`crate::link`]: classes are compared with each other, and the link is not
//! estimated. It runs on the model of a bottleneck, in tests alone: the daemon and the simulator go on with
//! [`crate::link`] until figures and Linux hosts hold with this one. Over RDMA beside TCP with a given
//! capacity (e2e-19) classes are far from their shares with it.
//!
//! - `level`: the law, and why it does no harm.
//! - `flow`: what is measured of one flow.

mod flow;
mod level;

pub use crate::link::{ClassFlowId, ClassGoal, Standing};
pub use flow::Rules;

use core::time::Duration;

use slab::Slab;
use units::{Class, PerClass, weight_of};

use crate::control::quality::{of_latency, of_throughput};
use crate::link::latency::Headroom;
use crate::{Nanos, Observation, Rate};
use flow::{Demand, Flow};
use level::{Activity, Level, Seen};

/// What the flows of a class do together.
#[derive(Clone, Copy, Debug, Default)]
struct ClassState {
    demand: Demand,
    /// The time of its last observation with marks.
    marked_at: Option<Nanos>,
    /// The longest time without marks between two of the last ones.
    gap: Duration,
    /// The longest round trip lately, in seconds: it is forgotten over [`TRIP_MEMORY`].
    trip: f64,
    trip_at: Nanos,
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
    /// Whether the given capacity is nearly used up: the link is full, whatever marks say.
    is_full: bool,
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
        }
    }

    /// Adds a flow of a class.
    pub fn add(&mut self, class: Class) -> ClassFlowId {
        ClassFlowId(self.flows.insert(Flow::new(class)))
    }

    /// Removes a flow. Its identifier may name another one from then on.
    pub fn remove(&mut self, id: ClassFlowId) {
        if let Some(flow) = self.flows.try_remove(id.0) {
            self.classes[flow.class].demand.take(&flow.counted);
        }
    }

    /// Takes in a flow's observation of the interval that ends `now`. Returns the flow's
    /// throughput, target and limit from now on.
    pub fn observe(&mut self, id: ClassFlowId, now: Nanos, seen: &Observation) -> Standing {
        let Some(class) = self.count(id, now, seen) else { return Standing::default() };
        let goal = self.goals[class];
        if let ClassGoal::Latency(target) = goal
            && seen.delivered > 0
        {
            self.headroom.see(now, seen.rtt, target);
        }
        if self.level.is_due(now) {
            self.judge(now);
        }
        let limit = self.level.limit(class, goal);
        let demand = &self.classes[class].demand;
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
        Standing { rate, target, limit, alpha, quality }
    }

    /// Counts a flow's throughput for its class. Returns the class.
    #[inline]
    fn count(&mut self, id: ClassFlowId, now: Nanos, seen: &Observation) -> Option<Class> {
        let flow = self.flows.get_mut(id.0)?;
        let class = &mut self.classes[flow.class];
        class.demand.take(&flow.counted);
        flow.see(&self.rules, now, seen);
        class.demand.put(&flow.counted);
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
            let ClassState { demand, marked_at, gap, trip, .. } = &self.classes[class];
            let trip = *trip;
            let since = marked_at.map(|at| now.since(at));
            Activity {
                rate: demand.rate.bytes(),
                backlogged: demand.backlogged,
                marked: is_full
                    || since.is_some_and(|since| since <= self.rules.memory_on(trip).max(*gap * 2)),
                freshly_marked: is_full
                    || since.is_some_and(|since| since <= self.rules.fresh_on(trip).max(*gap)),
                growth: demand.growth.max(0.0),
                trip,
            }
        });
        let part = self.headroom.part(now);
        let lambda = match self.capacity {
            Some(capacity) => Some(capacity.times(part)),
            None if part < 1.0 => {
                let congested = activities.values().any(|one| one.marked);
                Some(self.headroom.known(self.total(), congested).times(part))
            }
            None => {
                self.headroom.forget();
                None
            }
        };
        self.level.see(&Seen { now, goals: &self.goals, activities: &activities }, lambda);
    }

    /// Says whether flows of a class would take more than they get.
    #[must_use]
    pub fn is_backlogged(&self, class: Class) -> bool {
        self.classes[class].demand.backlogged > 0
    }

    /// Returns the class for which a class is held back; `None` where it is not, or is for a capacity or a latency.
    #[must_use]
    pub fn held_for(&self, class: Class) -> Option<Class> {
        self.level.reference().filter(|_| self.level.limit(class, self.goals[class]).is_some())
    }

    /// Adds up the throughput of all flows.
    #[must_use]
    pub fn total(&self) -> Rate {
        self.classes.values().map(|class| class.demand.rate).sum()
    }
}

/// The time after which classes have settled beside flows of others, in seconds.
const SETTLES_BESIDE_OTHERS: f64 = 3.0;

// The model of a bottleneck, the cases on it and the tests that both laws pass are the present law's; each has its own
// `Link`.
#[path = "../link/cases.rs"]
#[expect(clippy::duplicate_mod, reason = "one for both laws")]
mod cases;
#[path = "../link/tests.rs"]
#[expect(clippy::duplicate_mod, reason = "one for both laws")]
mod common_tests;
#[path = "../link/model.rs"]
#[expect(clippy::duplicate_mod, reason = "one for both laws")]
mod model;
mod sharing_tests;
mod tests;
