//! The stages composed: one [`Arbiter`] for each reactor, over [`Device`]s and [`Session`]s that
//! all reactors share.
//!
//! A command is [enqueued](Arbiter::enqueue) with its flow (a host on a session at a device) and
//! its class, is [pulled](Arbiter::pull) when S2 to S5 let it go, and is
//! [completed](Arbiter::complete) with the [`Grant`] that it was dispatched with. Nothing is lost
//! and nothing is dispatched twice, whatever changes meanwhile.
//!
//! An arbiter knows the sessions and devices that its flows are of, and no others: what comes and
//! goes elsewhere costs it nothing. What changes is said by name
//! ([`touch_session`](Arbiter::touch_session), [`touch_device`](Arbiter::touch_device)), and is
//! [carried out](Arbiter::settle) in steps of bounded work, for a reactor has other things to do.
//!
//! What the sequence guarantees is proved by the property tests in `tests/` and `churn.rs`, and what
//! reactors say to each other by the models in `interleavings.rs`.

mod changes;
mod chosen;
#[cfg(test)]
mod churn;
mod complete;
mod dispatch;
mod enqueue;
mod flows;
mod grant;
mod places;
mod pull;
mod queue;
mod reserved;
mod samples;
mod sessions;
mod slab;
#[cfg(test)]
mod tests;
mod waiters;

use crate::sync::AtomicU64;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use units::{Class, Nanos};

use crate::credit::Cost;
use crate::device::{Device, REACTORS_MAX};
use crate::order::Pace;
use crate::reactors::Reactors;
use crate::reservation::Charge;
use crate::session::{Session, SessionId};
use crate::settings::OrderSettings;

use changes::Changes;
pub use pull::Pull;
use queue::DeviceQueue;
use sessions::{Kin, LocalSession};
use slab::{Key, Slab};
pub use waiters::Waiters;

/// A device's place in an arbiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceId(pub u32);

/// A host's commands on one session's account at one device. It names nothing any more when they
/// have gone, and never others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId(Key);

/// A command that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryId(u32);

/// A command that asks to go on.
#[derive(Clone, Copy, Debug)]
pub struct Request<T> {
    /// What the caller knows it by.
    pub item: T,
    /// Whether it changes the device.
    pub write: bool,
    /// Bytes that it moves.
    pub bytes: u32,
    /// Operation credits that it takes: 1 for a user's command (docs/sources.md, D2: credits bound
    /// what runs).
    pub operations: u32,
    /// Its first block, and how many, for devices that order by place.
    pub lba: u64,
    /// Number of blocks.
    pub blocks: u32,
}

impl<T> Request<T> {
    /// A user's command.
    #[must_use]
    pub fn user(item: T, write: bool, bytes: u32) -> Self {
        Self { item, write, bytes, operations: 1, lba: 0, blocks: 0 }
    }
}

/// A command that may go to its device now.
#[derive(Debug)]
pub struct Dispatched<T> {
    /// What the caller knows it by.
    pub item: T,
    /// The device that it goes to.
    pub device: DeviceId,
    /// Its class.
    pub class: Class,
    /// How long it waited, in ns.
    pub waited_ns: u64,
    /// To be given back when it is over.
    pub grant: Grant,
}

/// What a command holds while it is in its device. Give it back with [`Arbiter::complete`].
#[derive(Debug)]
#[must_use = "credits and window are lost unless the grant is given back"]
pub struct Grant {
    device: u32,
    session: u32,
    set: u32,
    price: u32,
    cost: Cost,
    write: bool,
    bytes: u32,
    at: Nanos,
    charged: Option<Charged>,
}

/// What a reservation was charged for a command.
#[derive(Clone, Copy, Debug)]
struct Charged {
    charge: Charge,
    /// The flow by which the reservation is found.
    flow: FlowId,
}

impl Grant {
    /// When it was dispatched.
    #[must_use]
    pub fn at(&self) -> Nanos {
        self.at
    }

    /// The session that it is charged to.
    #[must_use]
    pub fn session(&self) -> SessionId {
        SessionId(self.session)
    }
}

/// A session and those above it whose credits are bounded, while commands hold such credits.
#[derive(Debug)]
struct CreditSet {
    chain: Vec<Arc<Session>>,
    held: u32,
    /// Its session's commands take from it.
    current: bool,
}

/// A host on a session at a device.
#[derive(Clone, Copy, Debug)]
struct Flow {
    device: u32,
    session: u32,
    host: u64,
    node: u32,
    references: u32,
    waiting: u32,
    /// Neither limits nor bounded credits nor a reservation nor an order by place: with nothing
    /// waiting, its commands need only room in the window.
    plain: bool,
    /// Commands in the device that were charged to a reservation.
    charged: u32,
    /// Neighbours among those at the device.
    at_device: Neighbours,
    /// Neighbours among those of the session.
    of_session: Neighbours,
}

/// Neighbours in a list.
#[derive(Clone, Copy, Debug)]
struct Neighbours {
    prev: u32,
    next: u32,
}

/// A command in the arbiter: what every command needs, in one cache line.
#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    /// Neighbours in its flow's queue; of the first there is no telling what is before it.
    prev: u32,
    next: u32,
    flow: u32,
    bytes: u32,
    operations: u32,
    class: Class,
    write: bool,
    /// In the set that is ordered by place.
    chosen: bool,
    entered: Nanos,
    /// None: an output mark (docs/sources.md, I1: outputs end containers), which takes its turn and
    /// goes nowhere.
    item: Option<T>,
}

/// Of a command at a device that is ordered by place.
#[derive(Clone, Copy, Debug, Default)]
struct Located {
    lba: u64,
    blocks: u32,
    held: Option<Held>,
}

/// What a command holds that is in the set that is ordered by place.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// Its name in the set.
    id: u32,
    /// Credits.
    set: u32,
    charge: Option<Charge>,
}

/// Sessions, and flows, for which there are places from the start: so that no table is copied
/// into a larger one in the middle of the work. Memory that is not used is not taken.
const PLACES: usize = 1 << 14;

/// The stages of one reactor. See the module's documentation.
#[derive(Debug)]
pub struct Arbiter<T: Copy> {
    reactor: u32,
    order: OrderSettings,
    /// Of the order.
    pace: Pace,
    waiters: Arc<Waiters>,
    /// By place: the sessions that have flows or commands here, and those above them.
    sessions: Vec<LocalSession>,
    /// By place: what is not needed for each command.
    kin: Vec<Kin>,
    sets: Vec<Option<CreditSet>>,
    free_sets: Vec<u32>,
    devices: Vec<Option<DeviceQueue>>,
    /// Devices at which commands wait, or waited until lately.
    active: Vec<u32>,
    /// The one of them that is asked next for a command.
    turn: usize,
    flows: Slab<Flow>,
    /// By device, session and host.
    flow_places: FxHashMap<(u32, u32, u64), u32>,
    entries: Slab<Entry<T>>,
    /// By entry; nothing where no device is ordered by place.
    located: Vec<Located>,
    /// Sessions that wait for their rate: when, device, session.
    timers: BinaryHeap<Reverse<(Nanos, u32, u32)>>,
    /// Timers of what has gone.
    idle_timers: usize,
    /// What is still to be looked at.
    changes: Changes,
    /// Reactors that have something to do again.
    wake: Reactors,
    /// Those whose devices' queues say so, one bit each.
    woken: Arc<AtomicU64>,
    /// Commands that wait or are chosen.
    waiting: usize,
    /// Sessions, flows and devices that a change made it look at.
    #[cfg(test)]
    visits: usize,
}

impl<T: Copy> Arbiter<T> {
    /// The arbiter of reactor number `reactor` (below 64); places for `entries` commands are
    /// made at once.
    #[must_use]
    pub fn new(reactor: u32, order: &OrderSettings, waiters: Arc<Waiters>, entries: usize) -> Self {
        debug_assert!((reactor as usize) < REACTORS_MAX);
        Self {
            reactor,
            order: *order,
            pace: Pace::new(order),
            waiters,
            sessions: Vec::with_capacity(PLACES),
            kin: Vec::with_capacity(PLACES),
            sets: Vec::new(),
            free_sets: Vec::new(),
            devices: Vec::with_capacity(PLACES),
            active: Vec::with_capacity(64),
            turn: 0,
            flows: Slab::with_capacity(2 * PLACES),
            flow_places: FxHashMap::with_capacity_and_hasher(2 * PLACES, rustc_hash::FxBuildHasher),
            entries: Slab::with_capacity(entries),
            located: Vec::new(),
            timers: BinaryHeap::new(),
            idle_timers: 0,
            changes: Changes::default(),
            wake: Reactors::NONE,
            woken: Arc::default(),
            waiting: 0,
            #[cfg(test)]
            visits: 0,
        }
    }

    /// Commands that have not been dispatched.
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Takes new settings of the order between the classes.
    pub fn set_order(&mut self, order: &OrderSettings) {
        (self.order, self.pace) = (*order, Pace::new(order));
    }

    /// Counts what a change makes the arbiter look at.
    #[inline]
    fn visit(&mut self) {
        #[cfg(test)]
        {
            self.visits += 1;
        }
    }

    /// Adds a device.
    pub fn add_device(&mut self, id: DeviceId, device: Arc<Device>) {
        let index = id.0 as usize;
        if index >= self.devices.len() {
            self.devices.resize_with(index + 1, || None);
        }
        if device.rules.containers.is_some() {
            self.located.resize(self.entries.capacity(), Located::default());
        }
        if let Some(place) = self.devices.get_mut(index) {
            *place = Some(DeviceQueue::new(self.reactor, device, Arc::clone(&self.woken)));
        }
    }

    /// A device.
    #[must_use]
    pub fn device(&self, id: DeviceId) -> Option<&Arc<Device>> {
        Some(&self.queue(id.0)?.device)
    }

    #[inline]
    fn queue(&self, device: u32) -> Option<&DeviceQueue> {
        self.devices.get(device as usize)?.as_ref()
    }

    #[inline]
    fn queue_mut(&mut self, device: u32) -> Option<&mut DeviceQueue> {
        self.devices.get_mut(device as usize)?.as_mut()
    }

    #[inline]
    fn local(&self, session: u32) -> Option<&LocalSession> {
        self.sessions.get(session as usize)
    }
}
