//! Memory of a data node for clients that use it by one-sided RDMA, with the tokens of Haechi
//! (docs/research/sources.md, H: Haechi).
//!
//! The crate joins [`pmem`], which decides and knows no RDMA, with [`fabric_verbs`], which knows no
//! tokens.
//!
//! - [`private_data`]: private data of client and data node while they connect. [`message`]: later
//!   messages of the data node. [`gate`]: the dispatch of a client's I/Os. All three are pure.
//! - `grant`: the rights of one client on the data node.
//! - `node`: the data node: its listener, its clients, and the monitor's work.
//! - `provider`: [`pmem::one_sided::OneSided`] over a queue pair.
//! - `connection`: the client's side of a connection. `client`: the same with an engine, for programs that
//!   read and write a region.
#![forbid(unsafe_code)]

pub mod client;
pub mod connection;
pub mod gate;
pub mod grant;
pub mod message;
pub mod node;
pub mod private_data;
pub mod provider;
