//! An output port: its queues, and the link behind it.

use core::time::Duration;
use std::collections::VecDeque;

use units::Nanos;

use super::node::NodeId;
use super::packet::{Packet, PerQueue, Queue};
use super::time::{NANO, Picos, time_of};
use super::topology::{Link, PAUSE_FRAME};

/// Counters of a port so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortCounters {
    /// The node that sends.
    pub from: NodeId,
    /// The node at the far end.
    pub to: NodeId,
    /// Packets that were sent.
    pub packets: u64,
    /// Bytes of their IP packets.
    pub bytes: u64,
    /// Packets that were marked here.
    pub marked: u64,
    /// Packets that found no room here.
    pub dropped: u64,
    /// Packets that were lost at random.
    pub lost: u64,
    /// Packets that wait now, without the one in transmission.
    pub waiting: u64,
    /// Their bytes.
    pub queue: u64,
    /// The most bytes that have waited.
    pub most: u64,
    /// The time that all packets together have waited.
    pub waited: Duration,
    /// How often the far end has paused this port.
    pub pauses: u64,
    /// The time that the packets which were sent took, with their frames.
    pub busy: Duration,
}

/// A port. That of a host asks its flows for packets, which so wait in the flows and not here; only
/// acknowledgements wait in a host's queues.
#[derive(Debug)]
pub(super) struct Port {
    /// Bits per second.
    rate: u64,
    /// The time of a bit to the far end.
    delay: Picos,
    /// Bytes of a frame beside the IP packet.
    frame: u32,
    /// Whether Urgent goes first.
    priority: bool,
    queues: PerQueue<VecDeque<Packet>>,
    /// Bytes that wait.
    queued: PerQueue<u64>,
    /// The packets that were sent and have not arrived yet, with the times at which they do.
    flying: VecDeque<(Picos, Packet)>,
    /// The time at which the transmission in progress ends.
    free_at: Picos,
    /// Whether the end of the transmission in progress is announced.
    pub(super) announced: bool,
    /// The queues that the far end has paused.
    pub(super) paused: PerQueue<bool>,
    /// Flows of the host that have something to send; each queue serves its flows in turn.
    pub(super) ready: PerQueue<VecDeque<u32>>,
    /// Bytes that came over this link and wait at the far end; kept where there are pauses.
    pub(super) held: PerQueue<u64>,
    /// Whether the far end has sent a pause.
    pub(super) pausing: PerQueue<bool>,
    counters: PortCounters,
    /// The packets that wait times the time since they were that many, added up, in picoseconds.
    waited: u128,
    /// The time at which that was brought up to date.
    changed: Picos,
}

impl Port {
    /// Makes the idle port of a link from one node to another.
    pub(super) fn new([from, to]: [NodeId; 2], link: Link, frame: u32, priority: bool) -> Self {
        Self {
            rate: link.rate.max(1),
            delay: units::nanos(link.delay).saturating_mul(NANO),
            frame,
            priority,
            queues: PerQueue::default(),
            queued: PerQueue::default(),
            flying: VecDeque::new(),
            free_at: 0,
            announced: false,
            paused: PerQueue::default(),
            ready: PerQueue::default(),
            held: PerQueue::default(),
            pausing: PerQueue::default(),
            counters: PortCounters {
                from,
                to,
                packets: 0,
                bytes: 0,
                marked: 0,
                dropped: 0,
                lost: 0,
                waiting: 0,
                queue: 0,
                most: 0,
                waited: Duration::ZERO,
                pauses: 0,
                busy: Duration::ZERO,
            },
            waited: 0,
            changed: 0,
        }
    }

    /// Returns the node that sends.
    #[inline]
    pub(super) const fn from(&self) -> NodeId {
        self.counters.from
    }

    /// Returns the node at the far end.
    #[inline]
    pub(super) const fn to(&self) -> NodeId {
        self.counters.to
    }

    /// Returns the queue for packets of Urgent, or for others.
    #[inline]
    pub(super) const fn queue(&self, urgent: bool) -> Queue {
        if urgent && self.priority { Queue::Urgent } else { Queue::Other }
    }

    /// Returns whether a packet would be sent at once.
    #[inline]
    pub(super) fn idle(&self, now: Picos, queue: Queue) -> bool {
        self.free_at <= now && self.counters.waiting == 0 && !self.paused[queue]
    }

    /// Returns the time at which the transmission in progress ends.
    #[inline]
    pub(super) const fn free_at(&self) -> Picos {
        self.free_at
    }

    /// Returns the bytes that wait in a queue.
    #[inline]
    pub(super) fn queued(&self, queue: Queue) -> u64 {
        self.queued[queue]
    }

    /// Returns the packets that wait in a queue.
    #[inline]
    pub(super) fn length(&self, queue: Queue) -> usize {
        self.queues[queue].len()
    }

    /// Returns whether something waits, in a queue or in a flow.
    #[inline]
    pub(super) fn wanted(&self) -> bool {
        self.counters.waiting > 0 || Queue::ALL.iter().any(|queue| !self.ready[*queue].is_empty())
    }

    /// Adds a packet to its queue.
    #[inline]
    pub(super) fn join(&mut self, now: Picos, packet: Packet) {
        self.wait(now);
        self.counters.waiting += 1;
        self.counters.queue += u64::from(packet.bytes);
        self.counters.most = self.counters.most.max(self.counters.queue);
        self.queued[packet.queue] += u64::from(packet.bytes);
        self.queues[packet.queue].push_back(packet);
    }

    /// Removes the first packet of a queue.
    #[inline]
    pub(super) fn leave(&mut self, now: Picos, queue: Queue) -> Option<Packet> {
        let packet = self.queues[queue].pop_front()?;
        self.wait(now);
        self.counters.waiting -= 1;
        self.counters.queue -= u64::from(packet.bytes);
        self.queued[queue] -= u64::from(packet.bytes);
        Some(packet)
    }

    /// Counts the time that what waits has waited.
    #[inline]
    fn wait(&mut self, now: Picos) {
        let time = now.saturating_sub(self.changed);
        self.waited += u128::from(self.counters.waiting) * u128::from(time);
        self.changed = now;
    }

    /// Sends a packet. Returns the time at which it arrives, if nothing arrives before it.
    #[inline]
    pub(super) fn send(&mut self, now: Picos, packet: Packet) -> Option<Picos> {
        self.counters.packets += 1;
        self.counters.bytes += u64::from(packet.bytes);
        self.free_at = now + time_of(packet.bytes + self.frame, self.rate);
        let arrives = self.free_at + self.delay;
        self.flying.push_back((arrives, packet));
        (self.flying.len() == 1).then_some(arrives)
    }

    /// Removes the packet that arrives next. Returns it, and when the one after it arrives.
    #[inline]
    pub(super) fn land(&mut self) -> Option<(Packet, Option<Picos>)> {
        let (_, packet) = self.flying.pop_front()?;
        Some((packet, self.flying.front().map(|(at, _)| *at)))
    }

    /// Computes how long a pause takes from the far end to here.
    #[inline]
    pub(super) fn pause_travels(&self) -> Picos {
        let frame = u32::try_from(PAUSE_FRAME).unwrap_or(u32::MAX);
        time_of(frame, self.rate) + self.delay
    }

    /// Counts a packet that was marked here.
    #[inline]
    pub(super) const fn count_mark(&mut self) {
        self.counters.marked += 1;
    }

    /// Counts a packet that found no room.
    pub(super) const fn count_drop(&mut self) {
        self.counters.dropped += 1;
    }

    /// Counts a packet that was lost at random.
    pub(super) const fn count_loss(&mut self) {
        self.counters.lost += 1;
    }

    pub(super) const fn count_pause(&mut self) {
        self.counters.pauses += 1;
    }

    /// Returns how many packets are on the link.
    pub(super) fn flying(&self) -> usize {
        self.flying.len()
    }

    /// Returns the port's counters until now.
    pub(super) fn counters(&self, now: Picos) -> PortCounters {
        let time = now.saturating_sub(self.changed);
        let waited = self.waited + u128::from(self.counters.waiting) * u128::from(time);
        let waited = u64::try_from(waited / u128::from(NANO)).unwrap_or(u64::MAX);
        let frames = self.counters.packets.saturating_mul(u64::from(self.frame));
        let bits = u128::from(self.counters.bytes.saturating_add(frames)) * 8;
        let busy = bits * 1_000_000_000 / u128::from(self.rate.max(1));
        let busy = u64::try_from(busy).unwrap_or(u64::MAX);
        let since_start = |ns| Nanos(ns).since(Nanos::ZERO);
        PortCounters { waited: since_start(waited), busy: since_start(busy), ..self.counters }
    }
}
