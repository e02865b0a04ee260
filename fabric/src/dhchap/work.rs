//! The work of an authentication that takes long, and the randomness that it needs.

use core::fmt;

use zeroize::Zeroizing;

use super::group::{EXPONENT_BYTES, Exponent, Group};
use super::hash::Hash;

/// The random bytes of a challenge: as many as the longest hash value has.
pub const NONCE_BYTES: usize = 64;
/// The random bytes that a piece of work takes.
pub const RANDOM_BYTES: usize = EXPONENT_BYTES + NONCE_BYTES + 4;

/// Random bytes for one piece of work: an exponent, a challenge, a sequence number. They must come
/// from a source that nobody can predict, and be used once.
pub struct Random(Zeroizing<[u8; RANDOM_BYTES]>);

impl Random {
    /// Takes random bytes.
    #[must_use]
    pub fn new(bytes: [u8; RANDOM_BYTES]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    fn parts(&self) -> Option<(&[u8; EXPONENT_BYTES], &[u8; NONCE_BYTES], &[u8; 4])> {
        let (exponent, rest) = self.0.split_first_chunk()?;
        let (nonce, rest) = rest.split_first_chunk()?;
        Some((exponent, nonce, rest.first_chunk()?))
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random(..)")
    }
}

/// A piece of work: exponentiations in a group, and the drawing of random values.
#[derive(Clone, Debug)]
pub struct Work {
    pub(crate) group: Group,
    /// The exponent of the exchange; `None`: draw one, and compute its public value.
    pub(crate) exponent: Option<Exponent>,
    /// The peer's public value; `None`: there is none yet.
    pub(crate) peer: Option<Vec<u8>>,
}

/// The random values of one exchange.
#[derive(Debug)]
pub struct RandomValues {
    /// The secret exponent.
    pub(crate) exponent: Exponent,
    /// The exponent's public value.
    pub(crate) public: Vec<u8>,
    /// A challenge, of which an exchange uses as many bytes as its hash is long.
    pub(crate) nonce: [u8; NONCE_BYTES],
    /// A number to begin sequence numbers with, not 0.
    pub(crate) sequence: u32,
}

/// The result of a piece of [`Work`].
#[derive(Debug)]
pub struct WorkResult {
    /// The random values, if the work had no exponent.
    pub(crate) fresh: Option<RandomValues>,
    /// The value that both ends have in common; `None` where there was no value of the peer, or a
    /// bad one.
    pub(crate) shared: Option<Shared>,
}

/// A value that both ends of an exchange have in common.
pub(crate) struct Shared(pub(crate) Zeroizing<Vec<u8>>);

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared(..)")
    }
}

impl Work {
    /// Makes the work of drawing a challenge and an exponent, with its public value.
    #[must_use]
    pub fn draw(group: Group) -> Self {
        Self { group, exponent: None, peer: None }
    }

    /// Carries the work out, which takes up to two exponentiations: 3 to 40 ms of CPU time.
    #[must_use]
    pub fn run(self, random: &Random) -> WorkResult {
        let drawn = match &self.exponent {
            Some(_) => None,
            None => random.parts(),
        };
        let fresh = drawn.map(|(exponent, nonce, sequence)| {
            let exponent = Exponent::new(exponent);
            let public = self.group.public(&exponent);
            let sequence = u32::from_le_bytes(*sequence).max(1);
            RandomValues { exponent, public, nonce: *nonce, sequence }
        });
        let exponent = self.exponent.as_ref().or(fresh.as_ref().map(|fresh| &fresh.exponent));
        let shared = exponent.zip(self.peer.as_deref());
        let shared = shared.and_then(|(exponent, peer)| self.group.shared(exponent, peer));
        WorkResult { fresh, shared: shared.map(Shared) }
    }
}

impl RandomValues {
    /// Returns the challenge of an exchange with a hash.
    pub(crate) fn challenge(&self, hash: Hash) -> &[u8] {
        self.nonce.get(..hash.length()).unwrap_or(&self.nonce)
    }
}
