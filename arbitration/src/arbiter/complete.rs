//! How a command ends: what it held goes back, and others are told.

use units::Nanos;

use super::{Arbiter, Charged, Grant};
use crate::credit::Cost;
use crate::order::NONE;

impl<T: Copy> Arbiter<T> {
    pub(super) fn give_credits(&mut self, set: u32, cost: Cost) {
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
