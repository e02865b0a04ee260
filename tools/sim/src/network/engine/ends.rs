//! The work of hosts: flows are served in turn, packets arrive and are answered.

use super::{Network, What};
use crate::network::flow::Event;
use crate::network::node::{FlowId, of, of_mut};
use crate::network::packet::{Kind, Packet, Queue};
use crate::network::stream::Ready;
use crate::network::time::{Picos, nanos};
use crate::network::topology::RDMA_HEADERS;

/// Bytes of an acknowledgement of a queue pair: headers, and 4 of the extended header.
const RATE_ACKNOWLEDGEMENT: u32 = RDMA_HEADERS + 4;
/// Bytes of a notification of congestion: headers, and 16 that are reserved (annex A17.9.3).
const NOTIFICATION: u32 = RDMA_HEADERS + 16;

impl Network {
    /// Announces when a flow takes something for lost, unless something earlier is announced.
    #[inline]
    fn arm(&mut self, number: u32) {
        let Some(flow) = of_mut(&mut self.flows, number) else { return };
        let expires = flow.time_out();
        if expires < flow.expires_at {
            flow.expires_at = expires;
            self.calendar.insert(expires, What::Expires(number));
        }
    }

    /// Puts a flow into its host's turn, or announces when that is to be done, or neither.
    #[inline]
    pub(super) fn list(&mut self, number: u32, now: Picos) {
        self.arm(number);
        let Some(flow) = of_mut(&mut self.flows, number).filter(|flow| !flow.listed) else {
            return;
        };
        match flow.ready(now) {
            Ready::No => {}
            Ready::At(at) => {
                if at < flow.paced_at {
                    flow.paced_at = at;
                    self.calendar.insert(at, What::Paced(number));
                }
            }
            Ready::Now => {
                let Some(first) = of(&self.routes, number).and_then(|route| route.there.first())
                else {
                    return;
                };
                let Some(port) = of_mut(&mut self.ports, *first) else { return };
                let queue = port.queue(flow.urgent);
                port.ready[queue].push_back(number);
                flow.listed = true;
                self.serve(*first, now);
            }
        }
    }

    /// Sends a packet of a flow whose turn it is.
    #[inline]
    pub(super) fn pull(&mut self, number: u32, flow: u32, queue: Queue, now: Picos) {
        let Some(slot) = of_mut(&mut self.flows, flow) else { return };
        slot.listed = false;
        let outgoing = slot.packet(now);
        if let Some(outgoing) = outgoing {
            slot.packets += 1;
            self.totals.made += 1;
            let packet = Packet {
                number: outgoing.number,
                sent: now,
                block: (0, 0),
                flow,
                bytes: outgoing.payload + slot.headers,
                payload: outgoing.payload,
                kind: Kind::Data,
                urgent: slot.urgent,
                queue,
                hop: 0,
                capable: slot.capable,
                marked: false,
                asks: outgoing.asks,
            };
            if let Some(port) = of_mut(&mut self.ports, number)
                && let Some(arrives) = port.send(now, packet)
            {
                self.calendar.insert(arrives, What::Lands(number));
            }
        }
        self.list_again(number, flow, now);
        self.let_go(flow);
    }

    /// Puts a flow that has just sent back into its host's turn; the port is being served.
    #[inline]
    pub(super) fn list_again(&mut self, number: u32, flow: u32, now: Picos) {
        let Some(slot) = of_mut(&mut self.flows, flow) else { return };
        if slot.ready(now) == Ready::Now {
            let Some(port) = of_mut(&mut self.ports, number) else { return };
            let queue = port.queue(slot.urgent);
            port.ready[queue].push_back(flow);
            slot.listed = true;
            self.arm(flow);
        } else {
            self.list(flow, now);
        }
    }

    /// Handles a packet at its destination host.
    #[inline]
    pub(super) fn receive(&mut self, packet: Packet, now: Picos, events: &mut Vec<Event>) {
        self.totals.delivered += 1;
        let number = packet.flow;
        let Some(flow) = of_mut(&mut self.flows, number).filter(|flow| !flow.closed) else {
            self.gone(number);
            return;
        };
        match packet.kind {
            Kind::Data => self.receive_data(&packet, now, events),
            Kind::Ack | Kind::Again => {
                let bytes = flow.acknowledge(now, &packet, packet.kind == Kind::Again);
                if bytes > 0 {
                    events.push(Event::Acknowledged {
                        at: nanos(now),
                        flow: FlowId(number),
                        bytes,
                    });
                }
                if flow.writable() {
                    events.push(Event::Writable { at: nanos(now), flow: FlowId(number) });
                }
                self.list(number, now);
            }
            Kind::Congestion => {
                flow.notify(now);
                self.list(number, now);
            }
        }
        self.gone(number);
    }

    /// Handles data at its receiver, and sends the answer.
    #[inline]
    pub(super) fn receive_data(&mut self, packet: &Packet, now: Picos, events: &mut Vec<Event>) {
        let number = packet.flow;
        let Some(flow) = of_mut(&mut self.flows, number) else { return };
        let answer = flow.receiver().take(now, packet);
        if answer.came > 0 {
            let (at, flow) = (nanos(now), FlowId(number));
            events.push(Event::Arrived { at, flow, bytes: answer.came });
        }
        let mut reply = Packet {
            number: flow.receiver().expected(),
            block: answer.block,
            bytes: RATE_ACKNOWLEDGEMENT.max(flow.headers),
            payload: 0,
            kind: if answer.again { Kind::Again } else { Kind::Ack },
            hop: 0,
            capable: false,
            marked: answer.marked,
            asks: false,
            ..*packet
        };
        if answer.acknowledge || answer.again {
            self.answer(reply, now);
        }
        if answer.notify {
            // DCQCN's paper, section 3.2: notifications have a high priority.
            (reply.kind, reply.bytes, reply.urgent) = (Kind::Congestion, NOTIFICATION, true);
            self.answer(reply, now);
        }
    }

    /// Sends a packet from the receiver of a flow.
    #[inline]
    pub(super) fn answer(&mut self, mut packet: Packet, now: Picos) {
        let Some(first) = of(&self.routes, packet.flow).and_then(|route| route.back.first()) else {
            return;
        };
        let first = *first;
        let Some(port) = of_mut(&mut self.ports, first) else { return };
        packet.queue = port.queue(packet.urgent);
        port.join(now, packet);
        self.totals.made += 1;
        if let Some(flow) = of_mut(&mut self.flows, packet.flow) {
            flow.packets += 1;
        }
        self.serve(first, now);
    }

    /// Continues a flow that was paced.
    pub(super) fn paced(&mut self, number: u32, now: Picos) {
        let Some(flow) = of_mut(&mut self.flows, number) else { return };
        // An event that was announced before an earlier one is stale.
        if flow.paced_at != now {
            return;
        }
        flow.paced_at = Picos::MAX;
        flow.look(now);
        self.list(number, now);
        self.let_go(number);
    }

    /// Handles a flow's time-out: treats unacknowledged packets as lost, if it is over, and sets the next one.
    pub(super) fn expired(&mut self, number: u32, now: Picos) {
        let Some(flow) = of_mut(&mut self.flows, number) else { return };
        if flow.expires_at != now {
            return;
        }
        flow.expires_at = Picos::MAX;
        flow.expire(now);
        self.list(number, now);
        self.let_go(number);
    }

    /// Frees the slot of a closed flow, once nothing names it any more.
    pub(super) fn let_go(&mut self, flow: u32) {
        let Some(slot) = of(&self.flows, flow) else { return };
        let timers = [slot.paced_at, slot.expires_at].iter().any(|at| *at != Picos::MAX);
        if slot.closed && slot.packets == 0 && !slot.listed && !timers {
            self.free.push(flow);
        }
    }
}
