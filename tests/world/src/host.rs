//! A host: its side of a controller, its queues, and its outstanding commands.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use fabric::Nanos;
use fabric::host::{Association, Settings, commands};
use fabric::nvme::Sqe;
use fabric::nvme::identify::OptionalEvents;
use fabric::queue::HostTransport as _;
use sluice_core::testing::wire::HostEnd;
use zerocopy::little_endian::U16;

/// NQN of the only subsystem.
pub(crate) const NQN: &str = "nqn.2026-01.io.sluicegate:world";

/// The purpose of a command, which decides how its answer is handled.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// Connect of an I/O queue.
    Connect,
    /// A command of the association.
    Admin,
    /// An Asynchronous Event Request, which may stay unanswered.
    Event,
    Read {
        nsid: u32,
        lba: u64,
    },
    Write {
        nsid: u32,
        lba: u64,
        blocks: u32,
        write: u64,
    },
    Other {
        nsid: u32,
    },
}

/// A command that is not answered yet.
#[derive(Debug)]
pub(crate) struct Outstanding {
    pub(crate) purpose: Purpose,
    /// Step at which the command began.
    pub(crate) since: u64,
    /// Time at which the command began.
    pub(crate) asked: Nanos,
    /// Data that the command reads.
    pub(crate) read: Vec<u8>,
}

/// One of a host's queues.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Index of the queue's connection.
    pub(crate) connection: usize,
    pub(crate) protocol: HostEnd,
    /// Whether the queue's Connect has succeeded.
    pub(crate) live: bool,
    /// Outstanding commands by their identifiers.
    pub(crate) outstanding: Vec<Option<Outstanding>>,
    pub(crate) in_flight: usize,
}

impl Queue {
    pub(crate) fn new(connection: usize, protocol: HostEnd) -> Self {
        Self { connection, protocol, live: false, outstanding: Vec::new(), in_flight: 0 }
    }

    /// Returns an identifier that no command has.
    pub(crate) fn free(&self) -> u16 {
        let free = self.outstanding.iter().position(Option::is_none);
        u16::try_from(free.unwrap_or(self.outstanding.len())).unwrap_or(u16::MAX)
    }

    /// Submits a command under the identifier in `sqe`. Does nothing where the connection is not
    /// ready.
    pub(crate) fn submit(&mut self, sqe: Sqe, data: Option<Vec<u8>>, outstanding: Outstanding) {
        let read = u32::try_from(outstanding.read.len()).unwrap_or(0);
        if self.protocol.submit(sqe, data.map(Rc::new), read).is_err() {
            return;
        }
        let place = usize::from(sqe.cid.get());
        if self.outstanding.len() <= place {
            self.outstanding.resize_with(place + 1, || None);
        }
        self.outstanding[place] = Some(outstanding);
        self.in_flight += 1;
    }
}

/// The phase of a host's association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The host does nothing until this time.
    Away(Nanos),
    /// The association connects, or connects again after a reset.
    Connecting,
    /// The controller is ready, and the I/O queues connect or are connected.
    Up,
}

#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) nqn: String,
    pub(crate) number: u8,
    pub(crate) phase: Phase,
    pub(crate) association: Association,
    /// Whether the priority classes of its queues count.
    pub(crate) weighted: bool,
    /// Time of the next look at the association's time-outs.
    pub(crate) timer: Option<Nanos>,
    /// Queues by their numbers: the admin queue first.
    pub(crate) queues: Vec<Option<Queue>>,
    /// Whether the association's clock is stopped, so that it sends no Keep Alive.
    pub(crate) mute: bool,
    /// Time at which an I/O command of the host was last answered.
    pub(crate) answered_at: Nanos,
    /// Time at which the host last submitted an I/O command while none was outstanding.
    pub(crate) asked_at: Nanos,
    /// Identifiers of commands that read the log of changed namespaces.
    pub(crate) log_reads: Vec<u16>,
    /// Changed namespaces that the host was not notified of.
    pub(crate) untold: BTreeSet<u32>,
}

impl Host {
    pub(crate) fn new(number: u8) -> Self {
        let nqn = format!("nqn.2026-01.io.sluicegate:host{number}");
        Self {
            association: Association::new(settings(&nqn, number, 0, false)),
            weighted: false,
            nqn,
            number,
            phase: Phase::Away(Nanos(0)),
            timer: None,
            queues: Vec::new(),
            mute: false,
            answered_at: Nanos(0),
            asked_at: Nanos(0),
            log_reads: Vec::new(),
            untold: BTreeSet::new(),
        }
    }

    /// Begins an association for `queues` I/O queues; with `weighted` their classes count.
    pub(crate) fn associate(&mut self, now: Nanos, queues: u16, weighted: bool) {
        let settings = settings(&self.nqn, self.number, queues, weighted);
        self.association = Association::new(settings);
        self.weighted = weighted;
        self.association.connect(now);
    }

    /// Gives up the association until a time. Returns the queues that it had.
    pub(crate) fn leave(&mut self, until: Nanos) -> Vec<Option<Queue>> {
        let left = Self { phase: Phase::Away(until), ..Self::new(self.number) };
        std::mem::replace(self, left).queues
    }

    /// Returns one of its queues.
    pub(crate) fn queue(&mut self, qid: u16) -> Option<&mut Queue> {
        self.queues.get_mut(usize::from(qid))?.as_mut()
    }

    /// Counts the commands of I/O queues that are not answered.
    pub(crate) fn io_outstanding(&self) -> usize {
        self.queues.iter().skip(1).flatten().map(|queue| queue.in_flight).sum()
    }

    /// Counts the commands that are not answered, but for event requests.
    pub(crate) fn waits_for(&self) -> usize {
        let waits = |o: &&Outstanding| !matches!(o.purpose, Purpose::Event);
        let queues = self.queues.iter().flatten();
        queues.map(|queue| queue.outstanding.iter().flatten().filter(waits).count()).sum()
    }
}

/// Keep alive timeout of controllers.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

fn settings(nqn: &str, number: u8, queues: u16, weighted_round_robin: bool) -> Settings {
    Settings {
        subsystem: NQN.to_owned(),
        host: nqn.to_owned(),
        host_id: [number + 1; 16],
        credentials: None,
        keep_alive: KEEP_ALIVE,
        queues,
        weighted_round_robin,
        honours_retry_delays: false,
        event_requests: u16::from(number % 4) + 1,
        events: OptionalEvents::NAMESPACE_ATTRIBUTE.bits(),
    }
}

/// Makes an I/O command on some blocks, with a class in its CDW13 9:8.
pub(crate) fn io(opcode: u8, nsid: u32, lba: u64, blocks: u32, class: u32) -> Sqe {
    Sqe { opcode, ..commands::transfer(false, nsid, lba, blocks, class << 8) }
}

/// Makes the same command under another identifier.
pub(crate) fn named(sqe: Sqe, cid: u16) -> Sqe {
    Sqe { cid: U16::new(cid), ..sqe }
}
