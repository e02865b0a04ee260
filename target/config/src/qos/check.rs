//! Checks of values against each other: sessions that form a tree, shares that add up, policies
//! that name existing objects.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::super::errors::did_you_mean;
use super::super::fields::{At, Problems};
use super::super::subsystem::Subsystem;
use super::lowest::{LINUX_DEPTH, LowestRates, patience_of};
use super::names::{ROOT, automatic, split_namespace};
use super::policy::ParsedPolicy;
use super::profile::Profile;
use super::session::{ParsedSession, Session};
use super::settings::QosConfig;
use crate::TargetConfig;
use crate::amounts::format_size;

/// The most `[[session]]` entries, and the most `[[policy]]` entries.
pub(crate) const CUSTOM_MAX: usize = 4096;
/// The most sessions from a session up to the root, both counted.
const DEPTH_MAX: usize = 16;

/// The subsystems against which names are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The subsystems of the file: a name of another one is a mistake.
    File,
    /// The subsystems of a file, some of which could not be read: an unknown name may belong to a subsystem whose
    /// own mistake is reported already.
    Part,
    /// The subsystems that exist now. Names of subsystems that were removed stay without effect,
    /// since these may be added again.
    Now,
}

/// Describes a contradiction within a configuration's quality of service; `None` if there is none.
pub fn wrong(qos: &QosConfig, subsystems: &[Subsystem], target: &TargetConfig) -> Option<String> {
    let QosConfig { sessions, profiles, policies, .. } = qos;
    if sessions.is_empty() && policies.is_empty() {
        return None;
    }
    let sessions: Vec<ParsedSession> = sessions.iter().cloned().map(ParsedSession::bare).collect();
    let bare = |policy: &super::Policy| ParsedPolicy {
        policy: policy.clone(),
        place: At { value: (), span: 0..0, path: String::new() },
        subsystem: None,
        nsid: None,
        session: None,
    };
    let policies: Vec<ParsedPolicy> = policies.iter().map(bare).collect();
    let problems = Problems::default();
    across((&sessions, profiles, &policies), subsystems, Known::Now, target, &problems);
    let first = problems.into_vec().into_iter().next()?;
    Some(format!("{}; {}", first.message, first.remedy))
}

/// Removes the sessions and policies that name subsystems, namespaces or sessions which do not exist. They are left
/// over from removed ones and have no effect, but a file with such names is refused.
pub fn remove_dangling(qos: &mut QosConfig, subsystems: &[Subsystem]) {
    loop {
        let sessions: Vec<ParsedSession> =
            qos.sessions.iter().cloned().map(ParsedSession::bare).collect();
        let tree = Tree::new(&sessions, subsystems, Known::File);
        qos.policies.retain(|policy| {
            let session = policy.session.as_ref();
            policy.subsystem.as_ref().is_none_or(|nqn| tree.is_here(nqn, policy.nsid))
                && session.is_none_or(|name| tree.is_session(name))
        });
        qos.sessions.retain(|session| !tree.is_dangling(session));
        // A session may be the parent of others.
        if qos.sessions.len() == sessions.len() {
            return;
        }
    }
}

/// Runs the checks that need all sessions, policies and subsystems.
pub(super) fn across(
    (sessions, profiles, policies): (&[ParsedSession], &[Profile], &[ParsedPolicy]),
    subsystems: &[Subsystem],
    known: Known,
    target: &TargetConfig,
    problems: &Problems,
) {
    let tree = Tree::new(sessions, subsystems, known);
    too_many(sessions, policies, problems);
    let mut known = BTreeSet::new();
    for Profile { name, .. } in profiles {
        if !known.insert(name.as_str()) {
            let message = format!("profile {name} occurs twice");
            problems.at(&nowhere(), message, "give each profile a name of its own");
        }
    }
    let mut seen = BTreeSet::new();
    for parsed in sessions {
        let name = &parsed.session.name;
        if !seen.insert(name.as_str()) {
            let message = format!("session {name} occurs twice");
            problems.at(&parsed.name, message, "give each session a name of its own");
            continue;
        }
        tree.check_name(parsed, problems);
        tree.check_parent(parsed, problems);
        tree.check_reserve(parsed, problems);
        check_profile(parsed, profiles, problems);
        tree.check_per_gib(parsed, profiles, problems);
        check_limits(parsed, profiles, target, problems);
    }
    tree.check_shares(sessions, problems);
    check_policies(policies, &tree, problems);
}

/// Checks that a session's profile exists.
fn check_profile(parsed: &ParsedSession, profiles: &[Profile], problems: &Problems) {
    let Session { name, profile: Some(named), .. } = &parsed.session else { return };
    if profiles.iter().any(|profile| profile.name == *named) {
        return;
    }
    let known: Vec<&str> = profiles.iter().map(|profile| profile.name.as_str()).collect();
    let remedy = match known.is_empty() {
        true => format!("add a [[profile]] with name = \"{named}\""),
        false => format!("choose one of {}", known.join(", ")),
    };
    let message = format!("session {name} has profile {named}, which does not exist");
    problems.at(&parsed.name, message, remedy);
}

/// Returns a place that is in no text.
fn nowhere() -> At<()> {
    At { value: (), span: 0..0, path: String::new() }
}

/// Checks that a host can wait for a session's limits. Limits per GiB are raised to the lowest limit
/// instead, since a resize that lowers them must not make the configuration invalid.
fn check_limits(
    parsed: &ParsedSession,
    profiles: &[Profile],
    target: &TargetConfig,
    problems: &Problems,
) {
    let name = &parsed.session.name;
    let commands = u64::from(target.queue_depth.min(LINUX_DEPTH));
    let lowest = LowestRates::of(target);
    let seconds = patience_of(target) / 1_000_000_000;
    let transfer = format_size(u64::from(target.max_transfer));
    // The commands that wait may all be of one direction.
    for limit in parsed.session.limits_with(profiles).rate_limits(None) {
        let key = limit.key;
        let (least, of, lower) = match limit.is_bytes {
            true => (lowest.bytes, format!(" of {transfer}"), "lower max_transfer, or "),
            false => (lowest.commands, String::new(), ""),
        };
        if limit.rate >= least {
            continue;
        }
        let message = format!(
            "session {name}: with {} the last of a host's {commands} commands{of} waits for more \
             than {seconds} s, after which Linux fails the command",
            limit.written()
        );
        let least = if limit.is_bytes { least.next_multiple_of(1024) } else { least };
        let least = limit.show(least);
        let remedy = format!("set {key} to {least} or more, or {lower}raise retry_delays");
        problems.at(&parsed.name, message, remedy);
    }
}

fn too_many(sessions: &[ParsedSession], policies: &[ParsedPolicy], problems: &Problems) {
    if let Some(parsed) = sessions.get(CUSTOM_MAX) {
        let message = format!("there are more than {CUSTOM_MAX} sessions");
        problems.at(&parsed.name, message, "remove the rest");
    }
    if let Some(parsed) = policies.get(CUSTOM_MAX) {
        let message = format!("there are more than {CUSTOM_MAX} policies");
        problems.at(&parsed.place, message, "remove the rest");
    }
}

/// The sessions, by name.
struct Tree<'a> {
    entries: BTreeMap<&'a str, &'a Session>,
    subsystems: BTreeMap<&'a str, &'a Subsystem>,
    known: Known,
}

impl<'a> Tree<'a> {
    fn new(sessions: &'a [ParsedSession], subsystems: &'a [Subsystem], known: Known) -> Self {
        Self {
            entries: sessions.iter().map(|p| (p.session.name.as_str(), &p.session)).collect(),
            subsystems: subsystems.iter().map(|s| (s.nqn.as_str(), s)).collect(),
            known,
        }
    }

    /// Returns the subsystem and the NSID that an automatic session's name means. A subsystem's own
    /// NQN may end as a namespace's name does.
    fn automatic<'n>(&self, name: &'n str) -> Option<(&'n str, Option<u32>)> {
        match self.subsystems.contains_key(name) {
            true => Some((name, None)),
            false => automatic(name).ok(),
        }
    }

    /// Returns whether a subsystem exists; with `nsid`, whether it has this namespace.
    fn is_here(&self, nqn: &str, nsid: Option<u32>) -> bool {
        let has = |s: &Subsystem, nsid| s.namespaces.iter().any(|n| n.nsid == Some(nsid));
        let found = self.subsystems.get(nqn);
        found.is_some_and(|subsystem| nsid.is_none_or(|nsid| has(subsystem, nsid)))
    }

    /// Returns whether a name is a session's: from the file, or of a subsystem or namespace.
    fn is_session(&self, name: &str) -> bool {
        if name == ROOT || self.entries.contains_key(name) {
            return true;
        }
        let automatic = self.automatic(name);
        automatic.is_some_and(|(nqn, nsid)| self.known != Known::File || self.is_here(nqn, nsid))
    }

    /// Returns whether a session names a subsystem, namespace or session that does not exist.
    fn is_dangling(&self, session: &Session) -> bool {
        let is_gone = |name: &str| {
            let named = self.automatic(name);
            named.is_some_and(|(nqn, nsid)| !self.is_here(nqn, nsid))
        };
        let reserved = session.reserve.as_ref().and_then(|reserve| reserve.namespace.as_ref());
        is_gone(&session.name)
            || session.parent.as_ref().is_some_and(|parent| !self.is_session(parent))
            || reserved.is_some_and(|namespace| is_gone(namespace))
    }

    /// Returns the session above another; `None` means the root.
    fn parent<'s>(&'s self, name: &'s str) -> Option<&'s str> {
        if let Some(parent) = self.entries.get(name).and_then(|entry| entry.parent.as_deref()) {
            return (parent != ROOT).then_some(parent);
        }
        match self.automatic(name) {
            Some((nqn, Some(_))) => Some(nqn),
            _ => None,
        }
    }

    /// Checks that an automatic session's subsystem, and its namespace, exist.
    fn check_name(&self, parsed: &ParsedSession, problems: &Problems) {
        let name = &parsed.session.name;
        if let Some((nqn, nsid)) = self.automatic(name)
            && self.known == Known::File
            && !self.is_here(nqn, nsid)
        {
            let message = format!("session {name} names a {} that does not exist", what(nsid));
            problems.at(&parsed.name, message, self.choose(name));
        }
    }

    /// Checks that a session with limits per GiB has a size, from its namespace or subsystem.
    fn check_per_gib(&self, parsed: &ParsedSession, profiles: &[Profile], problems: &Problems) {
        let Session { name, profile, .. } = &parsed.session;
        let Some(key) = parsed.session.limits_with(profiles).key_per_gib() else { return };
        if self.automatic(name).is_some() {
            return;
        }
        let (of, remedy) = match (parsed.session.limits.key_per_gib(), profile) {
            (None, Some(profile)) => (
                format!(" of profile {profile}"),
                "choose a profile without limits per GiB, or set the profile for the session of a \
                 namespace (NQN/NSID) or subsystem (NQN)",
            ),
            _ => (
                String::new(),
                "set a limit without _per_gib, or set it for the session of a namespace (NQN/NSID) \
                 or subsystem (NQN)",
            ),
        };
        let message = format!(
            "session {name}: `{key}`{of} needs a size, and the session belongs to no namespace or \
             subsystem"
        );
        problems.at(&parsed.name, message, remedy);
    }

    fn check_parent(&self, parsed: &ParsedSession, problems: &Problems) {
        let Session { name, parent, .. } = &parsed.session;
        let place = parsed.parent.as_ref().unwrap_or(&parsed.name);
        if let Some(parent) = parent.as_ref().filter(|parent| !self.is_session(parent)) {
            let message = format!("the parent of session {name}, {parent}, does not exist");
            problems.at(place, message, self.choose(parent));
            return;
        }
        let mut depth = 2;
        let mut above = self.parent(name);
        while let Some(one) = above {
            if one == name {
                let message = format!("session {name} is above itself");
                problems.at(place, message, "choose a parent that is not below it");
                return;
            }
            depth += 1;
            if depth > DEPTH_MAX {
                let message = format!("session {name} is more than {DEPTH_MAX} levels deep");
                problems.at(place, message, "put it below a session nearer to the root");
                return;
            }
            above = self.parent(one);
        }
    }

    /// Checks that a reservation is on one device.
    fn check_reserve(&self, parsed: &ParsedSession, problems: &Problems) {
        let Session { name, reserve, .. } = &parsed.session;
        let Some(reserve) = reserve else { return };
        let place = parsed.reserve.as_ref().unwrap_or(&parsed.name);
        let own = self.automatic(name).and_then(|(nqn, nsid)| Some((nqn, nsid?)));
        match (&reserve.namespace, own) {
            (None, Some(_)) => {}
            (None, None) => {
                let message = format!("the reservation of session {name} names no namespace");
                let remedy = "add namespace = \"NQN/NSID\": a reservation is for one device";
                problems.at(place, message, remedy);
            }
            (Some(other), Some(_)) if other != name => {
                let message = format!("session {name} reserves on another namespace, {other}");
                let remedy = "remove `namespace`, or reserve for a session that groups others";
                problems.at(place, message, remedy);
            }
            (Some(namespace), _) => {
                let found = split_namespace(namespace);
                let here = found.is_some_and(|(nqn, nsid)| self.is_here(nqn, Some(nsid)));
                if !here && self.known == Known::File {
                    let message =
                        format!("session {name} reserves on {namespace}, which does not exist");
                    problems.at(place, message, self.choose(namespace));
                }
            }
        }
    }

    /// Checks that the shares of one parent's children are at most the whole.
    fn check_shares(&self, sessions: &[ParsedSession], problems: &Problems) {
        let mut sums: BTreeMap<(Option<&str>, bool), u32> = BTreeMap::new();
        for parsed in sessions {
            let session = &parsed.session;
            let parent = self.parent(&session.name);
            let shares = [
                ("credit_share", session.operations, &parsed.operations),
                ("payload_share", session.payload, &parsed.payload),
            ];
            for (key, share, place) in shares {
                let Some(share) = share else { continue };
                let sum = sums.entry((parent, key == "payload_share")).or_default();
                let before = *sum;
                *sum = before.saturating_add(share.into());
                if before <= 100 && *sum > 100 {
                    let above = parent.unwrap_or(ROOT);
                    let message =
                        format!("the `{key}` of the children of session {above} add up to {sum} %");
                    let remedy =
                        format!("write at most {} % here, or less elsewhere", 100 - before);
                    problems.at(place.as_ref().unwrap_or(&parsed.name), message, remedy);
                }
            }
        }
    }

    /// Writes "did you mean …", or the names that exist.
    fn choose(&self, name: &str) -> String {
        let mut names: Vec<String> = self.entries.keys().map(|name| (*name).to_owned()).collect();
        for (nqn, subsystem) in &self.subsystems {
            names.push((*nqn).to_owned());
            let mut nsids: Vec<u32> = subsystem.namespaces.iter().filter_map(|n| n.nsid).collect();
            nsids.sort_unstable();
            names.extend(nsids.iter().map(|nsid| format!("{nqn}/{nsid}")));
        }
        names.retain(|known| known != name);
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        match did_you_mean(name, &known) {
            Some(near) => format!("did you mean {near}?"),
            None if known.is_empty() => "add it first".into(),
            None if known.len() > 8 => "choose an existing session, or add it first".into(),
            None => format!("choose from {}, or add it first", known.join(", ")),
        }
    }
}

fn what(nsid: Option<u32>) -> &'static str {
    if nsid.is_some() { "namespace" } else { "subsystem" }
}

fn check_policies(policies: &[ParsedPolicy], tree: &Tree<'_>, problems: &Problems) {
    let mut seen = BTreeSet::new();
    for parsed in policies {
        let policy = &parsed.policy;
        let mut networks: Vec<Option<IpNet>> =
            policy.addresses.networks().iter().copied().map(Some).collect();
        if networks.is_empty() {
            networks.push(None);
        }
        // Of two policies with one network, neither would be the closer one.
        let twice = networks.into_iter().filter(|network| {
            !seen.insert((&policy.host, &policy.subsystem, policy.nsid, *network))
        });
        if twice.count() > 0 {
            let message = format!("the policy for {} occurs twice", policy.scope());
            problems.at(&parsed.place, message, "merge the two");
            continue;
        }
        check_scope(parsed, tree, problems);
        if policy.says_nothing() {
            let message = format!("the policy for {} sets nothing", policy.scope());
            let remedy = "add class, max_class, urgent_iops or session, or remove it";
            problems.at(&parsed.place, message, remedy);
        }
        if let (Some(class), Some(most)) = (policy.class, policy.max_class)
            && class > most
        {
            let message = format!("`class` is {class}, above `max_class`, {most}");
            problems.at(&parsed.place, message, format!("write class = \"{most}\" or less"));
        }
        if let Some(session) = policy.session.as_ref().filter(|name| !tree.is_session(name)) {
            let place = parsed.session.as_ref().unwrap_or(&parsed.place);
            let message = format!("session {session} does not exist");
            problems.at(place, message, tree.choose(session));
        }
    }
}

/// Checks that the objects which a policy names exist.
fn check_scope(parsed: &ParsedPolicy, tree: &Tree<'_>, problems: &Problems) {
    let policy = &parsed.policy;
    let Some(nqn) = &policy.subsystem else {
        if let Some(nsid) = &parsed.nsid {
            let message = "`nsid` needs `subsystem`";
            problems.at(nsid, message, "add subsystem = \"…\": its NQN");
        } else if policy.nsid.is_some() {
            problems.at(&parsed.place, "`nsid` needs `subsystem`", "give the subsystem's NQN too");
        }
        return;
    };
    if tree.known != Known::File {
        return;
    }
    let place = |at: &Option<At<()>>| at.clone().unwrap_or_else(|| parsed.place.clone());
    if !tree.is_here(nqn, None) {
        let message = format!("the policy names a subsystem that does not exist: {nqn}");
        problems.at(&place(&parsed.subsystem), message, tree.choose(nqn));
    } else if let Some(nsid) = policy.nsid.filter(|_| !tree.is_here(nqn, policy.nsid)) {
        let message = format!("subsystem {nqn} has no namespace {nsid}");
        problems.at(&place(&parsed.nsid), message, tree.choose(&format!("{nqn}/{nsid}")));
    }
}
