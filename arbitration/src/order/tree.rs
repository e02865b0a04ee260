//! The order inside a class: a tree in which sessions have turns, and in each session its hosts, by
//! deficit round robin. See docs/sources.md, D1 and D4.
//!
//! Every node that has work is in the ring of its parent. A turn gives a node a quantum; the node
//! may go into debt by one command, which later turns pay back (surplus round robin). So a giant
//! command needs no saving up, and nobody waits for it longer than for its cost. All operations
//! take constant time, but for the turns that pay back giants (one for each quantum).
//!
//! Where a session has a weight, nodes go by start tag instead (`tree/weighted.rs`). The rings are kept
//! then, too: they say which nodes have work.

mod weighted;

use std::num::NonZeroU32;

use crate::index::{Index, grown, names};

use weighted::ByWeight;

/// A node: a session's group, a session's own hosts, or a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeId(Index);

names!(NodeId);

impl NodeId {
    /// The root of every tree.
    pub(crate) const ROOT: Self = Self(Index::FIRST);

    /// Returns the node's number: 0 for the root.
    #[inline]
    pub(crate) const fn number(self) -> u32 {
        self.0.number()
    }
}

/// The first and the last command of a host's queue, which is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends<I> {
    pub(crate) first: I,
    pub(crate) last: I,
}

/// A node of the tree. Two nodes fill a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Node<I> {
    /// The node above; the root's is the root itself.
    parent: NodeId,
    /// Neighbours in the parent's ring, of a node that is linked.
    prev: NodeId,
    next: NodeId,
    /// The child whose turn it is in this node's ring; `None`: the ring is empty.
    cursor: Option<NodeId>,
    deficit: i32,
    /// A host's queue; `None`: nothing waits there.
    queue: Option<Ends<I>>,
    linked: bool,
    blocked: bool,
    leaf: bool,
}

const _: () = assert!(size_of::<Node<NonZeroU32>>() == 32);

impl<I> Node<I> {
    const EMPTY: Self = Self {
        parent: NodeId::ROOT,
        prev: NodeId::ROOT,
        next: NodeId::ROOT,
        cursor: None,
        deficit: 0,
        queue: None,
        linked: false,
        blocked: false,
        leaf: false,
    };

    /// Says whether anything waits in the node's own queue, or may go on below it.
    #[inline]
    const fn has_work(&self) -> bool {
        self.cursor.is_some() || self.queue.is_some()
    }
}

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

    /// Moves a node, with all that is below it, below another; its queue and its debt stay.
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

    /// Says whether anything may be taken from the tree.
    #[inline]
    #[must_use]
    pub(crate) fn has_work(&self) -> bool {
        self.node_has_work(NodeId::ROOT)
    }

    /// Says whether anything may be taken from below a node.
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

    /// Keeps a node out of its parent's ring, whatever work it has.
    pub(crate) fn block(&mut self, node: NodeId) {
        self.deactivate(node);
        self.at(node).blocked = true;
    }

    /// Lets a node back into its parent's ring, if it has work. A node that was blocked in the
    /// middle of its turn goes on with the turn: else a session with a limit on its rate would wait
    /// for a whole round whenever its time has come, and not get what its limit allows.
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
            debug_assert!(this.has_work(), "only what has work is asked whose turn it is");
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
            let (parent, next, linked) = (this.parent, this.next, this.linked);
            if this.deficit <= 0 && linked {
                let above = self.at(parent);
                if above.cursor == Some(node) {
                    above.cursor = Some(next);
                }
            }
            node = parent;
        }
    }
}
