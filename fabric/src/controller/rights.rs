//! The rights of a connected host: see namespaces, write to them, name classes.
//!
//! Rights apply to a command when it arrives. A write that arrived before its host became a reader is
//! executed, although its data may arrive later.

use std::collections::BTreeSet;

use units::Class;

/// The rights of a host in a subsystem. The default is all rights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostRights {
    /// NSIDs of the namespaces that the host sees, present or not; `None`: all. Of these it sees
    /// the namespaces that name no hosts, or name it.
    pub namespaces: Option<BTreeSet<u32>>,
    /// Whether the host may only read.
    pub read_only: bool,
    /// The highest class of the host's commands and connections; `None`: any.
    pub max_class: Option<Class>,
}

impl HostRights {
    /// Returns whether no right is missing.
    #[must_use]
    pub fn are_all(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the rights that are among both.
    #[must_use]
    pub fn common(&self, other: &Self) -> Self {
        let namespaces = match (&self.namespaces, &other.namespaces) {
            (Some(a), Some(b)) => Some(a & b),
            (a, b) => a.as_ref().or(b.as_ref()).cloned(),
        };
        Self {
            namespaces,
            read_only: self.read_only || other.read_only,
            max_class: self.max_class.into_iter().chain(other.max_class).min(),
        }
    }

    /// Returns whether the host may see a namespace.
    #[must_use]
    pub fn show(&self, nsid: u32) -> bool {
        self.namespaces.as_ref().is_none_or(|nsids| nsids.contains(&nsid))
    }

    /// Returns the highest class of the host's commands.
    #[must_use]
    pub fn highest_class(&self) -> Class {
        self.max_class.unwrap_or(Class::Urgent)
    }
}
