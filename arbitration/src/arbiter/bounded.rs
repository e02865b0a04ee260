//! The scheduling set of a device that reservations bound: which commands join it (docs/research/sources.md,
//! F3: reservations are kept).

use units::Nanos;

use super::Arbiter;
use super::dispatch::Head;
use super::grant::Work;
use super::ids::DeviceId;
use super::queue::{DeviceQueue, Next, Precedence};
use crate::reservation::{Account, Utilisation};

impl DeviceQueue {
    /// Returns whether reservations bound the commands in the device and in its order by place.
    #[inline]
    pub(super) fn is_bounded(&self) -> bool {
        self.device.is_bounded() && self.sessions.has_reservations()
    }

    /// Returns whether a command may join the set; `urgent` of the device is kept for Urgent. An
    /// empty set has room for the earliest of the commands that wait: the device is not left idle.
    fn has_room_in_set(
        &mut self,
        now: Nanos,
        precedence: Precedence,
        work: &Work,
        urgent: Utilisation,
    ) -> bool {
        let covering = self.sessions.reservation_over(work.session);
        let account = match (covering.filter(|reserved| reserved.has_budget(now)), precedence) {
            (Some(reserved), _) => Account::Reserved(reserved.next_period(now)),
            (None, Precedence::Urgent) => Account::Urgent,
            (None, _) => Account::Rest,
        };
        self.schedule.clear();
        let mut needed = 0;
        for term in self.sessions.terms.iter() {
            let profile = term.reserved.profile();
            self.schedule.add(term.reserved.claim(now), profile);
            let set = self.device.set.worst(profile);
            needed = set.saturating_add(profile.worst(work.write, work.bytes)).max(needed);
        }
        let room = self.schedule.room(now, account, urgent);
        if needed <= room && self.leaves_slack(now, account, needed) {
            return true;
        }
        if precedence == Precedence::Urgent {
            // A reservation may be due.
            return false;
        }
        // The device is not left idle: the first of what waits in any reactor goes.
        self.device.set.is_empty() && self.schedule.is_first(account)
    }
}

impl DeviceQueue {
    /// Returns whether a set that takes `needed` ns at the worst leaves tenants with few commands
    /// at a time enough of their periods. As many commands as the disk carries out at once always
    /// may join: without them it would be idle.
    fn leaves_slack(&self, now: Nanos, account: Account, needed: u64) -> bool {
        if matches!(account, Account::Reserved(_)) || !self.device.follows_reservations() {
            return true;
        }
        let longest = self.device.longest(now);
        self.sessions.terms.iter().all(|term| {
            let reserved = &term.reserved;
            let at_once = u64::from(reserved.profile().parallelism.max(1));
            let waiting = term.session.backlog.waiting().into();
            self.device.set.commands() < at_once
                || reserved.slack(now, waiting, longest).is_none_or(|slack| needed <= slack)
        })
    }
}

impl<T: Copy> Arbiter<T> {
    /// Chooses the command that may join a device's scheduling set: `next`, or, where that is an
    /// Urgent command without room, the next one after it. `None` where none may: the room that
    /// comes free is for a reservation that is due.
    pub(super) fn joining(&mut self, now: Nanos, device: DeviceId, next: Next) -> Option<Next> {
        let urgent = Utilisation::percent(self.order.urgent_share);
        let mut next = next;
        loop {
            let (Head { work, mark, .. }, _) = self.head_of(device, &next)?;
            let Self { devices, pace, .. } = self;
            let queue = devices.kept_mut(device)?;
            let has_room = mark || queue.has_room_in_set(now, next.precedence, &work, urgent);
            queue.note_room_beside(now, has_room);
            if has_room {
                return Some(next);
            }
            if next.precedence != Precedence::Urgent {
                queue.note_full(now);
                return None;
            }
            next = queue.next_with(now, pace, false)?;
        }
    }
}
