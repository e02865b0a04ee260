//! The arrival of commands at the arbiter, and their withdrawal before it is their turn.

use units::{Class, Nanos};

use super::Arbiter;
use super::entries::{Entry, Held};
use super::flows::HostFlow;
use super::grant::{Grant, Holds, Work};
use super::ids::{Announced, EntryId, HostFlowId, HostFlowIndex};
use super::queue::Place;
use super::submission::Submission;
use crate::credit::Cost;
use crate::limit::Content;

impl<T: Copy> Arbiter<T> {
    /// Lets a command go on at once, if nothing waits and nothing has to be charged: returns its
    /// grant. `None`: the caller [enqueues](Self::enqueue) the command.
    #[inline]
    pub fn pass<R>(
        &mut self,
        now: Nanos,
        flow: HostFlowId,
        submission: &Submission<R>,
    ) -> Option<Grant> {
        let &Submission { write, bytes, content, operations, .. } = submission;
        let flow = self.flows.find(flow)?;
        if !flow.plain {
            return None;
        }
        let (device, session) = (flow.device, flow.session);
        let queue = self.devices.kept_mut(device)?;
        if queue.waits() || queue.device.clock.contended() || !queue.has_room(now) {
            return None;
        }
        let price = queue.device.window.price(write, bytes);
        if !queue.device.window.take(price) {
            return None;
        }
        self.sessions.count(session);
        let work = Work { session, write, bytes, content, operations };
        Some(queue.grant(now, device, work, Holds { price, set: None, charged: None }))
    }

    /// Lets a command wait for its turn. `None` where its flow is not there.
    #[inline]
    pub fn enqueue(
        &mut self,
        now: Nanos,
        flow: HostFlowId,
        class: Class,
        submission: Submission<T>,
    ) -> Option<EntryId> {
        self.enqueue_since(now, now, flow, class, submission)
    }

    /// Lets a command wait for its turn as [`Self::enqueue`] does, which came at `arrived` and had
    /// to wait for something else first: a reservation's demand begins then.
    #[inline]
    pub fn enqueue_since(
        &mut self,
        now: Nanos,
        arrived: Nanos,
        flow: HostFlowId,
        class: Class,
        submission: Submission<T>,
    ) -> Option<EntryId> {
        self.flows.find(flow)?;
        if submission.past_limits {
            return self.enqueue_past_limits((now, arrived), flow, class, &submission);
        }
        self.append((now, arrived), flow.0.name, class, &submission, Some(submission.item))
    }

    /// Announces a command of a flow that waits for memory, or for the data of its host, before it is
    /// [enqueued](Self::enqueue_since): a reservation's demand begins with it. `None` if no reservation is concerned.
    #[inline]
    pub fn announce(&mut self, now: Nanos, flow: HostFlowId) -> Option<Announced> {
        let found = self.flows.find_mut(flow)?;
        let queue = self.devices.kept_mut(found.device)?;
        if !queue.sessions.has_reservations() || !queue.sessions.announce(now, found.session) {
            return None;
        }
        found.charged += 1;
        Some(Announced(flow))
    }

    /// Notes that an announced command was enqueued, or will not be.
    pub fn end_announced(&mut self, now: Nanos, Announced(flow): Announced) {
        // The flow may have gone with its device.
        let Some(found) = self.flows.find_mut(flow) else { return };
        found.uncount_charged();
        let HostFlow { device, session, .. } = *found;
        if let Some(queue) = self.devices.kept_mut(device) {
            queue.sessions.end_announced(now, session);
        }
        self.forget_flow(flow.0.name);
    }

    /// Enqueues a command whose limits are charged already, under the root session: its own session may
    /// be blocked.
    #[cold]
    fn enqueue_past_limits(
        &mut self,
        times: (Nanos, Nanos),
        flow: HostFlowId,
        class: Class,
        submission: &Submission<T>,
    ) -> Option<EntryId> {
        let &HostFlow { device, session, host, .. } = self.flows.find(flow)?;
        let root = self.sessions.kept(session)?.session.line().last().cloned()?;
        let passing = self.flow(device, &root, host)?;
        let entry = self.append(times, passing.0.name, class, submission, Some(submission.item));
        // The flow stays while commands of it wait.
        self.release(passing);
        entry
    }

    /// Notes that the flow's container ends here (docs/research/sources.md, I1: outputs end containers): an
    /// Output Mark, or a Flush that counts as one.
    pub fn output(&mut self, now: Nanos, flow: HostFlowId, class: Class) {
        let Some(&found) = self.flows.find(flow) else { return };
        let Some(queue) = self.devices.kept_mut(found.device) else { return };
        let last = match queue.own.last(class, found.node, found.own_queue) {
            Some(last) => last,
            None => queue.queue_of(class, found.node).map(|queue| queue.last),
        };
        let Some(elevator) = &mut queue.elevator else { return };
        match last.map(|last| self.entries.at(last).item.is_some()) {
            // No command of the flow waits: the output ends only the commands in the set.
            None => elevator.output(now, found.node),
            // Behind another mark there is nothing to end.
            Some(false) => {}
            Some(true) => {
                let nothing = Submission {
                    item: (),
                    write: false,
                    bytes: 0,
                    content: Content::Nothing,
                    operations: 0,
                    lba: 0,
                    blocks: 0,
                    past_limits: false,
                };
                self.append((now, now), flow.0.name, class, &nothing, None);
            }
        }
    }

    /// Adds a command, or an output mark, at the end of its flow's queue.
    #[inline]
    fn append<R>(
        &mut self,
        (now, arrived): (Nanos, Nanos),
        flow_id: HostFlowIndex,
        class: Class,
        submission: &Submission<R>,
        item: Option<T>,
    ) -> Option<EntryId> {
        let Self { devices, flows, entries, sessions, waiting, .. } = self;
        let flow = flows.at_mut(flow_id);
        let queue = devices.kept_mut(flow.device)?;
        let leaf = flow.node;
        let Submission { write, bytes, content, operations, lba, blocks, .. } = *submission;
        let mut entry = Entry::new((now, flow_id, class), write, (bytes, operations), item);
        (entry.content, entry.arrived) = (content, arrived);
        flow.waiting += 1;
        *waiting += 1;
        let ends = entries.append(queue.queue_of(class, leaf), entry);
        queue.append(Place { class, leaf, own_queue: flow.own_queue }, write, ends);
        queue.count(class);
        if queue.is_ordered() {
            entries.locate(ends.last, lba, blocks);
        }
        if queue.sessions.has_reservations() {
            queue.sessions.note_demand((now, arrived), flow.session);
        }
        let listed = std::mem::replace(&mut queue.listed, true);
        if item.is_some()
            && let Some(local) = sessions.kept_mut(flow.session)
        {
            local.here += 1;
            local.session.backlog.entered();
        }
        if !listed {
            devices.activate(flow.device);
        }
        Some(ends.last)
    }

    /// Withdraws a command that has not been dispatched. `None` where no command of this name
    /// waits.
    pub fn cancel(&mut self, now: Nanos, id: EntryId) -> Option<T> {
        let entry = *self.entries.get(id)?;
        let flow = *self.flows.at(entry.flow);
        if entry.in_elevator {
            self.take_from_elevator(now, id, &entry);
        } else if let Some(queue) = self.devices.kept_mut(flow.device)
            && let Some(ends) = queue.queue_of(entry.class, flow.node)
        {
            let left = self.entries.without(ends, id);
            let place = Place { class: entry.class, leaf: flow.node, own_queue: flow.own_queue };
            queue.withdraw(place, (id, entry.write), left);
        }
        self.entries.remove(id);
        self.flows.at_mut(entry.flow).uncount();
        if let Some(queue) = self.devices.kept_mut(flow.device) {
            queue.uncount(entry.class);
            if queue.sessions.has_reservations() {
                queue.note_gone(now, flow.session);
            }
        }
        // Marks count neither for their session nor for its queue.
        if entry.item.is_some() {
            if let Some(local) = self.sessions.kept(flow.session) {
                local.session.backlog.withdrawn();
            }
            self.leave_session(flow.session);
        }
        self.uncount();
        self.forget_flow(entry.flow);
        entry.item
    }

    /// Removes a command from the elevator, and releases its resources there.
    fn take_from_elevator(&mut self, now: Nanos, id: EntryId, entry: &Entry<T>) {
        let Some(Held { number, set, charge }) = self.entries.take_held(id) else { return };
        let flow = self.flows.at(entry.flow);
        if let Some(queue) = self.devices.kept_mut(flow.device) {
            if let Some(elevator) = &mut queue.elevator {
                elevator.remove(number);
            }
            queue.device.set.leave(entry.write, entry.bytes);
            if let Some(charge) = charge
                && let Some(reserved) = queue.sessions.charged_by(flow.session, &charge)
            {
                reserved.cancel(now, charge);
            }
        }
        let session = flow.session;
        if let Some(local) = self.sessions.kept(session) {
            for limited in &local.limits {
                limited.give_back_limits(entry.write, entry.content.amount(entry.bytes));
            }
        }
        if let Some(set) = set {
            self.give_credits(set, Cost::system(entry.operations, u64::from(entry.bytes)));
        }
    }
}
