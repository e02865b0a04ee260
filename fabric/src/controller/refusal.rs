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

/// Makes [`Refusal`]: each reason with its kind, its completion, and its text.
macro_rules! refusals {
    ($($(#[$doc:meta])* $reason:ident, $kind:ident, $answer:expr, $text:literal;)*) => {
        /// The reason for which a Connect command failed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Refusal {
            $($(#[$doc])* $reason,)*
        }

        impl Refusal {
            /// Returns the kind of the reason.
            #[must_use]
            pub const fn kind(self) -> RefusalKind {
                match self {
                    $(Self::$reason => RefusalKind::$kind,)*
                }
            }

            /// Returns the reason in words.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$reason => $text,)*
                }
            }

            /// Returns status and result of the Connect's completion (NVMe base 2.0, section 6.3).
            pub(super) fn rejected(self) -> Rejected {
                let (status, result) = match self {
                    $(Self::$reason => $answer,)*
                };
                Rejected { status, result, reason: self }
            }
        }
    };
}

refusals! {
    /// The first command of a connection is another one.
    NotConnect, Malformed, permanent(Status::COMMAND_SEQUENCE_ERROR),
        "its first command is not Connect";
    /// The connection is a queue already.
    Connected, Malformed, permanent(Status::COMMAND_SEQUENCE_ERROR),
        "the queue is connected already";
    /// The data is not 1024 bytes.
    DataLength, Malformed, permanent(Status::DATA_SGL_LENGTH_INVALID),
        "the Connect data is not 1024 bytes long";
    /// RECFMT is not 0.
    Format, Malformed, permanent(Status::CONNECT_INCOMPATIBLE_FORMAT),
        "the record format (RECFMT) is unknown";
    /// SQSIZE is 0 or beyond the queue's limit.
    QueueSize, Malformed, parameter(ConnectField::SqSize),
        "the queue size (SQSIZE) is 0 or more than the queue may have";
    /// HOSTID is 0.
    NoHostId, Malformed, parameter(ConnectField::HostId), "the host identifier (HOSTID) is 0";
    /// HOSTNQN is not text ended by NUL.
    HostName, Malformed, parameter(ConnectField::HostNqn), "the host NQN is not text ended by NUL";
    /// SUBNQN is empty or not text ended by NUL.
    SubsystemName, Malformed, parameter(ConnectField::SubNqn),
        "the subsystem NQN is empty or not text ended by NUL";
    /// The listener was removed.
    NoListener, Subsystem, passing(ConnectField::SubNqn), "the listener is being removed";
    /// The target is draining.
    Draining, Draining, retryable(Status::CONNECT_CONTROLLER_BUSY), "the target is ending";
    /// There is no such subsystem.
    NoSubsystem, Subsystem, parameter(ConnectField::SubNqn), "there is no such subsystem";
    /// The subsystem is not served on the listener.
    NotServedHere, Subsystem, parameter(ConnectField::SubNqn),
        "the subsystem is not served on this listener";
    /// The host is not in the subsystem's list.
    HostNotAllowed, Host, host(ConnectField::HostNqn), "the host is not in the subsystem's list";
    /// The host is in the subsystem's list, but not with this address.
    AddressNotAllowed, Address, host(ConnectField::HostNqn),
        "the host may not come from this address";
    /// The connection's TLS key belongs to another host.
    OtherTlsHost, Authentication, host(ConnectField::HostNqn),
        "the TLS key of the connection belongs to another host";
    /// The connection's TLS key is for another subsystem.
    OtherTlsSubsystem, Authentication, host(ConnectField::SubNqn),
        "the TLS key of the connection is for another subsystem";
    /// The connection is not over TLS, and must be: the host has a TLS key, or the listener has no
    /// others.
    NoTls, Authentication, host(ConnectField::HostNqn),
        "the connection is not over TLS, which the host has a key for or the listener requires";
    /// The controller's admin queue is over TLS, and this one is not.
    OnlyWithTls, Authentication, host(ConnectField::HostNqn),
        "the controller's admin queue is over TLS, and so must its I/O queues be";
    /// Authentication is required by the target, the listener or the subsystem; the host has no
    /// secret, and the connection is not over TLS.
    Unauthenticated, Authentication, host(ConnectField::HostNqn),
        "authentication is required (require_authentication), and the host has neither a secret \
         nor a TLS key in use on this connection";
    /// The host has failed to prove itself at this address, and has to wait.
    TooManyTries, Authentication, retryable(Status::CONNECT_CONTROLLER_BUSY),
        "the host has failed to prove itself from this address, and has to wait up to a minute";
    /// There are as many controllers as there can be.
    TooManyControllers, Room, retryable(Status::CONNECT_CONTROLLER_BUSY),
        "there are as many controllers as there can be";
    /// All connections that there can be are promised to hosts.
    TooManyConnections, Room, retryable(Status::CONNECT_CONTROLLER_BUSY),
        "all connections are promised to hosts (max_connections)";
    /// The peer's address has as many connections as one may have.
    TooManyOfAddress, Room, retryable(Status::CONNECT_CONTROLLER_BUSY),
        "its address has as many connections as one may have (max_address_connections, a quarter \
         of max_discovery)";
    /// There are as many discovery controllers as there can be.
    TooManyDiscovery, Room, retryable(Status::CONNECT_CONTROLLER_BUSY),
        "there are as many discovery controllers as there can be (max_discovery)";
    /// A discovery controller's keep alive timeout is too long.
    KeepAliveTime, Malformed, permanent(Status::KEEP_ALIVE_INVALID),
        "a discovery controller's keep-alive time is at most discovery_keep_alive";
    /// CNTLID asks for a certain controller: all are dynamic.
    StaticController, Queue, parameter(ConnectField::CntlId),
        "it asks for a certain controller, and all are dynamic";
    /// There is no controller with this CNTLID.
    NoController, Queue, passing(ConnectField::CntlId), "there is no such controller";
    /// The controller belongs to another subsystem.
    OtherSubsystem, Queue, passing(ConnectField::CntlId),
        "the controller belongs to another subsystem";
    /// The controller belongs to another host (by HOSTNQN).
    OtherHost, Queue, passing(ConnectField::HostNqn), "the controller belongs to another host";
    /// The controller was connected with another HOSTID.
    OtherHostId, Queue, passing(ConnectField::HostId),
        "the controller was connected with another host identifier";
    /// A discovery controller has no I/O queues.
    NoIoQueues, Queue, parameter(ConnectField::Qid), "discovery controllers have no I/O queues";
    /// The controller is not enabled, or is shutting down.
    NotEnabled, Queue, passing(ConnectField::Qid), "the controller is not enabled";
    /// The host was granted fewer I/O queues.
    QueueId, Queue, passing(ConnectField::Qid), "the host was granted fewer I/O queues";
    /// The I/O queue is connected already.
    QueueInUse, Queue, retryable(Status::COMMAND_SEQUENCE_ERROR),
        "the I/O queue is connected already";
    /// The transport's connection was made for another queue.
    OtherQueue, Queue, parameter(ConnectField::Qid),
        "the connection was made for a queue with another identifier";
}

/// Makes an answer after which no retry helps.
fn permanent(status: Status) -> (Status, u64) {
    (status.dnr(), 0)
}

/// Makes an answer after which a retry may help.
fn retryable(status: Status) -> (Status, u64) {
    (status, 0)
}

/// Makes the answer that this field of the command or its data is invalid.
fn parameter(field: ConnectField) -> (Status, u64) {
    (Status::CONNECT_INVALID_PARAMETERS.dnr(), field.result())
}

/// Makes the answer that this field does not fit the target as it is now. The host connects again, admin queue first:
/// the target may have been started again after that was connected. With Do Not Retry, Linux would remove the
/// controller at once instead of after `ctrl_loss_tmo` (`nvmf_should_reconnect`, from Linux 6.10 on).
fn passing(field: ConnectField) -> (Status, u64) {
    (Status::CONNECT_INVALID_PARAMETERS, field.result())
}

/// Makes the answer that the host may not connect, by this field.
fn host(field: ConnectField) -> (Status, u64) {
    (Status::CONNECT_INVALID_HOST.dnr(), field.result())
}

units::named! {
    /// A kind of reasons for which Connects fail: those with the same remedy.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RefusalKind {
        /// The host is not in the subsystem's list.
        Host => "host",
        /// The host may not come from its address.
        Address => "address",
        /// The host has failed to prove itself.
        Authentication => "authentication",
        /// There is no such subsystem on the listener.
        Subsystem => "subsystem",
        /// There is no room for one more controller, queue or connection.
        Room => "room",
        /// The target is ending.
        Draining => "draining",
        /// The queue does not belong to a controller that takes it.
        Queue => "queue",
        /// The command or its data is not as hosts send them.
        Malformed => "malformed",
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
