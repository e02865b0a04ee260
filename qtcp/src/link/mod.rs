//! One direction of a link, and the flows of several classes that share it.
//!
//! Where a kernel's own congestion controller stays in charge of a flow's window, Eq. 5 cannot be
//! applied as printed: both would answer the same marks, and the window would be cut twice. The two
//! divide the work instead. The kernel takes the step of DCTCP (Eq. 4), or whatever its controller
//! does in its place; this module applies the quality factor, as a limit on the rate
//! ([`rate_limit`]).
//!
//! - `estimate`: what the link carries.
//! - [`goals`]: the goal of each class, and the target of each flow that follows from it.
//! - [`rate_limit`]: one flow's limit.
//! - [`latency`]: how much of the link is left empty for classes that have a latency to keep.
//!
//! Targets are parts of what all flows get together while the link is congested. That is the link's
//! capacity less what other senders take: when another sender comes, all targets shrink together
//! (the detection of interfering flows of docs/sources.md, E8, for a sender that sees all its own
//! flows). Flows that have more than their targets are held to them; what they leave is taken by
//! those that have less, however long these need for it.

mod estimate;
pub mod goals;
pub mod latency;
pub mod rate_limit;

pub use goals::ClassGoal;
pub use rate_limit::Rules;

use slab::Slab;
use units::{Class, PerClass};

use crate::control::quality::{of_latency, of_throughput};
use crate::{Nanos, Observation, Rate};
use estimate::{Estimate, LinkSample, RecentMost};
use goals::{Demand, Targets};
use latency::Headroom;
use rate_limit::{Conditions, RateLimit, Role};

/// A flow on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClassFlowId(pub(crate) usize);

/// The measurements of a flow, its target and its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Standing {
    /// The smoothed rate (Eq. 1).
    pub rate: Rate,
    /// The target rate; `None`: the flow has no target.
    pub target: Option<Rate>,
    /// The upper bound of the rate; `None`: the flow is not limited.
    pub limit: Option<Rate>,
    /// The smoothed fraction of marked packets (Eq. 3).
    pub alpha: f64,
    /// The quality factor Q (Eq. 1, 2).
    pub quality: f64,
}

/// A flow of a class.
#[derive(Debug)]
struct ClassFlow {
    class: Class,
    rate_limit: RateLimit,
    /// The flow's part of its class's demand.
    counted: Demand,
}

/// One direction of a link.
#[derive(Debug)]
pub struct Link {
    rules: Rules,
    goals: PerClass<ClassGoal>,
    /// Payload that the link carries, where it is given.
    capacity: Option<Rate>,
    flows: Slab<ClassFlow>,
    demands: PerClass<Demand>,
    targets: Targets,
    headroom: Headroom,
    /// The time of the last observation with marks.
    marked_at: Option<Nanos>,
    /// The longest round trip of the last seconds, in seconds.
    round_trip: RecentMost,
    /// The estimate of what the link carries.
    carries: Estimate,
    /// The throughput of all flows when the link was last congested.
    estimate: Rate,
    /// The greatest throughput of all flows lately.
    most: RecentMost,
    fastest: Rate,
}

/// The state of a link at an observation.
#[derive(Clone, Copy, Debug)]
struct State {
    /// The throughput of all flows together.
    total: Rate,
    /// Whether some flow has seen marks within [`Rules::memory`].
    marked: bool,
    /// Whether the given capacity is nearly used up.
    full: bool,
    /// Whether more than the given capacity is used.
    over: bool,
    /// Whether the link is marked or full.
    congested: bool,
}

impl Link {
    /// Makes a link without flows. `capacity` is the payload that it carries; without it, the link
    /// is measured.
    #[must_use]
    pub fn new(goals: PerClass<ClassGoal>, capacity: Option<Rate>, rules: Rules) -> Self {
        Self {
            rules,
            goals,
            capacity,
            flows: Slab::new(),
            demands: PerClass::default(),
            targets: Targets::default(),
            headroom: Headroom::default(),
            marked_at: None,
            round_trip: RecentMost::default(),
            carries: Estimate::default(),
            estimate: Rate::ZERO,
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
        let (rate_limit, counted) = (RateLimit::default(), Demand::default());
        ClassFlowId(self.flows.insert(ClassFlow { class, rate_limit, counted }))
    }

    /// Removes a flow. Its identifier may name another one from then on.
    pub fn remove(&mut self, id: ClassFlowId) {
        if let Some(flow) = self.flows.try_remove(id.0) {
            self.demands[flow.class].take(&flow.counted);
        }
        if self.flows.is_empty() {
            self.carries = Estimate::default();
        }
    }

    /// Takes in a flow's observation of the interval that ends `now`. Returns the flow's
    /// throughput, target and limit from now on.
    pub fn observe(&mut self, id: ClassFlowId, now: Nanos, seen: &Observation) -> Standing {
        let Some((class, rate, held)) = self.count(id, seen) else { return Standing::default() };
        let goal = self.goals[class];
        let state = self.state(now, seen);
        let kept = self.kept_for_others(now, seen, goal);
        let State { total, congested, full, .. } = state;
        let rises =
            self.flows.get_mut(id.0).is_some_and(|flow| flow.rate_limit.is_rising(seen, congested));
        let sample = LinkSample { bytes: seen.bytes, held, rises, total, congested };
        let carries = self.carries.see(&self.rules, now, &sample);
        let lambda = self.lambda(carries, &state, kept);
        self.targets.divide(lambda, &self.goals, &self.demands);
        let target = self.targets.of_flow(class);
        let quality = match goal {
            // The kernel has smoothed its round-trip time already.
            ClassGoal::Latency(target) => of_latency(seen.rtt.as_secs_f64(), target),
            _ => target.map_or(1.0, |target| of_throughput(target, rate)),
        };
        let role = self.role(class, &state, kept);
        let Some(flow) = self.flows.get_mut(id.0) else { return Standing::default() };
        let conditions = Conditions { target, role, congested, full };
        let limit = flow.rate_limit.limit(&self.rules, seen, &conditions);
        let alpha = flow.rate_limit.alpha();
        Standing { rate, target, limit, alpha, quality }
    }

    /// Counts a flow's throughput for its class. Returns the class, the flow's smoothed rate, and
    /// whether its limit holds it back.
    #[inline]
    fn count(&mut self, id: ClassFlowId, seen: &Observation) -> Option<(Class, Rate, bool)> {
        let flow = self.flows.get_mut(id.0)?;
        let demand = &mut self.demands[flow.class];
        flow.rate_limit.see(&self.rules, seen);
        let fair = self.targets.of_flow(flow.class).unwrap_or(Rate::ZERO);
        demand.take(&flow.counted);
        flow.counted = Demand::of(flow.rate_limit.rate(), seen.app_limited, fair);
        demand.put(&flow.counted);
        Some((flow.class, flow.rate_limit.rate(), flow.rate_limit.is_held()))
    }

    /// Computes the link's state, now that one more observation is counted.
    #[inline]
    fn state(&mut self, now: Nanos, seen: &Observation) -> State {
        if seen.marked > 0 {
            self.marked_at = Some(now);
        }
        let total = self.total();
        self.fastest = Rate::new(self.most.see(now, total.bytes()));
        let longest = self.round_trip.see(now, seen.rtt.as_secs_f64());
        let memory = self.rules.memory_on(longest);
        let marked = self.marked_at.is_some_and(|at| now.since(at) <= memory);
        let full = self.capacity.is_some_and(|capacity| total >= capacity.times(FULL));
        if marked || full {
            self.estimate = self.capacity.map_or(total, |capacity| total.min(capacity));
        }
        let over = self.capacity.is_some_and(|capacity| total > capacity);
        State { total, marked, full, over, congested: marked || full }
    }

    /// Computes the part of the link that classes without a latency to keep may have.
    #[inline]
    fn kept_for_others(&mut self, now: Nanos, seen: &Observation, goal: ClassGoal) -> f64 {
        if let ClassGoal::Latency(target) = goal
            && seen.delivered > 0
        {
            self.headroom.see(now, seen.rtt, target);
        }
        self.headroom.part(now)
    }

    /// Computes the throughput that the classes share, of what the link `carries`. While part of
    /// the link is kept empty, the throughput is what limits let through, and says nothing of the
    /// capacity.
    #[inline]
    fn lambda(&mut self, carries: Rate, state: &State, kept: f64) -> Rate {
        match (self.capacity, kept < 1.0) {
            (Some(capacity), true) => capacity.times(kept),
            (None, true) => self.headroom.known(state.total, state.congested).times(kept),
            (Some(capacity), false) => carries.min(capacity),
            (None, false) => {
                self.headroom.forget();
                carries
            }
        }
    }

    /// Decides the role of a class's flows. Where the link carries its given capacity or more, and
    /// no marks tell that it is full, only limits keep flows from taking more. Where other senders
    /// or flows without a limit take what flows leave, one class leaves nothing; where nobody takes
    /// it, all take more.
    #[inline]
    fn role(&self, class: Class, state: &State, kept: f64) -> Role {
        if kept < 1.0 || (state.full && !state.marked) || state.over {
            Role::Held
        } else if self.carries.is_loose() || (self.targets.fills(class) && self.is_taken()) {
            Role::Filler
        } else {
            Role::Follower
        }
    }

    /// Tells whether other senders, or flows of a class that is never held back, take what flows
    /// leave. If all others were held to parts of what these leave, these would have the whole link
    /// in the end.
    fn is_taken(&self) -> bool {
        let is_free = |class| self.goals[class] == ClassGoal::Free;
        let free_wants =
            Class::ALL.iter().any(|&class| is_free(class) && self.demands[class].backlogged > 0);
        self.carries.is_taken() || free_wants
    }

    /// Returns the throughput of all flows when the link was last congested; zero where it never
    /// was.
    #[must_use]
    pub fn estimate(&self) -> Rate {
        self.estimate
    }

    /// Returns the least that the link is known to carry: its given capacity, or the greatest throughput
    /// of all flows of the last seconds.
    #[must_use]
    pub fn fastest(&self) -> Rate {
        self.capacity.unwrap_or(self.fastest)
    }

    /// Returns the target of a class; `None` where it has none.
    #[must_use]
    pub fn class_target(&self, class: Class) -> Option<Rate> {
        self.targets.of_class(class)
    }

    /// Adds up the throughput of all flows.
    #[must_use]
    pub fn total(&self) -> Rate {
        self.demands.values().map(|demand| demand.rate).sum()
    }
}

/// The part of a given capacity from which on a link is congested, with or without marks.
const FULL: f64 = 0.97;

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

/// The time after which classes have settled beside flows of others, in seconds.
#[cfg(test)]
const SETTLES_BESIDE_OTHERS: f64 = 1.0;

#[cfg(test)]
impl Link {
    /// Says whether flows of a class would take more than they get.
    fn is_backlogged(&self, class: Class) -> bool {
        self.demands[class].backlogged > 0
    }
}
