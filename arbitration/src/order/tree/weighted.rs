//! The order by weight: at each node the one below it that waits and has the least start tag goes
//! (see `order/tags.rs`).
//!
//! Several reactors may have commands below one node. A reactor that is further ahead there than
//! [`LEAD_COMMANDS`] of another waiting reactor holds the node back: it looks elsewhere, and leaves freed
//! room to the other. The waiting reactor with the least virtual time below a node is never held
//! back there, so some reactor always proceeds.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use units::Class;

use super::super::clock::ahead;
use super::super::tags::{ClassTags, Tags};
use super::super::time::COST;
use super::node::NodeId;
use crate::index::grown;
use crate::session::WEIGHT;
use crate::sharing::Sharing;
use crate::sync::{AtomicU32, Ordering::Relaxed};

/// Virtual time for a unit of cost at weight 1. At weight 1000 a command of ordinary size still takes
/// 1000 units of virtual time, so that rounding is below 1/1000.
pub(super) const STEP: u64 = 1 << 12;

/// Virtual time of a command of ordinary size at weight 1.
const COMMAND: u64 = COST as u64 * STEP;

/// Greatest lead of a reactor over others, in commands of ordinary size of the node that goes next.
pub(super) const LEAD_COMMANDS: u16 = 16;

/// State of one node in the order by weight.
#[derive(Debug)]
pub(super) struct WeightedNode {
    pub(super) tags: Arc<Tags>,
    /// Weight of the node; `None`: [`WEIGHT`].
    pub(super) weight: Option<Arc<AtomicU32>>,
    /// Whether the heap of the node above has an entry of the node.
    pub(super) in_heap: bool,
    /// Number of that entry: other entries that name the node are of an earlier one.
    pub(super) entry: u32,
}

/// A node in the heap of the one above it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Start tag of the node when the entry was made, or looked at last. It may have grown since.
    pub(super) start: u64,
    pub(super) node: NodeId,
    pub(super) number: u32,
}

impl Ord for Entry {
    /// Compares so that the least tag is the greatest entry, for a heap has the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        0.cmp(&ahead(self.start, other.start))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.start == other.start
    }
}

impl Eq for Entry {}

/// The way in which nodes that were held back return to their rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Releases {
    /// No such node returns: a node in a ring begins to wait there.
    None,
    /// They go on: they have waited all the time.
    Held,
    /// They are looked at, and held back again at once: other reactors see nothing of it.
    Unseen,
}

/// The order by weight of one class in one reactor.
#[derive(Debug)]
pub(super) struct ByWeight {
    pub(super) class: Class,
    pub(super) reactor: u32,
    pub(super) sharing: Sharing,
    pub(super) nodes: Vec<Option<WeightedNode>>,
    /// For each node those below it that wait, and some that did.
    pub(super) heaps: Vec<BinaryHeap<Entry>>,
    /// Nodes that this reactor holds back for others.
    pub(super) held: Vec<NodeId>,
    pub(super) releases: Releases,
    pub(super) entries: u32,
    /// Whether others may go on because of what this reactor has held back or ended.
    pub(super) yielded: bool,
    /// The greatest leads below nodes of sessions with limits, by their numbers, in commands.
    pub(super) leads: FxHashMap<u32, u16>,
}

impl ByWeight {
    pub(super) fn tags(&self, node: NodeId) -> Option<&ClassTags> {
        Some(&self.nodes.get(node.0.at())?.as_ref()?.tags.0[self.class])
    }

    pub(super) fn weight(&self, node: NodeId) -> u64 {
        let weighed = self.nodes.get(node.0.at()).and_then(Option::as_ref);
        let weight = weighed.and_then(|weighed| weighed.weight.as_ref());
        u64::from(weight.map_or(WEIGHT, |weight| weight.load(Relaxed)).max(1))
    }

    pub(super) fn heap(&mut self, node: NodeId) -> &mut BinaryHeap<Entry> {
        grown(&mut self.heaps, node.0.at(), BinaryHeap::new)
    }

    /// Returns whether this reactor may take a command below a node, of the node `next` there,
    /// which has the least start tag. Notes that tag as the reactor's virtual time; a reactor that
    /// may take nothing has others told of a new one. It may lead by `most` commands.
    pub(super) fn may(&mut self, node: NodeId, next: NodeId, most: u16) -> bool {
        if self.sharing == Sharing::One {
            return true;
        }
        let Some(tags) = self.tags(node) else { return true };
        // The reactor's virtual time is the start tag of the node that waits first, also where the reactor held that
        // node back and took another one.
        let moved = self
            .tags(next)
            .is_some_and(|next| tags.below.looks_at(self.reactor, next.finish.load(Relaxed)));
        let lead = || (COMMAND * u64::from(most) / self.weight(next)).cast_signed();
        let may = tags.below.leads_at_most(self.reactor, lead);
        self.yielded |= moved && !may;
        may
    }
}
