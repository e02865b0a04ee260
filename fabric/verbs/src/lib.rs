//! RDMA verbs and the connection manager, as a safe layer over `rdma-sys`.
//!
//! - [`EventChannel`], [`Listener`], [`Id`]: connections, made and ended by the connection manager.
//! - [`Device`], [`Domain`]: a device and a protection domain on it.
//! - [`DeviceEvents`]: a device's events: ports that go down and come up, failures.
//! - [`Regions`]: memory that the device may reach; [`Arena`]: such memory that peers move data from
//!   and to.
//! - [`CompletionQueue`]: completions, and the descriptor to wait on for more.
//! - [`QueuePair`]: a queue pair with its receive buffers; [`ActivePair`]: on the thread that uses it,
//!   with work requests and the memory that they use.
//! - [`RateLimit`]: a limit on a queue pair's sending rate, if its device can enforce one.
//! - [`SharedMemory`]: memory of which peers read and write parts by themselves, each with rights of its
//!   own; [`OneSided`]: the other end, a connection that does so.
//!
//! The layer owns all memory that the device may reach. Payloads and buffers belong to the queue
//! pair from the post of their work request to its completion, or until the queue pair is
//! destroyed; receive buffers as long as it lives. So no use of this layer lets a device reach
//! freed memory. All `unsafe` of RDMA is in this crate, and no raw pointer leaves it.
//!
//! Without the feature `rdma` the crate needs no RDMA libraries, and each first call fails with
//! [`Error::NotBuilt`].

#![cfg_attr(not(feature = "rdma"), allow(dead_code, reason = "devices use it"))]

#[cfg_attr(not(feature = "rdma"), path = "absent.rs")]
mod devices;
mod error;
mod event;
mod facts;
mod memory;
mod operation;
mod params;
mod work;

pub use devices::{
    ActivePair, Arena, Completion, CompletionQueue, Device, DeviceEvents, Domain, EventChannel, Id,
    Listener, OneSided, Outcome, Part, QueuePair, RateLimit, ReceiveBuffer, Region, Regions,
    SharedMemory,
};
pub use error::Error;
pub use event::{ConnectRequest, Event};
pub use facts::{Arrivals, DeviceEvent, DeviceLimits, RateRange};
pub use memory::{Access, Memory, Stable, StableMut, StaticBytes};
pub use operation::{Fault, OneSidedEvent, OneSidedSize, OneSidedWork, Ticket, Unposted};
pub use params::{ConnectionParams, Token};
pub use work::{Done, QueuePairSize, Work, WorkOrder};

/// Checks that the build has RDMA, before other work for an operation that needs it.
///
/// # Errors
/// [`Error::NotBuilt`].
pub fn check() -> Result<(), Error> {
    if cfg!(feature = "rdma") { Ok(()) } else { Err(Error::NotBuilt) }
}
