//! Regions of persistent memory, which clients use by one-sided RDMA, and their grants.
//!
//! - `shared`: the state that threads share: regions, grants, and orders for the data node.
//! - `grants`: the table of grants, pure.
//! - `serve`: the thread of the data node, with its listener; `memory`: regions as memory that RDMA devices may
//!   reach; `sync`: the thread that makes data survive. Without RDMA `serve_without` stands in for these.
//!
//! A host asks for a region by an admin command on its controller (`fabric::controller`), which comes to
//! [`PmemShared`] under the service's lock. The answer names the data node's address and a secret, with which the
//! client connects there. A grant ends with its controller, with its region, or when its host is no longer among
//! the region's hosts; then the data node ends the client's rights and its connection.

mod grants;
#[expect(unsafe_code, reason = "memory that devices reach, behind a safe type")]
mod memory;
mod serve;
mod shared;
mod sync;
#[cfg(test)]
mod tests;

pub(crate) use serve::run;
pub(crate) use shared::{PmemShared, RegionFiles};
