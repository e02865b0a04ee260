//! The parts of a network: hosts, switches, and links between them.
//!
//! A [`Topology`] is built node by node, or as a [`Dumbbell`] or a [`FatTree`]. Nothing is checked
//! while it is built: [`Topology::check`] does it, and [`super::Network::new`] calls that.

mod dumbbell;
mod error;
mod fat_tree;
mod settings;

use std::collections::VecDeque;

use super::node::{NodeId, of, of_mut};

pub use dumbbell::Dumbbell;
pub use error::TopologyError;
pub use fat_tree::FatTree;
pub use settings::{Link, Marking, Packets, Pause, Switch};
pub(super) use settings::{PAUSE_FRAME, RDMA_HEADERS, TCP_HEADERS};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// An end of flows, with one link.
    Host,
    /// Hands packets on.
    Switch(Switch),
}

/// A link between two nodes, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Edge {
    pub(super) ends: [NodeId; 2],
    pub(super) link: Link,
}

/// Hosts, switches, and links between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// The sizes of packets.
    pub packets: Packets,
    pub(super) nodes: Vec<Node>,
    pub(super) edges: Vec<Edge>,
}

impl Topology {
    /// Makes a topology without nodes.
    #[must_use]
    pub const fn new(packets: Packets) -> Self {
        Self { packets, nodes: Vec::new(), edges: Vec::new() }
    }

    /// Adds a host.
    pub fn host(&mut self) -> NodeId {
        self.add(Node::Host)
    }

    /// Adds a switch.
    pub fn switch(&mut self, switch: Switch) -> NodeId {
        self.add(Node::Switch(switch))
    }

    /// Sets when the queues of all switches that there are mark packets; `None`: never.
    pub fn mark(&mut self, marking: Option<Marking>) {
        for node in &mut self.nodes {
            if let Node::Switch(switch) = node {
                switch.marking = marking;
            }
        }
    }

    /// Adds a link between two nodes.
    pub fn link(&mut self, one: NodeId, other: NodeId, link: Link) {
        self.edges.push(Edge { ends: [one, other], link });
    }

    /// Returns the hosts, in the order in which they were added.
    pub fn hosts(&self) -> impl Iterator<Item = NodeId> {
        (0..)
            .map(NodeId)
            .zip(&self.nodes)
            .filter(|(_, node)| **node == Node::Host)
            .map(|(id, _)| id)
    }

    fn add(&mut self, node: Node) -> NodeId {
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(node);
        id
    }

    /// Returns each node's neighbours.
    pub(super) fn neighbours(&self) -> Vec<Vec<NodeId>> {
        let mut neighbours = vec![Vec::new(); self.nodes.len()];
        for Edge { ends: [one, other], .. } in &self.edges {
            for (from, to) in [(one, other), (other, one)] {
                if let Some(neighbours) = of_mut(&mut neighbours, from.0) {
                    neighbours.push(*to);
                }
            }
        }
        neighbours
    }

    /// Checks that a network can be made of it.
    ///
    /// # Errors
    ///
    /// The first fault that was found, with the key and the remedy.
    pub fn check(&self) -> Result<(), TopologyError> {
        self.packets.check()?;
        let nodes = self.nodes.len();
        for Edge { ends, link } in &self.edges {
            link.check()?;
            if let Some(NodeId(node)) = ends.iter().find(|end| end.0 as usize >= nodes) {
                return Err(TopologyError::NoNode { node: *node, nodes });
            }
        }
        for (at, node) in (0..).zip(&self.nodes) {
            let links = || self.edges.iter().filter(move |edge| edge.ends.contains(&NodeId(at)));
            match node {
                Node::Host if links().count() == 1 => {}
                Node::Host => {
                    return Err(TopologyError::HostLinks { node: at, links: links().count() });
                }
                Node::Switch(switch) => {
                    let links: Vec<Link> = links().map(|edge| edge.link).collect();
                    switch.check(&links, self.packets)?;
                }
            }
        }
        self.check_reach()
    }

    /// Checks that each host reaches each other one.
    fn check_reach(&self) -> Result<(), TopologyError> {
        let mut hosts = self.hosts();
        let Some(from) = hosts.next() else { return Ok(()) };
        let reached = distances(&self.neighbours(), from);
        match hosts.find(|host| of(&reached, host.0).is_none_or(|far| *far == u32::MAX)) {
            Some(to) => Err(TopologyError::Unreachable { from: from.0, to: to.0 }),
            None => Ok(()),
        }
    }
}

/// Computes how many links each node is away from one; `u32::MAX` where there is no way.
pub(super) fn distances(neighbours: &[Vec<NodeId>], from: NodeId) -> Vec<u32> {
    let mut far = vec![u32::MAX; neighbours.len()];
    let mut ahead = VecDeque::from([(from, 0)]);
    while let Some((node, distance)) = ahead.pop_front() {
        let Some(known) = of_mut(&mut far, node.0).filter(|known| distance < **known) else {
            continue;
        };
        *known = distance;
        let next = of(neighbours, node.0).into_iter().flatten();
        ahead.extend(next.map(|node| (*node, distance + 1)));
    }
    far
}
