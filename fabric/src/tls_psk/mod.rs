//! Pre-shared keys of NVMe/TCP over TLS 1.3 (NVMe/TCP transport 1.0, section 3.6.1).
//!
//! An administrator gives both ends a [`ConfiguredPsk`], `NVMeTLSkey-1:HH:…:`. Each end derives the
//! *retained* PSK from it, which belongs to one host, and from that the [`TlsPsk`] for one
//! subsystem: the secret, and the identity by which the host names it in its ClientHello. The
//! target has the hosts' configured PSKs alone: an [`Identity`] names host and subsystem, and the
//! PSK is derived on request ([`Identity::candidates`]). PSKs derived elsewhere may exist beside it
//! ([`Identity::derived`]), and the ClientHello distinguishes them ([`choose`]).
//!
//! Two ways of derivation are in use ([`Layout`]). A DH-HMAC-CHAP exchange makes a *generated* PSK
//! ([`generated`]), of which both ends derive as of a retained one.

mod configured;
mod derive;
mod hello;
mod identity;

pub use configured::{ConfiguredPsk, PskError, PskLength, Transform};
pub use derive::{Layout, TlsPsk, generated, generated_tls_psk};
pub use hello::{ClientHello, choose};
pub use identity::{Identity, IdentityKind};

#[cfg(test)]
pub(crate) mod tests;
