//! Inside a class: the tree of sessions polled in turn, and in each session its hosts, by deficit.
//! See docs/sources.md, D1 and D4.
//!
//! Every node that has work is in the ring of its parent. A turn gives a node a quantum; it may
//! go into debt by one command, which later turns pay back (surplus round robin): so a giant
//! command needs no saving up, and nobody waits for it longer than for its cost. All operations
//! take constant time, but for the turns that pay back giants (one for each quantum).

/// No node, no entry.
pub(crate) const NONE: u32 = u32::MAX;

/// The root of every tree.
pub(crate) const ROOT: u32 = 0;

/// One node: a session's group, a session's own hosts, or a host. Two to a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Node {
    parent: u32,
    /// Neighbours in the parent's ring.
    prev: u32,
    next: u32,
    /// Whose turn it is in this node's ring.
    cursor: u32,
    deficit: i32,
    /// A host's queue: first and last entry.
    head: u32,
    tail: u32,
    linked: bool,
    blocked: bool,
    leaf: bool,
}

const _: () = assert!(size_of::<Node>() == 32);

const EMPTY: Node = Node {
    parent: NONE,
    prev: NONE,
    next: NONE,
    cursor: NONE,
    deficit: 0,
    linked: false,
    blocked: false,
    head: NONE,
    tail: NONE,
    leaf: false,
};

/// The tree of one class at one device.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    /// Leaves that have work.
    leaves: u32,
}

impl Default for Tree {
    fn default() -> Self {
        Self { nodes: vec![EMPTY], leaves: 0 }
    }
}

impl Tree {
    #[expect(clippy::indexing_slicing, reason = "indices come from `place`, which makes the node")]
    #[inline]
    fn at(&mut self, node: u32) -> &mut Node {
        &mut self.nodes[node as usize]
    }

    #[expect(clippy::indexing_slicing, reason = "indices come from `place`, which makes the node")]
    #[inline]
    fn get(&self, node: u32) -> &Node {
        &self.nodes[node as usize]
    }

    /// Makes (or remakes) a node that has no work.
    pub(crate) fn place(&mut self, node: u32, parent: u32, leaf: bool) {
        if node as usize >= self.nodes.len() {
            self.nodes.resize(node as usize + 1, EMPTY);
        }
        *self.at(node) = Node { parent, leaf, ..EMPTY };
    }

    /// Leaves that have work.
    #[inline]
    #[must_use]
    pub(crate) fn leaves(&self) -> u32 {
        self.leaves
    }

    /// Moves a node, with all that is below it, below another; its queue and its debt stay.
    pub(crate) fn move_to(&mut self, node: u32, parent: u32) {
        self.deactivate(node);
        let this = self.at(node);
        this.parent = parent;
        if !this.blocked && (this.cursor != NONE || this.head != NONE) {
            self.activate(node);
        }
    }

    /// Hands a block on from one node to another.
    pub(crate) fn move_block(&mut self, from: u32, to: u32) {
        self.block(to);
        self.unblock(from);
    }

    /// Whether anything may be taken from the tree.
    #[inline]
    #[must_use]
    pub(crate) fn has_work(&self) -> bool {
        let root = self.get(ROOT);
        root.cursor != NONE && !root.blocked
    }

    /// Whether anything may be taken from below a node.
    #[inline]
    #[must_use]
    pub(crate) fn node_has_work(&self, node: u32) -> bool {
        let node = self.get(node);
        !node.blocked && (node.cursor != NONE || node.head != NONE)
    }

    /// The ends of a leaf's queue.
    #[inline]
    #[must_use]
    pub(crate) fn queue(&self, leaf: u32) -> (u32, u32) {
        let node = self.get(leaf);
        (node.head, node.tail)
    }

    /// Sets the ends of a leaf's queue.
    #[inline]
    pub(crate) fn set_queue(&mut self, leaf: u32, head: u32, tail: u32) {
        let node = self.at(leaf);
        (node.head, node.tail) = (head, tail);
    }

    /// Links a node that has work into its parent's ring, and so on upwards.
    #[inline]
    pub(crate) fn activate(&mut self, mut node: u32) {
        while node != ROOT {
            let this = self.at(node);
            if this.linked || this.blocked {
                return;
            }
            this.linked = true;
            let leaf = this.leaf;
            // A debt stays, savings do not.
            this.deficit = this.deficit.min(0);
            let parent = this.parent;
            self.leaves += u32::from(leaf);
            let cursor = self.get(parent).cursor;
            if cursor == NONE {
                let this = self.at(node);
                (this.prev, this.next) = (node, node);
                self.at(parent).cursor = node;
            } else {
                // At the end: just before the one whose turn it is.
                let last = self.get(cursor).prev;
                let this = self.at(node);
                (this.prev, this.next) = (last, cursor);
                self.at(last).next = node;
                self.at(cursor).prev = node;
                return;
            }
            node = parent;
        }
    }

    /// Takes a node out of its parent's ring, and empty rings out of theirs.
    #[inline]
    pub(crate) fn deactivate(&mut self, mut node: u32) {
        while node != ROOT {
            let this = self.at(node);
            if !this.linked {
                return;
            }
            this.linked = false;
            let (parent, prev, next) = (this.parent, this.prev, this.next);
            if this.leaf {
                self.leaves -= 1;
            }
            if next != node {
                self.at(prev).next = next;
                self.at(next).prev = prev;
                let above = self.at(parent);
                if above.cursor == node {
                    above.cursor = next;
                }
                return;
            }
            self.at(parent).cursor = NONE;
            node = parent;
        }
    }

    /// Keeps a node out of its parent's ring, whatever work it has.
    pub(crate) fn block(&mut self, node: u32) {
        self.deactivate(node);
        self.at(node).blocked = true;
    }

    /// Lets a node back into its parent's ring, if it has work. One that was held up in the middle
    /// of its turn goes on with it: else a session with a limit on its rate would wait for a whole
    /// round whenever its time has come, and not get what its limit allows.
    pub(crate) fn unblock(&mut self, node: u32) {
        let this = self.at(node);
        this.blocked = false;
        if this.cursor == NONE && this.head == NONE {
            return;
        }
        let (left, parent) = (this.deficit, this.parent);
        self.activate(node);
        if left > 0 && node != ROOT && self.get(node).linked {
            self.at(node).deficit = left;
            self.at(parent).cursor = node;
        }
    }

    /// The leaf whose turn it is below `from`. There must be one.
    #[inline]
    pub(crate) fn select(&mut self, from: u32, quantum: i32) -> Option<u32> {
        let mut node = from;
        loop {
            let this = *self.get(node);
            if this.leaf {
                return (this.head != NONE).then_some(node);
            }
            let mut child = this.cursor;
            if child == NONE {
                return None;
            }
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
                    self.at(node).cursor = child;
                }
            }
            node = child;
        }
    }

    /// Charges a leaf, and what is above it up to but not including `upto`, for a command; whose
    /// turn is over hands it on.
    #[inline]
    pub(crate) fn charge(&mut self, leaf: u32, upto: u32, cost: u32) {
        let mut node = leaf;
        while node != upto && node != ROOT {
            let this = self.at(node);
            // The largest command costs 2^28, and only who has no debt goes on.
            this.deficit = this.deficit.saturating_sub_unsigned(cost);
            let (parent, next, linked) = (this.parent, this.next, this.linked);
            if this.deficit <= 0 && linked {
                let above = self.at(parent);
                if above.cursor == node {
                    above.cursor = next;
                }
            }
            node = parent;
        }
    }
}
