//! One direction of a link, and the flows of several classes that share it.
//!
//! Where a kernel's own congestion controller stays in charge of a flow's window, Eq. 5 cannot be
//! applied as it stands: both would answer the same marks, and the window would be cut twice. So
//! the two divide the work. The kernel takes the step of DCTCP (Eq. 4), or whatever its controller
//! does instead; what is here takes the quality factor, and says it as a limit on the rate
//! ([`overlay`]).
//!
//! - [`aims`]: what each class is to have, and what that is for each flow (targets).
//! - [`overlay`]: one flow's limit.
//! - [`latency`]: how much of the link is left empty for classes that have a latency to keep.
//!
//! Targets are parts of what all flows get together while the link is congested. That is its
//! capacity less what flows of others take: when such a flow comes, all targets shrink together
//! (the detection of interfering flows of seed row E8 for a sender that sees all its own flows).

pub mod aims;
pub mod latency;
pub mod overlay;

use core::time::Duration;

pub use aims::{Aim, Aims};
pub use overlay::Rules;

use crate::{Nanos, Observation, Rate};
use aims::{Demand, Shares};
use latency::Headroom;
use overlay::{Overlay, Role, Wanted};

/// A flow on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId(u32);

/// How a flow stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Standing {
    /// The smoothed rate (Eq. 1).
    pub rate: Rate,
    /// What it is to have; none: whatever it gets.
    pub target: Option<Rate>,
    /// What it may have at most; none: it is not held back.
    pub limit: Option<Rate>,
    /// The smoothed fraction of marked packets (Eq. 3).
    pub alpha: f64,
    /// The quality factor Q (Eq. 1, 2).
    pub quality: f64,
}

#[derive(Debug)]
struct Flow {
    class: usize,
    overlay: Overlay,
    /// What it has put into its class's demand.
    counted: Demand,
    standing: Standing,
}

/// One direction of a link.
#[derive(Debug)]
pub struct Link {
    rules: Rules,
    aims: Aims,
    capacity: Option<Rate>,
    flows: Vec<Option<Flow>>,
    free: Vec<u32>,
    demands: Vec<Demand>,
    shares: Shares,
    headroom: Headroom,
    /// When marks were last seen.
    marked_at: Option<Nanos>,
    /// When a flow that wants more was last seen that has long been below its target.
    deficit_at: Option<Nanos>,
    /// The greatest throughput of late.
    best: Best,
    /// The throughput of all flows when the link was last congested.
    estimate: Rate,
}

/// How a link is at an observation.
#[derive(Clone, Copy, Debug)]
struct State {
    /// What all flows get together.
    total: Rate,
    /// How long marks count.
    memory: Duration,
    /// Some flow has seen marks within that time.
    marked: bool,
    /// The given capacity is nearly used up, or more than used up.
    full: bool,
    over: bool,
    /// Marked or full.
    congested: bool,
}

/// The greatest rate of the last five to ten seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Best {
    since: Nanos,
    before: Rate,
    now: Rate,
}

impl Best {
    const WINDOW: Duration = Duration::from_secs(5);

    fn see(&mut self, now: Nanos, rate: Rate) -> Rate {
        if now.since(self.since) > Self::WINDOW {
            (self.since, self.before, self.now) = (now, self.now, Rate::ZERO);
        }
        if rate > self.now {
            self.now = rate;
        }
        if self.before > self.now { self.before } else { self.now }
    }
}

impl Link {
    /// A link with as many classes as `aims` has, of `capacity` (payload), or of a capacity that
    /// is to be found out.
    #[must_use]
    pub fn new(aims: Vec<Aim>, capacity: Option<Rate>, rules: Rules) -> Self {
        let aims = Aims::new(aims);
        let classes = aims.len();
        Self {
            rules,
            capacity,
            flows: Vec::new(),
            free: Vec::new(),
            demands: vec![Demand::default(); classes],
            shares: Shares::new(classes),
            aims,
            headroom: Headroom::default(),
            marked_at: None,
            deficit_at: None,
            best: Best::default(),
            estimate: Rate::ZERO,
        }
    }

    /// Changes what classes are to have, from the next observation on. The number of classes
    /// stays; what is missing is [`Aim::Free`].
    pub fn configure(&mut self, mut aims: Vec<Aim>, capacity: Option<Rate>) {
        aims.resize(self.demands.len(), Aim::Free);
        self.aims = Aims::new(aims);
        self.capacity = capacity;
        self.headroom = Headroom::default();
    }

    /// A flow of a class has come. A class that there is not is the last one.
    pub fn add(&mut self, class: usize) -> FlowId {
        let class = class.min(self.demands.len().saturating_sub(1));
        let flow = Flow {
            class,
            overlay: Overlay::default(),
            counted: Demand::default(),
            standing: Standing { quality: 1.0, ..Standing::default() },
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.flows.push(None);
            u32::try_from(self.flows.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(place) = self.flows.get_mut(index as usize) {
            *place = Some(flow);
        }
        FlowId(index)
    }

    /// A flow has gone.
    pub fn remove(&mut self, id: FlowId) {
        let Some(place) = self.flows.get_mut(id.0 as usize) else { return };
        let Some(flow) = place.take() else { return };
        if let Some(demand) = self.demands.get_mut(flow.class) {
            demand.take(&flow.counted);
        }
        self.free.push(id.0);
    }

    /// A flow is of another class from now on.
    pub fn set_class(&mut self, id: FlowId, class: usize) {
        let class = class.min(self.demands.len().saturating_sub(1));
        let Some(Some(flow)) = self.flows.get_mut(id.0 as usize) else { return };
        if flow.class == class {
            return;
        }
        if let Some(demand) = self.demands.get_mut(flow.class) {
            demand.take(&flow.counted);
        }
        (flow.class, flow.counted) = (class, Demand::default());
    }

    /// What a flow saw in the interval that ends `now`; answers how it stands, above all what it
    /// may have at most from now on.
    pub fn observe(&mut self, id: FlowId, now: Nanos, seen: &Observation) -> Standing {
        let Some((class, rate)) = self.count(id, seen) else { return self.standing(id) };
        let aim = self.aims.of(class);
        let state = self.state(now, seen);
        let kept = self.kept_for_others(now, seen, aim);
        let lambda = self.lambda(&state, kept);
        self.shares.share(lambda, &self.aims, &self.demands);
        let target = match aim {
            Aim::Free | Aim::Latency(_) => None,
            Aim::Share(_) | Aim::Rate(_) => self.shares.of(class),
        };
        let quality = match aim {
            Aim::Latency(target) => flow_latency(seen.rtt, target),
            _ => target.map_or(1.0, |target| quality(target, rate)),
        };
        let role = self.role(class, &state, kept);
        let Some(Some(flow)) = self.flows.get_mut(id.0 as usize) else {
            return Standing::default();
        };
        let short = !seen.app_limited && target.is_some();
        if flow.overlay.in_deficit(&self.rules, seen, if short { quality } else { 1.0 }) {
            self.deficit_at = Some(now);
        }
        // Whoever holds back while others take what it leaves goes down with its targets.
        let deficit = self.deficit_at.is_some_and(|at| now.since(at) <= state.memory)
            && state.total >= self.best.see(now, state.total).times(1.0 - 2.0 * self.rules.sigma);
        let State { congested, full, .. } = state;
        let wanted = Wanted { target, role, congested, full, deficit };
        let limit = flow.overlay.limit(&self.rules, seen, &wanted);
        let alpha = flow.overlay.alpha();
        flow.standing = Standing { rate, target, limit, alpha, quality };
        flow.standing
    }

    /// Counts what a flow got for its class: the class, and the flow's smoothed rate.
    #[inline]
    fn count(&mut self, id: FlowId, seen: &Observation) -> Option<(usize, Rate)> {
        let flow = self.flows.get_mut(id.0 as usize)?.as_mut()?;
        let demand = self.demands.get_mut(flow.class)?;
        flow.overlay.see(&self.rules, seen);
        let fair = self.shares.of(flow.class).unwrap_or(Rate::ZERO);
        demand.take(&flow.counted);
        flow.counted = Demand::of(flow.overlay.rate(), seen.app_limited, fair);
        demand.put(&flow.counted);
        Some((flow.class, flow.overlay.rate()))
    }

    /// How the link is, now that one more observation is counted.
    #[inline]
    fn state(&mut self, now: Nanos, seen: &Observation) -> State {
        if seen.marked > 0 {
            self.marked_at = Some(now);
        }
        let total = self.total();
        let memory = self.rules.memory.max(seen.rtt.saturating_mul(2));
        let marked = self.marked_at.is_some_and(|at| now.since(at) <= memory);
        let full = self.capacity.is_some_and(|capacity| total >= capacity.times(FULL));
        if marked || full {
            self.estimate = self.capacity.map_or(total, |capacity| min(total, capacity));
        }
        let over = self.capacity.is_some_and(|capacity| total > capacity);
        State { total, memory, marked, full, over, congested: marked || full }
    }

    /// The part of the link that classes without a latency to keep may have.
    #[inline]
    fn kept_for_others(&mut self, now: Nanos, seen: &Observation, aim: Aim) -> f64 {
        if let Aim::Latency(target) = aim
            && seen.delivered > 0
        {
            self.headroom.see(now, seen.rtt, target);
        }
        self.headroom.part(now)
    }

    /// What there is to divide. While part of the link is kept empty, what goes through is what
    /// was let through, and says nothing of the capacity.
    #[inline]
    fn lambda(&mut self, state: &State, kept: f64) -> Rate {
        match (self.capacity, kept < 1.0) {
            (Some(capacity), true) => capacity.times(kept),
            (None, true) => self.headroom.known(state.total, state.congested).times(kept),
            (Some(capacity), false) => min(state.total, capacity),
            (None, false) => {
                self.headroom.forget();
                state.total
            }
        }
    }

    /// What a flow of a class is among the others. Where there is more than the link is said to
    /// carry, or all of that and nothing marked, nobody but the limits keeps it from more.
    #[inline]
    fn role(&self, class: usize, state: &State, kept: f64) -> Role {
        if kept < 1.0 || (state.full && !state.marked) || state.over {
            Role::Held
        } else if self.shares.fills(class) {
            Role::Filler
        } else {
            Role::Follower
        }
    }

    /// How a flow stands.
    #[must_use]
    pub fn standing(&self, id: FlowId) -> Standing {
        match self.flows.get(id.0 as usize) {
            Some(Some(flow)) => flow.standing,
            _ => Standing::default(),
        }
    }

    /// The throughput of all flows when the link was last congested; zero where it never was.
    #[must_use]
    pub fn estimate(&self) -> Rate {
        self.estimate
    }

    /// Flows of a class that have something to send.
    #[must_use]
    pub fn backlogged(&self, class: usize) -> u32 {
        self.demands.get(class).map_or(0, |demand| demand.backlogged)
    }

    /// What a class is to have: none where it gets whatever there is.
    #[must_use]
    pub fn class_target(&self, class: usize) -> Option<Rate> {
        self.shares.of_class(class)
    }

    /// What all flows get together.
    fn total(&self) -> Rate {
        self.demands.iter().map(|demand| demand.rate).sum()
    }
}

/// A link of given capacity is congested, marks or not, from this part of it on.
const FULL: f64 = 0.97;

fn min(a: Rate, b: Rate) -> Rate {
    if a < b { a } else { b }
}

/// Eq. 1.
fn quality(target: Rate, rate: Rate) -> f64 {
    /// A flow that gets next to nothing is in deficit; how much does not matter.
    const MOST: f64 = 100.0;
    if rate.bytes() * MOST <= target.bytes() { MOST } else { target.bytes() / rate.bytes() }
}

/// Eq. 2, unsmoothed: the kernel's round-trip time is smoothed already.
fn flow_latency(rtt: Duration, target: Duration) -> f64 {
    rtt.as_secs_f64() / target.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests;
