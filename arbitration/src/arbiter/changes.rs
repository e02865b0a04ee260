//! Changes while commands are under way: which sessions and devices to look at again, in steps of
//! bounded work.

use std::collections::VecDeque;
use std::sync::Arc;

use units::{Class, Nanos};

use super::places::Dropped;
use super::{Arbiter, DeviceId, EntryId};
use crate::order::NONE;
use crate::session::Session;

/// The changes that the arbiter has not carried out yet.
#[derive(Debug, Default)]
pub(super) struct Changes {
    waiting: VecDeque<Change>,
    now: Walk,
}

/// A change that somebody made outside.
#[derive(Debug)]
enum Change {
    /// A session and those below it.
    Session(Arc<Session>),
    /// A device's reservations.
    Device(u32),
}

/// The change that the arbiter carries out now, and how far it has come.
#[derive(Debug, Default)]
enum Walk {
    #[default]
    Nothing,
    /// Through the sessions below `top`, each before those below it.
    Sessions { top: u32, at: u32, begun: bool, flow: u32, blocked_at: Vec<u32> },
    /// Through the flows at a device.
    Device { flow: u32 },
}

impl<T: Copy> Arbiter<T> {
    /// The limits or credits of a session, or of one above it, are others than before.
    pub fn touch_session(&mut self, session: &Arc<Session>) {
        self.changes.waiting.push_back(Change::Session(Arc::clone(session)));
    }

    /// Other reservations are in force at a device.
    pub fn touch_device(&mut self, device: DeviceId) {
        self.changes.waiting.push_back(Change::Device(device.0));
    }

    /// Carries changes out in `steps` steps at most: each looks at one session, flow or device.
    /// Answers whether there is more to do. What no step has come to yet stays as it was.
    pub fn settle(&mut self, now: Nanos, steps: usize) -> bool {
        for _ in 0..steps {
            if !self.step(now) {
                return false;
            }
        }
        self.is_changing()
    }

    /// Whether there are changes to carry out.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        !self.changes.waiting.is_empty() || !matches!(self.changes.now, Walk::Nothing)
    }

    /// The session that a change has come to.
    #[cfg(test)]
    pub(super) fn looking_at(&self) -> Option<u32> {
        match self.changes.now {
            Walk::Sessions { at, .. } => Some(at),
            _ => None,
        }
    }

    fn step(&mut self, now: Nanos) -> bool {
        match std::mem::take(&mut self.changes.now) {
            Walk::Nothing => match self.changes.waiting.pop_front() {
                None => return false,
                Some(Change::Session(session)) => self.begin_session(&session),
                Some(Change::Device(device)) => self.begin_device(now, device),
            },
            Walk::Device { flow } => {
                if flow != NONE {
                    self.classify_flow(flow);
                    let next = self.flows.get(flow).map_or(NONE, |flow| flow.at_device.next);
                    self.changes.now = Walk::Device { flow: next };
                }
            }
            Walk::Sessions { top, at, begun: false, .. } => {
                self.visit();
                self.derive(at);
                let kin = self.kin.get_mut(at as usize);
                let (flow, blocked_at) = kin.map_or((NONE, Vec::new()), |kin| {
                    (kin.flows, std::mem::take(&mut kin.blocked_at))
                });
                self.changes.now = Walk::Sessions { top, at, begun: true, flow, blocked_at };
            }
            Walk::Sessions { top, at, flow, mut blocked_at, .. } => {
                if flow != NONE {
                    self.classify_flow(flow);
                    let flow = self.flows.get(flow).map_or(NONE, |flow| flow.of_session.next);
                    self.changes.now = Walk::Sessions { top, at, begun: true, flow, blocked_at };
                } else if let Some(device) = blocked_at.pop() {
                    if let Some(queue) = self.queue_mut(device) {
                        queue.forget_note(at);
                        queue.unblock(now, at);
                    }
                    self.changes.now = Walk::Sessions { top, at, begun: true, flow, blocked_at };
                } else if let Some(at) = self.after(top, at, true) {
                    self.changes.now = begin(top, at);
                }
            }
        }
        true
    }

    fn begin_session(&mut self, session: &Arc<Session>) {
        let place = session.id().0;
        let here = self.local(place).and_then(|local| local.session.as_ref());
        if here.is_some_and(|here| Arc::ptr_eq(here, session)) {
            self.changes.now = begin(place, place);
        }
    }

    fn begin_device(&mut self, now: Nanos, device: u32) {
        self.visit();
        let Some(queue) = self.queue_mut(device) else { return };
        queue.adopt_reservations(now);
        self.changes.now = Walk::Device { flow: queue.flows };
    }

    /// The session after `at` on the way through those below `top`; `below`: those below `at`
    /// come first.
    fn after(&self, top: u32, mut at: u32, below: bool) -> Option<u32> {
        let kin = |at: u32| self.kin.get(at as usize);
        if below && let Some(child) = kin(at).map(|kin| kin.child).filter(|c| *c != NONE) {
            return Some(child);
        }
        while at != top {
            let here = kin(at)?;
            if here.next != NONE {
                return Some(here.next);
            }
            at = here.parent;
        }
        None
    }

    /// A session goes: the way through the sessions goes on behind it.
    pub(super) fn step_over_session(&mut self, session: u32) {
        if let Walk::Sessions { top, at, .. } = &self.changes.now
            && *at == session
        {
            let top = *top;
            self.changes.now =
                self.after(top, session, false).map_or(Walk::Nothing, |at| begin(top, at));
        }
    }

    /// A flow goes: the way through the flows goes on behind it.
    pub(super) fn step_over_flow(&mut self, id: u32) {
        let Some(gone) = self.flows.get(id) else { return };
        match &mut self.changes.now {
            Walk::Device { flow } if *flow == id => *flow = gone.at_device.next,
            Walk::Sessions { flow, .. } if *flow == id => *flow = gone.of_session.next,
            _ => {}
        }
    }

    /// Takes a device away in `steps` steps at most: each takes back one command that waits there,
    /// into `back`, or one flow. Nothing new comes there from now on. Answers whether the device is
    /// gone, which it is once the commands that were dispatched have completed.
    pub fn retire_device(&mut self, id: DeviceId, steps: usize, back: &mut Vec<T>) -> bool {
        for _ in 0..steps {
            let Some(queue) = self.queue_mut(id.0) else { return true };
            queue.leaving = true;
            if let Some(entry) = queue.chosen.as_ref().and_then(super::chosen::Chosen::any) {
                back.extend(self.cancel(EntryId(entry)));
                continue;
            }
            let id_of_flow = queue.flows;
            let Some(flow) = self.flows.get(id_of_flow).copied() else { break };
            let Some(queue) = self.queue(id.0) else { return true };
            let heads = Class::ALL.map(|class| queue.order.trees[class].queue(flow.node).0);
            match heads.into_iter().find(|head| *head != NONE) {
                Some(entry) => {
                    // Its last command may take the flow along.
                    back.extend(self.cancel(EntryId(entry)));
                }
                None => self.remove_flow(id_of_flow),
            }
        }
        let over = |queue: &super::DeviceQueue| queue.flows == NONE && queue.granted == 0;
        let Some(place) = self.devices.get_mut(id.0 as usize) else { return true };
        if place.as_ref().is_some_and(|queue| !over(queue)) {
            return false;
        }
        *place = None;
        true
    }

    /// Whether [`Self::retire_device`] has more to take back: if not, only commands that were
    /// dispatched keep the device.
    #[must_use]
    pub fn is_retiring(&self, id: DeviceId) -> bool {
        self.queue(id.0).is_some_and(|queue| queue.leaving && queue.flows != NONE)
    }

    /// Forgets what places that were given up had elsewhere.
    pub(super) fn forget_dropped(&mut self, device: u32) {
        while let Some(queue) = self.queue_mut(device)
            && let Some(Dropped { session, noted, timed }) = queue.dropped.pop()
        {
            if noted && let Some(kin) = self.kin.get_mut(session as usize) {
                let at = kin.blocked_at.iter().position(|other| *other == device);
                if let Some(at) = at {
                    kin.blocked_at.swap_remove(at);
                }
            }
            if timed {
                self.idle_timers += 1;
            }
        }
        self.sift_timers();
    }

    /// Takes the timers out that run for nobody, once they are the most.
    pub(super) fn sift_timers(&mut self) {
        const FEW: usize = 64;
        if self.idle_timers < FEW || self.idle_timers * 2 < self.timers.len() {
            return;
        }
        let Self { timers, devices, .. } = self;
        timers.retain(|std::cmp::Reverse((when, device, session))| {
            let queue = devices.get(*device as usize).and_then(Option::as_ref);
            queue.is_some_and(|queue| queue.has_timer(*session, *when))
        });
        self.idle_timers = 0;
    }
}

fn begin(top: u32, at: u32) -> Walk {
    Walk::Sessions { top, at, begun: false, flow: NONE, blocked_at: Vec::new() }
}
