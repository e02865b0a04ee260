//! Tests of the authentication, with a host's side of it.

mod concatenation;
mod exchange;
mod generated_keys;
mod keyed_host;
mod service;

use std::sync::Arc;

use crate::Nanos;
use crate::dhchap::proof::Names;
use crate::dhchap::{Group, Hash, HostSecrets, RANDOM_BYTES, Random, Secret, SecretPair};
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
