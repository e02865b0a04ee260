//! The state of a reactor that its connections share.

use std::collections::VecDeque;
use std::sync::Arc;

use arbitration::Class;
use arbitration::arbiter::Waiters;
use arbitration::memory::MemoryGrant;
use arbitration::overload::RetryDelays;
use fabric::Nanos;
use fabric::controller::BackendId;
use fabric::queue::SlotId;
use units::Calendar;

use super::agenda::Agenda;
use super::device_table::DeviceTable;
use super::stages::Stages;
use super::turns::Turns;
use crate::machine::device::{BlockDevice, device_id};
use crate::machine::driver::{Buffer, Driver, Job};
use crate::machine::job::Ended;
use crate::machine::key::Key;
use crate::machine::policies::Policies;
use crate::memory::admin_data::AdminData;
use crate::memory::buffers::Buffers;
use crate::memory::lease::Lease;
use crate::stats::accounts::Account;
use crate::stats::counters::IoStats;
use crate::trace::tracing::Tracing;

/// The settings that are fixed while a reactor runs.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Index of this reactor.
    pub reactor: usize,
    /// Number of reactors.
    pub reactors: usize,
    /// The most data that one command moves, in bytes.
    pub max_transfer: u32,
    /// The most bytes that a device is given of a Write Zeroes or Verify at a time.
    pub slice: u32,
    /// The most in-capsule data of a command on an I/O queue, in bytes.
    pub in_capsule_data: u32,
    /// The least amount of a command's data to come, in bytes, that is received straight into the
    /// command's buffer.
    pub direct_min: u32,
    /// Number of the driver's buffers for receiving chunk after chunk.
    pub receive_buffers: usize,
    /// The retry delays that Identify Controller shows (CRDT1 to CRDT3).
    pub retry_delays: RetryDelays,
}

impl Settings {
    /// The daemon's `slice`, in bytes: as much as one transfer by default.
    pub const SLICE: u32 = 1 << 20;
    /// The daemon's `direct_min`, in bytes: copying this amount costs about as much as a separate receive.
    pub const DIRECT_MIN: u32 = 16 << 10;
    /// The daemon's `receive_buffers`.
    pub const RECEIVE_BUFFERS: u16 = 32;

    /// Returns the bytes of the further memory for in-capsule data of up to `in_capsule` bytes beside
    /// `io_memory` bytes of I/O buffers.
    #[must_use]
    pub fn capsule_memory(io_memory: usize, in_capsule: usize) -> usize {
        (io_memory / 8).max(in_capsule.saturating_mul(16))
    }

    /// Returns how many connections begin to receive in a turn where memory to receive into is short.
    pub(crate) fn receives(&self) -> usize {
        (self.receive_buffers - self.receive_buffers / 4).max(1)
    }
}

/// The state of a reactor that its connections share.
#[derive(Debug)]
pub(crate) struct Context<D: Driver> {
    pub(crate) driver: D,
    pub(crate) settings: Settings,
    /// The time when this turn began.
    pub(crate) now: Nanos,
    pub(crate) buffers: Buffers<D::Memory>,
    pub(crate) stages: Stages,
    /// The devices that commands have come for.
    pub(crate) devices: DeviceTable<D::Device>,
    pub(crate) agenda: Agenda,
    pub(crate) turns: Turns,
    /// Memory for the data that admin commands bring.
    pub(crate) admin_data: AdminData,
    /// Jobs that wait for memory that their device needs.
    pub(crate) stalled: VecDeque<Job<D>>,
    /// Jobs of timed devices, which were carried out at once and complete later.
    pub(crate) timed: Calendar<Ended<D::Device, Buffer<D>>>,
    /// Whether the target drains, so that no new commands are taken.
    pub(crate) draining: bool,
    /// The settings of quality of service.
    pub(crate) policies: Arc<D::Policies>,
    policies_version: u64,
    /// Version of the settings that connections have resolved for themselves.
    pub(crate) flows_version: u64,
    /// Number of commands that may wait for their devices.
    pub(crate) waiting_max: usize,
    /// Time of the latest Urgent command.
    pub(crate) urgent_at: Option<Nanos>,
    /// The commands that are traced; `None`: none.
    pub(crate) tracing: Option<Box<Tracing>>,
}

impl<D: Driver> Context<D> {
    /// Makes a reactor's machine and settings from two memories: I/O buffers, and buffers for
    /// in-capsule data.
    pub(crate) fn new(
        driver: D,
        settings: Settings,
        waiters: Arc<Waiters>,
        (pool, capsules): (D::Memory, D::Memory),
        now: Nanos,
    ) -> Self {
        let (policies_version, policies) = (driver.policies_version(), driver.policies());
        let buffers = Buffers::new(pool, capsules);
        let number = u32::try_from(settings.reactor).unwrap_or(0);
        Self {
            driver,
            settings,
            now,
            stages: Stages::new(number, policies.order(), waiters, buffers.sizes()),
            buffers,
            devices: DeviceTable::new(),
            agenda: Agenda::new(now),
            turns: Turns::new(),
            admin_data: AdminData::default(),
            stalled: VecDeque::new(),
            timed: Calendar::new(),
            draining: false,
            flows_version: policies.flows_version(),
            waiting_max: waiting_max(&*policies, settings.reactors),
            urgent_at: None,
            tracing: None,
            policies,
            policies_version,
        }
    }

    /// Takes the device of a first command into the table. Returns false where there is no such
    /// device.
    #[cold]
    pub(crate) fn fetch_device(&mut self, id: BackendId) -> bool {
        let Some(device) = self.driver.device(id) else { return false };
        self.stages.arbiter.add_device(device_id(id), Arc::clone(device.qos()));
        self.devices.insert(id, device);
        true
    }

    /// Takes out the next command for which there is memory for its host's data. While one waits
    /// for a buffer, no other has its turn.
    pub(crate) fn next_memory(&mut self) -> Option<((Key, SlotId), MemoryGrant)> {
        let gate = &mut self.stages.gate;
        if self.buffers.data.is_empty() { gate.pull() } else { gate.pull_needy() }
    }

    /// Takes out the next read for which there is memory.
    #[inline]
    pub(crate) fn next_lease(&mut self) -> Option<((Key, SlotId), Lease)> {
        self.stages.next_read(self.buffers.not_for_reads())
    }

    /// Returns whether there are new settings of quality of service.
    #[inline]
    pub(crate) fn has_new_policies(&self) -> bool {
        self.driver.policies_version() != self.policies_version
    }

    /// Takes the present settings of quality of service. Returns whether connections must resolve
    /// them again.
    pub(crate) fn refresh_policies(&mut self) -> bool {
        if !self.has_new_policies() {
            return false;
        }
        self.policies_version = self.driver.policies_version();
        self.policies = self.driver.policies();
        self.waiting_max = waiting_max(&*self.policies, self.settings.reactors);
        self.stages.set_order(self.policies.order());
        let before = std::mem::replace(&mut self.flows_version, self.policies.flows_version());
        before != self.flows_version
    }

    /// Returns the statistics of a command's device, class and session, with `own`: the statistics of its
    /// connection and its workload.
    #[inline]
    pub(crate) fn stats_of<'a>(
        &'a self,
        device: Option<&'a D::Device>,
        class: Class,
        account: Account,
        (own, workload): (&'a IoStats, Option<&'a IoStats>),
    ) -> [Option<&'a IoStats>; 5] {
        let reactor = self.settings.reactor;
        [
            workload,
            device.and_then(|device| device.stats(reactor)),
            Some(own),
            self.driver.class_stats(class),
            self.stages.accounts.stats(account, reactor),
        ]
    }
}

/// Returns how many commands may wait in one reactor.
pub(crate) fn waiting_max(policies: &impl Policies, reactors: usize) -> usize {
    (policies.queue() as usize / reactors.max(1)).max(1)
}
