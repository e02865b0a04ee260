//! A simulated machine, on which a [`Core`](crate::Core) runs in tests, benchmarks and simulations.
//!
//! [`Machine`] is the driver of one reactor: it keeps operations until its owner carries them out, at a time of the
//! owner's. [`Shared`] is the state that all reactors of a target share, [`Rules`] its settings of quality of
//! service, [`Disk`] the device of a namespace, whose [`Blocks`] execute commands. An [`Input`] is an event of a
//! reactor's turn. Queues are over TCP or over RDMA; [`wire`] joins a reactor's end with a host's. [`Rig`] combines
//! all of it for one reactor and hosts next to it.

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
