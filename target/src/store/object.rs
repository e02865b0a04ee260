//! The objects of a configuration that can change by themselves, as names and texts.

use uuid::Uuid;

use super::{Key, Kind};
use crate::config::fields::Fields;
use crate::config::{
    Config, Link, Listener, Namespace, Network, Policy, Qos, Session, Subsystem,
    clash_of_listeners, entry, network, qos, render_listener, render_namespace, render_subsystem,
    table,
};

/// An object of a configuration that can change by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObjectId {
    /// A listener by its address.
    Listener(String),
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
    /// A QoS session by its name.
    Session(String),
    /// A policy by what it is for.
    Policy(Scope),
    /// `[network]`.
    Network,
    /// A link by its name.
    Link(String),
}

/// What a policy is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) host: Option<String>,
    pub(crate) subsystem: Option<String>,
    pub(crate) nsid: Option<u32>,
}

impl Scope {
    /// Of a policy.
    pub(crate) fn of(policy: &Policy) -> Self {
        Self { host: policy.host.clone(), subsystem: policy.subsystem.clone(), nsid: policy.nsid }
    }

    /// Three words without spaces; `*` stands for any.
    fn words(&self) -> String {
        let nsid = self.nsid.map(|nsid| nsid.to_string());
        let word = |word: &Option<String>| word.clone().unwrap_or_else(|| "*".into());
        format!("{} {} {}", word(&self.host), word(&self.subsystem), word(&nsid))
    }

    fn from_words(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let mut next = || words.next().map(|word| (word != "*").then(|| word.to_owned()));
        let (host, subsystem, nsid) = (next()?, next()?, next()?);
        let nsid = nsid.map(|nsid| nsid.parse()).transpose().ok()?;
        Some(Self { host, subsystem, nsid })
    }
}

impl ObjectId {
    /// The object's name in a store.
    pub(super) fn key(&self, machine: Uuid) -> Key {
        // NQNs contain no spaces.
        let (kind, id) = match self {
            Self::Listener(address) => (Kind::Listener, format!("{machine} {address}")),
            Self::Subsystem(nqn) => (Kind::Subsystem, nqn.clone()),
            Self::AnyHost(nqn) => (Kind::AnyHost, nqn.clone()),
            Self::Host(nqn, host) => (Kind::Host, format!("{nqn} {host}")),
            Self::Namespace(nqn, nsid) => (Kind::Namespace, format!("{nqn} {nsid}")),
            Self::Qos => (Kind::Qos, format!("{machine} qos")),
            Self::Session(name) => (Kind::Session, format!("{machine} {name}")),
            Self::Policy(scope) => (Kind::Policy, format!("{machine} {}", scope.words())),
            Self::Network => (Kind::Network, format!("{machine} network")),
            Self::Link(name) => (Kind::Link, format!("{machine} {name}")),
        };
        Key { kind, id }
    }

    /// The object of a name; `None` for another machine's, for what is no live change, or a name
    /// that is none.
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
            Kind::Listener => Self::Listener(ours()?.1.into()),
            Kind::Qos => ours().map(|_| Self::Qos)?,
            Kind::Session => Self::Session(ours()?.1.into()),
            Kind::Policy => Self::Policy(Scope::from_words(ours()?.1)?),
            Kind::Network => ours().map(|_| Self::Network)?,
            Kind::Link => Self::Link(ours()?.1.into()),
            Kind::Seen => return None,
        })
    }

    /// The NQN of the subsystem that the object belongs to.
    pub(super) fn subsystem(&self) -> Option<&str> {
        match self {
            Self::Listener(_) | Self::Qos | Self::Session(_) | Self::Policy(_) => None,
            Self::Network | Self::Link(_) => None,
            Self::Subsystem(nqn) | Self::AnyHost(nqn) => Some(nqn),
            Self::Host(nqn, _) | Self::Namespace(nqn, _) => Some(nqn),
        }
    }

    /// The object as text; `None` where the configuration does not have it.
    pub(super) fn text(&self, config: &Config) -> Option<String> {
        let subsystem = |nqn: &str| config.subsystems.iter().find(|s| s.nqn == nqn);
        match self {
            Self::Listener(address) => {
                let mut all = config.listeners.iter();
                all.find(|l| l.address.to_string() == *address).map(render_listener)
            }
            Self::Subsystem(nqn) => subsystem(nqn).map(render_subsystem),
            Self::AnyHost(nqn) => subsystem(nqn).map(|s| s.allow_any_host.to_string()),
            Self::Host(nqn, host) => {
                subsystem(nqn)?.hosts.contains(host).then(|| String::from("allowed"))
            }
            Self::Namespace(nqn, nsid) => {
                let mut all = subsystem(nqn)?.namespaces.iter();
                all.find(|n| n.nsid == Some(*nsid)).map(render_namespace)
            }
            Self::Qos => Some(table::text(&config.qos.general)),
            Self::Session(name) => {
                let mut all = config.qos.sessions.iter();
                all.find(|s| s.name == *name).map(table::text)
            }
            Self::Policy(scope) => {
                let mut all = config.qos.policies.iter();
                all.find(|p| Scope::of(p) == *scope).map(table::text)
            }
            Self::Network => Some(table::text(&config.network)),
            Self::Link(name) => {
                let mut all = config.network.links.iter();
                all.find(|l| l.name == *name).map(table::text)
            }
        }
    }

    /// What the object cannot be together with; `None` where it can be. What its namespaces cannot
    /// be together with is another question ([`crate::config::Taken`]).
    pub(super) fn clash(&self, config: &Config) -> Option<String> {
        let of_network = || network::wrong(&config.network, &config.listeners);
        let of_qos = || qos::wrong(&config.qos, &config.subsystems);
        match self {
            Self::Listener(_) => clash_of_listeners(config).or_else(of_network),
            // What its name means to a session may change with it.
            Self::Subsystem(_) => of_qos(),
            Self::Namespace(..) | Self::AnyHost(_) | Self::Host(..) => None,
            Self::Qos | Self::Session(_) | Self::Policy(_) => of_qos(),
            Self::Network | Self::Link(_) => of_network(),
        }
    }

    /// A text of the object as this version of the product would write it.
    pub(super) fn canonical(&self, text: &str) -> Result<String, String> {
        Ok(match self {
            Self::Listener(_) => render_listener(&read_listener(text)?),
            Self::Subsystem(_) => render_subsystem(&read_subsystem(text)?),
            Self::Namespace(..) => render_namespace(&read_namespace(text)?),
            Self::Qos => table::text(&read_general(text)?),
            Self::Session(_) => table::text(&read_session(text)?),
            Self::Policy(_) => table::text(&read_policy(text)?),
            Self::Network => table::text(&read_network(text)?),
            Self::Link(_) => table::text(&read_link(text)?),
            Self::AnyHost(_) | Self::Host(..) => text.into(),
        })
    }

    /// Makes the object in `config` what `text` says; `None` removes it.
    pub(super) fn assign(&self, config: &mut Config, text: Option<&str>) -> Result<(), String> {
        match self {
            Self::Listener(address) => {
                let listener = text.map(read_listener).transpose()?;
                put(&mut config.listeners, |l| l.address.to_string() == *address, listener);
            }
            Self::Subsystem(nqn) => {
                let subsystem = text.map(read_subsystem).transpose()?;
                put(&mut config.subsystems, |s| s.nqn == *nqn, subsystem);
            }
            Self::AnyHost(nqn) => parent(config, nqn)?.allow_any_host = text == Some("true"),
            Self::Host(nqn, host) => {
                let value = text.map(|_| host.clone());
                put(&mut parent(config, nqn)?.hosts, |known| known == host, value);
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
            Self::Session(name) => {
                let session = text.map(read_session).transpose()?;
                put(&mut config.qos.sessions, |s| s.name == *name, session);
            }
            Self::Network => {
                let set = text.map(read_network).transpose()?.unwrap_or_default();
                let links = std::mem::take(&mut config.network.links);
                config.network = Network { links, ..set };
            }
            Self::Link(name) => {
                let link = text.map(read_link).transpose()?;
                put(&mut config.network.links, |l| l.name == *name, link);
            }
            Self::Policy(scope) => {
                let policy = text.map(read_policy).transpose()?;
                put(&mut config.qos.policies, |p| Scope::of(p) == *scope, policy);
            }
        }
        Ok(())
    }
}

/// Replaces, adds or removes a list's one entry that is meant.
fn put<T>(list: &mut Vec<T>, is_it: impl Fn(&T) -> bool, value: Option<T>) {
    let place = list.iter_mut().find(|entry| is_it(entry));
    match (place, value) {
        (Some(place), Some(value)) => *place = value,
        (None, Some(value)) => list.push(value),
        (_, None) => list.retain(|entry| !is_it(entry)),
    }
}

fn parent<'a>(config: &'a mut Config, nqn: &str) -> Result<&'a mut Subsystem, String> {
    let found = config.subsystems.iter_mut().find(|s| s.nqn == nqn);
    found.ok_or_else(|| "its subsystem is no longer there".into())
}

fn read_listener(text: &str) -> Result<Listener, String> {
    entry::read_text(text, "the listener", entry::listener)
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

fn read_link(text: &str) -> Result<Link, String> {
    let read = |fields: Fields<'_>| entry::link(fields, &Link::default());
    entry::read_text(text, "the link", read)
}

fn read_session(text: &str) -> Result<Session, String> {
    entry::read_text(text, "the session", entry::session)
}

fn read_policy(text: &str) -> Result<Policy, String> {
    entry::read_text(text, "the policy", entry::policy)
}
