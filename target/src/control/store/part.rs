//! A copy of the part of a configuration that one change touches, from which the change is undone.

use sluice_config::{AllowedHost, Config, Namespace, Network, QosConfig, Subsystem};

use super::object::ObjectId;
use crate::control::objects::Copied;

/// A part of a configuration.
#[derive(Debug)]
pub(super) enum Part {
    /// Settings that change as a whole.
    Group(Copied),
    /// A subsystem, and its place in the list.
    Subsystem { nqn: String, before: Option<(usize, Box<Subsystem>)> },
    /// The hosts that may connect to a subsystem.
    Hosts { nqn: String, any: bool, hosts: Vec<AllowedHost> },
    /// A namespace, and its place in the list.
    Namespace { nqn: String, nsid: u32, before: Option<(usize, Box<Namespace>)> },
    /// The whole configuration.
    Whole(Box<Config>),
    /// Nothing, since the object of the change does not exist: the change cannot succeed.
    Nothing,
}

impl Part {
    /// Copies the part that a change of `object` touches, as it is now.
    pub(super) fn of(config: &Config, object: &ObjectId) -> Self {
        match object {
            ObjectId::Listed(kind, _) => {
                kind.kept().map_or(Self::Nothing, |kept| Self::Group((kept.copy)(config)))
            }
            ObjectId::Subsystem(nqn) => {
                let at = config.subsystems.iter().position(|s| s.nqn == *nqn);
                let before = at.and_then(|at| Some((at, config.subsystems.get(at)?)));
                let before = before.map(|(at, subsystem)| (at, Box::new(subsystem.clone())));
                Self::Subsystem { nqn: nqn.clone(), before }
            }
            ObjectId::AnyHost(nqn) | ObjectId::Host(nqn, _) => {
                match config.subsystems.iter().find(|s| s.nqn == *nqn) {
                    Some(Subsystem { allow_any_host, hosts, .. }) => {
                        Self::Hosts { nqn: nqn.clone(), any: *allow_any_host, hosts: hosts.clone() }
                    }
                    None => Self::Nothing,
                }
            }
            ObjectId::Namespace(nqn, nsid) => {
                let Some(subsystem) = config.subsystems.iter().find(|s| s.nqn == *nqn) else {
                    return Self::Nothing;
                };
                let at = subsystem.namespaces.iter().position(|n| n.nsid == Some(*nsid));
                let before = at.and_then(|at| Some((at, subsystem.namespaces.get(at)?)));
                let before = before.map(|(at, namespace)| (at, Box::new(namespace.clone())));
                Self::Namespace { nqn: nqn.clone(), nsid: *nsid, before }
            }
            ObjectId::Qos => Self::Group(Copied::of::<QosConfig>(config)),
            ObjectId::Network => Self::Group(Copied::of::<Network>(config)),
        }
    }

    /// Returns the part's namespaces, as they were.
    pub(super) fn namespaces(&self) -> Vec<&Namespace> {
        match self {
            Self::Subsystem { before: Some((_, subsystem)), .. } => {
                subsystem.namespaces.iter().collect()
            }
            Self::Namespace { before: Some((_, namespace)), .. } => vec![&**namespace],
            Self::Whole(config) => config.subsystems.iter().flat_map(|s| &s.namespaces).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the part's namespaces, as a configuration has them now.
    pub(super) fn namespaces_in<'a>(&self, config: &'a Config) -> Vec<&'a Namespace> {
        let of = |nqn: &str| {
            let found = config.subsystems.iter().find(|subsystem| subsystem.nqn == nqn);
            found.map_or(&[][..], |subsystem| &subsystem.namespaces)
        };
        match self {
            Self::Subsystem { nqn, .. } => of(nqn).iter().collect(),
            Self::Namespace { nqn, nsid, .. } => {
                of(nqn).iter().filter(|namespace| namespace.nsid == Some(*nsid)).collect()
            }
            Self::Whole(_) => config.subsystems.iter().flat_map(|s| &s.namespaces).collect(),
            _ => Vec::new(),
        }
    }

    /// Restores this part of a configuration.
    pub(super) fn put_back(self, config: &mut Config) {
        match self {
            Self::Group(before) => before.put_back(config),
            Self::Subsystem { nqn, before } => {
                config.subsystems.retain(|s| s.nqn != nqn);
                if let Some((at, subsystem)) = before {
                    config.subsystems.insert(at.min(config.subsystems.len()), *subsystem);
                }
            }
            Self::Hosts { nqn, any, hosts } => {
                if let Some(subsystem) = subsystem(config, &nqn) {
                    (subsystem.allow_any_host, subsystem.hosts) = (any, hosts);
                }
            }
            Self::Namespace { nqn, nsid, before } => {
                if let Some(Subsystem { namespaces, .. }) = subsystem(config, &nqn) {
                    namespaces.retain(|n| n.nsid != Some(nsid));
                    if let Some((at, namespace)) = before {
                        namespaces.insert(at.min(namespaces.len()), *namespace);
                    }
                }
            }
            Self::Whole(before) => *config = *before,
            Self::Nothing => {}
        }
    }
}

fn subsystem<'a>(config: &'a mut Config, nqn: &str) -> Option<&'a mut Subsystem> {
    config.subsystems.iter_mut().find(|subsystem| subsystem.nqn == nqn)
}
