//! Persistent memory: regions of it, blocks that are atomic on them, and one-sided RDMA to them with
//! the guarantees of Haechi (docs/research/sources.md, H: Haechi).
//!
//! # Regions and blocks
//!
//! - [`medium`]: persistent memory from the writer's view: the data that survives a cut.
//! - [`btt`]: a block translation table: logical blocks that are written whole or not at all.
//! - [`region`]: DAX devices, files and memory, mapped, and the instructions that flush them. The one
//!   part of this crate that touches the machine.
//!
//! # Guarantees for one-sided I/O
//!
//! A data node does not see one-sided I/Os, so no scheduler there can divide its capacity. Haechi
//! hands out tokens instead: an [`engine`] at each client spends one for each I/O, and a [`monitor`]
//! at the data node decides how many there are.
//!
//! All of this is pure: time is an argument, and data to send, post or write is returned as a
//! value. Nothing in the daemon uses it yet.
//!
//! - [`engine`]: the client's side (H1). [`monitor`]: the data node's side (H2), and what bounds
//!   clients that do not keep to the protocol.
//! - [`admission`]: which reservations fit (H3). [`capacity`]: profiling, and the capacity as it is
//!   estimated while it is used (H4).
//! - [`one_sided`]: the interface to RDMA that both need. [`word`]: the words that they share.
//!   [`message`]: messages from the monitor to the engines.
//! - [`in_process`]: a provider within the process, with a model of the NICs' capacities.
//! - [`simulation`]: engines and a monitor on that model under simulated time (H5).
#![deny(unsafe_code)]

pub mod admission;
pub mod btt;
pub mod capacity;
pub mod engine;
pub mod in_process;
pub mod medium;
pub mod message;
pub mod monitor;
pub mod one_sided;
pub mod period;
pub mod region;
pub mod simulation;
pub mod token;
pub mod word;
