//! The way of a queue pair's data (docs/sources.md, E2: QRDMA): its completions tell what has arrived
//! and how long it took, and the target itself keeps to the limits.

use std::sync::Arc;

use qtcp::completions::{Completions, LEAST_WINDOW, LinkLoad, Sampler};
use qtcp::pacing::{Answers, Pacing};
use qtcp::{Nanos, Observation, Rate};

use super::look::{Allowed, Both, Seen};
use super::notifications::{Notifications, Ports};

/// What has become of a queue pair's work requests, in both directions.
#[derive(Debug, Default)]
pub(crate) struct QueuePairTraffic {
    /// Of WRITEs, and of SENDs with them.
    pub(crate) out: Completions,
    /// Of READs.
    pub(crate) into: Completions,
}

/// The way of a queue pair's data.
#[derive(Debug)]
pub(crate) struct QueuePairPath {
    traffic: Arc<QueuePairTraffic>,
    samplers: Both<Sampler>,
    /// The name of its device, and the port.
    port: (String, u8),
    /// The counters of a device that counts notifications, and what they were at the last look.
    notifications: Option<Arc<Notifications>>,
    notified: Both<Option<u64>>,
}

impl QueuePairPath {
    /// Makes the way of a queue pair of a device's port, whose packets have up to `mtu` bytes of data.
    #[cfg(feature = "rdma")]
    pub(crate) fn new(traffic: Arc<QueuePairTraffic>, port: (String, u8), mtu: u32) -> Self {
        let samplers = Both { out: Sampler::new(mtu), into: Sampler::new(mtu) };
        Self { traffic, samplers, port, notifications: None, notified: Both::default() }
    }

    /// Finds the counters of its port, if the device counts notifications.
    pub(super) fn begin(&mut self, ports: &mut Ports) {
        self.notifications = ports.find(&self.port.0, self.port.1);
    }

    /// Makes the observations since the last look.
    pub(super) fn look(&mut self, now: Nanos, link: &Both<LinkLoad>) -> Seen {
        let Self { traffic, samplers, notifications, notified, .. } = self;
        let mut out = samplers.out.sample(now, &traffic.out, &link.out);
        let mut into = samplers.into.sample(now, &traffic.into, &link.into);
        if let Some(counters) = notifications {
            let counts = counters.read(now);
            count_marks(&mut out, &mut notified.out, counts.out);
            count_marks(&mut into, &mut notified.into, counts.into);
        }
        Seen { out, into, rtt: out.rtt.max(into.rtt), idle: true }
    }

    /// Sets the rates, and what may be under way at them: a quarter more than what the connection moves
    /// at its rate, or is allowed to. Of classes that are never held back, all that there is.
    pub(super) fn allow(&mut self, pacing: &Pacing, allowed: &Allowed<'_>) {
        let Allowed { limits, rates, free, .. } = *allowed;
        let most = |rate: Rate, limit: Option<Rate>| limit.map_or(rate, |limit| rate.max(limit));
        let out = self.samplers.out.window(most(rates.out, limits.out));
        let into = self.samplers.into.window(most(rates.into, limits.into));
        pacing.set_out_rate(limits.out.map(Rate::whole));
        pacing.set_held(limits.out.is_some());
        pacing.hand_over(if free.out { Answers::All } else { Answers::Window(out) });
        pacing.set_r2t_rate(limits.into.map(Rate::whole));
        pacing.set_asked((!free.into).then_some(into));
    }

    /// Lets little be under way until it is known what the connection moves.
    pub(super) fn rest(&mut self, pacing: &Pacing) {
        self.samplers.out.rest();
        self.samplers.into.rest();
        pacing.hand_over(Answers::Window(LEAST_WINDOW));
        pacing.set_asked(Some(LEAST_WINDOW));
    }

    /// Lifts all limits.
    #[expect(clippy::unused_self, reason = "sockets have the same method, which needs it")]
    pub(super) fn lift(&mut self, pacing: &Pacing) {
        pacing.set_out_rate(None);
        pacing.set_held(false);
        pacing.set_r2t_rate(None);
        pacing.set_asked(None);
        pacing.hand_over(Answers::All);
    }
}

/// Marks as much of what was observed as the device has counted marks since the last look, in place of
/// what the time in queues tells. The device counts those of all its queue pairs: which of them they
/// were, nobody says.
fn count_marks(seen: &mut Observation, before: &mut Option<u64>, now: Option<u64>) {
    let Some(now) = now else { return };
    let new = before.replace(now).map_or(0, |before| now.saturating_sub(before));
    seen.marked = u32::try_from(new).unwrap_or(u32::MAX).min(seen.delivered);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn e2_marks_that_a_device_counts_stand_in_place_of_time_in_queues() {
        let observation = Observation {
            interval: Duration::from_millis(5),
            delivered: 100,
            marked: 100,
            bytes: 100_000,
            rtt: Duration::from_millis(9),
            mss: 1024,
            app_limited: false,
        };
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
