//! The keys of the configuration: one list for each table of the file.
//!
//! A key's entry has its values and its meaning. The daemon's limits, the tables of
//! docs/reference/configuration.md, and the options of `sluice` that set the key come from it.

mod key;
mod limits;
mod network;
mod pmem;
mod qos;
mod serving;
mod target;
mod values;

pub use key::*;
pub use limits::*;
pub use network::*;
pub use pmem::*;
pub use qos::*;
pub use serving::*;
pub use target::*;
pub use values::{RDMA_BEFORE, Values};

/// Returns the former name of a key; `None` where it has none.
#[must_use]
pub fn former_name(name: &str) -> Option<&'static str> {
    let mut keys = tables().flat_map(|(_, keys)| keys.iter());
    keys.find(|key| key.name == name && !key.was.is_empty()).map(|key| key.was)
}

/// Returns all tables of docs/reference/configuration.md.
pub fn tables() -> impl Iterator<Item = &'static Documented> {
    [target::TABLES, qos::TABLES, network::TABLES, pmem::TABLES, serving::TABLES]
        .into_iter()
        .flatten()
}
