//! The order of a host's own queues within its part of a device, by its controllers' Arbitration
//! features (01h).
//!
//! The other orders treat a host in a class as one queue, and choose when that queue has its turn.
//! This module chooses the host's command for that turn, so a host's weights change neither its own
//! total share nor the shares of others. The controllers of a host take turns, one command each.
//! Commands over controllers without weighted round robin form one more queue, in order of arrival.
//! Of a controller's queues, the priority class Urgent is served first; High, Medium and Low share
//! by their weights, in commands. The queues of one priority class take turns of a burst.
//!
//! A host also gets such an order when a limit first holds back its reads alone, or its writes alone:
//! its commands of the other direction then pass these.

use std::collections::VecDeque;
use std::sync::Arc;

use slab::Slab;
use units::{Class, PerClass, QueueWeights};

use super::ids::{EntryId, HostFlowIndex, OwnQueueId};
use crate::index::{Index, Name, grown};
use crate::order::NodeId;
use crate::session::SessionId;

/// A thing for reads, and one for commands that change the device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ByDirection<D> {
    pub(super) reads: D,
    pub(super) writes: D,
}

impl<D> ByDirection<D> {
    /// Returns the thing of a direction.
    #[inline]
    pub(super) const fn get(&self, write: bool) -> &D {
        if write { &self.writes } else { &self.reads }
    }

    /// Returns the thing of a direction.
    #[inline]
    pub(super) const fn get_mut(&mut self, write: bool) -> &mut D {
        if write { &mut self.writes } else { &mut self.reads }
    }
}

/// The place of a host's direction in the order of one limit that has held it back.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitTag {
    /// The session whose limit it is.
    pub(super) session: SessionId,
    /// Finish tag of the last command of the direction (see `held_back.rs`).
    pub(super) finish: u64,
}

/// State of the limits on one direction, in a host's own order.
#[derive(Debug, Default)]
pub(super) struct Limited {
    /// The session whose limit has held the direction back last.
    pub(super) by: Option<SessionId>,
    is_held: bool,
    /// The limits that have ever held the direction back. The host keeps its place in the order of each,
    /// whichever holds it back now.
    tags: Vec<LimitTag>,
}

/// Limits of both directions.
pub(super) type Held = ByDirection<Limited>;

impl Held {
    /// Returns which directions are held back: reads, and writes.
    fn are_held(&self) -> [bool; 2] {
        [self.reads.is_held, self.writes.is_held]
    }
}

/// A command, and its number in the order of the host's commands.
type Numbered = (u64, EntryId);

/// The commands of a queue that wait, in order of arrival.
#[derive(Debug, Default)]
struct Waiting(ByDirection<VecDeque<Numbered>>);

impl Waiting {
    fn is_empty(&self) -> bool {
        self.0.reads.is_empty() && self.0.writes.is_empty()
    }

    /// Finds the first command that is not held back.
    fn first(&self, [reads, writes]: [bool; 2]) -> Option<EntryId> {
        let first = |write, is_held: bool| self.0.get(write).front().filter(|_| !is_held);
        let firsts = [first(false, reads), first(true, writes)];
        firsts.into_iter().flatten().min_by_key(|(number, _)| *number).map(|(_, id)| *id)
    }

    /// Finds the last command.
    fn last(&self) -> Option<EntryId> {
        let lasts = [self.0.reads.back(), self.0.writes.back()];
        lasts.into_iter().flatten().max_by_key(|(number, _)| *number).map(|(_, id)| *id)
    }
}

/// An I/O queue of a controller that runs weighted round robin with urgent (CC.AMS is 001b).
#[derive(Clone, Debug)]
pub struct WeightedQueue {
    /// Identifier of the queue in its controller.
    pub qid: u16,
    /// Priority class of the queue, CATTR bits 1:0 of its Connect.
    pub priority: Class,
    /// The Arbitration feature of the controller.
    pub weights: Arc<QueueWeights>,
}

/// Waiting commands of a weighted queue, or of all queues of the host without weights together.
#[derive(Debug)]
struct OwnQueue {
    qid: u16,
    priority: Class,
    controller: usize,
    flow: HostFlowIndex,
    waiting: PerClass<Waiting>,
}

/// The turns of a controller's queues in one class of commands.
#[derive(Debug, Default)]
struct Turns {
    /// Own queues with commands that are not held back, by their priority class; the first has the
    /// turn.
    rings: PerClass<VecDeque<usize>>,
    /// Commands that the first queue of each ring has sent in a row.
    in_a_row: PerClass<u16>,
    /// Virtual time of each priority class, which grows by 1 / weight with each command.
    times: PerClass<u64>,
    /// Virtual time of the priority class that went last.
    now: u64,
}

/// A controller that runs weighted round robin, or all others of the host together.
#[derive(Debug)]
struct Controller {
    weights: Arc<QueueWeights>,
    own_queues: usize,
    turns: PerClass<Turns>,
}

/// The own order of one host.
#[derive(Debug)]
struct OwnOrder {
    /// The first entry stands for the queues without weights.
    own_queues: Slab<OwnQueue>,
    controllers: Slab<Controller>,
    /// Controllers with commands that are not held back, by class; the first has the turn.
    ring: PerClass<VecDeque<usize>>,
    held: Held,
    /// Whether a limit has ever held one direction back.
    is_split: bool,
    /// Commands that have come.
    arrivals: u64,
}

/// The place of all queues without weights together.
const PLAIN: OwnQueueId = OwnQueueId::FIRST;

/// The own orders of the hosts at a device that have weighted queues.
#[derive(Debug, Default)]
pub(super) struct OwnOrders {
    /// The orders, by the numbers of the hosts' leaves; empty where no host ever had one.
    by_leaf: Vec<Option<Box<OwnOrder>>>,
}

/// Virtual time of a command at weight 1. All weights divide it with an error below 2^-15.
const STEP: u64 = 1 << 24;

impl Turns {
    fn is_empty(&self) -> bool {
        self.rings.values().all(VecDeque::is_empty)
    }

    /// Returns the priority class whose queues have the turn.
    fn next(&self) -> Option<Class> {
        let waits = |class: &Class| !self.rings[*class].is_empty();
        if waits(&Class::Urgent) {
            return Some(Class::Urgent);
        }
        [Class::High, Class::Medium, Class::Low]
            .into_iter()
            .filter(waits)
            .min_by_key(|class| self.times[*class])
    }

    /// Adds a queue that has begun to wait. A priority class that had nothing waiting begins level
    /// with the others: turns that it did not use are gone.
    fn join(&mut self, priority: Class, own_queue: usize) {
        let ring = &mut self.rings[priority];
        if ring.is_empty() {
            let time = &mut self.times[priority];
            *time = self.now.max(*time);
        }
        ring.push_back(own_queue);
    }

    /// Removes a queue that waits no more.
    fn leave(&mut self, priority: Class, own_queue: usize) {
        if remove(&mut self.rings[priority], own_queue) {
            self.in_a_row[priority] = 0;
        }
    }

    /// Counts a command of the first queue of a priority class.
    fn took(&mut self, priority: Class, weights: &QueueWeights) {
        if priority != Class::Urgent {
            self.now = self.times[priority];
            self.times[priority] =
                self.now.saturating_add(STEP / u64::from(weights.weight(priority)));
        }
        let in_a_row = &mut self.in_a_row[priority];
        *in_a_row = in_a_row.saturating_add(1);
        if weights.burst().is_some_and(|burst| *in_a_row >= burst) {
            *in_a_row = 0;
            pass_on(&mut self.rings[priority]);
        }
    }
}

/// Removes an element from a ring. Returns whether it was the first.
fn remove<T: PartialEq>(ring: &mut VecDeque<T>, gone: T) -> bool {
    take_out(ring, |other| *other == gone)
}

/// Removes the one element that is meant. Returns whether it was the first.
fn take_out<T>(line: &mut VecDeque<T>, is_meant: impl Fn(&T) -> bool) -> bool {
    let first = line.front().is_some_and(&is_meant);
    if first {
        line.pop_front();
    } else if line.back().is_some_and(&is_meant) {
        line.pop_back();
    } else {
        line.retain(|other| !is_meant(other));
    }
    first
}

/// Passes the turn on to the next of a ring.
fn pass_on<T>(ring: &mut VecDeque<T>) {
    if let Some(first) = ring.pop_front() {
        ring.push_back(first);
    }
}

impl OwnOrder {
    /// Makes the order of a host without weighted queues.
    fn new() -> Self {
        let (own_queues, controllers) = (Slab::new(), Slab::new());
        let (ring, held) = (PerClass::default(), Held::default());
        let mut own = Self { own_queues, controllers, ring, held, is_split: false, arrivals: 0 };
        let plain = WeightedQueue { qid: 0, priority: Class::Low, weights: Arc::default() };
        own.add(&plain, |_| HostFlowIndex::NONE);
        own
    }

    /// Adds a queue; `flow` makes its flow.
    fn add(
        &mut self,
        queue: &WeightedQueue,
        flow: impl FnOnce(OwnQueueId) -> HostFlowIndex,
    ) -> HostFlowIndex {
        let controller = self.controller(&queue.weights);
        if let Some(of) = self.controllers.get_mut(controller) {
            of.own_queues += 1;
        }
        let place = self.own_queues.vacant_entry();
        let flow = flow(OwnQueueId::from_index(Index::nth(place.key())));
        let (qid, priority, waiting) = (queue.qid, queue.priority, PerClass::default());
        place.insert(OwnQueue { qid, priority, controller, flow, waiting });
        flow
    }

    /// Removes a queue with nothing waiting. Returns whether the host needs no own order any more.
    fn remove(&mut self, own_queue: OwnQueueId) -> bool {
        if let Some(gone) = self.own_queues.try_remove(own_queue.at()) {
            let empty = gone.waiting.values().all(Waiting::is_empty);
            debug_assert!(empty, "a flow goes without commands");
            if let Some(of) = self.controllers.get_mut(gone.controller) {
                of.own_queues = of.own_queues.saturating_sub(1);
                if of.own_queues == 0 {
                    self.controllers.try_remove(gone.controller);
                }
            }
        }
        self.own_queues.len() <= 1 && !self.is_split
    }

    /// Adds a command at the end of its queue.
    fn append(&mut self, class: Class, own_queue: OwnQueueId, entry: EntryId, write: bool) {
        let number = self.arrivals;
        self.arrivals += 1;
        self.change(class, own_queue.at(), |waiting| {
            waiting.0.get_mut(write).push_back((number, entry));
        });
    }

    /// Changes the waiting commands of a queue. The queue has turns while one of them is not held
    /// back.
    fn change(&mut self, class: Class, own_queue: usize, change: impl FnOnce(&mut Waiting)) {
        let Some(of) = self.own_queues.get_mut(own_queue) else { return };
        let had_turns = of.waiting[class].first(self.held.are_held()).is_some();
        change(&mut of.waiting[class]);
        self.settle_turns(class, own_queue, had_turns);
    }

    /// Adds a queue to the turns or removes it, after its commands, or what limits hold back, have
    /// changed.
    fn settle_turns(&mut self, class: Class, own_queue: usize, had_turns: bool) {
        let Some(&OwnQueue { ref waiting, controller, priority, .. }) =
            self.own_queues.get(own_queue)
        else {
            return;
        };
        let has_turns = waiting[class].first(self.held.are_held()).is_some();
        let Some(of) = self.controllers.get_mut(controller) else { return };
        let turns = &mut of.turns[class];
        if has_turns && !had_turns {
            if turns.is_empty() {
                self.ring[class].push_back(controller);
            }
            turns.join(priority, own_queue);
        } else if had_turns && !has_turns {
            turns.leave(priority, own_queue);
            if turns.is_empty() {
                remove(&mut self.ring[class], controller);
            }
        }
    }

    /// Holds back one direction because of a session's limit, or releases it.
    fn set_held(&mut self, write: bool, by: SessionId, is_held: bool) {
        let before = self.held.are_held();
        let of = self.held.get_mut(write);
        (of.by, of.is_held) = (Some(by), is_held);
        if is_held && of.tags.iter().all(|tag| tag.session != by) {
            of.tags.push(LimitTag { session: by, finish: 0 });
        }
        let queues = self.own_queues.iter().flat_map(|(own_queue, of)| {
            of.waiting.iter().map(move |(class, waiting)| (class, own_queue, waiting))
        });
        let queues: Vec<(Class, usize, bool)> = queues
            .filter(|(.., waiting)| !waiting.is_empty())
            .map(|(class, own_queue, waiting)| (class, own_queue, waiting.first(before).is_some()))
            .collect();
        for (class, own_queue, had_turns) in queues {
            self.settle_turns(class, own_queue, had_turns);
        }
    }

    /// Returns whether all waiting commands are held back.
    fn holds_back(&self, class: Class) -> bool {
        (self.held.reads.is_held || self.held.writes.is_held) && self.ring[class].is_empty()
    }

    /// Finds the command that goes next.
    fn first(&self, class: Class) -> Option<EntryId> {
        let turns = &self.controllers.get(*self.ring[class].front()?)?.turns[class];
        let own_queue = *turns.rings[turns.next()?].front()?;
        self.own_queues.get(own_queue)?.waiting[class].first(self.held.are_held())
    }

    /// Charges the turns of the command that goes, which [`Self::first`] has found in this queue.
    fn charge(&mut self, class: Class, own_queue: OwnQueueId) {
        pass_on(&mut self.ring[class]);
        let Some(&OwnQueue { priority, controller, .. }) = self.own_queues.get(own_queue.at())
        else {
            return;
        };
        if let Some(Controller { weights, turns, .. }) = self.controllers.get_mut(controller) {
            turns[class].took(priority, weights);
        }
    }

    /// Withdraws a command from its queue.
    fn withdraw(&mut self, class: Class, own_queue: OwnQueueId, entry: EntryId, write: bool) {
        self.change(class, own_queue.at(), |waiting| {
            take_out(waiting.0.get_mut(write), |(_, other)| *other == entry);
        });
    }

    /// Finds the number of a controller, or makes it.
    fn controller(&mut self, weights: &Arc<QueueWeights>) -> usize {
        let found = self.controllers.iter().find(|(_, of)| Arc::ptr_eq(&of.weights, weights));
        let found = found.map(|(number, _)| number);
        found.unwrap_or_else(|| {
            let (weights, turns) = (Arc::clone(weights), PerClass::default());
            self.controllers.insert(Controller { weights, own_queues: 0, turns })
        })
    }
}

impl OwnOrders {
    #[inline]
    fn order(&self, leaf: NodeId) -> Option<&OwnOrder> {
        self.by_leaf.get(leaf.number() as usize)?.as_deref()
    }

    #[inline]
    fn order_mut(&mut self, leaf: NodeId) -> Option<&mut OwnOrder> {
        self.by_leaf.get_mut(leaf.number() as usize)?.as_deref_mut()
    }

    /// Returns whether a host has an order of its own.
    pub(super) fn has(&self, leaf: NodeId) -> bool {
        self.order(leaf).is_some()
    }

    /// Finds the flow of a host's queue.
    pub(super) fn flow(&self, leaf: NodeId, queue: &WeightedQueue) -> Option<HostFlowIndex> {
        let own = self.order(leaf)?;
        let same = |own_queue: &&OwnQueue| {
            let of = own.controllers.get(own_queue.controller);
            (own_queue.qid, own_queue.priority) == (queue.qid, queue.priority)
                && of.is_some_and(|of| Arc::ptr_eq(&of.weights, &queue.weights))
        };
        own.own_queues
            .iter()
            .map(|(_, own_queue)| own_queue)
            .find(same)
            .map(|own_queue| own_queue.flow)
    }

    /// Adds a queue to a host's order, or begins the order with it; `flow` makes its flow.
    pub(super) fn add(
        &mut self,
        leaf: NodeId,
        queue: &WeightedQueue,
        flow: impl FnOnce(OwnQueueId) -> HostFlowIndex,
    ) -> HostFlowIndex {
        let own = grown(&mut self.by_leaf, leaf.number() as usize, || None);
        own.get_or_insert_with(|| Box::new(OwnOrder::new())).add(queue, flow)
    }

    /// Removes a queue with nothing waiting from a host's order, and the order with the last.
    pub(super) fn remove(&mut self, leaf: NodeId, own_queue: OwnQueueId) {
        let Some(own) = self.by_leaf.get_mut(leaf.number() as usize) else { return };
        if own.as_mut().is_some_and(|own| own.remove(own_queue)) {
            *own = None;
        }
    }

    /// Makes the own order of a host whose reads or writes a limit is to hold back. Returns whether it
    /// had none before: then the caller [appends](Self::append) what waits.
    pub(super) fn split(&mut self, leaf: NodeId) -> bool {
        let begins = !self.has(leaf);
        let own = grown(&mut self.by_leaf, leaf.number() as usize, || None);
        own.get_or_insert_with(|| Box::new(OwnOrder::new())).is_split = true;
        begins
    }

    /// Holds back one direction of a host with an own order because of a session's limit, or
    /// releases it.
    pub(super) fn set_held(&mut self, leaf: NodeId, write: bool, by: SessionId, is_held: bool) {
        if let Some(own) = self.order_mut(leaf) {
            own.set_held(write, by, is_held);
        }
    }

    /// Returns the session whose limit holds back a direction of a host.
    pub(super) fn held_by(&self, leaf: NodeId, write: bool) -> Option<SessionId> {
        let limited = self.order(leaf)?.held.get(write);
        limited.by.filter(|_| limited.is_held)
    }

    /// Returns the session whose limit held back a direction of a host last.
    pub(super) fn limited_by(&self, leaf: NodeId, write: bool) -> Option<SessionId> {
        self.order(leaf)?.held.get(write).by
    }

    /// Lists the limits that have ever held back a direction of a host, with its place in the order of each.
    #[inline]
    pub(super) fn tags_mut(&mut self, leaf: NodeId, write: bool) -> &mut [LimitTag] {
        self.order_mut(leaf).map_or(&mut [], |own| &mut own.held.get_mut(write).tags)
    }

    /// Returns whether all waiting commands of a host with an own order are held back; `None` if it
    /// has no own order.
    #[inline]
    pub(super) fn holds_back(&self, class: Class, leaf: NodeId) -> Option<bool> {
        Some(self.order(leaf)?.holds_back(class))
    }

    /// Forgets a host. Returns the state of the limits on its directions.
    pub(super) fn forget(&mut self, leaf: NodeId) -> Held {
        let own = self.by_leaf.get_mut(leaf.number() as usize).and_then(Option::take);
        own.map(|own| own.held).unwrap_or_default()
    }

    /// Adds a command at the end of its queue, where its host has an own order.
    #[inline]
    pub(super) fn append(
        &mut self,
        class: Class,
        leaf: NodeId,
        own_queue: Option<OwnQueueId>,
        (id, write): (EntryId, bool),
    ) {
        if let Some(own) = self.order_mut(leaf) {
            own.append(class, own_queue.unwrap_or(PLAIN), id, write);
        }
    }

    /// Finds the command of a host that goes next; `None` where the host has no own order.
    #[inline]
    pub(super) fn first(&self, class: Class, leaf: NodeId) -> Option<EntryId> {
        self.order(leaf)?.first(class)
    }

    /// Finds the last command of a queue, where its host has an own order.
    pub(super) fn last(
        &self,
        class: Class,
        leaf: NodeId,
        own_queue: Option<OwnQueueId>,
    ) -> Option<Option<EntryId>> {
        let own = self.order(leaf)?;
        Some(own.own_queues.get(own_queue.unwrap_or(PLAIN).at())?.waiting[class].last())
    }

    /// Takes out the command that [`Self::first`] has found, and charges its turns.
    #[inline]
    pub(super) fn take(
        &mut self,
        class: Class,
        leaf: NodeId,
        own_queue: Option<OwnQueueId>,
        (id, write): (EntryId, bool),
    ) {
        if let Some(own) = self.order_mut(leaf) {
            debug_assert_eq!(own.first(class), Some(id), "the command whose turn it is goes");
            let own_queue = own_queue.unwrap_or(PLAIN);
            own.charge(class, own_queue);
            own.withdraw(class, own_queue, id, write);
        }
    }

    /// Takes out a command whose turn it is not.
    #[inline]
    pub(super) fn withdraw(
        &mut self,
        class: Class,
        leaf: NodeId,
        own_queue: Option<OwnQueueId>,
        (id, write): (EntryId, bool),
    ) {
        if let Some(own) = self.order_mut(leaf) {
            own.withdraw(class, own_queue.unwrap_or(PLAIN), id, write);
        }
    }

    /// Checks that a host's order has the commands that wait in its leaf, each in its queue.
    #[cfg(test)]
    pub(super) fn check(
        &self,
        class: Class,
        leaf: NodeId,
        waiting: impl Iterator<Item = (EntryId, Option<OwnQueueId>)>,
    ) {
        let own = self.order(leaf).unwrap();
        let mut own_queues: Vec<_> =
            own.own_queues.iter().map(|(own_queue, _)| (own_queue, VecDeque::new())).collect();
        for (entry, of) in waiting {
            let of = of.unwrap_or(PLAIN).at();
            let (_, own_queue) =
                own_queues.iter_mut().find(|(own_queue, _)| *own_queue == of).unwrap();
            own_queue.push_back(entry);
        }
        for (own_queue, waiting) in own_queues {
            let lines = &own.own_queues[own_queue].waiting[class].0;
            let mut numbered: Vec<Numbered> =
                lines.reads.iter().chain(&lines.writes).copied().collect();
            numbered.sort_by_key(|(number, _)| *number);
            assert!(numbered.into_iter().map(|(_, id)| id).eq(waiting));
        }
        assert_eq!(own.first(class).is_some(), !own.ring[class].is_empty());
    }

    /// Lists the directions that are held back: the host's leaf, whether the direction is writes,
    /// and the session whose limit holds it.
    #[cfg(test)]
    pub(super) fn held(&self) -> Vec<(NodeId, bool, SessionId)> {
        let leaves = (0..).map(|number| NodeId::from_index(Index::nth(number))).zip(&self.by_leaf);
        let orders = leaves.filter_map(|(leaf, own)| Some((leaf, &own.as_ref()?.held)));
        let both = orders
            .flat_map(|(leaf, held)| [(leaf, false, &held.reads), (leaf, true, &held.writes)]);
        both.filter(|(.., of)| of.is_held)
            .filter_map(|(leaf, write, of)| Some((leaf, write, of.by?)))
            .collect()
    }

    /// Counts the hosts that have orders of their own because of weights.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_leaf.iter().flatten().filter(|own| own.own_queues.len() > 1).count()
    }
}
