//! Persistent memory that clients reach by one-sided RDMA, with the guarantees of Haechi
//! (docs/sources.md, H: Haechi).
//!
//! A data node does not see one-sided I/Os, so no scheduler there can divide its capacity. Haechi
//! hands out tokens instead: an [`engine`] at each client spends one for each I/O, and a [`monitor`]
//! at the data node decides how many there are.
//!
//! Everything here is pure: time is an argument, and what is to be sent, posted or written comes out
//! as a value. Nothing in the daemon uses it yet.
//!
//! - [`engine`]: the client's side (H1). [`monitor`]: the data node's side (H2), and what bounds
//!   clients that do not keep to the protocol.
//! - [`admission`]: which reservations fit (H3). [`capacity`]: profiling, and the capacity as it is
//!   estimated while it is used (H4).
//! - [`one_sided`]: what both want of RDMA. [`word`]: the words that they share. [`message`]: what
//!   the monitor tells the engines.
//! - [`in_process`]: providers within the process, one of them with a model of the NICs' capacities.
//! - [`simulation`]: engines and a monitor on that model under simulated time. [`experiments`]: the
//!   paper's figures (H5).
#![forbid(unsafe_code)]

pub mod admission;
pub mod capacity;
pub mod engine;
pub mod experiments;
pub mod in_process;
pub mod message;
pub mod monitor;
pub mod one_sided;
pub mod period;
pub mod simulation;
pub mod token;
pub mod word;
