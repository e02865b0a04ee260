//! The way of a queue pair's data on the machine: [`poller::QueuePairPath`] with the device that counts
//! notifications of congestion, and can keep a limit.

use std::sync::Arc;

use qtcp::completions::LinkLoad;
use qtcp::device_limit::DeviceLimit;
use qtcp::pacing::Pacing;
use qtcp::poller::QueuePairTraffic;
use qtcp::poller::{self, AllowedTraffic, Both, LookObservations};
use qtcp::{Nanos, Rate};

use super::device_rate::DeviceRate;
use super::device_rate::SetRate;
use super::notifications::{Notifications, Ports};

/// The way of a queue pair's data.
#[derive(Debug)]
pub(crate) struct QueuePairPath {
    path: poller::QueuePairPath,
    /// The name of its device, and the port.
    port: (String, u8),
    /// The counters of a device that counts notifications.
    notifications: Option<Arc<Notifications>>,
    /// The limit that the device keeps, where it can.
    device: Option<DeviceRate>,
}

impl QueuePairPath {
    /// Makes the way of a queue pair of a device's port, whose packets have up to `mtu` bytes of data.
    pub(crate) fn new(traffic: Arc<QueuePairTraffic>, port: (String, u8), mtu: u32) -> Self {
        let path = poller::QueuePairPath::new(traffic, mtu);
        Self { path, port, notifications: None, device: None }
    }

    /// Has the device, which can keep such a limit, hold the queue pair back, too.
    pub(crate) fn with_limit(self, limit: DeviceLimit, set: Box<dyn SetRate>) -> Self {
        Self { device: Some(DeviceRate::new(limit, set)), ..self }
    }

    /// Finds the counters of its port, if the device counts notifications.
    pub(super) fn begin(&mut self, ports: &mut Ports) {
        self.notifications = ports.find(&self.port.0, self.port.1);
    }

    /// Makes the observations since the last look.
    pub(super) fn look(&mut self, now: Nanos, link: &Both<LinkLoad>) -> LookObservations {
        let counted = self.notifications.as_ref().map(|counters| counters.read(now));
        self.path.look(now, link, counted)
    }

    /// Sets the rates, and the bytes that may be under way at them.
    pub(super) fn allow(&mut self, pacing: &Pacing, allowed: &AllowedTraffic<'_>) {
        let AllowedTraffic { now, limits, free, lately, .. } = *allowed;
        // The device holds back everything that the queue pair sends: traffic that is never held back, and the
        // READs of data that a host writes, would wait behind the rest.
        let alone = !free.out && !lately.is_written_to(now);
        self.hold(limits.out.filter(|_| alone));
        self.path.allow(pacing, allowed);
    }

    /// Has the device hold the queue pair to about this rate of data, if it can keep a limit.
    fn hold(&mut self, rate: Option<Rate>) {
        if let Some(device) = &mut self.device
            && !device.follow(rate)
        {
            self.device = None;
        }
        self.path.held_to(self.device.as_ref().and_then(DeviceRate::data_rate));
    }

    /// Lets little be under way until the connection's traffic is known.
    pub(super) fn rest(&mut self, pacing: &Pacing, start: &Both<u64>) {
        self.path.rest(pacing, start);
    }

    /// Lifts all limits.
    pub(super) fn lift(&mut self, pacing: &Pacing) {
        self.hold(None);
        self.path.lift(pacing);
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::Mutex;
    use std::time::Duration;

    use qtcp::device_limit::DeviceRates;
    use qtcp::lately::RecentEvents;

    use super::*;
    use crate::sys::sync::lock;

    /// The limits that a device was set to, in kbit/s; it refuses limits if it is broken.
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

    /// The traffic of a queue pair beside its reads.
    #[derive(Clone, Copy, PartialEq)]
    enum Beside {
        Nothing,
        /// Traffic that is never held back.
        Urgent,
        Writes,
    }
    use Beside::{Nothing, Urgent, Writes};

    /// Allows a queue pair this rate of answers, in MB/s. Returns the limits that the device was set to.
    fn allow(path: &mut QueuePairPath, told: &Told, rate: Option<f64>, beside: Beside) -> Vec<u32> {
        let (pacing, now, mut lately) =
            (Pacing::default(), Nanos(1_000_000_000), RecentEvents::default());
        if beside == Writes {
            lately.see(now, true, true);
        }
        let out = rate.map(|rate| Rate::new(rate * 1e6));
        let traffic = AllowedTraffic {
            now,
            limits: Both { out, into: None },
            rates: Both::default(),
            aims: Both::default(),
            free: Both { out: beside == Urgent, into: false },
            rtt: Duration::from_millis(1),
            lately: &lately,
        };
        path.allow(&pacing, &traffic);
        assert_eq!(pacing.out_rate(), out.map(Rate::whole), "tokens hold in any case");
        std::mem::take(&mut *lock(&told.calls))
    }

    #[test]
    fn e2_a_device_that_can_holds_back_what_only_reads() {
        let told = Told::default();
        let mut path = path(&told);
        assert!(allow(&mut path, &told, None, Nothing).is_empty());
        let [kbits] = allow(&mut path, &told, Some(10.0), Nothing)[..] else { panic!("a call") };
        assert!((120_000..130_000).contains(&kbits), "{kbits} kbit/s, for 80 Mbit/s of data");
        assert!(allow(&mut path, &told, Some(10.5), Nothing).is_empty(), "hardly more");
        for (beside, limits) in [
            (Urgent, &[0][..]),
            (Nothing, &[kbits]),
            (Writes, &[0]),
            (Writes, &[]),
            (Nothing, &[kbits]),
        ] {
            assert_eq!(allow(&mut path, &told, Some(10.0), beside), limits);
        }
        path.lift(&Pacing::default());
        assert_eq!(*lock(&told.calls), [0]);
    }

    #[test]
    fn e2_a_device_that_refuses_a_limit_is_asked_no_more() {
        let told = Told { broken: true, ..Told::default() };
        let mut path = path(&told);
        let calls = allow(&mut path, &told, Some(10.0), Nothing);
        assert!(matches!(calls[..], [limit, 0] if limit > 0), "and then lifted: {calls:?}");
        for rate in [Some(20.0), None, Some(1.0)] {
            assert!(allow(&mut path, &told, rate, Nothing).is_empty());
        }
    }
}
