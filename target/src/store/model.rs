//! What a store holds, what it can do, and why it fails.

use std::fmt;

use thiserror::Error;
use uuid::Uuid;

use crate::objects::Kind;

/// Names an object. NQNs are unique in the world and identifiers begin with one, but for
/// listeners, quality of service, the network and what was seen of namespaces, whose identifiers
/// begin with the machine's UUID: so several targets can share one store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// What it describes.
    pub kind: Kind,
    /// Which one.
    pub id: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.id)
    }
}

/// An object as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its name.
    pub key: Key,
    /// The store's revision at which it was written last; a watcher sees what is above the
    /// revision that it has.
    pub version: u64,
    /// Its value.
    pub value: String,
}

/// One change to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Writes an object.
    Put(Key, String),
    /// Removes an object, where it is there.
    Delete(Key),
}

/// Where objects are kept.
pub trait Store: Send + Sync + fmt::Debug {
    /// Returns the UUID of the machine that this store is opened on, the same after every restart.
    fn machine(&self) -> Uuid;
    /// Returns all objects in the order of their keys.
    ///
    /// # Errors
    /// The store cannot be read.
    fn objects(&self) -> Result<Vec<Object>, StoreError>;
    /// Makes all changes or none; answers the new revision. What it has answered is durable.
    ///
    /// # Errors
    /// Nothing was changed.
    fn apply(&self, changes: &[Change]) -> Result<u64, StoreError>;
    /// Says whether changes survive a restart.
    fn durable(&self) -> bool;
}

/// A store that does not work.
#[derive(Debug, Error)]
pub enum StoreError {
    /// There is no room.
    #[error("no space left to write the state file {file}; free some space and try again")]
    Full {
        /// The state file.
        file: String,
    },
    /// Another process has the file.
    #[error(
        "the state file {file} is in use by another process; stop the other sluiced, or give \
         this one a `state` of its own"
    )]
    InUse {
        /// The state file.
        file: String,
    },
    /// It is on a file system that cannot be written.
    #[error("the state file {file} cannot be written: {detail}")]
    ReadOnly {
        /// The state file.
        file: String,
        /// What the operating system says, and what to do about it.
        detail: String,
    },
    /// The file is something else.
    #[error(
        "the file {file} is no state file, and was left as it is; name another file as `state`"
    )]
    Foreign {
        /// The file.
        file: String,
    },
    /// The file's content is not what was written.
    #[error(
        "the state file {file} is damaged ({detail}); restart sluiced: it sets the file aside and \
         serves the configuration file"
    )]
    Damaged {
        /// The state file.
        file: String,
        /// What the database says.
        detail: String,
    },
    /// The operating system refuses.
    #[error("cannot use the state file {file}: {detail}; check the path and its permissions")]
    Unusable {
        /// The state file.
        file: String,
        /// What the operating system says.
        detail: String,
    },
}
