//! The reasons for which a Connect is refused, in more detail than the completion tells.

use crate::fabrics::ConnectField;
use crate::nvme::Status;

/// The answer to a Connect command that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The completion's status.
    pub status: Status,
    /// The completion's result: IPO 15:0 and IATTR 16 for Connect Invalid Parameters and Connect
    /// Invalid Host, see [`ConnectField`]; else 0.
    pub result: u64,
    /// The reason, for the log.
    pub reason: Refusal,
}

impl Rejected {
    /// Makes the answer to a Connect that does not agree with its transport's connection in this
    /// field: the queue's size, else its identifier.
    #[must_use]
    pub fn by_transport(field: ConnectField) -> Self {
        match field {
            ConnectField::SqSize => Refusal::QueueSize.rejected(),
            _ => Refusal::OtherQueue.rejected(),
        }
    }
}

/// The reason for which a Connect command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// The first command of a connection is another one.
    NotConnect,
    /// The connection is a queue already.
    Connected,
    /// The data is not 1024 bytes.
    DataLength,
    /// RECFMT is not 0.
    Format,
    /// SQSIZE is 0 or beyond the queue's limit.
    QueueSize,
    /// HOSTID is 0.
    NoHostId,
    /// HOSTNQN is not text ended by NUL.
    HostName,
    /// SUBNQN is empty or not text ended by NUL.
    SubsystemName,
    /// The listener was removed.
    NoListener,
    /// The target is draining.
    Draining,
    /// There is no such subsystem.
    NoSubsystem,
    /// The subsystem is not served on the listener.
    NotServedHere,
    /// The host is not in the subsystem's list.
    HostNotAllowed,
    /// The host is in the subsystem's list, but not with this address.
    AddressNotAllowed,
    /// The connection's TLS key belongs to another host.
    OtherTlsHost,
    /// The connection's TLS key is for another subsystem.
    OtherTlsSubsystem,
    /// The connection is not over TLS, and must be: the host has a TLS key, or the listener has no
    /// others.
    NoTls,
    /// The controller's admin queue is over TLS, and this one is not.
    OnlyWithTls,
    /// Authentication is required by the target, the listener or the subsystem; the host has no
    /// secret, and the connection is not over TLS.
    Unauthenticated,
    /// The host has failed to prove itself at this address, and has to wait.
    TooManyTries,
    /// There are as many controllers as there can be.
    TooManyControllers,
    /// All connections that there can be are promised to hosts.
    TooManyConnections,
    /// The peer's address has as many connections as one may have.
    TooManyOfAddress,
    /// There are as many discovery controllers as there can be.
    TooManyDiscovery,
    /// A discovery controller's keep alive timeout is too long.
    KeepAliveTime,
    /// CNTLID asks for a certain controller: all are dynamic.
    StaticController,
    /// There is no controller with this CNTLID.
    NoController,
    /// The controller belongs to another subsystem.
    OtherSubsystem,
    /// The controller belongs to another host (by HOSTNQN).
    OtherHost,
    /// The controller was connected with another HOSTID.
    OtherHostId,
    /// A discovery controller has no I/O queues.
    NoIoQueues,
    /// The controller is not enabled, or is shutting down.
    NotEnabled,
    /// The host was granted fewer I/O queues.
    QueueId,
    /// The I/O queue is connected already.
    QueueInUse,
    /// The transport's connection was made for another queue.
    OtherQueue,
}

/// A kind of reasons for which Connects fail: those with the same remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// The host is not in the subsystem's list.
    Host,
    /// The host may not come from its address.
    Address,
    /// The host has failed to prove itself.
    Authentication,
    /// There is no such subsystem on the listener.
    Subsystem,
    /// There is no room for one more controller, queue or connection.
    Room,
    /// The target is ending.
    Draining,
    /// The queue does not belong to a controller that takes it.
    Queue,
    /// The command or its data is not as hosts send them.
    Malformed,
}

impl RefusalKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Host,
        Self::Address,
        Self::Authentication,
        Self::Subsystem,
        Self::Room,
        Self::Draining,
        Self::Queue,
        Self::Malformed,
    ];

    /// Returns the kind's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Address => "address",
            Self::Authentication => "authentication",
            Self::Subsystem => "subsystem",
            Self::Room => "room",
            Self::Draining => "draining",
            Self::Queue => "queue",
            Self::Malformed => "malformed",
        }
    }
}

impl Refusal {
    /// Returns the kind of the reason.
    #[must_use]
    pub const fn kind(self) -> RefusalKind {
        match self {
            Self::HostNotAllowed => RefusalKind::Host,
            Self::AddressNotAllowed => RefusalKind::Address,
            Self::OtherTlsHost
            | Self::OtherTlsSubsystem
            | Self::NoTls
            | Self::OnlyWithTls
            | Self::Unauthenticated
            | Self::TooManyTries => RefusalKind::Authentication,
            Self::NoListener | Self::NoSubsystem | Self::NotServedHere => RefusalKind::Subsystem,
            Self::TooManyControllers
            | Self::TooManyConnections
            | Self::TooManyOfAddress
            | Self::TooManyDiscovery => RefusalKind::Room,
            Self::Draining => RefusalKind::Draining,
            Self::StaticController
            | Self::NoController
            | Self::OtherSubsystem
            | Self::OtherHost
            | Self::OtherHostId
            | Self::NoIoQueues
            | Self::NotEnabled
            | Self::QueueId
            | Self::QueueInUse
            | Self::OtherQueue => RefusalKind::Queue,
            Self::NotConnect
            | Self::Connected
            | Self::DataLength
            | Self::Format
            | Self::QueueSize
            | Self::NoHostId
            | Self::HostName
            | Self::SubsystemName
            | Self::KeepAliveTime => RefusalKind::Malformed,
        }
    }

    /// Returns the reason in words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::NotConnect => "its first command is not Connect",
            Self::Connected => "the queue is connected already",
            Self::DataLength => "the Connect data is not 1024 bytes long",
            Self::Format => "the record format (RECFMT) is unknown",
            Self::QueueSize => "the queue size (SQSIZE) is 0 or more than the queue may have",
            Self::NoHostId => "the host identifier (HOSTID) is 0",
            Self::HostName => "the host NQN is not text ended by NUL",
            Self::SubsystemName => "the subsystem NQN is empty or not text ended by NUL",
            Self::NoListener => "the listener is being removed",
            Self::Draining => "the target is ending",
            Self::NoSubsystem => "there is no such subsystem",
            Self::NotServedHere => "the subsystem is not served on this listener",
            Self::HostNotAllowed => "the host is not in the subsystem's list",
            Self::AddressNotAllowed => "the host may not come from this address",
            Self::OtherTlsHost => "the TLS key of the connection belongs to another host",
            Self::OtherTlsSubsystem => "the TLS key of the connection is for another subsystem",
            Self::NoTls => {
                "the connection is not over TLS, which the host has a key for or the listener requires"
            }
            Self::OnlyWithTls => {
                "the controller's admin queue is over TLS, and so must its I/O queues be"
            }
            Self::Unauthenticated => {
                "authentication is required (require_authentication), and the host has neither a \
                 secret nor a TLS key in use on this connection"
            }
            Self::TooManyTries => {
                "the host has failed to prove itself from this address, and has to wait up to a minute"
            }
            Self::TooManyControllers => "there are as many controllers as there can be",
            Self::TooManyConnections => "all connections are promised to hosts (max_connections)",
            Self::TooManyOfAddress => {
                "its address has as many connections as one may have (max_address_connections, a \
                 quarter of max_discovery)"
            }
            Self::TooManyDiscovery => {
                "there are as many discovery controllers as there can be (max_discovery)"
            }
            Self::KeepAliveTime => {
                "a discovery controller's keep-alive time is at most discovery_keep_alive"
            }
            Self::StaticController => "it asks for a certain controller, and all are dynamic",
            Self::NoController => "there is no such controller",
            Self::OtherSubsystem => "the controller belongs to another subsystem",
            Self::OtherHost => "the controller belongs to another host",
            Self::OtherHostId => "the controller was connected with another host identifier",
            Self::NoIoQueues => "discovery controllers have no I/O queues",
            Self::NotEnabled => "the controller is not enabled",
            Self::QueueId => "the host was granted fewer I/O queues",
            Self::QueueInUse => "the I/O queue is connected already",
            Self::OtherQueue => "the connection was made for a queue with another identifier",
        }
    }

    /// Returns status and result of the Connect's completion (NVMe base 2.0, section 6.3).
    pub(super) fn rejected(self) -> Rejected {
        let field =
            |field: ConnectField| (Status::CONNECT_INVALID_PARAMETERS.dnr(), field.result());
        let (status, result) = match self {
            Self::NotConnect | Self::Connected => (Status::COMMAND_SEQUENCE_ERROR.dnr(), 0),
            Self::DataLength => (Status::DATA_SGL_LENGTH_INVALID.dnr(), 0),
            Self::Format => (Status::CONNECT_INCOMPATIBLE_FORMAT.dnr(), 0),
            Self::QueueSize => field(ConnectField::SqSize),
            Self::NoHostId | Self::OtherHostId => field(ConnectField::HostId),
            Self::HostName | Self::OtherHost => field(ConnectField::HostNqn),
            Self::SubsystemName | Self::NoListener | Self::NoSubsystem | Self::NotServedHere => {
                field(ConnectField::SubNqn)
            }
            // Retrying later may help.
            Self::Draining
            | Self::TooManyTries
            | Self::TooManyControllers
            | Self::TooManyConnections
            | Self::TooManyOfAddress
            | Self::TooManyDiscovery => (Status::CONNECT_CONTROLLER_BUSY, 0),
            Self::KeepAliveTime => (Status::KEEP_ALIVE_INVALID.dnr(), 0),
            Self::HostNotAllowed
            | Self::AddressNotAllowed
            | Self::OtherTlsHost
            | Self::NoTls
            | Self::OnlyWithTls
            | Self::Unauthenticated => {
                (Status::CONNECT_INVALID_HOST.dnr(), ConnectField::HostNqn.result())
            }
            Self::OtherTlsSubsystem => {
                (Status::CONNECT_INVALID_HOST.dnr(), ConnectField::SubNqn.result())
            }
            Self::StaticController | Self::NoController | Self::OtherSubsystem => {
                field(ConnectField::CntlId)
            }
            Self::NoIoQueues | Self::NotEnabled | Self::QueueId | Self::OtherQueue => {
                field(ConnectField::Qid)
            }
            // The queue's connection may be about to end.
            Self::QueueInUse => (Status::COMMAND_SEQUENCE_ERROR, 0),
        };
        Rejected { status, result, reason: self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_ordered_numbers_and_unique_names() {
        for (number, kind) in RefusalKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            let like = RefusalKind::ALL.iter().filter(|other| other.name() == kind.name());
            assert_eq!(like.count(), 1, "{kind:?}");
        }
    }
}
