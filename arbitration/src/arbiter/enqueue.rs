//! How commands come to the arbiter, and how they are taken back before it is their turn.

use units::{Class, Nanos};

use super::grant::{Holds, Work};
use super::{Arbiter, Entry, EntryId, Flow, FlowId, Grant, Held, Located, Request};
use crate::credit::Cost;
use crate::order::NONE;

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
    pub(super) fn take_held(&mut self, entry: u32) -> Option<Held> {
        self.located.get_mut(entry as usize)?.held.take()
    }

    /// A flow has one less waiting.
    #[inline]
    pub(super) fn gone(&mut self, flow: &Flow, id: u32, class: Class) {
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
}
