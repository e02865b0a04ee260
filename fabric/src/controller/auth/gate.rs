//! The queues on which hosts must prove themselves, and the secrets that they prove.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::super::generated_keys::{ForgottenKeys, GeneratedKeys, SecretNumber};
use super::super::ids::ConnectionId;
use super::super::types::ControllerShared;
use super::exchange::{Authentication, ReceiveOutcome, SendOutcome};
use super::tries::Tries;
use crate::Nanos;
use crate::dhchap::proof::Names;
use crate::dhchap::{HostSecrets, Secret, SecretPair, Work, WorkResult};
use crate::fabrics::Concatenation;
use crate::nvme::Status;

/// A queue with an authentication, required or under way.
#[derive(Debug)]
struct Guarded {
    authentication: Authentication,
    controller: Arc<ControllerShared>,
    /// The peer's address, where the daemon told it.
    address: Option<IpAddr>,
    /// The command that waits for work.
    pending: Option<Pending>,
}

/// A command that is completed when its work is done.
#[derive(Debug)]
struct Pending {
    cid: u16,
    /// The work; `None`: somebody has it.
    work: Option<Work>,
}

/// The secrets of a host.
#[derive(Debug)]
struct Known {
    secrets: Arc<HostSecrets>,
    /// The number of the host's secret of each pair.
    numbers: Vec<SecretNumber>,
}

impl Known {
    /// Returns the number of a secret of the host.
    fn number(&self, secret: &Secret) -> Option<SecretNumber> {
        let place = self.secrets.pairs.iter().position(|pair| pair.host == *secret)?;
        self.numbers.get(place).copied()
    }
}

/// All queues with an authentication, and the hosts' secrets.
#[derive(Debug, Default)]
pub(in crate::controller) struct Gate {
    secrets: HashMap<String, Known>,
    /// The number that a secret got last.
    last_number: u64,
    queues: HashMap<ConnectionId, Guarded>,
    tries: Tries,
    /// The sequence number that was used last.
    sequence: Option<u32>,
    /// Keeps the negotiated keys; `None`: no keys are negotiated.
    keys: Option<Arc<dyn GeneratedKeys>>,
}

/// Returns the names of both ends.
fn names(controller: &ControllerShared) -> Names<'_> {
    Names { host: &controller.host_nqn, subsystem: &controller.subsystem_nqn }
}

impl Gate {
    /// Sets or removes the secrets of a host. Keys that the host negotiated with a removed secret
    /// are forgotten.
    pub(in crate::controller) fn set(&mut self, host: &str, secrets: Option<HostSecrets>) {
        let old = self.secrets.remove(host);
        let Some(secrets) = secrets else { return self.forget_keys(host, ForgottenKeys::All) };
        let number = |pair: &SecretPair| {
            old.as_ref().and_then(|old| old.number(&pair.host)).unwrap_or_else(|| {
                self.last_number = self.last_number.wrapping_add(1);
                SecretNumber(self.last_number)
            })
        };
        let numbers: Vec<_> = secrets.pairs.iter().map(number).collect();
        for gone in old.iter().flat_map(|old| &old.numbers) {
            if !numbers.contains(gone) {
                self.forget_keys(host, ForgottenKeys::Secret(*gone));
            }
        }
        let known = Known { secrets: Arc::new(secrets), numbers };
        self.secrets.insert(host.to_owned(), known);
    }

    /// Sets who keeps the keys that exchanges make.
    pub(in crate::controller) fn set_keys(&mut self, keys: Arc<dyn GeneratedKeys>) {
        self.keys = Some(keys);
    }

    /// Returns whether somebody keeps the keys that exchanges make.
    pub(in crate::controller) fn keeps_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// Forgets keys that a host has negotiated.
    pub(in crate::controller) fn forget_keys(&self, host: &str, which: ForgottenKeys<'_>) {
        if let Some(keys) = &self.keys {
            keys.forget(host, which);
        }
    }

    pub(in crate::controller) fn secrets(&self, host: &str) -> Option<&Arc<HostSecrets>> {
        self.secrets.get(host).map(|known| &known.secrets)
    }

    /// Returns whether a host at an address has failed so often that it has to wait.
    pub(in crate::controller) fn must_wait(
        &self,
        now: Nanos,
        host: &str,
        address: Option<IpAddr>,
    ) -> bool {
        self.secrets.contains_key(host) && self.tries.must_wait(now, host, address)
    }

    /// Notes a queue that has just been connected. Returns whether its host must prove itself.
    pub(in crate::controller) fn connected(
        &mut self,
        now: Nanos,
        connection: ConnectionId,
        controller: &Arc<ControllerShared>,
        address: Option<IpAddr>,
    ) -> bool {
        let required = self.secrets.contains_key(&controller.host_nqn);
        if required {
            self.guard(now, connection, controller, address, true);
        }
        required
    }

    fn guard(
        &mut self,
        now: Nanos,
        connection: ConnectionId,
        controller: &Arc<ControllerShared>,
        address: Option<IpAddr>,
        required: bool,
    ) -> &mut Guarded {
        self.queues.entry(connection).or_insert_with(|| Guarded {
            authentication: Authentication::new(now, required),
            controller: Arc::clone(controller),
            address,
            pending: None,
        })
    }

    /// Returns whether a queue has an authentication, required or under way.
    pub(super) fn is_guarded(&self, connection: ConnectionId) -> bool {
        self.queues.contains_key(&connection)
    }

    /// Returns whether the commands of a connected queue are answered.
    pub(in crate::controller) fn is_open(&self, connection: ConnectionId) -> bool {
        self.queues.get(&connection).is_none_or(|queue| queue.authentication.is_open())
    }

    /// Returns whether a queue's host has proved itself.
    pub(in crate::controller) fn has_proved(&self, connection: ConnectionId) -> bool {
        self.queues.get(&connection).is_some_and(|queue| queue.authentication.is_proved())
    }

    /// Returns whether the host has asked on a queue for a key by which it comes again with TLS.
    pub(in crate::controller) fn is_concatenated(&self, connection: ConnectionId) -> bool {
        let queue = self.queues.get(&connection);
        queue.is_some_and(|queue| queue.authentication.is_concatenated())
    }

    /// Returns whether a queue's command of this identifier waits for work.
    pub(in crate::controller) fn holds(&self, connection: ConnectionId, cid: u16) -> bool {
        let pending = self.queues.get(&connection).and_then(|queue| queue.pending.as_ref());
        pending.is_some_and(|pending| pending.cid == cid)
    }

    /// Handles a message of a queue's Authentication Send, the command `cid`. `agreed` is the key that the host may
    /// generate on the queue.
    pub(super) fn sent(
        &mut self,
        now: Nanos,
        connection: ConnectionId,
        (controller, address): (&Arc<ControllerShared>, Option<IpAddr>),
        (cid, message): (u16, &[u8]),
        agreed: Concatenation,
    ) -> Answer {
        let secrets = self.secrets(&controller.host_nqn).cloned();
        let queue = self.guard(now, connection, controller, address, false);
        let names = names(controller);
        match queue.authentication.sent(now, message, secrets.as_ref(), names, agreed) {
            SendOutcome::Work(work) => {
                queue.pending = Some(Pending { cid, work: Some(work) });
                Answer::Later
            }
            SendOutcome::Taken => Answer::Now,
            SendOutcome::Proved => {
                self.proved(now, connection, (controller, address));
                Answer::Now
            }
            SendOutcome::GivenUp(_) => Answer::Failed,
        }
    }

    /// Writes the message that a queue's Authentication Receive fetches, of at most `room` bytes.
    ///
    /// # Errors
    /// There is less room than the message has bytes.
    pub(super) fn receive(
        &mut self,
        now: Nanos,
        connection: ConnectionId,
        (controller, address): (&Arc<ControllerShared>, Option<IpAddr>),
        room: usize,
        out: &mut Vec<u8>,
    ) -> Result<Answer, Status> {
        let queue = self.guard(now, connection, controller, address, false);
        let received = queue.authentication.receive(room, out)?;
        let open = queue.authentication.is_open() && queue.pending.is_none();
        Ok(match received {
            ReceiveOutcome::Going => Answer::Now,
            ReceiveOutcome::Proved => {
                self.proved(now, connection, (controller, address));
                Answer::Now
            }
            // A host without secrets had nothing to prove.
            ReceiveOutcome::Failed(_)
                if open && !self.secrets.contains_key(&controller.host_nqn) =>
            {
                Answer::Now
            }
            ReceiveOutcome::Failed(_) => Answer::Failed,
        })
    }

    /// Notes that a host has proved itself on a queue, and has the key kept that was made.
    fn proved(
        &mut self,
        now: Nanos,
        connection: ConnectionId,
        (controller, address): (&Arc<ControllerShared>, Option<IpAddr>),
    ) {
        self.tries.proved(&controller.host_nqn, address);
        let known = self.secrets.get(&controller.host_nqn);
        let queue = self.queues.get_mut(&connection);
        let number = |secret: &Secret| known?.number(secret);
        let made = queue.and_then(|queue| queue.authentication.take_key(number));
        if let (Some(keys), Some((key, number))) = (&self.keys, made) {
            keys.keep(now, names(controller), key, number);
        }
    }

    /// Returns the work that a queue's command waits for, once.
    pub(super) fn work(&mut self, connection: ConnectionId) -> Option<Work> {
        self.queues.get_mut(&connection)?.pending.as_mut()?.work.take()
    }

    /// Handles the result of a queue's work; `None`: it was not done. Returns the waiting command.
    pub(super) fn worked(
        &mut self,
        connection: ConnectionId,
        worked: Option<WorkResult>,
    ) -> Option<u16> {
        let queue = self.queues.get_mut(&connection)?;
        let cid = queue.pending.take()?.cid;
        let last = &mut self.sequence;
        // A number is not used again before all others were; 0 is none.
        let next = |seed: u32| {
            let number = last.map_or(seed, |last| last.wrapping_add(1)).max(1);
            *last.insert(number)
        };
        match worked {
            Some(worked) => queue.authentication.worked(worked, next, names(&queue.controller)),
            None => queue.authentication.begin_again(),
        }
        Some(cid)
    }

    /// Notes that a queue's authentication has failed: its commands are answered no more.
    pub(super) fn failed(&mut self, now: Nanos, connection: ConnectionId) {
        let Some(queue) = self.queues.get_mut(&connection) else { return };
        queue.authentication.end();
        let (controller, address) = (Arc::clone(&queue.controller), queue.address);
        self.count_failure(now, &controller.host_nqn, address);
    }

    /// Counts a failure of a host that has secrets. A host without any must not fill the table of
    /// waiting hosts.
    fn count_failure(&mut self, now: Nanos, host: &str, address: Option<IpAddr>) {
        if self.secrets.contains_key(host) {
            self.tries.failed(now, host, address);
        }
    }

    /// Forgets a queue whose connection has ended. An unfinished exchange counts as failed: it has
    /// cost the target as much.
    pub(in crate::controller) fn forget(&mut self, now: Nanos, connection: ConnectionId) {
        let Some(queue) = self.queues.remove(&connection) else { return };
        if queue.authentication.is_under_way() {
            self.count_failure(now, &queue.controller.host_nqn, queue.address);
        }
    }

    /// Returns the queues whose hosts should have proved themselves by now.
    pub(in crate::controller) fn expired(&self, now: Nanos) -> Vec<ConnectionId> {
        let until = |queue: &Guarded| queue.authentication.until();
        let expired = self.queues.iter().filter(|(_, q)| until(q).is_some_and(|end| end <= now));
        expired.map(|(&connection, _)| connection).collect()
    }

    /// Returns the time at which the next queue should have been proved.
    pub(in crate::controller) fn next(&self) -> Option<Nanos> {
        self.queues.values().filter_map(|queue| queue.authentication.until()).min()
    }
}

/// The answer to a command of an authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is complete.
    Now,
    /// It is complete when its work is done.
    Later,
    /// It is complete, and the queue ends: its authentication has failed.
    Failed,
}
