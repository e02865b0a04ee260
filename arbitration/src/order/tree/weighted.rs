//! The order by weight: at each node the one below it that waits and has the least start tag goes
//! (see `order/tags.rs`).
//!
//! Several reactors may have commands below one node. A reactor that is further ahead there than
//! [`LEAD`] of another that waits holds the node back: it looks elsewhere, and leaves what comes free
//! to the other. Of the reactors that wait below a node, the one of the least virtual time is never
//! held back there, so that somebody always goes on.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use units::Class;

use super::super::clock::{COST, advance, ahead};
use super::super::tags::{ClassTags, Tags};
use super::{NodeId, Tree};
use crate::index::{Index, grown};
use crate::session::WEIGHT;
use crate::sharing::Sharing;
use crate::sync::{AtomicU32, Ordering::Relaxed};

/// Virtual time for a unit of cost at weight 1. At weight 1000 a command of ordinary size still takes
/// 1000 units of virtual time, so that rounding is below 1/1000.
const STEP: u64 = 1 << 12;

/// Greatest lead of a reactor over others: 16 commands of ordinary size of the node that goes next, in
/// virtual time at weight 1.
const LEAD: u64 = 16 * COST as u64 * STEP;

/// What the order by weight knows of one node.
#[derive(Debug)]
struct Weighed {
    tags: Arc<Tags>,
    /// Weight of the node; `None`: [`WEIGHT`].
    weight: Option<Arc<AtomicU32>>,
    /// Whether the heap of the node above has an entry of the node.
    in_heap: bool,
    /// Number of that entry: other entries that name the node are of an earlier one.
    entry: u32,
}

/// A node in the heap of the one above it.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Start tag of the node when the entry was made, or looked at last. It may have grown since.
    start: u64,
    node: NodeId,
    number: u32,
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

/// The order by weight of one class in one reactor.
#[derive(Debug)]
pub(super) struct ByWeight {
    class: Class,
    reactor: u32,
    sharing: Sharing,
    /// The nodes, by number.
    nodes: Vec<Option<Weighed>>,
    /// For each node those below it that wait, and some that did.
    heaps: Vec<BinaryHeap<Entry>>,
    /// Nodes that this reactor holds back for others.
    held: Vec<NodeId>,
    /// Whether nodes that were held back go on: they have waited all the time.
    releases: bool,
    entries: u32,
    /// Whether others may go on because of what this reactor has held back or ended.
    yielded: bool,
}

impl ByWeight {
    fn tags(&self, node: NodeId) -> Option<&ClassTags> {
        Some(&self.nodes.get(node.0.at())?.as_ref()?.tags.0[self.class])
    }

    fn weight(&self, node: NodeId) -> u64 {
        let weighed = self.nodes.get(node.0.at()).and_then(Option::as_ref);
        let weight = weighed.and_then(|weighed| weighed.weight.as_ref());
        u64::from(weight.map_or(WEIGHT, |weight| weight.load(Relaxed)).max(1))
    }

    fn heap(&mut self, node: NodeId) -> &mut BinaryHeap<Entry> {
        grown(&mut self.heaps, node.0.at(), BinaryHeap::new)
    }

    /// Says whether this reactor may take a command below a node, of the node `next` there.
    fn may(&self, node: NodeId, next: NodeId) -> bool {
        self.sharing == Sharing::One
            || self.tags(node).is_none_or(|tags| {
                let lead = || (LEAD / self.weight(next)).cast_signed();
                tags.below.leads_at_most(self.reactor, lead)
            })
    }
}

impl<I: Copy> Tree<I> {
    /// Makes nodes go by weight from now on. Each node is then [weighed](Self::weigh), and all of them
    /// [begin](Self::begin_by_weight).
    pub(in super::super) fn set_by_weight(&mut self, class: Class, reactor: u32, sharing: Sharing) {
        let (nodes, heaps, held) = (Vec::new(), Vec::new(), Vec::new());
        self.by_weight = Some(Box::new(ByWeight {
            class,
            reactor,
            sharing,
            nodes,
            heaps,
            held,
            releases: false,
            entries: 0,
            yielded: false,
        }));
    }

    /// Gives a node its tags and its weight, which `None` leaves at [`WEIGHT`].
    pub(in super::super) fn weigh(
        &mut self,
        node: NodeId,
        tags: Arc<Tags>,
        weight: Option<Arc<AtomicU32>>,
    ) {
        let Some(order) = &mut self.by_weight else { return };
        order.heap(node).clear();
        order.entries = order.entries.wrapping_add(1);
        let weighed = Weighed { tags, weight, in_heap: false, entry: order.entries };
        *grown(&mut order.nodes, node.0.at(), || None) = Some(weighed);
    }

    /// Puts all nodes that have work in order by weight.
    pub(in super::super) fn begin_by_weight(&mut self) {
        for node in (0..self.nodes.len()).map(|number| NodeId(Index::nth(number))) {
            if self.get(node).cursor.is_some() {
                self.begin_below(node);
            }
        }
        for node in (0..self.nodes.len()).map(|number| NodeId(Index::nth(number))) {
            if self.get(node).linked {
                self.join(node);
            }
        }
    }

    /// Makes nodes go in turn again.
    pub(in super::super) fn set_in_turn(&mut self) {
        self.release_held(true);
        for node in (0..self.nodes.len()).map(|number| NodeId(Index::nth(number))) {
            if self.get(node).cursor.is_some() {
                self.end_below(node);
            }
            if self.get(node).linked {
                self.part(node);
            }
        }
        self.by_weight = None;
    }

    /// Says, once, whether other reactors may go on because of what this one has held back or ended.
    #[inline]
    pub(crate) fn take_yielded(&mut self) -> bool {
        self.by_weight.as_mut().is_some_and(|order| std::mem::take(&mut order.yielded))
    }

    /// Forgets the tags and the weight of a node that is gone.
    #[inline]
    pub(super) fn forget_weight(&mut self, node: NodeId) {
        if let Some(order) = &mut self.by_weight
            && let Some(weighed) = order.nodes.get_mut(node.0.at())
        {
            *weighed = None;
        }
    }

    /// Makes the entry of a node in the heap above it one of before.
    #[inline]
    pub(super) fn leave_heap(&mut self, node: NodeId) {
        if let Some(order) = &mut self.by_weight
            && let Some(Some(weighed)) = order.nodes.get_mut(node.0.at())
        {
            order.entries = order.entries.wrapping_add(1);
            (weighed.in_heap, weighed.entry) = (false, order.entries);
        }
    }

    /// Notes that something begins to wait below a node.
    #[inline]
    pub(super) fn begin_below(&mut self, node: NodeId) {
        if let Some(order) = &self.by_weight
            && let Some(tags) = order.tags(node)
        {
            tags.below.begins(order.reactor);
        }
    }

    /// Notes that nothing waits below a node any more.
    #[inline]
    pub(super) fn end_below(&mut self, node: NodeId) {
        if let Some(order) = &mut self.by_weight
            && let Some(tags) = order.tags(node)
        {
            order.yielded |= tags.below.ends(order.reactor);
        }
    }

    /// Puts a node that was linked into the heap above it. Where the node did not wait in any reactor,
    /// it starts at the virtual time there, or at its finish tag if that is later.
    #[inline]
    pub(super) fn join(&mut self, node: NodeId) {
        if self.by_weight.is_some() {
            self.enter_heap(node);
        }
    }

    /// Notes that a node was taken out of the ring of the one above it.
    #[inline]
    pub(super) fn part(&mut self, node: NodeId) {
        if let Some(order) = &self.by_weight
            && let Some(tags) = order.tags(node)
        {
            tags.waiting.fetch_sub(1, Relaxed);
        }
    }

    fn enter_heap(&mut self, node: NodeId) {
        let Self { nodes, by_weight: Some(order) } = self else { return };
        let Some(parent) = nodes.get(node.0.at()).map(|this| this.parent) else { return };
        let now = order.tags(parent).map_or(0, |tags| tags.below.time(order.reactor));
        let Some(tags) = order.tags(node) else { return };
        let waiting = tags.waiting.fetch_add(1, Relaxed);
        if waiting == 0 && !order.releases {
            advance(&tags.finish, now);
        }
        let start = tags.finish.load(Relaxed);
        let Some(Some(weighed)) = order.nodes.get_mut(node.0.at()) else { return };
        if std::mem::replace(&mut weighed.in_heap, true) {
            // The entry of before is brought up to date where it comes first.
            return;
        }
        let entry = Entry { start, node, number: weighed.entry };
        let most = 2 * nodes.len() + 16;
        let heap = grown(&mut order.heaps, parent.0.at(), BinaryHeap::new);
        heap.push(entry);
        if heap.len() > most {
            let known = &order.nodes;
            heap.retain(|entry| {
                let weighed = known.get(entry.node.0.at()).and_then(Option::as_ref);
                weighed.is_some_and(|weighed| weighed.entry == entry.number)
            });
        }
    }

    /// Finds the node of the least start tag below one.
    fn least(&mut self, node: NodeId) -> Option<NodeId> {
        let Self { nodes, by_weight: Some(order) } = self else { return None };
        let ByWeight { class, nodes: known, heaps, .. } = &mut **order;
        let heap = heaps.get_mut(node.0.at())?;
        loop {
            let first = *heap.peek()?;
            let weighed = known.get_mut(first.node.0.at()).and_then(Option::as_mut);
            let weighed = weighed.filter(|weighed| weighed.entry == first.number);
            let linked = nodes.get(first.node.0.at()).is_some_and(|this| this.linked);
            match weighed {
                Some(weighed) if linked => {
                    let start = weighed.tags.0[*class].finish.load(Relaxed);
                    if start == first.start {
                        return Some(first.node);
                    }
                    if let Some(mut first) = heap.peek_mut() {
                        first.start = start;
                    }
                }
                weighed => {
                    if let Some(weighed) = weighed {
                        weighed.in_heap = false;
                    }
                    heap.pop();
                }
            }
        }
    }

    /// Selects the leaf that goes next below `from`. `None` where this reactor holds back all that
    /// waits there. A reservation, for which `from` is not the root, waits for no other reactor.
    pub(super) fn select_by_weight(&mut self, from: NodeId) -> Option<NodeId> {
        let yields = from == NodeId::ROOT;
        if !yields {
            self.release_held(true);
        }
        let mut node = from;
        loop {
            let this = self.get(node);
            if this.leaf {
                return this.queue.is_some().then_some(node);
            }
            let next = self.least(node)?;
            if yields && self.by_weight.as_ref().is_some_and(|order| !order.may(node, next)) {
                if node == NodeId::ROOT {
                    return None;
                }
                self.hold(node);
                node = from;
            } else {
                node = next;
            }
        }
    }

    fn hold(&mut self, node: NodeId) {
        self.deactivate(node);
        if let Some(order) = &mut self.by_weight {
            order.held.push(node);
            order.yielded = true;
        }
    }

    /// Goes on with the nodes that were held back: all of them, or those that are no longer ahead.
    pub(crate) fn release_held(&mut self, all: bool) {
        let held = self.by_weight.as_ref().map_or(0, |order| order.held.len());
        for at in (0..held).rev() {
            let Some(&node) = self.by_weight.as_ref().and_then(|order| order.held.get(at)) else {
                return;
            };
            let this = self.get(node);
            let waits = !this.linked && !this.leaf && this.cursor.is_some();
            if waits && !all {
                let next = self.least(node);
                let order = self.by_weight.as_ref();
                if order.zip(next).is_some_and(|(order, next)| !order.may(node, next)) {
                    continue;
                }
            }
            if let Some(order) = &mut self.by_weight {
                order.held.swap_remove(at);
            }
            if waits {
                self.set_releases(true);
                self.activate(node);
                self.set_releases(false);
            }
        }
    }

    fn set_releases(&mut self, releases: bool) {
        if let Some(order) = &mut self.by_weight {
            order.releases = releases;
        }
    }

    /// Says whether something below a node waits because this reactor holds it back.
    pub(super) fn holds_below(&self, node: NodeId) -> bool {
        let Some(order) = &self.by_weight else { return false };
        let is_below = |held: &NodeId| {
            let mut at = *held;
            loop {
                let this = self.get(at);
                if this.blocked {
                    return false;
                }
                if at == node {
                    return true;
                }
                if at == NodeId::ROOT {
                    return false;
                }
                at = this.parent;
            }
        };
        order.held.iter().any(|held| self.get(*held).cursor.is_some() && is_below(held))
    }

    /// Charges a leaf, and the nodes above it up to but not including `upto`, for a command.
    pub(super) fn charge_by_weight(&mut self, leaf: NodeId, upto: NodeId, cost: u32) {
        let Some(order) = &self.by_weight else { return };
        let mut node = leaf;
        while node != upto && node != NodeId::ROOT {
            let parent = self.get(node).parent;
            let Some(tags) = order.tags(node) else { return };
            let step = u64::from(cost) * STEP / order.weight(node);
            let start = match order.sharing {
                Sharing::Several => tags.finish.fetch_add(step, Relaxed),
                Sharing::One => {
                    let start = tags.finish.load(Relaxed);
                    tags.finish.store(start.wrapping_add(step), Relaxed);
                    start
                }
            };
            if let Some(above) = order.tags(parent) {
                above.below.starts(order.reactor, start);
            }
            node = parent;
        }
    }
}
