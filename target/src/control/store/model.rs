//! The model of a store: its objects, its methods, and its errors.

use std::fmt;

use thiserror::Error;
use uuid::Uuid;

use crate::control::objects::Kind;

/// The name of an object. Identifiers begin with an NQN, which is unique in the world; for listeners, quality of
/// service, the network, and states and identities of namespaces, with the machine's UUID. So several targets can
/// share one store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The kind of the object.
    pub kind: Kind,
    /// The identifier of the object.
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
    /// The object's name.
    pub key: Key,
    /// The store's revision at which the object was last written. A watcher reads the objects above
    /// the revision that it knows.
    pub version: u64,
    /// The object's value.
    pub value: String,
}

/// One change to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Writes an object.
    Put(Key, String),
    /// Removes an object, if it exists.
    Delete(Key),
}

/// A store of objects.
pub trait Store: Send + Sync + fmt::Debug {
    /// Returns the UUID of the machine that this store is opened on, the same after every restart.
    fn machine(&self) -> Uuid;
    /// Returns all objects in the order of their keys.
    ///
    /// # Errors
    /// The store cannot be read.
    fn objects(&self) -> Result<Vec<Object>, StoreError>;
    /// Makes all changes or none. The changes are durable when this returns the new revision.
    ///
    /// # Errors
    /// Nothing was changed.
    fn apply(&self, changes: &[Change]) -> Result<u64, StoreError>;
    /// Returns whether changes survive a restart.
    fn durable(&self) -> bool;
    /// Returns whether the store already kept identities when it was opened: identities that it lacks are then new.
    /// A daemon before format 4 derived all of them instead.
    fn has_identities(&self) -> bool;
}

/// An error of a store.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The disk is full.
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
    /// The file is on a file system that cannot be written.
    #[error("the state file {file} cannot be written: {detail}")]
    ReadOnly {
        /// The state file.
        file: String,
        /// The operating system's error, and the remedy.
        detail: String,
    },
    /// The file is not a state file.
    #[error(
        "the file {file} is not a state file, and was left as it is; name another file as `state`"
    )]
    Foreign {
        /// The file.
        file: String,
    },
    /// A later version of the daemon wrote the file.
    #[error(
        "the state file {file} was written by a later sluiced: it needs a sluiced that reads \
         format {format}, and this one reads formats up to {known}. The file was left as it is. \
         Start the later sluiced, or {remedy}"
    )]
    Later {
        /// The state file.
        file: String,
        /// The file's format, at least.
        format: u64,
        /// The last format that this daemon knows.
        known: u64,
        /// How to start this daemon all the same.
        remedy: String,
    },
    /// The file's content is not as it was written.
    #[error(
        "the state file {file} is damaged ({detail}); restart sluiced: it sets the file aside and \
         serves the configuration file"
    )]
    Damaged {
        /// The state file.
        file: String,
        /// The database's error.
        detail: String,
    },
    /// The operating system refuses.
    #[error("cannot use the state file {file}: {detail}; check the path and its permissions")]
    Unusable {
        /// The state file.
        file: String,
        /// The operating system's error.
        detail: String,
    },
}
