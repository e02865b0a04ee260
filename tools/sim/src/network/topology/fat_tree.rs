//! A fat tree of three levels (Al-Fares, Loukissas and Vahdat, SIGCOMM 2008), which the source's
//! Fig. 6 has.

use super::{Link, Packets, Switch, Topology, TopologyError};
use crate::network::node::NodeId;

/// A fat tree of three levels: each of `pods` pods has `pods / 2` edge switches and as many
/// aggregation switches, each edge switch a link to each aggregation switch of its pod. The `pods²
/// / 4` core switches have a link to each pod: core `i` to aggregation switch `i / (pods / 2)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FatTree {
    /// The pods: an even number.
    pub pods: u32,
    /// The hosts at each edge switch; `None`: `pods / 2`, with which nothing is oversubscribed.
    pub hosts: Option<u32>,
    /// The links of the hosts.
    pub edge: Link,
    /// The links between switches.
    pub inner: Link,
    /// All switches.
    pub switch: Switch,
    /// The sizes of packets.
    pub packets: Packets,
}

impl FatTree {
    /// Builds the topology. The nodes are the hosts, edge switch by edge switch and pod by pod; then
    /// the edge switches and the aggregation switches of each pod, pod by pod; then the core
    /// switches.
    ///
    /// # Errors
    ///
    /// `pods` is odd or out of its range, or there is no host.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let range =
            |key, value: u32, range| TopologyError::Range { key, value: value.to_string(), range };
        if !self.pods.is_multiple_of(2) || !(2..=64).contains(&self.pods) {
            return Err(range("pods", self.pods, "an even number from 2 to 64, such as 4"));
        }
        let half = self.pods / 2;
        let hosts = self.hosts.unwrap_or(half);
        if !(1..=1024).contains(&hosts) {
            return Err(range("hosts", hosts, "1 to 1024 at each edge switch"));
        }
        let mut topology = Topology::new(self.packets);
        let edges = self.pods * half;
        let at_edges: Vec<Vec<NodeId>> =
            (0..edges).map(|_| (0..hosts).map(|_| topology.host()).collect()).collect();
        let mut at_edges = at_edges.into_iter();
        let mut above: Vec<Vec<NodeId>> = Vec::new();
        for _ in 0..self.pods {
            let edges: Vec<NodeId> = (0..half).map(|_| topology.switch(self.switch)).collect();
            let aggregation: Vec<NodeId> =
                (0..half).map(|_| topology.switch(self.switch)).collect();
            for edge in edges {
                for host in at_edges.next().into_iter().flatten() {
                    topology.link(host, edge, self.edge);
                }
                aggregation.iter().for_each(|node| topology.link(edge, *node, self.inner));
            }
            above.push(aggregation);
        }
        for group in 0..half as usize {
            for _ in 0..half {
                let core = topology.switch(self.switch);
                for node in above.iter().filter_map(|aggregation| aggregation.get(group)) {
                    topology.link(*node, core, self.inner);
                }
            }
        }
        Ok(topology)
    }
}
