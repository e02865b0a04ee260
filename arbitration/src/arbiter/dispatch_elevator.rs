//! Dispatch to devices that order commands by LBA and deadline.

use units::Nanos;

use super::Arbiter;
use super::dispatch::Head;
use super::elevator::Elevator;
use super::entries::{Entry, Held};
use super::grant::Work;
use super::ids::{CreditSetId, DeviceId, EntryId};
use super::queue::Next;
use super::submission::Dispatched;
use crate::reservation::Charge;

impl<T: Copy> Arbiter<T> {
    /// Fills a device's elevator with what S2 to S4 let go on.
    pub(super) fn fill_elevator(&mut self, now: Nanos, device: DeviceId) {
        loop {
            let Self { devices, pace, .. } = self;
            let Some(queue) = devices.kept_mut(device) else { return };
            if queue.elevator.as_ref().is_none_or(Elevator::is_full) {
                return;
            }
            let Some(mut next) = queue.next(now, pace) else { return };
            if queue.is_bounded() {
                let Some(joins) = self.joining(now, device, next) else { return };
                next = joins;
            }
            let Some((head, ends)) = self.head_of(device, &next) else { return };
            if head.mark {
                self.dequeue(now, device, &next, &head, ends);
                self.entries.remove(head.id);
                self.uncount();
                let queue = self.devices.kept_mut(device);
                if let Some(elevator) = queue.and_then(|queue| queue.elevator.as_mut()) {
                    elevator.output(now, next.leaf);
                }
                self.forget_flow(head.flow);
                continue;
            }
            let set = match self.admit(now, device, &head) {
                Ok(set) => set,
                Err(blocker) => {
                    self.block_at(now, device, &next, blocker);
                    continue;
                }
            };
            let mut charge = self.charge(now, device, &head);
            if let Some(charge) = &mut charge
                && let Some(queue) = self.devices.kept(device)
                && let Some(reserved) = queue.sessions.charged_by(head.work.session, charge)
            {
                reserved.wait_in_order(charge);
            }
            self.dequeue(now, device, &next, &head, ends);
            self.enter_elevator(now, device, &next, head.id, (set, charge));
        }
    }

    /// Puts a command that has left its flow's queue into the elevator.
    fn enter_elevator(
        &mut self,
        now: Nanos,
        device: DeviceId,
        next: &Next,
        id: EntryId,
        (set, charge): (Option<CreditSetId>, Option<Charge>),
    ) {
        let Self { devices, entries, flows, order, .. } = self;
        let Some(queue) = devices.kept_mut(device) else { return };
        let is_bounded = queue.is_bounded();
        let Some(elevator) = queue.elevator.as_mut() else {
            debug_assert!(false, "a device that orders commands has an elevator");
            return;
        };
        let Entry { flow, write, bytes, .. } = *entries.at(id);
        // A command on a reservation has until the end of its period, however long it has waited:
        // the set is done by then in any order. With deadlines by arrival, a backlog would be
        // served in arrival order, with a seek for each command, and never catch up. Beside
        // reservations the latency of any other command counts from now, for the same reason: a
        // backlog would cost reserved streams their time.
        let until = match charge.filter(Charge::has_budget) {
            Some(charge) if charge.has_deadline() => None,
            Some(_) => {
                let reserved = queue.sessions.reservation_over(flows.at(flow).session);
                reserved.map(|reserved| reserved.next_period(now))
            }
            None if is_bounded => Some(elevator.deadline(order, next.class, now)),
            None => None,
        };
        queue.device.set.join(write, bytes);
        entries.enter_elevator(id, |entry, located| {
            let due = elevator.deadline(order, next.class, entry.entered);
            let due = until.map_or(due, |until| until.max(due));
            let blocks = (located.lba, located.blocks);
            let number = elevator.insert(now, (id, next.leaf), blocks, due)?;
            Some(Held { number, set, charge })
        });
    }

    /// Takes the next command out of a device's elevator, if the window has room.
    pub(super) fn dispatch_from_elevator(
        &mut self,
        now: Nanos,
        device: DeviceId,
    ) -> Option<Dispatched<T>> {
        let queue = self.devices.kept_mut(device)?;
        if !queue.device.window.has_room() {
            return None;
        }
        let is_reserved = queue.sessions.has_reservations();
        let id = queue.elevator.as_mut()?.pick(now, is_reserved)?;
        let Held { set, mut charge, .. } = self.entries.take_held(id)?;
        let Entry { flow, class, write, bytes, content, operations, .. } = *self.entries.at(id);
        let session = self.flows.at(flow).session;
        if let Some(charge) = &mut charge
            && let Some(reserved) = queue.sessions.charged_by(session, charge)
        {
            reserved.enter_device(now, charge);
        }
        let price = queue.device.window.price(write, bytes);
        // There is room; by how much it is exceeded matters less than the order by LBA.
        queue.device.window.put_in(price);
        queue.uncount(class);
        self.flows.at_mut(flow).uncount();
        let work = Work { session, write, bytes, content, operations };
        let head = Head { id, flow, class, work, mark: false, free: false, is_due: false };
        self.send(now, device, &head, (price, set, charge))
    }
}
