//! The buffer of a switch, and its marks.

use super::packet::{Packet, Queue};
use super::port::Port;
use super::topology::{Marking, Pause, Switch};

/// The state of a switch: its buffer is shared by the queues of all ports.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) switch: Switch,
    /// Bytes of the buffer that any queue may take.
    shared: u64,
    /// Bytes of these that are in use.
    used: u64,
    random: fastrand::Rng,
}

impl Buffer {
    /// Makes the empty buffer of a switch with so many ports.
    pub(super) fn new(switch: Switch, ports: usize, seed: u64) -> Self {
        let reserved =
            if switch.priority { switch.reserved.saturating_mul(ports as u64) } else { 0 };
        let shared = switch.buffer.saturating_sub(reserved);
        Self { switch, shared, used: 0, random: fastrand::Rng::with_seed(seed) }
    }

    /// Returns whether a packet is lost on its way through the switch.
    #[inline]
    pub(super) fn loses(&mut self) -> bool {
        self.switch.loss > 0.0 && self.random.f64() < self.switch.loss
    }

    /// Decides whether a packet may wait at a port, and takes its part of the buffer if so.
    #[inline]
    pub(super) fn admit(&mut self, port: &Port, packet: &Packet) -> bool {
        let queued = port.queued(packet.queue);
        let taken = self.of_shared(packet.queue, queued);
        let needed = self.of_shared(packet.queue, queued + u64::from(packet.bytes)) - taken;
        let free = self.shared - self.used;
        let fits = needed == 0
            || needed <= free
                && (self.switch.pause.is_some()
                    || (taken as f64) < self.switch.share * free as f64);
        if fits {
            self.used += needed;
        }
        fits
    }

    /// Releases the part of a packet that leaves its queue, in which `queued` bytes stay.
    #[inline]
    pub(super) fn release(&mut self, packet: &Packet, queued: u64) {
        let before = self.of_shared(packet.queue, queued + u64::from(packet.bytes));
        self.used -= before - self.of_shared(packet.queue, queued);
    }

    /// Computes how many bytes of a queue are in the shared part: for Urgent the bytes beyond its reservation, for
    /// others all.
    #[inline]
    const fn of_shared(&self, queue: Queue, queued: u64) -> u64 {
        match queue {
            Queue::Urgent => queued.saturating_sub(self.switch.reserved),
            Queue::Other => queued,
        }
    }

    /// Decides whether a packet that finds so much waiting in its queue is marked.
    #[inline]
    pub(super) fn marks(&mut self, port: &Port, packet: &Packet) -> bool {
        if !packet.capable {
            return false;
        }
        match self.switch.marking {
            None => false,
            Some(Marking::Packets(least)) => port.length(packet.queue) >= least as usize,
            Some(Marking::Bytes(least)) => port.queued(packet.queue) >= least,
            Some(Marking::Ramp { from, to, most }) => {
                let queued = port.queued(packet.queue);
                let part = queued.saturating_sub(from) as f64 / to.saturating_sub(from) as f64;
                queued >= to || queued > from && self.random.f64() < part * most
            }
        }
    }

    /// Returns when senders are paused.
    #[inline]
    pub(super) const fn pause(&self) -> Option<Pause> {
        self.switch.pause
    }
}
