//! What a device's queue keeps of the sessions that have places in its trees: whether they are
//! blocked elsewhere too, their timers, and the reservations of theirs that are in force there.

use std::cmp::Reverse;
use std::sync::Arc;

use units::Nanos;

use super::queue::DeviceQueue;
use crate::order::{NONE, Place};
use crate::reservation::Reserved;

/// What a device's queue keeps of a session.
#[derive(Debug)]
pub(super) struct Standing {
    /// The session knows that it is, or was, blocked here.
    pub(super) noted: bool,
    /// When its timer runs out; [`Nanos::MAX`] where there is none.
    timer: Nanos,
    pub(super) state: ReservationState,
    /// The session whose reservation covers this one.
    pub(super) covered: u32,
    /// Its own.
    pub(super) reserved: Option<Arc<Reserved>>,
}

/// Whether a session's reservation gives its commands precedence now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReservationState {
    /// It has no reservation here.
    None,
    /// It has nothing waiting.
    Idle,
    /// It is in the heap of those that may be due.
    Due,
    /// Its budget is used up until its next period.
    Throttled,
    /// What it has waiting is blocked by a limit.
    Blocked,
}

/// What a place that was given up had elsewhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dropped {
    pub(super) session: u32,
    /// The session has it noted.
    pub(super) noted: bool,
    /// A timer runs for it.
    pub(super) timed: bool,
}

/// What is kept of a session that nothing is known of.
pub(super) const UNKNOWN: Standing = Standing {
    noted: false,
    timer: Nanos::MAX,
    state: ReservationState::None,
    covered: NONE,
    reserved: None,
};

static NOWHERE: Place<Standing> = Place::new(NONE, UNKNOWN);

impl DeviceQueue {
    #[inline]
    pub(super) fn place(&self, session: u32) -> &Place<Standing> {
        self.order.place(session).unwrap_or(&NOWHERE)
    }

    #[inline]
    pub(super) fn standing(&self, session: u32) -> &Standing {
        &self.place(session).of_owner
    }

    /// Makes a host's node below a session's. `line` is the session, and those above it up to the
    /// root.
    pub(super) fn add_flow(&mut self, line: &[u32]) -> Option<u32> {
        let Self { order, terms, due, .. } = self;
        let node = order.add_flow(line, &mut |session, above| {
            let own = terms.iter().find(|term| term.session.id().0 == session);
            let reserved = own.map(|term| Arc::clone(&term.reserved));
            let (covered, state) = if reserved.is_some() {
                due.push(Reverse((Nanos::ZERO, session)));
                (session, ReservationState::Due)
            } else {
                (above.map_or(NONE, |above| above.covered), ReservationState::None)
            };
            Standing { covered, state, reserved, ..UNKNOWN }
        })?;
        self.sync_all();
        Some(node)
    }

    /// Takes a host's node away that has nothing waiting, and the places that nobody needs now.
    pub(super) fn remove_flow(&mut self, session: u32, node: u32) {
        let Self { order, due, throttled, blocked, dropped, .. } = self;
        order.remove_flow(session, node, &mut |session, standing| {
            match standing.state {
                ReservationState::None | ReservationState::Idle => {}
                ReservationState::Due => due.retain(|Reverse((_, other))| *other != session),
                ReservationState::Throttled => {
                    throttled.retain(|Reverse((_, other))| *other != session)
                }
                ReservationState::Blocked => blocked.retain(|other| *other != session),
            }
            let (noted, timed) = (standing.noted, standing.timer != Nanos::MAX);
            if noted || timed {
                dropped.push(Dropped { session, noted, timed });
            }
        });
        self.sync_all();
    }

    /// Keeps all of a session from going on. Whether the session is to note that it is blocked
    /// here.
    pub(super) fn block(&mut self, session: u32) -> bool {
        if !self.order.block(session) {
            return false;
        }
        self.sync_all();
        let noted = self.order.of_owner(session).map(|own| std::mem::replace(&mut own.noted, true));
        noted == Some(false)
    }

    /// Lets a session go on.
    pub(super) fn unblock(&mut self, now: Nanos, session: u32) {
        if !self.order.unblock(session) {
            return;
        }
        self.sync_all();
        // Reservations below it may be due again.
        while let Some(session) = self.blocked.pop() {
            self.set_state(session, ReservationState::Due);
            self.due.push(Reverse((now, session)));
        }
    }

    /// Notes that the session has forgotten that it was blocked here.
    pub(super) fn forget_note(&mut self, session: u32) {
        if let Some(standing) = self.order.of_owner(session) {
            standing.noted = false;
        }
    }

    /// Sets a session's timer. Whether one is to be started, and whether one runs in vain now.
    pub(super) fn set_timer(&mut self, session: u32, when: Nanos) -> (bool, bool) {
        let Some(standing) = self.order.of_owner(session) else { return (false, false) };
        if standing.timer <= when {
            return (false, false);
        }
        let before = std::mem::replace(&mut standing.timer, when);
        (true, before != Nanos::MAX)
    }

    /// Whether this timer is a session's.
    pub(super) fn has_timer(&self, session: u32, when: Nanos) -> bool {
        self.standing(session).timer == when
    }

    /// A session's timer has run out.
    pub(super) fn end_timer(&mut self, session: u32) {
        if let Some(standing) = self.order.of_owner(session) {
            standing.timer = Nanos::MAX;
        }
    }
}
