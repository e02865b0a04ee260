//! A command on its way through a device.

use std::sync::Arc;

use arbitration::Class;
use arbitration::arbiter::Grant;
use arbitration::memory::MemoryGrant;
use arbitration::session::{HostId, SessionId};
use fabric::Nanos;
use fabric::nvm::IoCommand;
use fabric::nvme::{Sqe, Status};
use fabric::queue::SlotId;

use super::key::Key;
use crate::memory::held::Held;
use crate::memory::lease::Lease;
use crate::stats::charge::Charge;

/// A command in a device of type `V`, with its data in a buffer of type `B`.
#[derive(Debug)]
pub struct Job<V, B> {
    /// Connection and slot that the command came from.
    pub(crate) origin: (Key, SlotId),
    /// Device of the command.
    pub device: Arc<V>,
    /// The command, parsed.
    pub command: IoCommand,
    /// The command's submission queue entry, as it came.
    pub sqe: Sqe,
    /// Buffer with the command's data, where it has any.
    pub buffer: Option<B>,
    /// Blocks that the device holds for a command that reads them, in place of a buffer.
    pub(crate) held: Option<Held>,
    /// Time of the command's arrival.
    pub(crate) arrived: Nanos,
    /// Accounts that the command is charged to.
    pub(crate) charge: Charge,
    /// Grant of the arbiter; none where the command took no turn.
    pub(crate) grant: Option<Grant>,
    /// Grant of memory for data from hosts.
    pub(crate) memory: Option<MemoryGrant>,
    /// Lease of memory for reads, or for in-capsule data.
    pub(crate) lease: Option<Lease>,
    /// Time at which the command was handed to its device.
    pub(crate) started: Nanos,
}

impl<V, B> Job<V, B> {
    /// Makes a job that is charged to nobody.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn uncharged(connection: Key, device: Arc<V>, command: IoCommand, buffer: B) -> Self {
        Self {
            origin: (connection, SlotId(0)),
            device,
            command,
            sqe: Sqe::default(),
            buffer: Some(buffer),
            held: None,
            arrived: Nanos(0),
            charge: Charge::default(),
            grant: None,
            memory: None,
            lease: None,
            started: Nanos(0),
        }
    }

    /// Returns the time at which the command arrived.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn arrived(&self) -> Nanos {
        self.arrived
    }

    /// Returns the connection that the command came from.
    #[must_use]
    pub fn connection(&self) -> Key {
        self.origin.0
    }

    /// Returns the host that the command came from.
    #[must_use]
    pub fn host(&self) -> HostId {
        self.charge.host
    }

    /// Returns the class that the command was given.
    #[must_use]
    pub fn class(&self) -> Class {
        self.charge.class
    }

    /// Returns the session that the command is charged to, and when its turn came; `None` where it
    /// took no turn.
    #[must_use]
    pub fn turn(&self) -> Option<(SessionId, Nanos)> {
        self.grant.as_ref().map(|grant| (grant.session(), grant.at()))
    }
}

/// A job that has ended.
#[derive(Debug)]
pub struct Ended<V, B> {
    /// The job.
    pub job: Job<V, B>,
    /// Result for the host.
    pub result: u64,
    /// Status for the host.
    pub status: Status,
}

/// The outcome of starting a job.
#[derive(Debug)]
pub enum Started<V, B> {
    /// The job is in its device.
    Running,
    /// The job is over already.
    Ended(Ended<V, B>),
    /// No memory is free for the job now: start it again when buffers come back.
    NoMemory(Job<V, B>),
}

impl<V, B> Started<V, B> {
    /// The slot of the job, where it does not run.
    pub(crate) fn slot(&self) -> Option<SlotId> {
        match self {
            Self::Running => None,
            Self::Ended(ended) => Some(ended.job.origin.1),
            Self::NoMemory(job) => Some(job.origin.1),
        }
    }
}
