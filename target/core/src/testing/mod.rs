//! A simulated machine: what a [`Core`](crate::Core) runs on in tests, benchmarks and simulations.
//!
//! [`Machine`] is the driver of one reactor: it keeps what it is asked to do until its owner carries
//! that out, at a time of the owner's. [`Shared`] is what all reactors of a target share, [`Rules`]
//! its settings of quality of service, [`Disk`] the device of a namespace, of which [`Blocks`] says
//! how commands are carried out. [`Input`] is what a reactor finds when its turn comes. Queues are
//! over TCP or over RDMA; [`wire`] joins a reactor's end with a host's. [`Rig`] is all of it for one
//! reactor and hosts next to it.

mod disk;
mod heap;
mod input;
mod machine;
mod rig;
mod rules;
mod shared;
mod target;
pub mod wire;
mod workload_table;

pub use disk::{BLOCK, Blocks, Disk, Kind, Ram, end_job};
pub use heap::{HeapArena, HeapBuffer};
pub use input::Input;
pub use machine::{Machine, Op, Receive, Seen};
pub use rig::{Parts, Peer, Rig};
pub use rules::Rules;
pub use shared::Shared;
pub use target::{SERIAL, listener, namespace, service, settings};
pub use workload_table::WorkloadTable;
