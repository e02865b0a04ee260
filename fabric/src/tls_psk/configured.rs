//! Configured PSKs in the form in which they are exchanged, `NVMeTLSkey-1:HH:…:` (NVMe/TCP transport
//! 1.0, section 3.6.1.5): HH the hash by which the retained PSK is made, then base64 of the PSK and
//! its CRC-32.

use core::fmt;
use core::str::FromStr;

use zeroize::Zeroizing;

use crate::dhchap::Hash;
use crate::interchange::{self, Fault};

/// The text before HH.
const PREFIX: &str = "NVMeTLSkey-1:";

/// The error of a text that is no configured PSK. It never has a part of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PskError {
    /// The text does not have the form of a configured PSK.
    #[error("it does not have the form NVMeTLSkey-1:HH:…: (nvme gen-tls-key generates it)")]
    Form,
    /// HH is not known.
    #[error("its hash must be 00 (none), 01 (SHA-256) or 02 (SHA-384)")]
    Transform,
    /// The PSK is not as long as PSKs are.
    #[error("the key must have 32 bytes, or 48; with hash 01 it has 32, with 02 48")]
    Length,
    /// The CRC-32 does not match the PSK.
    #[error("its CRC-32 is wrong: it was not copied whole")]
    Checksum,
}

impl From<Fault> for PskError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Form => Self::Form,
            Fault::Length => Self::Length,
            Fault::Checksum => Self::Checksum,
        }
    }
}

/// The length of a PSK, and with it the cipher suite that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PskLength {
    /// 32 bytes: SHA-256, TLS_AES_128_GCM_SHA256.
    Bytes32,
    /// 48 bytes: SHA-384, TLS_AES_256_GCM_SHA384.
    Bytes48,
}

impl PskLength {
    /// Both lengths.
    pub const ALL: [Self; 2] = [Self::Bytes32, Self::Bytes48];

    /// Returns the hash function of the cipher suite, whose values are as long as the PSK.
    #[must_use]
    pub fn hash(self) -> Hash {
        match self {
            Self::Bytes32 => Hash::Sha256,
            Self::Bytes48 => Hash::Sha384,
        }
    }

    /// Returns the length of a PSK for this hash function; `None` where no cipher suite has it.
    #[must_use]
    pub fn for_hash(hash: Hash) -> Option<Self> {
        Self::ALL.into_iter().find(|length| length.hash() == hash)
    }

    fn of_bytes(count: usize) -> Option<Self> {
        Self::ALL.into_iter().find(|length| length.hash().length() == count)
    }

    pub(super) fn of_hash(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|length| length.hash().id() == id)
    }
}

/// Whether the retained PSK is made of the configured one by a hash function (HH).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transform {
    /// 00: the configured PSK is the retained one.
    None,
    /// 01 or 02: by the hash function as long as the PSK.
    Hash,
}

/// A configured PSK. Its memory is cleared when it is dropped, and `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfiguredPsk {
    bytes: Zeroizing<Vec<u8>>,
    length: PskLength,
    transform: Transform,
}

impl fmt::Debug for ConfiguredPsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConfiguredPsk(..)")
    }
}

impl FromStr for ConfiguredPsk {
    type Err = PskError;

    fn from_str(text: &str) -> Result<Self, PskError> {
        let (hash, encoded) = interchange::split(text, PREFIX).ok_or(PskError::Form)?;
        let wanted = match hash {
            "00" => None,
            "01" => Some(PskLength::Bytes32),
            "02" => Some(PskLength::Bytes48),
            _ => return Err(PskError::Transform),
        };
        let right = |length: &PskLength| wanted.is_none_or(|wanted| wanted == *length);
        let of = |count| PskLength::of_bytes(count).filter(right);
        let bytes = interchange::decode(encoded, |count| of(count).is_some())?;
        let length = of(bytes.len()).ok_or(PskError::Length)?;
        let transform = if wanted.is_some() { Transform::Hash } else { Transform::None };
        Ok(Self { bytes, length, transform })
    }
}

impl ConfiguredPsk {
    /// Makes a PSK of random bytes, of which it takes as many as it is long.
    #[must_use]
    pub fn generate(random: &[u8; 48], length: PskLength, transform: Transform) -> Self {
        let bytes = random.get(..length.hash().length()).unwrap_or_default().to_vec();
        Self { bytes: Zeroizing::new(bytes), length, transform }
    }

    /// Returns the form in which the PSK is exchanged.
    #[must_use]
    pub fn text(&self) -> Zeroizing<String> {
        let hash = match self.transform {
            Transform::None => 0,
            Transform::Hash => self.length.hash().id(),
        };
        interchange::encode(PREFIX, hash, &self.bytes)
    }

    /// Returns the length.
    #[must_use]
    pub fn length(&self) -> PskLength {
        self.length
    }

    /// Returns whether the retained PSK is another one.
    #[must_use]
    pub fn transform(&self) -> Transform {
        self.transform
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
