//! The plan: the differences between two configurations.

use std::collections::{BTreeMap, BTreeSet};

use sluice_config::{AllowedHost, Backend, Config, Listener, Namespace, Network, Subsystem};

use super::change::{Change, Why, known};
use super::order::{Rank, Steps};
use super::regions::RegionSteps;

/// Returns the changes that lead from `from`, which runs, to `to`, in their order. Both have all
/// identifiers, given or derived. `[target]` and `[pmem]` are not compared, since only a restart
/// changes them.
pub(crate) fn plan(from: &Config, to: &Config) -> Vec<Change> {
    let mut steps = Steps::default();
    listeners(&from.listeners, &to.listeners, &mut steps);
    let before: BTreeMap<&str, &Subsystem> = by(&from.subsystems, |s| s.nqn.as_str());
    let after: BTreeMap<&str, &Subsystem> = by(&to.subsystems, |s| s.nqn.as_str());
    for (nqn, old) in &before {
        match after.get(nqn) {
            Some(new) => subsystem(old, new, &mut steps),
            None => steps.push(Rank::Remove, Change::RemoveSubsystem((*old).clone(), Why::Itself)),
        }
    }
    for new in to.subsystems.iter().filter(|new| !before.contains_key(new.nqn.as_str())) {
        steps.push(Rank::Add, Change::AddSubsystem(new.clone(), Why::Itself));
    }
    if !from.qos.differing(&to.qos).is_empty() {
        let (from, to) = (Box::new(from.qos.clone()), Box::new(to.qos.clone()));
        steps.push(Rank::Qos, Change::Qos { from, to });
    }
    network(&from.network, &to.network, &mut steps);
    if let Some(regions) = RegionSteps::plan(&from.pmem.regions, &to.pmem.regions, &to.subsystems) {
        steps.push_regions(regions);
    }
    steps.in_order()
}

/// Indexes a list by the keys of its entries.
fn by<'a, T, K: Ord>(list: &'a [T], key: impl Fn(&'a T) -> K) -> BTreeMap<K, &'a T> {
    list.iter().map(|entry| (key(entry), entry)).collect()
}

fn differing(keys: &[(&'static str, bool)]) -> Vec<&'static str> {
    keys.iter().filter(|(_, differs)| *differs).map(|(key, _)| *key).collect()
}

fn listeners(from: &[Listener], to: &[Listener], steps: &mut Steps) {
    let before = by(from, Listener::endpoint);
    let after = by(to, Listener::endpoint);
    for (endpoint, old) in &before {
        let Some(new) = after.get(endpoint) else {
            steps.push(Rank::Narrow, Change::RemoveListener((*old).clone(), Why::Itself));
            continue;
        };
        let names = |listener: &Listener| {
            listener.subsystems.as_ref().map(|names| names.iter().cloned().collect::<BTreeSet<_>>())
        };
        let keys = differing(&[
            ("advertise", old.advertise != new.advertise),
            ("discovery_only", old.discovery_only != new.discovery_only),
            ("subsystems", names(old) != names(new)),
            ("tls", old.tls != new.tls),
            ("require_authentication", old.require_authentication != new.require_authentication),
        ]);
        if !keys.is_empty() {
            steps.push(
                Rank::Narrow,
                Change::RemoveListener((*old).clone(), Why::Settings(keys.clone())),
            );
            steps.push(Rank::Listen, Change::AddListener((*new).clone(), Why::Settings(keys)));
            continue;
        }
        let endpoint = *endpoint;
        if old.class != new.class {
            steps.push(
                Rank::Mild,
                Change::ListenerClass { endpoint, from: old.class, to: new.class },
            );
        }
        if old.link != new.link {
            let (from, to) = (old.link.clone(), new.link.clone());
            steps.push(Rank::Mild, Change::ListenerLink { endpoint, from, to });
        }
    }
    for new in to.iter().filter(|new| !before.contains_key(&new.endpoint())) {
        steps.push(Rank::Listen, Change::AddListener(new.clone(), Why::Itself));
    }
}

fn subsystem(old: &Subsystem, new: &Subsystem, steps: &mut Steps) {
    let keys =
        differing(&[("serial", old.serial != new.serial), ("model", old.model != new.model)]);
    if !keys.is_empty() {
        steps.push(Rank::Remove, Change::RemoveSubsystem(old.clone(), Why::Settings(keys.clone())));
        let mut new = new.clone();
        for namespace in &mut new.namespaces {
            let same = |old: &&Namespace| old.nsid == namespace.nsid;
            if let Some(old) = old.namespaces.iter().find(same) {
                *namespace = again(old, namespace);
            }
        }
        steps.push(Rank::Add, Change::AddSubsystem(new, Why::Settings(keys)));
        return;
    }
    let nqn = &new.nqn;
    access(old, new, steps);
    let before = by(&old.namespaces, |namespace| namespace.nsid);
    let after = by(&new.namespaces, |namespace| namespace.nsid);
    for (nsid, old) in &before {
        match after.get(nsid) {
            Some(new) => namespace(nqn, old, new, steps),
            None => {
                steps.push(
                    Rank::Remove,
                    Change::RemoveNamespace(nqn.clone(), (*old).clone(), Why::Itself),
                );
            }
        }
    }
    for (_, new) in after.iter().filter(|(nsid, _)| !before.contains_key(nsid)) {
        steps.push(Rank::Add, Change::AddNamespace(nqn.clone(), (*new).clone(), Why::Itself));
    }
}

/// Plans the changes of the permitted hosts and of their rights. A host that is permitted before and after stays
/// permitted throughout: while any host is permitted, a host's own entry only reduces its rights.
fn access(old: &Subsystem, new: &Subsystem, steps: &mut Steps) {
    let nqn = &new.nqn;
    let before = by(&old.hosts, |host| host.nqn.as_str());
    let after = by(&new.hosts, |host| host.nqn.as_str());
    for (name, to) in &after {
        let Some(from) = before.get(name) else {
            let add = Change::AddHost(nqn.clone(), (*to).clone());
            steps.push(if old.allow_any_host { Rank::Narrow } else { Rank::Widen }, add);
            continue;
        };
        let common = from.common(to);
        let set = |from: &AllowedHost, to: &AllowedHost| {
            let (from, to) = (from.clone(), to.clone());
            (from != to).then_some(Change::SetHost { nqn: nqn.clone(), from, to })
        };
        set(from, &common).into_iter().for_each(|change| steps.push(Rank::Narrow, change));
        set(&common, to).into_iter().for_each(|change| steps.push(Rank::Widen, change));
    }
    match (old.allow_any_host, new.allow_any_host) {
        (false, true) => steps.push(Rank::Widen, Change::AnyHost(nqn.clone(), true)),
        (true, false) => steps.push(Rank::Narrow, Change::AnyHost(nqn.clone(), false)),
        _ => {}
    }
    for (_, host) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
        let remove = Change::RemoveHost(nqn.clone(), (*host).clone());
        steps.push(if new.allow_any_host { Rank::Widen } else { Rank::Narrow }, remove);
    }
    let require = |required| Change::RequireAuthentication(nqn.clone(), required);
    match (old.require_authentication, new.require_authentication) {
        (false, true) => steps.push(Rank::Narrow, require(true)),
        (true, false) => steps.push(Rank::Widen, require(false)),
        _ => {}
    }
}

fn namespace(nqn: &str, old: &Namespace, new: &Namespace, steps: &mut Steps) {
    let names = |namespace: &Namespace| {
        namespace.hosts.as_ref().map(|names| names.iter().cloned().collect::<BTreeSet<_>>())
    };
    let keys = differing(&[
        ("backend", sized(&old.backend, None) != sized(&new.backend, None)),
        ("uuid", old.uuid != new.uuid),
        ("nguid", old.nguid != new.nguid),
        ("read_only", old.read_only != new.read_only),
        ("hosts", names(old) != names(new)),
        ("setting of its device's queue", old.device != new.device),
    ]);
    let nqn = nqn.to_owned();
    if !keys.is_empty() {
        let why = Why::Settings(keys);
        steps.push(Rank::Remove, Change::RemoveNamespace(nqn.clone(), old.clone(), why.clone()));
        steps.push(Rank::Add, Change::AddNamespace(nqn, again(old, new), why));
        return;
    }
    let nsid = new.id();
    let (from, to) = (size(&old.backend), size(&new.backend));
    if from != to {
        let resize = Change::Resize { nqn: nqn.clone(), nsid, from, to };
        // The file's own size may be less than the configured one.
        match (from, to) {
            (Some(from), Some(to)) if to > from => steps.push(Rank::Mild, resize),
            _ => steps.push(Rank::Remove, resize),
        }
    }
    if old.class != new.class {
        steps
            .push(Rank::Mild, Change::NamespaceClass { nqn, nsid, from: old.class, to: new.class });
    }
}

/// Makes a namespace that is added again in the place of `old`.
fn again(old: &Namespace, new: &Namespace) -> Namespace {
    let path = |namespace: &Namespace| namespace.backend.path().map(std::path::Path::to_owned);
    let mut new = new.clone();
    // A namespace with another UUID is another disk, which is checked as any new one.
    if path(old) == path(&new) && old.uuid == new.uuid {
        known(&mut new);
    }
    new
}

/// Returns a backend with another size, to compare the rest. `create` counts only when a file is
/// opened.
fn sized(backend: &Backend, new: Option<u64>) -> Backend {
    let mut backend = backend.clone();
    match &mut backend {
        Backend::Null { size, .. } | Backend::Memory { size, .. } => *size = new.unwrap_or(0),
        Backend::File { size, create, .. } | Backend::Pmem { size, create, .. } => {
            (*size, *create) = (new, false);
        }
        Backend::Nvme { .. } => {}
    }
    backend
}

fn size(backend: &Backend) -> Option<u64> {
    match backend {
        Backend::Null { size, .. } | Backend::Memory { size, .. } => Some(*size),
        Backend::File { size, .. } | Backend::Pmem { size, .. } => *size,
        Backend::Nvme { .. } => None,
    }
}

/// Plans the changes of the network. Links that are removed stay until no listener names them any
/// more.
fn network(from: &Network, to: &Network, steps: &mut Steps) {
    let known =
        |link: &sluice_config::LinkConfig| to.links.iter().any(|other| other.name == link.name);
    let going = from.links.iter().filter(|link| !known(link)).cloned();
    let mut both = to.clone();
    both.links.extend(going);
    let change = |from: &Network, to: &Network| {
        (from != to).then(|| Change::Network { from: from.clone().into(), to: to.clone().into() })
    };
    // The order of links means nothing.
    let same = both.links.len() == from.links.len()
        && both.links.iter().all(|link| from.links.contains(link))
        && Network { links: Vec::new(), ..both.clone() }
            == Network { links: Vec::new(), ..from.clone() };
    let middle = if same { from } else { &both };
    if let Some(before) = change(from, middle) {
        steps.push(Rank::NetworkBefore, before);
    }
    if both.links.len() != to.links.len()
        && let Some(after) = change(middle, to)
    {
        steps.push(Rank::NetworkAfter, after);
    }
}
