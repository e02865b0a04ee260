//! Derives TLS PSKs from configured and generated PSKs (NVMe/TCP transport 1.0, section 3.6.1.4),
//! by HKDF (RFC 5869).

use core::fmt;

use base64ct::{Base64, Encoding};
use zeroize::Zeroizing;

use super::configured::{ConfiguredPsk, PskLength, Transform};
use crate::dhchap::Hash;

/// The text behind the names in the input of a digest.
const PROTOCOL: &[u8] = b" NVMe-over-Fabrics";

/// The layout of what HKDF-Expand-Label expands with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layout {
    /// As RFC 8446 has it (section 7.1), and the Linux kernel and nvme-cli from 2.16 on: the length
    /// big-endian, and a byte with the length before label and context.
    Rfc8446,
    /// As nvme-cli has it up to 2.14, and later with `--compat`: the length little-endian, and no
    /// lengths of label and context.
    NvmeCli,
}

impl Layout {
    /// Both layouts.
    pub const ALL: [Self; 2] = [Self::Rfc8446, Self::NvmeCli];
}

/// Computes HKDF-Extract without salt.
pub(super) fn extract(hash: Hash, secret: &[u8]) -> Zeroizing<Vec<u8>> {
    let zeroes = [0; Hash::LONGEST];
    hash.hmac(zeroes.get(..hash.length()).unwrap_or_default(), &[secret])
}

/// Computes HKDF-Expand-Label, as many bytes as the hash has.
pub(super) fn expand_label(
    hash: Hash,
    layout: Layout,
    key: &[u8],
    label: &str,
    context: &[u8],
) -> Zeroizing<Vec<u8>> {
    const TLS13: &[u8] = b"tls13 ";
    let length = u16::try_from(hash.length()).unwrap_or(0);
    let byte = |length: usize| [u8::try_from(length).unwrap_or(u8::MAX)];
    let (label, first) = (label.as_bytes(), &[1][..]);
    // One value of the hash is wanted: the first one.
    match layout {
        Layout::Rfc8446 => {
            let (label_bytes, context_bytes) =
                (byte(TLS13.len() + label.len()), byte(context.len()));
            let length = length.to_be_bytes();
            hash.hmac(key, &[&length, &label_bytes, TLS13, label, &context_bytes, context, first])
        }
        Layout::NvmeCli => hash.hmac(key, &[&length.to_le_bytes(), TLS13, label, context, first]),
    }
}

pub(super) fn retained(psk: &ConfiguredPsk, layout: Layout, host: &str) -> Zeroizing<Vec<u8>> {
    let hash = psk.length().hash();
    match psk.transform() {
        Transform::None => Zeroizing::new(psk.bytes().to_vec()),
        Transform::Hash => {
            let key = extract(hash, psk.bytes());
            expand_label(hash, layout, &key, "HostNQN", host.as_bytes())
        }
    }
}

/// Makes the digest of a retained or generated PSK, in base64, which the identity ends with.
pub(super) fn digest(length: PskLength, psk: &[u8], (host, subsystem): (&str, &str)) -> String {
    let parts = [host.as_bytes(), b" ", subsystem.as_bytes(), PROTOCOL];
    Base64::encode_string(&length.hash().hmac(psk, &parts))
}

/// Makes the secret of TLS of a retained or generated PSK; `context` is the digest with the hash
/// before it, in version 0 the identity.
pub(super) fn secret(
    length: PskLength,
    layout: Layout,
    psk: &[u8],
    context: &str,
) -> Zeroizing<Vec<u8>> {
    let hash = length.hash();
    expand_label(hash, layout, &extract(hash, psk), "nvme-tls-psk", context.as_bytes())
}

/// The context of version 1: the number of the hash, and the digest.
pub(super) fn context(length: PskLength, digest: &str) -> String {
    format!("{:02} {digest}", length.hash().id())
}

/// A PSK of TLS. Its secret is cleared when it is dropped, and `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsPsk {
    /// The secret, as long as the hash of the cipher suite.
    pub secret: Zeroizing<Vec<u8>>,
    /// The length, which says what cipher suite the PSK is for.
    pub length: PskLength,
}

impl fmt::Debug for TlsPsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsPsk").field("length", &self.length).finish_non_exhaustive()
    }
}

/// Makes the generated PSK of a DH-HMAC-CHAP exchange (NVMe base 2.1, section 8.3.5.5.9):
/// HMAC(Ks, C1 || C2), with Ks the hash of the value that both ends have in common.
#[must_use]
pub fn generated(hash: Hash, shared: &[u8], challenges: [&[u8]; 2]) -> Zeroizing<Vec<u8>> {
    let key = hash.digest(shared);
    hash.hmac(&key, &challenges)
}

/// Makes identity and PSK of TLS of a generated PSK, which has the length of its hash.
#[must_use]
pub fn generated_tls_psk(
    length: PskLength,
    psk: &[u8],
    (host, subsystem): (&str, &str),
) -> (String, TlsPsk) {
    let digest = digest(length, psk, (host, subsystem));
    let secret = secret(length, Layout::Rfc8446, psk, &context(length, &digest));
    let identity = format!("NVMe1G{:02} {host} {subsystem} {digest}", length.hash().id());
    (identity, TlsPsk { secret, length })
}
