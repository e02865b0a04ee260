//! NVMe/TCP over TLS. A connection that came through a listener with TLS goes from the first reactor to a thread of
//! its own, which makes the handshakes ([`run`]), and comes back as a socket that carries plain bytes: the kernel
//! does the rest (kTLS).
//!
//! - `keys`: the hosts' keys, and which of them an identity names.
//! - `keyring`: keys in a keyring of the kernel, and the thread that asks for them.
//! - `generated`: keys that authentications have made.
//! - `waiting`: the handshakes that are under way, which are bounded.
//! - `shared`: the state that the threads share.
//! - `refused`: records of connections that are not served.
//! - `came`, `records`: events other than data: a new key, or why a connection is over.
//! - `handshakes`: the thread.

mod came;
mod generated;
mod handshakes;
mod keyring;
mod keys;
mod records;
mod refused;
mod shared;
mod waiting;

pub(crate) use came::{Came, End};
pub(crate) use handshakes::{refusal, run};
pub(crate) use keyring::doubt as keyring_doubt;
pub(crate) use records::Session;
pub(crate) use refused::refuse;
pub(crate) use shared::{Channel, Incoming, TlsShared};
