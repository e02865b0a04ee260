//! What the reactors know of quality of service: a value that is replaced as a whole when
//! anything of it changes, so that reading it takes no lock and a change is seen all at once.

use std::collections::HashMap;
use std::sync::Arc;

use arbitration::Class;
use arbitration::classify::{PolicyClass, class_of_mark};
use arbitration::limit::Limiter;
use arbitration::session::{Plan, SessionId};
use fabric::controller::ListenerId;

use crate::config::{Policy, Qos};
use crate::stats::IoStats;

/// A session's statistics: one for each reactor, written by that reactor alone.
pub(crate) type SessionStats = Arc<Vec<IoStats>>;

/// A policy with what it counts.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) policy: Policy,
    pub(crate) urgent: Option<Arc<Limiter>>,
}

impl Rule {
    /// How closely it names what it is for; `None` where it is for something else.
    fn fits(&self, host: &str, subsystem: &str, nsid: Option<u32>) -> Option<u8> {
        let Policy { host: of_host, subsystem: of_subsystem, nsid: of_nsid, .. } = &self.policy;
        if of_host.as_ref().is_some_and(|of| of != host)
            || of_subsystem.as_ref().is_some_and(|of| of != subsystem)
            || of_nsid.is_some_and(|of| Some(of) != nsid)
        {
            return None;
        }
        let named = [of_host.is_some(), of_subsystem.is_some(), of_nsid.is_some()];
        let count = named.into_iter().map(u8::from).sum::<u8>();
        // Of two that name as many, the one that names the host wins.
        Some(count * 2 + u8::from(of_host.is_some()))
    }
}

/// A namespace's own settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamespaceRule {
    pub(crate) class: Option<Class>,
    pub(crate) session: SessionId,
    pub(crate) flush_is_output: bool,
}

/// What holds for one host's commands to one namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resolved {
    pub(crate) class: PolicyClass,
    pub(crate) session: SessionId,
    pub(crate) flush_is_output: bool,
}

/// Everything a reactor needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) general: Qos,
    pub(crate) plan: Arc<Plan>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) listeners: HashMap<u32, Class>,
    pub(crate) namespaces: HashMap<String, HashMap<u32, NamespaceRule>>,
    /// By [`SessionId`].
    pub(crate) stats: Vec<Option<SessionStats>>,
}

impl Snapshot {
    /// What holds for a host's commands; without `nsid` for its connections.
    pub(crate) fn resolve(&self, host: &str, subsystem: &str, nsid: Option<u32>) -> Resolved {
        let mut fitting: Vec<(u8, &Rule)> = self
            .rules
            .iter()
            .filter_map(|rule| Some((rule.fits(host, subsystem, nsid)?, rule)))
            .collect();
        fitting.sort_by_key(|(closeness, _)| std::cmp::Reverse(*closeness));
        let rules = || fitting.iter().map(|(_, rule)| *rule);
        let of_namespace =
            nsid.and_then(|nsid| self.namespaces.get(subsystem)?.get(&nsid)).copied().unwrap_or(
                NamespaceRule { class: None, session: SessionId::ROOT, flush_is_output: false },
            );
        let named = rules().find_map(|rule| rule.policy.session.as_deref());
        let session = named
            .and_then(|name| self.plan.named(name))
            .map_or(of_namespace.session, |session| session.id());
        Resolved {
            class: PolicyClass {
                class: rules().find_map(|rule| rule.policy.class).or(of_namespace.class),
                max_class: rules().find_map(|rule| rule.policy.max_class),
                urgent: rules().find_map(|rule| rule.urgent.clone()),
            },
            session,
            flush_is_output: of_namespace.flush_is_output,
        }
    }

    /// The class of a listener's connections.
    pub(crate) fn listener_class(&self, listener: ListenerId) -> Option<Class> {
        self.listeners.get(&listener.0).copied()
    }

    /// The class that a host's DSCP (of its ToS or traffic class byte) stands for.
    pub(crate) fn marked_class(&self, tos: Option<u8>) -> Option<Class> {
        class_of_mark(&self.general.dscp, tos? >> 2)
    }

    /// A session's statistics in one reactor.
    #[inline]
    pub(crate) fn session_stats(&self, session: SessionId, reactor: usize) -> Option<&IoStats> {
        self.stats.get(session.0 as usize)?.as_ref()?.get(reactor)
    }
}
