//! A command's way through the stages.

use std::cmp::Reverse;

use units::{Class, Nanos};

use super::queue::{Chosen, Next, Right};
use super::{
    Arbiter, Charged, DeviceId, DeviceQueue, Dispatched, Entry, EntryId, Flow, FlowId, Grant, Held,
    Located, Request,
};
use crate::container::SetRequest;
use crate::credit::Cost;
use crate::device::Device;
use crate::order::NONE;
use crate::reactors::Reactors;
use crate::reservation::Charge;
use crate::settings::OrderSettings;
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
enum Gate {
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
struct Head {
    id: u32,
    flow: u32,
    work: Work,
    mark: bool,
    /// Nothing is to be asked of its session.
    free: bool,
}

/// What a command is charged for.
#[derive(Clone, Copy, Debug)]
struct Work {
    session: u32,
    write: bool,
    bytes: u32,
    operations: u32,
}

impl Work {
    #[inline]
    fn cost(&self) -> Cost {
        Cost::system(self.operations, u64::from(self.bytes))
    }
}

/// What a command holds while it is in its device.
#[derive(Clone, Copy, Debug)]
struct Holds {
    /// Room in the window.
    price: u32,
    /// Credits: the set that they were taken from.
    set: u32,
    /// What a reservation was charged.
    charged: Option<Charged>,
}

impl DeviceQueue {
    /// Makes the grant of a command that goes to the device.
    #[inline]
    fn grant(&mut self, now: Nanos, device: u32, work: &Work, holds: Holds) -> Grant {
        self.granted += 1;
        let Work { session, write, bytes, .. } = *work;
        let Holds { price, set, charged } = holds;
        let cost = work.cost();
        Grant { device, session, set, price, cost, write, bytes, at: now, charged }
    }
}

impl<T: Copy> Arbiter<T> {
    /// A command asks to go on. With nothing waiting and nothing to be charged it may at once:
    /// then the answer is its grant, else it is to be [enqueued](Self::enqueue).
    #[inline]
    pub fn pass(&mut self, now: Nanos, flow: FlowId, write: bool, bytes: u32) -> Option<Grant> {
        let flow = self.flows.find(flow.0)?;
        if !flow.plain {
            return None;
        }
        let (device, session) = (flow.device, flow.session);
        let queue = self.devices.get_mut(device as usize)?.as_mut()?;
        if queue.waits() || queue.device.clock.contended() {
            return None;
        }
        let price = queue.device.window.price(write, bytes);
        if !queue.device.window.take(price) {
            return None;
        }
        if let Some(local) = self.sessions.get_mut(session as usize) {
            local.here += 1;
        }
        let work = Work { session, write, bytes, operations: 1 };
        Some(queue.grant(now, device, &work, Holds { price, set: NONE, charged: None }))
    }

    /// A command waits for its turn. `None` where its flow is not there.
    #[inline]
    pub fn enqueue(
        &mut self,
        now: Nanos,
        flow: FlowId,
        class: Class,
        request: Request<T>,
    ) -> Option<EntryId> {
        self.flows.find(flow.0)?;
        let entry = self.append(now, flow.0.index, class, &request, Some(request.item))?;
        self.waiting += 1;
        Some(EntryId(entry))
    }

    /// The flow's container ends here (docs/sources.md, I1: outputs end containers): an Output
    /// Mark, or a Flush that counts as one.
    pub fn output(&mut self, now: Nanos, flow: FlowId, class: Class) {
        let Some(&Flow { device, node, .. }) = self.flows.find(flow.0) else { return };
        let Self { devices, entries, .. } = self;
        let Some(Some(queue)) = devices.get_mut(device as usize) else { return };
        let (_, tail) = queue.order.trees[class].queue(node);
        let Some(chosen) = &mut queue.chosen else { return };
        match entries.get(tail).map(|last| last.item.is_some()) {
            // Nothing of it waits: what is in the set already is all that it ends.
            None => chosen.set.output(now, node),
            // Behind another mark there is nothing to end.
            Some(false) => {}
            Some(true) => {
                let nothing =
                    Request { item: (), write: false, bytes: 0, operations: 0, lba: 0, blocks: 0 };
                if self.append(now, flow.0.index, class, &nothing, None).is_some() {
                    self.waiting += 1;
                }
            }
        }
    }

    #[inline]
    fn append<R>(
        &mut self,
        now: Nanos,
        flow_id: u32,
        class: Class,
        request: &Request<R>,
        item: Option<T>,
    ) -> Option<u32> {
        let Self { devices, active, flows, entries, located, sessions, reactor, .. } = self;
        let flow = flows.get_mut(flow_id)?;
        let queue = devices.get_mut(flow.device as usize)?.as_mut()?;
        let leaf = flow.node;
        let tree = &mut queue.order.trees[class];
        let (head, tail) = tree.queue(leaf);
        let Request { write, bytes, operations, lba, blocks, .. } = *request;
        let entry = entries.insert(Entry {
            prev: tail,
            next: NONE,
            flow: flow_id,
            bytes,
            operations,
            class,
            write,
            chosen: false,
            entered: now,
            item,
        });
        flow.waiting += 1;
        if tail == NONE {
            tree.set_queue(leaf, entry, entry);
            tree.activate(leaf);
            queue.sync(class);
        } else {
            if let Some(last) = entries.get_mut(tail) {
                last.next = entry;
            }
            tree.set_queue(leaf, head, entry);
        }
        queue.count(*reactor, class);
        if !queue.listed {
            queue.listed = true;
            active.push(flow.device);
        }
        if queue.chosen.is_some() {
            // Only where the table of entries had to grow does this one.
            if entry as usize >= located.len() {
                located.resize(entry as usize + 1, Located::default());
            }
            if let Some(place) = located.get_mut(entry as usize) {
                *place = Located { lba, blocks, held: None };
            }
        }
        if queue.has_reservations() {
            queue.note_demand(now, flow.session);
        }
        if item.is_some()
            && let Some(local) = sessions.get_mut(flow.session as usize)
        {
            local.here += 1;
            if let Some(session) = &local.session {
                session.backlog.entered();
            }
        }
        Some(entry)
    }

    /// Takes a command back that has not been dispatched.
    pub fn cancel(&mut self, entry: EntryId) -> Option<T> {
        let found = *self.entries.get(entry.0)?;
        let flow = *self.flows.get(found.flow)?;
        if found.chosen {
            if let Some(Held { id, set, charge }) = self.take_held(entry.0) {
                if let Some(queue) = self.queue_mut(flow.device) {
                    if let Some(chosen) = &mut queue.chosen {
                        chosen.remove(id);
                    }
                    if let (Some(charge), Some(reserved)) =
                        (charge, queue.reservation_over(flow.session))
                    {
                        reserved.cancel(charge);
                    }
                }
                let cost = Cost::system(found.operations, u64::from(found.bytes));
                self.give_credits(set, cost);
            }
        } else {
            self.detach(entry.0);
        }
        self.entries.remove(entry.0);
        self.gone(&flow, found.flow, found.class);
        // Marks count neither for their session nor for its queue.
        if found.item.is_some() {
            let local = self.local(flow.session);
            let session = local.and_then(|local| local.session.as_ref());
            if let Some(session) = session {
                session.backlog.withdrawn();
            }
            self.leave_session(flow.session);
        }
        self.waiting = self.waiting.saturating_sub(1);
        self.forget_flow(found.flow);
        found.item
    }

    /// What a command holds that is in the set that is ordered by place, or was.
    fn take_held(&mut self, entry: u32) -> Option<Held> {
        self.located.get_mut(entry as usize)?.held.take()
    }

    /// A flow has one less waiting.
    #[inline]
    fn gone(&mut self, flow: &Flow, id: u32, class: Class) {
        if let Some(flow) = self.flows.get_mut(id) {
            flow.waiting = flow.waiting.saturating_sub(1);
        }
        let reactor = self.reactor;
        if let Some(queue) = self.queue_mut(flow.device) {
            queue.uncount(reactor, class);
        }
    }

    /// Takes an entry out of its flow's queue.
    fn detach(&mut self, id: u32) -> Option<()> {
        let Self { devices, flows, entries, .. } = self;
        let entry = *entries.get(id)?;
        let flow = flows.get(entry.flow)?;
        let queue = devices.get_mut(flow.device as usize)?.as_mut()?;
        let (mut head, mut tail) = queue.order.trees[entry.class].queue(flow.node);
        let first = head == id;
        if first {
            head = entry.next;
        } else if let Some(prev) = entries.get_mut(entry.prev) {
            prev.next = entry.next;
        }
        if tail == id {
            tail = if first { NONE } else { entry.prev };
        } else if let Some(next) = entries.get_mut(entry.next) {
            next.prev = entry.prev;
        }
        queue.set_leaf(entry.class, flow.node, head, tail);
        Some(())
    }

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
                    self.hold_up(now, device, next, &gate);
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
    fn head_of(&self, device: u32, next: &Next) -> Option<Head> {
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
    fn leave(&mut self, now: Nanos, device: u32, next: &Next, head: &Head) {
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
    fn open(&mut self, now: Nanos, head: &Head) -> Result<u32, Gate> {
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

    /// Holds a session up until what keeps it has gone.
    fn hold_up(&mut self, now: Nanos, device: u32, next: &Next, gate: &Gate) {
        if next.right == Right::Reserved
            && let Some(queue) = self.queue_mut(device)
        {
            queue.park();
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
    fn charge(&mut self, now: Nanos, device: u32, head: &Head) -> Option<Charge> {
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
    fn granted(
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

    /// Fills the set that is ordered by place and deadline: with what S2 to S4 let go on.
    fn choose(&mut self, now: Nanos, device: u32) {
        loop {
            let Self { devices, pace, .. } = self;
            let Some(Some(queue)) = devices.get_mut(device as usize) else { return };
            let Some(rules) = queue.device.rules.containers else { return };
            if queue.chosen.as_ref().is_none_or(Chosen::is_full) {
                return;
            }
            let Some(next) = queue.next(now, pace) else { return };
            let Some(head) = self.head_of(device, &next) else { return };
            if head.mark {
                self.leave(now, device, &next, &head);
                self.entries.remove(head.id);
                self.waiting = self.waiting.saturating_sub(1);
                if let Some(chosen) = self.queue_mut(device).and_then(|q| q.chosen.as_mut()) {
                    chosen.set.output(now, next.leaf);
                }
                self.forget_flow(head.flow);
                continue;
            }
            let set = match self.open(now, &head) {
                Ok(set) => set,
                Err(gate) => {
                    self.hold_up(now, device, &next, &gate);
                    continue;
                }
            };
            let charge = self.charge(now, device, &head);
            self.leave(now, device, &next, &head);
            self.enter_set(now, device, &next, head.id, rules.deadline_ns, (set, charge));
        }
    }

    /// Takes a command that has left its flow's queue into the set.
    fn enter_set(
        &mut self,
        now: Nanos,
        device: u32,
        next: &Next,
        id: u32,
        deadline_ns: u64,
        (set, charge): (u32, Option<Charge>),
    ) {
        let Self { devices, entries, located, order, .. } = self;
        let Some(entry) = entries.get_mut(id) else { return };
        let Some(place) = located.get_mut(id as usize) else { return };
        let due = entry.entered.after(deadline(order, next.class, deadline_ns));
        let (lba, blocks) = (place.lba, place.blocks);
        let request = SetRequest { id: 0, stream: next.leaf, lba, blocks, deadline: due };
        let queue = devices.get_mut(device as usize).and_then(Option::as_mut);
        let chosen = queue.and_then(|queue| queue.chosen.as_mut());
        if let Some(name) = chosen.and_then(|chosen| chosen.insert(now, id, request)) {
            place.held = Some(Held { id: name, set, charge });
            entry.chosen = true;
        }
    }

    /// The next of the set, if the window has room.
    fn dispatch_chosen(&mut self, now: Nanos, device: u32) -> Option<Dispatched<T>> {
        let queue = self.queue_mut(device)?;
        if !queue.device.window.has_room() {
            return None;
        }
        let id = queue.chosen.as_mut()?.pick(now)?;
        let Held { set, charge, .. } = self.take_held(id)?;
        let entry = *self.entries.get(id)?;
        let flow = *self.flows.get(entry.flow)?;
        let queue = self.queue_mut(device)?;
        let price = queue.device.window.price(entry.write, entry.bytes);
        // There is room; by how much it is exceeded matters less than the order by place.
        queue.device.window.put_in(price);
        self.gone(&flow, entry.flow, entry.class);
        if let Some(queue) = self.queue_mut(device)
            && queue.has_reservations()
        {
            queue.note_gone(now, flow.session);
        }
        let Entry { flow: id_of_flow, bytes, operations, write, .. } = entry;
        let work = Work { session: flow.session, write, bytes, operations };
        let head = Head { id, flow: id_of_flow, work, mark: false, free: false };
        self.granted(now, device, &head, (price, set, charge))
    }

    fn give_credits(&mut self, set: u32, cost: Cost) {
        if set == NONE {
            return;
        }
        let Self { waiters, sets, wake, .. } = self;
        let Some(Some(entry)) = sets.get_mut(set as usize) else { return };
        for capped in &entry.chain {
            *wake |= waiters.give(capped, cost);
        }
        entry.held = entry.held.saturating_sub(1);
        if !entry.current && entry.held == 0 {
            self.drop_set(set);
        }
    }

    /// A command is over: what it held goes back. `served` is false where it never reached the
    /// device.
    #[inline]
    pub fn complete(&mut self, now: Nanos, grant: Grant, served: bool) {
        let Grant { device, session, set, price, cost, write, bytes, at, charged } = grant;
        if !served && let Some(local) = self.local(session) {
            // What was charged for it was for nothing.
            for limited in &local.limits {
                limited.iops.give_back(1);
                limited.bandwidth.give_back(u64::from(bytes));
            }
        }
        if let Some(queue) = self.queue_mut(device) {
            queue.granted = queue.granted.saturating_sub(1);
            let shared = &*queue.device;
            let mut share = 0;
            if served {
                let held = shared.window.held();
                if queue.samples.takes(now) || charged.is_some() {
                    share = shared.profiler.record(now, write, bytes, at, held);
                } else {
                    shared.profiler.glance(now, write, bytes, at, held);
                }
                shared.window.give(now, price, write, bytes, now.ns_since(at));
            } else {
                shared.window.put_back(price);
            }
            let wake = shared.wake();
            if let (Some(Charged { charge, .. }), Some(reserved)) =
                (charged, queue.reservation_over(session))
            {
                if served { reserved.settle(now, charge, share) } else { reserved.cancel(charge) }
            }
            if let Some(chosen) = &mut queue.chosen
                && served
            {
                chosen.set.completed(now.ns_since(at));
            }
            self.wake |= wake;
            if let Some(Charged { flow, .. }) = charged
                && let Some(of) = self.flows.find_mut(flow.0)
            {
                of.charged = of.charged.saturating_sub(1);
                self.forget_flow(flow.0.index);
            }
        }
        if set != NONE {
            self.give_credits(set, cost);
        }
        self.leave_session(session);
    }
}

/// How long after its arrival a command of a class is due, in ns.
fn deadline(order: &OrderSettings, class: Class, high: u64) -> u64 {
    let weight = |weight: u16| u64::from(weight.max(1));
    let times = weight(order.weights.high);
    match class {
        Class::Urgent => high / 2,
        Class::High => high,
        Class::Medium => high.saturating_mul(times) / weight(order.weights.medium),
        Class::Low => high.saturating_mul(times) / weight(order.weights.low),
    }
}
