//! The server's side of TLS 1.3 with external pre-shared keys, on a socket whose records the kernel
//! takes over after the handshake (kTLS).
//!
//! [`Handshake`] makes the handshake with s2n-tls, step by step and without waiting; the result is an ordinary
//! socket that carries the plain bytes. The program provides the keys ([`Keys`]), and is asked only for the key
//! that the peer names. Records that are not data, which the kernel leaves to the program, are taken with
//! [`record::take`]; when a peer changes its key, [`TrafficSecrets`] have the next one. [`Keyring`] finds keys that
//! an administrator has put into a keyring of the kernel.
//!
//! No tickets are sent, and no keys updated unless the peer asks for it: the Linux kernel's NVMe host
//! takes nothing but data.

mod handshake;
mod keyring;
mod keys;
mod outcome;
pub mod record;
mod s2n;
mod traffic;

pub use handshake::{Handshake, Progress};
pub use keyring::{Keyring, KeyringError};
pub use keys::{Keys, Offered, Psk, PskHash};
pub use outcome::{Established, TlsError};
pub use s2n::Context;
pub use traffic::TrafficSecrets;
