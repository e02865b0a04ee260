//! State that outlives a restart: small versioned objects behind one trait, so that an embedded
//! database, or a database shared by several targets, can hold them.

mod aside;
mod differences;
mod disk;
mod earlier;
mod edit;
mod examine;
mod explain;
#[cfg(test)]
pub(crate) mod full_store;
mod host_paths;
mod identities;
mod live;
mod memory;
mod model;
mod object;
mod part;
mod quiet;
mod scratch;
mod seen;
mod tables;
mod unstored;

use std::path::Path;
use std::sync::Arc;

pub use super::objects::Kind;
pub(crate) use differences::{Difference, LiveObjects, differences};
pub use disk::DiskStore;
pub(crate) use edit::edit;
pub use host_paths::{HostPaths, KeptHosts};
pub use identities::Identities;
pub(crate) use live::{Clash, Stored};
pub use live::{Effective, Live, effective};
pub use memory::MemoryStore;
pub use model::{Change, Key, Object, Store, StoreError};
pub(crate) use object::ObjectId;
pub use seen::{Place, Seen, SeenNamespaces};
pub(crate) use unstored::Unstored;

/// The observations of one machine, stored beside the live changes.
#[derive(Debug, Default)]
pub struct Remembered {
    /// The states of the namespaces' files and devices when they were open last.
    pub seen: SeenNamespaces,
    /// The UUIDs of namespaces and the serial numbers of subsystems.
    pub identities: Identities,
    /// The hosts that may come back.
    pub hosts: HostPaths,
}

impl Remembered {
    /// Reads the store. Returns the observations, and warnings about objects that cannot be read.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn open(store: &Arc<dyn Store>) -> Result<(Self, Vec<String>), StoreError> {
        let (seen, mut warnings) = SeenNamespaces::open(Arc::clone(store))?;
        let (identities, more) = Identities::open(Arc::clone(store))?;
        warnings.extend(more);
        let (hosts, more) = HostPaths::open(Arc::clone(store))?;
        warnings.extend(more);
        Ok((Self { seen, identities, hosts }, warnings))
    }
}

/// Opens the state file, or without a path keeps state in memory. Returns the store, and warnings
/// for the operator: that the file was damaged, or that changes cannot be stored now.
///
/// # Errors
/// The file cannot be read or created, is in use, or is not a state file.
pub fn open(path: Option<&Path>) -> Result<(Box<dyn Store>, Vec<String>), StoreError> {
    let Some(path) = path else { return Ok((Box::new(MemoryStore::default()), Vec::new())) };
    let (store, problems) = DiskStore::open(path)?;
    Ok((Box::new(store), problems))
}
