//! The secrets of a connection whose records the kernel has taken over, and the keys that follow from them when a
//! peer changes its own (KeyUpdate: RFC 8446, sections 4.6.3 and 7.2). aws-lc, the library below s2n-tls, derives
//! them; s2n-tls itself changes keys only inside its own sends and receives.

use std::io;
use std::os::fd::OwnedFd;

use aws_lc_rs::hkdf::{self, KeyType, Prk};
use nix::sys::socket::sockopt::{TcpTlsRx, TcpTlsTx, TlsCryptoInfo};
use nix::sys::socket::{SetSockOpt, setsockopt};
use zeroize::{Zeroize as _, Zeroizing};

use crate::keys::PskHash;

/// The bytes of an IV of AES-GCM: four of salt, and eight.
const IV: usize = 12;

/// A secret. Its memory is cleared when it is dropped, and `Debug` does not show it.
#[derive(Default)]
pub(crate) struct Secret(Zeroizing<Vec<u8>>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The length of derived bytes.
#[derive(Clone, Copy)]
struct Length(u8);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0.into()
    }
}

impl Secret {
    /// Reads a secret in hexadecimal digits.
    pub(crate) fn of_hex(digits: &[u8]) -> Option<Self> {
        let (pairs, rest) = digits.as_chunks::<2>();
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
        let mut bytes = Zeroizing::new(Vec::with_capacity(pairs.len()));
        for [high, low] in pairs {
            bytes.push(digit(*high)? << 4 | digit(*low)?);
        }
        rest.is_empty().then_some(Self(bytes))
    }

    /// Computes HKDF-Expand-Label with an empty context (RFC 8446, section 7.1).
    fn expand(&self, hash: PskHash, label: &str, out: &mut [u8]) -> io::Result<()> {
        const TLS13: &[u8] = b"tls13 ";
        let failed = |_| io::Error::other("a key cannot be derived");
        let algorithm = match hash {
            PskHash::Sha256 => hkdf::HKDF_SHA256,
            PskHash::Sha384 => hkdf::HKDF_SHA384,
        };
        let length = u8::try_from(out.len()).map_err(io::Error::other)?;
        let name = u8::try_from(TLS13.len() + label.len()).map_err(io::Error::other)?;
        let head = [0, length, name];
        let info = [&head[..], TLS13, label.as_bytes(), &[0]];
        let key = Prk::new_less_safe(algorithm, &self.0);
        let derived = key.expand(&info, Length(length)).map_err(failed)?;
        derived.fill(out).map_err(failed)
    }

    /// Computes the secret that follows this one (RFC 8446, section 7.2).
    fn next(&self, hash: PskHash) -> io::Result<Self> {
        let mut next = Zeroizing::new(vec![0; self.0.len()]);
        self.expand(hash, "traffic upd", &mut next)?;
        Ok(Self(next))
    }

    /// Takes the secret that follows, and gives the kernel its key.
    fn update(
        &mut self,
        hash: PskHash,
        socket: &OwnedFd,
        option: impl SetSockOpt<Val = TlsCryptoInfo>,
    ) -> io::Result<()> {
        *self = self.next(hash)?;
        let mut crypto = self.crypto(hash)?;
        let result = setsockopt(socket, option, &crypto);
        clear(&mut crypto);
        Ok(result?)
    }

    /// Computes key and IV, for records from the first one on.
    fn crypto(&self, hash: PskHash) -> io::Result<TlsCryptoInfo> {
        let mut bytes = Zeroizing::new([0; IV]);
        self.expand(hash, "iv", bytes.as_mut_slice())?;
        let ([s0, s1, s2, s3, ..], [.., a, b, c, d, e, f, g, h]) = (*bytes, *bytes);
        let (salt, iv) = ([s0, s1, s2, s3], [a, b, c, d, e, f, g, h]);
        let (version, rec_seq) = (libc::TLS_1_3_VERSION, [0; 8]);
        Ok(match hash {
            PskHash::Sha256 => {
                let cipher_type = libc::TLS_CIPHER_AES_GCM_128;
                let info = libc::tls_crypto_info { version, cipher_type };
                let mut new =
                    libc::tls12_crypto_info_aes_gcm_128 { info, iv, key: [0; 16], salt, rec_seq };
                self.expand(hash, "key", &mut new.key)?;
                TlsCryptoInfo::Aes128Gcm(new)
            }
            PskHash::Sha384 => {
                let cipher_type = libc::TLS_CIPHER_AES_GCM_256;
                let info = libc::tls_crypto_info { version, cipher_type };
                let mut new =
                    libc::tls12_crypto_info_aes_gcm_256 { info, iv, key: [0; 32], salt, rec_seq };
                self.expand(hash, "key", &mut new.key)?;
                TlsCryptoInfo::Aes256Gcm(new)
            }
        })
    }
}

/// The secrets by which both ends of a connection send now.
#[derive(Debug)]
pub struct TrafficSecrets {
    hash: PskHash,
    receiving: Secret,
    sending: Secret,
}

impl TrafficSecrets {
    pub(crate) fn new(hash: PskHash, receiving: Secret, sending: Secret) -> Self {
        Self { hash, receiving, sending }
    }

    /// Makes secrets for tests: everybody knows them.
    #[doc(hidden)]
    #[must_use]
    pub fn for_tests() -> Self {
        let secret = |byte| Secret(Zeroizing::new(vec![byte; 32]));
        Self::new(PskHash::Sha256, secret(1), secret(2))
    }

    /// Installs the next receiving key in the kernel, after a KeyUpdate has arrived.
    ///
    /// # Errors
    /// The kernel does not take it: before Linux 6.14, EBUSY.
    pub fn update_receiving(&mut self, socket: &OwnedFd) -> io::Result<()> {
        self.receiving.update(self.hash, socket, TcpTlsRx)
    }

    /// Installs the next sending key in the kernel, after a KeyUpdate was sent.
    ///
    /// # Errors
    /// The kernel does not take it: before Linux 6.14, EBUSY.
    pub fn update_sending(&mut self, socket: &OwnedFd) -> io::Result<()> {
        self.sending.update(self.hash, socket, TcpTlsTx)
    }
}

/// Clears a key that the kernel has copied.
fn clear(crypto: &mut TlsCryptoInfo) {
    match crypto {
        TlsCryptoInfo::Aes128Gcm(info) => info.key.zeroize(),
        TlsCryptoInfo::Aes256Gcm(info) => info.key.zeroize(),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5";

    #[test]
    fn key_and_iv_are_those_of_the_trace_in_rfc_8448() {
        // Section 3: the client's first traffic secret.
        let secret = Secret::of_hex(SECRET).unwrap();
        let TlsCryptoInfo::Aes128Gcm(info) = secret.crypto(PskHash::Sha256).unwrap() else {
            panic!("another cipher");
        };
        let key = Secret::of_hex(b"17422dda596ed5d9acd890e3c63f5051").unwrap();
        let iv = Secret::of_hex(b"5b78923dee08579033e523d9").unwrap();
        assert_eq!(info.key, key.0[..]);
        assert_eq!((&info.salt[..], &info.iv[..]), (&iv.0[..4], &iv.0[4..]));
    }

    #[test]
    fn a_secret_is_followed_by_another_one_and_neither_is_shown() {
        for (hash, digits) in [(PskHash::Sha256, 64), (PskHash::Sha384, 96)] {
            let secret = Secret::of_hex(&[b'7'; 96][..digits]).unwrap();
            let next = secret.next(hash).unwrap();
            assert_eq!(next.0.len() * 2, digits);
            assert_ne!(next.0, secret.0);
            assert_ne!(next.0, next.next(hash).unwrap().0);
            let both = TrafficSecrets::new(hash, secret, next);
            assert!(!format!("{both:?}").contains("119"), "{both:?}");
        }
        for wrong in [&b"123"[..], b"0x"] {
            assert!(Secret::of_hex(wrong).is_none());
        }
    }
}
