//! The reasons for which commands wait, counted while commands are traced.
//!
//! A command of a blocked session waits for the limit or the credits that block the session. If several sessions of
//! its line are blocked, the highest one is the reason. In the rest of its wait the device has no room. That time is
//! divided by the commands that went to the device meanwhile: commands of the command's own flow and class (the window
//! alone delayed it), commands that were due by reservations of others, and all others (the order).
//!
//! Blocked time is an integral for each session, so that the command needs no look while it waits: it takes the
//! difference between its end and its begin.

use rustc_hash::FxHashMap;
use units::{Class, Nanos};

use super::device_sessions::DeviceSessions;
use super::ids::HostFlowIndex;
use crate::limit::BlockReason;
use crate::order::NodeId;
use crate::session::SessionId;

/// Sessions of a line, from the command's own one upwards, that are distinguished as the reason of a wait.
const LEVELS: usize = 6;

/// Time in ns by [`BlockReason`].
pub(super) type ByReason = [u64; 3];

pub(super) fn sum(times: ByReason) -> u64 {
    times.into_iter().fold(0, u64::saturating_add)
}

/// Returns the times of the interval between two counts.
pub(super) fn since(before: ByReason, now: ByReason) -> ByReason {
    let [before_iops, before_bandwidth, before_credits] = before;
    let [iops, bandwidth, credits] = now;
    [
        iops.saturating_sub(before_iops),
        bandwidth.saturating_sub(before_bandwidth),
        credits.saturating_sub(before_credits),
    ]
}

/// The times in which a session, or a direction of a host, was blocked and no session above it was.
#[derive(Clone, Copy, Debug, Default)]
struct BlockTimes {
    present: Option<Present>,
    ended: ByReason,
}

/// A block that has not ended.
#[derive(Clone, Copy, Debug)]
struct Present {
    reason: BlockReason,
    since: Nanos,
    /// Blocked time of the sessions above when the block began, in ns.
    above: u64,
}

impl BlockTimes {
    fn begin(&mut self, now: Nanos, reason: BlockReason, above: u64) {
        self.present.get_or_insert(Present { reason, since: now, above });
    }

    fn end(&mut self, now: Nanos, above: u64) {
        self.ended = self.until(now, above);
        self.present = None;
    }

    /// Returns the blocked time until `now`; the sessions above were blocked for `above` ns until then.
    fn until(&self, now: Nanos, above: u64) -> ByReason {
        let Some(present) = self.present else { return self.ended };
        let both = above.saturating_sub(present.above);
        let alone = now.ns_since(present.since).saturating_sub(both);
        let [mut iops, mut bandwidth, mut credits] = self.ended;
        let of = match present.reason {
            BlockReason::Iops => &mut iops,
            BlockReason::Bandwidth => &mut bandwidth,
            BlockReason::Credits => &mut credits,
        };
        *of = of.saturating_add(alone);
        [iops, bandwidth, credits]
    }
}

/// The commands of a flow and class that went to the device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dispatches {
    pub(super) all: u64,
    /// Commands among them that were due by a reservation.
    pub(super) due: u64,
}

/// The reasons for which commands wait at one device, in one reactor.
#[derive(Debug, Default)]
pub(super) struct DeviceWaits {
    sessions: FxHashMap<SessionId, BlockTimes>,
    /// Directions of hosts that limits hold back.
    directions: FxHashMap<(NodeId, bool), BlockTimes>,
    flows: FxHashMap<(HostFlowIndex, Class), Dispatches>,
    /// Commands of all flows that were due by a reservation.
    pub(super) due: u64,
    /// The time since which reservations leave no room in the device.
    reserved_since: Option<Nanos>,
    /// Time in which they left none before, in ns.
    reserved: u64,
}

/// Blocked time of the sessions of a line until some time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    pub(super) by_reason: ByReason,
    /// In ns by session, the lowest first; the last one has all sessions above it.
    pub(super) levels: [u64; LEVELS],
}

impl DeviceWaits {
    pub(super) fn block(
        &mut self,
        now: Nanos,
        places: &DeviceSessions,
        session: SessionId,
        reason: BlockReason,
    ) {
        let above = self.blocked(now, places, places.place(session).parent);
        self.sessions.entry(session).or_default().begin(now, reason, above);
    }

    pub(super) fn unblock(&mut self, now: Nanos, places: &DeviceSessions, session: SessionId) {
        let above = self.blocked(now, places, places.place(session).parent);
        if let Some(times) = self.sessions.get_mut(&session) {
            times.end(now, above);
        }
    }

    /// Notes that a limit holds back one direction of a host of a session.
    pub(super) fn hold(
        &mut self,
        now: Nanos,
        places: &DeviceSessions,
        (leaf, write): (NodeId, bool),
        reason: BlockReason,
    ) {
        let above = self.blocked(now, places, places.order.session_of(leaf));
        self.directions.entry((leaf, write)).or_default().begin(now, reason, above);
    }

    pub(super) fn release(
        &mut self,
        now: Nanos,
        places: &DeviceSessions,
        (leaf, write): (NodeId, bool),
    ) {
        let above = self.blocked(now, places, places.order.session_of(leaf));
        if let Some(times) = self.directions.get_mut(&(leaf, write)) {
            times.end(now, above);
        }
    }

    /// Forgets a host, and the sessions that have no place any more.
    pub(super) fn forget(&mut self, places: &DeviceSessions, leaf: NodeId) {
        self.directions.retain(|(other, _), _| *other != leaf);
        self.sessions.retain(|session, _| places.order.place(*session).is_some());
    }

    /// Counts a command that goes to the device.
    pub(super) fn count(&mut self, flow: HostFlowIndex, class: Class, is_due: bool) {
        let dispatches = self.flows.entry((flow, class)).or_default();
        dispatches.all += 1;
        dispatches.due += u64::from(is_due);
        self.due += u64::from(is_due);
    }

    /// Notes whether reservations leave room for one more command.
    pub(super) fn note_room_beside(&mut self, now: Nanos, has_room: bool) {
        if has_room {
            self.reserved = self.reserved_until(now);
            self.reserved_since = None;
        } else {
            self.reserved_since.get_or_insert(now);
        }
    }

    /// Returns the time in ns in which reservations left no room, until `now`.
    pub(super) fn reserved_until(&self, now: Nanos) -> u64 {
        let present = self.reserved_since.map_or(0, |since| now.ns_since(since));
        self.reserved.saturating_add(present)
    }

    /// Returns the time in ns in which a session, or one above it, was blocked.
    fn blocked(&self, now: Nanos, places: &DeviceSessions, session: Option<SessionId>) -> u64 {
        self.add_line(now, places, (session, 0), &mut Line::default())
    }

    /// Adds the blocked times of a session and those above it to a line; returns their sum.
    fn add_line(
        &self,
        now: Nanos,
        places: &DeviceSessions,
        (session, level): (Option<SessionId>, usize),
        line: &mut Line,
    ) -> u64 {
        let Some(session) = session else { return 0 };
        let parent = places.place(session).parent;
        let above = self.add_line(now, places, (parent, level + 1), line);
        let own = self.sessions.get(&session).map_or([0; 3], |times| times.until(now, above));
        for (total, own) in line.by_reason.iter_mut().zip(own) {
            *total = total.saturating_add(own);
        }
        if let Some(level) = line.levels.get_mut(level.min(LEVELS - 1)) {
            *level = level.saturating_add(sum(own));
        }
        above.saturating_add(sum(own))
    }

    /// Returns the blocked times of a session's line until `now`.
    pub(super) fn line(&self, now: Nanos, places: &DeviceSessions, session: SessionId) -> Line {
        let mut line = Line::default();
        self.add_line(now, places, (Some(session), 0), &mut line);
        line
    }

    /// Returns the times in which a direction of a host of a session was held back and the session was not blocked.
    pub(super) fn held(
        &self,
        now: Nanos,
        places: &DeviceSessions,
        session: SessionId,
        direction: (NodeId, bool),
    ) -> ByReason {
        let Some(times) = self.directions.get(&direction) else { return [0; 3] };
        times.until(now, self.blocked(now, places, Some(session)))
    }

    /// Returns the commands of a flow and class that went to the device.
    pub(super) fn dispatches(&self, flow: HostFlowIndex, class: Class) -> Dispatches {
        self.flows.get(&(flow, class)).copied().unwrap_or_default()
    }

    /// Returns whether a block of a session is counted now.
    pub(super) fn is_blocked(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|times| times.present.is_some())
    }

    /// Returns whether a direction of a host counts as held back now.
    pub(super) fn is_held(&self, direction: (NodeId, bool)) -> bool {
        self.directions.get(&direction).is_some_and(|times| times.present.is_some())
    }
}
