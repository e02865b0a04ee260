//! The way of a queue pair's data (docs/sources.md, E2: QRDMA): its completions tell what has arrived
//! and how long it took, and the target itself keeps to the limits.

use std::sync::Arc;

use qtcp::completions::{Completions, LEAST_WINDOW, LinkLoad, Sampler};
#[cfg(any(feature = "rdma", test))]
use qtcp::device_limit::DeviceLimit;
use qtcp::pacing::{Answers, Pacing};
use qtcp::{Nanos, Observation, Rate};

use super::device_rate::DeviceRate;
#[cfg(any(feature = "rdma", test))]
use super::device_rate::SetRate;
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
    /// The limit that the device keeps, where it can.
    device: Option<DeviceRate>,
}

impl QueuePairPath {
    /// Makes the way of a queue pair of a device's port, whose packets have up to `mtu` bytes of data.
    #[cfg(any(feature = "rdma", test))]
    pub(crate) fn new(traffic: Arc<QueuePairTraffic>, port: (String, u8), mtu: u32) -> Self {
        let samplers = Both { out: Sampler::new(mtu), into: Sampler::new(mtu) };
        let (notifications, notified, device) = Default::default();
        Self { traffic, samplers, port, notifications, notified, device }
    }

    /// Has the device, which can keep such a limit, hold the queue pair back, too.
    #[cfg(any(feature = "rdma", test))]
    pub(crate) fn with_limit(self, limit: DeviceLimit, set: Box<dyn SetRate>) -> Self {
        Self { device: Some(DeviceRate::new(limit, set)), ..self }
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
        let Allowed { now, limits, rates, free, lately, .. } = *allowed;
        let most = |rate: Rate, limit: Option<Rate>| limit.map_or(rate, |limit| rate.max(limit));
        let out = self.samplers.out.window(most(rates.out, limits.out));
        let into = self.samplers.into.window(most(rates.into, limits.into));
        // The device holds back all that the queue pair sends: what is never held back, and the READs of
        // what a host writes, would wait behind the rest.
        let alone = !free.out && !lately.is_written_to(now);
        self.hold(limits.out.filter(|_| alone));
        pacing.set_out_rate(limits.out.map(Rate::whole));
        pacing.set_held(limits.out.is_some());
        pacing.hand_over(if free.out { Answers::All } else { Answers::Window(out) });
        pacing.set_r2t_rate(limits.into.map(Rate::whole));
        pacing.set_asked((!free.into).then_some(into));
    }

    /// Has the device hold the queue pair to about this rate of data, if it can keep a limit.
    fn hold(&mut self, rate: Option<Rate>) {
        if let Some(device) = &mut self.device
            && !device.follow(rate)
        {
            self.device = None;
        }
        self.samplers.out.held_to(self.device.as_ref().and_then(DeviceRate::data_rate));
    }

    /// Lets little be under way until it is known what the connection moves.
    pub(super) fn rest(&mut self, pacing: &Pacing) {
        self.samplers.out.rest();
        self.samplers.into.rest();
        pacing.hand_over(Answers::Window(LEAST_WINDOW));
        pacing.set_asked(Some(LEAST_WINDOW));
    }

    /// Lifts all limits.
    pub(super) fn lift(&mut self, pacing: &Pacing) {
        self.hold(None);
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
    use std::num::NonZeroU32;
    use std::sync::Mutex;
    use std::time::Duration;

    use qtcp::device_limit::DeviceRates;
    use qtcp::lately::Lately;

    use super::*;
    use crate::sync::lock;

    /// What a device was told, in kbit/s; it refuses limits where it is broken.
    #[derive(Clone, Debug, Default)]
    struct Told {
        calls: Arc<Mutex<Vec<u32>>>,
        broken: bool,
    }

    impl SetRate for Told {
        fn set(&self, rate: Option<NonZeroU32>) -> Result<(), String> {
            lock(&self.calls).push(rate.map_or(0, NonZeroU32::get));
            if self.broken { Err("invalid argument".to_owned()) } else { Ok(()) }
        }
    }

    /// A queue pair with packets of 4 KiB on a device.
    fn path(device: &Told) -> QueuePairPath {
        let rates = DeviceRates { least: NonZeroU32::MIN, most: NonZeroU32::MAX };
        let path = QueuePairPath::new(Arc::default(), ("none".to_owned(), 1), 4096);
        path.with_limit(DeviceLimit::new(rates, 4096), Box::new(device.clone()))
    }

    /// Allows a queue pair this rate of answers, in MB/s. `free` says whether it carries what is never
    /// held back, `writes` whether its host writes. Returns what the device was told.
    fn allow(
        path: &mut QueuePairPath,
        told: &Told,
        rate: Option<f64>,
        free: bool,
        writes: bool,
    ) -> Vec<u32> {
        let (pacing, now, mut lately) =
            (Pacing::default(), Nanos(1_000_000_000), Lately::default());
        if writes {
            lately.see(now, true, true);
        }
        let out = rate.map(|rate| Rate::new(rate * 1e6));
        path.allow(
            &pacing,
            &Allowed {
                now,
                limits: Both { out, into: None },
                rates: Both::default(),
                free: Both { out: free, into: false },
                rtt: Duration::from_millis(1),
                lately: &lately,
            },
        );
        assert_eq!(pacing.out_rate(), out.map(Rate::whole), "tokens hold in any case");
        std::mem::take(&mut *lock(&told.calls))
    }

    #[test]
    fn e2_a_device_that_can_holds_back_what_only_reads() {
        let told = Told::default();
        let mut path = path(&told);
        assert!(allow(&mut path, &told, None, false, false).is_empty());
        let [kbits] = allow(&mut path, &told, Some(10.0), false, false)[..] else {
            panic!("a call")
        };
        assert!((120_000..130_000).contains(&kbits), "{kbits} kbit/s, for 80 Mbit/s of data");
        assert!(allow(&mut path, &told, Some(10.5), false, false).is_empty(), "hardly more");
        assert_eq!(allow(&mut path, &told, Some(10.0), true, false), [0], "Urgent is with it");
        assert_eq!(allow(&mut path, &told, Some(10.0), false, false), [kbits]);
        assert_eq!(allow(&mut path, &told, Some(10.0), false, true), [0], "READs are with it");
        assert!(allow(&mut path, &told, Some(10.0), false, true).is_empty());
        allow(&mut path, &told, Some(10.0), false, false);
        path.lift(&Pacing::default());
        assert_eq!(*lock(&told.calls), [0]);
    }

    #[test]
    fn e2_a_device_that_refuses_a_limit_is_asked_no_more() {
        let told = Told { broken: true, ..Told::default() };
        let mut path = path(&told);
        let calls = allow(&mut path, &told, Some(10.0), false, false);
        assert!(matches!(calls[..], [limit, 0] if limit > 0), "and then lifted: {calls:?}");
        for rate in [Some(20.0), None, Some(1.0)] {
            assert!(allow(&mut path, &told, rate, false, false).is_empty());
        }
    }

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
