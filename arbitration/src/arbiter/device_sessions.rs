//! The sessions that have flows at one device, in one reactor: whether they are blocked elsewhere
//! too, their timers, and the reservations of theirs that are in force there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use units::Nanos;

use super::held_back::HeldBack;
use super::ids::EntryId;
use super::own_order::{ByDirection, LimitTag};
use crate::order::{Hierarchy, NodeId, Place, Portion};
use crate::reservation::Reserved;
use crate::session::{HostId, Reservation, Session, SessionId};

/// State of one session in a device's queue.
#[derive(Debug)]
pub(super) struct SessionRecord {
    /// Whether the session has noted that it is, or was, blocked here.
    pub(super) noted: bool,
    /// Time at which the session's timer runs out; `None`: there is no timer.
    timer: Option<Nanos>,
    pub(super) state: ReservationState,
    /// The session whose reservation covers this one.
    pub(super) covered: Option<SessionId>,
    /// The session's own reservation.
    pub(super) reserved: Option<Arc<Reserved>>,
    /// Commands of the session that are [announced](super::Arbiter::announce).
    pub(super) announced: u32,
    /// Announced commands that the session's own reservation covers.
    pub(super) announced_below: u32,
    /// The leaves of hosts whose reads, or writes, the session's limit on them holds back.
    held: ByDirection<HeldBack>,
}

/// Whether a session's reservation gives its commands precedence now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReservationState {
    /// The session has no reservation here.
    None,
    /// The session has nothing waiting.
    Idle,
    /// The session is in the heap of sessions that may be due.
    Due,
    /// The budget is used up until the next period.
    Throttled,
    /// The session's waiting commands are blocked by a limit.
    Blocked,
}

/// References to remove from other tables for a session that no longer has a place here.
#[derive(Clone, Copy, Debug)]
pub(super) struct StaleSession {
    pub(super) session: SessionId,
    /// Whether the session has noted that it is blocked here.
    pub(super) noted: bool,
    /// Whether a timer runs for the session.
    pub(super) timed: bool,
}

/// The result of setting a session's timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetTimer {
    /// Nothing: an earlier timer runs.
    Kept,
    /// A timer has to be started.
    First,
    /// A timer has to be started, and the one before it is not needed any more.
    Earlier,
}

const NO_RECORD: SessionRecord = SessionRecord {
    noted: false,
    timer: None,
    state: ReservationState::None,
    covered: None,
    reserved: None,
    announced: 0,
    announced_below: 0,
    held: ByDirection { reads: HeldBack::NONE, writes: HeldBack::NONE },
};

/// The place of a session that has none.
static NOWHERE: Place<SessionRecord> = Place::new(None, NO_RECORD);

/// The places of the sessions that have flows at a device, those above them, and their hosts.
#[derive(Debug)]
pub(super) struct DeviceSessions {
    pub(super) reactor: u32,
    /// Whether the device has a scheduling set (see
    /// [`Device::is_bounded`](crate::device::Device::is_bounded)).
    pub(super) bounded: bool,
    pub(super) order: Hierarchy<SessionRecord, EntryId>,
    /// The reservations in force.
    pub(super) terms: Arc<[Reservation]>,
    /// Sessions that may be due: by deadline.
    pub(super) due: BinaryHeap<Reverse<(Nanos, SessionId)>>,
    /// Sessions whose budgets are used up: by the beginning of their next period.
    pub(super) throttled: BinaryHeap<Reverse<(Nanos, SessionId)>>,
    /// Sessions that may be due and are blocked by a limit.
    pub(super) blocked: Vec<SessionId>,
    /// Directions of hosts that limits hold back.
    pub(super) held: usize,
    /// References to remove from other tables for sessions that no longer have a place here.
    dropped: Vec<StaleSession>,
}

impl DeviceSessions {
    pub(super) fn new(reactor: u32, bounded: bool) -> Self {
        Self {
            reactor,
            bounded,
            order: Hierarchy::new(NO_RECORD),
            terms: Arc::default(),
            due: BinaryHeap::new(),
            throttled: BinaryHeap::new(),
            blocked: Vec::new(),
            held: 0,
            dropped: Vec::new(),
        }
    }

    /// Finds a session's place in the trees.
    #[inline]
    pub(super) fn place(&self, session: SessionId) -> &Place<SessionRecord> {
        self.order.place(session).unwrap_or(&NOWHERE)
    }

    #[inline]
    pub(super) fn record(&self, session: SessionId) -> &SessionRecord {
        &self.place(session).of_owner
    }

    /// Makes a host's node below a session's.
    pub(super) fn add_flow(&mut self, session: &Session, host: HostId) -> NodeId {
        let Self { order, terms, due, .. } = self;
        order.add_flow(session, host, &mut |session, above| {
            let own = terms.iter().find(|term| term.session.id() == session);
            let reserved = own.map(|term| Arc::clone(&term.reserved));
            let (covered, state) = if reserved.is_some() {
                due.push(Reverse((Nanos::ZERO, session)));
                (Some(session), ReservationState::Due)
            } else {
                (above.and_then(|above| above.covered), ReservationState::None)
            };
            SessionRecord { covered, state, reserved, ..NO_RECORD }
        })
    }

    /// Removes a host's node, which has nothing waiting, and the places that nobody needs now.
    pub(super) fn remove_flow(&mut self, session: SessionId, node: NodeId) {
        let Self { order, due, throttled, blocked, dropped, .. } = self;
        order.remove_flow(session, node, &mut |session, record| {
            match record.state {
                ReservationState::None | ReservationState::Idle => {}
                ReservationState::Due => due.retain(|Reverse((_, other))| *other != session),
                ReservationState::Throttled => {
                    throttled.retain(|Reverse((_, other))| *other != session)
                }
                ReservationState::Blocked => blocked.retain(|other| *other != session),
            }
            let ByDirection { reads, writes } = &record.held;
            debug_assert_eq!(
                reads.len() + writes.len(),
                0,
                "a session goes after the hosts that it holds back"
            );
            let (noted, timed) = (record.noted, record.timer.is_some());
            if noted || timed {
                dropped.push(StaleSession { session, noted, timed });
            }
        });
    }

    /// Takes the references that other tables must remove, of sessions that no longer have a place
    /// here.
    #[inline]
    pub(super) fn take_dropped(&mut self) -> Vec<StaleSession> {
        std::mem::take(&mut self.dropped)
    }

    /// Blocks a session that has a place here. Returns whether the session has yet to note that it
    /// is blocked here.
    pub(super) fn block(&mut self, session: SessionId) -> bool {
        self.order.block(session);
        self.note_blocks(session)
    }

    /// Notes that a session blocks something here. Returns whether the session has yet to note it.
    fn note_blocks(&mut self, session: SessionId) -> bool {
        let record = self.order.of_owner(session);
        record.is_some_and(|record| !std::mem::replace(&mut record.noted, true))
    }

    /// Notes that a session's limit on a direction holds a host back, whose last command of the
    /// direction has this finish tag. Returns whether the session has yet to note that it blocks
    /// something here.
    pub(super) fn hold(
        &mut self,
        session: SessionId,
        leaf: NodeId,
        write: bool,
        finish: u64,
    ) -> bool {
        if let Some(record) = self.order.of_owner(session) {
            record.held.get_mut(write).hold(leaf, finish);
            self.held += 1;
        }
        self.count_held(session, leaf, write, true);
        self.note_blocks(session)
    }

    /// Counts a host that a session's limit on a direction holds back (`is_held`), or uncounts it: in the host's session,
    /// and in the sessions above it up to the limit's.
    fn count_held(&mut self, limit: SessionId, leaf: NodeId, write: bool, is_held: bool) {
        let (mut at, mut child) = (self.order.session_of(leaf), None);
        while let Some(session) = at {
            let place = self.place(session);
            let (parent, weight) = (place.parent, place.weight());
            let Some(record) = self.order.of_owner(limit) else { return };
            child = record.held.get_mut(write).count((session, weight), child, is_held);
            at = parent.filter(|_| session != limit && child.is_some());
        }
    }

    /// Removes and returns the host that a session's limit on a direction lets go on next.
    pub(super) fn release(&mut self, session: SessionId, write: bool) -> Option<NodeId> {
        let leaf = self.order.of_owner(session)?.held.get_mut(write).release()?;
        self.held -= 1;
        self.count_held(session, leaf, write, false);
        Some(leaf)
    }

    /// Charges a host's part of a session's limit on a direction for a command: moves the finish tag
    /// of the host's last command of the direction.
    pub(super) fn charge_direction(
        &mut self,
        LimitTag { session, finish }: &mut LimitTag,
        leaf: NodeId,
        write: bool,
        cost: u32,
    ) {
        let Portion { share, .. } = self.portion_held(*session, leaf, write);
        let Some(record) = self.order.of_owner(*session) else { return };
        *finish = record.held.get_mut(write).finish(*finish, cost, share);
    }

    /// Computes a host's part of a session's limit on a direction, which it shares with the hosts that the limit holds back.
    pub(super) fn portion_held(&self, session: SessionId, leaf: NodeId, write: bool) -> Portion {
        let held = self.record(session).held.get(write);
        self.order.portion_below(leaf, session, |session| held.sharers(session))
    }

    /// Counts the hosts that a session's limit on a direction holds back.
    pub(super) fn held_by(&self, session: SessionId, write: bool) -> usize {
        self.record(session).held.get(write).len()
    }

    /// Forgets a host that a session's limit on a direction may hold back.
    pub(super) fn forget_held(&mut self, session: SessionId, leaf: NodeId, write: bool) {
        let Some(record) = self.order.of_owner(session) else { return };
        if record.held.get_mut(write).forget(leaf) {
            self.held -= 1;
            self.count_held(session, leaf, write, false);
        }
    }

    /// Unblocks a session. Returns whether it was blocked.
    pub(super) fn unblock(&mut self, now: Nanos, session: SessionId) -> bool {
        let was_blocked = self.order.unblock(session);
        if was_blocked {
            self.note_unblocked(now);
        }
        was_blocked
    }

    /// Notes that something goes on that was blocked: reservations may be due again.
    pub(super) fn note_unblocked(&mut self, now: Nanos) {
        while let Some(session) = self.blocked.pop() {
            self.set_due(now, session);
            if let Some(reserved) = self.reservation(session) {
                self.note_waiting(now, session, reserved);
            }
        }
    }

    /// Notes that the session has forgotten that it was blocked here.
    pub(super) fn forget_note(&mut self, session: SessionId) {
        if let Some(record) = self.order.of_owner(session) {
            record.noted = false;
        }
    }

    /// Sets a session's timer, unless an earlier one runs.
    pub(super) fn set_timer(&mut self, session: SessionId, when: Nanos) -> SetTimer {
        let Some(record) = self.order.of_owner(session) else {
            debug_assert!(false, "a session whose rate blocks a command has a place here");
            return SetTimer::Kept;
        };
        if record.timer.is_some_and(|timer| timer <= when) {
            return SetTimer::Kept;
        }
        match record.timer.replace(when) {
            None => SetTimer::First,
            Some(_) => SetTimer::Earlier,
        }
    }

    /// Returns whether a timer that runs out at `when` is a session's.
    pub(super) fn has_timer(&self, session: SessionId, when: Nanos) -> bool {
        self.record(session).timer == Some(when)
    }

    /// Returns whether a timer of a session runs.
    #[cfg(test)]
    pub(super) fn is_timed(&self, session: SessionId) -> bool {
        self.record(session).timer.is_some()
    }

    /// Returns whether a session's limit on a direction holds a host back, once.
    #[cfg(test)]
    pub(super) fn holds(&self, session: SessionId, leaf: NodeId, write: bool) -> bool {
        self.record(session).held.get(write).has(leaf)
    }

    /// Notes that a session's timer has run out.
    pub(super) fn end_timer(&mut self, session: SessionId) {
        if let Some(record) = self.order.of_owner(session) {
            record.timer = None;
        }
    }
}
