//! Tests of the authentication, with a host's side of it.

mod concatenation;
mod exchange;
mod generated_keys;
mod keyed_host;
mod service;

use std::sync::Arc;

use super::{Authentication, ReceiveOutcome, SendOutcome};
use crate::Nanos;
use crate::dhchap::proof::Names;
use crate::dhchap::{Group, Hash, HostSecrets, RANDOM_BYTES, Random, Secret, SecretPair};
use crate::fabrics::{AuthFailure, Concatenation};
use crate::host::authentication::{self as host, Credentials};

pub(super) const NAMES: Names<'_> =
    Names { host: "nqn.2014-08.org.nvmexpress:uuid:host", subsystem: "nqn.2024-01.test:one" };
pub(super) const NOW: Nanos = Nanos(1_000_000_000);

pub(super) fn secret(tag: u8) -> Secret {
    Secret::generate(&[tag; 64], Hash::from_id(tag % 4))
}

/// Makes the target's secrets: pairs of a host's and a controller's.
pub(super) fn secrets(pairs: &[(u8, Option<u8>)]) -> HostSecrets {
    let pair = |&(host, controller): &(u8, Option<u8>)| SecretPair {
        host: secret(host),
        controller: controller.map(secret),
    };
    HostSecrets {
        pairs: pairs.iter().map(pair).collect(),
        hashes: Hash::ALL.to_vec(),
        groups: vec![Group::Null, Group::Ffdhe2048],
    }
}

pub(super) fn credentials(own: u8, controller: Option<u8>) -> Credentials {
    Credentials::new(secret(own), controller.map(secret))
}

/// Returns random bytes that differ with each call of one test.
pub(super) fn random(count: &mut u8) -> Random {
    *count = count.wrapping_add(1);
    let count = *count;
    Random::new(core::array::from_fn::<_, RANDOM_BYTES, _>(|at| {
        u8::try_from(at).unwrap().wrapping_mul(31).wrapping_add(count)
    }))
}

pub(super) fn begin(credentials: Credentials, transaction: u16) -> (host::Authentication, Vec<u8>) {
    host::Authentication::begin(Arc::new(credentials), NAMES, transaction)
}

/// A target's side of a queue, and all messages of its host.
pub(super) struct Queue {
    authentication: Authentication,
    secrets: Option<Arc<HostSecrets>>,
    agreed: Concatenation,
    count: u8,
}

/// The target's reaction to a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Took {
    Going,
    Proved,
    GivenUp(AuthFailure),
}

impl Queue {
    pub(super) fn new(secrets: HostSecrets) -> Self {
        Self::agreeing(Concatenation::None, secrets)
    }

    pub(super) fn agreeing(agreed: Concatenation, secrets: HostSecrets) -> Self {
        let authentication = Authentication::new(NOW, agreed != Concatenation::Replace);
        Self { authentication, secrets: Some(Arc::new(secrets)), agreed, count: 0 }
    }

    fn sent(&mut self, message: &[u8]) -> SendOutcome {
        self.authentication.sent(NOW, message, self.secrets.as_ref(), NAMES, self.agreed)
    }

    fn send(&mut self, message: &[u8]) -> Took {
        match self.sent(message) {
            SendOutcome::Taken => Took::Going,
            SendOutcome::Proved => Took::Proved,
            SendOutcome::GivenUp(why) => Took::GivenUp(why),
            SendOutcome::Work(work) => {
                let worked = work.run(&random(&mut self.count));
                // Sequence numbers are the same, so that challenges alone keep exchanges apart.
                self.authentication.worked(worked, |_| 5, NAMES);
                Took::Going
            }
        }
    }

    fn fetch(&mut self) -> (ReceiveOutcome, Vec<u8>) {
        let mut out = Vec::new();
        let received = self.authentication.receive(4096, &mut out).unwrap();
        (received, out)
    }
}
