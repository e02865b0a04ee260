//! The sessions and hosts that share one thing in turn: a tree for each class, and each session's
//! place in all of them. A place is made with the first flow of a session or of one below it, and
//! goes with the last.

use rustc_hash::FxHashMap;
use units::{Class, PerClass};

use super::{NodeId, Tree};
use crate::index::{Index, Name};
use crate::session::{Session, SessionId};

/// A session's place in the trees.
#[derive(Debug)]
pub(crate) struct Place<O> {
    /// The session above; `None`: this is the root.
    pub(crate) parent: Option<SessionId>,
    /// The node above its children's; `None`: it has no children.
    group: Option<NodeId>,
    /// The node above its own hosts'; `None`: it has no hosts of its own.
    own: Option<NodeId>,
    /// Its own flows.
    flows: u32,
    /// Sessions below it that have places.
    children: u32,
    blocked: bool,
    /// Data that the owner of the hierarchy keeps of the session.
    pub(crate) of_owner: O,
}

impl<O> Place<O> {
    /// Makes a place below `parent` that has no node yet.
    pub(crate) const fn new(parent: Option<SessionId>, of_owner: O) -> Self {
        Self { parent, group: None, own: None, flows: 0, children: 0, blocked: false, of_owner }
    }

    /// Finds the node that all of the session is below.
    #[inline]
    pub(crate) const fn top(&self) -> Option<NodeId> {
        if self.group.is_some() { self.group } else { self.own }
    }

    /// Says whether the session is blocked: none of its commands may go on.
    pub(crate) const fn is_blocked(&self) -> bool {
        self.blocked
    }
}

/// Makes what the owner keeps of a session, from what it keeps of the one above it.
pub(crate) type MakePlace<'a, O> = &'a mut dyn FnMut(SessionId, Option<&O>) -> O;

/// The trees of all classes, and the sessions' places in them. `O` is what the owner keeps of a
/// session, `I` names a command.
#[derive(Debug)]
pub(crate) struct Hierarchy<O, I> {
    /// The order inside each class.
    pub(crate) trees: PerClass<Tree<I>>,
    places: FxHashMap<SessionId, Place<O>>,
    /// Nodes that were ever made, the root among them.
    nodes: usize,
    free_nodes: Vec<NodeId>,
}

impl<O, I: Copy> Hierarchy<O, I> {
    /// Makes a hierarchy of the root session alone.
    pub(crate) fn new(root: O) -> Self {
        let place = Place { group: Some(NodeId::ROOT), ..Place::new(None, root) };
        Self {
            trees: PerClass::default(),
            places: FxHashMap::from_iter([(SessionId::ROOT, place)]),
            nodes: 1,
            free_nodes: Vec::new(),
        }
    }

    /// Finds a session's place.
    #[inline]
    pub(crate) fn place(&self, session: SessionId) -> Option<&Place<O>> {
        self.places.get(&session)
    }

    /// Finds the place of a session that has one, because flows or sessions below it keep it.
    fn kept(&mut self, session: SessionId) -> Option<&mut Place<O>> {
        let place = self.places.get_mut(&session);
        debug_assert!(place.is_some(), "flows and sessions below it keep a session's place");
        place
    }

    /// Finds what the owner keeps of a session.
    #[inline]
    pub(crate) fn of_owner(&mut self, session: SessionId) -> Option<&mut O> {
        self.places.get_mut(&session).map(|place| &mut place.of_owner)
    }

    /// Lists the sessions that have places.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.places.keys().copied()
    }

    /// Lists what the owner keeps of all sessions.
    pub(crate) fn all_of_owner(&mut self) -> impl Iterator<Item = &mut O> {
        self.places.values_mut().map(|place| &mut place.of_owner)
    }

    /// Counts the nodes in use besides the root, and the sessions that have places.
    #[cfg(test)]
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.nodes - 1 - self.free_nodes.len(), self.places.len())
    }

    fn new_node(&mut self, parent: NodeId, leaf: bool) -> NodeId {
        let node = self.free_nodes.pop().unwrap_or_else(|| {
            self.nodes += 1;
            NodeId::of(Index::nth(self.nodes - 1))
        });
        for tree in self.trees.values_mut() {
            tree.place(node, parent, leaf);
        }
        node
    }

    fn free_node(&mut self, node: NodeId) {
        for tree in self.trees.values_mut() {
            tree.deactivate(node);
        }
        self.free_nodes.push(node);
    }

    /// Makes a host's node below a session's, and the places of the session and those above it.
    pub(crate) fn add_flow(&mut self, session: &Session, make: MakePlace<'_, O>) -> NodeId {
        let id = session.id();
        self.make_place(session, make);
        let above = self.group_above(id);
        let Some(place) = self.kept(id) else { return NodeId::ROOT };
        place.flows += 1;
        if let Some(own) = place.own {
            return self.new_node(own, true);
        }
        let (group, blocked) = (place.group, place.blocked);
        let own = self.new_node(group.unwrap_or(above), false);
        if let Some(place) = self.kept(id) {
            place.own = Some(own);
        }
        if blocked && group.is_none() {
            self.block_node(own);
        }
        self.new_node(own, true)
    }

    /// Removes a host's node, which has nothing waiting, and the places that nobody needs now:
    /// these are handed to `dropped`.
    pub(crate) fn remove_flow(
        &mut self,
        session: SessionId,
        node: NodeId,
        dropped: &mut dyn FnMut(SessionId, O),
    ) {
        self.free_node(node);
        let Some(place) = self.kept(session) else { return };
        debug_assert!(place.flows > 0, "a flow is counted in its session's place");
        place.flows = place.flows.saturating_sub(1);
        if place.flows == 0 {
            if let Some(own) = place.own.take() {
                self.free_node(own);
            }
            self.prune(session, dropped);
        }
    }

    /// Finds the node that is above a session's own nodes.
    fn group_above(&self, session: SessionId) -> NodeId {
        let parent = self.place(session).and_then(|place| place.parent);
        parent.and_then(|parent| self.place(parent)?.group).unwrap_or(NodeId::ROOT)
    }

    /// Makes a session's place where there is none.
    fn make_place(&mut self, session: &Session, make: MakePlace<'_, O>) {
        if self.places.contains_key(&session.id()) {
            return;
        }
        let parent = session.parent().map(|parent| {
            self.make_group(parent, make);
            if let Some(place) = self.kept(parent.id()) {
                place.children += 1;
            }
            parent.id()
        });
        let above = parent.and_then(|parent| self.place(parent)).map(|place| &place.of_owner);
        let of_owner = make(session.id(), above);
        self.places.insert(session.id(), Place::new(parent, of_owner));
    }

    /// Makes a session's place, and in it the node for those below it, where there is none.
    fn make_group(&mut self, session: &Session, make: MakePlace<'_, O>) {
        let id = session.id();
        self.make_place(session, make);
        let above = self.group_above(id);
        let Some(place) = self.kept(id) else { return };
        if place.group.is_some() {
            return;
        }
        let (own, blocked) = (place.own, place.blocked);
        let group = self.new_node(above, false);
        if let Some(place) = self.kept(id) {
            place.group = Some(group);
        }
        for tree in self.trees.values_mut() {
            if let Some(own) = own {
                if blocked {
                    tree.move_block(own, group);
                }
                tree.move_to(own, group);
            } else if blocked {
                tree.block(group);
            }
        }
    }

    /// Removes the nodes and places that a session, and then those above it, no longer need.
    fn prune(&mut self, mut session: SessionId, dropped: &mut dyn FnMut(SessionId, O)) {
        while session != SessionId::ROOT
            && let Some(place) = self.kept(session)
            && place.children == 0
        {
            let (group, own, parent) = (place.group.take(), place.own, place.parent);
            let (blocked, needed) = (place.blocked, place.flows > 0);
            if let Some(group) = group {
                let above = self.group_above(session);
                if let Some(own) = own {
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
            debug_assert!(parent.is_some(), "the root alone has none above it, and stays");
            session = parent.unwrap_or(SessionId::ROOT);
            if let Some(place) = self.kept(session) {
                debug_assert!(place.children > 0, "a place is counted in the one above it");
                place.children = place.children.saturating_sub(1);
            }
        }
    }

    /// Blocks a session that has a place here: none of its commands goes on.
    pub(crate) fn block(&mut self, session: SessionId) {
        let Some(place) = self.kept(session) else { return };
        place.blocked = true;
        if let Some(top) = place.top() {
            self.block_node(top);
        }
    }

    /// Unblocks a session. Returns whether it was blocked.
    pub(crate) fn unblock(&mut self, session: SessionId) -> bool {
        let Some(place) = self.places.get_mut(&session).filter(|place| place.blocked) else {
            return false;
        };
        place.blocked = false;
        if let Some(top) = place.top() {
            self.unblock_node(top);
        }
        true
    }

    /// Blocks a node in every class: nothing below it goes on.
    pub(crate) fn block_node(&mut self, node: NodeId) {
        for tree in self.trees.values_mut() {
            tree.block(node);
        }
    }

    /// Unblocks a node in every class.
    pub(crate) fn unblock_node(&mut self, node: NodeId) {
        for tree in self.trees.values_mut() {
            tree.unblock(node);
        }
    }

    /// Says whether anything of a class may be taken from below a node.
    #[inline]
    pub(crate) fn has_work(&self, class: Class, node: NodeId) -> bool {
        self.trees[class].node_has_work(node)
    }
}
