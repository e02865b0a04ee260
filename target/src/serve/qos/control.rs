//! The state of quality of service that changes act on. The cost of a change depends on the size of
//! the change alone, since there may be ten thousand namespaces, each with a session.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arbitration::limit::{Limiter, Rate};
use arbitration::session::{RootSpec, Session, SessionSpec, Sessions};
use arbitration::settings::WindowRule;
use arbitration::{Class, Nanos, Sharing};
use fabric::controller::ListenerId;
use sluice_config::{LowestRates, Policy, Qos, QosConfig, ROOT_SESSION, Sources};
use sluice_core::stats::PerReactor;
use sluice_core::{Tenant, Touched};

use super::published::PublishedRules;
use super::reserve::{Reservations, fixed_window};
use super::served::{KnownNamespace, Served, namespace_name, split};
use super::snapshot::{NamespaceRule, Rule, Rules, Snapshot};
use super::wanted::{Wanted, root};

/// Time for which `urgent_iops` saves credit.
const URGENT_BURST: Nanos = Nanos(4_000_000);

/// The key of a policy: host, subsystem, namespace, addresses.
type PolicyKey = (Option<String>, Option<String>, Option<u32>, Sources);

/// The state from which the snapshot and the settings of namespaces are made.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) config: QosConfig,
    pub(super) wanted: Wanted,
    pub(super) sessions: Sessions,
    pub(super) served: Served,
    listeners: HashMap<u32, Class>,
    pub(super) reservations: Reservations,
    limiters: HashMap<PolicyKey, Arc<Limiter>>,
    /// The statistics of each session, by its name, with the session's identifier.
    pub(super) stats: HashMap<String, (u32, Arc<PerReactor>)>,
    reactors: usize,
    /// The bytes of I/O buffers in all, which reservations may count on.
    pub(super) memory: u64,
    /// The sessions and devices that reactors must look at again.
    pub(super) touched: Touched,
    /// Whether the snapshot must be made again.
    stale: bool,
    flows_version: u64,
    published: Arc<PublishedRules>,
}

impl Control {
    pub(super) fn new(
        (config, lowest): (&QosConfig, LowestRates),
        reactors: usize,
        memory: u64,
        published: Arc<PublishedRules>,
    ) -> Self {
        let mut control = Self {
            config: config.clone(),
            wanted: Wanted::new(config, lowest),
            sessions: Sessions::shared(&root(config, memory), Sharing::for_reactors(reactors)),
            served: Served::default(),
            listeners: HashMap::new(),
            reservations: Reservations::new(memory, reactors),
            limiters: HashMap::new(),
            stats: HashMap::new(),
            reactors,
            memory,
            touched: Touched::default(),
            stale: true,
            flows_version: 1,
            published,
        };
        let now = Nanos::ZERO;
        control.take_sessions(now, &[]);
        control
    }

    /// Adds the session of a subsystem or a namespace, and moves the sessions below it whose
    /// entries name it as their parent.
    fn bring(&mut self, now: Nanos, name: &str) {
        let enabled = self.config.general.enabled;
        let spec = self.wanted.spec(&self.served, enabled, name);
        if let Err(error) = self.sessions.put(now, &spec) {
            // The configuration was checked, so only an entry that clashes with a subsystem that
            // was added later can fail. Only this entry is ignored.
            tracing::error!(session = name, %error, "the session's settings are ignored");
            let below =
                |parent| SessionSpec { name: name.to_owned(), parent, ..SessionSpec::default() };
            let put = self.sessions.put(now, &below(spec.parent));
            if let Err(error) = put.or_else(|_| self.sessions.put(now, &below(None))) {
                tracing::error!(session = name, %error, "the session cannot be made");
            }
        }
        for child in self.wanted.below(name) {
            if self.sessions.named(child).is_some() {
                let spec = self.wanted.spec(&self.served, enabled, child);
                if let Err(error) = self.sessions.put(now, &spec) {
                    tracing::error!(session = child, %error, "the session keeps its parent");
                }
            }
        }
        self.note(name);
        self.follow();
    }

    /// Sets the limits per GiB of a session again, after its namespaces changed in size or number.
    fn fit_limits(&mut self, now: Nanos, name: &str) {
        if !self.wanted.is_sized(name) || self.sessions.named(name).is_none() {
            return;
        }
        let spec = self.wanted.spec(&self.served, self.config.general.enabled, name);
        if let Err(error) = self.sessions.put(now, &spec) {
            tracing::error!(session = name, %error, "the session keeps its limits");
        }
        self.follow();
    }

    /// Removes a session with its subsystem or namespace.
    fn dismiss(&mut self, now: Nanos, name: &str) {
        self.sessions.remove(now, name);
        self.stats.remove(name);
        self.note(name);
        self.follow();
    }

    /// Makes policies and reservations that name a session look it up again, after it was added or
    /// removed.
    fn note(&mut self, name: &str) {
        self.reservations.touch(name);
        if self.wanted.is_named(name) {
            self.invalidate();
        }
    }

    /// Makes connections resolve their settings again.
    fn invalidate(&mut self) {
        self.flows_version += 1;
        self.stale = true;
    }

    /// Marks users of sessions that other ones have replaced, so that reactors look at them again.
    fn follow(&mut self) {
        for session in self.sessions.take_replaced() {
            let name = session.name().to_owned();
            self.note(&name);
            self.invalidate();
            if let Some((nqn, nsid)) = split(&name)
                && self.served.get(nqn, nsid).is_some()
            {
                self.show(nqn, nsid);
            }
        }
        self.touched.sessions.extend(self.sessions.take_touched());
    }

    /// Shows reactors the present settings of a namespace.
    fn show(&mut self, nqn: &str, nsid: u32) {
        let tenant = self.tenant(&namespace_name(nqn, nsid));
        let known = self.served.get(nqn, nsid);
        let rule = known.zip(tenant).map(|(known, tenant)| NamespaceRule {
            class: known.class,
            tenant,
            flush_is_output: known.settings.flush_is_output,
        });
        self.published.set(nqn, nsid, rule);
    }

    /// Returns a session with its statistics. A session that was replaced begins new statistics, so
    /// that no command counts in two places.
    fn tenant(&mut self, name: &str) -> Option<Tenant> {
        let session = Arc::clone(self.sessions.named(name)?);
        Some(self.with_stats(name, session))
    }

    fn with_stats(&mut self, name: &str, session: Arc<Session>) -> Tenant {
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
        Tenant { session, stats }
    }

    /// Makes the snapshot for the reactors; `None` where nothing has changed.
    pub(super) fn snapshot(&mut self, now: Nanos) -> Option<Snapshot> {
        std::mem::take(&mut self.stale).then(|| self.make_snapshot(now))
    }

    /// Makes the first snapshot for the reactors.
    pub(super) fn first_snapshot(&mut self) -> Snapshot {
        self.stale = false;
        self.make_snapshot(Nanos::ZERO)
    }

    fn make_snapshot(&mut self, now: Nanos) -> Snapshot {
        let root = Arc::clone(self.sessions.root());
        let root = self.with_stats(ROOT_SESSION, root);
        Snapshot {
            general: self.config.general.clone(),
            flows_version: self.flows_version,
            rules: Arc::new(self.rules(now)),
            listeners: self.listeners.clone(),
            root,
        }
    }

    fn rules(&mut self, now: Nanos) -> Rules {
        let mut kept = HashMap::new();
        let mut rules = Rules::default();
        for policy in self.config.policies.clone() {
            let Policy { host, subsystem, nsid, addresses, .. } = &policy;
            let key = (host.clone(), subsystem.clone(), *nsid, addresses.clone());
            let urgent = policy.urgent_iops.and_then(Rate::per_second).map(|rate| {
                let limiter = self.limiters.remove(&key).unwrap_or_default();
                limiter.set_with_burst(now, Some(rate), URGENT_BURST);
                kept.insert(key, Arc::clone(&limiter));
                limiter
            });
            let tenant = policy.session.as_deref().and_then(|name| self.tenant(name));
            rules.add(Rule { policy, urgent, tenant });
        }
        self.limiters = kept;
        rules
    }

    /// Takes the sessions of the present configuration; `before` are the names that had entries.
    fn take_sessions(&mut self, now: Nanos, before: &[String]) {
        let top = self.root();
        self.sessions.set_root(now, &top);
        let specs = self.wanted.specs(&self.served, &self.config);
        let put: HashSet<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        let enabled = self.config.general.enabled;
        let (mut gone, mut bare) = (Vec::new(), Vec::new());
        for name in before.iter().filter(|name| !put.contains(name.as_str())) {
            if self.served.has(name) {
                bare.push(self.wanted.spec(&self.served, enabled, name));
            } else {
                gone.push(name.clone());
            }
        }
        bare.extend(specs);
        if let Err(error) = self.sessions.put_all(now, &gone, &bare) {
            tracing::error!(
                %error,
                "the sessions of a change are refused: all sessions stay as they were"
            );
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

    /// Takes a new configuration.
    ///
    /// # Errors
    /// The configuration contradicts itself, or a reservation does not fit; nothing has changed.
    pub(super) fn set(&mut self, now: Nanos, config: &QosConfig) -> Result<(), String> {
        let wanted = Wanted::new(config, self.wanted.lowest());
        let top = root(config, self.memory);
        let mut trial = Sessions::new(&top);
        // With the stages off, sessions have no shares; a configuration that would fail with them
        // on is refused anyway.
        let mut on = config.clone();
        on.general.enabled = true;
        trial
            .apply(now, &top, &wanted.specs(&self.served, &on))
            .map_err(|error| error.to_string())?;
        self.reservations.admit(now, &self.served, (&self.config, config))?;
        let old = std::mem::replace(&mut self.config, config.clone());
        self.wanted = wanted;
        let names = |config: &QosConfig| -> Vec<String> {
            config.sessions.iter().map(|session| session.name.clone()).collect()
        };
        self.take_sessions(now, &names(&old));
        let (general, was) = (&self.config.general, &old.general);
        if (general.window, general.enabled) != (was.window, was.enabled) {
            for known in self.served.namespaces().filter(|known| known.queued) {
                let window = known.settings.window.unwrap_or(general.window);
                known.device.window.set(if general.enabled { window } else { WindowRule::Off });
                known.device.follow_reservations(fixed_window(known, general).is_none());
                if !known.device.reservations().is_empty() {
                    self.touched.devices.push(known.backend);
                }
            }
        }
        let of_flows = |q: &Qos| (q.enabled, q.mark, q.dscp);
        if of_flows(general) != of_flows(was) || self.config.policies != old.policies {
            self.flows_version += 1;
        }
        self.stale = true;
        Ok(())
    }

    /// Puts admitted reservations in force.
    pub(super) fn settle_reservations(&mut self) {
        let general = &self.config.general;
        let enabled = general.enabled;
        let changed = self.reservations.settle(&self.served, &self.sessions, general);
        self.touched.devices.extend(changed);
        if self.reservations.set_aside(&self.sessions, enabled) {
            self.invalidate();
        }
    }

    /// Admits configured reservations that are not in force yet: all, or those on the device of one
    /// namespace. Returns whether any came into force.
    pub(super) fn retry_reservations(&mut self, now: Nanos, only: Option<&str>) -> bool {
        self.reservations.retry(now, &self.served, &self.config, only)
    }

    /// Adapts reservations to devices that were measured anew. Returns whether any changed.
    pub(super) fn review_reservations(&mut self, now: Nanos) -> bool {
        self.reservations.review(now, &self.served, &self.config.general)
    }

    /// Adds a subsystem, with its session.
    pub(super) fn subsystem_came(&mut self, now: Nanos, nqn: &str) {
        self.served.add_subsystem(nqn);
        self.bring(now, nqn);
    }

    /// Removes a subsystem with its namespaces.
    pub(super) fn subsystem_gone(&mut self, now: Nanos, nqn: &str) {
        for nsid in self.served.remove_subsystem(nqn) {
            self.dismiss_namespace(now, nqn, nsid);
        }
        self.dismiss(now, nqn);
        self.published.forget(nqn);
    }

    /// Adds a namespace, with its session and the reservations on its device.
    pub(super) fn namespace_came(
        &mut self,
        now: Nanos,
        (nqn, nsid): (&str, u32),
        known: KnownNamespace,
    ) {
        let name = namespace_name(nqn, nsid);
        if self.served.add(nqn, nsid, known) {
            // These reservations were on the namespace's earlier device.
            self.reservations.drop_on(&name);
        }
        self.bring(now, &name);
        self.fit_limits(now, nqn);
        self.show(nqn, nsid);
        self.retry_reservations(now, Some(&name));
    }

    pub(super) fn namespace_gone(&mut self, now: Nanos, nqn: &str, nsid: u32) {
        self.served.remove(nqn, nsid);
        self.dismiss_namespace(now, nqn, nsid);
        self.fit_limits(now, nqn);
    }

    /// Sets a namespace's size in bytes.
    pub(super) fn namespace_resized(&mut self, now: Nanos, nqn: &str, nsid: u32, size: u64) {
        if self.served.resize(nqn, nsid, size) {
            self.fit_limits(now, &namespace_name(nqn, nsid));
            self.fit_limits(now, nqn);
        }
    }

    /// Removes a namespace's session. Reservations on its device are tried again when the namespace
    /// comes back.
    fn dismiss_namespace(&mut self, now: Nanos, nqn: &str, nsid: u32) {
        let name = namespace_name(nqn, nsid);
        self.dismiss(now, &name);
        self.published.set(nqn, nsid, None);
        self.reservations.drop_on(&name);
    }

    /// Sets a namespace's class. Returns whether the namespace exists.
    pub(super) fn set_class(&mut self, nqn: &str, nsid: u32, class: Option<Class>) -> bool {
        let known = self.served.get_mut(nqn, nsid).map(|known| known.class = class);
        if known.is_some() {
            self.show(nqn, nsid);
            self.invalidate();
        }
        known.is_some()
    }

    /// Sets the class of a listener's connections.
    pub(super) fn set_listener(&mut self, listener: ListenerId, class: Option<Class>) {
        let before = match class {
            Some(class) => self.listeners.insert(listener.0, class),
            None => self.listeners.remove(&listener.0),
        };
        if before != class {
            self.invalidate();
        }
    }
}
