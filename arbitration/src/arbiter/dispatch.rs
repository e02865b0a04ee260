//! Whose turn it is, and whether limits, credits and the window let the command go.

use std::cmp::Reverse;

use units::Nanos;

use super::grant::{Holds, Work};
use super::queue::{Next, Right};
use super::{Arbiter, Charged, DeviceId, Dispatched, Entry, FlowId};
use crate::credit::Cost;
use crate::device::Device;
use crate::order::NONE;
use crate::reactors::Reactors;
use crate::reservation::Charge;
use crate::window::SLOT;

/// What became of the command whose turn it was.
enum Tried<T> {
    Dispatched(Dispatched<T>),
    /// Something was moved out of the way: look again.
    Again,
    /// The window has no room for it.
    Full,
}

/// What keeps a session's commands where they are.
pub(super) enum Gate {
    /// Its rate, until then.
    Until(u32, Nanos),
    /// It has not the credits for this.
    Credits(u32, Cost),
}

/// Takes room for a command. A large one goes in where there is any room at all: it would wait for
/// ever for all of it while other reactors fill what comes free with small ones (docs/sources.md,
/// D4: no host drowns the others).
#[inline]
fn room(device: &Device, price: u32) -> bool {
    if price <= SLOT {
        return device.window.take(price);
    }
    let room = device.window.has_room();
    if room {
        device.window.put_in(price);
    }
    room
}

/// The command whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) id: u32,
    pub(super) flow: u32,
    pub(super) work: Work,
    pub(super) mark: bool,
    /// Nothing is to be asked of its session.
    pub(super) free: bool,
}

impl<T: Copy> Arbiter<T> {
    /// Takes the next command that may go to a device now.
    #[inline]
    pub(super) fn dispatch(&mut self, now: Nanos, device: DeviceId) -> Option<Dispatched<T>> {
        loop {
            let Self { devices, pace, .. } = self;
            let queue = devices.get_mut(device.0 as usize)?.as_mut()?;
            if !queue.waits() {
                return None;
            }
            if queue.chosen.is_some() {
                self.choose(now, device.0);
                return self.dispatch_chosen(now, device.0);
            }
            if !queue.device.window.has_room() {
                return None;
            }
            let next = queue.next(now, pace)?;
            if !queue.has_reservations()
                && let Some(tried) = self.try_free(now, device.0, &next)
            {
                return tried;
            }
            match self.try_next(now, device.0, &next) {
                Tried::Dispatched(command) => return Some(command),
                Tried::Again => {}
                Tried::Full => return None,
            }
        }
    }

    /// The short way, of a command that needs nothing but room in the window: none where it is
    /// not such a one, else what there is to dispatch.
    #[inline(always)]
    fn try_free(&mut self, now: Nanos, device: u32, next: &Next) -> Option<Option<Dispatched<T>>> {
        let Self { devices, flows, entries, sessions, pace, reactor, waiting, .. } = self;
        let queue = devices.get_mut(device as usize)?.as_mut()?;
        let (id, tail) = queue.order.trees[next.class].queue(next.leaf);
        let entry = entries.get(id)?;
        let (item, flow_id) = (entry.item?, entry.flow);
        let Entry { next: second, bytes, operations, class, write, entered, .. } = *entry;
        let flow = flows.get_mut(flow_id)?;
        let local = sessions.get(flow.session as usize).filter(|local| local.free)?;
        let price = queue.device.window.price(write, bytes);
        if !room(&queue.device, price) {
            return Some(None);
        }
        entries.remove(id);
        queue.charge(pace, next, bytes);
        queue.set_leaf(class, next.leaf, second, if second == NONE { NONE } else { tail });
        queue.uncount(*reactor, class);
        flow.waiting = flow.waiting.saturating_sub(1);
        *waiting = waiting.saturating_sub(1);
        let waited_ns = now.ns_since(entered);
        if let Some(session) = &local.session {
            session.backlog.left(now, waited_ns);
        }
        let (session, unused) = (flow.session, flow.references == 0);
        let holds = Holds { price, set: NONE, charged: None };
        let work = Work { session, write, bytes, operations };
        let grant = queue.grant(now, device, &work, holds);
        // The command holds its session from here on as it did while it waited.
        if unused {
            self.forget_flow(flow_id);
        }
        Some(Some(Dispatched { item, device: DeviceId(device), class, waited_ns, grant }))
    }

    #[inline]
    fn try_next(&mut self, now: Nanos, device: u32, next: &Next) -> Tried<T> {
        let Some(head) = self.head_of(device, next) else { return Tried::Full };
        let Some(queue) = self.queue(device) else { return Tried::Full };
        let price = queue.device.window.price(head.work.write, head.work.bytes);
        let mut set = NONE;
        if !head.free {
            match self.open(now, &head) {
                Ok(taken) => set = taken,
                Err(gate) => {
                    self.block_at(now, device, next, &gate);
                    return Tried::Again;
                }
            }
        }
        let Some(queue) = self.queue(device) else { return Tried::Full };
        if !room(&queue.device, price) {
            self.give_credits(set, head.work.cost());
            return Tried::Full;
        }
        let charge = if head.free && !queue.has_reservations() {
            None
        } else {
            self.charge(now, device, &head)
        };
        self.leave(now, device, next, &head);
        self.granted(now, device, &head, (price, set, charge))
            .map_or(Tried::Again, Tried::Dispatched)
    }

    /// The first command of the host whose turn it is.
    #[inline]
    pub(super) fn head_of(&self, device: u32, next: &Next) -> Option<Head> {
        let (id, _) = self.queue(device)?.order.trees[next.class].queue(next.leaf);
        let entry = self.entries.get(id)?;
        let session = self.flows.get(entry.flow)?.session;
        let &Entry { write, bytes, operations, .. } = entry;
        Some(Head {
            id,
            flow: entry.flow,
            work: Work { session, write, bytes, operations },
            mark: entry.item.is_none(),
            free: self.local(session).is_none_or(|local| local.free),
        })
    }

    /// The turn is taken: its command leaves its flow's queue.
    #[inline]
    pub(super) fn leave(&mut self, now: Nanos, device: u32, next: &Next, head: &Head) {
        let Self { devices, entries, flows, pace, reactor, .. } = self;
        let Some(Some(queue)) = devices.get_mut(device as usize) else { return };
        queue.charge(pace, next, head.work.bytes);
        let second = entries.get(head.id).map_or(NONE, |entry| entry.next);
        let (_, tail) = queue.order.trees[next.class].queue(next.leaf);
        let tail = if second == NONE { NONE } else { tail };
        queue.set_leaf(next.class, next.leaf, second, tail);
        if !queue.is_ordered() || head.mark {
            queue.uncount(*reactor, next.class);
            if let Some(flow) = flows.get_mut(head.flow) {
                flow.waiting = flow.waiting.saturating_sub(1);
            }
            if queue.has_reservations() {
                queue.note_gone(now, head.work.session);
            }
        }
    }

    /// Whether limits and credits let a session's command go on; takes the credits.
    #[inline]
    pub(super) fn open(&mut self, now: Nanos, head: &Head) -> Result<u32, Gate> {
        let Some(local) = self.local(head.work.session) else { return Ok(NONE) };
        for limited in &local.limits {
            let passes = limited.iops.check(now).and_then(|()| limited.bandwidth.check(now));
            if let Err(when) = passes {
                return Err(Gate::Until(limited.id().0, when));
            }
        }
        let set = local.set;
        if set == NONE {
            return Ok(NONE);
        }
        let chain = self.chain(set);
        let cost = head.work.cost();
        for (taken, capped) in chain.iter().enumerate() {
            if !capped.credits.take(cost) {
                let mut wake = Reactors::NONE;
                for earlier in chain.iter().take(taken) {
                    // Others may have been turned away meanwhile.
                    wake |= self.waiters.give(earlier, cost);
                }
                let session = capped.id().0;
                self.wake |= wake;
                return Err(Gate::Credits(session, cost));
            }
        }
        // It stays, whatever plan comes, until they are given back.
        if let Some(Some(entry)) = self.sets.get_mut(set as usize) {
            entry.held += 1;
        }
        Ok(set)
    }

    /// Blocks a session until what keeps it back has gone.
    pub(super) fn block_at(&mut self, now: Nanos, device: u32, next: &Next, gate: &Gate) {
        if next.right == Right::Reserved
            && let Some(queue) = self.queue_mut(device)
        {
            queue.block_due();
        }
        match *gate {
            Gate::Until(session, when) => {
                self.block(device, session);
                // A moment that has passed already would not be waited for.
                let when = when.max(now.after(1));
                let timer = self.queue_mut(device).map(|queue| queue.set_timer(session, when));
                let (started, in_vain) = timer.unwrap_or_default();
                if started {
                    self.timers.push(Reverse((when, device, session)));
                }
                if in_vain {
                    self.idle_timers += 1;
                    self.sift_timers();
                }
            }
            Gate::Credits(session, cost) => {
                self.block(device, session);
                let reactor = self.reactor;
                if let Some(shared) = self.local(session).and_then(|local| local.session.as_ref()) {
                    self.waiters.wait(reactor, shared, cost);
                }
            }
        }
    }

    /// Charges limits and the reservation for a command that goes.
    pub(super) fn charge(&mut self, now: Nanos, device: u32, head: &Head) -> Option<Charge> {
        let local = self.local(head.work.session)?;
        for limited in &local.limits {
            limited.iops.charge(now, 1);
            limited.bandwidth.charge(now, u64::from(head.work.bytes));
        }
        let queue = self.queue(device)?;
        let reserved = queue.reservation(queue.covering(head.work.session)?)?;
        if !reserved.has_budget(now) {
            return None;
        }
        Some(reserved.charge(now, head.work.write, head.work.bytes))
    }

    /// A command goes to its device, and its entry away.
    #[inline]
    pub(super) fn granted(
        &mut self,
        now: Nanos,
        device: u32,
        head: &Head,
        (price, set, charge): (u32, u32, Option<Charge>),
    ) -> Option<Dispatched<T>> {
        let Head { id, flow, work, .. } = *head;
        let entry = self.entries.remove(id)?;
        // Marks alone have none, and they are taken out before.
        let item = entry.item?;
        self.waiting = self.waiting.saturating_sub(1);
        let waited_ns = now.ns_since(entry.entered);
        let of = FlowId(self.flows.key(flow));
        let charged = charge.map(|charge| Charged { charge, flow: of });
        let grant =
            self.queue_mut(device)?.grant(now, device, &work, Holds { price, set, charged });
        if let Some(session) = self.local(work.session).and_then(|l| l.session.as_ref()) {
            session.backlog.left(now, waited_ns);
        }
        if charged.is_some()
            && let Some(flow) = self.flows.get_mut(flow)
        {
            // The place that its reservation is found by stays until it is settled.
            flow.charged += 1;
        }
        if self.flows.get(flow).is_some_and(|flow| flow.references == 0) {
            self.forget_flow(flow);
        }
        let class = entry.class;
        Some(Dispatched { item, device: DeviceId(device), class, waited_ns, grant })
    }
}
