//! What a store holds, what it can do, and why it fails.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

/// What an object describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A listener of one machine.
    Listener,
    /// A whole subsystem.
    Subsystem,
    /// Whether any host may connect to a subsystem.
    AnyHost,
    /// That a host may connect to a subsystem.
    Host,
    /// A namespace of a subsystem.
    Namespace,
    /// `[qos]` of one machine.
    Qos,
    /// A QoS session of one machine.
    Session,
    /// A policy of one machine.
    Policy,
    /// `[network]` of one machine.
    Network,
    /// A `[[link]]` of one machine.
    Link,
    /// What one machine saw of a namespace when it was open last.
    Seen,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 11] = [
        Self::Listener,
        Self::Subsystem,
        Self::AnyHost,
        Self::Host,
        Self::Namespace,
        Self::Qos,
        Self::Session,
        Self::Policy,
        Self::Network,
        Self::Link,
        Self::Seen,
    ];

    /// Whether it is a live change of the configuration, and not something that the daemon keeps
    /// for itself.
    #[must_use]
    pub fn is_change(self) -> bool {
        self != Self::Seen
    }

    /// Whether it belongs to quality of service, whose objects name each other.
    #[must_use]
    pub fn is_qos(self) -> bool {
        matches!(self, Self::Qos | Self::Session | Self::Policy)
    }

    /// Whether it belongs to the network: listeners name links.
    #[must_use]
    pub fn is_network(self) -> bool {
        matches!(self, Self::Listener | Self::Network | Self::Link)
    }

    /// The kind's name in a store.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Listener => "listener",
            Self::Subsystem => "subsystem",
            Self::AnyHost => "any_host",
            Self::Host => "host",
            Self::Namespace => "namespace",
            Self::Qos => "qos",
            Self::Session => "session",
            Self::Policy => "policy",
            Self::Network => "network",
            Self::Link => "link",
            Self::Seen => "seen",
        }
    }
}

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
    /// The UUID of the machine that this store is opened on, the same after every restart.
    fn machine(&self) -> Uuid;
    /// All objects in the order of their keys.
    ///
    /// # Errors
    /// The store cannot be read.
    fn objects(&self) -> Result<Vec<Object>, StoreError>;
    /// Makes all changes or none; answers the new revision. What it has answered is durable.
    ///
    /// # Errors
    /// Nothing was changed.
    fn apply(&self, changes: &[Change]) -> Result<u64, StoreError>;
    /// Whether changes survive a restart.
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
