//! A sender with a window: TCP, as the kernel runs it (Linux 6.12).
//!
//! - [`control`]: the growth of the window, and its reaction to marks and losses; [`quality`]: the addition of Eq. 5.
//! - [`segments`]: the packets in flight, and which of them are lost.
//! - [`rtt`]: round trips, and the time-out.
//!
//! The window shrinks over a round trip, by proportional rate reduction (RFC 6937). Differences from the kernel: each
//! packet is acknowledged, so that no timer for delayed acknowledgements is needed; a flow that is paced sends packet
//! by packet where the kernel sends a millisecond's worth; there are no tail loss probes (a lost tail waits for the
//! time-out); the receiver's window is never full.

mod control;
mod quality;
mod rtt;
mod segments;

#[cfg(test)]
mod tests;

pub use self::control::Control;

use self::control::{LARGEST, State, Window};
use self::rtt::RoundTrips;
use self::segments::Segments;
use super::packet::Packet;
use super::stream::{Outgoing, Ready, Stream};
use super::time::{Picos, SECOND, time_at};

/// The window of a new flow in packets (RFC 6928).
const INITIAL: u32 = 10;

/// The sender's reaction to congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing: the window may grow.
    Open,
    /// Something was marked: the window shrinks until this place is acknowledged.
    Reducing(u64),
    /// Something was lost: the same, and it is sent again.
    Recovering(u64),
    /// The time-out was over: everything until this place is sent again, from a window of one.
    Lost(u64),
}

/// A reduction of the window in progress.
#[derive(Clone, Copy, Debug, Default)]
struct Reduction {
    /// The window before.
    prior: u32,
    /// Packets that were delivered since it began.
    delivered: u32,
    /// Packets that were sent since.
    sent: u32,
}

/// Whether the window was what limited the sender in the last round trip (`tcp_cwnd_validate`).
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    limited: bool,
    most: u32,
    until: u64,
}

/// The counts of a sender with a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Delivered {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) marked: u64,
    pub(super) retransmitted: u64,
}

#[derive(Debug)]
pub(super) struct WindowSender {
    /// The most bytes of a packet.
    segment: u32,
    ecn: bool,
    state: State,
    window: Window,
    /// The window up to which slow start goes, in packets.
    threshold: u32,
    phase: Phase,
    reduction: Reduction,
    used: Used,
    segments: Segments,
    trips: RoundTrips,
    pub(super) stream: Stream,
    pub(super) delivered: Delivered,
    /// Whether the next new packet tells the receiver that the sender has reacted.
    reacted: bool,
    /// The most bytes of the stream in a second.
    pacing: Option<f64>,
    /// The time before which pacing lets nothing go.
    not_before: Picos,
    /// The time at which packets in flight are treated as lost.
    time_out: Picos,
    last_sent: Picos,
    /// The count of delivered packets up to which the application limits the sender (`tcp_rate_check_app_limited`); 0:
    /// it does not.
    application_until: u64,
    /// Whether the last packet that was delivered was sent within that.
    application: bool,
}

impl WindowSender {
    pub(super) fn new(control: Control, segment: u32) -> Self {
        Self {
            segment,
            ecn: control.ecn(),
            state: State::new(control),
            window: Window::new(INITIAL),
            threshold: LARGEST,
            phase: Phase::Open,
            reduction: Reduction::default(),
            used: Used::default(),
            segments: Segments::default(),
            trips: RoundTrips::default(),
            stream: Stream::default(),
            delivered: Delivered::default(),
            reacted: false,
            pacing: None,
            not_before: 0,
            time_out: Picos::MAX,
            last_sent: 0,
            application_until: 0,
            application: false,
        }
    }

    /// Adds bytes to the stream.
    pub(super) const fn write(&mut self, bytes: u64) {
        let idle = self.stream.unsent() < self.segment as u64
            && self.segments.flying() < self.window.size
            && self.segments.lost() == 0;
        if idle {
            let until = self.delivered.packets + self.segments.flying() as u64;
            self.application_until = if until > 0 { until } else { 1 };
        }
        self.stream.written = self.stream.written.saturating_add(bytes);
    }

    /// Sets the most bytes in a second (SO_MAX_PACING_RATE).
    pub(super) fn pace(&mut self, now: Picos, bytes_per_second: Option<u64>) {
        self.pacing = bytes_per_second.map(|rate| rate as f64);
        // A lower previous rate must not delay packets that the new one permits.
        self.not_before = self.not_before.min(now.max(self.last_sent + self.spaced()));
    }

    /// Computes the time between two full packets under pacing: by the limit, or by the window if that is slower
    /// (`tcp_update_pacing_rate`).
    fn spaced(&self) -> Picos {
        self.time_of(self.segment)
    }

    #[inline]
    fn time_of(&self, bytes: u32) -> Picos {
        let Some(limit) = self.pacing else { return 0 };
        let mut rate = limit;
        if self.trips.smoothed > 0 {
            let packets = self.window.size.max(self.segments.flying());
            let factor = if self.window.size < self.threshold / 2 { 2.0 } else { 1.2 };
            let window = f64::from(packets) * f64::from(self.segment);
            rate = rate.min(factor * window * SECOND as f64 / self.trips.smoothed as f64);
        }
        time_at(bytes, rate)
    }

    /// Returns when there is a packet to send.
    #[inline]
    pub(super) fn ready(&self, now: Picos) -> Ready {
        let something = self.segments.lost() > 0 || self.stream.unsent() > 0;
        if !something || self.segments.flying() >= self.window.size {
            Ready::No
        } else if self.not_before > now {
            Ready::At(self.not_before)
        } else {
            Ready::Now
        }
    }

    /// Removes the next packet, if there is one to send now.
    #[inline]
    pub(super) fn packet(&mut self, now: Picos) -> Option<Outgoing> {
        if self.ready(now) != Ready::Now {
            return None;
        }
        let first = self.segments.is_empty();
        let outgoing = match self.segments.again() {
            Some((number, payload)) => {
                self.delivered.retransmitted += 1;
                Outgoing { number, payload, asks: false }
            }
            None => {
                if first {
                    self.restart(now);
                }
                let (number, payload) = (self.stream.sent, self.stream.next(self.segment));
                self.segments.add(number, payload, self.application_until > 0);
                self.stream.sent += u64::from(payload);
                Outgoing { number, payload, asks: core::mem::take(&mut self.reacted) }
            }
        };
        if first {
            self.time_out = now + self.trips.time_out();
        }
        self.reduction.sent = self.reduction.sent.saturating_add(1);
        self.note_use();
        if self.pacing.is_some() {
            self.not_before = now.max(self.not_before) + self.time_of(outgoing.payload);
        }
        self.last_sent = now;
        Some(outgoing)
    }

    /// Shrinks the window of a sender that has been silent (`tcp_cwnd_restart`): it halves for each elapsed time-out,
    /// at least to the window of a new flow.
    fn restart(&mut self, now: Picos) {
        let time_out = self.trips.time_out();
        let mut silent = now.saturating_sub(self.last_sent);
        if self.last_sent == 0 || silent <= time_out {
            return;
        }
        self.threshold = self.threshold.max(self.window.size / 4 * 3);
        let least = INITIAL.min(self.window.size);
        while silent > time_out && self.window.size > least {
            silent -= time_out;
            self.window.size /= 2;
        }
        self.window.size = self.window.size.max(least);
    }

    /// Notes whether the window is what limits the sender.
    #[inline]
    fn note_use(&mut self) {
        let flying = self.segments.flying();
        let limited = flying >= self.window.size;
        let over = self.stream.acknowledged >= self.used.until;
        if over || limited || !self.used.limited && flying > self.used.most {
            self.used = Used { limited, most: flying, until: self.stream.sent };
        }
    }

    /// Returns whether the window may grow (`tcp_is_cwnd_limited`).
    #[inline]
    fn limited(&self) -> bool {
        let slow_start = self.window.size < self.threshold;
        self.used.limited || slow_start && self.window.size < self.used.most.saturating_mul(2)
    }

    /// Handles an acknowledgement.
    #[inline]
    pub(super) fn acknowledge(&mut self, now: Picos, packet: &Packet) {
        let from = packet.number + u64::from(packet.block.0);
        let block = (from, from + u64::from(packet.block.1));
        let told = self.segments.acknowledge(packet.number, block);
        let advanced = packet.number > self.stream.acknowledged;
        self.stream.acknowledged = self.stream.acknowledged.max(packet.number);
        self.trips.add(now.saturating_sub(packet.sent));
        self.delivered.packets += u64::from(told.delivered);
        self.delivered.bytes += told.bytes;
        let marked = packet.marked && self.ecn;
        if marked {
            self.delivered.marked += u64::from(told.delivered);
        }
        if self.application_until > 0 && self.delivered.packets > self.application_until {
            self.application_until = 0;
        }
        let (una, sent) = (self.stream.acknowledged, self.stream.sent);
        let counts = (self.delivered.packets, self.delivered.marked);
        self.state.acknowledged(now, counts, (una, sent));
        if told.delivered > 0 {
            self.application = told.idle;
            self.time_out =
                if self.segments.is_empty() { Picos::MAX } else { now + self.trips.time_out() };
        }
        self.end_phase();
        let lost = self.segments.find_lost();
        if lost && matches!(self.phase, Phase::Open | Phase::Reducing(_)) {
            if self.phase == Phase::Open {
                self.threshold = self.state.lost(self.window.size);
                self.reduction = Reduction { prior: self.window.size, delivered: 0, sent: 0 };
            }
            self.reacted = true;
            self.phase = Phase::Recovering(sent);
        } else if marked && self.phase == Phase::Open {
            self.threshold = self.state.marked(self.window.size);
            self.reduction = Reduction { prior: self.window.size, delivered: 0, sent: 0 };
            self.reacted = true;
            self.phase = Phase::Reducing(sent);
        }
        match self.phase {
            Phase::Reducing(_) | Phase::Recovering(_) => {
                self.reduce(told.delivered, advanced && !lost);
            }
            Phase::Open | Phase::Lost(_) => {
                if told.acknowledged > 0 && self.limited() {
                    self.grow(now, told.acknowledged);
                }
            }
        }
    }

    /// Ends the reaction to congestion, once all data sent before it began is acknowledged.
    #[inline]
    fn end_phase(&mut self) {
        let una = self.stream.acknowledged;
        match self.phase {
            // A mark is answered once in a round trip: something sent since must be acknowledged.
            Phase::Reducing(until) if una > until || self.segments.is_empty() => {
                self.window.size = self.threshold;
                self.phase = Phase::Open;
            }
            Phase::Recovering(until) if una >= until => {
                self.window.size = self.threshold;
                self.phase = Phase::Open;
            }
            Phase::Lost(until) if una >= until => self.phase = Phase::Open,
            _ => {}
        }
    }

    /// Shrinks the window towards the threshold, as packets are delivered (RFC 6937, as
    /// `tcp_cwnd_reduction` has it). `whole` says that the stream goes on and nothing more is lost.
    fn reduce(&mut self, delivered: u32, whole: bool) {
        if delivered == 0 || self.reduction.prior == 0 {
            return;
        }
        let reduction = &mut self.reduction;
        reduction.delivered = reduction.delivered.saturating_add(delivered);
        let flying = self.segments.flying();
        let may = if flying > self.threshold {
            let part = u64::from(self.threshold) * u64::from(reduction.delivered);
            let part = part.div_ceil(u64::from(reduction.prior));
            u32::try_from(part).unwrap_or(u32::MAX).saturating_sub(reduction.sent)
        } else {
            let owed = reduction.delivered.saturating_sub(reduction.sent);
            (owed.max(delivered) + u32::from(whole)).min(self.threshold - flying)
        };
        // The first packet of a reduction goes at once.
        let may = may.max(u32::from(reduction.sent == 0));
        self.window.size = (flying + may).max(1);
    }

    /// Grows the window for acknowledged packets.
    #[inline]
    fn grow(&mut self, now: Picos, packets: u32) {
        let mut left = packets;
        if self.window.size < self.threshold {
            let size = self.window.size.saturating_add(packets).min(self.threshold);
            left -= size - self.window.size;
            self.window.size = size;
        }
        if left > 0 {
            self.state.grow(&mut self.window, left, now, self.trips.least);
        }
    }

    /// Returns the time at which something is taken for lost.
    #[inline]
    pub(super) const fn time_out(&self) -> Picos {
        self.time_out
    }

    /// Treats everything in flight as lost, if the time-out is over (`tcp_enter_loss`).
    pub(super) fn expire(&mut self, now: Picos) {
        if now < self.time_out {
            return;
        }
        if self.segments.is_empty() {
            self.time_out = Picos::MAX;
            return;
        }
        if !matches!(self.phase, Phase::Lost(until) if self.stream.acknowledged < until) {
            self.threshold = self.state.lost(self.window.size);
        }
        self.state.timed_out();
        self.segments.lose_all();
        self.window = Window::new(1);
        self.phase = Phase::Lost(self.stream.sent);
        self.trips.back_off();
        self.time_out = now + self.trips.time_out();
        self.not_before = self.not_before.min(now);
    }

    /// Returns the most bytes of a packet.
    pub(super) const fn segment(&self) -> u32 {
        self.segment
    }

    /// Returns the window in packets.
    pub(super) const fn window(&self) -> u32 {
        self.window.size
    }

    /// Returns the packets that are in the network, as far as is known.
    pub(super) const fn flying(&self) -> u32 {
        self.segments.flying()
    }

    /// Returns the smoothed round trip and the shortest; 0 before the first.
    pub(super) const fn trips(&self) -> (Picos, Picos) {
        (self.trips.smoothed, self.trips.least)
    }

    /// Returns whether the sender had less to send than it might have sent, when it sent the packet
    /// that was delivered last (`tcpi_delivery_rate_app_limited`).
    pub(super) const fn application_limited(&self) -> bool {
        self.application
    }
}
