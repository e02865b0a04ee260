//! A sender with a rate: a queue pair, as its adapter sends.
//!
//! The link or DCQCN (Zhu et al., SIGCOMM 2015; [`crate::control::Dcqcn`]) decides the rate: in a real network the
//! adapter runs DCQCN, not the daemon. After a loss, everything from the lost packet on is sent again (go back N), as
//! adapters for converged Ethernet do: once, so that a second loss waits for the time-out. Pauses are there to prevent
//! losses.

use core::time::Duration;

use qtcp::{Observation, Rate};

use crate::control::dcqcn::Settings;
use crate::control::{Controller as _, Dcqcn, FlowTarget, Qrdma};

use super::packet::Packet;
use super::stream::{Outgoing, Ready, Stream};
use super::time::{MICRO, NANO, Picos, nanos, time_at};

/// The control of a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RateControl {
    /// DCQCN with these settings, whose line rate should be the rate of the host's link.
    Dcqcn(Settings),
    /// QRDMA as its source prints it (docs/research/sources.md, E2; Eq. 6): the same, but that a notification cuts
    /// the rate by Q, too, where the flow has more than its target. No adapter has it: figures compare the
    /// daemon with it.
    Qrdma(Settings, FlowTarget),
    /// Nothing: the link's rate.
    Line,
}

impl RateControl {
    /// Makes DCQCN with the settings of its paper, on a link of so many bits per second.
    #[must_use]
    pub fn dcqcn(line_bits: u64) -> Self {
        Self::Dcqcn(Settings::of(Rate::from_bits(line_bits as f64)))
    }

    /// Makes QRDMA with the same settings, and a target in bits per second.
    #[must_use]
    pub fn qrdma(line_bits: u64, target_bits: f64) -> Self {
        let settings = Settings::of(Rate::from_bits(line_bits as f64));
        Self::Qrdma(settings, FlowTarget::Throughput(Rate::from_bits(target_bits)))
    }
}

/// The control that runs in an adapter.
#[derive(Debug)]
enum Reaction {
    Dcqcn(Box<Dcqcn>),
    /// With the time of the last look at the throughput, and the bytes that were sent since.
    Qrdma(Box<Qrdma>, Picos, u64),
}

impl Reaction {
    fn rate(&self) -> Rate {
        match self {
            Self::Dcqcn(control) => control.decision().rate,
            Self::Qrdma(control, ..) => control.decision().rate,
        }
    }

    /// Passes sent bytes and marks to the control, which catches up on its timers.
    #[inline]
    fn step(&mut self, now: Picos, bytes: u32, marked: u32) {
        let seen = |interval: Picos, bytes: u64| Observation {
            interval: Duration::from_nanos(interval / NANO),
            delivered: marked,
            marked,
            bytes,
            rtt: Duration::ZERO,
            mss: 0,
            app_limited: false,
        };
        match self {
            Self::Dcqcn(control) => _ = control.step(nanos(now), &seen(0, bytes.into())),
            Self::Qrdma(control, at, sent) => {
                *sent += u64::from(bytes);
                let since = now.saturating_sub(*at);
                // A notification comes where packets have just been sent: a throughput until then is of a
                // time of any length, and mostly too high.
                if since >= LOOK {
                    control.see(&seen(since, *sent));
                    (*at, *sent) = (now, 0);
                }
                control.step(nanos(now), &seen(0, bytes.into()));
            }
        }
    }
}

/// How many packets an acknowledgement stands for, while there is more to send.
const EVERY: u64 = 16;

/// The time after which unacknowledged data is sent again: 4.096 us * 2^14, the usual local acknowledgement time-out of
/// a queue pair (InfiniBand specification 1.4, section 9.7.6.1.3).
const TIME_OUT: Picos = (4096 << 14) * NANO;

/// The time after which a waiting sender looks at its rate again.
const LOOK: Picos = 55 * MICRO;

#[derive(Debug)]
pub(super) struct RateSender {
    /// The most bytes of a packet.
    segment: u32,
    control: Option<Reaction>,
    /// A limit beside it, in bytes per second (that a device keeps for a queue pair).
    limit: Option<f64>,
    pub(super) stream: Stream,
    /// Up to where it was sent before it was sent again.
    furthest: u64,
    /// The time at which the last packet was sent, and its bytes: the next one keeps its distance.
    last: Option<(Picos, u32)>,
    time_out: Picos,
    /// The smoothed round trip and the shortest; 0 before the first.
    trips: (Picos, Picos),
    /// Notifications of congestion that came.
    notified: u64,
    delivered: u64,
    retransmitted: u64,
}

impl RateSender {
    pub(super) fn new(control: RateControl, segment: u32) -> Self {
        let control = match control {
            RateControl::Line => None,
            // The receiver already enforces the distance of notifications. A notification that travelled a little
            // faster than its predecessor must count, too.
            RateControl::Dcqcn(settings) => {
                let settings = Settings { cnp_interval: Duration::ZERO, ..settings };
                Some(Reaction::Dcqcn(Box::new(Dcqcn::new(&settings))))
            }
            RateControl::Qrdma(settings, target) => {
                let mut control =
                    Qrdma::new(&Settings { cnp_interval: Duration::ZERO, ..settings });
                control.set_target(target);
                Some(Reaction::Qrdma(Box::new(control), 0, 0))
            }
        };
        Self {
            segment,
            control,
            limit: None,
            stream: Stream::default(),
            furthest: 0,
            last: None,
            time_out: Picos::MAX,
            trips: (0, 0),
            notified: 0,
            delivered: 0,
            retransmitted: 0,
        }
    }

    /// Adds bytes to the stream.
    pub(super) const fn write(&mut self, bytes: u64) {
        self.stream.written = self.stream.written.saturating_add(bytes);
    }

    /// Sets a limit in bytes per second.
    pub(super) fn pace(&mut self, bytes_per_second: Option<u64>) {
        self.limit = bytes_per_second.map(|rate| rate as f64);
    }

    /// Passes sent bytes and marks to the control, which catches up on its timers.
    #[inline]
    fn step(&mut self, now: Picos, bytes: u32, marked: u32) {
        if let Some(control) = &mut self.control {
            control.step(now, bytes, marked);
        }
    }

    /// Computes when the next packet may go.
    #[inline]
    fn not_before(&self) -> Picos {
        let Some((at, bytes)) = self.last else { return 0 };
        let rate = match (self.rate(), self.limit) {
            (Some(rate), Some(limit)) => rate.min(limit),
            (Some(rate), None) | (None, Some(rate)) => rate,
            (None, None) => return 0,
        };
        at + time_at(bytes, rate)
    }

    /// Returns when there is a packet to send.
    #[inline]
    pub(super) fn ready(&self, now: Picos) -> Ready {
        if self.stream.unsent() == 0 {
            return Ready::No;
        }
        let at = self.not_before();
        // The rate may have grown until then.
        if at > now { Ready::At(at.min(now + LOOK)) } else { Ready::Now }
    }

    /// Brings the rate up to date.
    #[inline]
    pub(super) fn look(&mut self, now: Picos) {
        self.step(now, 0, 0);
    }

    /// Removes the next packet, if there is one to send now.
    #[inline]
    pub(super) fn packet(&mut self, now: Picos) -> Option<Outgoing> {
        if self.ready(now) != Ready::Now {
            return None;
        }
        let (number, payload) = (self.stream.sent, self.stream.next(self.segment));
        if self.stream.acknowledged == self.stream.sent {
            self.time_out = now + TIME_OUT;
        }
        self.stream.sent += u64::from(payload);
        if self.stream.sent <= self.furthest {
            self.retransmitted += 1;
        }
        self.furthest = self.furthest.max(self.stream.sent);
        self.last = Some((now, payload));
        self.step(now, payload, 0);
        let asks = self.stream.unsent() == 0 || number / u64::from(self.segment) % EVERY == 0;
        Some(Outgoing { number, payload, asks })
    }

    /// Handles an acknowledgement; `again`: everything after it has to be sent again. Returns how many bytes it
    /// acknowledges.
    pub(super) fn acknowledge(&mut self, now: Picos, packet: &Packet, again: bool) -> u64 {
        let came = packet.number.saturating_sub(self.stream.acknowledged);
        self.delivered += came.div_ceil(u64::from(self.segment));
        self.stream.acknowledged += came;
        self.stream.sent = self.stream.sent.max(self.stream.acknowledged);
        let time = now.saturating_sub(packet.sent).max(1);
        self.trips = match self.trips {
            (0, _) => (time, time),
            (smoothed, least) => ((smoothed * 7 + time) / 8, least.min(time)),
        };
        if again {
            self.stream.sent = self.stream.acknowledged;
        }
        self.time_out = if self.stream.acknowledged == self.furthest {
            Picos::MAX
        } else if came > 0 || again {
            now + TIME_OUT
        } else {
            self.time_out
        };
        came
    }

    /// Handles a notification of congestion.
    pub(super) fn notify(&mut self, now: Picos) {
        self.notified += 1;
        self.step(now, 0, 1);
    }

    /// Returns the time at which unacknowledged data is sent again.
    #[inline]
    pub(super) const fn time_out(&self) -> Picos {
        self.time_out
    }

    /// Goes back to the first unacknowledged byte, if the time-out is over.
    pub(super) const fn expire(&mut self, now: Picos) {
        if now < self.time_out {
            return;
        }
        self.stream.sent = self.stream.acknowledged;
        self.time_out =
            if self.stream.acknowledged == self.furthest { Picos::MAX } else { now + TIME_OUT };
    }

    /// Returns the most bytes of a packet.
    pub(super) const fn segment(&self) -> u32 {
        self.segment
    }

    /// Returns the smoothed round trip and the shortest; 0 before the first.
    pub(super) const fn trips(&self) -> (Picos, Picos) {
        self.trips
    }

    /// Returns the number of acknowledged packets, of retransmitted packets, and of notifications.
    pub(super) const fn counts(&self) -> (u64, u64, u64) {
        (self.delivered, self.retransmitted, self.notified)
    }

    /// Returns the present rate in bytes per second; `None`: the link's.
    pub(super) fn rate(&self) -> Option<f64> {
        self.control.as_ref().map(|control| control.rate().bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::time::MILLI;

    #[test]
    fn a_notification_cuts_the_rate_and_sending_on_brings_it_back() {
        // 1 GB/s: a packet of 1000 bytes takes a microsecond.
        let settings = Settings::of(Rate::new(1e9));
        let mut sender = RateSender::new(RateControl::Dcqcn(settings), 1000);
        sender.write(1 << 40);
        assert_eq!(sender.rate(), Some(1e9));
        assert!(sender.packet(0).is_some());
        assert_eq!(sender.ready(0), Ready::At(MICRO));
        sender.notify(0);
        assert_eq!(sender.rate(), Some(0.5e9), "alpha is 1 at first: half");
        assert_eq!(sender.ready(0), Ready::At(2 * MICRO));
        // A notification that arrives before the end of its 50 us counts, too: three quarters of half are left.
        sender.notify(49 * MICRO);
        assert!(sender.rate().is_some_and(|rate| rate < 0.26e9));
        let (mut now, mut sent) = (49 * MICRO, 0);
        while now < MILLI {
            match sender.ready(now) {
                Ready::Now => sent += sender.packet(now).map_or(0, |packet| packet.payload),
                Ready::At(at) => now = at,
                Ready::No => unreachable!(),
            }
        }
        // Five rounds of 55 us halve the distance to the rate before the last cut; then it grows by 5 MB/s in each.
        assert!(sender.rate().is_some_and(|rate| rate > 0.49e9), "{:?}", sender.rate());
        assert!((420_000..500_000).contains(&sent), "{sent}");
    }

    #[test]
    fn the_quality_is_of_whole_looks_however_often_notifications_come() {
        // 1 GB/s in packets of 1000 bytes for 3.3 ms, with a target of 0.8 GB/s: Q is 0.8.
        let (settings, target) =
            (Settings::of(Rate::new(1e9)), FlowTarget::Throughput(Rate::new(0.8e9)));
        let mut sender = RateSender::new(RateControl::Qrdma(settings, target), 1000);
        sender.write(1 << 40);
        let mut now = 0;
        while now < 60 * LOOK {
            sender.packet(now);
            now += MICRO;
        }
        sender.notify(now);
        let quality = sender.rate().map_or(0.0, |rate| rate / 0.5e9);
        assert!((quality - 0.8).abs() < 0.02, "half, and by Q: {quality}");
        // A burst of packets just before the next one is not taken for the throughput.
        let before = sender.rate().unwrap_or_default();
        let at = now + 5 * MICRO;
        sender.step(at, 64_000, 0);
        sender.notify(at);
        let cut = sender.rate().unwrap_or_default() / before;
        assert!((0.3..0.5).contains(&cut), "{cut}");
    }

    #[test]
    fn a_limit_beside_the_control_counts_where_it_is_lower() {
        let mut sender = RateSender::new(RateControl::Line, 1000);
        sender.write(1 << 40);
        sender.packet(0);
        assert_eq!(sender.ready(0), Ready::Now, "the link's rate is the link's affair");
        sender.pace(Some(500_000_000));
        assert_eq!(sender.ready(0), Ready::At(2 * MICRO));
    }
}
