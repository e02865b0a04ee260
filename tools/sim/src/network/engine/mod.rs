//! The engine that runs flows on a topology.
//!
//! [`ends`] has the work of hosts, [`hops`] the handling of packets in ports and switches.

mod ends;
mod hops;

use units::{Calendar, Nanos};

use super::flow::{Event, Flow, FlowInfo, FlowSpec};
use super::node::{FlowId, NodeId, PortId, of, of_mut};
use super::packet::Queue;
use super::port::{Port, PortCounters};
use super::route::{Links, Route, mix};
use super::switch::Buffer;
use super::time::{Picos, nanos, picos};
use super::topology::{Node, Packets, Topology, TopologyError};

/// A future event.
#[derive(Clone, Copy, Debug)]
enum What {
    /// A port has sent a packet, and something else waits.
    Sent(u32),
    /// A packet arrives at the far end of a port's link.
    Lands(u32),
    /// Pacing lets a flow go on.
    Paced(u32),
    /// A flow takes something for lost.
    Expires(u32),
    /// A pause arrives at a port, or its end.
    Pauses { port: u32, queue: Queue, both: bool, on: bool },
}

/// The fate of all packets so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets that hosts have sent.
    pub made: u64,
    /// Packets that have arrived at hosts.
    pub delivered: u64,
    /// Packets that found no room, or were lost at random.
    pub dropped: u64,
    /// Packets that wait in queues.
    pub waiting: u64,
    /// Those on links.
    pub flying: u64,
    /// How often a link has carried a packet.
    pub hops: u64,
    /// Events that were handled.
    pub events: u64,
    /// Events that are still to come.
    pub coming: u64,
}

/// A network with flows.
#[derive(Debug)]
pub struct Network {
    packets: Packets,
    calendar: Calendar<What, Picos>,
    /// The time up to which everything was handled.
    now: Picos,
    ports: Vec<Port>,
    /// The links that each node sends on.
    links: Links,
    /// The buffer of each node that is a switch.
    buffers: Vec<Option<Buffer>>,
    flows: Vec<Flow>,
    routes: Vec<Route>,
    /// Slots of flows that are gone.
    free: Vec<u32>,
    seed: u64,
    opened: u64,
    totals: Totals,
}

impl Network {
    /// Makes a network without flows. The seed decides the ways of flows, and which packets are lost or marked at
    /// random.
    ///
    /// # Errors
    ///
    /// The topology is none: see [`Topology::check`].
    pub fn new(topology: Topology, seed: u64) -> Result<Self, TopologyError> {
        topology.check()?;
        let mut ports = Vec::new();
        let mut links: Links = vec![Vec::new(); topology.nodes.len()];
        let priority = |node: NodeId| match of(&topology.nodes, node.0) {
            Some(Node::Switch(switch)) => Some(switch.priority),
            _ => None,
        };
        for edge in &topology.edges {
            let [one, other] = edge.ends;
            for (from, to) in [(one, other), (other, one)] {
                // A host orders its packets as the switch does that it sends to.
                let first = priority(from).or(priority(to)).unwrap_or(false);
                let number = u32::try_from(ports.len()).unwrap_or(u32::MAX);
                ports.push(Port::new([from, to], edge.link, topology.packets.frame, first));
                if let Some(links) = of_mut(&mut links, from.0) {
                    links.push((number, to));
                }
            }
        }
        let mut seeds = seed..;
        let buffers = topology.nodes.iter().zip(&links).map(|(node, links)| match node {
            Node::Host => None,
            Node::Switch(switch) => {
                Some(Buffer::new(*switch, links.len(), mix(seeds.next().unwrap_or(seed))))
            }
        });
        Ok(Self {
            packets: topology.packets,
            calendar: Calendar::new(),
            now: 0,
            ports,
            buffers: buffers.collect(),
            links,
            flows: Vec::new(),
            routes: Vec::new(),
            free: Vec::new(),
            seed,
            opened: 0,
            totals: Totals::default(),
        })
    }

    /// Opens a flow: one direction, whose acknowledgements come back through the queues of the way
    /// back. A flow from a host to itself, or one whose end is no host, never sends.
    pub fn open(&mut self, now: Nanos, spec: FlowSpec) -> FlowId {
        self.at(now);
        let host = |node: NodeId| of(&self.buffers, node.0).is_some_and(Option::is_none);
        self.opened += 1;
        let route = if host(spec.from) && host(spec.to) && spec.from != spec.to {
            Route::find(&self.links, spec.from, spec.to, mix(self.seed ^ mix(self.opened)))
        } else {
            Route::default()
        };
        let flow = Flow::new(&spec, self.packets);
        if let Some(number) = self.free.pop()
            && let (Some(slot), Some(way)) =
                (of_mut(&mut self.flows, number), of_mut(&mut self.routes, number))
        {
            (*slot, *way) = (flow, route);
            return FlowId(number);
        }
        self.flows.push(flow);
        self.routes.push(route);
        FlowId(u32::try_from(self.flows.len() - 1).unwrap_or(u32::MAX))
    }

    /// Closes a flow: it sends nothing more, and nobody hears of it. Its number is another flow's
    /// once its packets are gone.
    pub fn close(&mut self, now: Nanos, flow: FlowId) {
        self.at(now);
        let Some(slot) = of_mut(&mut self.flows, flow.0).filter(|slot| !slot.closed) else {
            return;
        };
        slot.closed = true;
        self.let_go(flow.0);
    }

    /// Returns the bytes that a flow's send buffer takes now.
    #[must_use]
    pub fn room(&self, flow: FlowId) -> u64 {
        of(&self.flows, flow.0).map_or(0, Flow::room)
    }

    /// Appends bytes to a flow's stream: all of them, whether there is room or not. If no room is left after it,
    /// [`Event::Writable`] follows.
    pub fn write(&mut self, now: Nanos, flow: FlowId, bytes: u64) {
        let now = self.at(now);
        if let Some(slot) = of_mut(&mut self.flows, flow.0) {
            slot.write(bytes);
            self.list(flow.0, now);
        }
    }

    /// Limits a flow to a rate in bytes of its stream per second (SO_MAX_PACING_RATE).
    pub fn set_pacing(&mut self, now: Nanos, flow: FlowId, bytes_per_second: Option<u64>) {
        let now = self.at(now);
        if let Some(slot) = of_mut(&mut self.flows, flow.0) {
            slot.pace(now, bytes_per_second);
            self.list(flow.0, now);
        }
    }

    /// Sets the bytes that may wait to be sent (TCP_NOTSENT_LOWAT); `None`: as many as the buffer has.
    pub fn set_notsent_lowat(&mut self, flow: FlowId, bytes: Option<u64>) {
        if let Some(slot) = of_mut(&mut self.flows, flow.0) {
            slot.set_lowat(bytes);
        }
    }

    /// Sets the code point of the packets that a flow sends from now on.
    pub fn set_dscp(&mut self, flow: FlowId, dscp: u8) {
        if let Some(slot) = of_mut(&mut self.flows, flow.0) {
            slot.urgent = dscp == super::flow::URGENT;
        }
    }

    /// Returns a flow's counters and state.
    #[must_use]
    pub fn info(&self, flow: FlowId) -> FlowInfo {
        of(&self.flows, flow.0).map(Flow::info).unwrap_or_default()
    }

    /// Returns the nodes that a flow's packets pass, from its sender to its receiver.
    pub fn way(&self, flow: FlowId) -> impl Iterator<Item = NodeId> {
        let ports = of(&self.routes, flow.0).map_or(&[][..], |route| &route.there);
        let ports = ports.iter().filter_map(|port| of(&self.ports, *port));
        let first = ports.clone().next().map(Port::from);
        first.into_iter().chain(ports.map(Port::to))
    }

    /// Returns the time of the next event.
    #[must_use]
    #[inline]
    pub fn next(&self) -> Option<Nanos> {
        self.calendar.next_time().map(nanos)
    }

    /// Handles all events up to `until`, and appends the events for the ends of flows, in order.
    pub fn advance(&mut self, until: Nanos, events: &mut Vec<Event>) {
        let end = picos(until);
        while let Some((now, what)) = self.calendar.pop_due(end) {
            self.now = now;
            self.totals.events += 1;
            match what {
                What::Sent(port) => {
                    if let Some(port) = of_mut(&mut self.ports, port) {
                        port.announced = false;
                    }
                    self.serve(port, now);
                }
                What::Lands(port) => self.land(port, now, events),
                What::Paced(flow) => self.paced(flow, now),
                What::Expires(flow) => self.expired(flow, now),
                What::Pauses { port, queue, both, on } => self.pauses(port, queue, both, on, now),
            }
        }
        // Until the end of all time means until nothing happens any more: time goes on from there.
        if end < Picos::MAX {
            self.now = self.now.max(end);
        }
    }

    /// Returns the counters of each port, in the order of the topology's links: for each, first the port at its first
    /// end, then the other.
    pub fn counters(&self) -> impl Iterator<Item = (PortId, PortCounters)> {
        let numbered = (0..).map(PortId).zip(&self.ports);
        numbered.map(|(id, port)| (id, port.counters(self.now)))
    }

    /// Returns what became of all packets.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = self.totals;
        totals.coming = self.calendar.len() as u64;
        for port in &self.ports {
            totals.flying += port.flying() as u64;
            totals.waiting +=
                Queue::ALL.iter().map(|queue| port.length(*queue) as u64).sum::<u64>();
            totals.hops += port.counters(self.now).packets;
        }
        totals
    }

    /// Moves the present time to a caller's time, but never back.
    fn at(&mut self, now: Nanos) -> Picos {
        self.now = self.now.max(picos(now));
        self.now
    }
}
