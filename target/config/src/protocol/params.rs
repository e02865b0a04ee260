//! The parameters of methods.
//!
//! Most methods have a struct, which lists its keys for the daemon's checks. Methods that set an
//! object of the configuration take that object's own keys, which are [`Settings`] here.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::keys::Values;

/// A parameter of a method.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The parameter's name.
    pub name: &'static str,
    /// The values that the parameter takes.
    pub values: Values,
    /// An example of a value, for a parameter that must be given.
    pub example: Option<&'static str>,
}

/// The parameters of a method.
pub trait Params: Serialize + DeserializeOwned {
    /// The parameters in the order in which they are checked.
    const KEYS: &'static [Parameter];
}

/// A value as a person writes it: a number, or text with a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Setting {
    /// A number.
    Number(u64),
    /// A text.
    Text(String),
}

/// Keys of an object of the configuration with their values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Settings(Map<String, Value>);

impl Settings {
    /// Sets a key; `None` leaves it out.
    #[must_use]
    pub fn with(mut self, key: &str, value: Option<impl Into<Value>>) -> Self {
        if let Some(value) = value {
            self.0.insert(key.into(), value.into());
        }
        self
    }

    /// Returns whether no key is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// Iterates over the keys and their values in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }
}

impl From<Map<String, Value>> for Settings {
    fn from(settings: Map<String, Value>) -> Self {
        Self(settings)
    }
}

/// Whether a parameter is left out of a request.
trait Absent {
    fn is_absent(&self) -> bool;
}

impl Absent for bool {
    fn is_absent(&self) -> bool {
        !self
    }
}

impl<T> Absent for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

/// Makes structs of parameters. A parameter with an example must be given. Others are left out of the request if they
/// are `false` or `None`.
macro_rules! params {
    ($($(#[$doc:meta])* $name:ident { $($fields:tt)* })*) => {$(
        params!(@fields $name [$(#[$doc])*] {} [] $($fields)*);
    )*};
    // Moves the first field to the struct's fields and to its keys.
    (@fields $name:ident $docs:tt {$($struct:tt)*} [$($keys:tt)*]
        $(#[$doc:meta])* $field:ident: $type:ty = $values:expr, $example:literal; $($rest:tt)*
    ) => {
        params!(@fields $name $docs
            {$($struct)* $(#[$doc])* pub $field: $type,}
            [$($keys)* Parameter {
                name: stringify!($field),
                values: $values,
                example: Some($example),
            },]
            $($rest)*);
    };
    (@fields $name:ident $docs:tt {$($struct:tt)*} [$($keys:tt)*]
        $(#[$doc:meta])* $field:ident: $type:ty = $values:expr; $($rest:tt)*
    ) => {
        params!(@fields $name $docs
            {$($struct)* $(#[$doc])*
                #[serde(default, skip_serializing_if = "Absent::is_absent")]
                pub $field: $type,}
            [$($keys)* Parameter { name: stringify!($field), values: $values, example: None },]
            $($rest)*);
    };
    (@fields $name:ident [$($docs:tt)*] $struct:tt $keys:tt) => {
        $($docs)*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub struct $name $struct

        impl Params for $name {
            const KEYS: &'static [Parameter] = &$keys;
        }
    };
}

params! {
    /// No parameters.
    Nothing {}

    /// The parameters of `statistics` and `qos.show`.
    Buckets {
        /// Whether histograms come with the counts of their buckets.
        buckets: bool = Values::Boolean;
    }

    /// The parameters of `event.list`.
    EventList {
        /// The number of the last event that the caller knows; `None` means none.
        after: Option<u64> = Values::Number { min: 0, max: u64::MAX >> 1 };
    }

    /// The parameters of `trace.start`.
    TraceStart {
        /// The NQN of the host; `None` selects all.
        host: Option<String> = Values::Nqn;
        /// The NQN of the subsystem; `None` selects all.
        subsystem: Option<String> = Values::Nqn;
        /// The namespace; `None` selects all.
        nsid: Option<u32> = Values::NSID;
        /// The class's name; `None` selects all.
        class: Option<String> = Values::Class;
        /// The least time of a command in the target in ns; `None` means 0.
        slower_than_ns: Option<u64> = Values::Number { min: 0, max: u64::MAX >> 1 };
    }

    /// The parameters of `trace.read`.
    TraceRead {
        /// The number that `trace.start` returned.
        trace: u64 = Values::Number { min: 0, max: u64::MAX >> 1 }, "1";
        /// Whether the trace ends.
        stop: bool = Values::Boolean;
    }

    /// The parameters of `log.level`.
    LogLevel {
        /// The new level; `None` leaves it.
        level: Option<String> = Values::Text("a level or filter of the log");
    }

    /// The parameters of `reload`.
    Reload {
        /// Whether to proceed although hosts lose objects that they use.
        force: bool = Values::Boolean;
        /// Whether to only list the changes.
        check: bool = Values::Boolean;
    }

    /// The parameters of `config.apply`.
    ConfigApply {
        /// The configuration, as the content of a file.
        text: String = Values::Text("the content of a configuration file"), "\"[target]…\"";
        /// Whether to proceed although hosts lose objects that they use.
        force: bool = Values::Boolean;
        /// Whether to only list the changes.
        check: bool = Values::Boolean;
    }

    /// The parameters of `shutdown`.
    Shutdown {
        /// Whether the daemon ends without settling commands in flight.
        now: bool = Values::Boolean;
    }

    /// The parameters of `subsystem.remove`.
    SubsystemRemove {
        /// The subsystem's NQN.
        nqn: String = Values::Nqn, "the subsystem's NQN";
        /// Whether connected hosts may lose the object.
        force: bool = Values::Boolean;
    }

    /// The parameters of methods that list objects of one subsystem, or of all.
    OfSubsystem {
        /// The NQN of the subsystem; `None` means all.
        subsystem: Option<String> = Values::Nqn;
    }

    /// The parameters of `host.keys`.
    OfHost {
        /// The host's NQN; `None` means all hosts that have keys.
        host: Option<String> = Values::Nqn;
    }

    /// The parameters of `namespace.remove`.
    NamespaceRemove {
        /// The subsystem's NQN.
        subsystem: String = Values::Nqn, "the subsystem's NQN";
        /// The namespace identifier.
        nsid: u32 = Values::NSID, "1";
        /// Whether connected hosts may lose the object.
        force: bool = Values::Boolean;
    }

    /// The parameters of `namespace.resize`.
    NamespaceResize {
        /// The subsystem's NQN.
        subsystem: String = Values::Nqn, "the subsystem's NQN";
        /// The namespace identifier.
        nsid: u32 = Values::NSID, "1";
        /// The new size; `None` means the size that the file or device has now.
        size: Option<Setting> = Values::SIZE;
        /// Whether connected hosts may lose data beyond the new end.
        force: bool = Values::Boolean;
    }

    /// The parameters of `namespace.retry`.
    NamespaceRetry {
        /// The NQN of the subsystem; `None` means all.
        subsystem: Option<String> = Values::Nqn;
        /// The namespace identifier; `None` means all namespaces.
        nsid: Option<u32> = Values::NSID;
    }

    /// The parameters of `listener.remove`.
    ListenerRemove {
        /// IP address and port; for an RDMA listener with the prefix `rdma:`.
        address: String = Values::Endpoint, "\"0.0.0.0:4420\"";
        /// Whether hosts that are connected through the listener may lose their controllers.
        force: bool = Values::Boolean;
    }

    /// The parameters of `host.remove`.
    HostRemove {
        /// The subsystem's NQN.
        subsystem: String = Values::Nqn, "the subsystem's NQN";
        /// The host's NQN.
        host: String = Values::Nqn, "the host's NQN";
        /// Whether the host may lose the subsystem while it is connected.
        force: bool = Values::Boolean;
    }

    /// The parameters of `host.any`.
    HostAny {
        /// The subsystem's NQN.
        subsystem: String = Values::Nqn, "the subsystem's NQN";
        /// Whether any host may connect.
        allow: bool = Values::Boolean, "true or false";
        /// Whether hosts that are connected may lose their permission.
        force: bool = Values::Boolean;
    }

    /// The parameters of `qos.listener`.
    ListenerClass {
        /// IP address and port; for an RDMA listener with the prefix `rdma:`.
        address: String = Values::Endpoint, "\"0.0.0.0:4420\"";
        /// The class's name; `None` means that the listener gives its connections no class.
        class: Option<String> = Values::Class, "\"high\", or null for none";
    }

    /// The parameters of `qos.namespace`.
    NamespaceClass {
        /// The subsystem's NQN.
        subsystem: String = Values::Nqn, "the subsystem's NQN";
        /// The namespace identifier.
        nsid: u32 = Values::NSID, "1";
        /// The class's name; `None` means that the namespace gives its commands no class.
        class: Option<String> = Values::Class, "\"high\", or null for none";
    }

    /// The parameters of `pmem.profile`.
    PmemProfile {
        /// The number of periods; `None` means 10.
        periods: Option<u32> = Values::Number { min: 2, max: 1000 };
    }

    /// The parameters of `session.remove`.
    SessionRemove {
        /// The session's name.
        name: String = Values::Session, "\"gold\"";
    }

    /// The parameters of `profile.remove`.
    ProfileRemove {
        /// The profile's name.
        name: String = Values::Profile, "\"gold\"";
    }

    /// The parameters of `session.release`.
    SessionRelease {
        /// The session's name.
        session: String = Values::Session, "\"gold\"";
    }

    /// The parameters of `network.listener`.
    ListenerLink {
        /// IP address and port; for an RDMA listener with the prefix `rdma:`.
        address: String = Values::Endpoint, "\"0.0.0.0:4420\"";
        /// The link's name; `None` means the default one.
        link: Option<String> = Values::AnyLink, "\"east\", or null for the default one";
    }

    /// The parameters of `link.remove`.
    LinkRemove {
        /// The link's name.
        name: String = Values::Link, "\"east\"";
    }

    /// The parameters of `region.remove`.
    RegionRemove {
        /// The region's name.
        name: String = Values::Region, "\"log\"";
        /// Whether connected clients may lose the region.
        force: bool = Values::Boolean;
    }
}
