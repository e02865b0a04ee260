//! The handling of packets in ports and switches.

use super::{Network, What};
use crate::network::flow::Event;
use crate::network::node::{of, of_mut};
use crate::network::packet::{Kind, Packet, Queue};
use crate::network::time::Picos;

impl Network {
    /// Sends all packets that a port can send, and announces when it can send again.
    #[inline]
    pub(super) fn serve(&mut self, number: u32, now: Picos) {
        loop {
            let Some(port) = of_mut(&mut self.ports, number) else { return };
            if port.free_at() > now {
                if !port.announced && port.wanted() {
                    port.announced = true;
                    self.calendar.insert(port.free_at(), What::Sent(number));
                }
                return;
            }
            if !self.send_next(number, now) {
                return;
            }
        }
    }

    /// Sends the first packet of a port, if there is one. Returns whether there may be another.
    #[inline]
    pub(super) fn send_next(&mut self, number: u32, now: Picos) -> bool {
        for queue in Queue::ALL {
            let Some(port) = of_mut(&mut self.ports, number) else { return false };
            if port.paused[queue] {
                continue;
            }
            if let Some(packet) = port.leave(now, queue) {
                if let Some(arrives) = port.send(now, packet) {
                    self.calendar.insert(arrives, What::Lands(number));
                }
                self.left(number, &packet, now);
                return true;
            }
            if let Some(flow) = port.ready[queue].pop_front() {
                self.pull(number, flow, queue, now);
                return true;
            }
        }
        false
    }

    /// Releases the buffer of a packet that has left its queue, and ends the pause of the link over which it came if
    /// enough has left.
    #[inline]
    pub(super) fn left(&mut self, number: u32, packet: &Packet, now: Picos) {
        let Some(port) = of(&self.ports, number) else { return };
        let queued = port.queued(packet.queue);
        let Some(Some(buffer)) = of_mut(&mut self.buffers, port.from().0) else { return };
        buffer.release(packet, queued);
        let both = !buffer.switch.priority;
        let Some(pause) = buffer.pause() else { return };
        let Some(came) = self.came_over(packet) else { return };
        let Some(port) = of_mut(&mut self.ports, came) else { return };
        let queue = packet.queue;
        port.held[queue] = port.held[queue].saturating_sub(u64::from(packet.bytes));
        if port.pausing[queue] && port.held[queue] <= pause.resume {
            port.pausing[queue] = false;
            let at = now + port.pause_travels();
            self.calendar.insert(at, What::Pauses { port: came, queue, both, on: false });
        }
    }

    /// Returns the port over whose link a packet came to the switch where it is.
    #[inline]
    pub(super) fn came_over(&self, packet: &Packet) -> Option<u32> {
        let before = usize::from(packet.hop).checked_sub(1)?;
        self.ports_of(packet)?.get(before).copied()
    }

    /// Returns the ports that a packet passes.
    #[inline]
    pub(super) fn ports_of(&self, packet: &Packet) -> Option<&[u32]> {
        let route = of(&self.routes, packet.flow)?;
        Some(if packet.kind == Kind::Data { &route.there } else { &route.back })
    }

    /// Handles the packet that arrives at the far end of a port's link.
    #[inline]
    pub(super) fn land(&mut self, number: u32, now: Picos, events: &mut Vec<Event>) {
        let Some(port) = of_mut(&mut self.ports, number) else { return };
        let Some((mut packet, next)) = port.land() else { return };
        if let Some(next) = next {
            self.calendar.insert(next, What::Lands(number));
        }
        packet.hop += 1;
        let next = self.ports_of(&packet).and_then(|ports| ports.get(usize::from(packet.hop)));
        match next.copied() {
            Some(next) => self.join(next, number, packet, now),
            None => self.receive(packet, now, events),
        }
    }

    /// Brings a packet that came over a link to the port of a switch by which it leaves.
    #[inline]
    pub(super) fn join(&mut self, number: u32, came: u32, mut packet: Packet, now: Picos) {
        let Some(port) = of_mut(&mut self.ports, number) else { return };
        let Some(Some(buffer)) = of_mut(&mut self.buffers, port.from().0) else { return };
        packet.queue = port.queue(packet.urgent);
        if buffer.loses() {
            port.count_loss();
            self.drop(packet.flow);
            return;
        }
        if !packet.marked && buffer.marks(port, &packet) {
            packet.marked = true;
            port.count_mark();
        }
        if port.idle(now, packet.queue) {
            if let Some(arrives) = port.send(now, packet) {
                self.calendar.insert(arrives, What::Lands(number));
            }
            return;
        }
        if !buffer.admit(port, &packet) {
            port.count_drop();
            self.drop(packet.flow);
            return;
        }
        port.join(now, packet);
        let both = !buffer.switch.priority;
        if let Some(pause) = buffer.pause()
            && let Some(port) = of_mut(&mut self.ports, came)
        {
            let queue = packet.queue;
            port.held[queue] += u64::from(packet.bytes);
            if !port.pausing[queue] && port.held[queue] > pause.pause {
                port.pausing[queue] = true;
                let at = now + port.pause_travels();
                self.calendar.insert(at, What::Pauses { port: came, queue, both, on: true });
            }
        }
        self.serve(number, now);
    }

    /// Forgets a packet.
    pub(super) fn drop(&mut self, flow: u32) {
        self.totals.dropped += 1;
        self.gone(flow);
    }

    /// Notes that a packet of a flow is no longer in the network.
    #[inline]
    pub(super) fn gone(&mut self, flow: u32) {
        if let Some(slot) = of_mut(&mut self.flows, flow) {
            slot.packets -= 1;
            if slot.closed {
                self.let_go(flow);
            }
        }
    }

    /// Pauses a port, or lets it go on.
    pub(super) fn pauses(&mut self, number: u32, queue: Queue, both: bool, on: bool, now: Picos) {
        let Some(port) = of_mut(&mut self.ports, number) else { return };
        for each in Queue::ALL {
            if each == queue || both {
                port.paused[each] = on;
            }
        }
        if on {
            port.count_pause();
        } else {
            self.serve(number, now);
        }
    }
}
