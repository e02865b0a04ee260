//! The control side of the sessions: a tree that is changed one session at a time.

use crate::sync::{AtomicU32, Ordering::Relaxed};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Weak};

use units::Nanos;

use super::{RootSpec, Session, SessionError, SessionId, SessionSpec, WEIGHT};
use crate::credit::Caps;
use crate::sharing::Sharing;

/// A session in the tree.
#[derive(Debug)]
struct Node {
    session: Arc<Session>,
    spec: SessionSpec,
    children: BTreeSet<String>,
    /// Operation and payload shares that its children have together, in per cent.
    given: [u32; 2],
}

/// All sessions, as the control plane changes them. A change costs time in proportion to the
/// changed sessions and, if a share changes, to the sessions that have shares, but not to the
/// number of all sessions.
#[derive(Debug)]
pub struct Sessions {
    sharing: Sharing,
    caps: Caps,
    /// The bound of the queues without one of their own, in commands.
    queue: Arc<AtomicU32>,
    /// The sessions by name, the root among them.
    nodes: HashMap<String, Node>,
    /// The names of the sessions with shares.
    shared: BTreeSet<String>,
    numbers: Numbers,
    touched: Vec<Arc<Session>>,
    replaced: Vec<Arc<Session>>,
    root: Arc<Session>,
}

/// The root's name.
const ROOT: &str = "root";

impl Sessions {
    /// Makes a tree of the root alone.
    #[must_use]
    pub fn new(root: &RootSpec) -> Self {
        Self::shared(root, Sharing::Several)
    }

    /// Makes a tree of the root alone, for as many reactors as `sharing` says.
    #[must_use]
    pub fn shared(root: &RootSpec, sharing: Sharing) -> Self {
        let queue = Arc::new(AtomicU32::new(root.queue.max(1)));
        let name = (SessionId::ROOT, 0);
        let session = Arc::new(Session::new(name, ROOT.to_owned(), None, (sharing, &queue)));
        session.credits.set(root.own_caps());
        let node = Node {
            session: Arc::clone(&session),
            spec: SessionSpec::default(),
            children: BTreeSet::new(),
            given: [0; 2],
        };
        Self {
            sharing,
            root: session,
            caps: root.caps,
            queue,
            nodes: HashMap::from([(ROOT.to_owned(), node)]),
            shared: BTreeSet::new(),
            numbers: Numbers { next: 1, ..Numbers::default() },
            touched: Vec::new(),
            replaced: Vec::new(),
        }
    }

    /// Finds a session by its name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Arc<Session>> {
        Some(&self.nodes.get(name)?.session)
    }

    /// Returns the session above all others.
    #[must_use]
    pub fn root(&self) -> &Arc<Session> {
        &self.root
    }

    /// Lists all sessions, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.nodes.values().map(|node| &node.session)
    }

    /// Takes out the sessions whose limits or bounds of credits have changed since the last call.
    /// Reactors that have them look again at them and at those below them.
    #[must_use]
    pub fn take_touched(&mut self) -> Vec<Arc<Session>> {
        std::mem::take(&mut self.touched)
    }

    /// Takes out the sessions that have replaced another of the same name since the last call,
    /// because they or those above them have moved.
    #[must_use]
    pub fn take_replaced(&mut self) -> Vec<Arc<Session>> {
        std::mem::take(&mut self.replaced)
    }

    /// Changes the root's credits and its queue's bound.
    pub fn set_root(&mut self, now: Nanos, root: &RootSpec) {
        self.queue.store(root.queue.max(1), Relaxed);
        let top = Arc::clone(&self.root);
        self.watch(&top, |top| top.credits.set(root.own_caps()));
        if std::mem::replace(&mut self.caps, root.caps) != root.caps {
            for name in self.shared.clone() {
                self.settle(now, &name);
            }
        }
    }

    /// Adds a session, or changes the session of this name. A session that keeps its parent keeps
    /// its counts, and a new setting takes effect at once.
    ///
    /// # Errors
    /// The specification cannot hold; nothing has changed.
    pub fn put(&mut self, now: Nanos, spec: &SessionSpec) -> Result<(), SessionError> {
        self.check(spec)?;
        self.set(now, spec);
        Ok(())
    }

    /// Removes a session. Sessions below it are then below the root, without shares, because their
    /// parent is gone.
    pub fn remove(&mut self, now: Nanos, name: &str) {
        if name == ROOT {
            return;
        }
        let children = self.nodes.get(name).map(|node| node.children.clone()).unwrap_or_default();
        for child in children {
            if let Some(node) = self.nodes.get(&child) {
                let alone = SessionSpec {
                    parent: None,
                    operations: None,
                    payload: None,
                    ..node.spec.clone()
                };
                self.set(now, &alone);
            }
        }
        let Some(node) = self.nodes.remove(name) else { return };
        self.shared.remove(name);
        self.leave_parent(&node.spec);
        self.retire(now, node.session);
    }

    /// Removes sessions, and adds or changes others. The caller has tried `specs` as a whole: their
    /// shares are not summed up again.
    ///
    /// # Errors
    /// A parent is not there, or a name is there twice; nothing has changed.
    pub fn put_all(
        &mut self,
        now: Nanos,
        gone: &[String],
        specs: &[SessionSpec],
    ) -> Result<(), SessionError> {
        for spec in in_order(specs, |name| self.nodes.contains_key(name))? {
            self.set(now, spec);
        }
        for name in gone {
            self.remove(now, name);
        }
        Ok(())
    }

    /// Makes the tree what `specs` say, all or nothing.
    ///
    /// # Errors
    /// The tree cannot hold; nothing has changed.
    pub fn apply(
        &mut self,
        now: Nanos,
        root: &RootSpec,
        specs: &[SessionSpec],
    ) -> Result<(), SessionError> {
        let order = in_order(specs, |_| false)?;
        check_shares(specs)?;
        let wanted: HashSet<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        let gone = self.nodes.values().filter(|n| !wanted.contains(n.session.name.as_str()));
        let mut gone: Vec<Arc<Session>> = gone.map(|node| Arc::clone(&node.session)).collect();
        gone.sort_by_key(|session| Reverse(session.line().count()));
        for session in gone {
            self.remove(now, &session.name);
        }
        self.set_root(now, root);
        for spec in order {
            self.set(now, spec);
        }
        Ok(())
    }

    /// Checks that one session can be what `spec` says.
    fn check(&self, spec: &SessionSpec) -> Result<(), SessionError> {
        if spec.name == ROOT {
            return Err(SessionError::Twice(spec.name.clone()));
        }
        let above = parent_name(spec);
        let wrong =
            |why| SessionError::Parent { name: spec.name.clone(), parent: above.to_owned(), why };
        let parent = self.nodes.get(above).ok_or_else(|| wrong("is not there"))?;
        if parent.session.line().any(|session| session.name == spec.name) {
            return Err(wrong("is below the session itself"));
        }
        let before = self.nodes.get(&spec.name).filter(|node| parent_name(&node.spec) == above);
        let before = before.map_or([0; 2], |node| shares(&node.spec));
        let sums = parent.given.iter().zip(before).zip(shares(spec));
        for (what, ((given, old), new)) in ["operation", "payload"].into_iter().zip(sums) {
            let sum = given.saturating_sub(old).saturating_add(new);
            if sum > 100 && new > old {
                return Err(SessionError::Shares { parent: above.to_owned(), what, sum });
            }
        }
        Ok(())
    }

    fn set(&mut self, now: Nanos, spec: &SessionSpec) {
        let (name, above) = (spec.name.as_str(), parent_name(spec));
        let stays = self.nodes.get(name).is_some_and(|node| parent_name(&node.spec) == above);
        if stays {
            self.update(now, spec);
        } else {
            self.place(now, spec);
        }
    }

    /// Returns a session that must exist: a looked-up session, or a parent.
    fn known(&self, name: &str) -> Option<&Node> {
        let node = self.nodes.get(name);
        debug_assert!(node.is_some(), "a session's parent is there as long as the session is");
        node
    }

    /// Returns a session that must exist: a looked-up session, or a parent.
    fn known_mut(&mut self, name: &str) -> Option<&mut Node> {
        let node = self.nodes.get_mut(name);
        debug_assert!(node.is_some(), "a session's parent is there as long as the session is");
        node
    }

    /// Changes the settings of a session that stays where it is.
    fn update(&mut self, now: Nanos, spec: &SessionSpec) {
        let Some(node) = self.known_mut(&spec.name) else { return };
        if node.spec == *spec {
            return;
        }
        let (before, after) = (shares(&node.spec), shares(spec));
        node.spec = spec.clone();
        if let Some(parent) = self.known_mut(parent_name(spec)) {
            for ((given, before), after) in parent.given.iter_mut().zip(before).zip(after) {
                *given = given.saturating_sub(before).saturating_add(after);
            }
        }
        if spec.has_share() {
            self.shared.insert(spec.name.clone());
        } else {
            self.shared.remove(&spec.name);
        }
        self.settle(now, &spec.name);
        if before != after {
            self.settle_below(now, &spec.name);
        }
    }

    /// Adds a session, or moves it below another parent: then those below it follow.
    fn place(&mut self, now: Nanos, spec: &SessionSpec) {
        let Some(parent) = self.known_mut(parent_name(spec)) else { return };
        parent.children.insert(spec.name.clone());
        for (given, share) in parent.given.iter_mut().zip(shares(spec)) {
            *given = given.saturating_add(share);
        }
        let above = Arc::clone(&parent.session);
        let session = self.make(&spec.name, above);
        let (mut children, mut given) = (BTreeSet::new(), [0; 2]);
        if let Some(old) = self.nodes.remove(&spec.name) {
            self.replaced.push(Arc::clone(&session));
            self.leave_parent(&old.spec);
            self.retire(now, old.session);
            (children, given) = (old.children, old.given);
        }
        if spec.has_share() {
            self.shared.insert(spec.name.clone());
        } else {
            self.shared.remove(&spec.name);
        }
        let follow: Vec<String> = children.iter().cloned().collect();
        let node = Node { session, spec: spec.clone(), children, given };
        self.nodes.insert(spec.name.clone(), node);
        self.settle(now, &spec.name);
        for child in follow {
            self.follow(now, &child);
        }
    }

    /// Replaces a session whose parent was replaced. Commands in flight stay with the old one.
    fn follow(&mut self, now: Nanos, name: &str) {
        let Some(node) = self.known(name) else { return };
        let children: Vec<String> = node.children.iter().cloned().collect();
        let parent = parent_name(&node.spec).to_owned();
        let Some(above) = self.known(&parent) else { return };
        let above = Arc::clone(&above.session);
        let session = self.make(name, above);
        let Some(node) = self.known_mut(name) else { return };
        let old = std::mem::replace(&mut node.session, Arc::clone(&session));
        self.replaced.push(session);
        self.retire(now, old);
        self.settle(now, name);
        for child in children {
            self.follow(now, &child);
        }
    }

    fn make(&mut self, name: &str, parent: Arc<Session>) -> Arc<Session> {
        let number = self.numbers.take();
        let given = (self.sharing, &self.queue);
        Arc::new(Session::new(number, name.to_owned(), Some(parent), given))
    }

    /// Takes a session, and its shares, from its parent.
    fn leave_parent(&mut self, spec: &SessionSpec) {
        let Some(parent) = self.known_mut(parent_name(spec)) else { return };
        parent.children.remove(&spec.name);
        for (given, share) in parent.given.iter_mut().zip(shares(spec)) {
            *given = given.saturating_sub(share);
        }
    }

    fn retire(&mut self, now: Nanos, session: Arc<Session>) {
        self.watch(&session, |session| session.retire(now));
        self.numbers.leave(&session);
    }

    /// Sets a session's limits by its specification and its parent's credits.
    fn settle(&mut self, now: Nanos, name: &str) {
        if name == ROOT {
            return;
        }
        let Some(node) = self.known(name) else { return };
        let of = self.effective(parent_name(&node.spec));
        let (session, spec) = (Arc::clone(&node.session), node.spec.clone());
        self.watch(&session, |session| session.set(now, &spec, of));
    }

    /// Settles the sessions with shares below one whose own share has changed.
    fn settle_below(&mut self, now: Nanos, name: &str) {
        let below = |other: &&String| {
            let mut line =
                self.nodes.get(*other).into_iter().flat_map(|n| n.session.line().skip(1));
            line.any(|session| session.name == name)
        };
        let below: Vec<String> = self.shared.iter().filter(below).cloned().collect();
        for name in below {
            self.settle(now, &name);
        }
    }

    /// Changes a session, and notes it for the reactors where its limits or credits have changed.
    fn watch(&mut self, session: &Arc<Session>, change: impl FnOnce(&Session)) {
        // A change from one weight to another needs nobody to look.
        let terms = || (session.limits(), session.credits.caps(), session.weight() == WEIGHT);
        let before = terms();
        change(session);
        if before != terms() {
            self.touched.push(Arc::clone(session));
        }
    }

    /// Computes the credits of which a session's children have shares: its own caps, or its
    /// parent's where it has none.
    fn effective(&self, name: &str) -> Caps {
        if name == ROOT {
            return self.caps;
        }
        let Some(node) = self.known(name) else { return self.caps };
        let above = self.effective(parent_name(&node.spec));
        let own = node.spec.caps(above);
        Caps {
            operations: own.operations.min(above.operations),
            payload: own.payload.min(above.payload),
        }
    }
}

/// The numbers of sessions. That of a session that has gone is given to another once nobody holds
/// the session.
#[derive(Debug, Default)]
struct Numbers {
    /// The lowest number that was never assigned.
    next: u32,
    free: BinaryHeap<Reverse<u32>>,
    /// Sessions that have gone and may still be held.
    leaving: VecDeque<(SessionId, Weak<Session>)>,
    serial: u32,
}

impl Numbers {
    /// Sessions that have gone, of which each new one checks whether anybody holds them.
    const LOOKS: usize = 4;

    /// Takes a number and a serial number for a new session.
    fn take(&mut self) -> (SessionId, u32) {
        let looks = Self::LOOKS.min(self.leaving.len());
        let left: Vec<_> = self.leaving.drain(..looks).collect();
        for (id, session) in left {
            if session.strong_count() == 0 {
                self.free.push(Reverse(id.0));
            } else {
                self.leaving.push_back((id, session));
            }
        }
        let number = match self.free.pop() {
            Some(Reverse(number)) => number,
            None => {
                self.next += 1;
                self.next - 1
            }
        };
        self.serial = self.serial.wrapping_add(1);
        (SessionId(number), self.serial)
    }

    /// Notes that a session has gone.
    fn leave(&mut self, session: &Arc<Session>) {
        self.leaving.push_back((session.id, Arc::downgrade(session)));
    }
}

fn parent_name(spec: &SessionSpec) -> &str {
    spec.parent.as_deref().unwrap_or(ROOT)
}

/// Returns a specification's operation and payload shares, in per cent.
fn shares(spec: &SessionSpec) -> [u32; 2] {
    [spec.operations, spec.payload].map(|share| share.unwrap_or(0).into())
}

/// Sorts specifications, parents before children. Parents that are not among them must be `known`.
fn in_order(
    specs: &[SessionSpec],
    known: impl Fn(&str) -> bool,
) -> Result<Vec<&SessionSpec>, SessionError> {
    let mut names = HashMap::new();
    for spec in specs {
        if spec.name == ROOT || names.insert(spec.name.as_str(), spec).is_some() {
            return Err(SessionError::Twice(spec.name.clone()));
        }
    }
    let mut placed = HashSet::new();
    let mut order: Vec<&SessionSpec> = Vec::with_capacity(specs.len());
    for spec in specs {
        let mut line = Vec::new();
        let mut at = spec;
        loop {
            if placed.contains(at.name.as_str()) {
                break;
            }
            if line.iter().any(|other: &&SessionSpec| other.name == at.name) {
                let parent = at.parent.clone().unwrap_or_default();
                let why = "is below the session itself";
                return Err(SessionError::Parent { name: at.name.clone(), parent, why });
            }
            line.push(at);
            match at.parent.as_deref() {
                None | Some(ROOT) => break,
                Some(parent) if !names.contains_key(parent) && known(parent) => break,
                Some(parent) => {
                    at = names.get(parent).copied().ok_or_else(|| SessionError::Parent {
                        name: at.name.clone(),
                        parent: parent.to_owned(),
                        why: "is not there",
                    })?;
                }
            }
        }
        for spec in line.into_iter().rev() {
            placed.insert(spec.name.as_str());
            order.push(spec);
        }
    }
    Ok(order)
}

/// Checks that the shares below each parent are at most 100 % (docs/research/sources.md, D1: sessions form a
/// tree).
fn check_shares(specs: &[SessionSpec]) -> Result<(), SessionError> {
    let mut sums = std::collections::BTreeMap::<&str, (u32, u32)>::new();
    for spec in specs {
        let sum = sums.entry(parent_name(spec)).or_default();
        sum.0 += u32::from(spec.operations.unwrap_or(0));
        sum.1 += u32::from(spec.payload.unwrap_or(0));
    }
    for (parent, (operations, payload)) in sums {
        for (what, sum) in [("operation", operations), ("payload", payload)] {
            if sum > 100 {
                return Err(SessionError::Shares { parent: parent.to_owned(), what, sum });
            }
        }
    }
    Ok(())
}
