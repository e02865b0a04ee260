//! The commands that wait at one device, in one reactor.

use crate::sync::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use units::{Class, Nanos, PerClass};

use super::device_sessions::DeviceSessions;
use super::elevator::Elevator;
use super::entries::Entries;
use super::grant::{Grant, Holds, Work};
use super::ids::{DeviceId, EntryId, HostFlowIndex, OwnQueueId};
use super::own_order::OwnOrders;
use super::samples::Samples;
use super::shares::Shares;
use super::waits::DeviceWaits;
use crate::device::Device;
use crate::limit::BlockReason;
use crate::order::{ClassBurst, CommandKind, Ends, NodeId, Pace, SpreadKey, Tree, bit};
use crate::reactors::Reactors;
use crate::reservation::{Ceiling, Schedule};
use crate::session::{HostId, Session, SessionId};

/// The command that goes next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    pub(super) class: Class,
    /// The host's node.
    pub(super) leaf: NodeId,
    /// The node that the command was chosen below: only nodes below it are charged.
    pub(super) below: NodeId,
    pub(super) precedence: Precedence,
}

/// The place of a waiting command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) class: Class,
    /// The host's node.
    pub(super) leaf: NodeId,
    /// The host's own queue; `None`: the common queue of all queues without weights.
    pub(super) own_queue: Option<OwnQueueId>,
}

/// The reason why a command goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precedence {
    /// The command is Urgent, within the share of that class.
    Urgent,
    /// Its reservation is due.
    Reserved,
    /// Its class has the turn by weight.
    Weight,
}

/// Computes the step of a reactor's virtual time at a limit for a command, by the weight of all
/// commands that it has waiting there.
fn step_among(cost: u32, weight: u64) -> u64 {
    (u64::from(cost) << 16) / weight.max(1)
}

#[derive(Debug)]
pub(super) struct DeviceQueue {
    reactor: u32,
    pub(super) device: Arc<Device>,
    /// The sessions that have flows here, those above them, and their hosts.
    pub(super) sessions: DeviceSessions,
    /// The orders of hosts' own queues within the hosts' parts.
    pub(super) own: OwnOrders,
    /// The shares of hosts that other reactors may serve too; empty where there are none.
    shares: Shares,
    waiting: PerClass<u32>,
    /// Commands of all classes together that wait.
    total: u32,
    /// Whether commands went to the device since other reactors were last told so.
    took: bool,
    /// Classes of which something may go on, one [`bit`] each: the device's clock counts them as
    /// waiting here.
    working: u8,
    /// The first of the flows that are here.
    pub(super) flows: Option<HostFlowIndex>,
    /// Whether the device is among those at which something may wait.
    pub(super) listed: bool,
    /// Whether the device is on its way out: nothing new comes.
    pub(super) leaving: bool,
    /// Whether the other reactors know that a reservation is due here without room.
    told_due: bool,
    /// Whether the device counts this reactor among those in which a session has a weight.
    told_weights: bool,
    burst: ClassBurst,
    /// Time until which sessions and hosts have turns of one command: a limit holds a session back.
    short_turns_until: Nanos,
    /// Commands that are ordered by LBA and deadline; `None`: the device does not order so.
    pub(super) elevator: Option<Elevator>,
    pub(super) samples: Samples,
    /// Reactors that have something to do again, one bit each; common to all devices.
    woken: Arc<AtomicU64>,
    /// Commands that have gone to the device and not come back.
    pub(super) granted: u32,
    /// The bound that reservations set on the commands in the device; `None` if there are no
    /// reservations or the window does not follow them.
    ceiling: Option<Ceiling>,
    /// Memory for computing what reservations may yet ask of the device, used again by each
    /// computation.
    pub(super) schedule: Schedule,
    /// The reasons of waits; `None`: they are not counted.
    pub(super) waits: Option<Box<DeviceWaits>>,
}

impl DeviceQueue {
    pub(super) fn new(reactor: u32, device: Arc<Device>, woken: Arc<AtomicU64>) -> Self {
        let elevator = device.rules.containers.as_ref().map(Elevator::new);
        let mut queue = Self {
            reactor,
            sessions: DeviceSessions::new(reactor, device.is_bounded()),
            device,
            own: OwnOrders::default(),
            shares: Shares::default(),
            waiting: PerClass::default(),
            total: 0,
            took: false,
            working: 0,
            flows: None,
            listed: false,
            leaving: false,
            told_due: false,
            told_weights: false,
            burst: ClassBurst::default(),
            short_turns_until: Nanos::ZERO,
            elevator,
            samples: Samples::default(),
            woken,
            granted: 0,
            ceiling: None,
            schedule: Schedule::default(),
            waits: None,
        };
        queue.adopt_reservations(Nanos::ZERO);
        queue
    }

    #[inline]
    pub(super) fn tree(&mut self, class: Class) -> &mut Tree<EntryId> {
        &mut self.sessions.order.trees[class]
    }

    /// Finds the ends of the queue of a host and class.
    #[inline]
    pub(super) fn queue_of(&self, class: Class, leaf: NodeId) -> Option<Ends<EntryId>> {
        self.sessions.order.trees[class].queue(leaf)
    }

    /// Returns the next command of a host, and the ends of the host's queue. The command is the
    /// first, or the choice of the host's own order.
    #[inline]
    pub(super) fn first_of(&self, next: &Next) -> Option<(EntryId, Ends<EntryId>)> {
        let ends = self.queue_of(next.class, next.leaf);
        debug_assert!(ends.is_some(), "a host that goes next has a command waiting");
        let ends = ends?;
        Some((self.own.first(next.class, next.leaf).unwrap_or(ends.first), ends))
    }

    /// Takes the reservations that are in force at the device.
    pub(super) fn adopt_reservations(&mut self, now: Nanos) {
        self.sessions.adopt_reservations(now, self.device.reservations());
        self.compute_ceiling(now);
    }

    fn compute_ceiling(&mut self, now: Nanos) {
        let terms = &self.sessions.terms;
        self.ceiling =
            terms.first().filter(|_| self.device.follows_reservations()).and_then(|first| {
                let bounds = terms.iter().map(|term| term.reserved.queue_bound());
                let probe = self.device.profiler.probe(now);
                Ceiling::new(now, (first.reserved.profile(), probe), bounds)
            });
    }

    /// Returns whether there is room in the device for any command at all: in its window, and
    /// beside reservations.
    #[inline]
    pub(super) fn has_room(&mut self, now: Nanos) -> bool {
        if self.ceiling.is_some() {
            let has_room = self.has_room_beside(now);
            self.note_room_beside(now, has_room);
            if !has_room {
                return false;
            }
        }
        self.device.window.has_room()
    }

    /// Returns whether reservations leave room for one more command. In a scheduling set they
    /// decide for each command.
    fn has_room_beside(&mut self, now: Nanos) -> bool {
        if self.ceiling.as_ref().is_some_and(|ceiling| ceiling.is_stale(now)) {
            self.compute_ceiling(now);
        }
        let bounded = self.device.is_bounded();
        self.ceiling.as_ref().is_none_or(|ceiling| bounded || ceiling.has_room(&self.device.set))
    }

    /// Counts the time in which reservations leave no room for one more command.
    pub(super) fn note_room_beside(&mut self, now: Nanos, has_room: bool) {
        if let Some(waits) = &mut self.waits {
            waits.note_room_beside(now, has_room);
        }
    }

    /// Notes that the device has carried out a command that was counted.
    pub(super) fn note_use(&self, now: Nanos, write: bool, bytes: u32) {
        if let Some(ceiling) = &self.ceiling {
            self.device.note_use(now, ceiling.profile().mean(write, bytes));
        }
    }

    /// Makes a host's node below a session's.
    pub(super) fn add_flow(&mut self, session: &Session, host: HostId) -> NodeId {
        let node = self.sessions.add_flow(session, host);
        self.tell_weights();
        if !self.device.fairness.is_alone() {
            self.shares.add(&self.device.spreads, node, SpreadKey::new(session, host));
        }
        self.sync_all();
        node
    }

    /// Removes a host's node, which has nothing waiting.
    pub(super) fn remove_flow(&mut self, session: SessionId, node: NodeId) {
        let held = self.own.forget(node);
        for write in [false, true] {
            if let Some(by) = held.get(write).by {
                self.sessions.forget_held(by, node, write);
            }
        }
        self.sessions.remove_flow(session, node);
        if let Some(waits) = &mut self.waits {
            waits.forget(&self.sessions, node);
        }
        self.shares.remove(&self.device.spreads, node);
        self.tell_weights();
        self.sync_all();
    }

    /// Makes turns one command long while a session's limit holds commands back until `when`, and for
    /// a second after that. A session that has to wait for longer turns of others, each time its own
    /// limit lets a command pass, does not reach that limit near its fair share.
    pub(super) fn shorten_turns(&mut self, when: Nanos) {
        const A_WHILE: u64 = 1_000_000_000;
        self.short_turns_until = self.short_turns_until.max(when.after(A_WHILE));
    }

    /// Blocks a session. Returns whether the session has to note that it is blocked here.
    pub(super) fn block(
        &mut self,
        now: Nanos,
        session: SessionId,
        reason: Option<BlockReason>,
    ) -> bool {
        if let Some((waits, reason)) = self.waits.as_mut().zip(reason) {
            waits.block(now, &self.sessions, session, reason);
        }
        let noting = self.sessions.block(session);
        self.sync_all();
        noting
    }

    pub(super) fn unblock_session(&mut self, now: Nanos, session: SessionId) {
        if self.sessions.unblock(now, session) {
            if let Some(waits) = &mut self.waits {
                waits.unblock(now, &self.sessions, session);
            }
            self.sync_all();
        }
    }

    /// Unblocks a session, and all hosts that its limits on a direction hold back.
    pub(super) fn unblock(&mut self, now: Nanos, session: SessionId) {
        self.unblock_session(now, session);
        for write in [false, true] {
            while self.release(now, session, write) {}
        }
    }

    /// Appends the waiting commands of a host to its new own order.
    pub(super) fn begin_own_order<T: Copy>(&mut self, entries: &Entries<T>, leaf: NodeId) {
        for class in Class::ALL {
            let mut next = self.queue_of(class, leaf).map(|waiting| waiting.first);
            while let Some(entry) = next {
                self.own.append(class, leaf, None, (entry, entries.at(entry).write));
                next = entries.behind(entry);
            }
        }
    }

    /// Holds a host's reads or writes back, because of a session's limit on them. The host has an own
    /// order. Returns whether the session has to note that it blocks something here.
    pub(super) fn hold(
        &mut self,
        now: Nanos,
        session: SessionId,
        (leaf, write): (NodeId, bool),
        reason: Option<BlockReason>,
    ) -> bool {
        if let Some((waits, reason)) = self.waits.as_mut().zip(reason) {
            waits.hold(now, &self.sessions, (leaf, write), reason);
        }
        self.own.set_held(leaf, write, session, true);
        self.sync_leaf(leaf);
        let tag = self.own.tags_mut(leaf, write).iter().find(|tag| tag.session == session);
        let finish = tag.map_or(0, |tag| tag.finish);
        self.sessions.hold(session, leaf, write, finish)
    }

    /// Lets the next host go on that a session's limit on a direction holds back. Returns whether there
    /// was one.
    pub(super) fn release(&mut self, now: Nanos, session: SessionId, write: bool) -> bool {
        let Some(leaf) = self.sessions.release(session, write) else { return false };
        if let Some(waits) = &mut self.waits {
            waits.release(now, &self.sessions, (leaf, write));
        }
        self.own.set_held(leaf, write, session, false);
        self.sync_leaf(leaf);
        self.sessions.note_unblocked(now);
        true
    }

    /// Blocks the leaf of a host in the classes whose waiting commands are all held back, and
    /// unblocks it in the others.
    fn sync_leaf(&mut self, leaf: NodeId) {
        for class in Class::ALL {
            self.sync_leaf_in(class, leaf);
        }
    }

    #[inline]
    fn sync_leaf_in(&mut self, class: Class, leaf: NodeId) {
        let Some(holds_back) = self.own.holds_back(class, leaf) else { return };
        let tree = self.tree(class);
        if tree.is_blocked(leaf) != holds_back {
            if holds_back {
                tree.block(leaf)
            } else {
                tree.unblock(leaf)
            }
            self.sync(class);
        }
    }

    /// Returns whether anything waits.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.total != 0
    }

    /// Returns whether commands are ordered by place before they go.
    #[inline]
    pub(super) fn is_ordered(&self) -> bool {
        self.elevator.is_some()
    }

    /// Chooses the command that goes next; `None` where nothing may go on here.
    #[inline]
    pub(super) fn next(&mut self, now: Nanos, pace: &Pace) -> Option<Next> {
        self.next_with(now, pace, true)
    }

    /// Chooses the command that goes next. `urgent` says whether an Urgent command may go before
    /// reservations that are due.
    #[inline]
    pub(super) fn next_with(&mut self, now: Nanos, pace: &Pace, urgent: bool) -> Option<Next> {
        let quantum = pace.quantum(now < self.short_turns_until);
        // A class in which other reactors go first does not count.
        let mut has = self.working;
        if self.is_by_weight() {
            // Selection shows which class holds back all its waiting commands.
        } else if !self.device.fairness.is_alone() {
            for class in Class::ALL {
                if has & bit(class) != 0
                    && !self.device.fairness.may(class, self.reactor, self.shares.sum(class))
                {
                    has &= !bit(class);
                }
            }
        }
        // Urgent goes before reservations within its share alone, which admission has left to it.
        let clock = &self.device.clock;
        let urgent = urgent && has & bit(Class::Urgent) != 0;
        let is_first = match self.sessions.has_reservations() {
            true => clock.urgent_has_saved(),
            false => clock.urgent_is_first(),
        };
        if urgent && is_first {
            let next = self.next_of(Class::Urgent, NodeId::ROOT, Precedence::Urgent, quantum);
            if next.is_some() {
                return next;
            }
            has &= !bit(Class::Urgent);
        }
        if self.sessions.has_due()
            && let Some(due) = self.sessions.next_due(now)
        {
            return self.next_of(due.class, due.top, Precedence::Reserved, quantum);
        }
        self.tell_due(false);
        if self.leaves_room() {
            return None;
        }
        loop {
            let class = self.burst.pick(&self.device.clock, pace, has)?;
            let next = self.next_of(class, NodeId::ROOT, Precedence::Weight, quantum);
            if next.is_some() || !self.is_by_weight() {
                return next;
            }
            has &= !bit(class);
        }
    }

    /// Returns whether sessions go by weight here.
    #[inline]
    pub(super) fn is_by_weight(&self) -> bool {
        self.sessions.order.is_by_weight()
    }

    /// Adopts the order that the device uses now: by weight, or in turn. By weight, releases nodes that
    /// this reactor held back for other reactors, once those have caught up.
    #[inline]
    pub(super) fn follow_order(&mut self) {
        if self.device.goes_by_weight() != self.is_by_weight() {
            self.change_order();
        }
        if self.is_by_weight() {
            for class in Class::ALL {
                if self.tree(class).release_held(false) {
                    self.sync(class);
                }
            }
        }
    }

    #[cold]
    fn change_order(&mut self) {
        if self.device.goes_by_weight() {
            self.sessions.order.go_by_weight(self.reactor, Arc::clone(&self.device.tags));
        } else {
            self.sessions.order.go_in_turn();
        }
        self.sync_all();
        self.wake(self.device.wake_beside(self.reactor));
    }

    /// Finds out again which of a session and those above it have weights of their own.
    pub(super) fn note_weights(&mut self, session: SessionId) {
        self.sessions.order.note_weights(session);
        self.tell_weights();
    }

    /// Tells the device whether a session with a weight of its own has flows here.
    fn tell_weights(&mut self) {
        let has = self.sessions.order.has_weights();
        if std::mem::replace(&mut self.told_weights, has) != has {
            let tags = &self.device.tags;
            if has { tags.begin() } else { tags.end() }
        }
    }

    /// Wakes reactors that may go on because of what this one holds back, or has no more.
    fn tell_yielded(&mut self, class: Class) {
        if self.tree(class).take_yielded() {
            self.wake(self.device.wake_beside_after_store(self.reactor));
        }
    }

    /// Returns whether the room that comes free is for a reservation that is due in another
    /// reactor.
    #[inline]
    fn leaves_room(&self) -> bool {
        self.sessions.has_reservations() && self.device.is_due_beside(self.reactor)
    }

    /// Notes that the window has no room. If a reservation is due here, other reactors leave freed
    /// room to it. Otherwise they would refill the window as their own commands complete, before
    /// this reactor could find room in it.
    #[inline]
    pub(super) fn note_full(&mut self, now: Nanos) {
        if self.sessions.has_reservations() || self.told_due {
            let due = self.sessions.has_due() && self.sessions.next_due(now).is_some();
            self.tell_due(due);
        }
    }

    fn tell_due(&mut self, due: bool) {
        if due == self.told_due || self.device.fairness.is_alone() {
            return;
        }
        self.told_due = due;
        if due {
            self.device.set_due(self.reactor);
            return;
        }
        let woken = self.device.clear_due(self.reactor);
        self.wake(woken);
    }

    /// Notes that nothing may be dispatched here now. If commands were dispatched before and the
    /// window still has room, wakes the reactors that left the room to this one. Otherwise they
    /// would not learn of it before the next completion.
    #[inline]
    pub(super) fn note_stop(&mut self) {
        if std::mem::take(&mut self.took) && self.device.window.has_room() {
            self.wake(self.device.wake_beside_after_store(self.reactor));
        }
    }

    /// Notes that a command of a session has gone, or was withdrawn.
    pub(super) fn note_gone(&mut self, now: Nanos, session: SessionId) {
        self.sessions.note_gone(now, session);
        self.wake_others();
    }

    /// Wakes reactors that left a device with a scheduling set to a due reservation here.
    pub(super) fn wake_others(&self) {
        if self.sessions.bounded && !self.device.fairness.is_alone() {
            self.wake(self.device.wake_beside(self.reactor));
        }
    }

    /// Notes reactors that have something to do again.
    fn wake(&self, woken: Reactors) {
        if !woken.is_empty() {
            self.woken.fetch_or(woken.bits(), Relaxed);
        }
    }

    #[inline]
    fn next_of(
        &mut self,
        class: Class,
        below: NodeId,
        precedence: Precedence,
        quantum: i32,
    ) -> Option<Next> {
        let leaf = self.tree(class).select(below, quantum);
        if self.is_by_weight() {
            // Selection may have held back all waiting commands.
            self.sync(class);
        }
        let leaf = leaf?;
        Some(Next { class, leaf, below, precedence })
    }

    /// Charges the turns of a dispatched command. This settles its cost: later measurements of the
    /// device's time for it, or for others, change no past turn.
    #[inline]
    pub(super) fn charge(&mut self, now: Nanos, pace: &Pace, next: &Next, kind: CommandKind) {
        if pace.counts_time() {
            self.device.refresh_times(now);
        }
        let cost = pace.cost_at(&self.device.times, kind);
        let Next { class, leaf, below, .. } = *next;
        for tag in self.own.tags_mut(leaf, kind.write) {
            self.sessions.charge_direction(tag, leaf, kind.write, cost);
        }
        if self.device.fairness.is_alone() {
            self.tree(class).charge(leaf, below, cost);
        } else if self.is_by_weight() {
            self.took = true;
            self.tree(class).charge(leaf, below, cost);
        } else {
            self.took = true;
            let reactors = self.shares.reactors(class, leaf);
            self.tree(class).charge_shared(leaf, below, cost, reactors);
            if next.precedence != Precedence::Reserved {
                let hosts = self.shares.sum(class);
                self.device.fairness.charge(class, self.reactor, cost, hosts);
            }
        }
        match next.precedence {
            Precedence::Urgent => {
                self.device.clock.charge_urgent(cost, self.sessions.has_reservations());
            }
            Precedence::Reserved if next.class == Class::Urgent => {}
            Precedence::Reserved => self.device.clock.earn_urgent(pace, cost),
            Precedence::Weight => {
                self.burst.took(cost);
                self.device.clock.charge(pace, next.class, cost);
            }
        }
    }

    /// Computes the step of virtual time for a host's command at a session's limit, beside other
    /// reactors. At a limit on all commands, the weights of the waiting classes count; at a limit
    /// on a direction, the weights of the sessions.
    #[cold]
    pub(super) fn turn_step(
        &self,
        pace: &Pace,
        session: SessionId,
        (class, leaf): (Class, NodeId),
        kind: CommandKind,
        of_direction: bool,
    ) -> u64 {
        let cost = pace.cost_at(&self.device.times, kind);
        if of_direction {
            let portion = self.sessions.portion_held(session, leaf, kind.write);
            return step_among(cost, portion.of_weight);
        }
        let top = self.sessions.place(session).top();
        let waits = |other: &Class| {
            *other == class
                || top.is_some_and(|top| self.sessions.order.trees[*other].node_has_work(top))
        };
        step_among(cost, pace.weight_of(Class::ALL.into_iter().filter(waits)))
    }

    /// Tells the device's clock which classes wait here.
    pub(super) fn sync_all(&mut self) {
        for class in Class::ALL {
            self.sync(class);
        }
    }

    /// Tells the device's clock whether a class waits here.
    #[inline]
    pub(super) fn sync(&mut self, class: Class) {
        let bit = bit(class);
        let works = self.tree(class).has_work();
        if works != (self.working & bit != 0) {
            self.working ^= bit;
            if works {
                self.device.clock.begins(class);
                self.device.fairness.begins(class, self.reactor);
            } else {
                self.device.clock.ends(class);
                self.device.fairness.ends(class, self.reactor);
                // Commands that waited for this class to catch up may go on, and nothing else may
                // tell their reactors.
                let woken = self.device.wake_beside(self.reactor);
                self.wake(woken);
            }
        }
        if self.is_by_weight() {
            self.tell_yielded(class);
        }
    }

    /// Adds a command to its host, whose queue of the class is then `queue`.
    #[inline]
    pub(super) fn append(&mut self, place: Place, write: bool, queue: Ends<EntryId>) {
        let Place { class, leaf, own_queue } = place;
        let tree = self.tree(class);
        let waited = tree.queue(leaf).is_some();
        tree.set_queue(leaf, Some(queue));
        if !waited {
            tree.activate(leaf);
            self.shares.begins(class, leaf);
            self.sync(class);
        }
        self.own.append(class, leaf, own_queue, (queue.last, write));
        self.sync_leaf_in(class, leaf);
    }

    /// Removes the next command of a host, and charges its turns among the host's own queues;
    /// `rest` is the rest of the host's queue.
    #[inline]
    pub(super) fn take(
        &mut self,
        place: Place,
        command: (EntryId, bool),
        rest: Option<Ends<EntryId>>,
    ) {
        self.own.take(place.class, place.leaf, place.own_queue, command);
        self.set_rest(place, rest);
    }

    /// Removes a command out of turn; `rest` is the rest of its host's queue.
    #[inline]
    pub(super) fn withdraw(
        &mut self,
        place: Place,
        command: (EntryId, bool),
        rest: Option<Ends<EntryId>>,
    ) {
        self.own.withdraw(place.class, place.leaf, place.own_queue, command);
        self.set_rest(place, rest);
    }

    #[inline]
    fn set_rest(&mut self, Place { class, leaf, .. }: Place, rest: Option<Ends<EntryId>>) {
        self.tree(class).set_queue(leaf, rest);
        if rest.is_none() {
            self.shares.ends(class, leaf);
            self.sync(class);
        }
        self.sync_leaf_in(class, leaf);
    }

    /// Counts a command that begins to wait.
    #[inline]
    pub(super) fn count(&mut self, class: Class) {
        self.waiting[class] += 1;
        self.total += 1;
        self.device.publish(self.reactor, class, self.waiting[class]);
    }

    /// Counts one command that waits less.
    #[inline]
    pub(super) fn uncount(&mut self, class: Class) {
        debug_assert!(self.waiting[class] > 0, "a command that waits is counted once");
        let waiting = &mut self.waiting[class];
        *waiting = waiting.saturating_sub(1);
        self.total = self.total.saturating_sub(1);
        self.device.publish(self.reactor, class, self.waiting[class]);
        if self.total == 0 {
            self.tell_due(false);
        }
    }

    /// Checks that a host counts as waiting where it waits, beside no other reactor.
    #[cfg(test)]
    pub(super) fn check_share(&self, class: Class, leaf: NodeId) {
        if !self.device.fairness.is_alone() {
            let waits = self.queue_of(class, leaf).is_some();
            assert_eq!(self.shares.reactors_of(class, leaf), Some((u32::from(waits), waits)));
        }
    }

    /// Checks three invariants. Each session knows the hosts that its limits on a direction hold
    /// back. A host is blocked in the classes whose waiting commands are all held back. A timer or
    /// an unblocked command will look at it again.
    #[cfg(test)]
    pub(super) fn check_held(&self) {
        let mut known = 0;
        for session in self.sessions.order.sessions() {
            for write in [false, true] {
                known += self.sessions.held_by(session, write);
                if self.sessions.held_by(session, write) > 0 {
                    assert!(self.sessions.is_timed(session), "nobody looks at it again");
                }
            }
        }
        let held = self.own.held();
        assert_eq!((known, self.sessions.held), (held.len(), held.len()));
        for (leaf, write, by) in held {
            assert!(self.sessions.holds(by, leaf, write));
            for class in Class::ALL {
                let tree = &self.sessions.order.trees[class];
                assert_eq!(Some(tree.is_blocked(leaf)), self.own.holds_back(class, leaf));
            }
        }
    }

    /// Makes the grant of a command that goes to the device. All grants are made here.
    #[inline]
    pub(super) fn grant(
        &mut self,
        now: Nanos,
        device: DeviceId,
        work: Work,
        holds: Holds,
    ) -> Grant {
        self.granted += 1;
        let counted = self.device.is_bounded() || self.ceiling.is_some();
        if counted && !self.is_ordered() {
            self.device.set.join(work.write, work.bytes);
        }
        if let Some(ceiling) = &self.ceiling {
            self.device.note_length(now, ceiling.profile().in_device(work.write, work.bytes));
        }
        self.device.window.note_size(holds.price, work.bytes, true);
        if self.waits.is_some() {
            self.device.count_dispatch(self.reactor);
        }
        let met = self.device.window.commands();
        Grant { met, counted, ..Grant::new(now, device, work, holds) }
    }
}

impl Drop for DeviceQueue {
    fn drop(&mut self) {
        self.tell_due(false);
        self.shares.clear(&self.device.spreads);
        if self.is_by_weight() {
            self.sessions.order.go_in_turn();
        }
        if self.told_weights {
            self.device.tags.end();
        }
        for class in Class::ALL {
            if self.working & bit(class) != 0 {
                self.device.clock.ends(class);
                self.device.fairness.ends(class, self.reactor);
            }
        }
    }
}
