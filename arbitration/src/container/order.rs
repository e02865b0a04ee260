//! A treap: a sorted set of slots in memory that is allocated once.

/// No slot.
const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node<K> {
    key: K,
    priority: u32,
    left: u32,
    right: u32,
}

/// Slots (numbers below the capacity) in the order of their keys, which are unique. Insertion,
/// removal and searches take logarithmic time on average for any keys: random priorities shape the
/// tree.
#[derive(Debug)]
pub(super) struct Order<K> {
    nodes: Vec<Node<K>>,
    root: u32,
    /// Draws priorities.
    random: fastrand::Rng,
}

impl<K: Copy + Ord + Default> Order<K> {
    /// Makes an empty set for slots below `capacity`. Allocates once.
    pub(super) fn new(capacity: usize) -> Self {
        let empty = Node { key: K::default(), priority: 0, left: NIL, right: NIL };
        Self { nodes: vec![empty; capacity], root: NIL, random: fastrand::Rng::with_seed(0) }
    }

    /// Adds a slot that is not in the set.
    pub(super) fn insert(&mut self, slot: u32, key: K) {
        let Some(node) = self.nodes.get_mut(slot as usize) else {
            debug_assert!(false, "slots are below the capacity");
            return;
        };
        *node = Node { key, priority: self.random.u32(..), left: NIL, right: NIL };
        let (below, above) = self.split(self.root, key);
        let lower = self.merge(below, slot);
        self.root = self.merge(lower, above);
    }

    /// Removes the slot with this key, which is in the set.
    pub(super) fn remove(&mut self, key: K) {
        self.root = self.without(self.root, key);
    }

    /// Finds the least key, and its slot.
    pub(super) fn first(&self) -> Option<(K, u32)> {
        let (mut at, mut found) = (self.root, None);
        while let Some(node) = self.node(at) {
            found = Some((node.key, at));
            at = node.left;
        }
        found
    }

    /// Finds the least key that is not below `key`, and its slot.
    pub(super) fn at_or_after(&self, key: K) -> Option<(K, u32)> {
        let (mut at, mut found) = (self.root, None);
        while let Some(node) = self.node(at) {
            if node.key < key {
                at = node.right;
            } else {
                found = Some((node.key, at));
                at = node.left;
            }
        }
        found
    }

    fn node(&self, at: u32) -> Option<&Node<K>> {
        self.nodes.get(at as usize)
    }

    /// Gives `at` these children, and returns it.
    fn join(&mut self, at: u32, left: u32, right: u32) -> u32 {
        if let Some(node) = self.nodes.get_mut(at as usize) {
            (node.left, node.right) = (left, right);
        }
        at
    }

    /// Splits a tree into the keys below `key`, and the rest.
    fn split(&mut self, at: u32, key: K) -> (u32, u32) {
        let Some(&Node { key: here, left, right, .. }) = self.node(at) else { return (NIL, NIL) };
        if here < key {
            let (below, above) = self.split(right, key);
            (self.join(at, left, below), above)
        } else {
            let (below, above) = self.split(left, key);
            (below, self.join(at, above, right))
        }
    }

    /// Merges two trees, the first of which is below the second.
    fn merge(&mut self, below: u32, above: u32) -> u32 {
        let (Some(&lower), Some(&upper)) = (self.node(below), self.node(above)) else {
            return below.min(above); // NIL is the greatest number
        };
        if lower.priority > upper.priority {
            let right = self.merge(lower.right, above);
            self.join(below, lower.left, right)
        } else {
            let left = self.merge(below, upper.left);
            self.join(above, left, upper.right)
        }
    }

    fn without(&mut self, at: u32, key: K) -> u32 {
        let Some(&Node { key: here, left, right, .. }) = self.node(at) else {
            debug_assert!(false, "what is taken out is in the set");
            return NIL;
        };
        if here == key {
            return self.merge(left, right);
        }
        if key < here {
            let left = self.without(left, key);
            self.join(at, left, right)
        } else {
            let right = self.without(right, key);
            self.join(at, left, right)
        }
    }
}
