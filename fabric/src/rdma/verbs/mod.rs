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
//! freed memory. All `unsafe` of RDMA is in this module, and no raw pointer leaves it.

mod arena;
mod completion;
mod connection;
mod device;
mod device_events;
mod error;
mod extended;
mod flush;
mod memory;
mod one_sided;
mod queue_pair;
mod rate_limit;
mod receive;
mod shared;
mod work;

pub use arena::{Arena, Part};
pub use completion::{Completion, CompletionQueue, Outcome};
pub use connection::{ConnectRequest, ConnectionParams, Event, EventChannel, Id, Listener, Token};
pub use device::{Device, DeviceLimits, Domain};
pub use device_events::{DeviceEvent, DeviceEvents};
pub use error::Error;
pub use memory::{Access, Memory, Region, Regions, Stable, StableMut, StaticBytes};
pub use one_sided::{Fault, OneSided, OneSidedEvent, OneSidedSize, OneSidedWork, Ticket, Unposted};
pub use queue_pair::{ActivePair, Done, QueuePair, QueuePairSize};
pub use rate_limit::{RateLimit, RateRange};
pub use receive::ReceiveBuffer;
pub use shared::SharedMemory;
pub use work::{Work, WorkOrder};
