//! The authentication of one queue, as a state machine.
//!
//! ```text
//!  Idle ── Negotiate ── Preparing ── work ── Challenge ── fetched ── Reply
//!   ▲                                                                  │ DH-HMAC-CHAP_Reply
//!   ├── fetched, one way ──┐                                           ▼
//!   └── Success2 ── Success2 ◀── fetched ── Success1 ◀── proof ─── Checking
//! ```
//!
//! From each of them a message that is wrong or not in its turn leads to `Failed`, which the host
//! fetches as AUTH_Failure1.

use core::time::Duration;
use std::sync::Arc;

use zerocopy::IntoBytes;
use zeroize::Zeroizing;

use super::super::generated_keys::GeneratedKey;
use super::message::{self, Choice, Reply};
use crate::Nanos;
use crate::dhchap::proof::{Challenge, Names};
use crate::dhchap::{Group, Hash, HostSecrets, RandomValues, Secret, Work, WorkResult};
use crate::fabrics::{AuthFailure, AuthHeader, AuthKind, Concatenation, FailureMessage};
use crate::nvme::Status;
use crate::tls_psk::{PskLength, generated, generated_tls_psk};

/// The time that a host has to prove itself, from Connect or, on a queue that it has proved itself
/// on before, from its first message.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// The result of a message that a host has sent.
#[derive(Debug)]
pub enum SendOutcome {
    /// The command is complete.
    Taken,
    /// The command is complete when this work is done: [`Authentication::worked`] takes the result.
    Work(Work),
    /// The command is complete, and the host has proved itself.
    Proved,
    /// The command is complete. The host gives the authentication up, for a reason of its own.
    GivenUp(AuthFailure),
}

/// The result of a message that a host has fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveOutcome {
    /// The exchange goes on.
    Going,
    /// The host has proved itself.
    Proved,
    /// The authentication has failed, and the host knows.
    Failed(AuthFailure),
}

/// The parameters agreed for one exchange.
#[derive(Debug)]
struct Terms {
    transaction: u16,
    choice: Choice,
    secrets: Arc<HostSecrets>,
}

/// The challenge that the host has to answer.
#[derive(Debug)]
struct Posed {
    fresh: RandomValues,
    sequence: u32,
}

/// A key, and the host's secret without which it would not have been made.
#[derive(Debug)]
struct Made {
    key: GeneratedKey,
    secret: Secret,
}

/// The state after the host has authenticated.
#[derive(Debug)]
struct Authenticated {
    transaction: u16,
    hash: Hash,
    /// The kind of key that the exchange was to negotiate.
    channel: Concatenation,
    key: Option<Made>,
}

#[derive(Debug)]
enum Step {
    Idle,
    /// Challenge and public value are being made.
    Preparing(Terms),
    /// The challenge is there to be fetched.
    Challenge(Terms, Posed),
    /// The host has the challenge.
    Reply(Terms, Posed),
    /// The common value is being computed.
    Checking(Terms, Posed, Reply),
    /// The host has proved itself, which it may fetch, with the controller's response.
    Success1(Authenticated, Option<Zeroizing<Vec<u8>>>),
    /// The host checks the controller's response.
    Success2(Authenticated),
    /// The failure is there to be fetched.
    Failed(u16, AuthFailure),
}

/// The authentication of one queue.
#[derive(Debug)]
pub struct Authentication {
    step: Step,
    /// Whether the host must prove itself.
    required: bool,
    proved: bool,
    /// The time by which the host must have proved itself; `None`: it has, and nothing is under way.
    until: Option<Nanos>,
    /// The key that an exchange has made, until somebody takes it.
    key: Option<Made>,
    /// Whether an exchange has made a key for connections that follow this one.
    concatenated: bool,
}

impl Authentication {
    /// Creates the authentication of a queue that has just been connected. If it is `required`, the
    /// host has the time of a whole exchange from now on.
    #[must_use]
    pub fn new(now: Nanos, required: bool) -> Self {
        let until = required.then(|| now + LIMIT);
        let (step, proved, key, concatenated) = (Step::Idle, false, None, false);
        Self { step, required, proved, until, key, concatenated }
    }

    /// Returns whether commands are answered: the host has proved itself, or need not.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.proved || !self.required
    }

    /// Returns whether the host has proved itself, be it required or not.
    #[must_use]
    pub fn is_proved(&self) -> bool {
        self.proved
    }

    /// Returns whether an exchange has begun, and not ended.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        !matches!(self.step, Step::Idle)
    }

    /// Returns the time by which the host must have proved itself, where there is one.
    #[must_use]
    pub fn until(&self) -> Option<Nanos> {
        self.until
    }

    /// Returns whether the host has asked on this queue, which is without TLS, for a key by which
    /// it comes again with TLS.
    #[must_use]
    pub fn is_concatenated(&self) -> bool {
        self.concatenated
    }

    /// Returns the key that an exchange has made, once; there is one only after the host has proved
    /// itself. Beside it comes what `find` finds of the secret by which it did: where that finds nothing,
    /// the host does not have the secret any more, and there is no key.
    pub fn take_key<T>(
        &mut self,
        find: impl FnOnce(&Secret) -> Option<T>,
    ) -> Option<(GeneratedKey, T)> {
        let Made { key, secret } = self.key.take()?;
        Some((key, find(&secret)?))
    }

    /// Handles a message of Authentication Send. `secrets` are the host's present ones; a started
    /// exchange keeps its own. `agreed` is the key that the host may negotiate on this queue.
    pub fn sent(
        &mut self,
        now: Nanos,
        message: &[u8],
        secrets: Option<&Arc<HostSecrets>>,
        names: Names<'_>,
        agreed: Concatenation,
    ) -> SendOutcome {
        let Some((kind, transaction)) = AuthHeader::read(message) else {
            return self.fail(transaction_of(message), AuthFailure::Message);
        };
        if kind == AuthKind::Failure2 {
            self.step = Step::Idle;
            let why = message.get(7).copied().unwrap_or_default();
            return SendOutcome::GivenUp(AuthFailure::from_id(why));
        }
        match core::mem::replace(&mut self.step, Step::Idle) {
            Step::Idle if kind == AuthKind::Negotiate => {
                self.negotiate(now, transaction, message, secrets, agreed)
            }
            Step::Reply(terms, _)
                if kind == AuthKind::Reply && terms.transaction != transaction =>
            {
                self.fail(terms.transaction, AuthFailure::Payload)
            }
            Step::Reply(terms, posed) if kind == AuthKind::Reply => {
                self.reply(message, terms, posed, names)
            }
            Step::Success2(passed)
                if kind == AuthKind::Success2 && passed.transaction != transaction =>
            {
                self.fail(passed.transaction, AuthFailure::Payload)
            }
            Step::Success2(passed) if kind == AuthKind::Success2 => {
                self.prove(passed);
                SendOutcome::Proved
            }
            // A failed exchange stays failed until the host has fetched it.
            Step::Failed(begun, why) => self.fail(begun, why),
            _ => self.fail(transaction, AuthFailure::Message),
        }
    }

    /// Continues with the result of a piece of work. `sequence` makes the number of a challenge.
    pub fn worked(
        &mut self,
        worked: WorkResult,
        sequence: impl FnOnce(u32) -> u32,
        names: Names<'_>,
    ) {
        match core::mem::replace(&mut self.step, Step::Idle) {
            Step::Preparing(terms) => match worked.fresh {
                Some(fresh) => {
                    let sequence = sequence(fresh.sequence);
                    self.step = Step::Challenge(terms, Posed { fresh, sequence });
                }
                None => self.step = Step::Failed(terms.transaction, AuthFailure::Failed),
            },
            Step::Checking(terms, posed, reply) => match worked.shared {
                Some(shared) => self.check(&terms, &posed, &reply, &shared.0, names),
                None => self.step = Step::Failed(terms.transaction, AuthFailure::Group),
            },
            // Another message has come meanwhile.
            other => self.step = other,
        }
    }

    /// Writes the message that Authentication Receive fetches, of at most `room` bytes, into `out`.
    ///
    /// # Errors
    /// There is less room than the message has bytes: nothing is changed.
    pub fn receive(&mut self, room: usize, out: &mut Vec<u8>) -> Result<ReceiveOutcome, Status> {
        let message = match &self.step {
            Step::Challenge(terms, posed) => {
                message::challenge(terms.transaction, terms.choice, posed.sequence, &posed.fresh)
            }
            Step::Success1(passed, response) => {
                let response = response.as_ref().map(|bytes| &bytes[..]);
                message::success(passed.transaction, passed.hash, response)
            }
            step => {
                let (transaction, why) = step.failure();
                let failure = FailureMessage::new(AuthKind::Failure1, transaction, why);
                failure.as_bytes().to_vec()
            }
        };
        if message.len() > room {
            return Err(Status::INVALID_FIELD.dnr());
        }
        out.extend_from_slice(&message);
        Ok(match core::mem::replace(&mut self.step, Step::Idle) {
            Step::Challenge(terms, posed) => {
                self.step = Step::Reply(terms, posed);
                ReceiveOutcome::Going
            }
            Step::Success1(passed, Some(_)) => {
                self.step = Step::Success2(passed);
                ReceiveOutcome::Going
            }
            Step::Success1(passed, None) => {
                self.prove(passed);
                ReceiveOutcome::Proved
            }
            step => {
                self.stay_open();
                ReceiveOutcome::Failed(step.failure().1)
            }
        })
    }

    /// Returns to the start of the exchange: a piece of work was not done.
    pub fn begin_again(&mut self) {
        self.step = Step::Idle;
        self.stay_open();
    }

    /// Removes the time limit of a host whose commands are answered, and whose exchange is over.
    fn stay_open(&mut self) {
        if self.is_open() {
            self.until = None;
        }
    }

    /// Ends the authentication: the host has not proved itself, and no longer can.
    pub fn end(&mut self) {
        self.step = Step::Idle;
        (self.required, self.proved) = (true, false);
        self.until = None;
        self.key = None;
    }

    fn fail(&mut self, transaction: u16, why: AuthFailure) -> SendOutcome {
        self.step = Step::Failed(transaction, why);
        SendOutcome::Taken
    }

    fn prove(&mut self, passed: Authenticated) {
        self.proved = true;
        self.until = None;
        self.key = passed.key;
        self.concatenated |= passed.channel == Concatenation::New;
    }

    fn negotiate(
        &mut self,
        now: Nanos,
        transaction: u16,
        message: &[u8],
        secrets: Option<&Arc<HostSecrets>>,
        agreed: Concatenation,
    ) -> SendOutcome {
        let Some(secrets) = secrets else {
            return self.fail(transaction, AuthFailure::Protocol);
        };
        self.until = self.until.or(Some(now + LIMIT));
        // A queue that answers commands already has I/O queues beside it, which are without TLS.
        let late = self.is_open() && agreed == Concatenation::New;
        let agreed = if late { Concatenation::None } else { agreed };
        match message::choose(message, secrets, agreed) {
            Ok(choice) => {
                let secrets = Arc::clone(secrets);
                self.step = Step::Preparing(Terms { transaction, choice, secrets });
                SendOutcome::Work(Work::draw(choice.group))
            }
            Err(why) => self.fail(transaction, why),
        }
    }

    fn reply(
        &mut self,
        message: &[u8],
        terms: Terms,
        posed: Posed,
        names: Names<'_>,
    ) -> SendOutcome {
        let reply = match message::reply(message, terms.choice) {
            Ok(reply) => reply,
            Err(why) => return self.fail(terms.transaction, why),
        };
        let group = terms.choice.group;
        if group == Group::Null {
            self.check(&terms, &posed, &reply, &[], names);
            return SendOutcome::Taken;
        }
        let exponent = Some(posed.fresh.exponent.clone());
        let work = Work { group, exponent, peer: Some(reply.public.clone()) };
        self.step = Step::Checking(terms, posed, reply);
        SendOutcome::Work(work)
    }

    /// Checks the host's response, and makes the controller's, and the key.
    fn check(
        &mut self,
        terms: &Terms,
        posed: &Posed,
        reply: &Reply,
        shared: &[u8],
        names: Names<'_>,
    ) {
        let Terms { transaction, choice: Choice { hash, channel, .. }, .. } = *terms;
        let own = posed.fresh.challenge(hash);
        let of = |sequence, value| Challenge {
            hash,
            transaction,
            sequence,
            value,
            shared,
            channel: channel.id(),
        };
        let ours = of(posed.sequence, own);
        let proved =
            |pair: &&crate::dhchap::SecretPair| ours.is_host(&pair.host, names, &reply.response);
        let Some(pair) = terms.secrets.pairs.iter().find(proved) else {
            self.step = Step::Failed(transaction, AuthFailure::Failed);
            return;
        };
        let key = match &reply.challenge {
            Some((_, value)) if channel != Concatenation::None => {
                let key = generated_key(hash, shared, [own, value], names);
                key.map(|key| Made { key, secret: pair.host.clone() })
            }
            _ => None,
        };
        let answer = match (&reply.challenge, &pair.controller) {
            (None | Some((0, _)), _) => Ok(None),
            (Some((sequence, value)), Some(secret)) => {
                Ok(Some(of(*sequence, value).controller_response(secret, names)))
            }
            // The host wants a proof that the controller has no secret for.
            (Some(_), None) => Err(AuthFailure::Failed),
        };
        self.step = match answer {
            Ok(response) => {
                Step::Success1(Authenticated { transaction, hash, channel, key }, response)
            }
            Err(why) => Step::Failed(transaction, why),
        };
    }
}

/// Makes the key of an exchange with these challenges.
fn generated_key(
    hash: Hash,
    shared: &[u8],
    challenges: [&[u8]; 2],
    names: Names<'_>,
) -> Option<GeneratedKey> {
    let psk = generated(hash, shared, challenges);
    let names = (names.host, names.subsystem);
    let (identity, psk) = generated_tls_psk(PskLength::for_hash(hash)?, &psk, names);
    Some(GeneratedKey { identity, psk })
}

impl Step {
    /// Returns the transaction and the reason of the failure to report in this step, in which there
    /// is nothing else to fetch.
    fn failure(&self) -> (u16, AuthFailure) {
        match self {
            Self::Failed(transaction, why) => (*transaction, *why),
            Self::Preparing(terms)
            | Self::Challenge(terms, _)
            | Self::Reply(terms, _)
            | Self::Checking(terms, ..) => (terms.transaction, AuthFailure::Message),
            Self::Success1(passed, _) | Self::Success2(passed) => {
                (passed.transaction, AuthFailure::Message)
            }
            Self::Idle => (0, AuthFailure::Message),
        }
    }
}

/// Returns the transaction of a message of no known kind; 0 where it is too short.
fn transaction_of(message: &[u8]) -> u16 {
    let bytes = message.get(4..6).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u16::from_le_bytes)
}
