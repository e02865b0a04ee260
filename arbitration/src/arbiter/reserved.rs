//! The sessions at a device whose reservations are in force: which of them is due.

use std::cmp::Reverse;
use std::sync::Arc;

use units::{Class, Nanos};

use super::places::ReservationState;
use super::queue::DeviceQueue;
use crate::order::NONE;
use crate::reservation::Reserved;

impl DeviceQueue {
    /// The session whose reservation a session's commands are charged to: its own, or the nearest
    /// above it.
    #[inline]
    pub(super) fn covering(&self, session: u32) -> Option<u32> {
        if self.terms.is_empty() {
            return None;
        }
        Some(self.standing(session).covered).filter(|covering| *covering != NONE)
    }

    /// Whether any session has a reservation here.
    #[inline]
    pub(super) fn has_reservations(&self) -> bool {
        !self.terms.is_empty()
    }

    pub(super) fn reservation(&self, session: u32) -> Option<&Arc<Reserved>> {
        self.standing(session).reserved.as_ref()
    }

    /// The reservation that a session's commands are charged to.
    #[inline]
    pub(super) fn reservation_over(&self, session: u32) -> Option<&Arc<Reserved>> {
        self.reservation(self.covering(session)?)
    }

    /// Takes the reservations that are in force at the device.
    pub(super) fn adopt_reservations(&mut self, now: Nanos) {
        self.terms = self.device.reservations();
        self.due.clear();
        self.throttled.clear();
        self.blocked.clear();
        for standing in self.order.all_of_owner() {
            (standing.state, standing.covered, standing.reserved) =
                (ReservationState::None, NONE, None);
        }
        for term in self.terms.iter() {
            let session = term.session.id().0;
            if let Some(standing) = self.order.of_owner(session) {
                standing.state = ReservationState::Due;
                standing.reserved = Some(Arc::clone(&term.reserved));
                self.due.push(Reverse((now, session)));
            }
        }
        if self.terms.is_empty() {
            return;
        }
        let sessions: Vec<u32> = self.order.sessions().collect();
        for session in sessions {
            let up = |at: &u32| Some(self.place(*at).parent).filter(|parent| *parent != NONE);
            let mut line = std::iter::successors(Some(session), up);
            let covering = line.find(|at| self.reservation(*at).is_some()).unwrap_or(NONE);
            if let Some(standing) = self.order.of_owner(session) {
                standing.covered = covering;
            }
        }
    }

    pub(super) fn set_state(&mut self, session: u32, state: ReservationState) {
        if let Some(standing) = self.order.of_owner(session) {
            standing.state = state;
        }
    }

    /// A command of a session with a reservation has come.
    pub(super) fn note_demand(&mut self, now: Nanos, session: u32) {
        let Some(session) = self.covering(session) else { return };
        if let Some(reserved) = self.reservation(session) {
            reserved.note_demand(now);
        }
        if self.standing(session).state == ReservationState::Idle {
            self.set_state(session, ReservationState::Due);
            self.due.push(Reverse((now, session)));
        }
    }

    /// The session whose reservation is due, the one with the earliest deadline first
    /// (docs/sources.md, F3: reservations are kept), and the class of the first command it has
    /// here.
    pub(super) fn next_due(&mut self, now: Nanos) -> Option<(u32, Class)> {
        while let Some(&Reverse((when, session))) = self.throttled.peek() {
            if when > now {
                break;
            }
            self.throttled.pop();
            if self.standing(session).state != ReservationState::Throttled {
                continue;
            }
            self.set_state(session, ReservationState::Due);
            self.due.push(Reverse((now, session)));
        }
        while let Some(&Reverse((key, session))) = self.due.peek() {
            if self.standing(session).state != ReservationState::Due {
                // It is gone, or was moved.
                self.due.pop();
                continue;
            }
            let (top, blocked) = (self.place(session).top(), self.place(session).is_blocked());
            let class = Class::ALL.into_iter().find(|c| self.order.has_work(*c, top));
            let Some(class) = class else {
                self.due.pop();
                if blocked {
                    self.set_state(session, ReservationState::Blocked);
                    self.blocked.push(session);
                } else {
                    self.set_state(session, ReservationState::Idle);
                }
                continue;
            };
            let reserved = self.reservation(session)?;
            match reserved.due(now) {
                Some(deadline) if deadline == key => return Some((session, class)),
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

    /// A command of a session with a reservation has gone, or was withdrawn.
    pub(super) fn note_gone(&mut self, now: Nanos, session: u32) {
        let Some(session) = self.covering(session) else { return };
        let top = self.place(session).top();
        let waits = Class::ALL.into_iter().any(|c| self.order.has_work(c, top));
        if let Some(reserved) = self.reservation(session) {
            if waits { reserved.note_demand(now) } else { reserved.note_idle(now) }
        }
    }

    /// The session that [`Self::next`] found due is held up by a limit above it.
    pub(super) fn block_due(&mut self) {
        if let Some(Reverse((_, session))) = self.due.pop() {
            self.set_state(session, ReservationState::Blocked);
            self.blocked.push(session);
        }
    }

    /// Whether reservations may be due.
    pub(super) fn has_due(&self) -> bool {
        !self.due.is_empty() || !self.throttled.is_empty()
    }
}
