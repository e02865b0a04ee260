//! The order inside a class: a tree in which sessions have turns, and in each session its hosts, by
//! deficit round robin. See docs/research/sources.md, D1 and D4.
//!
//! Every node that has work is in the ring of its parent. A turn gives a node a quantum; the node
//! may go into debt by one command, which later turns pay back (surplus round robin). So a giant
//! command needs no saving up, and nobody waits for it longer than for its cost. All operations
//! take constant time, but for the turns that pay back giants (one for each quantum).
//!
//! If a session has a weight, nodes go by start tag instead (`tree/weighted.rs`). The rings are
//! maintained then, too: they record which nodes have work.

mod node;
mod weighted;

use std::collections::BinaryHeap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use units::Class;

use super::clock::{advance, ahead};
use super::tags::Tags;
use crate::index::{Index, grown};
use crate::sharing::Sharing;
use crate::sync::{AtomicU32, Ordering::Relaxed};

use node::Node;
pub(crate) use node::{Ends, NodeId};
use weighted::{ByWeight, Entry, LEAD_COMMANDS, Releases, STEP, WeightedNode};

/// The tree of one class at one device. `I` names a command.
#[derive(Debug)]
pub(crate) struct Tree<I> {
    nodes: Vec<Node<I>>,
    /// The order by weight; `None`: nodes go in turn.
    by_weight: Option<Box<ByWeight>>,
}

impl<I: Copy> Default for Tree<I> {
    fn default() -> Self {
        Self { nodes: vec![Node::EMPTY], by_weight: None }
    }
}

impl<I: Copy> Tree<I> {
    #[expect(clippy::indexing_slicing, reason = "names come from `place`, which makes the node")]
    #[inline]
    fn at(&mut self, node: NodeId) -> &mut Node<I> {
        &mut self.nodes[node.0.at()]
    }

    #[expect(clippy::indexing_slicing, reason = "names come from `place`, which makes the node")]
    #[inline]
    fn get(&self, node: NodeId) -> &Node<I> {
        &self.nodes[node.0.at()]
    }

    /// Makes (or remakes) a node that has no work.
    pub(crate) fn place(&mut self, node: NodeId, parent: NodeId, leaf: bool) {
        *grown(&mut self.nodes, node.0.at(), || Node::EMPTY) = Node { parent, leaf, ..Node::EMPTY };
        self.forget_weight(node);
    }

    /// Moves a node with its subtree below another; its queue and its debt stay.
    pub(crate) fn move_to(&mut self, node: NodeId, parent: NodeId) {
        self.deactivate(node);
        let this = self.at(node);
        this.parent = parent;
        self.leave_heap(node);
        let this = self.get(node);
        if !this.blocked && this.has_work() {
            self.activate(node);
        }
    }

    /// Blocks one node instead of another.
    pub(crate) fn move_block(&mut self, from: NodeId, to: NodeId) {
        self.block(to);
        self.unblock(from);
    }

    /// Returns whether anything may be taken from the tree now. Nodes that are held back for other reactors do not
    /// count: they wait for commands there, and while a limit blocks these, other classes must not wait with them.
    #[inline]
    #[must_use]
    pub(crate) fn has_work(&self) -> bool {
        let root = self.get(NodeId::ROOT);
        !root.blocked && root.has_work()
    }

    /// Returns whether anything may be taken from below a node, or is held back there.
    #[inline]
    #[must_use]
    pub(crate) fn node_has_work(&self, node: NodeId) -> bool {
        let this = self.get(node);
        !this.blocked && (this.has_work() || self.holds_below(node))
    }

    /// Finds the ends of a leaf's queue; `None`: nothing waits there.
    #[inline]
    #[must_use]
    pub(crate) fn queue(&self, leaf: NodeId) -> Option<Ends<I>> {
        self.get(leaf).queue
    }

    /// Sets the ends of a leaf's queue, and takes a leaf with nothing left out of its ring.
    #[inline]
    pub(crate) fn set_queue(&mut self, leaf: NodeId, queue: Option<Ends<I>>) {
        self.at(leaf).queue = queue;
        if queue.is_none() {
            self.deactivate(leaf);
        }
    }

    /// Links a node that has work into its parent's ring, and so on upwards.
    #[inline]
    pub(crate) fn activate(&mut self, mut node: NodeId) {
        while node != NodeId::ROOT {
            let this = self.at(node);
            if this.linked || this.blocked {
                return;
            }
            this.linked = true;
            // A debt stays, savings do not.
            this.deficit = this.deficit.min(0);
            let parent = this.parent;
            if let Some(cursor) = self.get(parent).cursor {
                // The end of the ring is just before the node whose turn it is.
                let last = self.get(cursor).prev;
                let this = self.at(node);
                (this.prev, this.next) = (last, cursor);
                self.at(last).next = node;
                self.at(cursor).prev = node;
                self.join(node);
                return;
            }
            let this = self.at(node);
            (this.prev, this.next) = (node, node);
            self.at(parent).cursor = Some(node);
            self.begin_below(parent);
            self.join(node);
            node = parent;
        }
    }

    /// Takes a node out of its parent's ring, and empty rings out of theirs.
    #[inline]
    pub(crate) fn deactivate(&mut self, mut node: NodeId) {
        while node != NodeId::ROOT {
            let this = self.at(node);
            if !this.linked {
                return;
            }
            this.linked = false;
            self.part(node);
            let this = self.get(node);
            let (parent, prev, next) = (this.parent, this.prev, this.next);
            if next != node {
                self.at(prev).next = next;
                self.at(next).prev = prev;
                let above = self.at(parent);
                if above.cursor == Some(node) {
                    above.cursor = Some(next);
                }
                return;
            }
            self.at(parent).cursor = None;
            self.end_below(parent);
            node = parent;
        }
    }

    /// Removes a node from its parent's ring, even if it has work.
    pub(crate) fn block(&mut self, node: NodeId) {
        self.deactivate(node);
        self.at(node).blocked = true;
    }

    pub(crate) fn is_blocked(&self, node: NodeId) -> bool {
        self.get(node).blocked
    }

    /// Returns a node to its parent's ring if it has work. A node that was blocked in the middle of
    /// its turn continues the turn. Otherwise a session with a limit on its rate would wait for a
    /// whole round each time, and not reach its limit.
    pub(crate) fn unblock(&mut self, node: NodeId) {
        let this = self.at(node);
        this.blocked = false;
        if !this.has_work() {
            return;
        }
        let (left, parent) = (this.deficit, this.parent);
        self.activate(node);
        if left > 0 && node != NodeId::ROOT && self.get(node).linked {
            self.at(node).deficit = left;
            self.at(parent).cursor = Some(node);
        }
    }

    /// Selects the leaf whose turn it is below `from`. There must be one.
    #[inline]
    pub(crate) fn select(&mut self, from: NodeId, quantum: i32) -> Option<NodeId> {
        if self.by_weight.is_some() {
            return self.select_by_weight(from);
        }
        let mut node = from;
        loop {
            let this = *self.get(node);
            debug_assert!(this.has_work(), "only a node with work selects a child");
            if this.leaf {
                return this.queue.is_some().then_some(node);
            }
            let mut child = this.cursor?;
            let mut turn = *self.get(child);
            if turn.deficit <= 0 {
                if turn.next == child {
                    self.at(child).deficit = quantum;
                } else {
                    loop {
                        turn.deficit = turn.deficit.saturating_add(quantum);
                        self.at(child).deficit = turn.deficit;
                        if turn.deficit > 0 {
                            break;
                        }
                        child = turn.next;
                        turn = *self.get(child);
                        if turn.deficit > 0 {
                            break;
                        }
                    }
                    self.at(node).cursor = Some(child);
                }
            }
            node = child;
        }
    }

    /// Charges a leaf, and the nodes above it up to but not including `upto`, for a command. A node
    /// whose turn is over hands it on to the next.
    #[inline]
    pub(crate) fn charge(&mut self, leaf: NodeId, upto: NodeId, cost: u32) {
        self.charge_shared(leaf, upto, cost, 1);
    }

    /// Charges a command as [`Self::charge`] does, and the leaf as many times as its host has leaves
    /// that wait: in the trees of other reactors, too.
    #[inline]
    pub(crate) fn charge_shared(&mut self, leaf: NodeId, upto: NodeId, cost: u32, leaves: u32) {
        if self.by_weight.is_some() {
            return self.charge_by_weight(leaf, upto, cost);
        }
        let (mut node, above) = (leaf, cost);
        let mut cost = cost.saturating_mul(leaves);
        while node != upto && node != NodeId::ROOT {
            let this = self.at(node);
            // The largest command costs 2^28, and only a node without debt is selected.
            this.deficit = this.deficit.saturating_sub_unsigned(cost);
            cost = above;
            node = self.hand_on(node);
        }
    }

    /// Charges a leaf and all nodes above it for a command that took no turn. A node without waiting commands owes no
    /// more than this command: otherwise a host whose small commands always find room would owe all of them once it
    /// has to wait.
    pub(crate) fn charge_out_of_turn(&mut self, leaf: NodeId, cost: u32) {
        if self.by_weight.is_some() {
            return self.charge_out_of_turn_by_weight(leaf, cost);
        }
        let mut node = leaf;
        while node != NodeId::ROOT {
            let this = self.at(node);
            let debt = this.deficit.saturating_sub_unsigned(cost);
            this.deficit =
                if this.linked { debt } else { debt.max(0_i32.saturating_sub_unsigned(cost)) };
            node = self.hand_on(node);
        }
    }

    /// Ends the turn of a node in debt. Returns its parent.
    #[inline]
    fn hand_on(&mut self, node: NodeId) -> NodeId {
        let this = self.get(node);
        let (parent, next) = (this.parent, this.next);
        if this.deficit <= 0 && this.linked {
            let above = self.at(parent);
            if above.cursor == Some(node) {
                above.cursor = Some(next);
            }
        }
        parent
    }
}

impl<I: Copy> Tree<I> {
    /// Makes nodes go by weight from now on. Each node is then [weighed](Self::weigh), and all of them
    /// [begin](Self::begin_by_weight).
    pub(super) fn set_by_weight(&mut self, class: Class, reactor: u32, sharing: Sharing) {
        let (nodes, heaps, held) = (Vec::new(), Vec::new(), Vec::new());
        self.by_weight = Some(Box::new(ByWeight {
            class,
            reactor,
            sharing,
            nodes,
            heaps,
            held,
            releases: Releases::None,
            entries: 0,
            yielded: false,
            leads: FxHashMap::default(),
        }));
    }

    /// Sets by how many commands reactors may lead each other below a node: as many as pass a limit on it in a
    /// millisecond, at least one.
    pub(crate) fn set_lead(&mut self, node: NodeId, commands: u64) {
        let Some(order) = &mut self.by_weight else { return };
        match u16::try_from(commands).unwrap_or(u16::MAX) {
            LEAD_COMMANDS.. => order.leads.remove(&node.number()),
            few => order.leads.insert(node.number(), few.max(1)),
        };
    }

    /// Returns by how many commands a reactor may lead others below a node: the least of those for the node and all
    /// above it.
    fn lead_below(&self, mut node: NodeId) -> u16 {
        let Some(order) = self.by_weight.as_ref().filter(|order| !order.leads.is_empty()) else {
            return LEAD_COMMANDS;
        };
        let mut least = LEAD_COMMANDS;
        loop {
            least = order.leads.get(&node.number()).map_or(least, |lead| least.min(*lead));
            if node == NodeId::ROOT {
                return least;
            }
            node = self.get(node).parent;
        }
    }

    /// Gives a node its tags and its weight, which `None` leaves at [`WEIGHT`].
    pub(super) fn weigh(&mut self, node: NodeId, tags: Arc<Tags>, weight: Option<Arc<AtomicU32>>) {
        let Some(order) = &mut self.by_weight else { return };
        order.leads.remove(&node.number());
        order.heap(node).clear();
        order.entries = order.entries.wrapping_add(1);
        let weighed = WeightedNode { tags, weight, in_heap: false, entry: order.entries };
        *grown(&mut order.nodes, node.0.at(), || None) = Some(weighed);
    }

    /// Puts all nodes that have work in order by weight.
    pub(super) fn begin_by_weight(&mut self) {
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
    pub(super) fn set_in_turn(&mut self) {
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
    fn forget_weight(&mut self, node: NodeId) {
        if let Some(order) = &mut self.by_weight
            && let Some(weighed) = order.nodes.get_mut(node.0.at())
        {
            *weighed = None;
        }
    }

    /// Makes the entry of a node in the heap above it one of before.
    #[inline]
    fn leave_heap(&mut self, node: NodeId) {
        if let Some(order) = &mut self.by_weight
            && let Some(Some(weighed)) = order.nodes.get_mut(node.0.at())
        {
            order.entries = order.entries.wrapping_add(1);
            (weighed.in_heap, weighed.entry) = (false, order.entries);
        }
    }

    /// Notes that something begins to wait below a node.
    #[inline]
    fn begin_below(&mut self, node: NodeId) {
        if let Some(order) = &self.by_weight
            && order.releases != Releases::Unseen
            && let Some(tags) = order.tags(node)
        {
            tags.below.begins(order.reactor);
        }
    }

    /// Notes that nothing waits below a node any more.
    #[inline]
    fn end_below(&mut self, node: NodeId) {
        if let Some(order) = &mut self.by_weight
            && order.releases != Releases::Unseen
            && let Some(tags) = order.tags(node)
        {
            order.yielded |= tags.below.ends(order.reactor);
        }
    }

    /// Inserts a linked node into the heap above it. If the node did not wait in any reactor, it
    /// starts at the virtual time there, or at its finish tag if that is later.
    #[inline]
    fn join(&mut self, node: NodeId) {
        if self.by_weight.is_some() {
            self.enter_heap(node);
        }
    }

    /// Notes that a node was taken out of the ring of the one above it.
    #[inline]
    fn part(&mut self, node: NodeId) {
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
        if waiting == 0 && order.releases == Releases::None {
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

    /// Selects the next leaf below `from`. `None` if this reactor holds back every waiting leaf there. A reservation, for
    /// which `from` is not the root, waits for no other reactor.
    fn select_by_weight(&mut self, from: NodeId) -> Option<NodeId> {
        if from != NodeId::ROOT {
            return self.select_among_held(from);
        }
        let mut node = from;
        loop {
            let this = self.get(node);
            if this.leaf {
                return this.queue.is_some().then_some(node);
            }
            let next = self.least(node)?;
            let most = self.lead_below(node);
            if self.by_weight.as_mut().is_some_and(|order| !order.may(node, next, most)) {
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

    /// Selects the next leaf below `from`. Nodes that this reactor holds back count, and remain held back: after a release
    /// for which no command could go, each selection from the root would hold them back again and wake the other
    /// reactors for nothing.
    fn select_among_held(&mut self, from: NodeId) -> Option<NodeId> {
        let mut held = std::mem::take(&mut self.by_weight.as_mut()?.held);
        held.retain(|node| self.is_held(*node));
        self.set_releases(Releases::Unseen);
        for node in &held {
            self.activate(*node);
        }
        let mut leaf = Some(from);
        while let Some(node) = leaf
            && !self.get(node).leaf
        {
            leaf = self.least(node);
        }
        for node in &held {
            self.deactivate(*node);
        }
        self.set_releases(Releases::None);
        self.by_weight.as_mut()?.held = held;
        leaf.filter(|leaf| self.get(*leaf).queue.is_some())
    }

    fn hold(&mut self, node: NodeId) {
        self.deactivate(node);
        if let Some(order) = &mut self.by_weight {
            order.held.push(node);
            order.yielded = true;
        }
    }

    /// Releases the nodes that were held back: all of them, or the nodes that are no longer ahead. Returns whether there
    /// were any.
    pub(crate) fn release_held(&mut self, all: bool) -> bool {
        let held = self.by_weight.as_ref().map_or(0, |order| order.held.len());
        let mut released = false;
        for at in (0..held).rev() {
            let Some(&node) = self.by_weight.as_ref().and_then(|order| order.held.get(at)) else {
                return released;
            };
            let waits = self.is_held(node);
            if waits && !all {
                let next = self.least(node);
                let most = self.lead_below(node);
                let order = self.by_weight.as_mut();
                if order.zip(next).is_some_and(|(order, next)| !order.may(node, next, most)) {
                    continue;
                }
            }
            if let Some(order) = &mut self.by_weight {
                order.held.swap_remove(at);
            }
            if waits {
                released = true;
                self.set_releases(Releases::Held);
                self.activate(node);
                self.set_releases(Releases::None);
            }
        }
        released
    }

    /// Returns whether something waits below a node that was held back, and was not released since.
    fn is_held(&self, node: NodeId) -> bool {
        let this = self.get(node);
        !this.linked && !this.leaf && this.cursor.is_some()
    }

    fn set_releases(&mut self, releases: Releases) {
        if let Some(order) = &mut self.by_weight {
            order.releases = releases;
        }
    }

    /// Returns whether something below a node waits because this reactor holds it back.
    fn holds_below(&self, node: NodeId) -> bool {
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

    fn charge_out_of_turn_by_weight(&mut self, leaf: NodeId, cost: u32) {
        let Some(order) = &self.by_weight else { return };
        let mut node = leaf;
        while node != NodeId::ROOT {
            let Node { parent, linked, .. } = *self.get(node);
            let Some(tags) = order.tags(node) else { return };
            let step = u64::from(cost) * STEP / order.weight(node);
            let now = order.tags(parent).map_or(0, |tags| tags.below.time(order.reactor));
            let own = tags.finish.load(Relaxed);
            let charged = if linked { own } else { now }.wrapping_add(step);
            if linked || ahead(charged, own) > 0 {
                tags.finish.store(charged, Relaxed);
            }
            node = parent;
        }
    }

    /// Charges a leaf, and the nodes above it up to but not including `upto`, for a command.
    fn charge_by_weight(&mut self, leaf: NodeId, upto: NodeId, cost: u32) {
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
