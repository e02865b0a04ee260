//! What waits at one device, in one reactor.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use crate::class::Class;
use crate::container::{DiskSet, SetRequest};
use crate::device::{ContainerRules, Device};
use crate::order::{NONE, Pace, ROOT, Tree, bit};
use crate::reservation::Reserved;
use crate::session::Reservation;
use crate::time::Nanos;

/// A session's place in the trees.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The node above its children's; none where it has no children.
    group: u32,
    /// The node above its own hosts'.
    own: u32,
    blocked: bool,
    claim: Claim,
    /// The session whose reservation covers this one.
    covered: u32,
}

/// Where a session with a reservation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
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

const NOWHERE: Place =
    Place { group: NONE, own: NONE, blocked: false, claim: Claim::None, covered: NONE };

impl Place {
    /// The node that all of the session is below.
    fn top(&self) -> u32 {
        if self.group == NONE { self.own } else { self.group }
    }
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    pub(super) class: Class,
    /// The host's node.
    pub(super) leaf: u32,
    /// What is charged is below this node.
    pub(super) upto: u32,
    pub(super) right: Right,
}

/// By what right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    /// Urgent within its share.
    Urgent,
    /// A reservation that is due.
    Reserved,
    /// Its class's weight.
    Weight,
}

/// One value for each class, found without a branch.
#[derive(Debug, Default)]
pub(super) struct ByClass<T>([T; 4]);

impl<T> ByClass<T> {
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}

#[expect(clippy::indexing_slicing, reason = "there are four classes, and four values")]
impl<T> Index<Class> for ByClass<T> {
    type Output = T;

    #[inline]
    fn index(&self, class: Class) -> &T {
        &self.0[class as usize & 3]
    }
}

#[expect(clippy::indexing_slicing, reason = "there are four classes, and four values")]
impl<T> IndexMut<Class> for ByClass<T> {
    #[inline]
    fn index_mut(&mut self, class: Class) -> &mut T {
        &mut self.0[class as usize & 3]
    }
}

/// The queue of one device.
#[derive(Debug)]
pub(super) struct DeviceQueue {
    reactor: u32,
    pub(super) device: Arc<Device>,
    pub(super) trees: ByClass<Tree>,
    pub(super) waiting: ByClass<u32>,
    /// Of all classes together.
    total: u32,
    /// Classes of which something may go on, one [`bit`] each: the device's clock counts them as
    /// waiting here.
    working: u8,
    places: Vec<Place>,
    nodes: u32,
    free_nodes: Vec<u32>,
    current: Option<Class>,
    left: u16,
    /// By session.
    reservations: Vec<Option<Arc<Reserved>>>,
    /// Whether there are any.
    reserved: bool,
    /// Sessions that may be due: by deadline.
    due: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// Sessions whose budgets are used up: by the begin of their next period.
    resting: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// Sessions that are held up by a limit.
    parked: Vec<u32>,
    /// Commands that are ordered by place and deadline.
    pub(super) chosen: Option<Chosen>,
    pub(super) samples: Samples,
    /// Reactors that have something to do again, one bit each.
    pub(super) bells: u64,
    /// Commands that have gone to the device and not come back.
    pub(super) granted: u32,
}

/// Which completions the device's profile is made of: all while there are few, of more one in
/// four. Their worst time is of all of them.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// The present span of time, and the completions in it.
    span: u64,
    seen: u32,
}

impl Samples {
    /// A span is 2^24 ns, about 17 ms; with fewer completions than this in it all are taken.
    const FEW: u32 = 64;
    const SPAN_DIGITS: u32 = 24;
    /// 2^32 over the golden ratio: its multiples go in step with no pattern of commands.
    const STEP: u32 = 0x9e37_79b1;

    #[inline]
    pub(super) fn takes(&mut self, now: Nanos) -> bool {
        let span = now.0 >> Self::SPAN_DIGITS;
        if span != self.span {
            (self.span, self.seen) = (span, 0);
        }
        self.seen = self.seen.wrapping_add(1);
        self.seen <= Self::FEW || self.seen.wrapping_mul(Self::STEP) >> 30 == 0
    }
}

/// Hosts whose containers are told apart at one device; the commands of others keep their
/// deadlines.
const STREAMS: usize = 1024;

/// The commands that a device's order by place chooses from.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) set: DiskSet,
    /// The entry of each request in the set.
    entries: Vec<u32>,
    free: Vec<u32>,
}

impl Chosen {
    fn new(rules: &ContainerRules) -> Self {
        let capacity = u32::try_from(rules.capacity).unwrap_or(u32::MAX);
        Self {
            set: DiskSet::new(rules.scheduler, rules.capacity, STREAMS),
            entries: vec![NONE; rules.capacity],
            free: (0..capacity).rev().collect(),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Takes an entry in; its name in the set.
    pub(super) fn insert(&mut self, now: Nanos, entry: u32, request: SetRequest) -> Option<u32> {
        let id = self.free.pop()?;
        if let Some(place) = self.entries.get_mut(id as usize) {
            *place = entry;
        }
        self.set.insert(now, SetRequest { id, ..request });
        Some(id)
    }

    /// The entry that is next.
    pub(super) fn pick(&mut self, now: Nanos) -> Option<u32> {
        let id = self.set.pick(now)?;
        self.free.push(id);
        self.entries.get(id as usize).copied()
    }

    pub(super) fn remove(&mut self, id: u32) {
        if self.set.remove(id) {
            self.free.push(id);
        }
    }
}

impl DeviceQueue {
    pub(super) fn new(reactor: u32, device: Arc<Device>) -> Self {
        let chosen = device.rules.containers.as_ref().map(Chosen::new);
        Self {
            reactor,
            device,
            trees: ByClass::default(),
            waiting: ByClass::default(),
            total: 0,
            working: 0,
            places: Vec::new(),
            // The root is there from the start.
            nodes: 1,
            free_nodes: Vec::new(),
            current: None,
            left: 0,
            reservations: Vec::new(),
            reserved: false,
            due: BinaryHeap::new(),
            resting: BinaryHeap::new(),
            parked: Vec::new(),
            chosen,
            samples: Samples::default(),
            bells: 0,
            granted: 0,
        }
    }

    /// Whether anything waits.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.total != 0
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

    pub(super) fn remove_node(&mut self, node: u32) {
        for class in Class::ALL {
            self.trees[class].deactivate(node);
        }
        self.free_nodes.push(node);
    }

    /// A host's node below a session's; `None` where the session has no place.
    pub(super) fn add_flow(&mut self, session: u32) -> Option<u32> {
        let own = self.places.get(session as usize)?.own;
        if own == NONE {
            return None;
        }
        Some(self.new_node(own, true))
    }

    /// Gives the sessions that are `wanted` here, and those above them, their places. `parents` is
    /// by session: its parent, [`NONE`] for the root and where there is no session.
    pub(super) fn adopt_sessions(&mut self, parents: &[u32], wanted: &[u32]) {
        let line = |session: u32| {
            let up = |at: &u32| parents.get(*at as usize).copied().filter(|p| *p != NONE);
            std::iter::successors(Some(session), up)
        };
        let last = wanted.iter().flat_map(|session| line(*session)).max().unwrap_or(0);
        let places = self.places.len().max(last as usize + 1);
        self.places.resize(places, NOWHERE);
        for class in Class::ALL {
            self.trees[class].loosen();
        }
        let (mut own, mut group) = (vec![false; places], vec![false; places]);
        for &session in wanted {
            for (above, at) in line(session).enumerate() {
                let of = if above == 0 { &mut own } else { &mut group };
                if let Some(of) = of.get_mut(at as usize) {
                    *of = true;
                }
            }
        }
        for (index, (own, group)) in own.into_iter().zip(group).enumerate() {
            self.resize_place(index, own, group);
        }
        for index in 0..u32::try_from(places).unwrap_or(NONE) {
            let place = *self.place(index);
            let parent = parents.get(index as usize).copied().unwrap_or(NONE);
            let above = if parent == NONE { ROOT } else { self.place(parent).top() };
            for class in Class::ALL {
                let tree = &mut self.trees[class];
                if place.group != NONE && place.group != ROOT {
                    tree.move_to(place.group, above);
                }
                if place.own != NONE {
                    let over = if place.group == NONE { above } else { place.group };
                    tree.move_to(place.own, over);
                }
            }
        }
        for class in Class::ALL {
            self.trees[class].relink();
            self.sync(class);
        }
    }

    /// Gives a session the nodes that it needs, and takes those it does not.
    fn resize_place(&mut self, index: usize, there: bool, group: bool) {
        let mut place = self.places.get(index).copied().unwrap_or(NOWHERE);
        place.blocked = false;
        if index == 0 {
            place.group = ROOT;
        } else if group && place.group == NONE {
            place.group = self.new_node(ROOT, false);
        } else if !group && place.group != NONE {
            self.free_nodes.push(place.group);
            place.group = NONE;
        }
        if there && place.own == NONE {
            place.own = self.new_node(ROOT, false);
        } else if !there && place.own != NONE {
            self.free_nodes.push(place.own);
            place.own = NONE;
        }
        if let Some(slot) = self.places.get_mut(index) {
            *slot = place;
        }
    }

    fn place(&self, session: u32) -> &Place {
        self.places.get(session as usize).unwrap_or(&NOWHERE)
    }

    /// The session whose reservation a session's commands are charged to: its own, or the nearest
    /// above it.
    #[inline]
    pub(super) fn covering(&self, session: u32) -> Option<u32> {
        Some(self.place(session).covered).filter(|covering| *covering != NONE)
    }

    /// Whether any session has a reservation here.
    #[inline]
    pub(super) fn has_reservations(&self) -> bool {
        self.reserved
    }

    /// Whether commands are ordered by place before they go.
    #[inline]
    pub(super) fn is_ordered(&self) -> bool {
        self.chosen.is_some()
    }

    /// Whether anything of a class may be taken from below a node; none has nothing.
    #[inline]
    fn works(&self, class: Class, node: u32) -> bool {
        node != NONE && self.trees[class].node_has_work(node)
    }

    fn set_claim(&mut self, session: u32, claim: Claim) {
        if let Some(place) = self.places.get_mut(session as usize) {
            place.claim = claim;
        }
    }

    pub(super) fn adopt_reservations<'a>(
        &mut self,
        now: Nanos,
        all: impl Iterator<Item = &'a Reservation>,
        parents: &[u32],
    ) {
        self.reservations.clear();
        self.due.clear();
        self.resting.clear();
        self.parked.clear();
        for place in &mut self.places {
            (place.claim, place.covered) = (Claim::None, NONE);
        }
        self.reserved = false;
        for reservation in all {
            if !self.reserved {
                self.reserved = true;
                self.reservations.resize(self.places.len(), None);
                for heap in [&mut self.due, &mut self.resting] {
                    heap.reserve(self.places.len());
                }
                self.parked.reserve(self.places.len());
            }
            let session = reservation.session.0;
            if let Some(slot) = self.reservations.get_mut(session as usize) {
                *slot = Some(Arc::clone(&reservation.reserved));
                self.set_claim(session, Claim::Due);
                self.due.push(Reverse((now, session)));
            }
        }
        if self.reserved {
            self.cover(parents);
        }
    }

    /// The reservation that a session's commands are charged to.
    #[inline]
    pub(super) fn reservation_over(&self, session: u32) -> Option<&Arc<Reserved>> {
        self.reservation(self.covering(session)?)
    }

    /// Finds out for each session whose reservation covers it.
    fn cover(&mut self, parents: &[u32]) {
        for index in 0..u32::try_from(self.places.len()).unwrap_or(NONE) {
            let up = |at: &u32| parents.get(*at as usize).copied().filter(|p| *p != NONE);
            let mut line = std::iter::successors(Some(index), up);
            let covering = line.find(|at| self.reservation(*at).is_some()).unwrap_or(NONE);
            if let Some(place) = self.places.get_mut(index as usize) {
                place.covered = covering;
            }
        }
    }

    pub(super) fn reservation(&self, session: u32) -> Option<&Arc<Reserved>> {
        self.reservations.get(session as usize)?.as_ref()
    }

    /// A command of a session with a reservation has come.
    pub(super) fn note_demand(&mut self, now: Nanos, session: u32) {
        let Some(session) = self.covering(session) else { return };
        if let Some(reserved) = self.reservation(session) {
            reserved.note_demand(now);
        }
        if self.place(session).claim == Claim::Idle {
            self.set_claim(session, Claim::Due);
            self.due.push(Reverse((now, session)));
        }
    }

    /// The session whose reservation is due, the one with the earliest deadline first (seed row
    /// F3), and the class of the first command it has here.
    fn next_due(&mut self, now: Nanos) -> Option<(u32, Class)> {
        while let Some(&Reverse((when, session))) = self.resting.peek() {
            if when > now {
                break;
            }
            self.resting.pop();
            self.set_claim(session, Claim::Due);
            self.due.push(Reverse((now, session)));
        }
        while let Some(&Reverse((key, session))) = self.due.peek() {
            let place = *self.place(session);
            let top = place.top();
            let class = Class::ALL.into_iter().find(|c| self.works(*c, top));
            let Some(class) = class else {
                self.due.pop();
                if place.blocked {
                    self.set_claim(session, Claim::Parked);
                    self.parked.push(session);
                } else {
                    self.set_claim(session, Claim::Idle);
                }
                continue;
            };
            let reserved = self.reservation(session)?;
            match reserved.due(now) {
                Some(deadline) if deadline == key => return Some((session, class)),
                Some(deadline) => {
                    self.due.pop();
                    self.due.push(Reverse((deadline, session)));
                }
                None => {
                    let next = reserved.again(now);
                    self.due.pop();
                    self.set_claim(session, Claim::Resting);
                    self.resting.push(Reverse((next, session)));
                }
            }
        }
        None
    }

    /// A command of a session with a reservation has gone, or was withdrawn.
    pub(super) fn note_gone(&mut self, now: Nanos, session: u32) {
        let Some(session) = self.covering(session) else { return };
        let top = self.place(session).top();
        let waits = Class::ALL.into_iter().any(|c| self.works(c, top));
        if let Some(reserved) = self.reservation(session) {
            if waits { reserved.note_demand(now) } else { reserved.note_idle(now) }
        }
    }

    /// The session that [`Self::next`] found due is held up by a limit above it.
    pub(super) fn park(&mut self) {
        if let Some(Reverse((_, session))) = self.due.pop() {
            self.set_claim(session, Claim::Parked);
            self.parked.push(session);
        }
    }

    /// Whether reservations may be due.
    fn has_claims(&self) -> bool {
        !self.due.is_empty() || !self.resting.is_empty()
    }

    /// Whose turn it is; `None` where nothing may go on here.
    #[inline]
    pub(super) fn next(&mut self, now: Nanos, pace: &Pace) -> Option<Next> {
        // What other reactors are to have first does not count.
        let mut has = self.working;
        if !self.device.turns.is_alone() {
            for class in Class::ALL {
                if has & bit(class) != 0 && !self.device.turns.may(class, self.reactor) {
                    has &= !bit(class);
                }
            }
        }
        let urgent = has & bit(Class::Urgent) != 0;
        if urgent && self.device.clock.urgent_is_first() {
            return self.turn_of(Class::Urgent, ROOT, Right::Urgent, pace);
        }
        if self.has_claims()
            && let Some((session, class)) = self.next_due(now)
        {
            let top = self.place(session).top();
            return self.turn_of(class, top, Right::Reserved, pace);
        }
        let current = self.current.filter(|_| self.left > 0);
        let class = self.device.clock.pick(has, current)?;
        if current != Some(class) {
            self.current = Some(class);
            self.left = pace.burst(class);
        }
        self.turn_of(class, ROOT, Right::Weight, pace)
    }

    #[inline]
    fn turn_of(&mut self, class: Class, upto: u32, right: Right, pace: &Pace) -> Option<Next> {
        let leaf = self.trees[class].select(upto, pace.quantum)?;
        Some(Next { class, leaf, upto, right })
    }

    /// The command whose turn it was has been taken.
    #[inline]
    pub(super) fn charge(&mut self, pace: &Pace, next: &Next, bytes: u32) {
        let cost = pace.cost(bytes);
        let hosts = self.trees[next.class].leaves();
        self.trees[next.class].charge(next.leaf, next.upto, cost);
        if next.right != Right::Reserved && !self.device.turns.is_alone() {
            self.device.turns.charge(next.class, self.reactor, cost, hosts);
        }
        match next.right {
            Right::Urgent => self.device.clock.charge_urgent(cost),
            Right::Reserved => {}
            Right::Weight => {
                self.left = self.left.saturating_sub(1);
                self.device.clock.charge(pace, next.class, cost);
            }
        }
    }

    /// Tells the device's clock whether a class waits here.
    #[inline]
    pub(super) fn sync(&mut self, class: Class) {
        let bit = bit(class);
        let works = self.trees[class].has_work();
        if works != (self.working & bit != 0) {
            self.working ^= bit;
            if works {
                self.device.clock.begins(class);
                self.device.turns.begins(class, self.reactor);
            } else {
                self.device.clock.ends(class);
                self.device.turns.ends(class, self.reactor);
                // What waited for this class to catch up may go on, and nothing else may tell.
                self.bells |= self.device.wake();
            }
        }
    }

    /// Sets the ends of a host's queue, out of which a command was taken.
    #[inline]
    pub(super) fn set_leaf(&mut self, class: Class, leaf: u32, head: u32, tail: u32) {
        let tree = &mut self.trees[class];
        tree.set_queue(leaf, head, tail);
        if head == NONE {
            tree.deactivate(leaf);
            self.sync(class);
        }
    }

    /// A command waits.
    #[inline]
    pub(super) fn count(&mut self, reactor: u32, class: Class) {
        self.waiting[class] += 1;
        self.total += 1;
        self.device.publish(reactor, class, self.waiting[class]);
    }

    /// A command waits no more.
    #[inline]
    pub(super) fn uncount(&mut self, reactor: u32, class: Class) {
        let waiting = &mut self.waiting[class];
        *waiting = waiting.saturating_sub(1);
        self.total = self.total.saturating_sub(1);
        self.device.publish(reactor, class, self.waiting[class]);
    }

    /// Lets nothing of a session go on.
    pub(super) fn block(&mut self, session: u32) {
        let top = self.place(session).top();
        if let Some(place) = self.places.get_mut(session as usize) {
            place.blocked = true;
        }
        if top == NONE {
            return;
        }
        for class in Class::ALL {
            self.trees[class].block(top);
            self.sync(class);
        }
    }

    /// Lets a session go on.
    pub(super) fn unblock(&mut self, now: Nanos, session: u32) {
        let Some(place) = self.places.get_mut(session as usize).filter(|p| p.blocked) else {
            return;
        };
        place.blocked = false;
        let top = place.top();
        for class in Class::ALL {
            self.trees[class].unblock(top);
            self.sync(class);
        }
        // Reservations below it may be due again.
        while let Some(session) = self.parked.pop() {
            self.set_claim(session, Claim::Due);
            self.due.push(Reverse((now, session)));
        }
    }
}

impl Drop for DeviceQueue {
    fn drop(&mut self) {
        for class in Class::ALL {
            if self.working & bit(class) != 0 {
                self.device.clock.ends(class);
                self.device.turns.ends(class, self.reactor);
            }
        }
    }
}
