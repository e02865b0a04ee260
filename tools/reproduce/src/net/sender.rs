//! A sender: a window that a controller decides, clocked by acknowledgements.

use std::collections::VecDeque;
use std::time::Duration;

use crate::models::law::WindowControl;
use qtcp::{Nanos, Observation, Rate};
use sluice_sim::control::{Controller as _, FlowTarget};

use super::port::Packet;
use super::time::{MICRO, NANO, Time, seconds};

/// The number of transfers from which the needed throughput is computed.
const AHEAD: usize = 8;

/// The deadline of transfers, and the bounds of the target throughput that follows from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    /// The time that a transfer may take. A later one counts no more for the target.
    pub(crate) late: Time,
    /// The time that a transfer is intended to take.
    pub(crate) intended: Time,
    /// The least target throughput.
    pub(crate) least: Rate,
    /// The greatest target throughput.
    pub(crate) most: Rate,
}

/// The properties of a sender.
#[derive(Debug)]
pub(crate) struct SenderSetup {
    /// The time of an acknowledgement on its way back, where it waits in no queue.
    pub(crate) back: Time,
    /// Bytes of payload in a packet.
    pub(crate) payload: u32,
    /// Bytes of a packet on the wire.
    pub(crate) wire: u32,
    /// The class, if any.
    pub(crate) class: Option<usize>,
    /// The deadline of the sender's transfers, if any. Before each step the controller's target
    /// becomes the throughput that the transfers need to keep the deadline.
    pub(crate) deadline: Option<Deadline>,
    /// The controller of the window.
    pub(crate) controller: WindowControl,
}

/// A transfer: packets that the sender got at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    /// The time at which the sender got the transfer.
    pub(crate) given: Time,
    /// The number of the transfer's last packet, from 1.
    last: u64,
}

/// A round trip: the observations since the last step of the controller.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    began: Time,
    /// The number of the packet whose acknowledgement ends the round trip.
    last: u64,
    /// Whether the round trip began with nothing in flight. Such a round trip counts even if the
    /// data ends in it.
    whole: bool,
    delivered: u32,
    marked: u32,
    latencies: Time,
    limited: bool,
}

/// A sender with its receiver.
#[derive(Debug)]
pub(crate) struct Sender {
    setup: SenderSetup,
    number: u32,
    /// The window in whole packets.
    window: u64,
    /// Whether the sender always has something to send.
    endless: bool,
    /// The packets that the sender got, sent, and had acknowledged.
    given: u64,
    sent: u64,
    acked: u64,
    round: Round,
    /// Acknowledgements on their way back, as the packets that they are for.
    acks: VecDeque<Packet>,
    /// The transfers that are not complete.
    requests: VecDeque<Transfer>,
}

impl Sender {
    pub(crate) fn new(setup: SenderSetup, number: u32) -> Self {
        let window = whole(setup.controller.decision().window);
        Self {
            setup,
            number,
            window,
            endless: false,
            given: 0,
            sent: 0,
            acked: 0,
            round: Round::default(),
            acks: VecDeque::with_capacity(1024),
            requests: VecDeque::with_capacity(64),
        }
    }

    /// Makes the sender endless for the rest of the run.
    pub(crate) fn open(&mut self) {
        self.endless = true;
    }

    /// Removes all unsent data from the sender.
    pub(crate) fn close(&mut self) {
        self.endless = false;
        self.given = self.sent;
        self.requests.clear();
    }

    /// Adds a transfer of `bytes` bytes.
    pub(crate) fn give(&mut self, now: Time, bytes: u64) {
        self.given += bytes.div_ceil(u64::from(self.setup.payload)).max(1);
        self.requests.push_back(Transfer { given: now, last: self.given });
    }

    /// Sends the next packet, if the window allows one and there is one.
    #[inline]
    pub(crate) fn send(&mut self, now: Time) -> Option<Packet> {
        let flying = self.sent - self.acked;
        if flying >= self.window {
            return None;
        }
        if !self.endless && self.sent >= self.given {
            self.round.limited = true;
            return None;
        }
        if flying == 0 {
            // Nothing is under way: what went before says nothing of the round that begins.
            let last = self.sent + self.window;
            self.round = Round { began: now, last, whole: true, ..Round::default() };
        }
        self.sent += 1;
        let (flow, bytes) = (self.number, self.setup.wire);
        Some(Packet { flow, bytes, marked: false, sent: now })
    }

    /// Notes that a packet has arrived; its acknowledgement comes after [`SenderSetup::back`].
    #[inline]
    pub(crate) fn arrive(&mut self, packet: Packet) {
        self.acks.push_back(packet);
    }

    /// Returns whether the next acknowledgement is for a marked packet.
    #[inline]
    pub(crate) fn marked(&self) -> bool {
        self.acks.front().is_some_and(|packet| packet.marked)
    }

    /// Handles the next acknowledgement. Returns the transfer that it completes.
    #[inline]
    pub(crate) fn acknowledge(&mut self, now: Time) -> Option<Transfer> {
        let packet = self.acks.pop_front()?;
        self.acked += 1;
        self.round.delivered += 1;
        self.round.marked += u32::from(packet.marked);
        self.round.latencies = self.round.latencies.saturating_add(now - packet.sent);
        // The rest of a round that the data ended in is shorter than a round trip, and no measure.
        let ended = self.acked >= self.round.last || self.acked == self.sent && self.round.whole;
        if ended {
            self.step(now);
        }
        self.requests.pop_front_if(|request| request.last <= self.acked)
    }

    /// Ends a round trip: the controller steps.
    fn step(&mut self, now: Time) {
        let round = self.round;
        let seen = Observation {
            interval: Duration::from_nanos((now - round.began) / NANO),
            delivered: round.delivered,
            marked: round.marked,
            bytes: u64::from(round.delivered) * u64::from(self.setup.payload),
            rtt: Duration::from_nanos(round.latencies / u64::from(round.delivered.max(1)) / NANO),
            mss: self.setup.payload,
            app_limited: round.limited,
        };
        if let Some(deadline) = self.setup.deadline {
            self.setup.controller.set_target(self.needed(now, &deadline));
        }
        self.window = whole(self.setup.controller.step(Nanos(now / NANO), &seen).window);
        // The round ends with the first packet that is sent from now on, and so takes a round trip,
        // however the packets are bunched.
        self.round = Round { began: now, last: self.sent + 1, ..Round::default() };
    }

    /// Computes the throughput with which the transfers at hand keep their deadlines; `None` where
    /// all are late.
    fn needed(&self, now: Time, deadline: &Deadline) -> FlowTarget {
        let of = |request: &Transfer| {
            let left = (request.given + deadline.intended).saturating_sub(now).max(MICRO);
            let packets = request.last.saturating_sub(self.acked);
            packets as f64 * f64::from(self.setup.payload) / seconds(left)
        };
        let in_time = |request: &&Transfer| now - request.given <= deadline.late;
        let rates = self.requests.iter().filter(in_time).take(AHEAD).map(of);
        rates.reduce(f64::max).map_or(FlowTarget::None, |rate| {
            let (least, most) = (deadline.least.bytes(), deadline.most.bytes());
            FlowTarget::Throughput(Rate::new(rate.min(most).max(least)))
        })
    }

    /// Returns when each unfinished transfer was given.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Time> {
        self.requests.iter().map(|request| request.given)
    }

    /// Sets the target from now on.
    pub(crate) fn set_target(&mut self, target: FlowTarget) {
        self.setup.controller.set_target(target);
    }

    pub(crate) const fn setup(&self) -> &SenderSetup {
        &self.setup
    }
}

/// Rounds a window to whole packets, at least one.
fn whole(window: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    let packets = window as u64;
    packets.max(1)
}
