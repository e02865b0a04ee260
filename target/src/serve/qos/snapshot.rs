//! The settings of quality of service that all connections share. The snapshot is replaced as a
//! whole when a setting changes, so that reading it takes no lock and a change is seen at once. The
//! settings of single namespaces are in [`published`](super::published).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use arbitration::Class;
use arbitration::classify::{ConnectionClass, PolicyClass, class_of_dscp};
use arbitration::limit::Limiter;
use arbitration::settings::OrderSettings;
use fabric::controller::ListenerId;
use sluice_config::{Policy, Qos};

use sluice_core::{Origin, Policies, Tenancy, Tenant};

/// A policy with its session and its limit on Urgent commands.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) policy: Policy,
    pub(crate) urgent: Option<Arc<Limiter>>,
    pub(crate) tenant: Option<Tenant>,
}

/// The host whose commands policies are looked up for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker<'a> {
    /// The host's NQN.
    pub(crate) host: &'a str,
    /// The address of the connection's peer; `None`: it is not known, and policies for certain
    /// addresses do not apply.
    pub(crate) address: Option<IpAddr>,
}

/// The scope of a policy, without addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Scope<'a> {
    host: Option<&'a str>,
    subsystem: Option<&'a str>,
    nsid: Option<u32>,
}

impl Scope<'_> {
    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        Hash::hash(self, &mut hasher);
        hasher.finish()
    }
}

/// The policies, found by their scopes: there may be thousands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules(HashMap<u64, Vec<Rule>>);

impl Rules {
    pub(super) fn add(&mut self, rule: Rule) {
        self.0.entry(scope(&rule.policy).hash()).or_default().push(rule);
    }

    /// Returns the policies of a scope that apply to a peer at `address`: those with the smallest
    /// networks around it first, that for any address last.
    fn find(&self, wanted: Scope<'_>, address: Option<IpAddr>) -> Vec<&Rule> {
        let of = |rule: &&Rule| {
            let sources = &rule.policy.addresses;
            scope(&rule.policy) == wanted && sources.admit(address)
        };
        let mut found: Vec<&Rule> =
            self.0.get(&wanted.hash()).into_iter().flatten().filter(of).collect();
        let prefix = |rule: &Rule| address.and_then(|at| rule.policy.addresses.prefix(at));
        found.sort_by_key(|rule| Reverse(prefix(rule)));
        found
    }

    /// Returns the policies that fit. Policies that name more of host, subsystem and namespace come first; of two
    /// that name as many, the policy with the host; of two for the same, the policy for fewer addresses.
    pub(super) fn fitting(
        &self,
        asker: &Asker<'_>,
        subsystem: &str,
        nsid: Option<u32>,
    ) -> Vec<&Rule> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let (host, subsystem) = (Some(asker.host), Some(subsystem));
        let mut scopes = vec![
            Scope { host, subsystem, nsid },
            Scope { host, subsystem, nsid: None },
            Scope { host: None, subsystem, nsid },
            Scope { host, subsystem: None, nsid: None },
            Scope { host: None, subsystem, nsid: None },
            Scope { host: None, subsystem: None, nsid: None },
        ];
        if nsid.is_none() {
            scopes = scopes.split_off(1);
            scopes.remove(1);
        }
        scopes.into_iter().flat_map(|scope| self.find(scope, asker.address)).collect()
    }
}

fn scope(policy: &Policy) -> Scope<'_> {
    Scope {
        host: policy.host.as_deref(),
        subsystem: policy.subsystem.as_deref(),
        nsid: policy.nsid,
    }
}

/// A namespace's own settings.
#[derive(Clone, Debug)]
pub(crate) struct NamespaceRule {
    pub(crate) class: Option<Class>,
    pub(crate) tenant: Tenant,
    pub(crate) flush_is_output: bool,
}

/// The settings that concern all connections.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) general: Qos,
    /// The version of the settings that each connection resolves, and resolves again when the
    /// version changes.
    pub(crate) flows_version: u64,
    pub(crate) rules: Arc<Rules>,
    pub(crate) listeners: HashMap<u32, Class>,
    /// The root session, for commands without another session.
    pub(crate) root: Tenant,
}

impl Snapshot {
    /// Resolves the settings of a host's commands to a namespace that has `own` settings; without `nsid`, the
    /// settings of the host's connections.
    pub(crate) fn resolve(
        &self,
        asker: &Asker<'_>,
        subsystem: &str,
        nsid: Option<u32>,
        own: Option<NamespaceRule>,
    ) -> Tenancy {
        let fitting = self.rules.fitting(asker, subsystem, nsid);
        let rules = || fitting.iter().copied();
        let flush_is_output = own.as_ref().is_some_and(|own| own.flush_is_output);
        let class = own.as_ref().and_then(|own| own.class);
        let tenant = rules().filter(|rule| rule.policy.session.is_some()).map(|r| &r.tenant).next();
        let tenant = tenant.cloned().flatten().or(own.map(|own| own.tenant));
        Tenancy {
            class: PolicyClass {
                class: rules().find_map(|rule| rule.policy.class).or(class),
                max_class: rules().find_map(|rule| rule.policy.max_class),
                urgent: rules().find_map(|rule| rule.urgent.clone()),
            },
            tenant: tenant.unwrap_or_else(|| self.root.clone()),
            flush_is_output,
        }
    }

    /// Returns the class of a listener's connections.
    pub(crate) fn listener_class(&self, listener: ListenerId) -> Option<Class> {
        self.listeners.get(&listener.0).copied()
    }

    /// Returns the class of a host's DSCP (of its ToS or traffic class byte).
    pub(crate) fn dscp_class(&self, tos: Option<u8>) -> Option<Class> {
        class_of_dscp(&self.general.dscp, tos? >> 2)
    }
}

impl Policies for Snapshot {
    fn flows_version(&self) -> u64 {
        self.flows_version
    }

    fn enabled(&self) -> bool {
        self.general.enabled
    }

    fn order(&self) -> &OrderSettings {
        &self.general.order
    }

    fn queue(&self) -> u32 {
        self.general.queue
    }

    fn dscp(&self, class: Class) -> u8 {
        if self.general.enabled && self.general.mark { self.general.dscp[class] } else { 0 }
    }

    fn connection_class(&self, origin: &Origin) -> ConnectionClass {
        ConnectionClass {
            priority: origin.priority,
            weighted: origin.weighted,
            dscp: self.dscp_class(origin.tos),
            listener: self.listener_class(origin.listener),
        }
    }
}
