//! Lookups of the objects that requests name; if one is missing, the failure lists the existing ones.

use sluice_config::{Config, Endpoint, Listener, Namespace, Subsystem, network};

use super::protocol::Failure;
use crate::sys::words::list;

/// Reads the name of a listener that was checked.
pub(super) fn endpoint(text: &str) -> Result<Endpoint, Failure> {
    text.parse().map_err(|error| Failure::invalid(format!("`address` is \"{text}\": {error}")))
}

pub(super) fn known_subsystem<'a>(config: &'a Config, nqn: &str) -> Result<&'a Subsystem, Failure> {
    let found = config.subsystems.iter().find(|known| known.nqn == nqn);
    found.ok_or_else(|| {
        let known: Vec<String> = config.subsystems.iter().map(|s| s.nqn.clone()).collect();
        let message = format!("there is no subsystem {nqn}; there are: {}", list(&known));
        Failure::not_found(message)
    })
}

/// Finds the subsystem of an NQN for a change.
pub(super) fn subsystem<'a>(
    config: &'a mut Config,
    nqn: &str,
) -> Result<&'a mut Subsystem, Failure> {
    known_subsystem(config, nqn)?;
    let found = config.subsystems.iter_mut().find(|known| known.nqn == nqn);
    found.ok_or_else(|| Failure::not_found(nqn))
}

pub(super) fn known_namespace(subsystem: &Subsystem, nsid: u32) -> Result<&Namespace, Failure> {
    let found = subsystem.namespaces.iter().find(|known| known.nsid == Some(nsid));
    found.ok_or_else(|| {
        let all = subsystem.namespaces.iter();
        let known: Vec<String> = all.filter_map(|n| Some(n.nsid?.to_string())).collect();
        let (nqn, known) = (&subsystem.nqn, list(&known));
        Failure::not_found(format!("there is no namespace {nsid} in {nqn}; there are: {known}"))
    })
}

/// Finds the namespace of an NSID for a change.
pub(super) fn namespace(subsystem: &mut Subsystem, nsid: u32) -> Result<&mut Namespace, Failure> {
    known_namespace(subsystem, nsid)?;
    let found = subsystem.namespaces.iter_mut().find(|known| known.nsid == Some(nsid));
    found.ok_or_else(|| Failure::not_found(nsid.to_string()))
}

/// Finds a listener for a change.
pub(super) fn listener(config: &mut Config, endpoint: Endpoint) -> Result<&mut Listener, Failure> {
    let known: Vec<String> = config.listeners.iter().map(|l| l.endpoint().to_string()).collect();
    let found = config.listeners.iter_mut().find(|l| l.endpoint() == endpoint);
    found.ok_or_else(|| {
        let known = list(&known);
        Failure::not_found(format!("there is no listener {endpoint}; there are: {known}"))
    })
}

/// Checks that a link exists; `None` stands for the default link.
pub(super) fn link_is_known(config: &Config, link: Option<&str>) -> Result<(), Failure> {
    match link.filter(|name| network::unknown(&config.network, Some(name))) {
        Some(name) => Err(no_link(config, name)),
        None => Ok(()),
    }
}

/// Makes the failure of a link that does not exist.
pub(super) fn no_link(config: &Config, name: &str) -> Failure {
    let known = list(&network::known(&config.network));
    Failure::not_found(format!("there is no link {name}; there are: {known}"))
}
