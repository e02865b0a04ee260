//! The end of a handshake.

use thiserror::Error;

use crate::traffic::TrafficSecrets;

/// The result of a handshake.
#[derive(Debug)]
pub struct Established {
    /// The identity of the key that both ends have.
    pub identity: Vec<u8>,
    /// The cipher suite's name.
    pub cipher: &'static str,
    /// The secrets by which both ends send.
    pub secrets: TrafficSecrets,
}

/// The error of a handshake.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The library has no memory, or does not start.
    #[error("TLS does not start: {0}")]
    Library(String),
    /// The peer has closed the connection.
    #[error("it closed the connection during the handshake")]
    Closed,
    /// The peer has ended the handshake.
    #[error("it ended the handshake with alert {0}{name}", name = alert_name(*.0))]
    Alert(u8),
    /// The peer names no key.
    #[error("it names no key (PSK): on the host, nvme connect --tls needs one in its keyring")]
    NoIdentity,
    /// The peer names a key that is not known.
    #[error("it names a key that is not known here: {0}")]
    Unknown(String),
    /// The peer does not have the key that it names.
    #[error("it has another key than that which it names: {0}")]
    WrongKey(String),
    /// The handshake has failed for another reason.
    #[error("the handshake failed: {0}")]
    Failed(String),
    /// The kernel does not take over.
    #[error("the kernel does not take over ({0}): it needs the module tls, and the cipher AES-GCM")]
    Kernel(String),
}

/// Returns the name of an alert that peers send during handshakes, in brackets.
fn alert_name(alert: u8) -> &'static str {
    match alert {
        10 => " (unexpected message)",
        20 => " (bad record MAC)",
        40 => " (handshake failure)",
        47 => " (illegal parameter)",
        51 => " (decrypt error: its key is another one)",
        70 => " (protocol version)",
        71 => " (insufficient security)",
        80 => " (internal error)",
        109 => " (missing extension)",
        115 => " (unknown PSK identity)",
        _ => "",
    }
}
