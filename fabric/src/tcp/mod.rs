//! NVMe/TCP (transport specification 1.0): PDUs, digests, and the connection as a state machine
//! in the target role and in the host role.
//!
//! Both roles work alike: [`TargetConnection::next`] and [`HostConnection::next`] consume received
//! bytes, in chunks of any size, and answer typed events whose data borrows from the chunk; what
//! is to be sent gathers in a [`Tx`] from which the shell writes. Payload is never copied by the
//! state machine. Its memory is bounded by the queue's number of entries, whatever the peer sends.

mod digest;
mod encode;
mod framing;
mod grants;
mod host;
pub mod pdu;
mod received;
mod rules;
mod slots;
mod target;
mod tx;
mod violation;

use std::rc::Rc;
use std::sync::Arc;

pub use digest::crc32c;
pub use host::{HostConnection, HostParams, HostReceived, SubmitError};
pub use received::{CapsuleData, Received};
pub use slots::SlotId;
pub use target::{TargetConnection, TargetParams};
pub use tx::{Batch, Tx};
pub use violation::{Fes, Violation};

/// The in-capsule data that every admin queue takes, and every queue before Connect, in bytes
/// (TCP transport specification 1.0, section 3.4: the capsule of an admin queue is 8 KiB + 64).
pub const ADMIN_IN_CAPSULE_DATA: u32 = 8192;

/// The smallest MAXH2CDATA a controller may state, in bytes.
pub const MIN_MAX_H2C_DATA: u32 = 4096;

/// The largest HPDA or CPDA: data starts at a multiple of 128 bytes.
pub const MAX_PDA: u8 = 31;

/// What a data PDU carries: the shell's buffer type.
///
/// The bytes must neither move nor change between the call that hands the payload over and the
/// [`Batch::advance`] that finishes its batch.
pub trait Payload {
    /// The bytes to send.
    fn bytes(&self) -> &[u8];
}

impl Payload for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

impl Payload for &'static [u8] {
    fn bytes(&self) -> &[u8] {
        self
    }
}

impl<T: Payload + ?Sized> Payload for Arc<T> {
    fn bytes(&self) -> &[u8] {
        (**self).bytes()
    }
}

impl<T: Payload + ?Sized> Payload for Rc<T> {
    fn bytes(&self) -> &[u8] {
        (**self).bytes()
    }
}

/// The length of a payload; what is beyond 4 GiB - 1 is not sent.
fn length_of<P: Payload>(payload: &P) -> u32 {
    u32::try_from(payload.bytes().len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
