//! DH-HMAC-CHAP (NVMe base 2.0, section 8.13.5): the arithmetic that both ends share.
//!
//! A host and a controller have a secret in common ([`Secret`]). Each proves that it has it by an
//! HMAC over the other's challenge ([`proof`]); with a Diffie-Hellman group ([`Group`]) the challenge
//! is mixed with a value that only these two know, so that who records the exchange cannot try
//! secrets on it.
//!
//! Exponentiations take milliseconds. A state machine requests them as [`Work`], which any thread
//! may carry out, and continues with the result. Randomness is an argument of that work.

mod group;
mod hash;
mod primes;
pub mod proof;
mod secret;
mod work;

pub use group::{EXPONENT_BYTES, Exponent, Group};
pub use hash::Hash;
pub use secret::{HostSecrets, Secret, SecretError, SecretPair};
pub use work::{NONCE_BYTES, RANDOM_BYTES, Random, RandomValues, Work, WorkResult};

#[cfg(test)]
mod tests;
