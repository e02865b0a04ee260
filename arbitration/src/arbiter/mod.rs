//! The stages composed: one [`Arbiter`] for each reactor, over [`Device`]s and [`Session`]s that
//! all reactors share.
//!
//! A command is [enqueued](Arbiter::enqueue) with its flow (a host on a session at a device) and
//! its class, is [dispatched](Arbiter::dispatch) when S2 to S5 let it go, and is
//! [completed](Arbiter::complete) with the [`Grant`] that it was dispatched with. Nothing is lost
//! and nothing is dispatched twice, whatever changes meanwhile.
//!
//! What the sequence guarantees is proved by the property tests in `tests.rs`.

mod board;
mod dispatch;
mod flows;
mod queue;
mod slab;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::class::Class;
use crate::credit::Cost;
use crate::device::{Device, REACTORS_MAX};
use crate::order::{NONE, Pace};
use crate::reservation::Charge;
use crate::session::{Plan, Session, SessionId};
use crate::time::Nanos;

pub use board::Boards;
use queue::DeviceQueue;
use slab::Slab;

/// A device's place in an arbiter, the same in those of all reactors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceId(pub u32);

/// A host's commands on one session's account at one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId(pub(crate) u32);

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
    /// Operation credits that it takes: 1 for a user's command (seed row D2).
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
    flow: u32,
    set: u32,
    price: u32,
    cost: Cost,
    write: bool,
    bytes: u32,
    at: Nanos,
    charge: Option<Charge>,
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

/// What an arbiter knows of a session.
#[derive(Debug, Default)]
struct LocalSession {
    session: Option<Arc<Session>>,
    /// It and those above it whose rates are limited.
    limits: Vec<Arc<Session>>,
    /// The set of credits that its commands take now.
    set: u32,
    /// Neither limits nor bounded credits concern its commands.
    free: bool,
    /// Commands here, waiting or dispatched, and flows.
    here: u32,
}

/// A session and those above it whose credits are bounded, while commands hold such credits.
#[derive(Clone, Copy, Debug)]
struct CreditSet {
    /// Index into `Arbiter::chains`.
    chain: u32,
    held: u32,
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
    /// Of a memory device: what it holds, in price.
    holds: u64,
    /// Neither limits nor bounded credits nor a reservation nor an order by place: with nothing
    /// waiting, its commands need only room in the window.
    plain: bool,
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
    /// None: an output mark (seed row I1), which takes its turn and goes nowhere.
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

/// The stages of one reactor. See the module's documentation.
#[derive(Debug)]
pub struct Arbiter<T: Copy> {
    reactor: u32,
    plan: Arc<Plan>,
    /// Of the plan's order.
    pace: Pace,
    boards: Arc<Boards>,
    sessions: Vec<LocalSession>,
    sets: Slab<CreditSet>,
    chains: Vec<Option<Vec<Arc<Session>>>>,
    devices: Vec<Option<DeviceQueue>>,
    flows: Slab<Flow>,
    entries: Slab<Entry<T>>,
    /// By entry; nothing where no device is ordered by place.
    located: Vec<Located>,
    /// Sessions that wait for their rate: when, device, session.
    timers: BinaryHeap<Reverse<(Nanos, u32, u32)>>,
    /// Reactors that have something to do again, one bit each.
    bells: u64,
    /// Commands that wait or are chosen.
    waiting: usize,
}

impl<T: Copy> Arbiter<T> {
    /// The arbiter of reactor number `reactor` (below 64); places for `entries` commands are
    /// made at once.
    #[must_use]
    pub fn new(reactor: u32, plan: Arc<Plan>, boards: Arc<Boards>, entries: usize) -> Self {
        debug_assert!((reactor as usize) < REACTORS_MAX);
        let mut arbiter = Self {
            reactor,
            plan: Arc::clone(&plan),
            pace: Pace::new(&plan.order),
            boards,
            sessions: Vec::new(),
            sets: Slab::with_capacity(64),
            chains: Vec::new(),
            devices: Vec::new(),
            flows: Slab::with_capacity(64),
            entries: Slab::with_capacity(entries),
            located: Vec::new(),
            timers: BinaryHeap::new(),
            bells: 0,
            waiting: 0,
        };
        arbiter.apply(Nanos::ZERO, plan);
        arbiter
    }

    /// Commands that have not been dispatched.
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Commands that wait at a device.
    #[must_use]
    pub fn waiting_at(&self, device: DeviceId) -> u32 {
        self.queue(device.0).map_or(0, |queue| queue.waiting.iter().sum())
    }

    /// The plan in force.
    #[must_use]
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Takes a new plan. Commands that wait stay where they are; from now on they are dispatched
    /// by the new settings.
    pub fn apply(&mut self, now: Nanos, plan: Arc<Plan>) {
        let places = plan.sessions.len().max(self.sessions.len());
        self.sessions.resize_with(places, LocalSession::default);
        self.pace = Pace::new(&plan.order);
        self.plan = plan;
        for place in 0..places {
            self.apply_session(place);
        }
        for place in 0..places {
            self.keep_ancestors(place);
        }
        self.timers.reserve(places);
        for device in 0..self.devices.len() {
            self.adopt(now, device, None);
        }
        self.judge_all();
    }

    /// Finds out which flows are plain.
    fn judge_all(&mut self) {
        let ids: Vec<u32> = self.flows.iter().map(|(id, _)| id).collect();
        for id in ids {
            self.judge(id);
        }
    }

    /// Takes what the plan says of one session.
    fn apply_session(&mut self, place: usize) {
        let mut planned = self.plan.sessions.get(place).cloned().flatten();
        let Some(local) = self.sessions.get(place) else { return };
        if planned.is_none() && local.here > 0 {
            // It goes when its last command and flow have; what it held them back by has gone.
            planned.clone_from(&local.session);
        }
        let (mut limits, mut chain) = (Vec::new(), Vec::new());
        let mut at = planned.as_ref();
        while let Some(session) = at {
            let present = self.plan.session(session.id()).is_some_and(|p| Arc::ptr_eq(p, session));
            if present && session.is_limited() {
                limits.push(Arc::clone(session));
            }
            if present && session.is_capped() {
                chain.push(Arc::clone(session));
            }
            at = session.parent();
        }
        let old = local.session.is_some().then_some(local.set);
        let free = limits.is_empty() && chain.is_empty();
        let set = self.new_set(chain);
        if let Some(old) = old {
            self.retire_set(old);
        }
        if let Some(local) = self.sessions.get_mut(place) {
            (local.session, local.limits, local.set) = (planned, limits, set);
            local.free = free;
        }
    }

    /// A session that stays though the plan has it no more needs those above it, which may have
    /// neither commands nor flows of their own.
    fn keep_ancestors(&mut self, place: usize) {
        let session = self.sessions.get(place).and_then(|local| local.session.as_ref());
        let mut above = session.and_then(|session| session.parent().cloned());
        while let Some(session) = above {
            let Some(local) = self.sessions.get_mut(session.id().0 as usize) else { return };
            above = session.parent().cloned();
            local.session.get_or_insert(session);
        }
    }

    fn new_set(&mut self, chain: Vec<Arc<Session>>) -> u32 {
        let free = self.chains.iter().position(Option::is_none);
        let index = free.unwrap_or(self.chains.len());
        match self.chains.get_mut(index) {
            Some(place) => *place = Some(chain),
            None => self.chains.push(Some(chain)),
        }
        let chain = u32::try_from(index).unwrap_or(NONE);
        self.sets.insert(CreditSet { chain, held: 0, current: true })
    }

    /// A set that no new command takes from; it goes with the last that holds some of it.
    fn retire_set(&mut self, set: u32) {
        if let Some(entry) = self.sets.get_mut(set) {
            entry.current = false;
        }
        self.drop_set(set);
    }

    fn drop_set(&mut self, set: u32) {
        let over = self.sets.get(set).is_some_and(|entry| !entry.current && entry.held == 0);
        if over
            && let Some(entry) = self.sets.remove(set)
            && let Some(chain) = self.chains.get_mut(entry.chain as usize)
        {
            *chain = None;
        }
    }

    fn chain(&self, set: u32) -> &[Arc<Session>] {
        self.sets
            .get(set)
            .and_then(|set| self.chains.get(set.chain as usize)?.as_deref())
            .unwrap_or_default()
    }

    /// Sessions that come and go, and reservations, at one device.
    fn adopt(&mut self, now: Nanos, device: usize, coming: Option<u32>) {
        let number = u32::try_from(device).unwrap_or(NONE);
        let parent = |local: &LocalSession| {
            let parent = local.session.as_ref()?.parent()?;
            // One that is not in the plan any more may have left its place to another.
            let place = self.local(parent.id().0)?.session.as_ref()?;
            Arc::ptr_eq(place, parent).then(|| parent.id().0)
        };
        let parents: Vec<u32> =
            self.sessions.iter().map(|local| parent(local).unwrap_or(NONE)).collect();
        let here = self.flows.iter().filter(|(_, flow)| flow.device == number);
        let mut wanted: Vec<u32> = here.map(|(_, flow)| flow.session).chain(coming).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let Some(Some(queue)) = self.devices.get_mut(device) else { return };
        queue.adopt_sessions(&parents, &wanted);
        let reservations = self.plan.reservations.iter().filter(|r| r.device == number);
        queue.adopt_reservations(now, reservations, &parents);
    }

    /// Adds a device.
    pub fn add_device(&mut self, now: Nanos, id: DeviceId, device: Arc<Device>) {
        let index = id.0 as usize;
        if index >= self.devices.len() {
            self.devices.resize_with(index + 1, || None);
        }
        if device.rules.containers.is_some() {
            self.located.resize(self.entries.capacity(), Located::default());
        }
        if let Some(place) = self.devices.get_mut(index) {
            *place = Some(DeviceQueue::new(self.reactor, device));
        }
        self.adopt(now, index, None);
        // Flows of a device that was here before are flows of this one.
        let Some(Some(queue)) = self.devices.get_mut(index) else { return };
        for flow in self.flows.iter_mut().filter(|flow| flow.device == id.0) {
            flow.node = queue.add_flow(flow.session).unwrap_or(NONE);
        }
        self.judge_all();
    }

    /// Removes a device at which nothing waits and which has nothing; false where that is not so
    /// yet.
    pub fn remove_device(&mut self, id: DeviceId) -> bool {
        let granted = self.queue(id.0).map_or(0, |queue| queue.granted);
        if granted > 0 || self.waiting_at(id) > 0 {
            return false;
        }
        if let Some(place) = self.devices.get_mut(id.0 as usize) {
            *place = None;
        }
        true
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

    /// The reactors that have something to do again since the last call, one bit each: those that
    /// [slept](Self::sleep), or whose sessions have credits again.
    #[must_use]
    pub fn take_bells(&mut self) -> u64 {
        let mut bells = std::mem::take(&mut self.bells);
        for queue in self.devices.iter_mut().flatten() {
            bells |= std::mem::take(&mut queue.bells);
        }
        bells & !(1 << self.reactor)
    }

    /// To be called before this reactor sleeps: others wake it when there is room. Then dispatch
    /// once more before sleeping, for what happened in between.
    pub fn sleep(&mut self) {
        for queue in self.devices.iter().flatten() {
            if queue.waits() {
                queue.device.sleep(self.reactor);
            }
        }
    }

    /// When something that waits for the time may go on.
    #[must_use]
    pub fn next_timer(&self) -> Option<Nanos> {
        self.timers.peek().map(|Reverse((when, _, _))| *when)
    }

    /// Takes what the time, and other reactors, have let go on. To be called once in each turn.
    #[inline]
    pub fn poll(&mut self, now: Nanos) {
        while let Some(&Reverse((when, device, session))) = self.timers.peek() {
            if when > now {
                break;
            }
            self.timers.pop();
            self.unblock(now, device, session);
        }
        self.read_board(now);
    }

    #[inline]
    fn read_board(&mut self, now: Nanos) {
        if self.boards.is_empty(self.reactor) {
            return;
        }
        let boards = Arc::clone(&self.boards);
        let places = u32::try_from(self.sessions.len()).unwrap_or(0);
        boards.take(self.reactor, |told| {
            let mut session = told;
            while session < places {
                for device in 0..u32::try_from(self.devices.len()).unwrap_or(0) {
                    self.unblock(now, device, session);
                }
                session += 4096;
            }
        });
    }

    fn unblock(&mut self, now: Nanos, device: u32, session: u32) {
        if let Some(queue) = self.queue_mut(device) {
            queue.unblock(now, session);
        }
    }
}
