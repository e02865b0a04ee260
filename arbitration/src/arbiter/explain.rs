//! The reasons for which a command waited for its turn, as its caller asks for them.

use std::sync::Arc;

use units::{Class, Nanos};

use super::Arbiter;
use super::flows::HostFlow;
use super::ids::{DeviceId, EntryId, HostFlowIndex};
use super::waits::{ByReason, Dispatches, Line, since, sum};
use crate::limit::BlockReason;
use crate::order::NodeId;
use crate::session::{Session, SessionId};

/// The counts when a command began to wait.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    device: DeviceId,
    session: SessionId,
    flow: HostFlowIndex,
    leaf: NodeId,
    class: Class,
    write: bool,
    since: Nanos,
    line: Line,
    held: ByReason,
    own: Dispatches,
    /// Commands of all reactors that went to the device.
    all: u64,
    due: u64,
    reserved: u64,
}

/// The reasons for which a command waited for its turn at its device, in ns each. Their sum is the wait.
#[derive(Clone, Debug, Default)]
pub struct Waited {
    /// Limits on commands per second.
    pub iops: u64,
    /// Limits on bytes per second.
    pub bandwidth: u64,
    /// Credits of sessions.
    pub credits: u64,
    /// Reservations of other tenants.
    pub reservation: u64,
    /// The turns of others.
    pub order: u64,
    /// The device's window.
    pub window: u64,
    /// The session whose limit or credits delayed the command most; `None`: none did.
    pub session: Option<Arc<Session>>,
}

impl<T: Copy> Arbiter<T> {
    /// Begins or ends counting the reasons of waits.
    pub fn count_waits(&mut self, counts: bool) {
        self.counts_waits = counts;
        for queue in self.devices.iter_mut() {
            queue.waits = counts.then(Box::default);
        }
    }

    /// Returns the present counts for a command that begins to wait. `None` if waits are not counted.
    pub fn watch(&mut self, now: Nanos, entry: EntryId) -> Option<Watch> {
        let entry = self.entries.get(entry)?;
        let (flow, class, write) = (entry.flow, entry.class, entry.write);
        let &HostFlow { device, session, node: leaf, .. } = self.flows.at(flow);
        self.note_present_blocks(now, device, session, (leaf, write));
        let queue = self.devices.get(device)?;
        let waits = queue.waits.as_deref()?;
        Some(Watch {
            device,
            session,
            flow,
            leaf,
            class,
            write,
            since: now,
            line: waits.line(now, &queue.sessions, session),
            held: waits.held(now, &queue.sessions, session, (leaf, write)),
            own: waits.dispatches(flow, class),
            all: queue.device.dispatched(),
            due: waits.due,
            reserved: waits.reserved_until(now),
        })
    }

    /// Notes the sessions of a line that were blocked when counting began.
    fn note_present_blocks(
        &mut self,
        now: Nanos,
        device: DeviceId,
        session: SessionId,
        (leaf, write): (NodeId, bool),
    ) {
        let Self { devices, sessions, .. } = self;
        let Some(queue) = devices.get_mut(device) else { return };
        let Some(waits) = &mut queue.waits else { return };
        let mut at = Some(session);
        while let Some(session) = at {
            let place = queue.sessions.place(session);
            if place.is_blocked() && !waits.is_blocked(session) {
                let limited = sessions.get(session).map(|local| &local.session);
                let reason = limited.map_or(BlockReason::Credits, |of| of.present_block(now));
                waits.block(now, &queue.sessions, session, reason);
            }
            at = place.parent;
        }
        if let Some(by) = queue.own.held_by(leaf, write)
            && !waits.is_held((leaf, write))
        {
            let limited = sessions.get(by).map(|local| &local.session);
            let reason = limited.map_or(BlockReason::Bandwidth, |of| of.slower_limit(Some(write)));
            waits.hold(now, &queue.sessions, (leaf, write), reason);
        }
    }

    /// Divides the time that a command has waited since [`Self::watch`] by its reasons.
    #[must_use]
    pub fn explain(&self, now: Nanos, watch: &Watch) -> Waited {
        let wait = now.ns_since(watch.since);
        let queue = self.devices.get(watch.device);
        let Some((queue, waits)) = queue.and_then(|q| Some((q, q.waits.as_deref()?))) else {
            return Waited { order: wait, ..Waited::default() };
        };
        let line = waits.line(now, &queue.sessions, watch.session);
        let held = waits.held(now, &queue.sessions, watch.session, (watch.leaf, watch.write));
        let held = since(watch.held, held);
        let [iops, bandwidth, credits] = since(watch.line.by_reason, line.by_reason);
        let [held_iops, held_bandwidth, held_credits] = held;
        let mut rest = wait;
        let mut take = |time: u64| {
            let taken = time.min(rest);
            rest -= taken;
            taken
        };
        let iops = take(iops.saturating_add(held_iops));
        let bandwidth = take(bandwidth.saturating_add(held_bandwidth));
        let credits = take(credits.saturating_add(held_credits));
        let beside = take(waits.reserved_until(now).saturating_sub(watch.reserved));
        let own = waits.dispatches(watch.flow, watch.class);
        let all = queue.device.dispatched().saturating_sub(watch.all);
        let own_due = own.due.saturating_sub(watch.own.due);
        let own = own.all.saturating_sub(watch.own.all);
        let due = waits.due.saturating_sub(watch.due).saturating_sub(own_due);
        let part = |commands: u64| {
            let all = u128::from(all.max(commands));
            let part = (u128::from(rest) * u128::from(commands)).checked_div(all).unwrap_or(0);
            u64::try_from(part).unwrap_or(rest)
        };
        // A command that waits while the device takes none waits for room.
        let window = if all == 0 { rest } else { part(own) };
        let reserved = part(due).min(rest - window);
        Waited {
            iops,
            bandwidth,
            credits,
            reservation: beside + reserved,
            order: rest - window - reserved,
            window,
            session: self.blamed(watch, &line, sum(held)),
        }
    }

    /// Returns the session that blocked a command for the longest time.
    fn blamed(&self, watch: &Watch, line: &Line, held: u64) -> Option<Arc<Session>> {
        let queue = self.devices.get(watch.device)?;
        let levels = line.levels.iter().zip(watch.line.levels);
        let levels = levels.map(|(now, before)| now.saturating_sub(before));
        let (level, longest) = levels.enumerate().max_by_key(|(_, time)| *time)?;
        if held.max(longest) == 0 {
            return None;
        }
        let mut session = watch.session;
        if held > longest {
            session = queue.own.limited_by(watch.leaf, watch.write)?;
        } else {
            for _ in 0..level {
                session = queue.sessions.place(session).parent?;
            }
        }
        Some(Arc::clone(&self.sessions.get(session)?.session))
    }
}
