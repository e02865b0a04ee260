//! The types between the service and the daemon: identifiers, answers, actions.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;

use units::{Class, QueueWeights};

use super::ids::{ConnectionId, ControllerId};
use super::{Namespace, NamespaceTable, Readiness};
use crate::Nanos;
use crate::nvme::Status;

/// Longest duration of a short outage, in ns. It is less than the usual CRDT2, so a command that is
/// retried after CRDT2 waits for CRDT3 next time.
const SHORT_OUTAGE_NS: u64 = 20_000_000_000;

/// The kind of a connected queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// Admin queue of an I/O controller.
    Admin,
    /// I/O queue.
    Io,
    /// Admin queue of a discovery controller.
    Discovery,
}

/// The answer to a Connect command that succeeded.
#[derive(Clone, Debug)]
pub struct Connected {
    /// The completion's result: CNTLID 15:0, ATR 17 (the host must authenticate the queue), ASCR 18
    /// (never set: no secure channel is required).
    pub result: u64,
    /// The controller.
    pub controller: ControllerId,
    /// The controller's state that its queues read without a lock.
    pub shared: Arc<ControllerShared>,
    /// The queue identifier; 0 is the admin queue.
    pub qid: u16,
    /// Entries of the submission queue (SQSIZE + 1): that many commands may be outstanding.
    pub entries: u16,
    /// Whether the host uses SQHD (it did not set DISSQFC). If not, the SUCCESS flag of C2HData may
    /// replace a response.
    pub sq_flow_control: bool,
    /// The queue's kind.
    pub kind: QueueKind,
    /// CATTR 1:0: 0 urgent, 1 high, 2 medium, 3 low. The class counts only where
    /// [`ControllerShared::wrr`] is set.
    pub priority_class: u8,
    /// The keep alive timeout; `None` for a timer that is off.
    pub keep_alive: Option<Duration>,
    /// Whether the host must prove itself before its commands are answered, see
    /// [`super::Service::is_authenticated`].
    pub authentication: bool,
    /// Of an admin queue: the most I/O queues that the host had at one controller, where it did not
    /// honour Command Retry Delays when it connected the last one. Its queues may have to be smaller,
    /// see [`super::Service::bound_queues`].
    pub without_acre: Option<u16>,
    /// Whether the host may resend commands on this I/O queue that were outstanding before a reconnect,
    /// while [`ControllerShared::resends_since`] returns a time.
    pub resends: bool,
    /// The namespaces that the host sees now.
    pub namespaces: Arc<NamespaceTable>,
}

/// The answer to an admin or Fabrics command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The completion to send now. Data for the host, if any, was put into `out`.
    Done {
        /// The completion's DW0 and DW1.
        result: u64,
        /// The completion's status.
        status: Status,
    },
    /// No completion yet: [`Action::Complete`] will bring it, unless the connection ends first.
    Deferred,
}

impl Reply {
    pub(super) const OK: Self = Self::Done { result: 0, status: Status::SUCCESS };

    pub(super) const fn failed(status: Status) -> Self {
        Self::Done { result: 0, status }
    }

    pub(super) const fn value(result: u64) -> Self {
        Self::Done { result, status: Status::SUCCESS }
    }
}

/// The bytes that a command moves, so that the transport can provide for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataLength {
    /// Bytes that the command needs from the host.
    pub host_to_controller: u32,
    /// The most bytes that the answer brings to the host.
    pub controller_to_host: u32,
}

/// The ticket of an abort that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AbortTicket(pub u64);

/// The reason for which a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// The keep alive timer (or a discovery controller's activity timer) expired.
    KeepAliveExpired,
    /// The subsystem was removed.
    SubsystemRemoved,
    /// The host may no longer use the subsystem.
    HostRemoved,
    /// The listener was removed.
    ListenerRemoved,
    /// The host reset the controller (CC.EN went 0).
    ControllerReset,
    /// The host shut the controller down (CC.SHN).
    ControllerShutdown,
    /// The connection of the controller's admin queue ended.
    AdminQueueLost,
    /// The connection sent no Connect, and more connections have come than may wait.
    TooManyWaiting,
    /// The host has not proved in time that it knows its secret: close after the completion that
    /// tells it so is sent.
    NotAuthenticated,
    /// The host deleted the queue with a Disconnect command: close after its completion is sent.
    Disconnected,
}

impl CloseReason {
    /// Returns the reason in words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::KeepAliveExpired => "keep alive timer expired",
            Self::SubsystemRemoved => "subsystem removed",
            Self::HostRemoved => "host no longer allowed",
            Self::ListenerRemoved => "listener removed",
            Self::ControllerReset => "controller reset by the host",
            Self::ControllerShutdown => "controller shut down by the host",
            Self::AdminQueueLost => "admin queue lost",
            Self::TooManyWaiting => "no Connect, and too many connections that wait (max_waiting)",
            Self::NotAuthenticated => "host not authenticated",
            Self::Disconnected => "queue deleted by the host",
        }
    }
}

/// An action that the service asks of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send the completion of a deferred command.
    Complete {
        /// The admin queue's connection.
        connection: ConnectionId,
        /// The command.
        cid: u16,
        /// DW0 and DW1.
        result: u64,
        /// Status.
        status: Status,
    },
    /// Close the connection: start no more of its commands, settle the commands in flight, send
    /// only the queued output. Answer with [`super::Service::disconnected`] when all of its
    /// commands are settled.
    Close {
        /// The connection.
        connection: ConnectionId,
        /// The reason.
        reason: CloseReason,
    },
    /// Abort a command of an I/O queue if it still waits in the target. Answer with
    /// [`super::Service::abort_done`].
    Abort {
        /// The ticket for the answer.
        ticket: AbortTicket,
        /// The I/O queue's connection.
        connection: ConnectionId,
        /// The command to abort.
        cid: u16,
    },
    /// Carry out the work of an authentication, [`super::Service::authentication_work`], on a thread
    /// that may take long. Answer with [`super::Service::authentication_worked`].
    Authenticate {
        /// The queue's connection.
        connection: ConnectionId,
    },
    /// The namespaces that a controller's host sees have changed: hand the I/O queues the new
    /// [`super::Service::namespaces`].
    TableChanged {
        /// The controller.
        controller: ControllerId,
    },
}

/// The keep alive timer asks whether a command has arrived: traffic based keep alive (TBKAS).
pub(super) const TIMER: u8 = 1;
/// A later controller of the same host and path asks: [`Users`](super::users::Users).
pub(super) const SUCCESSOR: u8 = 2;

/// The state of a controller that I/O queues read and write without a lock.
#[derive(Debug)]
pub struct ControllerShared {
    /// The controller.
    pub id: ControllerId,
    /// The host's NQN.
    pub host_nqn: String,
    /// The subsystem's NQN.
    pub subsystem_nqn: String,
    /// Whether I/O commands are executed: CC.EN, CSTS.RDY and not shutting down. If not, they are
    /// answered with Command Sequence Error.
    pub ready: AtomicBool,
    /// Whether a command has arrived: one bit for each reader, [`TIMER`] and [`SUCCESSOR`].
    heard: AtomicU8,
    /// The version of the controller's namespaces and of its host's rights, which grows with each
    /// change.
    pub table_version: AtomicU64,
    /// Whether the host honours Command Retry Delays (Host Behavior Support).
    pub acre: AtomicBool,
    /// Whether the host holds back the I/O of namespaces whose ANA state is inaccessible: it has read the log of
    /// these states before it connected I/O queues.
    pub knows_ana: AtomicBool,
    /// Whether CC.AMS is weighted round robin with urgent, so that queues' priority classes count.
    pub wrr: AtomicBool,
    /// Weights and burst by which the host's own queues are ordered while `wrr` is set: the present
    /// Arbitration feature.
    pub weights: Arc<QueueWeights>,
    /// The [number](Class::number) of the highest class that the host's commands may have.
    max_class: AtomicU8,
    /// The time in ns of [`Self::resends_since`]; 0: none.
    resends_since: AtomicU64,
}

impl ControllerShared {
    pub(super) fn new(
        id: ControllerId,
        host_nqn: &str,
        subsystem_nqn: &str,
        arbitration: u32,
    ) -> Self {
        Self {
            id,
            host_nqn: host_nqn.to_owned(),
            subsystem_nqn: subsystem_nqn.to_owned(),
            ready: AtomicBool::new(false),
            heard: AtomicU8::new(0),
            table_version: AtomicU64::new(1),
            acre: AtomicBool::new(false),
            knows_ana: AtomicBool::new(false),
            wrr: AtomicBool::new(false),
            weights: Arc::new(QueueWeights::new(arbitration)),
            max_class: AtomicU8::new(0),
            resends_since: AtomicU64::new(0),
        }
    }

    /// Sets the highest class that the host's commands may have. Queues look again when
    /// `table_version` has grown.
    pub(super) fn set_max_class(&self, class: Class) {
        let number = u8::try_from(class.number()).unwrap_or(u8::MAX);
        self.max_class.store(number, Ordering::Release);
    }

    /// Returns the highest class that the host's commands may have.
    #[must_use]
    pub fn max_class(&self) -> Class {
        let number = usize::from(self.max_class.load(Ordering::Acquire));
        Class::ALL.get(number).copied().unwrap_or_default()
    }

    /// Returns the time of the first I/O queue's Connect, if the host reconnected after an end without a
    /// shutdown and has sent no Identify since. A Linux host resends all commands that were outstanding
    /// and waits for their completions before it identifies its namespaces.
    #[must_use]
    pub fn resends_since(&self) -> Option<Nanos> {
        let since = self.resends_since.load(Ordering::Acquire);
        (since != 0).then_some(Nanos(since))
    }

    /// Notes that the host reconnected.
    pub(super) fn begin_resending(&self, now: Nanos) {
        self.resends_since.store(now.0.max(1), Ordering::Release);
    }

    /// Notes that the host has resent all commands.
    pub(super) fn end_resending(&self) {
        self.resends_since.store(0, Ordering::Release);
    }

    /// Returns whether I/O commands are executed.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Returns Namespace Not Ready for this host and a namespace whose device is gone, which other commands are not
    /// told yet. The same command may succeed later (DNR is 0), and a host that honours Command Retry Delays waits
    /// first: for CRDT1 if it knows ANA states, which tell of the outage by then, else for CRDT2.
    #[cold]
    #[must_use]
    pub fn namespace_not_ready(&self) -> Status {
        let delay = if self.knows_ana.load(Ordering::Relaxed) { 1 } else { 2 };
        self.delayed(Status::NAMESPACE_NOT_READY, delay)
    }

    /// Returns the status of a command for a namespace whose commands are not executed, by its
    /// [readiness](Readiness). If the file or device is absent, a host that knows ANA states gets
    /// the status for an inaccessible namespace. Any other host gets Namespace Not Ready, with
    /// CRDT2 while the outage has lasted for less than 20 s, then with CRDT3. A host that has not
    /// identified the namespace gets the shortest delay (CRDT1), since its reconnect may wait for
    /// the command.
    #[cold]
    #[must_use]
    pub fn unavailable(&self, namespace: &Namespace, now: Nanos) -> Status {
        match namespace.readiness {
            Readiness::Ready => self.namespace_not_ready(),
            Readiness::NotReady { since, .. } => {
                let status = match self.knows_ana.load(Ordering::Relaxed) {
                    true => Status::ANA_INACCESSIBLE,
                    false => Status::NAMESPACE_NOT_READY,
                };
                let is_long = now.ns_since(since) >= SHORT_OUTAGE_NS;
                self.delayed(status, if is_long { 3 } else { 2 })
            }
            Readiness::Unidentified => self.delayed(Status::NAMESPACE_NOT_READY, 1),
            Readiness::KnownAsOther => Status::INVALID_NAMESPACE.dnr(),
        }
    }

    /// Returns the status with a Command Retry Delay if the host honours them.
    fn delayed(&self, status: Status, crd: u8) -> Status {
        match self.acre.load(Ordering::Relaxed) {
            true => status.with_retry_delay(crd),
            false => status,
        }
    }

    /// Notes that a command arrived. Writes the cache line only where needed.
    pub fn note_traffic(&self) {
        if self.heard.load(Ordering::Relaxed) != TIMER | SUCCESSOR {
            self.heard.store(TIMER | SUCCESSOR, Ordering::Relaxed);
        }
    }

    /// Returns whether a command has arrived since this reader, [`TIMER`] or [`SUCCESSOR`], last
    /// asked.
    pub(super) fn take_heard(&self, asks: u8) -> bool {
        self.heard.fetch_and(!asks, Ordering::Relaxed) & asks != 0
    }
}
