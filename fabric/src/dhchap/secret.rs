//! Secrets in the form in which they are exchanged, `DHHC-1:HH:…:` (NVMe base 2.0, section
//! 8.13.5.8): HH the transformation, then base64 of the secret and its CRC-32.

use core::fmt;
use core::str::FromStr;

use zeroize::Zeroizing;

use super::group::Group;
use super::hash::Hash;
use crate::interchange::{self, Fault};

/// The text before the transformation.
const PREFIX: &str = "DHHC-1:";
/// The text that is hashed behind the name.
const PROTOCOL: &[u8] = b"NVMe-over-Fabrics";
/// The lengths that secrets have, in bytes.
const LENGTHS: [usize; 3] = [32, 48, 64];

/// The error of a text that is no secret. It never has a part of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The text does not have the form of a secret.
    #[error("it does not have the form DHHC-1:HH:…: (nvme gen-dhchap-key generates it)")]
    Form,
    /// The transformation is not known.
    #[error("its transformation must be 00 (none), 01 (SHA-256), 02 (SHA-384) or 03 (SHA-512)")]
    Transformation,
    /// The secret is not as long as secrets are.
    #[error("the secret must have 32, 48 or 64 bytes")]
    Length,
    /// The CRC-32 does not match the secret.
    #[error("its CRC-32 is wrong: it was not copied whole")]
    Checksum,
}

impl From<Fault> for SecretError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Form => Self::Form,
            Fault::Length => Self::Length,
            Fault::Checksum => Self::Checksum,
        }
    }
}

/// A secret. Its memory is cleared when it is dropped, and `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    bytes: Zeroizing<Vec<u8>>,
    transformation: Option<Hash>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl FromStr for Secret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let (transformation, encoded) =
            interchange::split(text, PREFIX).ok_or(SecretError::Form)?;
        let transformation = match transformation {
            "00" => None,
            "01" => Some(Hash::Sha256),
            "02" => Some(Hash::Sha384),
            "03" => Some(Hash::Sha512),
            _ => return Err(SecretError::Transformation),
        };
        let bytes = interchange::decode(encoded, |length| LENGTHS.contains(&length))?;
        Ok(Self { bytes, transformation })
    }
}

impl Secret {
    /// Makes a secret of random bytes: as many as the transformation's hash is long, 32 without one.
    #[must_use]
    pub fn generate(random: &[u8; 64], transformation: Option<Hash>) -> Self {
        let length = transformation.map_or(32, Hash::length);
        let bytes = random.get(..length).unwrap_or_default().to_vec();
        Self { bytes: Zeroizing::new(bytes), transformation }
    }

    /// Returns the form in which the secret is exchanged.
    #[must_use]
    pub fn text(&self) -> Zeroizing<String> {
        interchange::encode(PREFIX, self.transformation.map_or(0, Hash::id), &self.bytes)
    }

    /// Returns the key with which the owner of an NQN authenticates: the secret, transformed if it
    /// requires a transformation.
    #[must_use]
    pub fn key(&self, nqn: &str) -> Zeroizing<Vec<u8>> {
        match self.transformation {
            None => self.bytes.clone(),
            Some(hash) => hash.hmac(&self.bytes, &[nqn.as_bytes(), PROTOCOL]),
        }
    }
}

/// A host's secret, and the one by which the controller proves itself to that host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretPair {
    /// The host's secret.
    pub host: Secret,
    /// The controller's; `None`: it cannot prove itself.
    pub controller: Option<Secret>,
}

/// The secrets of a host, and the methods of authentication that the target allows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSecrets {
    /// The pairs of which the host may have any. While secrets are exchanged for others there are
    /// two; the controller answers with the one beside the host's.
    pub pairs: Vec<SecretPair>,
    /// The hash functions allowed, the best one first.
    pub hashes: Vec<Hash>,
    /// The groups allowed, the best one first.
    pub groups: Vec<Group>,
}
