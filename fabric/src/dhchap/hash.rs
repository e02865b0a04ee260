//! The hash functions of DH-HMAC-CHAP, and HMAC with them.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha384, Sha512};
use zeroize::{Zeroize, Zeroizing};

units::named! {
    /// A hash function (HashID).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Hash {
        /// 01h: SHA-256.
        Sha256 = 1 => "sha256",
        /// 02h: SHA-384.
        Sha384 = 2 => "sha384",
        /// 03h: SHA-512.
        Sha512 = 3 => "sha512",
    }
}

impl Hash {
    /// The length of the longest value, in bytes.
    pub const LONGEST: usize = 64;

    /// Returns HashID.
    #[must_use]
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// Returns the function with that HashID.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|hash| hash.id() == id)
    }

    /// Returns the length of a value, in bytes.
    #[must_use]
    pub const fn length(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    /// Computes the value of a text.
    #[must_use]
    pub fn digest(self, text: &[u8]) -> Zeroizing<Vec<u8>> {
        match self {
            Self::Sha256 => moved(Sha256::digest(text).as_mut_slice()),
            Self::Sha384 => moved(Sha384::digest(text).as_mut_slice()),
            Self::Sha512 => moved(Sha512::digest(text).as_mut_slice()),
        }
    }

    /// Computes the HMAC of a text in parts, with a key.
    #[must_use]
    pub fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
        match self {
            Self::Sha256 => moved(&mut mac::<Hmac<Sha256>>(key, parts).finalize().into_bytes()),
            Self::Sha384 => moved(&mut mac::<Hmac<Sha384>>(key, parts).finalize().into_bytes()),
            Self::Sha512 => moved(&mut mac::<Hmac<Sha512>>(key, parts).finalize().into_bytes()),
        }
    }

    /// Returns whether `tag` is the HMAC of a text in parts, in a time that does not depend on
    /// where the two differ.
    #[must_use]
    pub fn verify(self, key: &[u8], parts: &[&[u8]], tag: &[u8]) -> bool {
        match self {
            Self::Sha256 => mac::<Hmac<Sha256>>(key, parts).verify_slice(tag).is_ok(),
            Self::Sha384 => mac::<Hmac<Sha384>>(key, parts).verify_slice(tag).is_ok(),
            Self::Sha512 => mac::<Hmac<Sha512>>(key, parts).verify_slice(tag).is_ok(),
        }
    }
}

/// Moves bytes to where they are cleared when they are dropped, and clears them here.
fn moved(bytes: &mut [u8]) -> Zeroizing<Vec<u8>> {
    let kept = Zeroizing::new(bytes.to_vec());
    bytes.zeroize();
    kept
}

/// Begins an HMAC and takes a text in parts.
#[expect(clippy::expect_used, reason = "an HMAC has no key of a wrong length")]
fn mac<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> M {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("an HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac
}
