//! Ways through a network: the shortest, and of several as short one by the flow's hash (ECMP, RFC
//! 2992), so that packets of a flow do not overtake each other.

use super::node::{NodeId, of};
use super::topology::distances;

/// The links that each node sends on, with the nodes at their far ends.
pub(super) type Links = Vec<Vec<(u32, NodeId)>>;

/// The way of a flow's packets: the ports that they leave by, the sender's first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Route {
    /// From the sender to the receiver.
    pub(super) there: Box<[u32]>,
    /// From the receiver to the sender.
    pub(super) back: Box<[u32]>,
}

impl Route {
    /// Finds the ways between two hosts. There is none between a host and itself.
    pub(super) fn find(links: &Links, from: NodeId, to: NodeId, hash: u64) -> Self {
        let neighbours: Vec<Vec<NodeId>> =
            links.iter().map(|links| links.iter().map(|(_, far)| *far).collect()).collect();
        let way = |from: NodeId, to: NodeId, hash: u64| {
            walk(links, &distances(&neighbours, to), from, hash)
        };
        // A switch hashes the addresses of a packet: the way back is another than the way there.
        Self { there: way(from, to, hash), back: way(to, from, mix(hash)) }
    }
}

/// Goes from node to node, each nearer to the end, as far as there is one.
fn walk(links: &Links, far: &[u32], from: NodeId, hash: u64) -> Box<[u32]> {
    let mut ports = Vec::new();
    let mut at = from;
    loop {
        let here = of(far, at.0).copied().unwrap_or(u32::MAX);
        let nearer = |link: &&(u32, NodeId)| of(far, link.1.0).is_some_and(|next| *next < here);
        let choices = || of(links, at.0).into_iter().flatten().filter(nearer);
        let count = choices().count() as u64;
        // Each switch has a hash of its own: with the same one, the choices of those behind a
        // choice would not be independent of it.
        let Some(choice) = mix(hash ^ mix(u64::from(at.0))).checked_rem(count) else {
            return ports.into();
        };
        let Some((port, next)) = choices().nth(usize::try_from(choice).unwrap_or(0)) else {
            return ports.into();
        };
        ports.push(*port);
        at = *next;
    }
}

/// Mixes the bits of a number (splitmix64's finalizer).
pub(super) const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
