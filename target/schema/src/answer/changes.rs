//! The answers of methods that change something.

use serde::{Deserialize, Serialize};

use crate::params::Settings;

/// The answer to a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Changed<T> {
    /// Whether the change survives a restart; `None` means that an older daemon does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable: Option<bool>,
    /// The changed object. As JSON its fields stand beside `durable`.
    #[serde(flatten)]
    pub result: T,
}

/// An answer without fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nothing {}

/// The configuration that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Configuration {
    /// The configuration file that makes a target like this one.
    pub text: String,
}

/// The changes that a reload has made, or would make; a line for each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reloaded {
    /// The changes.
    pub changes: Vec<String>,
    /// The settings that only a restart changes.
    pub needs_restart: Vec<String>,
    /// Live changes that no longer count, with the reason; before a reload also the losses of
    /// connected hosts.
    pub warnings: Vec<String>,
}

/// Makes the answers that name an object.
macro_rules! objects {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }
    )*};
}

objects! {
    /// The name of an object.
    Name {
        /// The name.
        name: String,
    }

    /// A subsystem.
    SubsystemName {
        /// The NQN.
        nqn: String,
    }

    /// A subsystem that was added.
    SubsystemAdded {
        /// The NQN.
        nqn: String,
        /// The serial number.
        serial: Option<String>,
    }

    /// A namespace.
    NamespaceName {
        /// The subsystem's NQN.
        subsystem: String,
        /// The namespace identifier.
        nsid: u32,
    }

    /// A namespace that was added.
    NamespaceAdded {
        /// The subsystem's NQN.
        subsystem: String,
        /// The namespace identifier.
        nsid: u32,
        /// The UUID.
        uuid: Option<String>,
        /// What the operator should know of the namespace's file or device.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    }

    /// A namespace with its new size.
    NamespaceResized {
        /// The subsystem's NQN.
        subsystem: String,
        /// The namespace identifier.
        nsid: u32,
        /// The size in bytes.
        size: u64,
        /// What the operator should know of the namespace's file or device.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    }

    /// A namespace with its new class.
    NamespaceClass {
        /// The subsystem's NQN.
        subsystem: String,
        /// The namespace identifier.
        nsid: u32,
        /// The class's name.
        class: Option<String>,
    }

    /// A listener.
    ListenerName {
        /// IP address and port.
        address: String,
    }

    /// A listener with its new class.
    ListenerClass {
        /// IP address and port.
        address: String,
        /// The class's name.
        class: Option<String>,
    }

    /// A listener with its new link.
    ListenerLink {
        /// IP address and port.
        address: String,
        /// The link's name.
        link: String,
    }

    /// A host of a subsystem.
    HostName {
        /// The subsystem's NQN.
        subsystem: String,
        /// The host's NQN.
        host: String,
    }

    /// Whether any host may connect to a subsystem.
    AnyHost {
        /// The subsystem's NQN.
        subsystem: String,
        /// Whether any host may connect.
        allow_any_host: bool,
    }
}

/// A policy that was set or removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// Whether the policy was removed.
    pub removed: bool,
    /// The keys of `[[policy]]`.
    #[serde(flatten)]
    pub settings: Settings,
}
