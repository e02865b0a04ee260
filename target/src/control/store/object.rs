//! Objects of a configuration that can change one by one, as names and texts.

use std::fmt;

use sluice_config::fields::Fields;
use sluice_config::pmem::shared_with_regions;
use sluice_config::{
    AllowedHost, Config, Namespace, Network, Qos, QosConfig, Subsystem, clash_of_serials,
    derived_nguid, derived_serial, derived_uuid, entry, render_subsystem, table,
};
use uuid::Uuid;

use super::{Key, Kind};
use crate::control::objects::{Group, Listed, put};

/// The name of an object of a configuration that can change without others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ObjectId {
    /// An object of a list: its kind, and the identifier that tells it from others of the kind.
    Listed(Kind, String),
    /// A subsystem by its NQN.
    Subsystem(String),
    /// A subsystem's `allow_any_host`.
    AnyHost(String),
    /// A host of a subsystem: the subsystem's NQN, the host's.
    Host(String, String),
    /// A namespace: the subsystem's NQN, the NSID.
    Namespace(String, u32),
    /// `[qos]`.
    Qos,
    /// `[network]`.
    Network,
}

/// The name by which `config.diff` and `config.revert` know the object.
impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listed(kind, id) => write!(f, "{} {id}", kind.name()),
            Self::Subsystem(nqn) => write!(f, "{} {nqn}", Kind::Subsystem.name()),
            Self::AnyHost(nqn) => write!(f, "{} {nqn}", Kind::AnyHost.name()),
            Self::Host(nqn, host) => write!(f, "{} {nqn} {host}", Kind::Host.name()),
            Self::Namespace(nqn, nsid) => write!(f, "{} {nqn} {nsid}", Kind::Namespace.name()),
            Self::Qos => f.write_str(Kind::Qos.name()),
            Self::Network => f.write_str(Kind::Network.name()),
        }
    }
}

impl ObjectId {
    /// Names an object of a list.
    pub(crate) fn of<T: Listed>(id: impl Into<String>) -> Self {
        Self::Listed(T::KIND, id.into())
    }

    /// Returns the object's name in a store.
    pub(super) fn key(&self, machine: Uuid) -> Key {
        // NQNs contain no spaces.
        let (kind, id) = match self {
            Self::Listed(kind, id) => (*kind, format!("{machine} {id}")),
            Self::Subsystem(nqn) => (Kind::Subsystem, nqn.clone()),
            Self::AnyHost(nqn) => (Kind::AnyHost, nqn.clone()),
            Self::Host(nqn, host) => (Kind::Host, format!("{nqn} {host}")),
            Self::Namespace(nqn, nsid) => (Kind::Namespace, format!("{nqn} {nsid}")),
            Self::Qos => (Kind::Qos, format!("{machine} qos")),
            Self::Network => (Kind::Network, format!("{machine} network")),
        };
        Key { kind, id }
    }

    /// Reads the object of a name; `None` for another machine's, for an object that is no live
    /// change, or a name that is not valid.
    pub(super) fn parse(key: &Key, machine: Uuid) -> Option<Self> {
        let pair = || key.id.split_once(' ');
        let ours = || pair().filter(|(owner, _)| *owner == machine.to_string());
        Some(match key.kind {
            Kind::Subsystem => Self::Subsystem(key.id.clone()),
            Kind::AnyHost => Self::AnyHost(key.id.clone()),
            Kind::Host => pair().map(|(nqn, host)| Self::Host(nqn.into(), host.into()))?,
            Kind::Namespace => {
                let (nqn, nsid) = pair()?;
                Self::Namespace(nqn.into(), nsid.parse().ok()?)
            }
            Kind::Qos => ours().map(|_| Self::Qos)?,
            Kind::Network => ours().map(|_| Self::Network)?,
            kind => {
                kind.kept()?;
                Self::Listed(kind, ours()?.1.into())
            }
        })
    }

    /// Returns the NQN of the subsystem that the object belongs to.
    pub(crate) fn subsystem(&self) -> Option<&str> {
        match self {
            Self::Listed(..) | Self::Qos | Self::Network => None,
            Self::Subsystem(nqn) | Self::AnyHost(nqn) => Some(nqn),
            Self::Host(nqn, _) | Self::Namespace(nqn, _) => Some(nqn),
        }
    }

    /// Returns the object as text; `None` where the configuration does not have it.
    pub(crate) fn text(&self, config: &Config) -> Option<String> {
        let subsystem = |nqn: &str| config.subsystems.iter().find(|s| s.nqn == nqn);
        match self {
            Self::Listed(kind, id) => (kind.kept()?.text)(config, id),
            Self::Subsystem(nqn) => subsystem(nqn).map(render_subsystem),
            Self::AnyHost(nqn) => subsystem(nqn).map(|s| s.allow_any_host.to_string()),
            Self::Host(nqn, host) => {
                let found = subsystem(nqn)?.hosts.iter().find(|known| known.nqn == *host)?;
                Some(host_text(found))
            }
            Self::Namespace(nqn, nsid) => {
                let mut all = subsystem(nqn)?.namespaces.iter();
                all.find(|n| n.nsid == Some(*nsid)).map(table::text)
            }
            Self::Qos => Some(table::text(&config.qos.general)),
            Self::Network => Some(table::text(&config.network)),
        }
    }

    /// Returns the object's keys, a line for each; `None` where the configuration does not have it.
    pub(super) fn lines(&self, config: &Config) -> Option<String> {
        let subsystem = |nqn: &str| config.subsystems.iter().find(|s| s.nqn == nqn);
        match self {
            Self::AnyHost(nqn) => {
                subsystem(nqn).map(|s| format!("allow_any_host = {}\n", s.allow_any_host))
            }
            Self::Host(nqn, host) => {
                subsystem(nqn)?.hosts.iter().find(|known| known.nqn == *host).map(table::text)
            }
            _ => self.text(config),
        }
    }

    /// Says with which other object this one clashes; `None` where it does not. Clashes of its
    /// namespaces with each other are found by [`sluice_config::Taken`].
    pub(super) fn clash(&self, config: &Config) -> Option<String> {
        match self {
            Self::Listed(kind, _) => kind.kept().and_then(|kept| (kept.wrong)(config)),
            // The meaning of a session's name may change with the subsystem.
            Self::Subsystem(nqn) => {
                let wrong = clash_of_serials(config).or_else(|| QosConfig::wrong(config));
                wrong.or_else(|| shared_with_regions(config, nqn, None))
            }
            Self::Qos => QosConfig::wrong(config),
            Self::Namespace(nqn, nsid) => shared_with_regions(config, nqn, Some(*nsid)),
            Self::AnyHost(_) | Self::Host(..) => None,
            Self::Network => Network::wrong(config),
        }
    }

    /// Returns a text of the object as this version of the product would write it.
    pub(super) fn canonical(&self, text: &str) -> Result<String, String> {
        Ok(match self {
            Self::Listed(kind, _) => match kind.kept() {
                Some(kept) => (kept.canonical)(text)?,
                None => text.into(),
            },
            Self::Subsystem(_) => render_subsystem(&read_subsystem(text)?),
            Self::Namespace(..) => table::text(&read_namespace(text)?),
            Self::Qos => table::text(&read_general(text)?),
            Self::Network => table::text(&read_network(text)?),
            Self::Host(_, host) => host_text(&read_host(text, host)?),
            Self::AnyHost(_) => text.into(),
        })
    }

    /// Returns a text without the identifiers that daemons before format 4 derived.
    pub(super) fn without_derived(&self, text: &str) -> Result<String, String> {
        Ok(match self {
            Self::Subsystem(_) => {
                let mut subsystem = read_subsystem(text)?;
                let nqn = &subsystem.nqn;
                subsystem.serial.take_if(|serial| *serial == derived_serial(nqn));
                subsystem.namespaces.iter_mut().for_each(|n| forget_derived(nqn, n));
                render_subsystem(&subsystem)
            }
            Self::Namespace(nqn, _) => {
                let mut namespace = read_namespace(text)?;
                forget_derived(nqn, &mut namespace);
                table::text(&namespace)
            }
            _ => text.into(),
        })
    }

    /// Returns a text of a daemon before format 4 without the identifiers that it derived, and without
    /// NGUIDs that are the UUID, as the first daemons derived them: to compare it with another text.
    pub(super) fn comparable(&self, text: &str) -> Result<String, String> {
        let text = match self {
            Self::Subsystem(_) => {
                let mut subsystem = read_subsystem(text)?;
                subsystem.namespaces.iter_mut().for_each(forget_copied_nguid);
                render_subsystem(&subsystem)
            }
            Self::Namespace(..) => {
                let mut namespace = read_namespace(text)?;
                forget_copied_nguid(&mut namespace);
                table::text(&namespace)
            }
            _ => text.into(),
        };
        self.without_derived(&text)
    }

    /// Makes the object in `config` what `text` says; `None` removes it.
    pub(crate) fn assign(&self, config: &mut Config, text: Option<&str>) -> Result<(), String> {
        match self {
            Self::Listed(kind, id) => {
                if let Some(kept) = kind.kept() {
                    (kept.assign)(config, id, text)?;
                }
            }
            Self::Subsystem(nqn) => {
                let subsystem = text.map(read_subsystem).transpose()?;
                put(&mut config.subsystems, |s| s.nqn == *nqn, subsystem);
            }
            Self::AnyHost(nqn) => parent(config, nqn)?.allow_any_host = text == Some("true"),
            Self::Host(nqn, host) => {
                let value = text.map(|text| read_host(text, host)).transpose()?;
                put(&mut parent(config, nqn)?.hosts, |known| known.nqn == *host, value);
            }
            Self::Namespace(nqn, nsid) => {
                let namespace = text.map(read_namespace).transpose()?;
                let namespaces = &mut parent(config, nqn)?.namespaces;
                put(namespaces, |n| n.nsid == Some(*nsid), namespace);
            }
            Self::Qos => {
                let general = text.map(read_general).transpose()?;
                config.qos.general = general.unwrap_or_default();
            }
            Self::Network => {
                let set = text.map(read_network).transpose()?.unwrap_or_default();
                config.network.set_general(set);
            }
        }
        Ok(())
    }
}

fn parent<'a>(config: &'a mut Config, nqn: &str) -> Result<&'a mut Subsystem, String> {
    let found = config.subsystems.iter_mut().find(|s| s.nqn == nqn);
    found.ok_or_else(|| "its subsystem no longer exists".into())
}

/// The text of a host without settings of its own.
const ALLOWED: &str = "allowed";

fn host_text(host: &AllowedHost) -> String {
    if host.is_plain() { ALLOWED.into() } else { table::text(host) }
}

fn read_host(text: &str, host: &str) -> Result<AllowedHost, String> {
    match text {
        ALLOWED => Ok(host.into()),
        text => entry::read_text(text, "the host", entry::host),
    }
}

/// Takes the identifiers from a namespace that follow from its place.
fn forget_derived(nqn: &str, namespace: &mut Namespace) {
    let uuid = namespace.uuid;
    namespace.nguid.take_if(|nguid| uuid.is_some_and(|uuid| *nguid == derived_nguid(uuid)));
    let derived = namespace.nsid.map(|nsid| derived_uuid(nqn, nsid));
    namespace.uuid.take_if(|uuid| Some(*uuid) == derived);
}

/// Takes the NGUID from a namespace where it is the UUID.
fn forget_copied_nguid(namespace: &mut Namespace) {
    let uuid = namespace.uuid;
    namespace.nguid.take_if(|nguid| uuid.is_some_and(|uuid| *nguid == uuid.into_bytes()));
}

fn read_namespace(text: &str) -> Result<Namespace, String> {
    entry::read_text(text, "the namespace", entry::namespace)
}

fn read_subsystem(text: &str) -> Result<Subsystem, String> {
    entry::read_text(text, "the subsystem", entry::stored_subsystem)
}

fn read_general(text: &str) -> Result<Qos, String> {
    let read = |fields: Fields<'_>| Some(entry::general(fields, Qos::default()));
    entry::read_text(text, "[qos]", read)
}

fn read_network(text: &str) -> Result<Network, String> {
    let read = |fields: Fields<'_>| Some(entry::network(fields, Network::default()));
    entry::read_text(text, "[network]", read)
}
