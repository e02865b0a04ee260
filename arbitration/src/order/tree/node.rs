//! Nodes of the order inside a class.

use std::num::NonZeroU32;

use crate::index::{Index, names};

/// A node: a session's group, a session's own hosts, or a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(pub(super) Index);

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
pub(super) struct Node<I> {
    /// The node above; the root's is the root itself.
    pub(super) parent: NodeId,
    /// Neighbours in the parent's ring, of a node that is linked.
    pub(super) prev: NodeId,
    pub(super) next: NodeId,
    /// The child whose turn it is in this node's ring; `None`: the ring is empty.
    pub(super) cursor: Option<NodeId>,
    pub(super) deficit: i32,
    /// A host's queue; `None`: nothing waits there.
    pub(super) queue: Option<Ends<I>>,
    pub(super) linked: bool,
    pub(super) blocked: bool,
    pub(super) leaf: bool,
}

const _: () = assert!(size_of::<Node<NonZeroU32>>() == 32);

impl<I> Node<I> {
    pub(super) const EMPTY: Self = Self {
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

    /// Returns whether anything waits in the node's own queue, or may go on below it.
    #[inline]
    pub(super) const fn has_work(&self) -> bool {
        self.cursor.is_some() || self.queue.is_some()
    }
}
