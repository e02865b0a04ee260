//! Measurements of one flow on a link, and of the flows of a class together.

use core::time::Duration;

use units::{Average, Class, weight_of};

use crate::observation::G_RFC_8257;
use crate::{Nanos, Observation, Rate};

/// The parameters of measuring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// The time constant of smoothing (gamma in Eq. 1; g in Eq. 3 is 1/16 for each round trip): eight round trips at
    /// the least, and eighty at the most where these are shorter.
    pub smoothing: Duration,
    /// The least time for which marks count as congestion; six of the longest round trips if these are
    /// longer, up to half a second.
    pub memory: Duration,
}

impl Rules {
    /// Returns the time for which marks count as congestion of flows with this longest round trip,
    /// in seconds. Windows that marks have cut grow again until the next marks: on a link that is
    /// full, marks come once in several of the longest round trips.
    #[inline]
    pub(super) fn memory_on(&self, longest: f64) -> Duration {
        let trips = Duration::try_from_secs_f64(longest * MARKED_TRIPS).unwrap_or(LONGEST_MEMORY);
        self.memory.max(trips.min(LONGEST_MEMORY))
    }

    /// Returns the time for which marks count as fresh.
    #[inline]
    pub(super) fn fresh_on(&self, longest: f64) -> Duration {
        self.memory_on(longest) / 2
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self { smoothing: Duration::from_millis(40), memory: Duration::from_millis(50) }
    }
}

/// The number of longest round trips for which marks count as congestion.
const MARKED_TRIPS: f64 = 6.0;
/// The least time constant of smoothing: some looks.
const LEAST_SMOOTHING: Duration = Duration::from_millis(8);
/// The longest time for which marks count as congestion, unless the rules say more.
const LONGEST_MEMORY: Duration = Duration::from_millis(500);
/// The time after which a flow without marks is assumed to use another path than marked flows.
const APART: Duration = Duration::from_secs(1);
/// The time after which what such a flow has no longer counts for its class.
const ELSEWHERE: Duration = Duration::from_secs(10);
/// The time in which a flow may send at least one packet under any limit; or a round trip.
const SLOWEST: Duration = Duration::from_millis(40);
/// The part of its limit from which on a flow that pauses is held back by the limit, and wants more.
const HELD: f64 = 0.95;

/// The demand of one flow, or of all flows of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Demand {
    /// The throughput of the flow, or of all flows.
    pub(super) rate: Rate,
    /// The number of flows that would take more.
    pub(super) backlogged: u32,
    /// The throughput of the flows that have all they want.
    content: Rate,
    /// Bytes per second in which windows of flows that would take more make them faster in each second: by one
    /// packet in a round trip.
    pub(super) growth: f64,
}

impl Demand {
    #[inline]
    pub(super) fn put(&mut self, flow: &Self) {
        self.rate = self.rate + flow.rate;
        self.content = self.content + flow.content;
        self.backlogged += flow.backlogged;
        self.growth += flow.growth;
    }

    #[inline]
    pub(super) fn take(&mut self, flow: &Self) {
        self.rate = self.rate - flow.rate;
        self.content = self.content - flow.content;
        self.backlogged = self.backlogged.saturating_sub(flow.backlogged);
        self.growth -= flow.growth;
    }

    /// Computes the part of each flow of a class that would take more: an even part of what content
    /// flows leave, and half of an even part of the whole at the least, for content flows may grow.
    #[inline]
    pub(super) fn part_of_each(&self, whole: Rate) -> Rate {
        if self.backlogged == 0 {
            return whole;
        }
        let flows = 1.0 / f64::from(self.backlogged);
        let (even, rest) = (whole.times(flows), (whole - self.content).times(flows));
        rest.max(even.times(0.5))
    }
}

/// A flow of a class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) class: Class,
    alpha: Average,
    /// The smoothed rate in bytes per second.
    rate: Average,
    /// The part of the time in which it had data to send.
    waits: Average,
    marked_at: Option<Nanos>,
    /// Begin of the time in which the flow may have met a queue: its last mark, or its own begin.
    queued_at: Option<Nanos>,
    /// Whether it is assumed to meet no queue before its first mark.
    is_local: bool,
    pub(super) limit: Option<Rate>,
    /// The flow's part of its class's demand.
    pub(super) counted: Demand,
    /// Whether it counts towards its class's load on a full link. Data to a host on this machine,
    /// or behind another port, meets no queue and takes nothing from other flows.
    pub(super) is_queued: bool,
}

impl Flow {
    /// Creates a flow. `is_local`: it is assumed not to meet the link's queue before its first
    /// mark.
    pub(super) fn new(class: Class, is_local: bool) -> Self {
        let (rate, waits, counted) = Default::default();
        Self {
            class,
            alpha: Average::default().starting(0.0),
            rate,
            waits,
            marked_at: None,
            queued_at: None,
            is_local,
            limit: None,
            counted,
            is_queued: false,
        }
    }

    /// Returns the smoothed rate (Eq. 1).
    #[inline]
    pub(super) fn rate(&self) -> Rate {
        Rate::new(self.rate.value())
    }

    /// Returns the smoothed fraction of marked packets (Eq. 3).
    #[inline]
    pub(super) fn alpha(&self) -> f64 {
        self.alpha.value()
    }

    #[inline]
    pub(super) fn see(&mut self, rules: &Rules, now: Nanos, seen: &Observation) {
        let Some(rate) = seen.rate() else { return };
        let memory = rules
            .smoothing
            .min(seen.rtt.saturating_mul(80))
            .max(LEAST_SMOOTHING)
            .max(seen.rtt.saturating_mul(8));
        let weight = weight_of(seen.interval, memory);
        self.rate.add_by(rate.bytes(), weight);
        if seen.delivered > 0 {
            // Eq. 3 has its g for each round trip.
            let trips = seen.interval.as_secs_f64() / seen.rtt.as_secs_f64().max(1e-6);
            self.alpha.add_by(seen.mark_fraction(), G_RFC_8257 * trips.max(0.05));
        }
        if seen.marked > 0 {
            (self.marked_at, self.queued_at) = (Some(now), Some(now));
        } else if !self.is_local {
            self.queued_at.get_or_insert(now);
        }
        self.waits.add_by(if seen.app_limited { 0.0 } else { 1.0 }, weight);
        self.counted = self.demand(seen);
        self.is_queued = self.queued_at.is_some_and(|at| now.since(at) < ELSEWHERE);
    }

    fn demand(&self, seen: &Observation) -> Demand {
        let rate = self.rate();
        let is_held = self.limit.is_some_and(|limit| rate >= limit.times(HELD));
        if self.waits.value() < 0.5 && !is_held {
            return Demand { rate, content: rate, ..Demand::default() };
        }
        let growth =
            Rate::over(f64::from(seen.mss), seen.rtt).bytes() / seen.rtt.as_secs_f64().max(1e-6);
        Demand { rate, backlogged: 1, content: Rate::ZERO, growth }
    }

    /// Returns whether the flow meets the queue that others meet: one without marks has another
    /// way.
    #[inline]
    pub(super) fn shares_queue(&self, now: Nanos) -> bool {
        self.marked_at.is_some_and(|at| now.since(at) < APART)
    }

    /// Raises a limit so that it never stops the flow: a packet in each round trip is always allowed, or one in a
    /// longer time, since many flows have less than that where round trips are short.
    #[inline]
    pub(super) fn at_least_a_packet(&self, seen: &Observation, limit: Rate) -> Rate {
        limit.max(Rate::over(f64::from(seen.mss), seen.rtt.max(SLOWEST)))
    }
}
