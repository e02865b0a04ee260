//! Everything of a reactor but its connections: what a connection works with.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arbitration::Class;
use arbitration::arbiter::{Arbiter, DeviceId};
use arbitration::device::DeviceRules;
use arbitration::settings::WindowRule;
use fabric::Nanos;
use fabric::controller::BackendId;
use fabric::tcp::SlotId;

use super::ReactorError;
use super::accounts::Accounts;
use super::credits::Credits;
use super::jobs::{Job, Jobs};
use super::key::{Key, Tag};
use super::pool::{Buffer, Pool};
use super::ring::{RecvBuffers, Ring, RingSize};
use crate::backend;
use crate::devices::{Device, place};
use crate::qos::{MEMORY, Snapshot, Touched, device_id};
use crate::shared::Shared;
use crate::stats::IoStats;

/// Submission queue entries of a ring.
const RING_ENTRIES: u32 = 1024;
/// In-capsule data may take this part of `io_memory`, beside it.
const CAPSULE_SHARE: usize = 8;

/// Devices for which there is room from the start.
const DEVICES: usize = 1 << 14;

/// Everything of a reactor but its connections: what a connection works with.
#[derive(Debug)]
pub(crate) struct Io {
    pub(super) ring: Ring,
    pub(super) pool: Pool,
    /// Buffers for in-capsule data. They are apart from the others because a connection that
    /// finds none here is not read from, and the others may be waiting for data that is still to
    /// be read from it.
    pub(super) capsules: Pool,
    /// Data that hosts are asked for.
    pub(super) credits: Credits,
    /// Buffers for what Compare and Verify read. They are apart because a Compare that waits for
    /// one holds its data's buffer meanwhile, and only jobs that run hold these.
    pub(super) scratch: Pool,
    pub(super) jobs: Jobs,
    pub(super) shared: Arc<Shared>,
    /// Index of this reactor.
    pub(super) reactor: usize,
    /// By place: the devices that commands have come for.
    devices: Vec<Option<(BackendId, Arc<Device>)>>,
    /// The settings of quality of service and their version, and the version of what connections
    /// make of them for themselves.
    pub(super) qos: Arc<Snapshot>,
    pub(super) qos_version: u64,
    pub(super) lanes_version: u64,
    pub(super) accounts: Accounts,
    /// Stages S2 to S5.
    pub(super) arbiter: Arbiter<(Key, SlotId)>,
    /// Commands that may wait in it.
    pub(super) waiting_max: usize,
    /// The time when this turn began.
    pub(super) now: Nanos,
    /// Commands that wait for an I/O buffer, first come, first served.
    pub(super) waiting: VecDeque<(Key, SlotId)>,
    /// Those that wait for one for data from their hosts: hosts may take their time, and nobody
    /// else is to wait for them.
    pub(super) data_waiting: VecDeque<(Key, SlotId)>,
    /// Jobs that wait for a scratch buffer.
    pub(super) stalled: VecDeque<Job>,
    /// Deallocations that go on in the next turn.
    pub(super) sweeps: Vec<(Key, SlotId)>,
    /// Connections with something to send.
    pub(super) dirty: Vec<Key>,
    /// Connections whose hosts are to be asked for more, and when the first of them may be.
    pub(super) asking: Vec<Key>,
    pub(super) next_ask: Nanos,
    /// Connections that take no commands until there are buffers.
    pub(super) paused: Vec<Key>,
    /// Connections on their way out.
    pub(super) closing: Vec<Key>,
    /// No new commands are taken.
    pub(super) draining: bool,
    /// Sessions and devices that the reactor was told to look at again: from the first that was not
    /// handed to the arbiter yet.
    pub(super) touched: VecDeque<(Arc<Touched>, usize)>,
    /// Devices that the reactor was told are gone: from the first that was not looked at yet.
    pub(super) gone: VecDeque<(Arc<[BackendId]>, usize)>,
    /// Those that it has something of, which keep their places until it has nothing.
    pub(super) leaving: VecDeque<(DeviceId, Arc<Device>)>,
    /// What [`super::connection::Connection::mark_answers`] depends on has changed.
    pub(super) remark: bool,
}

/// Commands that may wait in one reactor.
fn waiting_max(qos: &Snapshot, reactors: usize) -> usize {
    (qos.general.queue as usize / reactors.max(1)).max(1)
}

impl Io {
    /// That of reactor number `reactor`, and its receive buffers.
    pub(super) fn new(
        shared: Arc<Shared>,
        reactor: usize,
        worker_cpus: &[usize],
    ) -> Result<(Self, RecvBuffers), ReactorError> {
        let size = RingSize { entries: RING_ENTRIES, buffers: 32, buffer_bytes: 64 << 10 };
        let (mut ring, buffers) = Ring::new(size)?;
        if let Err(error) = ring.let_workers_run_on(worker_cpus) {
            tracing::warn!(%error, "the kernel's I/O workers share the reactor's CPU");
        }
        shared.passthrough.store(ring.has_passthrough(), Ordering::Relaxed);
        let settings = &shared.settings;
        let bytes = usize::try_from(settings.io_memory).unwrap_or(usize::MAX);
        let pool =
            Pool::new(bytes, settings.max_transfer as usize).map_err(ReactorError::Buffers)?;
        let in_capsule = settings.in_capsule_data as usize;
        let capsules = Pool::new((bytes / CAPSULE_SHARE).max(in_capsule * 16), in_capsule)
            .map_err(ReactorError::Buffers)?;
        let largest = (settings.max_transfer as usize).max(backend::SCRATCH_MAX);
        let scratch = Pool::new(2 * largest, largest).map_err(ReactorError::Buffers)?;
        if let Some(mailbox) = shared.mailboxes.get(reactor) {
            ring.watch(mailbox.bell(), Tag::Mail.encode());
        }
        let now = shared.clock.now();
        let (qos_version, qos) = (shared.qos.version(), shared.qos.snapshot());
        let waiting_max = waiting_max(&qos, shared.mailboxes.len());
        let credits = Credits::new(pool.usage().1);
        let arbiter = arbiter(&shared, reactor, &qos, credits.window());
        let io = Self {
            ring,
            pool,
            capsules,
            credits,
            scratch,
            jobs: Jobs::default(),
            shared,
            reactor,
            devices: Vec::with_capacity(DEVICES),
            lanes_version: qos.lanes,
            qos,
            qos_version,
            accounts: Accounts::default(),
            arbiter,
            waiting_max,
            now,
            waiting: VecDeque::new(),
            data_waiting: VecDeque::new(),
            stalled: VecDeque::new(),
            sweeps: Vec::new(),
            dirty: Vec::new(),
            asking: Vec::new(),
            next_ask: now,
            paused: Vec::new(),
            closing: Vec::new(),
            draining: false,
            touched: VecDeque::new(),
            gone: VecDeque::new(),
            leaving: VecDeque::new(),
            remark: false,
        };
        Ok((io, buffers))
    }

    /// Takes a device into the table that the first command has come for; false where there is
    /// none.
    #[cold]
    pub(super) fn fetch_device(&mut self, id: BackendId) -> bool {
        let Some(device) = self.shared.devices.get(id) else { return false };
        let index = place(id) as usize;
        if index >= self.devices.len() {
            self.devices.resize(index + 1, None);
        }
        self.arbiter.add_device(device_id(id), Arc::clone(&device.qos));
        if let Some(at) = self.devices.get_mut(index) {
            *at = Some((id, device));
        }
        true
    }

    /// Takes a device out of the table that is gone; `None` where it was not there.
    pub(super) fn lose_device(&mut self, id: BackendId) -> Option<(DeviceId, Arc<Device>)> {
        self.device(id)?;
        let (_, device) = self.devices.get_mut(place(id) as usize)?.take()?;
        Some((device_id(id), device))
    }

    /// Takes the present settings of quality of service. Whether connections are to look at them
    /// again.
    pub(super) fn refresh_qos(&mut self) -> bool {
        if !self.has_new_qos() {
            return false;
        }
        self.qos_version = self.shared.qos.version();
        self.qos = self.shared.qos.snapshot();
        self.waiting_max = waiting_max(&self.qos, self.shared.mailboxes.len());
        self.arbiter.set_order(&self.qos.general.order);
        let before = std::mem::replace(&mut self.lanes_version, self.qos.lanes);
        before != self.lanes_version
    }

    /// Tells the arbiter of the next sessions and devices that changes have touched, at most `most`
    /// of them; [`Arbiter::settle`] looks at them, in steps.
    pub(super) fn touch(&mut self, most: usize) {
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
    pub(super) fn has_new_qos(&self) -> bool {
        self.shared.qos.version() != self.qos_version
    }

    /// Whether a connection whose commands wait with so many buffers for in-capsule data has as
    /// many as are left: of k connections that flood, each gets no more than one part in k + 1,
    /// and one is left for the others.
    pub(super) fn is_part_of_capsules(&self, waiting: u32) -> bool {
        let (used, total) = self.capsules.usage();
        let each = (self.shared.settings.in_capsule_data as usize).max(1);
        waiting > 0 && waiting as usize >= total.saturating_sub(used) / each
    }

    /// A class's statistics in this reactor.
    #[inline]
    pub(super) fn class_stats(&self, class: Class) -> Option<&IoStats> {
        Some(&self.shared.qos.classes.get(self.reactor)?[class])
    }

    /// A device of the snapshot.
    #[inline]
    pub(super) fn device(&self, id: BackendId) -> Option<&Arc<Device>> {
        let (of, device) = self.devices.get(place(id) as usize)?.as_ref()?;
        (*of == id).then_some(device)
    }

    /// An I/O buffer, unless others have waited longer for one.
    #[inline]
    pub(super) fn take_in_turn(&self, bytes: usize) -> Option<Buffer> {
        if self.waiting.is_empty() { self.pool.take(bytes) } else { None }
    }
}

/// The stages of one reactor, with `memory` bytes for data that hosts are asked for.
fn arbiter(
    shared: &Shared,
    reactor: usize,
    qos: &Snapshot,
    memory: usize,
) -> Arbiter<(Key, SlotId)> {
    const PAGE: usize = 4096;
    let number = u32::try_from(reactor).unwrap_or(0);
    let waiters = Arc::clone(&shared.qos.waiters);
    let mut arbiter = Arbiter::new(number, &qos.general.order, waiters, 4096);
    let pages = u32::try_from(memory / PAGE).unwrap_or(u32::MAX).max(1);
    let rules =
        DeviceRules { window: WindowRule::Fixed(pages), memory: true, ..DeviceRules::default() };
    let device = arbitration::device::Device::new(rules, reactor + 1);
    arbiter.add_device(MEMORY, Arc::new(device));
    arbiter
}
