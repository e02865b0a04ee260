//! The stages composed: one [`Arbiter`] for each reactor, over [`Device`]s and
//! [`Session`](crate::session::Session)s that all reactors share.
//!
//! A command is [enqueued](Arbiter::enqueue) with its flow (a host on a session at a device) and
//! its class. It is [pulled](Arbiter::pull) when S2 to S5 allow it, and
//! [completed](Arbiter::complete) with the [`Grant`] of its dispatch. No command is lost or
//! dispatched twice, whatever changes meanwhile.
//!
//! An arbiter knows only the sessions and devices of its own flows: changes elsewhere cost it
//! nothing. A change is announced by name ([`touch_session`](Arbiter::touch_session),
//! [`touch_device`](Arbiter::touch_device)), and is [carried out](Arbiter::settle) in steps of
//! bounded work, for a reactor has other things to do.
//!
//! Each part of the arbiter owns its data and knows nothing of the arbiter: the commands that wait
//! (`entries`), flows, sessions with their credit sets, devices with their queues and the own orders
//! of hosts, timers, changes under way. This file composes them; the files of the arbiter's
//! operations (`attach`, `enqueue`, `dispatch`, `dispatch_elevator`, `pull`, `complete`, `settle`)
//! carry a command, or a change, from part to part.
//!
//! The property tests in `tests/` and `churn.rs` check the combined guarantees of the stages; the
//! models in `interleavings.rs` check the protocols between reactors.

mod attach;
mod bounded;
mod changes;
#[cfg(test)]
mod churn;
mod complete;
mod credit_sets;
mod device_sessions;
mod devices;
mod dispatch;
mod dispatch_elevator;
mod elevator;
mod enqueue;
mod entries;
mod explain;
mod flows;
mod grant;
mod held_back;
mod ids;
mod own_order;
mod pull;
mod queue;
mod reserved;
mod samples;
mod sessions;
mod settle;
mod shares;
mod submission;
mod table;
#[cfg(test)]
mod tests;
mod timers;
mod waiters;
mod waits;

use crate::sync::AtomicU64;
use std::sync::Arc;

use crate::device::{Device, REACTORS_MAX};
use crate::order::Pace;
use crate::reactors::Reactors;
use crate::session::SessionId;
use crate::settings::OrderSettings;

use changes::Changes;
use devices::Devices;
use entries::Entries;
pub use explain::{Waited, Watch};
use flows::Flows;
pub use grant::Grant;
pub use ids::{Announced, DeviceId, EntryId, HostFlowId};
pub use own_order::WeightedQueue;
pub use pull::Pull;
use queue::DeviceQueue;
use sessions::LocalSessions;
pub use submission::{Dispatched, Submission};
use timers::Timers;
pub use waiters::Waiters;

/// Sessions, and flows, for which there are places from the start: so that no table is copied
/// into a larger one in the middle of the work. Memory that is not used is not taken.
const PLACES: usize = 1 << 14;

/// The stages of one reactor. See the module's documentation.
#[derive(Debug)]
pub struct Arbiter<T: Copy> {
    reactor: u32,
    order: OrderSettings,
    /// Charges of the order for commands.
    pace: Pace,
    waiters: Arc<Waiters>,
    /// The sessions that have flows or commands here, and those above them.
    sessions: LocalSessions,
    devices: Devices,
    flows: Flows,
    entries: Entries<T>,
    timers: Timers,
    /// Changes that are not carried out yet.
    changes: Changes,
    wake: Reactors,
    /// Reactors to wake that the devices' queues have noted, one bit each.
    woken: Arc<AtomicU64>,
    /// Commands that wait in a queue or an elevator.
    waiting: usize,
    /// Whether the reasons of waits are counted.
    counts_waits: bool,
    /// Sessions, flows and devices that a change made the arbiter look at.
    #[cfg(test)]
    visits: usize,
}

impl<T: Copy> Arbiter<T> {
    /// Makes the arbiter of reactor number `reactor` (below 64), with places for `entries`
    /// commands.
    #[must_use]
    pub fn new(reactor: u32, order: &OrderSettings, waiters: Arc<Waiters>, entries: usize) -> Self {
        debug_assert!((reactor as usize) < REACTORS_MAX);
        Self {
            reactor,
            order: *order,
            pace: Pace::new(order),
            waiters,
            sessions: LocalSessions::with_capacity(PLACES),
            devices: Devices::with_capacity(PLACES),
            flows: Flows::with_capacity(2 * PLACES),
            entries: Entries::with_capacity(entries),
            timers: Timers::default(),
            changes: Changes::default(),
            wake: Reactors::NONE,
            woken: Arc::default(),
            waiting: 0,
            counts_waits: false,
            #[cfg(test)]
            visits: 0,
        }
    }

    /// Counts the commands that have not been dispatched.
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Takes new settings of the order between the classes.
    pub fn set_order(&mut self, order: &OrderSettings) {
        (self.order, self.pace) = (*order, Pace::new(order));
    }

    /// Counts the objects that the arbiter visits for a change.
    #[inline]
    fn visit(&mut self, things: usize) {
        #[cfg(test)]
        {
            self.visits += things;
        }
        #[cfg(not(test))]
        let _ = things;
    }

    /// Adds a device.
    pub fn add_device(&mut self, id: DeviceId, device: Arc<Device>) {
        if device.rules.containers.is_some() {
            self.entries.make_located();
        }
        let mut queue = DeviceQueue::new(self.reactor, device, Arc::clone(&self.woken));
        queue.waits = self.counts_waits.then(Box::default);
        self.devices.insert(id, queue);
    }

    /// Finds a device.
    #[must_use]
    pub fn device(&self, id: DeviceId) -> Option<&Arc<Device>> {
        Some(&self.devices.get(id)?.device)
    }

    /// Counts one command that waits less.
    #[inline]
    fn uncount(&mut self) {
        debug_assert!(self.waiting > 0, "a command that waits is counted once");
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// Counts one flow or command of a session less. The session goes with the last.
    #[inline]
    fn leave_session(&mut self, session: SessionId) {
        if self.sessions.uncount(session) {
            self.forget_sessions(session);
        }
    }

    /// Forgets a session, and those above it that nothing else is below.
    #[cold]
    fn forget_sessions(&mut self, session: SessionId) {
        let mut unused = Some(session);
        while let Some(session) = unused {
            self.visit(1);
            self.changes.step_over_session(&self.sessions, session);
            unused = self.sessions.remove(session);
        }
    }
}
