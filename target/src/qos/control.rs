//! The side of quality of service that changes.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::Arc;

use arbitration::credit::Caps;
use arbitration::device::Device;
use arbitration::limit::{Limiter, Rate};
use arbitration::session::{Plan, RootSpec, SessionId, SessionSpec, Sessions};
use arbitration::settings::WindowRule;
use arbitration::{Class, Nanos, Sharing};
use fabric::controller::{BackendId, ListenerId};

use super::reserve::Reservations;
use super::snapshot::{NamespaceRule, Rule, SessionStats, Snapshot};
use super::{QosShared, device_id};
use crate::config::{DeviceQos, Policy, Qos, QosConfig, Session};
use crate::stats::IoStats;

/// A namespace as quality of service knows it.
#[derive(Clone, Debug)]
pub(super) struct KnownNamespace {
    pub(super) class: Option<Class>,
    pub(super) settings: DeviceQos,
    pub(super) backend: BackendId,
    pub(super) device: Arc<Device>,
    /// Whether commands may wait for this device at all.
    pub(super) queued: bool,
}

/// What names a policy: host, subsystem, namespace.
type PolicyKey = (Option<String>, Option<String>, Option<u32>);

/// The state behind the snapshots.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) config: QosConfig,
    pub(super) sessions: Sessions,
    /// By subsystem and namespace; a subsystem without namespaces is there too.
    pub(super) subsystems: BTreeMap<String, BTreeMap<u32, KnownNamespace>>,
    listeners: HashMap<u32, Class>,
    pub(super) reservations: Reservations,
    limiters: HashMap<PolicyKey, Arc<Limiter>>,
    /// By session name: of which session they are, and the statistics.
    stats: HashMap<String, (SessionId, SessionStats)>,
    reactors: usize,
    /// Bytes of I/O buffers in all: what reservations may count on.
    pub(super) memory: u64,
}

/// `NQN/NSID`: the name of a namespace's own session.
pub(super) fn namespace_name(nqn: &str, nsid: u32) -> String {
    format!("{nqn}/{nsid}")
}

/// The root session; `memory` is what buffers there are in all, in bytes.
pub(super) fn root(config: &QosConfig, memory: u64) -> RootSpec {
    let (general, usual) = (&config.general, Qos::default());
    let payload = general.payload.min(memory).div_ceil(1024);
    RootSpec {
        caps: Caps { operations: general.operations, payload },
        // As many as there can be need no counting.
        bounded: general.operations < usual.operations || general.payload < usual.payload,
        queue: general.queue,
    }
}

impl Control {
    pub(super) fn new(config: &QosConfig, reactors: usize, memory: u64) -> Self {
        Self {
            config: config.clone(),
            sessions: Sessions::shared(&root(config, memory), Sharing::of(reactors)),
            subsystems: BTreeMap::new(),
            listeners: HashMap::new(),
            reservations: Reservations::default(),
            limiters: HashMap::new(),
            stats: HashMap::new(),
            reactors,
            memory,
        }
    }

    /// All sessions that there are to be: those of subsystems and namespaces, and those of the
    /// configuration.
    fn specs(&self, config: &QosConfig) -> Vec<SessionSpec> {
        let configured: HashMap<&str, &Session> =
            config.sessions.iter().map(|session| (session.name.as_str(), session)).collect();
        let mut specs = Vec::new();
        let mut known = std::collections::HashSet::new();
        let mut add = |name: String, parent: Option<String>| {
            let own = configured.get(name.as_str()).copied();
            let parent = own.and_then(|session| session.parent.clone()).or(parent);
            known.insert(name.clone());
            specs.push(spec(name, parent, own));
        };
        for (nqn, namespaces) in &self.subsystems {
            add(nqn.clone(), None);
            for nsid in namespaces.keys() {
                add(namespace_name(nqn, *nsid), Some(nqn.clone()));
            }
        }
        for session in &config.sessions {
            // That of a namespace or a subsystem which is not there comes with it.
            if !known.contains(&session.name) && !is_automatic(&session.name) {
                specs.push(spec(session.name.clone(), session.parent.clone(), Some(session)));
            }
        }
        // What a session is below may not be there yet, or no more.
        let names: std::collections::HashSet<String> =
            specs.iter().map(|spec| spec.name.clone()).collect();
        for spec in &mut specs {
            if spec.parent.as_ref().is_some_and(|parent| !names.contains(parent)) {
                // Its shares were of what is not there.
                (spec.parent, spec.operations, spec.payload) = (None, None, None);
            }
        }
        specs
    }

    /// The reactors' view of all this.
    pub(super) fn snapshot(&mut self, now: Nanos) -> Snapshot {
        let (mut specs, mut top) = (self.specs(&self.config), root(&self.config, self.memory));
        let enabled = self.config.general.enabled;
        if !enabled {
            // What waits goes at once; what comes does not wait.
            top.bounded = false;
            for spec in &mut specs {
                *spec = SessionSpec {
                    name: std::mem::take(&mut spec.name),
                    parent: spec.parent.take(),
                    ..SessionSpec::default()
                };
            }
        }
        let tree = self.sessions.apply(now, &top, &specs).unwrap_or_else(|error| {
            // The configuration was checked; what is left are sessions that clash with those of
            // a subsystem that came later. They count no more, rather than all of them.
            tracing::error!(%error, "the sessions are left out");
            let automatic: Vec<_> =
                self.specs(&QosConfig { sessions: Vec::new(), ..self.config.clone() });
            self.sessions.apply(now, &top, &automatic).unwrap_or_default()
        });
        let mut plan =
            Plan { order: self.config.general.order, sessions: tree, reservations: Vec::new() };
        if enabled {
            plan.reservations = self.reservations.in_force(&plan);
        }
        let stats = self.session_stats(&plan);
        let namespaces = self.namespace_rules(&plan);
        let rules = self.rules(now);
        Snapshot {
            general: self.config.general.clone(),
            plan: Arc::new(plan),
            rules,
            listeners: self.listeners.clone(),
            namespaces,
            stats,
        }
    }

    fn session_stats(&mut self, plan: &Plan) -> Vec<Option<SessionStats>> {
        let mut kept = HashMap::new();
        let mut by_place = Vec::new();
        for (place, session) in plan.sessions.iter().enumerate() {
            let Some(session) = session else {
                by_place.push(None);
                continue;
            };
            debug_assert_eq!(place, session.id().0 as usize);
            // A session that has moved goes on counting, but not in two places at once.
            let stats = match self.stats.remove(session.name()) {
                Some((id, stats)) if id == session.id() => stats,
                _ => Arc::new((0..self.reactors).map(|_| IoStats::default()).collect()),
            };
            kept.insert(session.name().to_owned(), (session.id(), Arc::clone(&stats)));
            by_place.push(Some(stats));
        }
        self.stats = kept;
        by_place
    }

    fn namespace_rules(&self, plan: &Plan) -> HashMap<String, HashMap<u32, NamespaceRule>> {
        let ids: HashMap<&str, SessionId> =
            plan.sessions.iter().flatten().map(|s| (s.name(), s.id())).collect();
        let rules = |nqn: &str, namespaces: &BTreeMap<u32, KnownNamespace>| {
            namespaces
                .iter()
                .map(|(nsid, known)| {
                    let name = namespace_name(nqn, *nsid);
                    let rule = NamespaceRule {
                        class: known.class,
                        session: ids.get(name.as_str()).copied().unwrap_or_default(),
                        flush_is_output: known.settings.flush_is_output,
                    };
                    (*nsid, rule)
                })
                .collect()
        };
        self.subsystems.iter().map(|(nqn, all)| (nqn.clone(), rules(nqn, all))).collect()
    }

    fn rules(&mut self, now: Nanos) -> Vec<Rule> {
        let mut kept = HashMap::new();
        let mut rules = Vec::new();
        for policy in &self.config.policies {
            let Policy { host, subsystem, nsid, .. } = policy;
            let key = (host.clone(), subsystem.clone(), *nsid);
            let urgent = policy.urgent_iops.and_then(Rate::per_second).map(|rate| {
                let limiter = self.limiters.remove(&key).unwrap_or_default();
                limiter.set(now, Some(rate));
                kept.insert(key, Arc::clone(&limiter));
                limiter
            });
            rules.push(Rule { policy: policy.clone(), urgent });
        }
        self.limiters = kept;
        rules
    }

    /// Takes a new configuration, if it can be.
    fn set(&mut self, now: Nanos, config: &QosConfig) -> Result<(), String> {
        let top = root(config, self.memory);
        let mut trial = Sessions::new(&top);
        trial.apply(now, &top, &self.specs(config)).map_err(|error| error.to_string())?;
        self.admit(now, config)?;
        self.config = config.clone();
        for known in self.subsystems.values().flat_map(BTreeMap::values).filter(|k| k.queued) {
            let general = &self.config.general;
            let window = known.settings.window.unwrap_or(general.window);
            known.device.window.set(if general.enabled { window } else { WindowRule::Off });
        }
        Ok(())
    }
}

/// Whether a session of this name comes with a namespace or a subsystem.
fn is_automatic(name: &str) -> bool {
    crate::config::split_namespace(name).is_some() || name.starts_with("nqn.")
}

fn spec(name: String, parent: Option<String>, own: Option<&Session>) -> SessionSpec {
    let parent = parent.filter(|parent| parent != "root");
    let Some(own) = own else {
        return SessionSpec { name, parent, ..SessionSpec::default() };
    };
    SessionSpec {
        name,
        parent,
        operations: own.operations,
        payload: own.payload,
        iops: own.iops.and_then(Rate::per_second),
        bandwidth: own.bandwidth.and_then(Rate::per_second),
        queue: own.queue,
    }
}

impl QosShared {
    /// Replaces what `[qos]`, `[[session]]` and `[[policy]]` say, as a whole.
    ///
    /// # Errors
    /// What cannot be, and what would be right; nothing has changed.
    pub(crate) fn set(&self, now: Nanos, config: &QosConfig) -> Result<(), String> {
        self.change(now, |control| control.set(now, config))
    }

    /// What they say now.
    pub(crate) fn config(&self) -> QosConfig {
        crate::shared::lock(&self.control).config.clone()
    }

    /// A listener's class; present connections have it too.
    pub(crate) fn set_listener(&self, now: Nanos, listener: ListenerId, class: Option<Class>) {
        let Ok(_) = self.change(now, |control| {
            match class {
                Some(class) => control.listeners.insert(listener.0, class),
                None => control.listeners.remove(&listener.0),
            };
            Ok::<_, Infallible>(())
        });
    }

    /// A subsystem has come: its session is there before its namespaces.
    pub(crate) fn add_subsystem(&self, now: Nanos, nqn: &str) {
        let Ok(_) = self.change(now, |control| {
            control.subsystems.entry(nqn.to_owned()).or_default();
            Ok::<_, Infallible>(())
        });
    }

    /// A subsystem is gone, with its namespaces.
    pub(crate) fn remove_subsystem(&self, now: Nanos, nqn: &str) {
        let Ok(_) = self.change(now, |control| {
            control.subsystems.remove(nqn);
            control.drop_reservations();
            Ok::<_, Infallible>(())
        });
    }

    /// A namespace has come.
    pub(crate) fn add_namespace(
        &self,
        now: Nanos,
        (nqn, nsid): (&str, u32),
        backend: BackendId,
        device: &crate::devices::Device,
        (class, settings): (Option<Class>, &DeviceQos),
    ) {
        let known = KnownNamespace {
            class,
            settings: settings.clone(),
            backend,
            device: Arc::clone(&device.qos),
            queued: device.queued,
        };
        let Ok(_) = self.change(now, |control| {
            control.subsystems.entry(nqn.to_owned()).or_default().insert(nsid, known);
            control.drop_reservations();
            control.retry_reservations(now);
            Ok::<_, Infallible>(())
        });
    }

    /// A namespace is gone.
    pub(crate) fn remove_namespace(&self, now: Nanos, nqn: &str, nsid: u32) {
        let Ok(_) = self.change(now, |control| {
            if let Some(namespaces) = control.subsystems.get_mut(nqn) {
                namespaces.remove(&nsid);
            }
            control.drop_reservations();
            Ok::<_, Infallible>(())
        });
    }

    /// Sets a namespace's class; false where there is no such namespace.
    pub(crate) fn set_namespace(
        &self,
        now: Nanos,
        nqn: &str,
        nsid: u32,
        class: Option<Class>,
    ) -> bool {
        self.change(now, |control| {
            let known = control.subsystems.get_mut(nqn).and_then(|all| all.get_mut(&nsid));
            known.ok_or(())?.class = class;
            Ok::<_, ()>(())
        })
        .is_ok()
    }

    /// Tries again what could not be reserved because a device was not measured yet. Whether
    /// anything has changed, so that reactors are to be woken.
    pub(crate) fn retry(&self, now: Nanos) -> bool {
        if !crate::shared::lock(&self.control).reservations.are_pending() {
            return false;
        }
        self.change(now, |control| if control.retry_reservations(now) { Ok(()) } else { Err(()) })
            .is_ok()
    }
}

impl Control {
    /// The device of `NQN/NSID`.
    pub(super) fn namespace(&self, name: &str) -> Option<&KnownNamespace> {
        let (nqn, nsid) = name.rsplit_once('/')?;
        self.subsystems.get(nqn)?.get(&nsid.parse().ok()?)
    }

    /// The number of a namespace's device in the arbiters.
    pub(super) fn device_of(&self, name: &str) -> Option<u32> {
        Some(device_id(self.namespace(name)?.backend).0)
    }
}
