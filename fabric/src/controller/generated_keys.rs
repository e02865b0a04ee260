//! The interface to the keeper of the TLS keys that authentications negotiate (secure channel
//! concatenation, NVMe base 2.1, section 8.3.4.5.9).
//!
//! The service has the exchange and its rules; who makes the handshakes has the keys.

use core::fmt;

use crate::Nanos;
use crate::dhchap::proof::Names;
use crate::tls_psk::TlsPsk;

/// A key of TLS that an authentication has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedKey {
    /// The identity by which the host names the key: `NVMe1Ghh HOST SUBSYSTEM DIGEST`.
    pub identity: String,
    /// The key.
    pub psk: TlsPsk,
}

/// The number of a secret of a host. It is unique among all secrets that the host ever had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretNumber(pub u64);

/// The keys of a host that are forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForgottenKeys<'a> {
    /// All of them.
    All,
    /// Those for one subsystem.
    Subsystem(&'a str),
    /// The keys that the host negotiated with one secret.
    Secret(SecretNumber),
}

impl ForgottenKeys<'_> {
    /// Returns whether a key is among them that was made for a subsystem by a proof of a secret.
    #[must_use]
    pub fn has(&self, subsystem: &str, secret: SecretNumber) -> bool {
        match *self {
            Self::All => true,
            Self::Subsystem(of) => of == subsystem,
            Self::Secret(of) => of == secret,
        }
    }
}

/// Keeps generated keys. Both methods are called while the service is locked: they must be quick,
/// and must not use the service.
pub trait GeneratedKeys: fmt::Debug + Send + Sync {
    /// Keeps a key, made by a proof of a secret, for connections of the host to the subsystem, from now
    /// on and for a time that the implementation bounds, as it does the number of keys.
    fn keep(&self, now: Nanos, names: Names<'_>, key: GeneratedKey, secret: SecretNumber);

    /// Forgets keys of a host.
    fn forget(&self, host: &str, which: ForgottenKeys<'_>);
}
