//! Wire types of NVMe over Fabrics: Connect, Property Get and Set, Disconnect, in-band
//! authentication, discovery log page.

mod auth;
mod connect;
mod discovery;
mod property;

pub use auth::{
    AUTH_MESSAGE_MAX, AUTHENTICATION_REQUIRED, AuthCommand, AuthFailure, AuthHeader, AuthKind,
    AuthProtocol, ChallengeHead, Concatenation, FailureMessage, Negotiate, ReplyHead,
    SECURE_CHANNEL_REQUIRED, Success1Head, Success2,
};
pub use connect::{
    CONNECT_DATA_BYTES, ConnectAttributes, ConnectCommand, ConnectData, ConnectField, nqn_field,
};
pub use discovery::{DiscoveryEntry, DiscoveryHeader, EntryFlags, subtype, trtype};
pub use property::{PropertyGet, PropertySet, PropertySize};

use crate::nvme::Sqe;

/// NQN of every discovery subsystem.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// Longest NQN in bytes, without the NUL that ends it on the wire (base 2.0, section 4.5).
pub const NQN_MAX: usize = 223;

/// Reads FCTYPE, byte 4 of a Fabrics command.
#[must_use]
pub fn fctype(sqe: &Sqe) -> u8 {
    let [fctype, ..] = sqe.nsid.to_bytes();
    fctype
}
