//! The values by which a host and a controller prove that they have their secrets.

use core::fmt;

use zeroize::Zeroizing;

use super::hash::Hash;
use super::secret::Secret;

/// The NQNs of both ends.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// The host's.
    pub host: &'a str,
    /// The subsystem's.
    pub subsystem: &'a str,
}

/// One end's challenge to the other.
#[derive(Clone, Copy)]
pub struct Challenge<'a> {
    /// The hash function.
    pub hash: Hash,
    /// T_ID.
    pub transaction: u16,
    /// The sequence number that goes with the challenge (S1, S2).
    pub sequence: u32,
    /// The challenge (C1, C2), as long as the hash.
    pub value: &'a [u8],
    /// The value that both ends have in common (g^xy mod p); empty where there is no group.
    pub shared: &'a [u8],
    /// SC_C of the exchange's AUTH_Negotiate.
    pub channel: u8,
}

impl fmt::Debug for Challenge<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Challenge(..)")
    }
}

impl Challenge<'_> {
    /// Mixes the common value into the challenge: HMAC(H(g^xy mod p), C).
    fn augmented(&self) -> Zeroizing<Vec<u8>> {
        if self.shared.is_empty() {
            return Zeroizing::new(self.value.to_vec());
        }
        let key = self.hash.digest(self.shared);
        self.hash.hmac(&key, &[self.value])
    }

    fn with_parts<T>(
        &self,
        names: [&str; 2],
        role: &[u8],
        answer: impl FnOnce(&[&[u8]]) -> T,
    ) -> T {
        let challenge = self.augmented();
        let sequence = self.sequence.to_le_bytes();
        let transaction = self.transaction.to_le_bytes();
        let [first, second] = names.map(str::as_bytes);
        answer(&[&challenge, &sequence, &transaction, &[self.channel], role, first, &[0], second])
    }

    /// Computes the response (R1) by which a host proves itself.
    #[must_use]
    pub fn host_response(&self, secret: &Secret, names: Names<'_>) -> Zeroizing<Vec<u8>> {
        let key = secret.key(names.host);
        self.of_host(names, |parts| self.hash.hmac(&key, parts))
    }

    /// Returns whether a response is from a host with this secret.
    #[must_use]
    pub fn is_host(&self, secret: &Secret, names: Names<'_>, response: &[u8]) -> bool {
        let key = secret.key(names.host);
        self.of_host(names, |parts| self.hash.verify(&key, parts, response))
    }

    /// Computes the response (R2) by which a controller proves itself.
    #[must_use]
    pub fn controller_response(&self, secret: &Secret, names: Names<'_>) -> Zeroizing<Vec<u8>> {
        let key = secret.key(names.subsystem);
        self.of_controller(names, |parts| self.hash.hmac(&key, parts))
    }

    /// Returns whether a response is from a controller with this secret.
    #[must_use]
    pub fn is_controller(&self, secret: &Secret, names: Names<'_>, response: &[u8]) -> bool {
        let key = secret.key(names.subsystem);
        self.of_controller(names, |parts| self.hash.verify(&key, parts, response))
    }

    fn of_host<T>(&self, names: Names<'_>, answer: impl FnOnce(&[&[u8]]) -> T) -> T {
        self.with_parts([names.host, names.subsystem], b"HostHost", answer)
    }

    fn of_controller<T>(&self, names: Names<'_>, answer: impl FnOnce(&[&[u8]]) -> T) -> T {
        self.with_parts([names.subsystem, names.host], b"Controller", answer)
    }
}
