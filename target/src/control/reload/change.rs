//! One change of the running target.

use std::fmt;

use arbitration::Class;
use sluice_config::{
    AllowedHost, Backend, DEFAULT_LINK, Endpoint, HostRights, Listener, Namespace, Network,
    QosConfig, RegionConfig, Subsystem, format_size,
};

use crate::serve::engine::{Engine, EngineError};

/// One change of the running target, with everything needed to make it and to undo it. Its text describes its
/// effect.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// A subsystem is added, with its namespaces.
    AddSubsystem(Subsystem, Why),
    /// A subsystem is removed, with its namespaces.
    RemoveSubsystem(Subsystem, Why),
    /// A namespace is added.
    AddNamespace(String, Namespace, Why),
    /// A namespace is removed.
    RemoveNamespace(String, Namespace, Why),
    /// A namespace gets another size in bytes; `None` means its file's.
    Resize { nqn: String, nsid: u32, from: Option<u64>, to: Option<u64> },
    /// A namespace gets another class.
    NamespaceClass { nqn: String, nsid: u32, from: Option<Class>, to: Option<Class> },
    /// A host may connect to a subsystem.
    AddHost(String, AllowedHost),
    /// A host may come from other addresses, or has other rights.
    SetHost { nqn: String, from: AllowedHost, to: AllowedHost },
    /// A host may no longer connect to a subsystem.
    RemoveHost(String, AllowedHost),
    /// Whether any host may connect to a subsystem.
    AnyHost(String, bool),
    /// Whether hosts of a subsystem must authenticate.
    RequireAuthentication(String, bool),
    /// A listener is added.
    AddListener(Listener, Why),
    /// A listener is removed.
    RemoveListener(Listener, Why),
    /// A listener gets another class.
    ListenerClass { endpoint: Endpoint, from: Option<Class>, to: Option<Class> },
    /// A listener's connections share another link.
    ListenerLink { endpoint: Endpoint, from: Option<String>, to: Option<String> },
    /// `[qos]`, `[[session]]` and `[[policy]]` change.
    Qos { from: Box<QosConfig>, to: Box<QosConfig> },
    /// `[network]` and `[[link]]` change.
    Network { from: Box<Network>, to: Box<Network> },
    /// `[[region]]` changes.
    Regions { from: Vec<RegionConfig>, to: Vec<RegionConfig> },
}

/// The reason for which an object is added or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The object is new, or the new configuration does not have it.
    Itself,
    /// The object is removed and added again, since these settings cannot change while the object
    /// exists.
    Settings(Vec<&'static str>),
}

impl Change {
    /// Makes the change.
    ///
    /// # Errors
    /// The target refuses; nothing has changed.
    pub(crate) fn make(&self, engine: &dyn Engine) -> Result<(), EngineError> {
        match self {
            Self::AddSubsystem(subsystem, _) => engine.add_subsystem(subsystem).map(drop),
            Self::RemoveSubsystem(subsystem, _) => engine.remove_subsystem(&subsystem.nqn),
            Self::AddNamespace(nqn, namespace, _) => engine.add_namespace(nqn, namespace).map(drop),
            Self::RemoveNamespace(nqn, namespace, _) => {
                engine.remove_namespace(nqn, namespace.id())
            }
            Self::Resize { nqn, nsid, to, .. } => {
                engine.resize_namespace(nqn, *nsid, *to).map(drop)
            }
            Self::NamespaceClass { nqn, nsid, to, .. } => {
                engine.set_namespace_class(nqn, *nsid, *to)
            }
            Self::AddHost(nqn, host) => engine.add_host(nqn, host),
            Self::SetHost { nqn, to, .. } => engine.set_host(nqn, to),
            Self::RemoveHost(nqn, host) => engine.remove_host(nqn, &host.nqn),
            Self::AnyHost(nqn, allow) => engine.set_allow_any_host(nqn, *allow),
            Self::RequireAuthentication(nqn, required) => {
                engine.set_require_authentication(nqn, *required)
            }
            Self::AddListener(listener, _) => engine.add_listener(listener),
            Self::RemoveListener(listener, _) => engine.remove_listener(listener.endpoint()),
            Self::ListenerClass { endpoint, to, .. } => engine.set_listener_class(*endpoint, *to),
            Self::ListenerLink { endpoint, to, .. } => {
                engine.set_listener_link(*endpoint, to.as_deref())
            }
            Self::Qos { to, .. } => engine.set_qos(to),
            Self::Network { to, .. } => engine.set_network(to),
            Self::Regions { to, .. } => engine.set_regions(to),
        }
    }

    /// Returns the change that undoes this one.
    pub(crate) fn inverse(&self) -> Self {
        match self.clone() {
            Self::AddSubsystem(subsystem, why) => Self::RemoveSubsystem(subsystem, why),
            Self::RemoveSubsystem(mut subsystem, why) => {
                subsystem.namespaces.iter_mut().for_each(known);
                Self::AddSubsystem(subsystem, why)
            }
            Self::AddNamespace(nqn, namespace, why) => Self::RemoveNamespace(nqn, namespace, why),
            Self::RemoveNamespace(nqn, mut namespace, why) => {
                known(&mut namespace);
                Self::AddNamespace(nqn, namespace, why)
            }
            Self::Resize { nqn, nsid, from, to } => Self::Resize { nqn, nsid, from: to, to: from },
            Self::NamespaceClass { nqn, nsid, from, to } => {
                Self::NamespaceClass { nqn, nsid, from: to, to: from }
            }
            Self::AddHost(nqn, host) => Self::RemoveHost(nqn, host),
            Self::SetHost { nqn, from, to } => Self::SetHost { nqn, from: to, to: from },
            Self::RemoveHost(nqn, host) => Self::AddHost(nqn, host),
            Self::AnyHost(nqn, allow) => Self::AnyHost(nqn, !allow),
            Self::RequireAuthentication(nqn, required) => {
                Self::RequireAuthentication(nqn, !required)
            }
            Self::AddListener(listener, why) => Self::RemoveListener(listener, why),
            Self::RemoveListener(listener, why) => Self::AddListener(listener, why),
            Self::ListenerClass { endpoint, from, to } => {
                Self::ListenerClass { endpoint, from: to, to: from }
            }
            Self::ListenerLink { endpoint, from, to } => {
                Self::ListenerLink { endpoint, from: to, to: from }
            }
            Self::Qos { from, to } => Self::Qos { from: to, to: from },
            Self::Network { from, to } => Self::Network { from: to, to: from },
            Self::Regions { mut from, to } => {
                from.iter_mut().for_each(|region| region.create = false);
                Self::Regions { from: to, to: from }
            }
        }
    }

    /// Returns whether the change removes an object, which may be missing already.
    pub(crate) fn is_removal(&self) -> bool {
        matches!(
            self,
            Self::RemoveSubsystem(..)
                | Self::RemoveNamespace(..)
                | Self::RemoveHost(..)
                | Self::RemoveListener(..)
        )
    }
}

/// Marks a namespace's file or device as existing: a missing file is not created. Its recorded state is kept until
/// the change is complete, so that another device in its place is refused, and the hosts' data is no reason to
/// refuse it.
pub(super) fn known(namespace: &mut Namespace) {
    namespace.backend.set_create(false);
}

impl Why {
    /// Writes `alone`, or `changed` with the settings that differ.
    fn words(&self, alone: &str, changed: &str) -> String {
        match self {
            Self::Itself => alone.to_owned(),
            Self::Settings(keys) => format!("{changed} with another {}", keys.join(", ")),
        }
    }

    fn comes(&self) -> String {
        self.words("is added", "is added again,")
    }

    fn goes(&self) -> String {
        self.words("is removed", "is removed, to be added again")
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddSubsystem(subsystem, why) => {
                let count = match subsystem.namespaces.len() {
                    1 => "1 namespace".to_owned(),
                    count => format!("{count} namespaces"),
                };
                write!(f, "subsystem {} {}, with {count}", subsystem.nqn, why.comes())
            }
            Self::RemoveSubsystem(subsystem, why) => {
                write!(f, "subsystem {} {}", subsystem.nqn, why.goes())
            }
            Self::AddNamespace(nqn, namespace, why) => {
                let (nsid, backend) = (namespace.id(), backend(namespace));
                write!(f, "namespace {nsid} of {nqn} ({backend}) {}", why.comes())
            }
            Self::RemoveNamespace(nqn, namespace, why) => {
                let (nsid, backend) = (namespace.id(), backend(namespace));
                write!(f, "namespace {nsid} of {nqn} ({backend}) {}", why.goes())
            }
            Self::Resize { nqn, nsid, from, to } => {
                let (from, to) = (size(*from), size(*to));
                write!(f, "namespace {nsid} of {nqn} goes from {from} to {to}")
            }
            Self::NamespaceClass { nqn, nsid, from, to } => {
                let (from, to) = (class(*from), class(*to));
                write!(f, "namespace {nsid} of {nqn} goes from {from} to {to}")
            }
            Self::AddHost(nqn, host) => {
                write!(f, "host {} may use {nqn}{}{}", host.nqn, from_where(host), limits(host))
            }
            Self::SetHost { nqn, from, to } => {
                let from_any = match to.sources.is_any() && !from.sources.is_any() {
                    true => " from any address",
                    false => "",
                };
                let rights = match to.rights.are_all() && !from.rights.are_all() {
                    true => ", with all rights".into(),
                    false => limits(to),
                };
                let sources = from_where(to);
                write!(f, "host {} may use {nqn}{from_any}{sources}{rights}", to.nqn)
            }
            Self::RemoveHost(nqn, host) => write!(f, "host {} may no longer use {nqn}", host.nqn),
            Self::AnyHost(nqn, true) => write!(f, "any host may use {nqn}"),
            Self::AnyHost(nqn, false) => write!(f, "only listed hosts may use {nqn}"),
            Self::RequireAuthentication(nqn, true) => write!(f, "hosts of {nqn} must authenticate"),
            Self::RequireAuthentication(nqn, false) => {
                write!(f, "hosts of {nqn} need not authenticate any more")
            }
            Self::AddListener(listener, why) => {
                write!(f, "listener {} {}", listener.endpoint(), why.comes())
            }
            Self::RemoveListener(listener, why) => {
                write!(f, "listener {} {}", listener.endpoint(), why.goes())
            }
            Self::ListenerClass { endpoint, from, to } => {
                write!(f, "listener {endpoint} goes from {} to {}", class(*from), class(*to))
            }
            Self::ListenerLink { endpoint, from, to } => {
                let link = |link: &Option<String>| link.clone().unwrap_or(DEFAULT_LINK.into());
                write!(f, "listener {endpoint} goes from link {} to link {}", link(from), link(to))
            }
            Self::Qos { from, to } => {
                write!(f, "quality of service changes: {}", from.differing(to).join(", "))
            }
            Self::Network { from, to } => {
                write!(f, "the network's settings change: {}", from.differing(to).join(", "))
            }
            Self::Regions { from, to } => {
                write!(f, "regions change: {}", regions(from, to).join(", "))
            }
        }
    }
}

/// Writes " from …", where a host may not come from any address.
fn from_where(host: &AllowedHost) -> String {
    match host.sources.is_any() {
        true => String::new(),
        false => format!(" from {} only", host.sources),
    }
}

/// Writes the restrictions of a host's rights, each behind a comma.
fn limits(host: &AllowedHost) -> String {
    let HostRights { namespaces, read_only, max_class } = &host.rights;
    let namespaces = namespaces.as_ref().map(|nsids| {
        let nsids: Vec<String> = nsids.iter().map(u32::to_string).collect();
        match nsids.is_empty() {
            true => ", no namespaces".to_owned(),
            false => format!(", namespaces {} only", nsids.join(", ")),
        }
    });
    let max_class = max_class.map(|class| format!(", at most class {}", class.name()));
    let read_only = if *read_only { ", to read" } else { "" };
    format!("{}{read_only}{}", namespaces.unwrap_or_default(), max_class.unwrap_or_default())
}

/// Tells the changes of regions in words.
fn regions(from: &[RegionConfig], to: &[RegionConfig]) -> Vec<String> {
    let named = |list: &[RegionConfig], name: &str| list.iter().any(|region| region.name == name);
    let gone = from.iter().filter(|old| !named(to, &old.name));
    let gone = gone.map(|old| format!("{} is removed", old.name));
    let others = to.iter().filter_map(|new| {
        let name = &new.name;
        let Some(old) = from.iter().find(|old| old.name == *name) else {
            return Some(format!("{name} is added"));
        };
        let keys = old.differing(new).join(", ");
        match old.is_same_memory(new) {
            true if old.is_like(new) => None,
            true => Some(format!("{name} gets another {keys}")),
            false => Some(format!("{name} is removed and added again with another {keys}")),
        }
    });
    gone.chain(others).collect()
}

fn backend(namespace: &Namespace) -> String {
    match &namespace.backend {
        Backend::Null { size, .. } => format!("null, {}", format_size(*size)),
        Backend::Memory { size, .. } => format!("memory, {}", format_size(*size)),
        Backend::File { path, .. }
        | Backend::Pmem { path, .. }
        | Backend::Nvme { device: path, .. } => path.display().to_string(),
    }
}

fn size(size: Option<u64>) -> String {
    size.map_or_else(|| "the size that its file has".into(), format_size)
}

fn class(class: Option<Class>) -> String {
    class.map_or_else(|| "no class".into(), |class| format!("class {}", class.name()))
}
