//! The sessions and hosts that share one thing in turn: a tree for each class, and each session's
//! place in all of them. A place is made with the first flow of a session or of one below it, and
//! goes with the last.

use rustc_hash::FxHashMap;
use units::{Class, PerClass};

use super::{NONE, ROOT, Tree};

/// The root session.
const ROOT_SESSION: u32 = 0;

/// A session's place in the trees.
#[derive(Debug)]
pub(crate) struct Place<E> {
    /// The session above; none for the root.
    pub(crate) parent: u32,
    /// The node above its children's; none where it has no children.
    group: u32,
    /// The node above its own hosts'.
    own: u32,
    /// Its own flows.
    flows: u32,
    /// Sessions below it that have places.
    children: u32,
    blocked: bool,
    /// What else the owner of the hierarchy keeps of it.
    pub(crate) of_owner: E,
}

impl<E> Place<E> {
    /// A place below `parent` that has no node yet.
    pub(crate) const fn new(parent: u32, of_owner: E) -> Self {
        Self { parent, group: NONE, own: NONE, flows: 0, children: 0, blocked: false, of_owner }
    }

    /// The node that all of the session is below.
    pub(crate) const fn top(&self) -> u32 {
        if self.group == NONE { self.own } else { self.group }
    }

    /// Whether nothing of the session may go on.
    pub(crate) const fn is_blocked(&self) -> bool {
        self.blocked
    }
}

/// Makes what the owner keeps of a session, from what it keeps of the one above it.
pub(crate) type MakePlace<'a, E> = &'a mut dyn FnMut(u32, Option<&E>) -> E;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Hierarchy<E> {
    /// The order inside each class.
    pub(crate) trees: PerClass<Tree>,
    places: FxHashMap<u32, Place<E>>,
    /// Nodes that were ever made, the root among them.
    nodes: u32,
    free_nodes: Vec<u32>,
}

impl<E> Hierarchy<E> {
    /// A hierarchy of the root session alone.
    pub(crate) fn new(root: E) -> Self {
        let place = Place { group: ROOT, ..Place::new(NONE, root) };
        Self {
            trees: PerClass::default(),
            places: FxHashMap::from_iter([(ROOT_SESSION, place)]),
            nodes: 1,
            free_nodes: Vec::new(),
        }
    }

    /// Finds a session's place.
    #[inline]
    pub(crate) fn place(&self, session: u32) -> Option<&Place<E>> {
        self.places.get(&session)
    }

    /// Finds what the owner keeps of a session.
    #[inline]
    pub(crate) fn of_owner(&mut self, session: u32) -> Option<&mut E> {
        self.places.get_mut(&session).map(|place| &mut place.of_owner)
    }

    /// The sessions that have places.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = u32> {
        self.places.keys().copied()
    }

    /// What the owner keeps of all sessions.
    pub(crate) fn all_of_owner(&mut self) -> impl Iterator<Item = &mut E> {
        self.places.values_mut().map(|place| &mut place.of_owner)
    }

    /// How many nodes are in use besides the root, and how many sessions have places.
    #[cfg(test)]
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.nodes as usize - 1 - self.free_nodes.len(), self.places.len())
    }

    fn new_node(&mut self, parent: u32, leaf: bool) -> u32 {
        let node = self.free_nodes.pop().unwrap_or_else(|| {
            self.nodes += 1;
            self.nodes - 1
        });
        for tree in self.trees.values_mut() {
            tree.place(node, parent, leaf);
        }
        node
    }

    fn free_node(&mut self, node: u32) {
        for tree in self.trees.values_mut() {
            tree.deactivate(node);
        }
        self.free_nodes.push(node);
    }

    /// Makes a host's node below a session's. `line` is the session, and those above it up to the
    /// root.
    pub(crate) fn add_flow(&mut self, line: &[u32], make: MakePlace<'_, E>) -> Option<u32> {
        let session = *line.first()?;
        self.make_place(line, make);
        let place = self.places.get_mut(&session)?;
        place.flows += 1;
        let (own, above, blocked) = (place.own, place.group, place.blocked);
        if own != NONE {
            return Some(self.new_node(own, true));
        }
        let group = if above == NONE { self.group_above(session) } else { above };
        let own = self.new_node(group, false);
        self.places.get_mut(&session)?.own = own;
        if blocked && above == NONE {
            for tree in self.trees.values_mut() {
                tree.block(own);
            }
        }
        Some(self.new_node(own, true))
    }

    /// Takes a host's node away that has nothing waiting, and the places that nobody needs now:
    /// these are handed to `dropped`.
    pub(crate) fn remove_flow(&mut self, session: u32, node: u32, dropped: &mut dyn FnMut(u32, E)) {
        self.free_node(node);
        let Some(place) = self.places.get_mut(&session) else {
            debug_assert!(false, "a flow keeps its session's place");
            return;
        };
        debug_assert!(place.flows > 0, "a flow is counted in its session's place");
        place.flows -= 1;
        if place.flows == 0 {
            let own = std::mem::replace(&mut place.own, NONE);
            self.free_node(own);
            self.prune(session, dropped);
        }
    }

    /// Finds the node below which a session's own are.
    fn group_above(&self, session: u32) -> u32 {
        let parent = self.place(session).map_or(NONE, |place| place.parent);
        self.place(parent).map_or(ROOT, |place| place.group)
    }

    /// Makes a session's place where there is none.
    fn make_place(&mut self, line: &[u32], make: MakePlace<'_, E>) {
        let Some((&session, above)) = line.split_first() else { return };
        if self.places.contains_key(&session) {
            return;
        }
        let parent = above.first().copied().unwrap_or(NONE);
        self.make_group(above, make);
        if let Some(place) = self.places.get_mut(&parent) {
            place.children += 1;
        }
        let of_owner = make(session, self.place(parent).map(|place| &place.of_owner));
        self.places.insert(session, Place::new(parent, of_owner));
    }

    /// Makes a session's place, and in it the node for those below it, where there is none.
    fn make_group(&mut self, line: &[u32], make: MakePlace<'_, E>) {
        let Some(&session) = line.first() else { return };
        self.make_place(line, make);
        let above = self.group_above(session);
        let Some(place) = self.places.get(&session).filter(|place| place.group == NONE) else {
            return;
        };
        let (own, blocked) = (place.own, place.blocked);
        let group = self.new_node(above, false);
        if let Some(place) = self.places.get_mut(&session) {
            place.group = group;
        }
        for tree in self.trees.values_mut() {
            if own != NONE {
                if blocked {
                    tree.move_block(own, group);
                }
                tree.move_to(own, group);
            } else if blocked {
                tree.block(group);
            }
        }
    }

    /// Takes away what a session, and then those above it, have no need of any more.
    fn prune(&mut self, mut session: u32, dropped: &mut dyn FnMut(u32, E)) {
        while session != ROOT_SESSION
            && let Some(place) = self.places.get_mut(&session)
            && place.children == 0
        {
            let (group, own, parent) = (place.group, place.own, place.parent);
            let (blocked, needed) = (place.blocked, place.flows > 0);
            place.group = NONE;
            if group != NONE {
                let above = self.group_above(session);
                if own != NONE {
                    for tree in self.trees.values_mut() {
                        tree.move_to(own, above);
                        if blocked {
                            tree.move_block(group, own);
                        }
                    }
                }
                self.free_node(group);
            }
            if needed {
                return;
            }
            if let Some(place) = self.places.remove(&session) {
                dropped(session, place.of_owner);
            }
            if let Some(place) = self.places.get_mut(&parent) {
                debug_assert!(place.children > 0, "a place is counted in the one above it");
                place.children -= 1;
            }
            session = parent;
        }
    }

    /// Keeps all of a session from going on. False where the session has no place here.
    pub(crate) fn block(&mut self, session: u32) -> bool {
        let Some(place) = self.places.get_mut(&session) else { return false };
        place.blocked = true;
        let top = place.top();
        self.block_node(top);
        true
    }

    /// Lets a session go on. False where it was not blocked.
    pub(crate) fn unblock(&mut self, session: u32) -> bool {
        let Some(place) = self.places.get_mut(&session).filter(|place| place.blocked) else {
            return false;
        };
        place.blocked = false;
        let top = place.top();
        self.unblock_node(top);
        true
    }

    /// Keeps all that is below a node from going on, in every class.
    pub(crate) fn block_node(&mut self, node: u32) {
        if node != NONE {
            for tree in self.trees.values_mut() {
                tree.block(node);
            }
        }
    }

    /// Lets what is below a node go on, in every class.
    pub(crate) fn unblock_node(&mut self, node: u32) {
        if node != NONE {
            for tree in self.trees.values_mut() {
                tree.unblock(node);
            }
        }
    }

    /// Whether anything of a class may be taken from below a node; none has nothing.
    #[inline]
    pub(crate) fn has_work(&self, class: Class, node: u32) -> bool {
        node != NONE && self.trees[class].node_has_work(node)
    }
}
