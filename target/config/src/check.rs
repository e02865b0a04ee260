//! Checks of values against each other: numbers that do not fit together, and names that occur
//! twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::{Path, PathBuf};

use crate::keys::NSID_MAX;
use fabric::controller::SecureChannel;

use super::backend::Backend;
use super::endpoint::Transport;
use super::fields::{At, Problems};
use super::identity;
use super::listener::{Listener, ParsedListener};
use super::qos::Known;
use super::subsystem::{ParsedSubsystem, Subsystem};
use super::taken::{Taken, plain_path};
use super::whole::Config;

/// A finder of values that occur twice.
struct Once<'a, K> {
    seen: BTreeSet<K>,
    problems: &'a Problems,
}

impl<'a, K: Ord + Clone + Display> Once<'a, K> {
    fn new(problems: &'a Problems) -> Self {
        Self { seen: BTreeSet::new(), problems }
    }

    fn add<T>(&mut self, key: &K, at: &At<T>, what: &str, remedy: &str) {
        if !self.seen.insert(key.clone()) {
            self.problems.at(at, format!("{what} {key} occurs twice"), remedy);
        }
    }
}

/// Runs the checks that need the whole file. `state` is the state file.
pub(crate) fn across(
    state: Option<&Path>,
    listeners: &[ParsedListener],
    subsystems: &[ParsedSubsystem],
    known: Known,
    problems: &Problems,
) {
    names(subsystems, problems);
    serials(subsystems, problems);
    addresses(listeners, problems);
    channels(listeners, problems);
    if known == Known::File {
        served(listeners, subsystems, problems);
    }
    identifiers(subsystems, problems);
    shared(state, subsystems, problems);
    if state.is_none() && known == Known::File {
        created(subsystems, problems);
    }
    for subsystem in subsystems {
        hosts(subsystem, problems);
        nsids(subsystem, problems);
    }
}

fn names(subsystems: &[ParsedSubsystem], problems: &Problems) {
    let mut once = Once::new(problems);
    for parsed in subsystems {
        let remedy = "give each subsystem an NQN of its own";
        once.add(&parsed.subsystem.nqn, &parsed.nqn, "subsystem", remedy);
    }
}

/// Checks that no two subsystems have the same serial number: hosts name disks by it.
fn serials(subsystems: &[ParsedSubsystem], problems: &Problems) {
    let mut seen = BTreeMap::new();
    for parsed in subsystems {
        if let Some(message) = same_serial(&mut seen, &parsed.subsystem) {
            let place = parsed.serial.as_ref().unwrap_or(&parsed.nqn);
            problems.at(place, message, "give each subsystem its own, or leave `serial` out");
        }
    }
}

/// Records a subsystem's serial number as far as the configuration determines it: without `serial`, it is derived
/// from the NQN. Returns an error that names the subsystem in `seen` with the same serial number; `None` if it is
/// unique.
fn same_serial<'a>(
    seen: &mut BTreeMap<String, &'a str>,
    subsystem: &'a Subsystem,
) -> Option<String> {
    let nqn = subsystem.nqn.as_str();
    let serial = subsystem.serial.clone().unwrap_or_else(|| identity::derived_serial(nqn));
    let message = seen.get(&serial).filter(|other| **other != nqn).map(|other| {
        format!("subsystems {other} and {nqn} would have the same serial number, \"{serial}\"")
    });
    seen.entry(serial).or_insert(nqn);
    message
}

fn addresses(listeners: &[ParsedListener], problems: &Problems) {
    for (index, parsed) in listeners.iter().enumerate() {
        let endpoint = parsed.listener.endpoint();
        for earlier in listeners.iter().take(index).map(|l| l.listener.endpoint()) {
            if endpoint.collides_with(earlier) {
                let message = format!("listener {endpoint} collides with listener {earlier}");
                problems.at(
                    &parsed.address,
                    message,
                    "give it another port, or remove one of them",
                );
            }
        }
    }
}

/// Checks that listeners with TLS can have it.
fn channels(listeners: &[ParsedListener], problems: &Problems) {
    for parsed in listeners {
        if let (Some(message), Some(at)) = (wrong_channel(&parsed.listener), &parsed.tls) {
            problems.at(at, message, "remove `tls`, or give the listener transport \"tcp\"");
        }
    }
}

/// Says why a listener cannot have connections over TLS, where it should.
pub(crate) fn wrong_channel(listener: &Listener) -> Option<String> {
    let wrong = listener.tls != SecureChannel::Off && listener.transport != Transport::Tcp;
    let endpoint = listener.endpoint();
    wrong.then(|| format!("listener {endpoint} is no TCP listener, and TLS is for TCP"))
}

/// Checks that subsystems which listeners name exist.
fn served(listeners: &[ParsedListener], subsystems: &[ParsedSubsystem], problems: &Problems) {
    let known: Vec<&str> = subsystems.iter().map(|s| s.subsystem.nqn.as_str()).collect();
    for parsed in listeners {
        let endpoint = parsed.listener.endpoint();
        for nqn in &parsed.subsystems.items {
            if !known.contains(&nqn.value.as_str()) {
                let message = format!("listener {endpoint} names a subsystem that does not exist");
                problems.at(nqn, message, one_of(&known));
            }
        }
    }
}

fn one_of(known: &[&str]) -> String {
    match known {
        [] => "add a [[subsystem]] with this NQN, or remove `subsystems`".into(),
        _ => format!("choose from {}", known.join(", ")),
    }
}

fn identifiers(subsystems: &[ParsedSubsystem], problems: &Problems) {
    let (mut uuids, mut nguids) = (Once::new(problems), Once::new(problems));
    for parsed in subsystems.iter().flat_map(|s| &s.namespaces) {
        let namespace = &parsed.namespace;
        let remedy = "give each namespace a unique one, or leave it out";
        if let Some(uuid) = namespace.uuid {
            uuids.add(&uuid, &parsed.place, "UUID", remedy);
        }
        if let Some(nguid) = &namespace.nguid {
            nguids.add(&identity::format_nguid(nguid), &parsed.place, "NGUID", remedy);
        }
    }
}

/// Warns of files that each start would create, because nothing remembers that they were there.
fn created(subsystems: &[ParsedSubsystem], problems: &Problems) {
    for parsed in subsystems.iter().flat_map(|subsystem| &subsystem.namespaces) {
        if let Backend::File { path, create: true, .. } | Backend::Pmem { path, create: true, .. } =
            &parsed.namespace.backend
        {
            let message = format!(
                "without `state`, each start creates {} again, empty, if it is missing (a file system may not be \
                 mounted): set `state`, or remove `create` after the first start",
                path.display()
            );
            problems.push_warning(&parsed.place, message);
        }
    }
}

/// Checks that no other namespace shares a file or device that a namespace writes: a host that reads the same blocks
/// through another namespace would keep stale ones in its cache. Nor may a namespace be the state file. Paths count
/// by their [plain](plain_path) forms; files behind links are compared when they are opened.
fn shared(state: Option<&Path>, subsystems: &[ParsedSubsystem], problems: &Problems) {
    let mut seen: BTreeMap<PathBuf, (&Path, bool)> = BTreeMap::new();
    let state = state.map(plain_path);
    for parsed in subsystems.iter().flat_map(|s| &s.namespaces) {
        let Some(path) = parsed.namespace.backend.path() else { continue };
        let plain = plain_path(path);
        if state.as_ref() == Some(&plain) {
            let message = format!("{} is the state file of [target]", path.display());
            problems.at(&parsed.place, message, "give the namespace a file of its own");
        }
        let writes = !parsed.namespace.read_only;
        let earlier = seen.get(&plain).copied();
        if let Some((other, _)) = earlier.filter(|(_, earlier)| *earlier || writes) {
            let also = match other.as_os_str() == path.as_os_str() {
                true => String::new(),
                false => format!(", which {} is too", other.display()),
            };
            let path = path.display();
            let message = format!("two namespaces have {path}{also}, and one writes to it");
            let remedy = "give each its own file or device, or set read_only = true on all of them";
            problems.at(&parsed.place, message, remedy);
        }
        let writes = writes || earlier.is_some_and(|(_, earlier)| earlier);
        seen.insert(plain, (path, writes));
    }
}

fn hosts(parsed: &ParsedSubsystem, problems: &Problems) {
    let mut allowed = Once::new(problems);
    for host in &parsed.hosts.items {
        allowed.add(&host.value, host, "host", "name it once");
    }
    for namespace in &parsed.namespaces {
        let mut once = Once::new(problems);
        for host in &namespace.hosts.items {
            once.add(&host.value, host, "host", "name it once");
            let known = parsed.subsystem.allow_any_host || !parsed.hosts.whole;
            if !known && !allowed.seen.contains(&host.value) {
                let message = "this host may not connect to the subsystem, so that it never sees \
                               the namespace";
                problems.at(host, message, "add it to the subsystem's `hosts` too");
            }
        }
    }
}

fn nsids(parsed: &ParsedSubsystem, problems: &Problems) {
    let mut once = Once::new(problems);
    for namespace in &parsed.namespaces {
        let place = namespace.nsid.as_ref().unwrap_or(&namespace.place);
        let Some(nsid) = namespace.namespace.nsid else { continue };
        once.add(&nsid, place, "nsid", "give each namespace of a subsystem an nsid of its own");
        if nsid > NSID_MAX {
            let message = format!("there are more than {NSID_MAX} namespaces in this subsystem");
            problems.at(place, message, "put the rest into another subsystem");
        }
    }
}

/// Describes a contradiction within a configuration, checking only the parts that a live change can affect; `None`
/// if there is none.
pub fn clash(config: &Config) -> Option<String> {
    let namespaces = config.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
    clash_of_listeners(config)
        .or_else(|| clash_of_serials(config))
        .or_else(|| Taken::default().exchange([], namespaces))
        .or_else(|| super::pmem::wrong(config))
        .or_else(|| super::network::wrong(&config.network, &config.listeners))
        .or_else(|| super::qos::wrong(&config.qos, &config.subsystems, &config.target))
}

/// Names two subsystems that would have the same serial number; `None` if each number is unique.
pub fn clash_of_serials(config: &Config) -> Option<String> {
    let mut seen = BTreeMap::new();
    config.subsystems.iter().find_map(|subsystem| same_serial(&mut seen, subsystem))
}

/// Describes a contradiction between listeners, or between a listener and the address of `[pmem]`.
pub fn clash_of_listeners(config: &Config) -> Option<String> {
    if let Some(other) = super::pmem::collision(&config.pmem.general, &config.listeners) {
        return Some(format!("listener {other} collides with `address` of [pmem]"));
    }
    if let Some(wrong) = config.listeners.iter().find_map(wrong_channel) {
        return Some(wrong);
    }
    let endpoints: Vec<_> = config.listeners.iter().map(Listener::endpoint).collect();
    endpoints.iter().enumerate().find_map(|(index, endpoint)| {
        let mut earlier = endpoints.iter().take(index);
        let other = earlier.find(|other| endpoint.collides_with(**other))?;
        Some(format!("listener {endpoint} collides with listener {other}"))
    })
}
