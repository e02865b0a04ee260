//! The sessions that should exist, by the configuration and by the present subsystems and
//! namespaces.

use std::collections::{HashMap, HashSet};

use arbitration::credit::Caps;
use arbitration::limit::Rates;
use arbitration::session::{RootSpec, SessionSpec};
use arbitration::{Nanos, nanos};
use sluice_config::{
    LimitedSize, LowestRates, Qos, QosConfig, ROOT_SESSION, Session, is_automatic,
};

use super::served::Served;

/// The entries of `[[session]]` by name, and the sessions that `[[policy]]` entries name.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    sessions: HashMap<String, Session>,
    /// The sessions whose entry names a parent, by the parent's name.
    below: HashMap<String, Vec<String>>,
    /// The lowest that limits per GiB become.
    lowest: LowestRates,
    /// Sessions that policies name.
    named: HashSet<String>,
}

impl Wanted {
    /// Reads a configuration.
    pub(super) fn new(config: &QosConfig, lowest: LowestRates) -> Self {
        let mut made = Self { lowest, ..Self::default() };
        for session in &config.sessions {
            if let Some(parent) = &session.parent {
                made.below.entry(parent.clone()).or_default().push(session.name.clone());
            }
            let limits = session.limits_with(&config.profiles);
            made.sessions.insert(session.name.clone(), Session { limits, ..session.clone() });
        }
        made.named = config.policies.iter().filter_map(|p| p.session.clone()).collect();
        made
    }

    /// Returns whether a policy names a session.
    pub(super) fn is_named(&self, session: &str) -> bool {
        self.named.contains(session)
    }

    /// Returns whether the limits of a session depend on the size of its namespaces.
    pub(super) fn is_sized(&self, session: &str) -> bool {
        self.sessions.get(session).is_some_and(|own| own.limits.per_gib.is_limited())
    }

    /// Returns the lowest that limits per GiB become.
    pub(super) fn lowest(&self) -> LowestRates {
        self.lowest
    }

    /// Returns the size of a session's namespaces, if it has any.
    pub(super) fn size_of(&self, served: &Served, session: &str) -> Option<LimitedSize> {
        served.size_of(session).map(|bytes| LimitedSize { bytes, lowest: self.lowest })
    }

    /// Returns the sessions whose entry names this parent.
    pub(super) fn below(&self, parent: &str) -> &[String] {
        self.below.get(parent).map_or(&[], Vec::as_slice)
    }

    /// Returns whether a session of this name should exist.
    fn is_wanted(&self, served: &Served, name: &str) -> bool {
        served.has(name)
            || self.sessions.contains_key(name) && !is_automatic(name)
            || name == ROOT_SESSION
    }

    /// Returns the settings of a session; without `enabled`, only its place in the tree.
    pub(super) fn spec(&self, served: &Served, enabled: bool, name: &str) -> SessionSpec {
        let own = self.sessions.get(name);
        let subsystem = || {
            let (nqn, _) = name.rsplit_once('/')?;
            (!served.has_subsystem(name) && served.named(name).is_some()).then(|| nqn.to_owned())
        };
        let parent = own.and_then(|session| session.parent.clone()).or_else(subsystem);
        let mut spec = spec(name.to_owned(), parent, (own, self.size_of(served, name)));
        if spec.parent.as_ref().is_some_and(|parent| !self.is_wanted(served, parent)) {
            // The parent may not exist yet, or no more. The session's shares were of the parent's
            // credits.
            (spec.parent, spec.operations, spec.payload) = (None, None, None);
        }
        if enabled {
            return spec;
        }
        // Without bounds, commands that wait go at once, and new ones do not wait.
        SessionSpec { name: spec.name, parent: spec.parent, ..SessionSpec::default() }
    }

    /// Returns the settings of all sessions of a configuration that can exist now, each with those
    /// above it.
    pub(super) fn specs(&self, served: &Served, config: &QosConfig) -> Vec<SessionSpec> {
        let mut specs: Vec<SessionSpec> = Vec::new();
        let mut known = HashSet::new();
        for session in &config.sessions {
            let mut name = session.name.clone();
            // A session comes with its parents.
            while self.is_wanted(served, &name) && known.insert(name.clone()) {
                let spec = self.spec(served, config.general.enabled, &name);
                let parent = spec.parent.clone();
                specs.push(spec);
                let Some(parent) = parent else { break };
                name = parent;
            }
        }
        specs
    }
}

/// Returns the settings in the entry of a session whose namespaces have this size.
fn spec(
    name: String,
    parent: Option<String>,
    (own, size): (Option<&Session>, Option<LimitedSize>),
) -> SessionSpec {
    let parent = parent.filter(|parent| parent != "root");
    let Some(own) = own else {
        return SessionSpec { name, parent, ..SessionSpec::default() };
    };
    let Rates { iops, bandwidth } = own.limits.total(size);
    SessionSpec {
        name,
        parent,
        operations: own.operations,
        payload: own.payload,
        iops,
        bandwidth,
        reads: own.limits.reads,
        writes: own.limits.writes,
        burst: own.limits.burst.map_or(Nanos::ZERO, |burst| Nanos(nanos(burst))),
        queue: own.queue,
        weight: own.weight,
    }
}

/// Returns the settings of the root session; `memory` is the size of all I/O buffers, in bytes.
pub(super) fn root(config: &QosConfig, memory: u64) -> RootSpec {
    let (general, usual) = (&config.general, Qos::default());
    let payload = general.payload.min(memory).div_ceil(1024);
    RootSpec {
        caps: Caps { operations: general.operations, payload },
        // Credits are not counted where there are as many as there can be commands.
        bounded: general.operations < usual.operations || general.payload < usual.payload,
        queue: general.queue,
    }
}
