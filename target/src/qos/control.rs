//! The side of quality of service that changes. Each change costs what it changes: there may be
//! ten thousand namespaces, and each of them has a session.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;

use arbitration::credit::Caps;
use arbitration::device::Device;
use arbitration::limit::{Limiter, Rate};
use arbitration::session::{RootSpec, SessionSpec, Sessions};
use arbitration::settings::WindowRule;
use arbitration::{Class, Nanos, Sharing};
use fabric::controller::{BackendId, ListenerId};

use super::reserve::Reservations;
use sluice_core::Tenant;

use super::snapshot::{NamespaceRule, Rule, Rules, Snapshot};
use super::{Namespaces, QosShared, Touched};
use crate::config::{DeviceQos, Policy, Qos, QosConfig, ROOT_SESSION, Session};
use crate::shared::lock;
use sluice_core::stats::PerReactor;

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

/// The state behind what the reactors see.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) config: QosConfig,
    configured: Configured,
    pub(super) sessions: Sessions,
    /// By subsystem and namespace; a subsystem without namespaces is there too.
    pub(super) subsystems: BTreeMap<String, BTreeMap<u32, KnownNamespace>>,
    listeners: HashMap<u32, Class>,
    pub(super) reservations: Reservations,
    limiters: HashMap<PolicyKey, Arc<Limiter>>,
    /// By session name: of which session they are, and the statistics.
    pub(super) stats: HashMap<String, (u32, Arc<PerReactor>)>,
    reactors: usize,
    /// Bytes of I/O buffers in all: what reservations may count on.
    pub(super) memory: u64,
    /// What reactors are to look at again.
    pub(super) touched: Touched,
    /// The snapshot is to be made again, and connections are to resolve again what is theirs.
    stale: bool,
    lanes: u64,
    namespaces: Arc<Namespaces>,
}

/// What `[[session]]` and `[[policy]]` say, by name.
#[derive(Debug, Default)]
struct Configured {
    sessions: HashMap<String, Session>,
    /// The sessions that have a parent by their entry, by that.
    below: HashMap<String, Vec<String>>,
    /// Sessions that policies name.
    named: HashSet<String>,
}

impl Configured {
    fn new(config: &QosConfig) -> Self {
        let mut made = Self::default();
        for session in &config.sessions {
            if let Some(parent) = &session.parent {
                made.below.entry(parent.clone()).or_default().push(session.name.clone());
            }
            made.sessions.insert(session.name.clone(), session.clone());
        }
        made.named = config.policies.iter().filter_map(|p| p.session.clone()).collect();
        made
    }
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
    pub(super) fn new(
        config: &QosConfig,
        reactors: usize,
        memory: u64,
        namespaces: Arc<Namespaces>,
    ) -> Self {
        let mut control = Self {
            config: config.clone(),
            configured: Configured::new(config),
            sessions: Sessions::shared(&root(config, memory), Sharing::of(reactors)),
            subsystems: BTreeMap::new(),
            listeners: HashMap::new(),
            reservations: Reservations::default(),
            limiters: HashMap::new(),
            stats: HashMap::new(),
            reactors,
            memory,
            touched: Touched::default(),
            stale: true,
            lanes: 1,
            namespaces,
        };
        let now = Nanos::ZERO;
        control.take_sessions(now, &[]);
        control
    }

    /// Whether a namespace or a subsystem of this name is there.
    fn is_automatic(&self, name: &str) -> bool {
        self.subsystems.contains_key(name) || self.namespace(name).is_some()
    }

    /// Whether a session of this name is to be there, by `configured` and what is there.
    fn is_wanted(&self, configured: &Configured, name: &str) -> bool {
        self.is_automatic(name)
            || configured.sessions.contains_key(name) && !is_automatic(name)
            || name == ROOT_SESSION
    }

    /// What a session is to have.
    fn spec(&self, configured: &Configured, enabled: bool, name: &str) -> SessionSpec {
        let own = configured.sessions.get(name);
        let automatic = || {
            let (nqn, _) = name.rsplit_once('/')?;
            (!self.subsystems.contains_key(name) && self.namespace(name).is_some())
                .then(|| nqn.to_owned())
        };
        let parent = own.and_then(|session| session.parent.clone()).or_else(automatic);
        let mut spec = spec(name.to_owned(), parent, own);
        if spec.parent.as_ref().is_some_and(|parent| !self.is_wanted(configured, parent)) {
            // What it is below may not be there yet, or no more. Its shares were of that.
            (spec.parent, spec.operations, spec.payload) = (None, None, None);
        }
        if enabled {
            return spec;
        }
        // What waits goes at once; what comes does not wait.
        SessionSpec { name: spec.name, parent: spec.parent, ..SessionSpec::default() }
    }

    /// A session comes with a subsystem or a namespace, and those that are to be below it follow.
    fn bring(&mut self, now: Nanos, name: &str) {
        let enabled = self.config.general.enabled;
        let spec = self.spec(&self.configured, enabled, name);
        if let Err(error) = self.sessions.put(now, &spec) {
            // The configuration was checked; what is left is what clashes with a subsystem that
            // came later. It counts no more, rather than all.
            tracing::error!(session = name, %error, "the session's settings are left out");
            let below =
                |parent| SessionSpec { name: name.to_owned(), parent, ..SessionSpec::default() };
            let put = self.sessions.put(now, &below(spec.parent));
            if let Err(error) = put.or_else(|_| self.sessions.put(now, &below(None))) {
                tracing::error!(session = name, %error, "there is no such session");
            }
        }
        for child in self.configured.below.get(name).cloned().unwrap_or_default() {
            if self.sessions.named(&child).is_some() {
                let spec = self.spec(&self.configured, enabled, &child);
                if let Err(error) = self.sessions.put(now, &spec) {
                    tracing::error!(session = child, %error, "the session stays where it is");
                }
            }
        }
        self.note(name);
        self.follow();
    }

    /// A session goes with its subsystem or namespace.
    fn dismiss(&mut self, now: Nanos, name: &str) {
        self.sessions.remove(now, name);
        self.stats.remove(name);
        self.note(name);
        self.follow();
    }

    /// Policies and reservations that name a session that has come or gone are to find it again.
    fn note(&mut self, name: &str) {
        if let Some(granted) = self.reservations.granted.get(name) {
            self.reservations.unsettled.push(granted.place());
        }
        if self.configured.named.contains(name) {
            self.invalidate();
        }
    }

    /// Connections are to resolve again what holds for them.
    fn invalidate(&mut self) {
        self.lanes += 1;
        self.stale = true;
    }

    /// Sessions that are others than before: who uses them is told.
    fn follow(&mut self) {
        for session in self.sessions.take_replaced() {
            let name = session.name().to_owned();
            self.note(&name);
            self.invalidate();
            if let Some((nqn, nsid)) = split(&name)
                && self.subsystems.get(nqn).is_some_and(|all| all.contains_key(&nsid))
            {
                self.show(nqn, nsid);
            }
        }
        self.touched.sessions.extend(self.sessions.take_touched());
    }

    /// Shows reactors a namespace as it is now.
    fn show(&mut self, nqn: &str, nsid: u32) {
        let tenant = self.tenant(&namespace_name(nqn, nsid));
        let known = self.subsystems.get(nqn).and_then(|all| all.get(&nsid));
        let rule = known.zip(tenant).map(|(known, tenant)| NamespaceRule {
            class: known.class,
            tenant,
            flush_is_output: known.settings.flush_is_output,
        });
        self.namespaces.set(nqn, nsid, rule);
    }

    /// A session with its statistics. One that has moved does not count in two places at once.
    fn tenant(&mut self, name: &str) -> Option<Tenant> {
        let session = self.sessions.named(name)?;
        let known = self.stats.get(name).filter(|(serial, _)| *serial == session.serial());
        let stats = match known {
            Some((_, stats)) => Arc::clone(stats),
            None => {
                let stats = Arc::new(PerReactor::new(self.reactors));
                let entry = (session.serial(), Arc::clone(&stats));
                self.stats.insert(name.to_owned(), entry);
                stats
            }
        };
        Some(Tenant { session: Arc::clone(session), stats })
    }

    /// The reactors' view of what concerns all; `None` where it has not changed.
    pub(super) fn snapshot(&mut self, now: Nanos) -> Option<Snapshot> {
        std::mem::take(&mut self.stale).then(|| self.make_snapshot(now))
    }

    /// The first view that reactors have.
    pub(super) fn first_snapshot(&mut self) -> Snapshot {
        self.stale = false;
        self.make_snapshot(Nanos::ZERO)
    }

    fn make_snapshot(&mut self, now: Nanos) -> Snapshot {
        let session = Arc::clone(self.sessions.root());
        let stats = match self.tenant(ROOT_SESSION) {
            Some(root) => root.stats,
            None => Arc::new(PerReactor::new(self.reactors)),
        };
        Snapshot {
            general: self.config.general.clone(),
            lanes: self.lanes,
            rules: Arc::new(self.rules(now)),
            listeners: self.listeners.clone(),
            root: Tenant { session, stats },
        }
    }

    fn rules(&mut self, now: Nanos) -> Rules {
        let mut kept = HashMap::new();
        let mut rules = Rules::default();
        for policy in self.config.policies.clone() {
            let Policy { host, subsystem, nsid, .. } = &policy;
            let key = (host.clone(), subsystem.clone(), *nsid);
            let urgent = policy.urgent_iops.and_then(Rate::per_second).map(|rate| {
                let limiter = self.limiters.remove(&key).unwrap_or_default();
                limiter.set(now, Some(rate));
                kept.insert(key, Arc::clone(&limiter));
                limiter
            });
            let tenant = policy.session.as_deref().and_then(|name| self.tenant(name));
            rules.add(Rule { policy, urgent, tenant });
        }
        self.limiters = kept;
        rules
    }

    /// What the sessions of a configuration are to have that can be there now, each with those
    /// above it.
    fn specs(&self, config: &QosConfig, configured: &Configured) -> Vec<SessionSpec> {
        let mut specs: Vec<SessionSpec> = Vec::new();
        let mut known = HashSet::new();
        for session in &config.sessions {
            let mut name = session.name.clone();
            // It comes with what it is named by.
            while self.is_wanted(configured, &name) && known.insert(name.clone()) {
                let spec = self.spec(configured, config.general.enabled, &name);
                let parent = spec.parent.clone();
                specs.push(spec);
                let Some(parent) = parent else { break };
                name = parent;
            }
        }
        specs
    }

    /// Takes the sessions of the present configuration; `before`: the names that had entries.
    fn take_sessions(&mut self, now: Nanos, before: &[String]) {
        let top = self.root();
        self.sessions.set_root(now, &top);
        let specs = self.specs(&self.config, &self.configured);
        let put: HashSet<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        let enabled = self.config.general.enabled;
        let (mut gone, mut bare) = (Vec::new(), Vec::new());
        for name in before.iter().filter(|name| !put.contains(name.as_str())) {
            if self.is_automatic(name) {
                bare.push(self.spec(&self.configured, enabled, name));
            } else {
                gone.push(name.clone());
            }
        }
        bare.extend(specs);
        if let Err(error) = self.sessions.put_all(now, &gone, &bare) {
            tracing::error!(%error, "the sessions stay as they were");
        }
        for name in gone {
            self.stats.remove(&name);
        }
        self.follow();
    }

    fn root(&self) -> RootSpec {
        let mut top = root(&self.config, self.memory);
        top.bounded &= self.config.general.enabled;
        top
    }

    /// Takes a new configuration, if it can be.
    fn set(&mut self, now: Nanos, config: &QosConfig) -> Result<(), String> {
        let configured = Configured::new(config);
        let top = root(config, self.memory);
        let mut trial = Sessions::new(&top);
        // Off, they have no shares: what could not be with them on is refused all the same.
        let mut on = config.clone();
        on.general.enabled = true;
        trial.apply(now, &top, &self.specs(&on, &configured)).map_err(|error| error.to_string())?;
        self.admit(now, config)?;
        let old = std::mem::replace(&mut self.config, config.clone());
        self.configured = configured;
        let names = |config: &QosConfig| -> Vec<String> {
            config.sessions.iter().map(|session| session.name.clone()).collect()
        };
        self.take_sessions(now, &names(&old));
        let (general, was) = (&self.config.general, &old.general);
        if (general.window, general.enabled) != (was.window, was.enabled) {
            for known in self.subsystems.values().flat_map(BTreeMap::values).filter(|k| k.queued) {
                let window = known.settings.window.unwrap_or(general.window);
                known.device.window.set(if general.enabled { window } else { WindowRule::Off });
            }
        }
        let of_lanes = |q: &Qos| (q.enabled, q.mark, q.dscp);
        if of_lanes(general) != of_lanes(was) || self.config.policies != old.policies {
            self.lanes += 1;
        }
        self.stale = true;
        Ok(())
    }
}

/// NQN and NSID of what may be the name of a namespace's session.
fn split(name: &str) -> Option<(&str, u32)> {
    let (nqn, nsid) = name.rsplit_once('/')?;
    Some((nqn, nsid.parse().ok()?))
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
        lock(&self.control).config.clone()
    }

    /// A listener's class; present connections have it too.
    pub(crate) fn set_listener(&self, now: Nanos, listener: ListenerId, class: Option<Class>) {
        let Ok(_) = self.change(now, |control| {
            let before = match class {
                Some(class) => control.listeners.insert(listener.0, class),
                None => control.listeners.remove(&listener.0),
            };
            if before != class {
                control.invalidate();
            }
            Ok::<_, Infallible>(())
        });
    }

    /// A subsystem has come: its session is there before its namespaces.
    pub(crate) fn add_subsystem(&self, now: Nanos, nqn: &str) {
        let Ok(_) = self.change(now, |control| {
            control.subsystems.entry(nqn.to_owned()).or_default();
            control.bring(now, nqn);
            Ok::<_, Infallible>(())
        });
    }

    /// A subsystem is gone, with its namespaces.
    pub(crate) fn remove_subsystem(&self, now: Nanos, nqn: &str) {
        let Ok(_) = self.change(now, |control| {
            let namespaces = control.subsystems.remove(nqn).unwrap_or_default();
            for nsid in namespaces.into_keys() {
                control.gone(now, nqn, nsid);
            }
            control.dismiss(now, nqn);
            control.namespaces.forget(nqn);
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
            let name = namespace_name(nqn, nsid);
            let all = control.subsystems.entry(nqn.to_owned()).or_default();
            if all.insert(nsid, known).is_some() {
                // They were on the device that it was kept on before.
                control.drop_reservations(&name);
            }
            control.bring(now, &name);
            control.show(nqn, nsid);
            control.retry_reservations(now, Some(&name));
            Ok::<_, Infallible>(())
        });
    }

    /// A namespace is gone.
    pub(crate) fn remove_namespace(&self, now: Nanos, nqn: &str, nsid: u32) {
        let Ok(_) = self.change(now, |control| {
            if let Some(namespaces) = control.subsystems.get_mut(nqn) {
                namespaces.remove(&nsid);
            }
            control.gone(now, nqn, nsid);
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
            control.show(nqn, nsid);
            control.invalidate();
            Ok::<_, ()>(())
        })
        .is_ok()
    }

    /// Tries again what could not be reserved because a device was not measured yet. Whether
    /// anything has changed, so that reactors are to be woken.
    pub(crate) fn retry(&self, now: Nanos) -> bool {
        if !lock(&self.control).reservations.are_pending() {
            return false;
        }
        self.change(
            now,
            |control| {
                if control.retry_reservations(now, None) { Ok(()) } else { Err(()) }
            },
        )
        .is_ok()
    }

    /// The settings of a namespace.
    pub(crate) fn namespace(&self, nqn: &str, nsid: u32) -> Option<NamespaceRule> {
        self.namespaces.get(nqn, nsid)
    }
}

impl Control {
    /// A namespace is gone: its session goes, and what was reserved on its device is asked for
    /// again when it comes back.
    fn gone(&mut self, now: Nanos, nqn: &str, nsid: u32) {
        let name = namespace_name(nqn, nsid);
        self.dismiss(now, &name);
        self.namespaces.set(nqn, nsid, None);
        self.drop_reservations(&name);
    }

    /// The device of `NQN/NSID`.
    pub(super) fn namespace(&self, name: &str) -> Option<&KnownNamespace> {
        let (nqn, nsid) = split(name)?;
        self.subsystems.get(nqn)?.get(&nsid)
    }
}
