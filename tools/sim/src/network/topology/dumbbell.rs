//! Hosts on both sides of one link.

use super::{Link, Packets, Switch, Topology};
use crate::network::node::NodeId;

/// Two switches with one link between them, and hosts at each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dumbbell {
    /// The hosts at the left switch.
    pub left: u32,
    /// The hosts at the right switch.
    pub right: u32,
    /// The links of the hosts.
    pub edge: Link,
    /// The link between the switches.
    pub middle: Link,
    /// Both switches.
    pub switch: Switch,
    /// The sizes of packets.
    pub packets: Packets,
}

impl Dumbbell {
    /// Builds the topology: the nodes are the hosts at the left, those at the right, then the left
    /// switch and the right one.
    #[must_use]
    pub fn build(&self) -> Topology {
        let mut topology = Topology::new(self.packets);
        let left: Vec<NodeId> = (0..self.left).map(|_| topology.host()).collect();
        let right: Vec<NodeId> = (0..self.right).map(|_| topology.host()).collect();
        let switches = [topology.switch(self.switch), topology.switch(self.switch)];
        for (hosts, switch) in [left, right].iter().zip(switches) {
            hosts.iter().for_each(|host| topology.link(*host, switch, self.edge));
        }
        let [one, other] = switches;
        topology.link(one, other, self.middle);
        topology
    }
}
