//! Memory of a data node for clients that use it by one-sided RDMA, with the tokens of Haechi
//! (docs/research/sources.md, H: Haechi).
//!
//! The crate joins [`pmem`], which decides and knows no RDMA, with [`fabric`]'s layer over verbs, which
//! knows no tokens.
//!
//! - [`private_data`]: private data of client and data node while they connect. [`message`]: later
//!   messages of the data node. [`gate`]: the dispatch of a client's I/Os. All three are pure.
//! - `grant` (feature `rdma`, as the next four): the rights of one client on the data node.
//! - `node`: the data node: its listener, its clients, and the monitor's work.
//! - `provider`: [`pmem::one_sided::OneSided`] over a queue pair.
//! - `connection`: the client's side of a connection. `client`: the same with an engine, for programs that
//!   read and write a region.
#![forbid(unsafe_code)]

#[cfg(feature = "rdma")]
pub mod client;
#[cfg(feature = "rdma")]
pub mod connection;
pub mod gate;
#[cfg(feature = "rdma")]
pub mod grant;
pub mod message;
#[cfg(feature = "rdma")]
pub mod node;
pub mod private_data;
#[cfg(feature = "rdma")]
pub mod provider;
