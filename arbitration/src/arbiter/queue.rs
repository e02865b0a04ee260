//! What waits at one device, in one reactor.

use crate::sync::{AtomicU64, Ordering::Relaxed};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use units::{Class, Nanos, PerClass};

use crate::container::{DiskSet, SetRequest};
use crate::device::{ContainerRules, Device};
use crate::order::{Burst, Hierarchy, NONE, Pace, ROOT, bit};
use crate::session::Reservation;

use super::places::{Claim, Dropped, Standing, UNKNOWN};

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

/// The queue of one device.
#[derive(Debug)]
pub(super) struct DeviceQueue {
    pub(super) reactor: u32,
    pub(super) device: Arc<Device>,
    /// The sessions that have flows here, those above them, and their hosts.
    pub(super) order: Hierarchy<Standing>,
    pub(super) waiting: PerClass<u32>,
    /// Of all classes together.
    total: u32,
    /// Classes of which something may go on, one [`bit`] each: the device's clock counts them as
    /// waiting here.
    working: u8,
    /// The first of the flows that are here.
    pub(super) flows: u32,
    /// It is among the devices at which something may wait.
    pub(super) listed: bool,
    /// It is gone: nothing new comes.
    pub(super) leaving: bool,
    burst: Burst,
    /// The reservations in force.
    pub(super) terms: Arc<[Reservation]>,
    /// Sessions that may be due: by deadline.
    pub(super) due: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// Sessions whose budgets are used up: by the begin of their next period.
    pub(super) resting: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// Sessions that are held up by a limit.
    pub(super) parked: Vec<u32>,
    /// What places that were given up had elsewhere.
    pub(super) dropped: Vec<Dropped>,
    /// Commands that are ordered by place and deadline.
    pub(super) chosen: Option<Chosen>,
    pub(super) samples: Samples,
    /// Reactors that have something to do again, one bit each; common to all devices.
    woken: Arc<AtomicU64>,
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
        self.entries.get_mut(id as usize).map(|entry| std::mem::replace(entry, NONE))
    }

    /// Any entry in it.
    pub(super) fn any(&self) -> Option<u32> {
        self.entries.iter().copied().find(|entry| *entry != NONE)
    }

    pub(super) fn remove(&mut self, id: u32) {
        if self.set.remove(id) {
            self.free.push(id);
            if let Some(entry) = self.entries.get_mut(id as usize) {
                *entry = NONE;
            }
        }
    }
}

impl DeviceQueue {
    pub(super) fn new(reactor: u32, device: Arc<Device>, woken: Arc<AtomicU64>) -> Self {
        let chosen = device.rules.containers.as_ref().map(Chosen::new);
        let mut queue = Self {
            reactor,
            device,
            order: Hierarchy::new(UNKNOWN),
            waiting: PerClass::default(),
            total: 0,
            working: 0,
            flows: NONE,
            listed: false,
            leaving: false,
            burst: Burst::default(),
            terms: Arc::default(),
            due: BinaryHeap::new(),
            resting: BinaryHeap::new(),
            parked: Vec::new(),
            dropped: Vec::new(),
            chosen,
            samples: Samples::default(),
            woken,
            granted: 0,
        };
        queue.adopt_reservations(Nanos::ZERO);
        queue
    }

    /// Whether anything waits.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        self.total != 0
    }

    /// Whether commands are ordered by place before they go.
    #[inline]
    pub(super) fn is_ordered(&self) -> bool {
        self.chosen.is_some()
    }

    /// A command of a session with a reservation has come.
    pub(super) fn note_demand(&mut self, now: Nanos, session: u32) {
        let Some(session) = self.covering(session) else { return };
        if let Some(reserved) = self.reservation(session) {
            reserved.note_demand(now);
        }
        if self.standing(session).claim == Claim::Idle {
            self.set_claim(session, Claim::Due);
            self.due.push(Reverse((now, session)));
        }
    }

    /// The session whose reservation is due, the one with the earliest deadline first
    /// (docs/sources.md, F3: reservations are kept), and the class of the first command it has
    /// here.
    fn next_due(&mut self, now: Nanos) -> Option<(u32, Class)> {
        while let Some(&Reverse((when, session))) = self.resting.peek() {
            if when > now {
                break;
            }
            self.resting.pop();
            if self.standing(session).claim != Claim::Resting {
                continue;
            }
            self.set_claim(session, Claim::Due);
            self.due.push(Reverse((now, session)));
        }
        while let Some(&Reverse((key, session))) = self.due.peek() {
            if self.standing(session).claim != Claim::Due {
                // It is gone, or was moved.
                self.due.pop();
                continue;
            }
            let (top, blocked) = (self.place(session).top(), self.place(session).is_blocked());
            let class = Class::ALL.into_iter().find(|c| self.order.has_work(*c, top));
            let Some(class) = class else {
                self.due.pop();
                if blocked {
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
        let waits = Class::ALL.into_iter().any(|c| self.order.has_work(c, top));
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
        let class = self.burst.pick(&self.device.clock, pace, has)?;
        self.turn_of(class, ROOT, Right::Weight, pace)
    }

    #[inline]
    fn turn_of(&mut self, class: Class, upto: u32, right: Right, pace: &Pace) -> Option<Next> {
        let leaf = self.order.trees[class].select(upto, pace.quantum)?;
        Some(Next { class, leaf, upto, right })
    }

    /// The command whose turn it was has been taken.
    #[inline]
    pub(super) fn charge(&mut self, pace: &Pace, next: &Next, bytes: u32) {
        let cost = pace.cost(bytes);
        let hosts = self.order.trees[next.class].leaves();
        self.order.trees[next.class].charge(next.leaf, next.upto, cost);
        if next.right != Right::Reserved && !self.device.turns.is_alone() {
            self.device.turns.charge(next.class, self.reactor, cost, hosts);
        }
        match next.right {
            Right::Urgent => self.device.clock.charge_urgent(cost),
            Right::Reserved => {}
            Right::Weight => {
                self.burst.took();
                self.device.clock.charge(pace, next.class, cost);
            }
        }
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
        let works = self.order.trees[class].has_work();
        if works != (self.working & bit != 0) {
            self.working ^= bit;
            if works {
                self.device.clock.begins(class);
                self.device.turns.begins(class, self.reactor);
            } else {
                self.device.clock.ends(class);
                self.device.turns.ends(class, self.reactor);
                // What waited for this class to catch up may go on, and nothing else may tell.
                let woken = self.device.wake();
                if !woken.is_empty() {
                    self.woken.fetch_or(woken.bits(), Relaxed);
                }
            }
        }
    }

    /// Sets the ends of a host's queue, out of which a command was taken.
    #[inline]
    pub(super) fn set_leaf(&mut self, class: Class, leaf: u32, head: u32, tail: u32) {
        let tree = &mut self.order.trees[class];
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
