//! Everything of a reactor but its connections: what a connection works with.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use arbitration::arbiter::{Arbiter, DeviceId, Waiters};
use arbitration::memory::{MemoryGate, MemoryGrant};
use fabric::Nanos;
use fabric::controller::BackendId;
use fabric::queue::SlotId;

use slab::Slab;

use crate::accounts::Accounts;
use crate::changes::Touched;
use crate::credits::Credits;
use crate::device::{Device, device_id};
use crate::device_table::DeviceTable;
use crate::driver::{Buffer, Driver, Memory, Use};
use crate::job::{Ended, Job};
use crate::key::Key;
use crate::policies::Policies;

/// What is fixed while a reactor runs.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Index of this reactor, and how many there are.
    pub reactor: usize,
    /// How many reactors there are.
    pub reactors: usize,
    /// The most data that one command moves, in bytes.
    pub max_transfer: u32,
    /// The most in-capsule data of a command on an I/O queue, in bytes.
    pub in_capsule_data: u32,
}

/// Everything of a reactor but its connections: what a connection works with.
#[derive(Debug)]
pub(crate) struct Context<D: Driver> {
    pub(crate) driver: D,
    pub(crate) settings: Settings,
    pub(crate) pool: D::Memory,
    /// Buffers for in-capsule data. They are apart from the others because a connection that
    /// finds none here is not read from, and the others may be waiting for data that is still to
    /// be read from it.
    pub(crate) capsules: D::Memory,
    /// Data that hosts are asked for.
    pub(crate) credits: Credits,
    /// The devices that commands have come for.
    pub(crate) devices: DeviceTable<D::Device>,
    /// The settings of quality of service and their version, and the version of what connections
    /// make of them for themselves.
    pub(crate) qos: Arc<D::Policies>,
    qos_version: u64,
    pub(crate) lanes_version: u64,
    pub(crate) accounts: Accounts,
    /// Stages S2 to S5.
    pub(crate) arbiter: Arbiter<(Key, SlotId)>,
    /// Where commands wait for memory for the data that their hosts are to be asked for.
    pub(crate) memory: MemoryGate<(Key, SlotId)>,
    /// Commands that may wait in it.
    pub(crate) waiting_max: usize,
    /// The time when this turn began.
    pub(crate) now: Nanos,
    /// Commands that wait for an I/O buffer, first come, first served.
    pub(crate) waiting: VecDeque<(Key, SlotId)>,
    /// Those that wait for one for data from their hosts: hosts may take their time, and nobody
    /// else is to wait for them.
    pub(crate) data_waiting: VecDeque<(Key, SlotId)>,
    /// Jobs that wait for memory that their device needs.
    pub(crate) stalled: VecDeque<Job<D>>,
    /// Jobs that have been carried out, and are to be complete at a time.
    pub(crate) timed: Timed<D>,
    /// Deallocations that go on in the next turn.
    pub(crate) sweeps: Vec<(Key, SlotId)>,
    /// Connections with something to send.
    pub(crate) dirty: Vec<Key>,
    /// Connections that carried commands out on the spot, which are not recorded yet.
    pub(crate) tallied: Vec<Key>,
    /// Connections whose hosts are to be asked for more, and when the first of them may be.
    pub(crate) asking: Vec<Key>,
    pub(crate) next_ask: Nanos,
    /// Connections that take no commands until there are buffers.
    pub(crate) paused: Vec<Key>,
    /// Connections on their way out.
    pub(crate) closing: Vec<Key>,
    /// No new commands are taken.
    pub(crate) draining: bool,
    /// Sessions and devices that the reactor was told to look at again: from the first that was not
    /// handed to the arbiter yet.
    pub(crate) touched: VecDeque<(Arc<Touched>, usize)>,
    /// Devices that the reactor was told are gone: from the first that was not looked at yet.
    pub(crate) gone: VecDeque<(Arc<[BackendId]>, usize)>,
    /// Those that it has something of, which keep their places until it has nothing.
    pub(crate) leaving: VecDeque<(DeviceId, Arc<D::Device>)>,
    /// Of those, the ones that only wait for the last of their commands to complete.
    pub(crate) emptying: VecDeque<(DeviceId, Arc<D::Device>)>,
}

/// Jobs that have been carried out, and are to be complete at a time.
#[derive(Debug)]
pub(crate) struct Timed<D: Driver> {
    order: BinaryHeap<Reverse<(Nanos, usize)>>,
    ended: Slab<Ended<D>>,
}

impl<D: Driver> Default for Timed<D> {
    fn default() -> Self {
        Self { order: BinaryHeap::new(), ended: Slab::new() }
    }
}

impl<D: Driver> Timed<D> {
    /// Keeps a job until it is to be complete.
    pub(crate) fn insert(&mut self, until: Nanos, ended: Ended<D>) {
        self.order.push(Reverse((until, self.ended.insert(ended))));
    }

    /// The next job that is to be complete by now.
    pub(crate) fn due(&mut self, now: Nanos) -> Option<Ended<D>> {
        self.next_due().filter(|until| *until <= now)?;
        let Reverse((_, place)) = self.order.pop()?;
        self.ended.try_remove(place)
    }

    /// When the next job is to be complete.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        self.order.peek().map(|Reverse((until, _))| *until)
    }
}

/// Commands that may wait in one reactor.
fn waiting_max(qos: &impl Policies, reactors: usize) -> usize {
    (qos.queue() as usize / reactors.max(1)).max(1)
}

impl<D: Driver> Context<D> {
    pub(crate) fn new(
        driver: D,
        settings: Settings,
        waiters: Arc<Waiters>,
        (pool, capsules): (D::Memory, D::Memory),
        now: Nanos,
    ) -> Self {
        let (qos_version, qos) = (driver.policies_version(), driver.policies());
        let credits = Credits::new(pool.usage().1);
        let number = u32::try_from(settings.reactor).unwrap_or(0);
        Self {
            driver,
            settings,
            arbiter: Arbiter::new(number, qos.order(), waiters, 4096),
            memory: MemoryGate::new(qos.order(), credits.window()),
            pool,
            capsules,
            credits,
            devices: DeviceTable::new(),
            lanes_version: qos.lanes(),
            waiting_max: waiting_max(&*qos, settings.reactors),
            qos,
            qos_version,
            accounts: Accounts::default(),
            now,
            waiting: VecDeque::new(),
            data_waiting: VecDeque::new(),
            stalled: VecDeque::new(),
            timed: Timed::default(),
            sweeps: Vec::new(),
            dirty: Vec::new(),
            tallied: Vec::new(),
            asking: Vec::new(),
            next_ask: now,
            paused: Vec::new(),
            closing: Vec::new(),
            draining: false,
            touched: VecDeque::new(),
            gone: VecDeque::new(),
            leaving: VecDeque::new(),
            emptying: VecDeque::new(),
        }
    }

    /// Takes a device into the table that the first command has come for; false where there is
    /// none.
    #[cold]
    pub(crate) fn fetch_device(&mut self, id: BackendId) -> bool {
        let Some(device) = self.driver.device(id) else { return false };
        self.arbiter.add_device(device_id(id), Arc::clone(device.qos()));
        self.devices.insert(id, device);
        true
    }

    /// Takes a device out of the table that is gone; `None` where it was not there.
    pub(crate) fn lose_device(&mut self, id: BackendId) -> Option<(DeviceId, Arc<D::Device>)> {
        Some((device_id(id), self.devices.remove(id)?))
    }

    /// Takes the present settings of quality of service. Whether connections are to look at them
    /// again.
    pub(crate) fn refresh_qos(&mut self) -> bool {
        if !self.has_new_qos() {
            return false;
        }
        self.qos_version = self.driver.policies_version();
        self.qos = self.driver.policies();
        self.waiting_max = waiting_max(&*self.qos, self.settings.reactors);
        self.arbiter.set_order(self.qos.order());
        self.memory.set_order(self.qos.order());
        let before = std::mem::replace(&mut self.lanes_version, self.qos.lanes());
        before != self.lanes_version
    }

    /// Tells the arbiter of the next sessions and devices that changes have touched, at most `most`
    /// of them; [`Arbiter::settle`] looks at them, in steps.
    pub(crate) fn touch(&mut self, most: usize) {
        for _ in 0..most {
            let Some((touched, next)) = self.touched.front_mut() else { return };
            let at = *next;
            *next += 1;
            let device = at.checked_sub(touched.sessions.len());
            if let Some(session) = touched.sessions.get(at) {
                self.arbiter.touch_session(session);
            } else if let Some(&id) = device.and_then(|at| touched.devices.get(at)) {
                if self.device(id).is_some() {
                    self.arbiter.touch_device(device_id(id));
                }
            } else {
                self.touched.pop_front();
            }
        }
    }

    /// Whether there are settings of quality of service that were not taken yet.
    #[inline]
    pub(crate) fn has_new_qos(&self) -> bool {
        self.driver.policies_version() != self.qos_version
    }

    /// Whether a connection whose commands wait with so many buffers for in-capsule data has as
    /// many as are left: of k connections that flood, each gets no more than one part in k + 1,
    /// and one is left for the others.
    pub(crate) fn is_part_of_capsules(&self, waiting: u32) -> bool {
        let (used, total) = self.capsules.usage();
        let each = (self.settings.in_capsule_data as usize).max(1);
        waiting > 0 && waiting as usize >= total.saturating_sub(used) / each
    }

    /// A device of the table.
    #[inline]
    pub(crate) fn device(&self, id: BackendId) -> Option<&Arc<D::Device>> {
        self.devices.get(id)
    }

    /// Whether any command waits for its turn.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.arbiter.waiting() > 0 || self.memory.waiting() > 0
    }

    /// An I/O buffer, unless others have waited longer for one.
    #[inline]
    pub(crate) fn take_in_turn(&self, bytes: usize) -> Option<Buffer<D>> {
        take_in_turn(&self.pool, &self.waiting, bytes)
    }

    /// Gives back what a command had of the memory for data from hosts.
    pub(crate) fn give_back_memory(&mut self, grant: Option<MemoryGrant>) {
        if let Some(grant) = grant {
            self.memory.give_back(grant);
        }
    }
}

/// An I/O buffer of `pool`, unless others wait for one.
#[inline]
pub(crate) fn take_in_turn<M: Memory>(
    pool: &M,
    waiting: &VecDeque<(Key, SlotId)>,
    bytes: usize,
) -> Option<M::Buffer> {
    if waiting.is_empty() { pool.take(bytes, Use::Any) } else { None }
}
