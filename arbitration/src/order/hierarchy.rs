//! The sessions and hosts that share one thing in turn: a tree for each class, and each session's
//! place in all of them. A place is made with the first flow of a session or of one below it, and
//! goes with the last.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use units::{Class, PerClass};

use super::tags::{DeviceTags, Part};
use super::{NodeId, Tree};
use crate::index::{Index, Name, grown};
use crate::session::{HostId, Session, SessionId, WEIGHT};
use crate::sync::{AtomicU32, Ordering::Relaxed};

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
    /// The session's serial number.
    serial: u32,
    /// The session's weight; `None`: the session has none.
    weight: Option<Arc<AtomicU32>>,
    /// Whether the session counts among those with a weight of their own.
    weighted: bool,
    /// Data that the owner of the hierarchy keeps of the session.
    pub(crate) of_owner: O,
}

impl<O> Place<O> {
    /// Makes a place below `parent` that has no node yet.
    pub(crate) const fn new(parent: Option<SessionId>, of_owner: O) -> Self {
        Self {
            parent,
            group: None,
            own: None,
            flows: 0,
            children: 0,
            blocked: false,
            serial: 0,
            weight: None,
            weighted: false,
            of_owner,
        }
    }

    /// Returns the session's weight.
    pub(crate) fn weight(&self) -> u64 {
        self.weight.as_ref().map_or(WEIGHT, |weight| weight.load(Relaxed)).into()
    }

    /// Returns whether the session's weight differs from the default.
    fn has_weight(&self) -> bool {
        self.weight() != u64::from(WEIGHT)
    }

    /// Finds the node that all of the session is below.
    #[inline]
    pub(crate) const fn top(&self) -> Option<NodeId> {
        if self.group.is_some() { self.group } else { self.own }
    }

    /// Returns whether the session is blocked: none of its commands may go on.
    pub(crate) const fn is_blocked(&self) -> bool {
        self.blocked
    }
}

/// The part of a session of usual weight, of which hosts have parts.
pub(crate) const USUAL: u64 = 1 << 20;

/// The hosts and sessions below a session that compete for a share.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sharers {
    /// Number of the session's own hosts.
    pub(crate) hosts: u64,
    /// Sum of the weights of the sessions below it.
    pub(crate) weights: u64,
}

impl Sharers {
    pub(crate) const fn is_empty(self) -> bool {
        self.hosts == 0 && self.weights == 0
    }
}

/// The part of a session's service that one of its hosts has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portion {
    /// In 1/[`USUAL`] of the part of a session of usual weight.
    pub(crate) share: u64,
    /// The sum of the weights of all sharers, the host among them.
    pub(crate) of_weight: u64,
}

/// Creates the owner's record of a session from its record of the parent.
pub(crate) type MakePlace<'a, O> = &'a mut dyn FnMut(SessionId, Option<&O>) -> O;

/// The trees of all classes, and the sessions' places in them. `O` is the owner's record of a
/// session, `I` names a command.
#[derive(Debug)]
pub(crate) struct Hierarchy<O, I> {
    /// The order inside each class.
    pub(crate) trees: PerClass<Tree<I>>,
    places: FxHashMap<SessionId, Place<O>>,
    /// Nodes that were ever made, the root among them.
    nodes: usize,
    free_nodes: Vec<NodeId>,
    /// The session and the host of each leaf, by the leaf's number.
    hosts: Vec<Option<(SessionId, HostId)>>,
    /// Sessions that have a weight of their own.
    weighted: u32,
    /// The tags by which nodes go; `None`: they go in turn.
    tags: Option<Arc<DeviceTags>>,
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
            hosts: Vec::new(),
            weighted: 0,
            tags: None,
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

    /// Returns the owner's record of a session.
    #[inline]
    pub(crate) fn of_owner(&mut self, session: SessionId) -> Option<&mut O> {
        self.places.get_mut(&session).map(|place| &mut place.of_owner)
    }

    /// Lists the sessions that have places.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.places.keys().copied()
    }

    /// Lists the owner's records of all sessions.
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
            NodeId::from_index(Index::nth(self.nodes - 1))
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
        if let Some(host) = self.hosts.get_mut(node.number() as usize) {
            *host = None;
        }
        self.free_nodes.push(node);
    }

    /// Makes a host's node below a session's, and the places of the session and those above it.
    pub(crate) fn add_flow(
        &mut self,
        session: &Session,
        host: HostId,
        make: MakePlace<'_, O>,
    ) -> NodeId {
        let leaf = self.add_leaf(session, make);
        *grown(&mut self.hosts, leaf.number() as usize, || None) = Some((session.id(), host));
        self.weigh(leaf, session.id(), Part::Host(host));
        leaf
    }

    fn add_leaf(&mut self, session: &Session, make: MakePlace<'_, O>) -> NodeId {
        let id = session.id();
        self.make_place(session, make);
        if self.tags.is_some() {
            self.add_group(id);
        }
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
        self.weigh(own, id, Part::Hosts);
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

    /// Finds the session of a host's node.
    pub(crate) fn session_of(&self, leaf: NodeId) -> Option<SessionId> {
        let host = self.hosts.get(leaf.number() as usize).copied().flatten();
        host.map(|(session, _)| session)
    }

    /// Computes the part that a host has of the service of the session `above`. `others` returns the number and weight
    /// of the hosts and sessions directly below a session that want service, too. Hosts of one session have equal
    /// parts, and together as much as a session of usual weight has beside them.
    pub(crate) fn portion_below(
        &self,
        leaf: NodeId,
        above: SessionId,
        others: impl Fn(SessionId) -> Sharers,
    ) -> Portion {
        let usual = u64::from(WEIGHT);
        let Some(mut session) = self.session_of(leaf) else {
            return Portion { share: USUAL, of_weight: usual };
        };
        let mut here = others(session);
        let mut share = USUAL / here.hosts.saturating_add(1);
        // The weight of the host's side, and of all sharers together.
        let (mut weight, mut all) = (usual, here.weights.saturating_add(usual));
        while session != above
            && let Some(place) = self.place(session)
            && let Some(parent) = place.parent
        {
            share = share.saturating_mul(weight) / all.max(1);
            let is_counted = !here.is_empty();
            (session, weight, here) = (parent, place.weight(), others(parent));
            let hosts = if here.hosts > 0 { usual } else { 0 };
            let own = if is_counted { 0 } else { weight };
            all = here.weights.saturating_add(hosts).saturating_add(own);
        }
        Portion { share: (share.saturating_mul(weight) / usual).max(1), of_weight: all }
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
        let mut place = Place::new(parent, of_owner);
        if parent.is_some() {
            (place.serial, place.weight) = (session.serial(), Some(session.weight_cell()));
        }
        self.places.insert(session.id(), place);
        self.note_weight(session.id());
    }

    /// Makes a session's place, and in it the node for those below it, where there is none.
    fn make_group(&mut self, session: &Session, make: MakePlace<'_, O>) {
        self.make_place(session, make);
        self.add_group(session.id());
    }

    /// Makes the node for those below a session, where there is none.
    fn add_group(&mut self, id: SessionId) {
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
        self.weigh(group, id, Part::Whole);
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
        let by_weight = self.tags.is_some();
        while session != SessionId::ROOT
            && let Some(place) = self.kept(session)
            && place.children == 0
        {
            if by_weight && place.flows > 0 {
                // The order by weight has such a node for each session.
                return;
            }
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
                self.weighted -= u32::from(place.weighted);
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

    /// Finds out again whether a session has a weight of its own.
    fn note_weight(&mut self, session: SessionId) {
        let Some(place) = self.places.get_mut(&session) else { return };
        let (before, now) = (place.weighted, place.has_weight());
        place.weighted = now;
        self.weighted = self.weighted + u32::from(now) - u32::from(before);
    }

    /// Finds out again which of a session and those above it have weights of their own.
    pub(crate) fn note_weights(&mut self, session: SessionId) {
        let mut at = Some(session);
        while let Some(session) = at {
            self.note_weight(session);
            at = self.place(session).and_then(|place| place.parent);
        }
    }

    /// Returns whether any session here has a weight of its own.
    pub(crate) const fn has_weights(&self) -> bool {
        self.weighted > 0
    }

    /// Returns whether nodes go by weight.
    #[inline]
    pub(crate) const fn is_by_weight(&self) -> bool {
        self.tags.is_some()
    }

    /// Gives a node its tags and its weight, where nodes go by weight.
    fn weigh(&mut self, node: NodeId, session: SessionId, part: Part) {
        let Some(tags) = &self.tags else { return };
        let place = self.places.get(&session);
        let serial = place.map_or(0, |place| place.serial);
        let weight = place.and_then(|place| place.weight.as_ref());
        let weight = weight.filter(|_| part == Part::Whole);
        let tags = tags.find_or_create((session, serial, part));
        for tree in self.trees.values_mut() {
            tree.weigh(node, Arc::clone(&tags), weight.cloned());
        }
    }

    /// Makes nodes go by weight, with the tags that all reactors share.
    pub(crate) fn go_by_weight(&mut self, reactor: u32, tags: Arc<DeviceTags>) {
        let with_hosts = self.places.iter().filter(|(_, place)| place.own.is_some());
        let with_hosts: Vec<SessionId> = with_hosts.map(|(session, _)| *session).collect();
        for session in with_hosts {
            self.add_group(session);
        }
        for class in Class::ALL {
            self.trees[class].set_by_weight(class, reactor, tags.sharing);
        }
        self.tags = Some(tags);
        let of_place = |(session, place): (&SessionId, &Place<O>)| {
            let group = place.group.map(|group| (group, *session, Part::Whole));
            let own = place.own.map(|own| (own, *session, Part::Hosts));
            [group, own].into_iter().flatten()
        };
        let sessions = self.places.iter().flat_map(of_place);
        let hosts = (0..).zip(&self.hosts).filter_map(|(number, host)| {
            let (session, host) = (*host)?;
            Some((NodeId::from_index(Index::nth(number)), session, Part::Host(host)))
        });
        let nodes: Vec<(NodeId, SessionId, Part)> = sessions.chain(hosts).collect();
        for (node, session, part) in nodes {
            self.weigh(node, session, part);
        }
        for tree in self.trees.values_mut() {
            tree.begin_by_weight();
        }
    }

    /// Makes nodes go in turn.
    pub(crate) fn go_in_turn(&mut self) {
        self.tags = None;
        for tree in self.trees.values_mut() {
            tree.set_in_turn();
        }
    }

    /// Sets by how many commands reactors may lead each other below a session that has a place here.
    pub(crate) fn set_lead(&mut self, session: SessionId, commands: u64) {
        if let Some(top) = self.kept(session).and_then(|place| place.top()) {
            self.trees.values_mut().for_each(|tree| tree.set_lead(top, commands));
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

    /// Returns whether anything of a class may be taken from below a node.
    #[inline]
    pub(crate) fn has_work(&self, class: Class, node: NodeId) -> bool {
        self.trees[class].node_has_work(node)
    }
}
