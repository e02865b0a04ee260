//! The facts that a host learns of a controller and its namespaces, and the errors that may occur.

use core::time::Duration;
use std::sync::Arc;

use units::Class;
use zerocopy::FromBytes;

use super::authentication::{AuthError, Authentication, Credentials, is_required};
use super::commands;
use crate::dhchap::proof::Names;
use crate::nvm::{BlockFormat, BlockFormatError};
use crate::nvme::identify::{IdentifyController, IdentifyNamespace};
use crate::nvme::{Sqe, Status};

/// The reason for which an association ended, or a request was not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Connect was refused.
    #[error("Connect was refused for queue {qid}: {status}")]
    Refused {
        /// The queue; 0 is the admin queue.
        qid: u16,
        /// The answer.
        status: Status,
    },
    /// A command that the association needs was answered with an error.
    #[error("{what}: the target answered: {status}")]
    Command {
        /// The command.
        what: &'static str,
        /// The answer.
        status: Status,
    },
    /// The host or the controller did not prove itself on a queue.
    #[error("queue {qid}: {why}")]
    NotAuthenticated {
        /// The queue; 0 is the admin queue.
        qid: u16,
        /// The reason.
        why: AuthError,
    },
    /// The controller has no priority classes.
    #[error(
        "the controller has no weighted round robin (CAP.AMS), so that its queues have no classes"
    )]
    NoWeightedRoundRobin,
    /// The controller grants too few I/O queues.
    #[error("the target allows {granted} I/O queues, {wanted} are wanted")]
    TooFewQueues {
        /// The number of I/O queues that the controller allows.
        granted: u32,
        /// The number of I/O queues that were asked for.
        wanted: u16,
    },
    /// The controller's queues are shorter.
    #[error("the controller's queues hold {most} commands (CAP.MQES), not {wanted}")]
    QueueTooLong {
        /// Commands that a queue holds.
        most: u16,
        /// Commands that were asked for.
        wanted: u16,
    },
    /// CSTS.CFS is set.
    #[error("the controller reports a fatal status (CSTS.CFS)")]
    Fatal,
    /// CSTS did not change within CAP.TO.
    #[error("the controller did not {what} in time (CAP.TO)")]
    TooSlow {
        /// The goal that CSTS did not reach.
        what: &'static str,
    },
    /// A command had no answer.
    #[error("the target did not answer {what} in time")]
    Silent {
        /// The command.
        what: &'static str,
    },
    /// A data structure is too short.
    #[error("{what}: the target sent {length} bytes, fewer than 4096")]
    Short {
        /// The structure.
        what: &'static str,
        /// The length in bytes.
        length: usize,
    },
    /// The namespace has no blocks.
    #[error("namespace {nsid} is not active")]
    Inactive {
        /// The namespace identifier.
        nsid: u32,
    },
    /// The namespace's format is not possible.
    #[error("namespace {nsid}: {why}")]
    Format {
        /// The namespace identifier.
        nsid: u32,
        /// The fault of the format.
        why: BlockFormatError,
    },
    /// All identifiers of the admin queue are in use.
    #[error("the admin queue is full: wait for an answer")]
    QueueFull,
    /// The controller is not ready for commands, or not any more.
    #[error("the controller is not ready")]
    NotReady,
}

/// The unit of CRDT1 to CRDT3.
const RETRY_DELAY_UNIT: Duration = Duration::from_millis(100);

/// The facts about a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// CNTLID.
    pub cntlid: u16,
    /// CAP.MQES: commands that may be outstanding on an I/O queue, which is one less than entries.
    pub max_outstanding: u16,
    /// Whether CAP.AMS has weighted round robin with urgent.
    pub weighted_round_robin: bool,
    /// In-capsule data on I/O queues, bytes.
    pub in_capsule_data: u32,
    /// The most bytes in one command (MDTS); 0: no limit.
    pub max_transfer: u64,
    /// The number of I/O queues that the controller allows.
    pub queues: u32,
    /// Model number.
    pub model: String,
    /// Serial number.
    pub serial: String,
    /// CRDT1 to CRDT3: the retry delays that a status selects; zero where the controller has none.
    pub retry_delays: [Duration; 3],
    /// Whether the controller knows that the host honours retry delays (ACRE).
    pub honours_retry_delays: bool,
}

impl Facts {
    /// Reads the facts from Identify Controller data.
    pub(super) fn identified(&mut self, data: &[u8]) -> Result<(), HostError> {
        let (id, _) = IdentifyController::read_from_prefix(data)
            .map_err(|_| HostError::Short { what: "Identify Controller", length: data.len() })?;
        self.in_capsule_data = id.ioccsz.get().saturating_mul(16).saturating_sub(64);
        // MDTS: 2^n pages of 4096 bytes.
        self.max_transfer = match u32::from(id.mdts) {
            0 => 0,
            mdts => 4096u64.checked_shl(mdts).unwrap_or(0),
        };
        let text = |field: &[u8]| String::from_utf8_lossy(field).trim().to_owned();
        (self.model, self.serial) = (text(&id.mn), text(&id.sn));
        self.retry_delays = id.crdt.map(|units| RETRY_DELAY_UNIT * u32::from(units.get()));
        self.honours_retry_delays = false;
        Ok(())
    }

    /// Returns the time after which a command with this status is to be submitted again; `None` where
    /// the status is final.
    #[must_use]
    pub fn retry_delay(&self, status: Status) -> Option<Duration> {
        let is_temporary =
            status.is(Status::COMMAND_INTERRUPTED) || status.is(Status::NAMESPACE_NOT_READY);
        if !self.honours_retry_delays || !is_temporary || status.is_dnr() {
            return None;
        }
        let selected = usize::from(status.retry_delay()).checked_sub(1)?;
        self.retry_delays.get(selected).copied()
    }
}

/// The facts about a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceFacts {
    /// Namespace identifier.
    pub nsid: u32,
    /// Logical blocks.
    pub blocks: u64,
    /// The format of a logical block.
    pub format: BlockFormat,
}

impl NamespaceFacts {
    /// Reads Identify Namespace data (CNS 00h).
    ///
    /// # Errors
    /// The data is too short, the namespace is not active, or its format is not one of the NVM
    /// command set.
    pub fn parse(nsid: u32, data: &[u8]) -> Result<Self, HostError> {
        let id = IdentifyNamespace::ref_from_bytes(data)
            .map_err(|_| HostError::Short { what: "Identify Namespace", length: data.len() })?;
        let blocks = id.nsze.get();
        if blocks == 0 {
            return Err(HostError::Inactive { nsid });
        }
        let format = BlockFormat::in_use(id).map_err(|why| HostError::Format { nsid, why })?;
        Ok(Self { nsid, blocks, format })
    }
}

/// The data that a connection needs in order to become an I/O queue of a controller. Other threads
/// may have it.
#[derive(Clone, Debug)]
pub struct IoConnector {
    pub(super) connect_data: Vec<u8>,
    /// NQNs of the host and the subsystem.
    pub(super) names: (String, String),
    pub(super) credentials: Option<Arc<Credentials>>,
    /// The controller's facts.
    pub facts: Facts,
}

impl IoConnector {
    /// Makes Connect for I/O queue `qid` of a priority class, so that `depth` commands may be
    /// outstanding: the command, with identifier 0, and its data.
    ///
    /// # Errors
    /// The controller's queues are shorter.
    pub fn connect(
        &self,
        qid: u16,
        depth: u16,
        class: Option<Class>,
    ) -> Result<(Sqe, Vec<u8>), HostError> {
        let most = self.facts.max_outstanding;
        if depth > most {
            return Err(HostError::QueueTooLong { most, wanted: depth });
        }
        Ok((commands::connect(qid, depth, 0, class), self.connect_data.clone()))
    }

    /// Begins the authentication that the result of an I/O queue's Connect demands, with its first
    /// message; `None` where it demands none.
    ///
    /// # Errors
    /// There is no secret, or the controller wants a secure channel.
    pub fn authentication(
        &self,
        qid: u16,
        result: u64,
    ) -> Result<Option<(Authentication, Vec<u8>)>, HostError> {
        let (host, subsystem) = &self.names;
        let begun = demanded(result, self.credentials.as_ref(), Names { host, subsystem }, qid);
        begun.map_err(|why| HostError::NotAuthenticated { qid, why })
    }
}

/// Begins the authentication of queue `qid` that the result of its Connect demands.
pub(super) fn demanded(
    result: u64,
    credentials: Option<&Arc<Credentials>>,
    names: Names<'_>,
    qid: u16,
) -> Result<Option<(Authentication, Vec<u8>)>, AuthError> {
    if !is_required(result)? {
        return Ok(None);
    }
    let credentials = credentials.ok_or(AuthError::NoSecret)?;
    // A number of its own for each queue, which distinguishes the transactions of one controller.
    Ok(Some(Authentication::begin(Arc::clone(credentials), names, qid)))
}
