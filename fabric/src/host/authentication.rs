//! In-band authentication by DH-HMAC-CHAP, the host's side (NVMe base 2.0, section 8.13.5).

use core::fmt;
use std::sync::Arc;

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};
use zeroize::Zeroizing;

use crate::dhchap::proof::{Challenge, Names};
use crate::dhchap::{Group, Hash, RandomValues, Secret, Work, WorkResult};
use crate::fabrics::{
    AUTHENTICATION_REQUIRED, AuthFailure, AuthHeader, AuthKind, AuthProtocol, ChallengeHead,
    Concatenation, FailureMessage, Negotiate, ReplyHead, SECURE_CHANNEL_REQUIRED, Success1Head,
    Success2,
};

/// The room for a message of the controller, bytes.
pub const MESSAGE_ROOM: u32 = crate::fabrics::AUTH_MESSAGE_MAX;

/// A host's means of authentication, and the methods that it accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The host's secret.
    pub secret: Secret,
    /// The secret by which the controller must prove itself; `None`: it need not.
    pub controller: Option<Secret>,
    /// The hash functions to offer.
    pub hashes: Vec<Hash>,
    /// The groups to offer.
    pub groups: Vec<Group>,
}

impl Credentials {
    /// Makes credentials that offer every hash function and every group.
    #[must_use]
    pub fn new(secret: Secret, controller: Option<Secret>) -> Self {
        let (hashes, groups) = (Hash::ALL.to_vec(), Group::ALL.to_vec());
        Self { secret, controller, hashes, groups }
    }
}

/// The reason for which a host has not authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The controller requires a proof, and there is no secret.
    #[error("the controller wants the host to prove itself, and no secret was given")]
    NoSecret,
    /// The controller requires a secure channel.
    #[error("the controller wants a secure channel (TLS), which this host does not have")]
    Channel,
    /// The controller says that it has failed.
    #[error("the controller says: {}", .0.text())]
    Refused(AuthFailure),
    /// The controller's message is wrong, or does not prove it.
    #[error("the controller did not prove itself: {}", .0.text())]
    Controller(AuthFailure),
}

/// Returns whether Connect's answer demands an authentication.
///
/// # Errors
/// It demands a secure channel.
pub fn is_required(result: u64) -> Result<bool, AuthError> {
    if result & SECURE_CHANNEL_REQUIRED != 0 {
        return Err(AuthError::Channel);
    }
    Ok(result & AUTHENTICATION_REQUIRED != 0)
}

/// The next thing to do.
#[derive(Debug)]
pub enum Next {
    /// Send this message with Authentication Send; [`Authentication::sent`] takes the success.
    Send(Vec<u8>),
    /// Fetch a message of up to [`MESSAGE_ROOM`] bytes with Authentication Receive;
    /// [`Authentication::received`] takes it.
    Receive,
    /// Carry this out; [`Authentication::worked`] takes the result.
    Work(Work),
    /// It is over. Without an error both ends have proved themselves as far as they had to.
    Over(Result<(), AuthError>),
}

/// The controller's challenge, and how it is answered.
struct Posed {
    hash: Hash,
    group: Group,
    sequence: u32,
    value: Vec<u8>,
}

/// The host's challenge to the controller.
struct HostChallenge {
    hash: Hash,
    sequence: u32,
    value: Vec<u8>,
    shared: Zeroizing<Vec<u8>>,
}

enum Step {
    Negotiating,
    Challenge,
    Working(Posed),
    Replying(HostChallenge),
    Success(HostChallenge),
    /// The last message is on its way; then this is the end.
    Ending(Result<(), AuthError>),
}

/// The authentication of one queue.
pub struct Authentication {
    credentials: Arc<Credentials>,
    host: String,
    subsystem: String,
    transaction: u16,
    step: Step,
}

impl fmt::Debug for Authentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authentication")
            .field("transaction", &self.transaction)
            .finish_non_exhaustive()
    }
}

impl Authentication {
    /// Begins the authentication of a host to a subsystem's controller, in a transaction of this
    /// number, with the message to send first.
    #[must_use]
    pub fn begin(
        credentials: Arc<Credentials>,
        names: Names<'_>,
        transaction: u16,
    ) -> (Self, Vec<u8>) {
        let head = Negotiate {
            header: AuthHeader::new(AuthKind::Negotiate, transaction),
            sc_c: Concatenation::None.id(),
            napd: 1,
        };
        let hashes = credentials.hashes.iter().map(|hash| hash.id());
        let groups = credentials.groups.iter().map(|group| group.id());
        let protocol = AuthProtocol::new(hashes, groups);
        let message = [head.as_bytes(), protocol.as_bytes()].concat();
        let (host, subsystem) = (names.host.to_owned(), names.subsystem.to_owned());
        (Self { credentials, host, subsystem, transaction, step: Step::Negotiating }, message)
    }

    fn names(&self) -> Names<'_> {
        Names { host: &self.host, subsystem: &self.subsystem }
    }

    /// Continues after a message was sent.
    pub fn sent(&mut self) -> Next {
        match core::mem::replace(&mut self.step, Step::Ending(Ok(()))) {
            Step::Negotiating => {
                self.step = Step::Challenge;
                Next::Receive
            }
            Step::Replying(asked) => {
                self.step = Step::Success(asked);
                Next::Receive
            }
            Step::Ending(end) => Next::Over(end),
            _ => self.give_up(AuthFailure::Message),
        }
    }

    /// Handles a message of the controller; bytes behind it are ignored.
    pub fn received(&mut self, message: &[u8]) -> Next {
        let Some((kind, transaction)) = AuthHeader::read(message) else {
            return self.give_up(AuthFailure::Message);
        };
        if kind == AuthKind::Failure1 {
            let why = FailureMessage::read_from_prefix(message).map(|(told, _)| told.explanation);
            return Next::Over(Err(AuthError::Refused(AuthFailure::from_id(why.unwrap_or(0)))));
        }
        if transaction != self.transaction {
            return self.give_up(AuthFailure::Payload);
        }
        match core::mem::replace(&mut self.step, Step::Ending(Ok(()))) {
            Step::Challenge if kind == AuthKind::Challenge => self.challenged(message),
            Step::Success(asked) if kind == AuthKind::Success1 => self.succeeded(message, &asked),
            _ => self.give_up(AuthFailure::Message),
        }
    }

    /// Continues with the result of a piece of work.
    pub fn worked(&mut self, worked: WorkResult) -> Next {
        let step = core::mem::replace(&mut self.step, Step::Ending(Ok(())));
        let (Step::Working(posed), Some(fresh)) = (step, worked.fresh) else {
            return self.give_up(AuthFailure::Message);
        };
        match worked.shared {
            Some(shared) => self.reply(&posed, &fresh, shared.0),
            None => self.give_up(AuthFailure::Group),
        }
    }

    /// Sends the controller the reason why the host gives up.
    fn give_up(&mut self, why: AuthFailure) -> Next {
        self.step = Step::Ending(Err(AuthError::Controller(why)));
        let message = FailureMessage::new(AuthKind::Failure2, self.transaction, why);
        Next::Send(message.as_bytes().to_vec())
    }

    fn challenged(&mut self, message: &[u8]) -> Next {
        let Ok((head, rest)) = ChallengeHead::read_from_prefix(message) else {
            return self.give_up(AuthFailure::Payload);
        };
        let hash = Hash::from_id(head.hash).filter(|hash| self.credentials.hashes.contains(hash));
        let Some(hash) = hash.filter(|hash| hash.length() == usize::from(head.hl)) else {
            return self.give_up(AuthFailure::Hash);
        };
        let allowed = &self.credentials.groups;
        let Some(group) = Group::from_id(head.group).filter(|group| allowed.contains(group)) else {
            return self.give_up(AuthFailure::Group);
        };
        let length = usize::from(head.dhvlen.get());
        let value = rest.get(..hash.length());
        let public = rest.get(hash.length()..).and_then(|rest| rest.get(..length));
        let (Some(value), Some(public)) = (value, public) else {
            return self.give_up(AuthFailure::Payload);
        };
        if length != group.length() {
            return self.give_up(AuthFailure::Payload);
        }
        let sequence = head.sequence.get();
        self.step = Step::Working(Posed { hash, group, sequence, value: value.to_vec() });
        Next::Work(Work { group, exponent: None, peer: Some(public.to_vec()) })
    }

    fn reply(&mut self, posed: &Posed, fresh: &RandomValues, shared: Zeroizing<Vec<u8>>) -> Next {
        let Posed { hash, group, sequence, value } = posed;
        let transaction = self.transaction;
        let theirs = Challenge {
            hash: *hash,
            transaction,
            sequence: *sequence,
            value,
            shared: &shared,
            channel: Concatenation::None.id(),
        };
        let response = theirs.host_response(&self.credentials.secret, self.names());
        let asks = self.credentials.controller.is_some();
        let mut own = fresh.challenge(*hash).to_vec();
        if !asks {
            own.fill(0);
        }
        let sequence = if asks { fresh.sequence } else { 0 };
        let head = ReplyHead {
            header: AuthHeader::new(AuthKind::Reply, transaction),
            hl: u8::try_from(hash.length()).unwrap_or(0),
            reserved7: 0,
            cvalid: u8::from(asks),
            reserved9: 0,
            dhvlen: U16::new(u16::try_from(group.length()).unwrap_or(0)),
            sequence: U32::new(sequence),
        };
        let message = [head.as_bytes(), &response, &own, &fresh.public].concat();
        self.step = Step::Replying(HostChallenge { hash: *hash, sequence, value: own, shared });
        Next::Send(message)
    }

    fn succeeded(&mut self, message: &[u8], asked: &HostChallenge) -> Next {
        let Ok((head, rest)) = Success1Head::read_from_prefix(message) else {
            return self.give_up(AuthFailure::Payload);
        };
        let HostChallenge { hash, sequence, value, shared } = asked;
        if usize::from(head.hl) != hash.length() {
            return self.give_up(AuthFailure::Hash);
        }
        let Some(secret) = &self.credentials.controller else {
            return Next::Over(Ok(()));
        };
        let ours = Challenge {
            hash: *hash,
            transaction: self.transaction,
            sequence: *sequence,
            value,
            shared,
            channel: Concatenation::None.id(),
        };
        let response = rest.get(..hash.length()).filter(|_| head.rvalid == 1);
        let good =
            response.is_some_and(|response| ours.is_controller(secret, self.names(), response));
        if !good {
            return self.give_up(AuthFailure::Failed);
        }
        self.step = Step::Ending(Ok(()));
        Next::Send(Success2::new(self.transaction).as_bytes().to_vec())
    }
}
