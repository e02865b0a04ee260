//! The keys that the program brings.

use zeroize::Zeroizing;

/// The hash function that a PSK is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PskHash {
    /// SHA-256: TLS_AES_128_GCM_SHA256.
    Sha256,
    /// SHA-384: TLS_AES_256_GCM_SHA384.
    Sha384,
}

/// A pre-shared key.
pub struct Psk {
    /// The secret.
    pub secret: Zeroizing<Vec<u8>>,
    /// The hash function.
    pub hash: PskHash,
}

impl std::fmt::Debug for Psk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Psk").field("hash", &self.hash).finish_non_exhaustive()
    }
}

/// An identity that a peer offers.
#[derive(Clone, Copy, Debug)]
pub struct Offered<'a> {
    /// The identity.
    pub identity: &'a [u8],
    /// Its index among the offered identities.
    pub index: usize,
    /// The ClientHello without its header; `None` where it is not the handshake's first one.
    pub hello: Option<&'a [u8]>,
}

/// The keys that peers may use.
pub trait Keys: Send + Sync + std::fmt::Debug {
    /// Finds the key of an identity. It is called during a handshake and should not take long.
    fn find(&self, offered: Offered<'_>) -> Option<Psk>;
}
