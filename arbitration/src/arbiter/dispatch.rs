//! A command's way through the stages.

use std::cmp::Reverse;
use std::sync::Arc;

use super::queue::{Chosen, Next, Right};
use super::{Arbiter, DeviceId, Dispatched, Entry, EntryId, Flow, FlowId, Grant, Held, Request};
use crate::class::Class;
use crate::container::SetRequest;
use crate::credit::Cost;
use crate::device::Device;
use crate::order::NONE;
use crate::reservation::Charge;
use crate::session::Session;
use crate::settings::OrderSettings;
use crate::time::Nanos;
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

/// What a command takes of its device's window.
#[inline]
fn price(device: &Device, write: bool, bytes: u32) -> u32 {
    if device.rules.memory {
        bytes.div_ceil(4096).max(1).saturating_mul(256)
    } else {
        device.window.price(write, bytes)
    }
}

/// Takes room for a command. A large one goes in where there is any room at all: it would wait
/// for ever for all of it while other reactors fill what comes free with small ones (seed row D4).
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

fn cost<T>(request: &Request<T>) -> Cost {
    Cost::system(request.operations, u64::from(request.bytes))
}

impl<T: Copy> Arbiter<T> {
    /// A command asks to go on. With nothing waiting and nothing to be charged it may at once:
    /// then the answer is its grant, else it is to be [enqueued](Self::enqueue).
    #[inline]
    pub fn pass(&mut self, now: Nanos, flow: FlowId, write: bool, bytes: u32) -> Option<Grant> {
        let flow_id = flow.0;
        let flow = self.flows.get(flow_id)?;
        if !flow.plain {
            return None;
        }
        let (device, session) = (flow.device, flow.session);
        let queue = self.devices.get(device as usize)?.as_ref()?;
        if queue.waits() || queue.device.clock.contended() {
            return None;
        }
        let price = price(&queue.device, write, bytes);
        if !queue.device.window.take(price) {
            return None;
        }
        if let Some(local) = self.sessions.get_mut(session as usize) {
            local.here += 1;
        }
        Some(Grant {
            device,
            session,
            flow: flow_id,
            set: NONE,
            price,
            cost: Cost::user(u64::from(bytes)),
            write,
            bytes,
            at: now,
            charge: None,
        })
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
        let Request { item, write, bytes, operations, lba, blocks } = request;
        let request = Request { item: Some(item), write, bytes, operations, lba, blocks };
        let entry = self.append(now, flow.0, class, request, false)?;
        self.waiting += 1;
        let session = self.flows.get(flow.0)?.session;
        if let Some(local) = self.sessions.get_mut(session as usize) {
            local.here += 1;
            if let Some(session) = &local.session {
                session.backlog.entered();
            }
        }
        Some(EntryId(entry))
    }

    /// The flow's container ends here (seed row I1): an Output Mark, or a Flush that counts as
    /// one.
    pub fn output(&mut self, now: Nanos, flow: FlowId, class: Class) {
        let ordered = self
            .flows
            .get(flow.0)
            .and_then(|flow| self.queue(flow.device))
            .is_some_and(|queue| queue.chosen.is_some());
        if ordered {
            let nothing =
                Request { item: None, write: false, bytes: 0, operations: 0, lba: 0, blocks: 0 };
            let _ = self.append(now, flow.0, class, nothing, true);
        }
    }

    fn append(
        &mut self,
        now: Nanos,
        flow_id: u32,
        class: Class,
        request: Request<Option<T>>,
        mark: bool,
    ) -> Option<u32> {
        let Self { devices, flows, entries, reactor, .. } = self;
        let flow = flows.get_mut(flow_id)?;
        let queue = devices.get_mut(flow.device as usize)?.as_mut()?;
        let leaf = flow.node;
        let tree = &mut queue.trees[class];
        let (head, tail) = tree.queue(leaf);
        let entry = entries.insert(Entry {
            prev: tail,
            next: NONE,
            flow: flow_id,
            class,
            entered: now,
            mark,
            request,
            chosen: None,
        });
        flow.waiting += 1;
        if let Some(last) = entries.get_mut(tail) {
            last.next = entry;
            tree.set_queue(leaf, head, entry);
        } else {
            tree.set_queue(leaf, entry, entry);
            tree.activate(leaf);
            queue.sync(class);
        }
        queue.count(*reactor, class, 1);
        if queue.is_reserved(flow.session) {
            queue.note_demand(now, flow.session);
        }
        Some(entry)
    }

    /// Takes a command back that has not been dispatched.
    pub fn cancel(&mut self, entry: EntryId) -> Option<T> {
        let found = *self.entries.get(entry.0)?;
        let flow = *self.flows.get(found.flow)?;
        if let Some(Held { id, set, charge }) = found.chosen {
            if let Some(queue) = self.queue_mut(flow.device) {
                if let Some(chosen) = &mut queue.chosen {
                    chosen.remove(id);
                }
                if let (Some(charge), Some(reserved)) = (charge, queue.reservation(flow.session)) {
                    reserved.cancel(charge);
                }
            }
            self.give_credits(set, cost(&found.request));
            self.entries.remove(entry.0);
        } else {
            self.unlink(entry.0);
        }
        self.gone(&flow, found.flow, found.class);
        if let Some(local) = self.sessions.get_mut(flow.session as usize) {
            local.here = local.here.saturating_sub(1);
            if let Some(session) = &local.session {
                session.backlog.withdrawn();
            }
        }
        self.waiting = self.waiting.saturating_sub(1);
        self.forget_flow(found.flow);
        found.request.item
    }

    /// A flow has one less waiting.
    #[inline]
    fn gone(&mut self, flow: &Flow, id: u32, class: Class) {
        if let Some(flow) = self.flows.get_mut(id) {
            flow.waiting = flow.waiting.saturating_sub(1);
        }
        let reactor = self.reactor;
        if let Some(queue) = self.queue_mut(flow.device) {
            queue.count(reactor, class, -1);
        }
    }

    /// Takes an entry out of its flow's queue and out of the table.
    #[inline]
    fn unlink(&mut self, id: u32) -> Option<Entry<T>> {
        self.detach(id)?;
        self.entries.remove(id)
    }

    /// Takes an entry out of its flow's queue.
    #[inline]
    fn detach(&mut self, id: u32) -> Option<()> {
        let Self { devices, flows, entries, .. } = self;
        let entry = *entries.get(id)?;
        let flow = flows.get(entry.flow)?;
        let queue = devices.get_mut(flow.device as usize)?.as_mut()?;
        let tree = &mut queue.trees[entry.class];
        let (mut head, mut tail) = tree.queue(flow.node);
        match entries.get_mut(entry.prev) {
            Some(prev) => prev.next = entry.next,
            None => head = entry.next,
        }
        match entries.get_mut(entry.next) {
            Some(next) => next.prev = entry.prev,
            None => tail = entry.prev,
        }
        tree.set_queue(flow.node, head, tail);
        if head == NONE {
            tree.deactivate(flow.node);
            queue.sync(entry.class);
        }
        Some(())
    }

    /// The next command that may go to a device now.
    #[inline]
    pub fn dispatch(&mut self, now: Nanos, device: DeviceId) -> Option<Dispatched<T>> {
        loop {
            let Self { devices, plan, .. } = self;
            let queue = devices.get_mut(device.0 as usize)?.as_mut()?;
            if !queue.waits() {
                return None;
            }
            let ordered = queue.chosen.is_some();
            if ordered {
                self.choose(now, device.0);
                return self.dispatch_chosen(now, device.0);
            }
            if !queue.device.window.has_room() {
                return None;
            }
            let next = queue.next(now, &plan.order)?;
            match self.try_next(now, device.0, &next) {
                Tried::Dispatched(command) => return Some(command),
                Tried::Again => {}
                Tried::Full => return None,
            }
        }
    }

    fn try_next(&mut self, now: Nanos, device: u32, next: &Next) -> Tried<T> {
        let Some((id, entry, flow)) = self.head_of(device, next) else { return Tried::Full };
        let Some(queue) = self.queue(device) else { return Tried::Full };
        let shared = Arc::clone(&queue.device);
        let price = price(&shared, entry.request.write, entry.request.bytes);
        let mut set = NONE;
        if shared.rules.memory {
            let quarter = shared.window.depth().map_or(u64::MAX, quarter_of);
            if flow.holds > 0 && flow.holds + u64::from(price) > quarter {
                self.block_flow(device, &flow);
                return Tried::Again;
            }
        } else {
            match self.open(now, flow.session, &entry.request) {
                Ok(taken) => set = taken,
                Err(gate) => {
                    self.hold_up(now, device, next, &gate);
                    return Tried::Again;
                }
            }
        }
        if !room(&shared, price) {
            self.give_credits(set, cost(&entry.request));
            return Tried::Full;
        }
        let charge = if shared.rules.memory {
            if let Some(flow) = self.flows.get_mut(entry.flow) {
                flow.holds += u64::from(price);
            }
            None
        } else {
            self.charge(now, device, &flow, &entry)
        };
        self.take_turn(next, device, entry.request.bytes);
        self.unlink(id);
        self.gone(&flow, entry.flow, entry.class);
        self.granted(now, &flow, &entry, set, price, charge).map_or(Tried::Again, Tried::Dispatched)
    }

    /// The first command of the host whose turn it is.
    #[inline]
    fn head_of(&self, device: u32, next: &Next) -> Option<(u32, Entry<T>, Flow)> {
        let queue = self.queue(device)?;
        let (head, _) = queue.trees[next.class].queue(next.leaf);
        let entry = *self.entries.get(head)?;
        Some((head, entry, *self.flows.get(entry.flow)?))
    }

    /// Whether limits and credits let a session's command go on; takes the credits.
    #[inline]
    fn open(&self, now: Nanos, session: u32, request: &Request<Option<T>>) -> Result<u32, Gate> {
        let Some(local) = self.local(session) else { return Ok(NONE) };
        for limited in &local.limits {
            let passes = limited.iops.check(now).and_then(|()| limited.bandwidth.check(now));
            if let Err(when) = passes {
                return Err(Gate::Until(limited.id().0, when));
            }
        }
        let chain = self.chain(local.set);
        if chain.is_empty() {
            return Ok(NONE);
        }
        let cost = cost(request);
        for (taken, capped) in chain.iter().enumerate() {
            if !capped.credits.take(cost) {
                for earlier in chain.iter().take(taken) {
                    earlier.credits.give(cost);
                }
                return Err(Gate::Credits(capped.id().0, cost));
            }
        }
        Ok(local.set)
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
                // A moment that has passed already would not be waited for.
                self.timers.push(Reverse((when.max(now.after(1)), device, session)));
                if let Some(queue) = self.queue_mut(device) {
                    queue.block(session);
                }
            }
            Gate::Credits(session, cost) => {
                if let Some(queue) = self.queue_mut(device) {
                    queue.block(session);
                }
                let reactor = self.reactor;
                let shared = self.local(session).and_then(|local| local.session.clone());
                let Some(shared) = shared else { return };
                shared.wait(reactor);
                // What was given back before the line above told nobody.
                if shared.credits.fits(cost) {
                    self.boards.post(reactor, session);
                }
            }
        }
    }

    fn block_flow(&mut self, device: u32, flow: &Flow) {
        if let Some(queue) = self.queue_mut(device) {
            for class in Class::ALL {
                queue.trees[class].block(flow.node);
                queue.sync(class);
            }
        }
    }

    /// Charges limits and the reservation for a command that goes.
    #[inline]
    fn charge(&mut self, now: Nanos, device: u32, flow: &Flow, entry: &Entry<T>) -> Option<Charge> {
        let local = self.local(flow.session)?;
        for limited in &local.limits {
            limited.iops.charge(now, 1);
            limited.bandwidth.charge(now, u64::from(entry.request.bytes));
        }
        let queue = self.queue(device)?;
        if !queue.is_reserved(flow.session) {
            return None;
        }
        let reserved = queue.reservation(flow.session)?;
        if !reserved.has_budget(now) {
            return None;
        }
        Some(reserved.charge(now, entry.request.write, entry.request.bytes))
    }

    #[inline]
    fn take_turn(&mut self, next: &Next, device: u32, bytes: u32) {
        let order: OrderSettings = self.plan.order;
        if let Some(queue) = self.queue_mut(device) {
            queue.charge(&order, next, bytes);
        }
    }

    fn granted(
        &mut self,
        now: Nanos,
        flow: &Flow,
        entry: &Entry<T>,
        set: u32,
        price: u32,
        charge: Option<Charge>,
    ) -> Option<Dispatched<T>> {
        // Marks alone have none, and they are taken out before.
        let item = entry.request.item?;
        self.waiting = self.waiting.saturating_sub(1);
        let waited_ns = now.since(entry.entered);
        if let Some(session) = self.local(flow.session).and_then(|local| local.session.as_ref()) {
            session.backlog.left(now, waited_ns);
        }
        if let Some(set) = self.sets.get_mut(set) {
            set.held += 1;
        }
        let grant = Grant {
            device: flow.device,
            session: flow.session,
            flow: entry.flow,
            set,
            price,
            cost: cost(&entry.request),
            write: entry.request.write,
            bytes: entry.request.bytes,
            at: now,
            charge,
        };
        if let Some(queue) = self.queue_mut(flow.device)
            && queue.is_reserved(flow.session)
        {
            queue.note_gone(now, flow.session);
        }
        self.forget_flow(entry.flow);
        Some(Dispatched { item, class: entry.class, waited_ns, grant })
    }

    /// Fills the set that is ordered by place and deadline: with what S2 to S4 let go on.
    fn choose(&mut self, now: Nanos, device: u32) {
        loop {
            let Self { devices, plan, .. } = self;
            let Some(Some(queue)) = devices.get_mut(device as usize) else { return };
            let Some(rules) = queue.device.rules.containers else { return };
            if queue.chosen.as_ref().is_none_or(Chosen::is_full) {
                return;
            }
            let Some(next) = queue.next(now, &plan.order) else { return };
            let Some((id, entry, flow)) = self.head_of(device, &next) else { return };
            if entry.mark {
                self.take_turn(&next, device, 0);
                self.unlink(id);
                self.gone(&flow, entry.flow, entry.class);
                if let Some(chosen) = self.queue_mut(device).and_then(|q| q.chosen.as_mut()) {
                    chosen.set.output(now, flow.node);
                }
                self.forget_flow(entry.flow);
                continue;
            }
            let set = match self.open(now, flow.session, &entry.request) {
                Ok(set) => set,
                Err(gate) => {
                    self.hold_up(now, device, &next, &gate);
                    continue;
                }
            };
            let charge = self.charge(now, device, &flow, &entry);
            self.take_turn(&next, device, entry.request.bytes);
            let deadline = deadline(&self.plan.order, entry.class, rules.deadline_ns);
            self.enter_set(now, device, id, entry.entered.after(deadline), set, charge);
        }
    }

    /// Moves a command from its flow's queue into the set.
    fn enter_set(
        &mut self,
        now: Nanos,
        device: u32,
        id: u32,
        deadline: Nanos,
        set: u32,
        charge: Option<Charge>,
    ) {
        self.detach(id);
        let Some(&entry) = self.entries.get(id) else { return };
        let stream = self.flows.get(entry.flow).map_or(NONE, |flow| flow.node);
        let request = SetRequest {
            id: 0,
            stream,
            lba: entry.request.lba,
            blocks: entry.request.blocks,
            deadline,
        };
        let chosen = self.queue_mut(device).and_then(|queue| queue.chosen.as_mut());
        let place = chosen.and_then(|chosen| chosen.insert(now, id, request));
        if let (Some(place), Some(entry)) = (place, self.entries.get_mut(id)) {
            entry.chosen = Some(Held { id: place, set, charge });
        }
    }

    /// The next of the set, if the window has room.
    fn dispatch_chosen(&mut self, now: Nanos, device: u32) -> Option<Dispatched<T>> {
        let queue = self.queue_mut(device)?;
        let shared = Arc::clone(&queue.device);
        if !shared.window.has_room() {
            return None;
        }
        let id = queue.chosen.as_mut()?.pick(now)?;
        let entry = self.entries.remove(id)?;
        let flow = *self.flows.get(entry.flow)?;
        let Held { set, charge, .. } = entry.chosen?;
        let price = price(&shared, entry.request.write, entry.request.bytes);
        // There is room; by how much it is exceeded matters less than the order by place.
        shared.window.put_in(price);
        self.gone(&flow, entry.flow, entry.class);
        self.granted(now, &flow, &entry, set, price, charge)
    }

    fn give_credits(&mut self, set: u32, cost: Cost) {
        if set == NONE {
            return;
        }
        let boards = Arc::clone(&self.boards);
        let mut bells = 0;
        for capped in self.chain(set) {
            capped.credits.give(cost);
            bells |= tell(&boards, capped);
        }
        self.bells |= bells;
    }

    /// A command is over: what it held goes back. `served` is false where it never reached the
    /// device.
    #[inline]
    pub fn complete(&mut self, now: Nanos, grant: Grant, served: bool) {
        let Grant { device, session, flow, set, price, cost, write, bytes, at, charge } = grant;
        if let Some(queue) = self.queue_mut(device) {
            let shared = &queue.device;
            let mut share = 0;
            if served && !shared.rules.memory {
                share = shared.profiler.record(now, write, bytes, at, shared.window.held());
                shared.window.give(now, price, write, bytes, now.since(at));
            } else {
                shared.window.put_back(price);
            }
            if let (Some(charge), Some(reserved)) = (charge, queue.reservation(session)) {
                if served { reserved.settle(now, charge, share) } else { reserved.cancel(charge) }
            }
            if let Some(chosen) = &mut queue.chosen
                && served
            {
                chosen.set.completed(now.since(at));
            }
            let bells = queue.device.wake();
            let memory = queue.device.rules.memory;
            self.bells |= bells;
            if memory {
                self.return_memory(device, flow, price);
            }
        }
        if set != NONE {
            self.give_credits(set, cost);
            if let Some(entry) = self.sets.get_mut(set) {
                entry.held = entry.held.saturating_sub(1);
            }
            self.drop_set(set);
        }
        if let Some(local) = self.sessions.get_mut(session as usize) {
            local.here = local.here.saturating_sub(1);
        }
    }

    fn return_memory(&mut self, device: u32, flow_id: u32, price: u32) {
        let Some(flow) = self.flows.get_mut(flow_id) else { return };
        flow.holds = flow.holds.saturating_sub(u64::from(price));
        let node = flow.node;
        if let Some(queue) = self.queue_mut(device) {
            for class in Class::ALL {
                queue.trees[class].unblock(node);
                queue.sync(class);
            }
        }
        self.forget_flow(flow_id);
    }
}

/// Tells the reactors that waited for a session's credits; which, one bit each.
fn tell(boards: &super::Boards, session: &Session) -> u64 {
    let waiters = session.take_waiters();
    let mut left = waiters;
    while left != 0 {
        boards.post(left.trailing_zeros(), session.id().0);
        left &= left - 1;
    }
    waiters
}

/// A quarter of a window of so many commands of ordinary size, in price.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn quarter_of(depth: f64) -> u64 {
    (depth * 64.0) as u64
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
