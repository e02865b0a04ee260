//! The end of a command: it releases its resources, and other reactors are notified.

use units::Nanos;

use super::Arbiter;
use super::grant::{Charged, Grant};
use super::ids::{CreditSetId, DeviceId};
use crate::credit::Cost;
use crate::session::SessionId;
use crate::window::Held;

impl<T: Copy> Arbiter<T> {
    /// Gives a command's credits back to the set that they were taken from.
    #[inline(never)]
    pub(super) fn give_credits(&mut self, set: CreditSetId, cost: Cost) {
        self.wake |= self.sessions.sets.give(set, cost, &self.waiters);
    }

    /// Ends a command and releases its resources. `served` is false if the command never reached
    /// the device.
    #[inline]
    pub fn complete(&mut self, now: Nanos, grant: Grant, served: bool) {
        self.end(now, grant, served, served);
    }

    /// Ends a command that was answered without its device: its session's limits keep their
    /// charges, and nothing is learnt of the device.
    pub fn complete_without_device(&mut self, now: Nanos, grant: Grant) {
        self.end(now, grant, false, true);
    }

    #[inline]
    fn end(&mut self, now: Nanos, grant: Grant, served: bool, keeps_charge: bool) {
        // Field by field: small words that were just written are read as small words.
        let Grant { device, session, write, bytes, content, operations, .. } = grant;
        let has_data = content.has_data();
        let Grant { price, set, at, met, counted, charged, .. } = grant;
        if (!keeps_charge || !has_data)
            && let Some(local) = self.sessions.kept(session)
        {
            for limited in &local.limits {
                if !keeps_charge {
                    // The charges for the command are taken back.
                    limited.give_back_limits(write, content.amount(bytes));
                } else if served {
                    limited.charge_time(now, write, now.ns_since(at), u64::from(bytes));
                }
            }
        }
        if let Some(queue) = self.devices.kept_mut(device) {
            debug_assert!(queue.granted > 0, "no command completes twice");
            queue.granted = queue.granted.saturating_sub(1);
            let shared = &*queue.device;
            let mut share = 0;
            if served {
                let own = Held::command(price, bytes);
                let held = shared.profiler.occupancy(own, met, shared.window.commands());
                // A Flush or Write Zeroes tells nothing about the time of a write.
                if !has_data || bytes == 0 {
                    share = shared.profiler.share(now, at, held);
                } else if queue.samples.takes(now) || charged.is_some() {
                    share = shared.profiler.record(now, write, bytes, at, held);
                    shared.profiler.learn_size(now.ns_since(at), met);
                } else {
                    shared.profiler.glance(now, write, bytes, at, held);
                }
                shared.window.give(now, price, write, bytes, now.ns_since(at));
            } else {
                shared.window.put_back(price);
            }
            shared.window.note_size(price, bytes, false);
            if counted {
                let alone = shared.leave_set(now, at, write, bytes);
                if shared.is_bounded() {
                    share = alone;
                }
                if served {
                    queue.note_use(now, write, bytes);
                }
            }
            let shared = &*queue.device;
            let wake = shared.wake_beside(self.reactor);
            if let Some(elevator) = &mut queue.elevator
                && served
            {
                elevator.completed(now.ns_since(at));
            }
            self.wake |= wake;
            if let Some(charged) = charged {
                self.settle_charge(now, (device, session), charged, served.then_some(share));
            }
        }
        if let Some(set) = set {
            self.give_credits(set, Cost::system(operations, u64::from(bytes)));
        }
        self.leave_session(session);
    }

    /// Settles a reservation's charge for a command with the command's share of the device's time.
    /// Refunds the charge if the device never saw the command.
    #[inline(always)]
    fn settle_charge(
        &mut self,
        now: Nanos,
        (device, session): (DeviceId, SessionId),
        Charged { charge, flow }: Charged,
        share: Option<u64>,
    ) {
        if let Some(queue) = self.devices.kept(device)
            && let Some(reserved) = queue.sessions.charged_by(session, &charge)
        {
            match share {
                Some(share) => {
                    reserved.settle_beside(now, charge, share, queue.device.longest(now));
                }
                None => reserved.cancel(now, charge),
            }
        }
        // The flow may have gone with its device.
        if let Some(of) = self.flows.find_mut(flow) {
            of.uncount_charged();
            self.forget_flow(flow.0.name);
        }
    }
}
