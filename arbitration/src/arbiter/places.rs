//! The sessions at one device: their places in its trees, and the reservations of theirs that are
//! in force there. A place is made with the first flow of a session or of one below it, and goes
//! with the last.

use std::cmp::Reverse;
use std::sync::Arc;

use units::{Class, Nanos};

use super::queue::DeviceQueue;
use crate::order::{NONE, ROOT};
use crate::reservation::Reserved;

/// A session's place in the trees.
#[derive(Debug)]
pub(super) struct Place {
    /// The session above; none for the root.
    parent: u32,
    /// The node above its children's; none where it has no children.
    group: u32,
    /// The node above its own hosts'.
    own: u32,
    /// Its own flows.
    flows: u32,
    /// Sessions below it that have places.
    children: u32,
    pub(super) blocked: bool,
    /// The session knows that it is, or was, blocked here.
    pub(super) noted: bool,
    /// When its timer runs out; [`Nanos::MAX`] where there is none.
    timer: Nanos,
    pub(super) claim: Claim,
    /// The session whose reservation covers this one.
    covered: u32,
    /// Its own.
    reserved: Option<Arc<Reserved>>,
}

/// Where a session with a reservation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// It has no reservation here.
    None,
    /// It has nothing waiting.
    Idle,
    /// It is in the heap of those that may be due.
    Due,
    /// Its budget is used up until its next period.
    Resting,
    /// What it has waiting is held up by a limit.
    Parked,
}

/// What a place that was given up had elsewhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dropped {
    pub(super) session: u32,
    /// The session has it noted.
    pub(super) noted: bool,
    /// A timer runs for it.
    pub(super) timed: bool,
}

static NOWHERE: Place = Place {
    parent: NONE,
    group: NONE,
    own: NONE,
    flows: 0,
    children: 0,
    blocked: false,
    noted: false,
    timer: Nanos::MAX,
    claim: Claim::None,
    covered: NONE,
    reserved: None,
};

impl Place {
    /// The root's.
    pub(super) fn root() -> Self {
        Self { group: ROOT, reserved: None, ..NOWHERE }
    }

    /// The node that all of the session is below.
    pub(super) fn top(&self) -> u32 {
        if self.group == NONE { self.own } else { self.group }
    }
}

impl DeviceQueue {
    #[inline]
    pub(super) fn place(&self, session: u32) -> &Place {
        self.places.get(&session).unwrap_or(&NOWHERE)
    }

    pub(super) fn set_claim(&mut self, session: u32, claim: Claim) {
        if let Some(place) = self.places.get_mut(&session) {
            place.claim = claim;
        }
    }

    fn new_node(&mut self, parent: u32, leaf: bool) -> u32 {
        let node = self.free_nodes.pop().unwrap_or_else(|| {
            self.nodes += 1;
            self.nodes - 1
        });
        for class in Class::ALL {
            self.trees[class].place(node, parent, leaf);
        }
        node
    }

    fn free_node(&mut self, node: u32) {
        for class in Class::ALL {
            self.trees[class].deactivate(node);
        }
        self.free_nodes.push(node);
    }

    /// Makes a host's node below a session's. `line` is the session, and those above it up to the
    /// root.
    pub(super) fn add_flow(&mut self, line: &[u32]) -> Option<u32> {
        let session = *line.first()?;
        self.make_place(line);
        let place = self.places.get_mut(&session)?;
        place.flows += 1;
        let (own, above, blocked) = (place.own, place.group, place.blocked);
        let own = if own == NONE {
            let above = if above == NONE { self.group_above(session) } else { above };
            let own = self.new_node(above, false);
            let place = self.places.get_mut(&session)?;
            place.own = own;
            if blocked && place.group == NONE {
                for class in Class::ALL {
                    self.trees[class].block(own);
                }
            }
            own
        } else {
            own
        };
        Some(self.new_node(own, true))
    }

    /// Takes a host's node away that has nothing waiting, and the places that nobody needs now.
    pub(super) fn remove_flow(&mut self, session: u32, node: u32) {
        self.free_node(node);
        let Some(place) = self.places.get_mut(&session) else { return };
        place.flows = place.flows.saturating_sub(1);
        if place.flows == 0 {
            let own = std::mem::replace(&mut place.own, NONE);
            self.free_node(own);
            self.prune(session);
        }
        for class in Class::ALL {
            self.sync(class);
        }
    }

    /// The node below which a session's own are.
    fn group_above(&self, session: u32) -> u32 {
        match self.place(session).parent {
            NONE => ROOT,
            parent => self.place(parent).group,
        }
    }

    /// Makes a session's place where there is none.
    fn make_place(&mut self, line: &[u32]) {
        let Some((&session, above)) = line.split_first() else { return };
        if self.places.contains_key(&session) {
            return;
        }
        let parent = above.first().copied().unwrap_or(NONE);
        self.make_group(above);
        if let Some(place) = self.places.get_mut(&parent) {
            place.children += 1;
        }
        let own = self.terms.iter().find(|term| term.session.id().0 == session);
        let reserved = own.map(|term| Arc::clone(&term.reserved));
        let mut place = Place { parent, reserved: None, ..NOWHERE };
        place.covered = self.place(parent).covered;
        if reserved.is_some() {
            (place.covered, place.claim) = (session, Claim::Due);
            self.due.push(Reverse((Nanos::ZERO, session)));
        }
        place.reserved = reserved;
        self.places.insert(session, place);
    }

    /// Makes a session's place, and in it the node for those below it, where there is none.
    fn make_group(&mut self, line: &[u32]) {
        let Some(&session) = line.first() else { return };
        self.make_place(line);
        if self.place(session).group != NONE {
            return;
        }
        let group = self.new_node(self.group_above(session), false);
        let (own, blocked) = (self.place(session).own, self.place(session).blocked);
        if let Some(place) = self.places.get_mut(&session) {
            place.group = group;
        }
        for class in Class::ALL {
            let tree = &mut self.trees[class];
            if own != NONE {
                if blocked {
                    tree.move_block(own, group);
                }
                tree.move_to(own, group);
            } else if blocked {
                tree.block(group);
            }
            self.sync(class);
        }
    }

    /// Takes away what a session, and then those above it, have no need of any more.
    fn prune(&mut self, mut session: u32) {
        while session != 0
            && let Some(place) = self.places.get_mut(&session)
            && place.children == 0
        {
            let (group, own, parent) = (place.group, place.own, place.parent);
            let (blocked, needed) = (place.blocked, place.flows > 0);
            place.group = NONE;
            if group != NONE {
                let above = self.group_above(session);
                for class in Class::ALL {
                    let tree = &mut self.trees[class];
                    if own != NONE {
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
            self.drop_place(session);
            if let Some(place) = self.places.get_mut(&parent) {
                place.children = place.children.saturating_sub(1);
            }
            session = parent;
        }
    }

    fn drop_place(&mut self, session: u32) {
        let Some(place) = self.places.remove(&session) else { return };
        match place.claim {
            Claim::None | Claim::Idle => {}
            Claim::Due => self.due.retain(|Reverse((_, other))| *other != session),
            Claim::Resting => self.resting.retain(|Reverse((_, other))| *other != session),
            Claim::Parked => self.parked.retain(|other| *other != session),
        }
        let (noted, timed) = (place.noted, place.timer != Nanos::MAX);
        if noted || timed {
            self.dropped.push(Dropped { session, noted, timed });
        }
    }

    /// Lets nothing of a session go on. Whether the session is to note that it is held up here.
    pub(super) fn block(&mut self, session: u32) -> bool {
        let Some(place) = self.places.get_mut(&session) else { return false };
        place.blocked = true;
        let note = !std::mem::replace(&mut place.noted, true);
        let top = place.top();
        if top != NONE {
            for class in Class::ALL {
                self.trees[class].block(top);
                self.sync(class);
            }
        }
        note
    }

    /// Lets a session go on.
    pub(super) fn unblock(&mut self, now: Nanos, session: u32) {
        let Some(place) = self.places.get_mut(&session).filter(|p| p.blocked) else { return };
        place.blocked = false;
        let top = place.top();
        if top != NONE {
            for class in Class::ALL {
                self.trees[class].unblock(top);
                self.sync(class);
            }
        }
        // Reservations below it may be due again.
        while let Some(session) = self.parked.pop() {
            self.set_claim(session, Claim::Due);
            self.due.push(Reverse((now, session)));
        }
    }

    /// The session has forgotten that it was held up here.
    pub(super) fn forget_note(&mut self, session: u32) {
        if let Some(place) = self.places.get_mut(&session) {
            place.noted = false;
        }
    }

    /// Sets a session's timer. Whether one is to be started, and whether one runs in vain now.
    pub(super) fn set_timer(&mut self, session: u32, when: Nanos) -> (bool, bool) {
        let Some(place) = self.places.get_mut(&session) else { return (false, false) };
        if place.timer <= when {
            return (false, false);
        }
        let before = std::mem::replace(&mut place.timer, when);
        (true, before != Nanos::MAX)
    }

    /// Whether this timer is a session's.
    pub(super) fn has_timer(&self, session: u32, when: Nanos) -> bool {
        self.place(session).timer == when
    }

    /// A session's timer has run out.
    pub(super) fn end_timer(&mut self, session: u32) {
        if let Some(place) = self.places.get_mut(&session) {
            place.timer = Nanos::MAX;
        }
    }

    /// The session whose reservation a session's commands are charged to: its own, or the nearest
    /// above it.
    #[inline]
    pub(super) fn covering(&self, session: u32) -> Option<u32> {
        if self.terms.is_empty() {
            return None;
        }
        Some(self.place(session).covered).filter(|covering| *covering != NONE)
    }

    /// Whether any session has a reservation here.
    #[inline]
    pub(super) fn has_reservations(&self) -> bool {
        !self.terms.is_empty()
    }

    pub(super) fn reservation(&self, session: u32) -> Option<&Arc<Reserved>> {
        self.place(session).reserved.as_ref()
    }

    /// The reservation that a session's commands are charged to.
    #[inline]
    pub(super) fn reservation_over(&self, session: u32) -> Option<&Arc<Reserved>> {
        self.reservation(self.covering(session)?)
    }

    /// Takes the reservations that are in force at the device.
    pub(super) fn adopt_reservations(&mut self, now: Nanos) {
        self.terms = self.device.reservations();
        self.due.clear();
        self.resting.clear();
        self.parked.clear();
        for place in self.places.values_mut() {
            (place.claim, place.covered, place.reserved) = (Claim::None, NONE, None);
        }
        for term in self.terms.iter() {
            let session = term.session.id().0;
            if let Some(place) = self.places.get_mut(&session) {
                (place.claim, place.reserved) = (Claim::Due, Some(Arc::clone(&term.reserved)));
                self.due.push(Reverse((now, session)));
            }
        }
        if self.terms.is_empty() {
            return;
        }
        let sessions: Vec<u32> = self.places.keys().copied().collect();
        for session in sessions {
            let up = |at: &u32| Some(self.place(*at).parent).filter(|parent| *parent != NONE);
            let mut line = std::iter::successors(Some(session), up);
            let covering = line.find(|at| self.reservation(*at).is_some()).unwrap_or(NONE);
            if let Some(place) = self.places.get_mut(&session) {
                place.covered = covering;
            }
        }
    }
}
