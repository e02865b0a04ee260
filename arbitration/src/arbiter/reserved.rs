//! Reservations that are in force at a device: which session is due.

use std::cmp::Reverse;
use std::sync::Arc;

use units::{Class, Nanos};

use super::device_sessions::{DeviceSessions, ReservationState};
use crate::order::NodeId;
use crate::reservation::{Charge, Reserved};
use crate::session::{Reservation, SessionId};

/// A session whose reservation is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct DueSession {
    /// The class of the first command that the session has here.
    pub(super) class: Class,
    /// The node that all of the session is below.
    pub(super) top: NodeId,
}

impl DeviceSessions {
    /// Finds the session whose reservation a session's commands are charged to: its own, or the
    /// nearest above it.
    #[inline]
    pub(super) fn covering(&self, session: SessionId) -> Option<SessionId> {
        if self.terms.is_empty() {
            return None;
        }
        self.record(session).covered
    }

    /// Returns whether any session has a reservation here.
    #[inline]
    pub(super) fn has_reservations(&self) -> bool {
        !self.terms.is_empty()
    }

    /// Finds a session's own reservation.
    pub(super) fn reservation(&self, session: SessionId) -> Option<&Arc<Reserved>> {
        self.record(session).reserved.as_ref()
    }

    /// Finds the reservation that a session's commands are charged to.
    #[inline]
    pub(super) fn reservation_over(&self, session: SessionId) -> Option<&Arc<Reserved>> {
        self.reservation_of(self.covering(session)?)
    }

    /// Finds the reservation that a command of a session was charged to: the session may have come
    /// below another since.
    #[inline]
    pub(super) fn charged_by(&self, session: SessionId, charge: &Charge) -> Option<&Arc<Reserved>> {
        if let Some(reserved) = self.reservation_over(session)
            && reserved.made(charge)
        {
            return Some(reserved);
        }
        let made = |term: &&Reservation| term.reserved.made(charge);
        self.terms.iter().find(made).map(|term| &term.reserved)
    }

    /// Finds the reservation of a session that has one.
    #[inline]
    fn reservation_of(&self, session: SessionId) -> Option<&Arc<Reserved>> {
        let reserved = self.reservation(session);
        debug_assert!(reserved.is_some(), "what covers sessions, or is due, is a reservation");
        reserved
    }

    /// Replaces the reservations that are in force.
    pub(super) fn adopt_reservations(&mut self, now: Nanos, terms: Arc<[Reservation]>) {
        let before = std::mem::replace(&mut self.terms, terms);
        for old in before.iter() {
            if !self.terms.iter().any(|new| Arc::ptr_eq(&new.reserved, &old.reserved)) {
                old.reserved.note_idle(now, self.reactor);
                old.reserved.note_announced(now, self.reactor, false);
            }
        }
        self.due.clear();
        self.throttled.clear();
        self.blocked.clear();
        for record in self.order.all_of_owner() {
            (record.state, record.covered, record.reserved) = (ReservationState::None, None, None);
            record.announced_below = 0;
        }
        for term in self.terms.iter() {
            let session = term.session.id();
            if let Some(record) = self.order.of_owner(session) {
                record.state = ReservationState::Due;
                record.reserved = Some(Arc::clone(&term.reserved));
                self.due.push(Reverse((now, session)));
            }
        }
        if self.terms.is_empty() {
            return;
        }
        let sessions: Vec<SessionId> = self.order.sessions().collect();
        for session in sessions {
            let mut line = std::iter::successors(Some(session), |at| self.place(*at).parent);
            let covering = line.find(|at| self.reservation(*at).is_some());
            let Some(record) = self.order.of_owner(session) else { continue };
            record.covered = covering;
            let announced = record.announced;
            if let Some(covering) = covering.and_then(|covering| self.order.of_owner(covering)) {
                covering.announced_below += announced;
            }
        }
        for term in Arc::clone(&self.terms).iter() {
            self.note_waiting(now, term.session.id(), &term.reserved);
        }
    }

    /// Tells a reservation whether commands wait here for which it is.
    pub(super) fn note_waiting(&self, now: Nanos, session: SessionId, reserved: &Reserved) {
        let top = self.place(session).top();
        match top.is_some_and(|top| self.first_class(top).is_some()) {
            true => reserved.note_demand(now, self.reactor),
            false => reserved.note_idle(now, self.reactor),
        }
        let record = self.record(session);
        if record.announced_below > 0 {
            let is_demand = record.state != ReservationState::Blocked;
            reserved.note_announced(now, self.reactor, is_demand);
        }
    }

    /// Announces a command of a session. Returns false if no reservation covers the session.
    pub(super) fn announce(&mut self, now: Nanos, session: SessionId) -> bool {
        let Some(covering) = self.covering(session) else { return false };
        if let Some(record) = self.order.of_owner(session) {
            record.announced += 1;
        }
        if let Some(record) = self.order.of_owner(covering) {
            record.announced_below += 1;
        }
        if let Some(reserved) = self.reservation_of(covering)
            && self.record(covering).state != ReservationState::Blocked
        {
            reserved.note_announced(now, self.reactor, true);
        }
        true
    }

    /// Notes that an announced command of a session has come, or will not.
    pub(super) fn end_announced(&mut self, now: Nanos, session: SessionId) {
        if let Some(record) = self.order.of_owner(session) {
            record.announced = record.announced.saturating_sub(1);
        }
        let Some(covering) = self.covering(session) else { return };
        let Some(record) = self.order.of_owner(covering) else { return };
        record.announced_below = record.announced_below.saturating_sub(1);
        if record.announced_below == 0
            && let Some(reserved) = self.reservation_of(covering)
        {
            reserved.note_announced(now, self.reactor, false);
        }
    }

    /// Finds the first class of which something below a node may go on.
    fn first_class(&self, top: NodeId) -> Option<Class> {
        Class::ALL.into_iter().find(|class| self.order.has_work(*class, top))
    }

    fn set_state(&mut self, session: SessionId, state: ReservationState) {
        if let Some(record) = self.order.of_owner(session) {
            record.state = state;
        }
    }

    /// Adds a session to the sessions that may be due.
    pub(super) fn set_due(&mut self, now: Nanos, session: SessionId) {
        self.set_state(session, ReservationState::Due);
        self.due.push(Reverse((now, session)));
    }

    /// Notes that a command of a session has come, which arrived at the target at that time: its
    /// reservation has demand.
    pub(super) fn note_demand(&mut self, (now, arrived): (Nanos, Nanos), session: SessionId) {
        let Some(session) = self.covering(session) else { return };
        if self.held > 0 && self.record(session).state == ReservationState::Blocked {
            // A new command may pass the commands that a limit on its direction holds back.
            let place = self.place(session);
            if !place.is_blocked() && place.top().is_some_and(|top| self.first_class(top).is_some())
            {
                self.blocked.retain(|other| *other != session);
                self.set_state(session, ReservationState::Idle);
            }
        }
        if let Some(reserved) = self.reservation_of(session)
            && self.record(session).state != ReservationState::Blocked
        {
            reserved.note_demand_since(now, arrived, self.reactor);
        }
        if self.record(session).state == ReservationState::Idle {
            self.set_due(now, session);
        }
    }

    /// Finds the session whose reservation is due, the one with the earliest deadline first
    /// (docs/research/sources.md, F3: reservations are kept).
    pub(super) fn next_due(&mut self, now: Nanos) -> Option<DueSession> {
        while let Some(&Reverse((when, session))) = self.throttled.peek() {
            // A completion in a set can release device time at any moment, in any reactor.
            if when > now && !self.bounded {
                break;
            }
            self.throttled.pop();
            if self.record(session).state != ReservationState::Throttled {
                continue;
            }
            self.set_due(now, session);
        }
        while let Some(&Reverse((key, session))) = self.due.peek() {
            if self.record(session).state != ReservationState::Due {
                // The session's state has changed since the entry was made.
                self.due.pop();
                continue;
            }
            let (top, blocked) = (self.place(session).top(), self.place(session).is_blocked());
            let found = top.and_then(|top| Some(DueSession { class: self.first_class(top)?, top }));
            let Some(found) = found else {
                self.due.pop();
                // If a limit on a direction holds hosts back, some of them may be the session's.
                if blocked || self.held > 0 {
                    self.note_blocked(now, session);
                } else {
                    self.set_state(session, ReservationState::Idle);
                }
                continue;
            };
            let reserved = self.reservation_of(session)?;
            reserved.note_demand(now, self.reactor);
            match reserved.due(now) {
                Some(deadline) if deadline == key => return Some(found),
                Some(deadline) => {
                    self.due.pop();
                    self.due.push(Reverse((deadline, session)));
                }
                None => {
                    let next = reserved.again(now);
                    self.due.pop();
                    self.set_state(session, ReservationState::Throttled);
                    self.throttled.push(Reverse((next, session)));
                }
            }
        }
        None
    }

    /// Notes that a command of a session has gone, or was withdrawn.
    pub(super) fn note_gone(&mut self, now: Nanos, session: SessionId) {
        let Some(session) = self.covering(session) else { return };
        if let Some(reserved) = self.reservation_of(session) {
            self.note_waiting(now, session, reserved);
        }
    }

    /// Notes that a limit or the credits of `blocker` block the session that [`Self::next_due`] found. Above the session
    /// with the reservation, its commands remain demand: others have used them up.
    pub(super) fn block_due(&mut self, now: Nanos, blocker: SessionId) {
        let due = self.due.pop();
        debug_assert!(due.is_some(), "the due session is the first candidate");
        if let Some(Reverse((_, session))) = due {
            let mut above =
                std::iter::successors(self.place(session).parent, |at| self.place(*at).parent);
            let is_foreign = above.any(|at| at == blocker);
            self.set_blocked(session);
            if !is_foreign {
                self.note_held(now, session);
            }
        }
    }

    /// Notes that a limit of its own blocks the waiting commands of a session with a reservation. The
    /// reservation has no demand meanwhile.
    fn note_blocked(&mut self, now: Nanos, session: SessionId) {
        self.set_blocked(session);
        self.note_held(now, session);
    }

    fn set_blocked(&mut self, session: SessionId) {
        self.set_state(session, ReservationState::Blocked);
        self.blocked.push(session);
    }

    fn note_held(&self, now: Nanos, session: SessionId) {
        if let Some(reserved) = self.reservation_of(session) {
            reserved.note_idle(now, self.reactor);
            reserved.note_announced(now, self.reactor, false);
        }
    }

    /// Returns when the next reservation whose budget is ahead of its period may be due.
    pub(super) fn next_throttled(&self) -> Option<Nanos> {
        self.throttled.peek().map(|Reverse((when, _))| *when)
    }

    /// Returns whether reservations may be due.
    pub(super) fn has_due(&self) -> bool {
        !self.due.is_empty() || !self.throttled.is_empty()
    }
}
