//! The backends on which namespaces keep their blocks, behind one trait.
//!
//! A backend is opened once and shared by all reactors. An [`Immediate`] backend (memory, null) carries a command
//! out on the reactor, at once; a [`Timed`] one (null with a service time) does too, and completes it later; a
//! [`Queued`] one (file, block device, NVMe passthrough) splits a command into units for the reactor's ring. The
//! reactor owns buffers and rings; a backend only determines the submissions and interprets the results.
//!
//! - `interface`, `description`, `health`, `queued`, `error`: a backend as its users see it.
//! - [`open`]: from the configuration to an open backend; [`probe`]: whether a backend could be opened.
//! - `file`, `nvme`, `memory`, `pmem`, `null`: the backends; `region`: memory that no namespace is on, for clients
//!   of one-sided RDMA.
//! - `source`, `claim`, `identity`, `holders`, `signature`, `seen`, `look`, `sysfs`: a file or device, its holders,
//!   its content, its earlier state and its faults.
//! - `direct`, `preferred`, `file_size`: the sizes that direct I/O takes, that a file or device prefers, and that a
//!   file may have.

#[cfg(test)]
mod block_array;
mod claim;
mod description;
mod direct;
mod error;
mod errors;
mod file;
mod file_size;
mod health;
mod holders;
mod identity;
mod interface;
mod look;
mod memory;
mod null;
mod nvme;
mod nvme_uapi;
mod open;
mod opening;
mod origin;
mod passthrough;
mod pmem;
mod pmem_open;
mod preferred;
mod probe;
mod queued;
mod region;
mod seen;
mod signature;
mod source;
mod sysfs;
#[cfg(test)]
pub(crate) mod testing;

pub use claim::{Claims, OwnFile};
pub use description::{Abilities, Description};
pub use error::{BackendError, Cause};
pub use errors::{Answer, DeviceError, WakeUp};
pub use health::{CachedWrites, Health};
pub use interface::{Backend, Finding, Style};
pub use open::open;
pub use opening::{OnSignature, Opening};
pub use probe::{Probed, probe};
pub use queued::{Job, Memory, Outcome, Place, Queued, SCRATCH_MAX, Unit};
pub use region::{OpenRegion, open_region};
pub(crate) use seen::compare_blocks;
pub use sluice_core::device::{Data, Immediate, Timed};
pub use sluice_core::{ZEROES, zeroes};
