//! Readers of a single object: a request's parameters (JSON), or an entry of the state file (TOML).
//! A whole configuration file is read by the same readers, so that rules and remedies are the same.

use fabric::controller::AllowedHost;
use serde_json::Value as Json;
use toml::de::DeTable;

use super::fields::{Fields, Problems};
use super::host;
use super::listener::{self, Listener};
use super::namespace::{self, Namespace};
use super::network::{LinkConfig, Network};
use super::node::Node;
use super::pmem::{self, RegionConfig};
use super::qos::{Policy, Profile, Qos, Reserve, Session};
use super::subsystem::{self, Subsystem};
use super::{network, qos};

/// Reads settings from JSON. Returns them with notices of former names, a sentence each.
///
/// # Errors
/// All faults, one sentence each.
pub fn read_json<T>(
    value: &Json,
    title: &'static str,
    read: impl FnOnce(Fields<'_>) -> Option<T>,
) -> Result<(T, Vec<String>), String> {
    read_node(&Node::from_json(value), title, Problems::of_request(), read)
}

/// Reads settings from TOML text without a title.
///
/// # Errors
/// All faults, one sentence each.
pub fn read_text<T>(
    text: &str,
    title: &'static str,
    read: impl FnOnce(Fields<'_>) -> Option<T>,
) -> Result<T, String> {
    let root = DeTable::parse(text).map_err(|error| error.message().to_owned())?;
    read_node(&Node::from_toml(&root), title, Problems::default(), read).map(|(value, _)| value)
}

fn read_node<T>(
    node: &Node,
    title: &'static str,
    problems: Problems,
    read: impl FnOnce(Fields<'_>) -> Option<T>,
) -> Result<(T, Vec<String>), String> {
    let value = Fields::of(node, title, String::new(), &problems).and_then(read);
    let notices = problems.take_notices().into_iter().map(|notice| notice.message).collect();
    let wrong: Vec<String> = problems
        .into_vec()
        .into_iter()
        .map(|problem| match problem.remedy.is_empty() {
            true => problem.message,
            false => format!("{}; {}", problem.message, problem.remedy),
        })
        .collect();
    match value {
        Some(value) if wrong.is_empty() => Ok((value, notices)),
        _ => Err(wrong.join("\n")),
    }
}

/// Reads a listener's settings.
pub fn listener(fields: Fields<'_>) -> Option<Listener> {
    listener::listener(fields).map(|parsed| parsed.listener)
}

/// Reads settings of a host, starting from its present settings.
pub fn host_onto(fields: &mut Fields<'_>, host: &AllowedHost) -> Option<AllowedHost> {
    host::onto(fields, host)
}

/// Reads a host's NQN and settings.
pub fn host(fields: Fields<'_>) -> Option<AllowedHost> {
    host::host(fields).map(|(host, _)| host)
}

/// Reads a namespace's settings; identifiers that were left out are still missing.
pub fn namespace(fields: Fields<'_>) -> Option<Namespace> {
    namespace::namespace(fields).map(|parsed| parsed.namespace)
}

/// Reads a subsystem's settings with its namespaces, and gives these NSIDs.
pub fn subsystem(fields: Fields<'_>) -> Option<Subsystem> {
    let problems = fields.problems();
    let mut parsed = subsystem::subsystem(fields)?;
    subsystem::number(&mut parsed);
    let known = super::qos::Known::File;
    super::check::across(None, &[], std::slice::from_ref(&parsed), known, problems);
    Some(parsed.into_subsystem())
}

/// Reads a subsystem's settings as they were stored. Each value is checked by itself only, since
/// later live changes may have removed a host that a namespace names.
pub fn stored_subsystem(fields: Fields<'_>) -> Option<Subsystem> {
    subsystem::subsystem(fields).map(|mut parsed| {
        subsystem::number(&mut parsed);
        parsed.into_subsystem()
    })
}

/// Reads the settings of `[qos]`, all of them or some.
pub fn general(fields: Fields<'_>, base: Qos) -> Qos {
    qos::general(fields, base)
}

/// Reads a session's settings.
pub fn session(fields: Fields<'_>) -> Option<Session> {
    qos::session(fields, None).map(|parsed| parsed.session)
}

/// Reads a session's settings; a setting that is left out is as in `base`, and `null` takes one
/// back.
pub fn session_onto(fields: Fields<'_>, base: Session) -> Option<Session> {
    qos::session(fields, Some(base)).map(|parsed| parsed.session)
}

/// Reads a profile's settings; a setting that is left out is as in `base`, and `null` takes one
/// back.
pub fn profile(fields: Fields<'_>, base: &Profile) -> Option<Profile> {
    qos::profile(fields, base)
}

/// Reads a reservation's settings.
pub fn reserve(fields: Fields<'_>) -> Option<Reserve> {
    qos::reserve(fields)
}

/// Reads a policy's settings.
pub fn policy(fields: Fields<'_>) -> Option<Policy> {
    qos::policy(fields).map(|parsed| parsed.policy)
}

/// Reads the settings of `[network]`, all of them or some; a setting that is left out is as in
/// `base`.
pub fn network(fields: Fields<'_>, base: Network) -> Network {
    network::general(fields, base)
}

/// Reads a link's settings; a setting that is left out is as in `base`.
pub fn link(fields: Fields<'_>, base: &LinkConfig) -> Option<LinkConfig> {
    network::link(fields, base).map(|parsed| parsed.link)
}

/// Reads a region's settings; a setting that is left out is as in `base`.
pub fn region(fields: Fields<'_>, base: &RegionConfig) -> Option<RegionConfig> {
    pmem::region(fields, base).map(|parsed| parsed.region)
}
