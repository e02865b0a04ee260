//! State that outlives a restart: small versioned objects behind one trait, so that an embedded
//! database, or a database shared by several targets, can hold them.

mod aside;
mod disk;
mod examine;
mod explain;
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

use std::path::Path;

pub use crate::objects::Kind;
pub use disk::DiskStore;
pub use identities::Identities;
pub(crate) use live::Clash;
pub use live::{Effective, Live, effective};
pub use memory::MemoryStore;
pub use model::{Change, Key, Object, Store, StoreError};
pub(crate) use object::ObjectId;
pub use seen::{Place, Seen, SeenNamespaces};

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
