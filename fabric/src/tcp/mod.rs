//! NVMe/TCP (transport specification 1.0): PDUs, digests, and the connection as a state machine
//! in the target role and in the host role.
//!
//! Both roles work alike: `next` of [`TargetConnection`] and [`HostConnection`] consumes received
//! bytes, in chunks of any size, and returns typed events whose data borrows from the chunk; output
//! gathers in a [`Tx`] from which the shell writes. Payload is never copied by the state machine.
//! Its memory is bounded by the queue's number of entries, for any input.

mod digest;
mod encode;
mod framing;
mod host;
pub mod pdu;
mod read;
mod rules;
mod tags;
mod target;
mod tx;
mod violation;

pub use digest::crc32c;
pub use host::{HostConnection, HostParams};
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

#[cfg(test)]
mod tests;
