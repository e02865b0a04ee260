//! The transport of a queue pair's data (docs/research/sources.md, E2): its completions report arrivals and
//! their delay, and the target itself keeps to the limits.

use std::sync::Arc;

use super::look::{AllowedTraffic, Both, LookObservations};
use crate::completions::{Completions, LinkLoad, Meter, Posted, Sampler};
use crate::pacing::{Answers, Pacing};
use crate::{Nanos, Observation, Rate};

/// The progress of a queue pair's work requests, in both directions.
#[derive(Debug, Default)]
pub struct QueuePairTraffic {
    /// Of WRITEs, and of SENDs with them.
    pub out: Completions,
    /// Of READs.
    pub into: Completions,
}

/// The meters by which the poster of a queue pair's work requests fills its [`QueuePairTraffic`].
#[derive(Debug, Default)]
pub struct QueuePairMeters {
    out: Meter,
    into: Meter,
    traffic: Arc<QueuePairTraffic>,
}

impl QueuePairMeters {
    /// Returns the counters that the meters fill.
    #[must_use]
    pub fn traffic(&self) -> Arc<QueuePairTraffic> {
        Arc::clone(&self.traffic)
    }

    /// Counts WRITEs and SENDs of `bytes` bytes as posted. Returns what
    /// [`Self::complete_out`] takes when they are complete.
    pub fn post_out(&mut self, now: Nanos, bytes: u64) -> Posted {
        self.out.post(now, bytes)
    }

    /// Counts a READ of `bytes` bytes as posted. Returns what [`Self::complete_into`] takes when it
    /// is complete.
    pub fn post_into(&mut self, now: Nanos, bytes: u64) -> Posted {
        self.into.post(now, bytes)
    }

    /// Counts WRITEs and SENDs as complete.
    pub fn complete_out(&mut self, now: Nanos, posted: Posted) {
        self.out.complete(now, posted, &self.traffic.out);
    }

    /// Counts a READ as complete.
    pub fn complete_into(&mut self, now: Nanos, posted: Posted) {
        self.into.complete(now, posted, &self.traffic.into);
    }
}

/// The way of a queue pair's data.
#[derive(Debug)]
pub struct QueuePairPath {
    traffic: Arc<QueuePairTraffic>,
    samplers: Both<Sampler>,
    /// The notifications of congestion that the device had counted at the last look.
    notified: Both<Option<u64>>,
}

impl QueuePairPath {
    /// Makes the way of a queue pair whose packets have up to `mtu` bytes of data.
    #[must_use]
    pub fn new(traffic: Arc<QueuePairTraffic>, mtu: u32) -> Self {
        let samplers = Both { out: Sampler::new(mtu), into: Sampler::new(mtu) };
        Self { traffic, samplers, notified: Both::default() }
    }

    /// Takes the rate of data to which the device holds the queue pair from now on; `None`: to none.
    pub fn held_to(&mut self, rate: Option<Rate>) {
        self.samplers.out.held_to(rate);
    }

    /// Makes the observations since the last look. `notified` has the device's own counts of
    /// congestion, if it has any, which replace the time in queues: for sent data, notifications;
    /// for received data, marked packets.
    pub fn look(
        &mut self,
        now: Nanos,
        link: &Both<LinkLoad>,
        notified: Option<Both<Option<u64>>>,
    ) -> LookObservations {
        let Self { traffic, samplers, notified: before } = self;
        let mut out = samplers.out.sample(now, &traffic.out, &link.out);
        let mut into = samplers.into.sample(now, &traffic.into, &link.into);
        if let Some(counts) = notified {
            count_marks(&mut out, &mut before.out, counts.out);
            count_marks(&mut into, &mut before.into, counts.into);
        }
        LookObservations {
            out,
            into,
            rtt: out.rtt.max(into.rtt),
            idle: true,
            asked: false,
            local: false,
        }
    }

    /// Sets the rates, and the bounds on data in flight: a quarter more than the connection moves
    /// at its rate, or its aim. Classes that are never held back have no bound.
    pub fn allow(&self, pacing: &Pacing, allowed: &AllowedTraffic<'_>) {
        let AllowedTraffic { limits, aims, free, .. } = *allowed;
        let most = |rate: Rate, limit: Option<Rate>| limit.map_or(rate, |limit| rate.max(limit));
        let out = self.samplers.out.window(most(aims.out, limits.out));
        let into = self.samplers.into.window(most(aims.into, limits.into));
        pacing.set_out_rate(limits.out.map(Rate::whole));
        pacing.set_held(limits.out.is_some());
        pacing.hand_over(if free.out { Answers::All } else { Answers::Window(out) });
        pacing.set_r2t_rate(limits.into.map(Rate::whole));
        pacing.set_asked((!free.into).then_some(into));
    }

    /// Bounds data in flight to this many bytes until the connection's traffic is known.
    pub fn rest(&mut self, pacing: &Pacing, start: &Both<u64>) {
        self.samplers.out.rest();
        self.samplers.into.rest();
        pacing.hand_over(Answers::Window(start.out));
        pacing.set_asked(Some(start.into));
    }

    /// Lifts all limits.
    pub fn lift(&self, pacing: &Pacing) {
        pacing.set_out_rate(None);
        pacing.set_held(false);
        pacing.set_r2t_rate(None);
        pacing.set_asked(None);
        pacing.hand_over(Answers::All);
    }
}

/// Marks as much of the observed data as the device has counted marks since the last look, in place
/// of the estimate from the time in queues. The device counts the marks of all its queue pairs
/// together, and does not attribute them.
fn count_marks(seen: &mut Observation, before: &mut Option<u64>, now: Option<u64>) {
    let Some(now) = now else { return };
    let new = before.replace(now).map_or(0, |before| now.saturating_sub(before));
    seen.marked = u32::try_from(new).unwrap_or(u32::MAX).min(seen.delivered);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e2_device_marks_replace_queueing_time() {
        let observation = Observation { marked: 100, ..Observation::SEEN };
        let mut before = None;
        for (counted, marked) in [
            (Some(50), 0),
            (Some(50), 0),
            (Some(57), 7),
            (Some(900), 100),
            (None, 100),
            (Some(3), 0),
        ] {
            let mut seen = observation;
            count_marks(&mut seen, &mut before, counted);
            assert_eq!(seen.marked, marked, "{counted:?}");
        }
    }
}
