//! What waits at one device, in one reactor.

use crate::sync::{AtomicU64, Ordering::Relaxed};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use units::{Class, Nanos, PerClass};

use crate::device::Device;
use crate::order::{Burst, Hierarchy, NONE, Pace, ROOT, bit};
use crate::session::Reservation;

use super::chosen::Chosen;
use super::places::{Dropped, Standing, UNKNOWN};
use super::samples::Samples;

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

/// Why this command goes first.
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
    /// Sessions whose budgets are used up: by the beginning of their next period.
    pub(super) throttled: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// Sessions that may be due and are blocked by a limit.
    pub(super) blocked: Vec<u32>,
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
            throttled: BinaryHeap::new(),
            blocked: Vec::new(),
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

    /// Whose turn it is; `None` where nothing may go on here.
    #[inline]
    pub(super) fn next(&mut self, now: Nanos, pace: &Pace) -> Option<Next> {
        // What other reactors are to have first does not count.
        let mut has = self.working;
        if !self.device.fairness.is_alone() {
            for class in Class::ALL {
                if has & bit(class) != 0 && !self.device.fairness.may(class, self.reactor) {
                    has &= !bit(class);
                }
            }
        }
        let urgent = has & bit(Class::Urgent) != 0;
        if urgent && self.device.clock.urgent_is_first() {
            return self.turn_of(Class::Urgent, ROOT, Right::Urgent, pace);
        }
        if self.has_due()
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
        if next.right != Right::Reserved && !self.device.fairness.is_alone() {
            self.device.fairness.charge(next.class, self.reactor, cost, hosts);
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
                self.device.fairness.begins(class, self.reactor);
            } else {
                self.device.clock.ends(class);
                self.device.fairness.ends(class, self.reactor);
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
                self.device.fairness.ends(class, self.reactor);
            }
        }
    }
}
