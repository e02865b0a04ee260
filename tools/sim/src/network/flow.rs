//! A flow: its limits, its counters, and its two ends.

use core::time::Duration;

use units::Nanos;

use super::node::{FlowId, NodeId};
use super::packet::Packet;
use super::rate::{RateControl, RateSender};
use super::receiver::{Manner, Receiver};
use super::stream::{Outgoing, Ready, Stream};
use super::time::{NANO, Picos};
use super::topology::{Packets, RDMA_HEADERS, TCP_HEADERS};
use super::window::{Control, WindowSender};

/// The limit of a sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sender {
    /// The kernel's TCP: a window, acknowledgements, retransmission.
    Window {
        /// The control of the window.
        control: Control,
    },
    /// A queue pair: a rate.
    Rate {
        /// The control of the rate.
        control: RateControl,
    },
}

/// A flow that is to be opened: one direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowSpec {
    /// The host that sends.
    pub from: NodeId,
    /// The host that receives.
    pub to: NodeId,
    /// The differentiated services code point of its packets; 46 (expedited forwarding) is Urgent.
    pub dscp: u8,
    /// The limit of the sender.
    pub sender: Sender,
    /// Bytes that are kept until they are acknowledged (SO_SNDBUF).
    pub send_buffer: u64,
    /// Bytes that may wait to be sent (TCP_NOTSENT_LOWAT); `None`: as many as the buffer has.
    pub notsent_lowat: Option<u64>,
}

/// The code point of Urgent.
pub const URGENT: u8 = 46;

/// A flow's counters and state, as a socket returns them by TCP_INFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowInfo {
    /// Packets that have arrived, as far as the sender knows.
    pub delivered: u64,
    /// Bytes of the stream that have arrived, as far as the sender knows.
    pub delivered_bytes: u64,
    /// Packets of them that carried a mark; of a sender with a rate, notifications that came.
    pub delivered_ce: u64,
    /// The smoothed round trip; zero before the first.
    pub srtt: Duration,
    /// The shortest round trip; zero before the first.
    pub min_rtt: Duration,
    /// The most bytes of the stream in a packet.
    pub mss: u32,
    /// The window in packets; `u32::MAX` of a sender with a rate.
    pub cwnd: u32,
    /// Bytes that were written and not sent.
    pub unsent: u64,
    /// Packets on their way, as far as the sender knows.
    pub in_flight: u32,
    /// Whether the sender had less to send than it might have sent.
    pub app_limited: bool,
    /// Packets that were sent again.
    pub retransmitted: u64,
    /// The rate of a sender with a rate, in bytes per second; `None`: the rate of the link.
    pub rate: Option<u64>,
    /// Packets that the receiver has found marked, where the sender has a rate.
    pub received_ce: u64,
}

/// An event for an end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The receiver's stream has so many bytes more, in order.
    Arrived {
        /// When.
        at: Nanos,
        /// Of which flow.
        flow: FlowId,
        /// How many bytes.
        bytes: u64,
    },
    /// The send buffer, which was full, has room again: a third of it, and fewer bytes than half of
    /// `notsent_lowat` wait to be sent (Linux's `tcp_stream_memory_free` when it wakes).
    Writable {
        /// When.
        at: Nanos,
        /// Of which flow.
        flow: FlowId,
    },
    /// The sender of a flow with a rate, a queue pair's, knows that so many bytes more have arrived.
    Acknowledged {
        /// When.
        at: Nanos,
        /// Of which flow.
        flow: FlowId,
        /// How many bytes.
        bytes: u64,
    },
}

impl Event {
    /// Returns the flow that hears of it.
    #[must_use]
    pub const fn flow(self) -> FlowId {
        match self {
            Self::Arrived { flow, .. }
            | Self::Writable { flow, .. }
            | Self::Acknowledged { flow, .. } => flow,
        }
    }
}

/// The sender's end.
#[derive(Debug)]
enum End {
    Window(Box<WindowSender>),
    Rate(Box<RateSender>),
}

#[derive(Debug)]
pub(super) struct Flow {
    end: End,
    receiver: Receiver,
    pub(super) urgent: bool,
    /// Whether its packets may be marked.
    pub(super) capable: bool,
    /// Bytes of headers in each packet.
    pub(super) headers: u32,
    send_buffer: u64,
    lowat: u64,
    /// Whether the writer found no room.
    full: bool,
    /// Whether the flow is in its host's turn ([`super::port::Port::ready`]).
    pub(super) listed: bool,
    /// Whether it is closed, and waits for its packets to be gone.
    pub(super) closed: bool,
    /// Its packets that are in the network.
    pub(super) packets: u32,
    /// The times at which its timers are announced.
    pub(super) paced_at: Picos,
    /// See [`Self::paced_at`].
    pub(super) expires_at: Picos,
}

impl Flow {
    pub(super) fn new(spec: &FlowSpec, packets: Packets) -> Self {
        let (end, manner, capable, headers) = match spec.sender {
            Sender::Window { control } => {
                let each = matches!(control, Control::Dctcp | Control::Qtcp { .. });
                let manner = if each { Manner::Each } else { Manner::Latched };
                let end = WindowSender::new(control, packets.segment());
                (End::Window(Box::new(end)), manner, control.ecn(), TCP_HEADERS)
            }
            Sender::Rate { control } => {
                let end = RateSender::new(control, packets.message());
                let capable = control != RateControl::Line;
                (End::Rate(Box::new(end)), Manner::Again, capable, RDMA_HEADERS)
            }
        };
        Self {
            end,
            receiver: Receiver::new(manner),
            urgent: spec.dscp == URGENT,
            capable,
            headers,
            send_buffer: spec.send_buffer,
            lowat: spec.notsent_lowat.unwrap_or(u64::MAX),
            full: false,
            listed: false,
            closed: false,
            packets: 0,
            paced_at: Picos::MAX,
            expires_at: Picos::MAX,
        }
    }

    #[inline]
    const fn stream(&self) -> &Stream {
        match &self.end {
            End::Window(sender) => &sender.stream,
            End::Rate(sender) => &sender.stream,
        }
    }

    #[inline]
    pub(super) const fn receiver(&mut self) -> &mut Receiver {
        &mut self.receiver
    }

    /// Returns the bytes that the send buffer takes now.
    pub(super) fn room(&self) -> u64 {
        let stream = self.stream();
        let buffer = self.send_buffer.saturating_sub(stream.kept());
        buffer.min(self.lowat.saturating_sub(stream.unsent()))
    }

    /// Sets the bytes that may wait to be sent.
    pub(super) fn set_lowat(&mut self, bytes: Option<u64>) {
        self.lowat = bytes.unwrap_or(u64::MAX);
        // A writer that found no room is notified when there is some.
        self.full |= self.room() == 0;
    }

    /// Adds bytes to the stream.
    pub(super) fn write(&mut self, bytes: u64) {
        match &mut self.end {
            End::Window(sender) => sender.write(bytes),
            End::Rate(sender) => sender.write(bytes),
        }
        self.full = self.room() == 0;
    }

    /// Returns, once, whether the send buffer that was full has room again.
    #[inline]
    pub(super) fn writable(&mut self) -> bool {
        if !self.full {
            return false;
        }
        let stream = self.stream();
        let kept = stream.kept();
        let free = self.send_buffer.saturating_sub(kept);
        let room =
            free > 0 && free >= kept / 2 && stream.unsent() <= self.lowat.saturating_sub(1) / 2;
        self.full = !room;
        room
    }

    /// Limits the flow to a rate in bytes per second.
    pub(super) fn pace(&mut self, now: Picos, rate: Option<u64>) {
        match &mut self.end {
            End::Window(sender) => sender.pace(now, rate),
            End::Rate(sender) => sender.pace(rate),
        }
    }

    /// Returns when the sender has a packet for the link.
    #[inline]
    pub(super) fn ready(&self, now: Picos) -> Ready {
        if self.closed {
            return Ready::No;
        }
        match &self.end {
            End::Window(sender) => sender.ready(now),
            End::Rate(sender) => sender.ready(now),
        }
    }

    /// Removes the sender's next packet.
    #[inline]
    pub(super) fn packet(&mut self, now: Picos) -> Option<Outgoing> {
        if self.closed {
            return None;
        }
        match &mut self.end {
            End::Window(sender) => sender.packet(now),
            End::Rate(sender) => sender.packet(now),
        }
    }

    /// Handles an acknowledgement. Returns how many bytes more are known to have arrived, for a sender with a rate
    /// ([`Event::Acknowledged`]), and otherwise 0.
    #[inline]
    pub(super) fn acknowledge(&mut self, now: Picos, packet: &Packet, again: bool) -> u64 {
        match &mut self.end {
            End::Window(sender) => {
                sender.acknowledge(now, packet);
                0
            }
            End::Rate(sender) => sender.acknowledge(now, packet, again),
        }
    }

    /// Handles a notification of congestion.
    pub(super) fn notify(&mut self, now: Picos) {
        if let End::Rate(sender) = &mut self.end {
            sender.notify(now);
        }
    }

    /// Brings a rate up to date.
    #[inline]
    pub(super) fn look(&mut self, now: Picos) {
        if let End::Rate(sender) = &mut self.end {
            sender.look(now);
        }
    }

    /// Returns the time at which something is taken for lost.
    #[inline]
    pub(super) const fn time_out(&self) -> Picos {
        match &self.end {
            _ if self.closed => Picos::MAX,
            End::Window(sender) => sender.time_out(),
            End::Rate(sender) => sender.time_out(),
        }
    }

    /// Treats unacknowledged packets as lost, if the time-out is over.
    pub(super) fn expire(&mut self, now: Picos) {
        match &mut self.end {
            End::Window(sender) => sender.expire(now),
            End::Rate(sender) => sender.expire(now),
        }
    }

    /// Returns the flow's counters and state.
    pub(super) fn info(&self) -> FlowInfo {
        let time = |time: Picos| Duration::from_nanos(time / NANO);
        let unsent = self.stream().unsent();
        match &self.end {
            End::Window(sender) => {
                let (srtt, min_rtt) = sender.trips();
                FlowInfo {
                    delivered: sender.delivered.packets,
                    delivered_bytes: sender.delivered.bytes,
                    delivered_ce: sender.delivered.marked,
                    srtt: time(srtt),
                    min_rtt: time(min_rtt),
                    mss: sender.segment(),
                    cwnd: sender.window(),
                    unsent,
                    in_flight: sender.flying(),
                    app_limited: sender.application_limited(),
                    retransmitted: sender.delivered.retransmitted,
                    rate: None,
                    received_ce: 0,
                }
            }
            End::Rate(sender) => {
                let (srtt, min_rtt) = sender.trips();
                let (delivered, retransmitted, delivered_ce) = sender.counts();
                let stream = sender.stream;
                let flying = stream.sent - stream.acknowledged;
                let flying = flying.div_ceil(u64::from(sender.segment()));
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a rate"
                )]
                let rate = sender.rate().map(|rate| rate as u64);
                FlowInfo {
                    delivered,
                    delivered_bytes: stream.acknowledged,
                    delivered_ce,
                    srtt: time(srtt),
                    min_rtt: time(min_rtt),
                    mss: sender.segment(),
                    cwnd: u32::MAX,
                    unsent,
                    in_flight: u32::try_from(flying).unwrap_or(u32::MAX),
                    app_limited: unsent == 0,
                    retransmitted,
                    rate,
                    received_ce: self.receiver.marked(),
                }
            }
        }
    }
}
