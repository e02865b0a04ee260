//! The identities of PSKs (NVMe/TCP transport 1.0, section 3.6.1.3): by them a host says which PSK it
//! means.

use zeroize::Zeroizing;

use super::configured::{ConfiguredPsk, PskLength};
use super::derive::{Layout, TlsPsk, context, digest, retained, secret};
use crate::fabrics::NQN_MAX;

/// The kind of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityKind<'a> {
    /// Version 0, `NVMe0Rhh HOST SUBSYSTEM`, of a retained PSK: it does not say which one, where a
    /// host has several.
    Retained0,
    /// Version 1, `NVMe1Rhh HOST SUBSYSTEM DIGEST`, of a retained PSK.
    Retained1(&'a str),
    /// Version 1, `NVMe1Ghh HOST SUBSYSTEM DIGEST`, of a PSK that a DH-HMAC-CHAP exchange made.
    Generated(&'a str),
}

/// An identity that a host offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The whole text.
    pub text: &'a str,
    /// The kind, with the digest.
    pub kind: IdentityKind<'a>,
    /// The length of the PSK.
    pub length: PskLength,
    /// The host's NQN.
    pub host: &'a str,
    /// The subsystem's NQN.
    pub subsystem: &'a str,
}

/// Returns whether a text is as long as a SHA-256 or SHA-384 in Base64, and has its characters
/// only.
fn is_digest(text: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    matches!(text.len(), 44 | 64) && text.bytes().all(good)
}

impl<'a> Identity<'a> {
    /// Reads an identity; `None` where it has none of the forms that hosts use, of names of NVMe's
    /// length and a whole digest.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let text = core::str::from_utf8(bytes).ok()?;
        let mut words = text.split(' ');
        let (form, host, subsystem) = (words.next()?, words.next()?, words.next()?);
        let (digest, end) = (words.next(), words.next());
        let (form, hash) = form.split_at_checked(6)?;
        let kind = match (form, digest) {
            ("NVMe0R", None) => IdentityKind::Retained0,
            ("NVMe1R", Some(digest)) => IdentityKind::Retained1(digest),
            ("NVMe1G", Some(digest)) => IdentityKind::Generated(digest),
            _ => return None,
        };
        let length = match hash {
            "01" => PskLength::of_hash(1)?,
            "02" => PskLength::of_hash(2)?,
            _ => return None,
        };
        let names = [host, subsystem].iter().all(|name| (1..=NQN_MAX).contains(&name.len()));
        let whole = end.is_none() && names && digest.is_none_or(is_digest);
        whole.then_some(Self { text, kind, length, host, subsystem })
    }

    /// Derives the PSKs that a host with these configured ones may mean by this identity, by both
    /// layouts. Version 1 with a hash names one; without, and in version 0, two or more may have this
    /// identity, and the ClientHello says which it is. A generated PSK is not derived of configured
    /// ones.
    #[must_use]
    pub fn candidates(&self, configured: &[ConfiguredPsk]) -> Vec<TlsPsk> {
        let mut found: Vec<TlsPsk> = Vec::new();
        let of_length = configured.iter().filter(|psk| psk.length() == self.length);
        for (psk, layout) in of_length.flat_map(|psk| Layout::ALL.map(|layout| (psk, layout))) {
            if let Some(candidate) = self.derive(psk, layout)
                && !found.contains(&candidate)
            {
                found.push(candidate);
            }
        }
        found
    }

    /// Makes a PSK from a secret that was derived for this identity elsewhere, as nvme-cli stores it in a keyring of
    /// the kernel. `None` if it is not as long as the hash, and for a generated PSK, which the target has made itself.
    #[must_use]
    pub fn derived(&self, secret: Zeroizing<Vec<u8>>) -> Option<TlsPsk> {
        let length = self.length;
        let retained = !matches!(self.kind, IdentityKind::Generated(_));
        let whole = secret.len() == length.hash().length();
        (retained && whole).then_some(TlsPsk { secret, length })
    }

    /// Derives the PSK of this identity of a configured one; `None` where it has another identity.
    fn derive(&self, psk: &ConfiguredPsk, layout: Layout) -> Option<TlsPsk> {
        let length = self.length;
        let retained = retained(psk, layout, self.host);
        let secret = match self.kind {
            IdentityKind::Retained0 => secret(length, layout, &retained, self.text),
            IdentityKind::Retained1(named) => {
                let own = digest(length, &retained, (self.host, self.subsystem));
                if own != named {
                    return None;
                }
                secret(length, layout, &retained, &context(length, &own))
            }
            IdentityKind::Generated(_) => return None,
        };
        Some(TlsPsk { secret, length })
    }

    /// Writes the identity of version 1 that a host offers for a configured PSK, by a layout.
    #[must_use]
    pub fn format(psk: &ConfiguredPsk, layout: Layout, (host, subsystem): (&str, &str)) -> String {
        let length = psk.length();
        let digest = digest(length, &retained(psk, layout, host), (host, subsystem));
        format!("NVMe1R{:02} {host} {subsystem} {digest}", length.hash().id())
    }
}
