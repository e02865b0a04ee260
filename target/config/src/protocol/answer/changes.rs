//! The answers of methods that change something.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Settings;

/// The answer to a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Changed<T> {
    /// Whether the change survives a restart; `None` means that an older daemon does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable: Option<bool>,
    /// The changed object. As JSON its fields stand beside `durable`.
    #[serde(flatten)]
    pub result: T,
}

/// An answer without fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Nothing {}

/// The configuration that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Configuration {
    /// The configuration file that makes a target like this one.
    pub text: String,
}

/// The changes that a reload has made, or would make; a line for each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Reloaded {
    /// The changes.
    pub changes: Vec<String>,
    /// The settings that only a restart changes.
    pub needs_restart: Vec<String>,
    /// Live changes that no longer count, with the reason; before a reload also the losses of
    /// connected hosts.
    pub warnings: Vec<String>,
    /// The number of objects that differ from the file by live changes afterwards.
    pub live_changes: usize,
    /// The objects that change, of a configuration that is applied and of a dry run: `file` is the present one, and
    /// `running` the next.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<Difference>,
}

/// The differences between the configuration file and the configuration that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConfigDiff {
    /// The path of the file; `None` where the daemon runs without one.
    pub file: Option<String>,
    /// The reason why the file differs from the file that the daemon read last; `None` if it does not.
    pub file_changed: Option<String>,
    /// The objects that differ by live changes.
    pub objects: Vec<Difference>,
    /// The settings that only a restart changes, a line for each.
    pub needs_restart: Vec<String>,
}

/// An object that differs from the file by a live change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Difference {
    /// The object's name, as `config.revert` takes it.
    pub object: String,
    /// The live change.
    pub change: LiveChange,
    /// The object's keys in the file, a line for each; `None` where the file does not have it.
    pub file: Option<String>,
    /// The object's keys as they run, a line for each; `None` where it does not run.
    pub running: Option<String>,
    /// The keys that differ, where both have the object and can be compared by keys.
    pub keys: Vec<KeyDifference>,
}

/// A live change of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LiveChange {
    /// The file does not have the object.
    Added,
    /// The object has other settings than in the file.
    #[default]
    Changed,
    /// The file has the object, and it does not run.
    Removed,
}

/// A key that differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KeyDifference {
    /// The key.
    pub key: String,
    /// Its value in the file, in TOML; `None` where it is not set.
    pub file: Option<String>,
    /// Its value as it runs, in TOML; `None` where it is not set.
    pub running: Option<String>,
}

/// The live changes that were taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Reverted {
    /// The names of the objects that are as in the file again.
    pub objects: Vec<String>,
    /// The changes that were made, a line for each.
    pub changes: Vec<String>,
    /// Hosts whose secrets or TLS keys prove nothing since.
    pub warnings: Vec<String>,
}

/// The configuration file with the live changes in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConfigMerged {
    /// The path of the file.
    pub file: String,
    /// The content of the file as it is.
    pub before: String,
    /// The content of the file with the live changes.
    pub text: String,
    /// The number of objects that differ.
    pub live_changes: usize,
    /// The number of live changes that no file can have: settings of objects that were removed.
    pub left_over: usize,
}

/// Makes the answers that name an object.
macro_rules! objects {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
        /// Warnings for the operator about the namespace's file or device.
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
        /// Warnings for the operator about the namespace's file or device.
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Policy {
    /// Whether the policy was removed.
    pub removed: bool,
    /// The keys of `[[policy]]`.
    #[serde(flatten)]
    pub settings: Settings,
}
