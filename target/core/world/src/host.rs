//! A host: a controller's admin queue, its I/O queues, and what it has asked for.

use std::fmt;
use std::rc::Rc;

use fabric::Nanos;
use fabric::host::commands;
use fabric::nvme::Sqe;
use fabric::queue::HostTransport;
use fabric::tcp::{HostConnection, HostParams};
use zerocopy::little_endian::U16;

/// The one subsystem.
pub(crate) const NQN: &str = "nqn.2026-01.io.sluicegate:world";

/// What a command is for, and what follows from its answer.
#[derive(Debug)]
pub(crate) enum Purpose {
    Connect,
    Enable,
    KeepAlive,
    Event,
    Admin,
    Read { nsid: u32, lba: u64, data: Vec<u8> },
    Write { nsid: u32, lba: u64, blocks: u32, write: u64 },
    Other,
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => write!(f, "a connection"),
            Self::Enable => write!(f, "its controller"),
            Self::KeepAlive => write!(f, "time"),
            Self::Event => write!(f, "events"),
            Self::Admin => write!(f, "an admin command"),
            Self::Read { nsid, lba, data } => {
                write!(f, "a read of namespace {nsid}, block {lba}, {} bytes", data.len())
            }
            Self::Write { nsid, lba, blocks, write } => {
                write!(f, "write {write} of namespace {nsid}, block {lba}, {blocks} blocks")
            }
            Self::Other => write!(f, "a command without effect"),
        }
    }
}

/// A command that is not answered.
#[derive(Debug)]
pub(crate) struct Outstanding {
    pub(crate) purpose: Purpose,
    /// The step at which it began.
    pub(crate) since: u64,
}

/// One of its queues.
#[derive(Debug)]
pub(crate) struct Queue {
    /// The index of its connection.
    pub(crate) connection: usize,
    pub(crate) protocol: HostConnection<Rc<Vec<u8>>>,
    /// Its Connect has succeeded.
    pub(crate) live: bool,
    pub(crate) outstanding: Vec<Option<Outstanding>>,
    pub(crate) in_flight: usize,
}

impl Queue {
    pub(crate) fn new(connection: usize, digests: bool, in_capsule: u32) -> Self {
        let params =
            HostParams { header_digest: digests, data_digest: digests, ..HostParams::default() };
        let mut protocol = HostConnection::new(params);
        protocol.set_in_capsule_data(in_capsule);
        Self { connection, protocol, live: false, outstanding: Vec::new(), in_flight: 0 }
    }

    /// Submits a command; `None` where the connection is not ready.
    pub(crate) fn submit(
        &mut self,
        sqe: Sqe,
        data: Option<Vec<u8>>,
        read: u32,
        outstanding: Outstanding,
    ) -> Option<u16> {
        let free = self.outstanding.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.outstanding.push(None);
            self.outstanding.len() - 1
        });
        let cid = u16::try_from(place).ok()?;
        let sqe = Sqe { cid: U16::new(cid), ..sqe };
        self.protocol.submit(sqe, data.map(Rc::new), read).ok()?;
        if let Some(at) = self.outstanding.get_mut(place) {
            *at = Some(outstanding);
            self.in_flight += 1;
        }
        Some(cid)
    }
}

/// What a host does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing, until then.
    Away(Nanos),
    /// Connects its admin queue.
    Connecting,
    /// Its controller is enabled, its I/O queues connect or are connected.
    Up,
}

/// A host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) nqn: String,
    pub(crate) number: u8,
    pub(crate) phase: Phase,
    pub(crate) controller: u16,
    /// By number: the admin queue first.
    pub(crate) queues: Vec<Option<Queue>>,
    /// It sends no Keep Alive.
    pub(crate) mute: bool,
    pub(crate) next_keep_alive: Nanos,
    /// When an I/O command of it was answered last.
    pub(crate) answered_at: Nanos,
}

impl Host {
    pub(crate) fn new(number: u8) -> Self {
        Self {
            nqn: format!("nqn.2026-01.io.sluicegate:host{number}"),
            number,
            phase: Phase::Away(Nanos(0)),
            controller: 0,
            queues: Vec::new(),
            mute: false,
            next_keep_alive: Nanos(0),
            answered_at: Nanos(0),
        }
    }

    /// The Connect data of one of its queues.
    pub(crate) fn connect_data(&self, qid: u16) -> Vec<u8> {
        let controller = if qid == 0 { 0xffff } else { self.controller };
        commands::connect_data([self.number + 1; 16], controller, NQN, &self.nqn)
    }

    /// Commands that are not answered, but for event requests.
    pub(crate) fn waits_for(&self) -> usize {
        let waits = |o: &&Outstanding| !matches!(o.purpose, Purpose::Event);
        let queues = self.queues.iter().flatten();
        queues.map(|queue| queue.outstanding.iter().flatten().filter(waits).count()).sum()
    }
}

/// Keep alive time-out of controllers, in ms.
pub(crate) const KEEP_ALIVE_MS: u32 = 5_000;

/// Property Set of CC: enabled or not.
pub(crate) fn enable(enabled: bool) -> Sqe {
    commands::property_set(0x14, 0x46_0000 | u32::from(enabled))
}

/// An I/O command on some blocks, with a class in its CDW13 9:8.
pub(crate) fn io(opcode: u8, nsid: u32, lba: u64, blocks: u32, class: u32) -> Sqe {
    Sqe { opcode, ..commands::transfer(false, nsid, lba, blocks, class << 8) }
}
