//! The choice of the next command, and the check that limits, credits and the window let it go.

use std::sync::Arc;

use units::{Class, Nanos};

use super::Arbiter;
use super::device_sessions::SetTimer;
use super::entries::Entry;
use super::grant::{Charged, Holds, Work};
use super::ids::{CreditSetId, DeviceId, EntryId, HostFlowIndex};
use super::queue::{Next, Place, Precedence};
use super::submission::Dispatched;
use super::timers::Timer;
use crate::credit::Cost;
use crate::device::Device;
use crate::limit::{BlockReason, Waiter};
use crate::order::{CommandKind, Ends};
use crate::reservation::Charge;
use crate::session::SessionId;
use crate::window::SLOT;

/// The outcome of trying the next command.
enum Tried<T> {
    Dispatched(Dispatched<T>),
    /// The command's session was blocked: another command may go.
    Blocked,
    /// The window has no room for the command.
    Full,
}

/// The reason why a session's commands are blocked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Blocker {
    /// The rate of this session, until this time.
    Rate(SessionId, Nanos),
    /// The rate of this session's reads, or (`true`) of its writes, until this time. Commands in the
    /// other direction may pass.
    Direction(SessionId, Nanos, bool),
    /// This session has too few credits for this cost.
    Credits(SessionId, Cost),
}

/// Takes room for a command. A large command enters if there is any room at all. Otherwise it would
/// starve while other reactors fill each freed slot with small commands (docs/research/sources.md, D4: no
/// host drowns the others).
#[inline]
fn take_room(device: &Device, price: u32) -> bool {
    if price <= SLOT {
        return device.window.take(price);
    }
    let room = device.window.has_room();
    if room {
        device.window.put_in(price);
    }
    room
}

/// The command of the host that goes next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) id: EntryId,
    pub(super) flow: HostFlowIndex,
    pub(super) class: Class,
    pub(super) work: Work,
    /// Whether the command is an output mark.
    pub(super) mark: bool,
    /// Whether neither limits nor credits concern the command's session.
    pub(super) free: bool,
    /// Whether a reservation is due to the command.
    pub(super) is_due: bool,
}

impl<T: Copy> Arbiter<T> {
    /// Takes the next command that may go to a device now.
    #[inline]
    pub(super) fn dispatch(&mut self, now: Nanos, device: DeviceId) -> Option<Dispatched<T>> {
        loop {
            let Self { devices, pace, .. } = self;
            let queue = devices.kept_mut(device)?;
            if !queue.waits() {
                return None;
            }
            queue.follow_order();
            if queue.is_ordered() {
                self.fill_elevator(now, device);
                return self.dispatch_from_elevator(now, device);
            }
            if !queue.has_room(now) {
                queue.note_full(now);
                return None;
            }
            let Some(mut next) = queue.next(now, pace) else {
                queue.note_stop();
                return None;
            };
            if queue.is_bounded() {
                next = self.joining(now, device, next)?;
            }
            let queue = self.devices.kept(device)?;
            if !queue.sessions.has_reservations()
                && let Some(tried) = self.try_free(now, device, &next)
            {
                if tried.is_none() {
                    self.devices.kept_mut(device)?.note_stop();
                }
                return tried;
            }
            match self.try_next(now, device, &next)? {
                Tried::Dispatched(command) => return Some(command),
                Tried::Blocked => {}
                Tried::Full => {
                    let queue = self.devices.kept_mut(device)?;
                    queue.note_full(now);
                    queue.note_stop();
                    return None;
                }
            }
        }
    }

    /// Dispatches the next command if it needs nothing but room in the window. `None` where it
    /// needs more; `Some(None)` where there is no room.
    #[inline(always)]
    fn try_free(
        &mut self,
        now: Nanos,
        device: DeviceId,
        next: &Next,
    ) -> Option<Option<Dispatched<T>>> {
        let Self { devices, flows, entries, sessions, pace, .. } = self;
        let queue = devices.kept_mut(device)?;
        let (first, ends) = queue.first_of(next)?;
        let entry = entries.at(first);
        let Entry { flow: flow_id, bytes, operations, class, entered, .. } = *entry;
        let Entry { write, content, .. } = *entry;
        let item = entry.item?;
        let flow = flows.at_mut(flow_id);
        let local = sessions.kept(flow.session).filter(|local| local.free)?;
        let price = queue.device.window.price(write, bytes);
        if !take_room(&queue.device, price) {
            return Some(None);
        }
        let rest = entries.without(ends, first);
        entries.remove(first);
        queue.charge(now, pace, next, CommandKind { write, bytes, has_data: content.has_data() });
        let place = Place { class, leaf: next.leaf, own_queue: flow.own_queue };
        queue.take(place, (first, write), rest);
        queue.uncount(class);
        flow.uncount();
        if let Some(waits) = &mut queue.waits {
            waits.count(flow_id, class, next.precedence == Precedence::Reserved);
        }
        local.session.backlog.left(now, now.ns_since(entered));
        let (session, unused) = (flow.session, flow.references == 0);
        let work = Work { session, write, bytes, content, operations };
        let grant = queue.grant(now, device, work, Holds { price, set: None, charged: None });
        self.uncount();
        // The command keeps its session from here on as it did while it waited.
        if unused {
            self.forget_flow(flow_id);
        }
        Some(Some(Dispatched { item, device, class, grant }))
    }

    /// Tries the next command against limits, credits and reservations.
    #[inline(never)]
    fn try_next(&mut self, now: Nanos, device: DeviceId, next: &Next) -> Option<Tried<T>> {
        let (head, ends) = self.head_of(device, next)?;
        let set = match self.admit(now, device, &head) {
            Ok(set) => set,
            Err(Blocker::Direction(session, when, _)) => {
                self.hold_at(now, device, next, (session, when, head.work.write));
                return Some(Tried::Blocked);
            }
            Err(blocker) => {
                self.block_at(now, device, next, blocker);
                return Some(Tried::Blocked);
            }
        };
        let queue = self.devices.kept(device)?;
        let price = queue.device.window.price(head.work.write, head.work.bytes);
        if !take_room(&queue.device, price) {
            if let Some(set) = set {
                self.give_credits(set, head.work.cost());
            }
            return Some(Tried::Full);
        }
        let charge = self.charge(now, device, &head);
        self.dequeue(now, device, next, &head, ends);
        self.release_behind(now, device, next, head.work.write);
        let command = self.send(now, device, &head, (price, set, charge));
        debug_assert!(command.is_some(), "output marks wait at devices with an elevator only");
        Some(command.map_or(Tried::Blocked, Tried::Dispatched))
    }

    /// Finds the command of the host that goes next, and the host's queue.
    #[inline]
    pub(super) fn head_of(&self, device: DeviceId, next: &Next) -> Option<(Head, Ends<EntryId>)> {
        let (first, ends) = self.devices.kept(device)?.first_of(next)?;
        let entry = self.entries.at(first);
        let session = self.flows.at(entry.flow).session;
        let &Entry { write, bytes, content, operations, flow, class, .. } = entry;
        let head = Head {
            id: first,
            flow,
            class,
            work: Work { session, write, bytes, content, operations },
            mark: entry.item.is_none(),
            free: self.sessions.kept(session).is_none_or(|local| local.free),
            is_due: next.precedence == Precedence::Reserved,
        };
        Some((head, ends))
    }

    /// Takes the next command out of its flow's queue, and charges its turns.
    #[inline]
    pub(super) fn dequeue(
        &mut self,
        now: Nanos,
        device: DeviceId,
        next: &Next,
        head: &Head,
        ends: Ends<EntryId>,
    ) {
        let Self { devices, entries, flows, pace, .. } = self;
        let Some(queue) = devices.kept_mut(device) else { return };
        queue.charge(now, pace, next, head.work.kind());
        let own_queue = flows.at(head.flow).own_queue;
        let place = Place { class: next.class, leaf: next.leaf, own_queue };
        queue.take(place, (head.id, head.work.write), entries.without(ends, head.id));
        // A command that enters the elevator waits there.
        if !queue.is_ordered() || head.mark {
            queue.uncount(next.class);
            flows.at_mut(head.flow).uncount();
        }
        if queue.sessions.has_reservations() {
            queue.note_gone(now, head.work.session);
        }
    }

    /// Checks whether limits and credits let a session's command go on, and takes the credits.
    #[inline]
    pub(super) fn admit(
        &mut self,
        now: Nanos,
        device: DeviceId,
        head: &Head,
    ) -> Result<Option<CreditSetId>, Blocker> {
        if head.free {
            return Ok(None);
        }
        let waiter = self.waiter(device, head);
        let Some(local) = self.sessions.kept(head.work.session) else { return Ok(None) };
        for limited in &local.limits {
            if let Err(when) = limited.admit(now, waiter) {
                return Err(Blocker::Rate(limited.id(), when));
            }
            if let Err(when) = limited.admit_direction(now, waiter, head.work.write) {
                return Err(Blocker::Direction(limited.id(), when, head.work.write));
            }
        }
        let Some(set) = local.set else { return Ok(None) };
        let cost = head.work.cost();
        match self.sessions.sets.take(set, cost, &self.waiters) {
            Ok(()) => Ok(Some(set)),
            Err((session, wake)) => {
                self.wake |= wake;
                Err(Blocker::Credits(session, cost))
            }
        }
    }

    /// Names this reactor at the limits that a command of a class waits for. In the order by weight, the reactors
    /// with commands of one class for one device are one party.
    fn waiter(&self, device: DeviceId, head: &Head) -> Waiter {
        let by_weight = self.devices.kept(device).is_some_and(|queue| queue.is_by_weight());
        let party = if by_weight { u64::from(device.0) * 4 + head.class as u64 + 1 } else { 0 };
        Waiter { reactor: self.reactor, party, is_due: head.is_due }
    }

    /// Blocks a session until what blocks its commands has gone. A limit on one direction blocks both
    /// here: at a device with containers the commands of a host stay in their order.
    pub(super) fn block_at(&mut self, now: Nanos, device: DeviceId, next: &Next, blocker: Blocker) {
        let reason = self.reason_of(device, blocker);
        let Some(queue) = self.devices.kept_mut(device) else { return };
        let (Blocker::Rate(session, _)
        | Blocker::Direction(session, ..)
        | Blocker::Credits(session, _)) = blocker;
        if next.precedence == Precedence::Reserved {
            queue.sessions.block_due(now, session);
            queue.wake_others();
        }
        if queue.block(now, session, reason) {
            self.sessions.links_mut(session).blocked_at.push(device);
        }
        match blocker {
            Blocker::Rate(session, when) | Blocker::Direction(session, when, _) => {
                self.set_timer(now, device, session, when);
            }
            Blocker::Credits(session, cost) => {
                if let Some(local) = self.sessions.kept(session) {
                    self.waiters.wait(self.reactor, &local.session, cost);
                }
            }
        }
    }

    /// Returns the reason of a block at a device where waits are counted.
    #[inline]
    fn reason_of(&self, device: DeviceId, blocker: Blocker) -> Option<BlockReason> {
        self.devices.kept(device)?.waits.as_ref()?;
        let (session, direction) = match blocker {
            Blocker::Rate(session, _) => (session, None),
            Blocker::Direction(session, _, write) => (session, Some(write)),
            Blocker::Credits(..) => return Some(BlockReason::Credits),
        };
        Some(self.sessions.kept(session)?.session.slower_limit(direction))
    }

    /// Holds back the reads or the writes of the host that goes next, until a session's limit on them
    /// lets them pass.
    fn hold_at(
        &mut self,
        now: Nanos,
        device: DeviceId,
        next: &Next,
        (session, when, write): (SessionId, Nanos, bool),
    ) {
        let reason = self.reason_of(device, Blocker::Direction(session, when, write));
        let Self { devices, entries, sessions, .. } = self;
        let Some(queue) = devices.kept_mut(device) else { return };
        if queue.own.split(next.leaf) {
            queue.begin_own_order(entries, next.leaf);
        }
        if queue.hold(now, session, (next.leaf, write), reason) {
            sessions.links_mut(session).blocked_at.push(device);
        }
        if next.precedence == Precedence::Reserved {
            queue.wake_others();
        }
        self.set_timer(now, device, session, when);
        // Another limit may have let it go on: that one's next host goes in its place.
        self.release_behind(now, device, next, write);
    }

    /// Releases the next host of each limit on a direction that has ever held this host back: the host has sent a command,
    /// or is held back again.
    #[inline]
    fn release_behind(&mut self, now: Nanos, device: DeviceId, next: &Next, write: bool) {
        let mut limits = 0;
        while let Some(queue) = self.devices.kept_mut(device)
            && let Some(tag) = queue.own.tags_mut(next.leaf, write).get(limits)
        {
            let session = tag.session;
            self.release_held(now, device, session);
            limits += 1;
        }
    }

    /// Lets the next host go on that a session's limit on a direction holds back, where that has credit
    /// again, and sets the timer for the others. A host that goes on calls the next one by its command;
    /// another one goes on after a while in case it has none any more, or something else blocks it.
    pub(super) fn release_held(&mut self, now: Nanos, device: DeviceId, session: SessionId) {
        const A_WHILE: u64 = 1_000_000;
        let Some(local) = self.sessions.get(session) else { return };
        let limited = Arc::clone(&local.session);
        for write in [false, true] {
            let Some(queue) = self.devices.get_mut(device) else { return };
            if queue.sessions.held_by(session, write) == 0 {
                continue;
            }
            let waiter = Waiter { reactor: self.reactor, party: 0, is_due: false };
            let when = match limited.admit_direction(now, waiter, write) {
                Ok(()) => {
                    queue.release(now, session, write);
                    now.after(A_WHILE)
                }
                Err(when) => when,
            };
            if queue.sessions.held_by(session, write) > 0 {
                self.set_timer(now, device, session, when);
            }
        }
    }

    /// Sets the timer of a session at a device, unless an earlier one runs.
    fn set_timer(&mut self, now: Nanos, device: DeviceId, session: SessionId, when: Nanos) {
        let Some(queue) = self.devices.kept_mut(device) else { return };
        queue.shorten_turns(when);
        if queue.is_by_weight()
            && let Some(local) = self.sessions.kept(session)
        {
            queue.sessions.order.set_lead(session, local.session.commands_per_ms());
        }
        // A moment that has passed already would not be waited for.
        let when = when.max(now.after(1));
        let set = queue.sessions.set_timer(session, when);
        if set != SetTimer::Kept {
            self.timers.start(Timer { when, device, session });
        }
        if set == SetTimer::Earlier {
            self.timers.note_idle();
            self.sift_timers();
        }
    }

    /// Charges limits and the reservation for a command that goes.
    pub(super) fn charge(&mut self, now: Nanos, device: DeviceId, head: &Head) -> Option<Charge> {
        let &Entry { arrived, entered, .. } = self.entries.at(head.id);
        let queue = self.devices.kept(device)?;
        if !head.free {
            let place = (head.class, self.flows.at(head.flow).node);
            let waiter = self.waiter(device, head);
            for limited in &self.sessions.kept(head.work.session)?.limits {
                limited.charge_limits(now, entered, head.work.write, head.work.amount());
                limited.count_turn(now, waiter, head.work.write, |of_direction| {
                    queue.turn_step(&self.pace, limited.id(), place, head.work.kind(), of_direction)
                });
            }
        }
        let reserved = queue.sessions.reservation_over(head.work.session)?;
        let Work { write, bytes, .. } = head.work;
        Some(match reserved.has_budget(now) {
            true => reserved.charge_waited(now, (arrived, entered), write, bytes),
            false => reserved.pass(now, (arrived, entered), write, bytes),
        })
    }

    /// Sends a command to its device. `None` where it is an output mark.
    #[inline]
    pub(super) fn send(
        &mut self,
        now: Nanos,
        device: DeviceId,
        head: &Head,
        (price, set, charge): (u32, Option<CreditSetId>, Option<Charge>),
    ) -> Option<Dispatched<T>> {
        let Head { id, flow, class, work, .. } = *head;
        let entry = self.entries.remove(id);
        self.uncount();
        let item = entry.item?;
        let charged = charge.map(|charge| Charged { charge, flow: self.flows.id(flow) });
        let holds = Holds { price, set, charged };
        let queue = self.devices.kept_mut(device)?;
        let grant = queue.grant(now, device, work, holds);
        if let Some(waits) = &mut queue.waits {
            waits.count(flow, class, head.is_due);
        }
        if let Some(local) = self.sessions.kept(work.session) {
            local.session.backlog.left(now, now.ns_since(entry.entered));
        }
        let of = self.flows.at_mut(flow);
        if charged.is_some() {
            // The charge's flow stays until the charge is settled: it keeps the place by which the
            // reservation is found.
            of.charged += 1;
        }
        if of.references == 0 {
            self.forget_flow(flow);
        }
        Some(Dispatched { item, device, class, grant })
    }
}
