//! Checks of values against each other: rates that fit into a link, links with unique names,
//! listeners that name existing links.

use std::collections::BTreeSet;

use super::super::errors::did_you_mean;
use super::super::fields::Problems;
use super::super::listener::{Listener, ParsedListener};
use super::goal::DEFAULT_LINK;
use super::settings::{Network, ParsedLink};

/// The most `[[link]]` entries.
pub(crate) const LINKS_MAX: usize = 256;

/// Runs the checks that need all links and listeners.
pub(super) fn across(links: &[ParsedLink], listeners: &[ParsedListener], problems: &Problems) {
    let mut seen = BTreeSet::new();
    for parsed in links {
        let name = parsed.link.name.as_str();
        if !seen.insert(name) {
            let message = format!("link {name} occurs twice");
            problems.at(&parsed.name, message, "give each link a name of its own");
        }
    }
    if let Some(parsed) = links.get(LINKS_MAX) {
        let message = format!("there are more than {LINKS_MAX} links");
        problems.at(&parsed.name, message, "remove the rest");
    }
    let names: Vec<&str> = links.iter().map(|parsed| parsed.link.name.as_str()).collect();
    for parsed in listeners {
        let (Some(name), Some(place)) = (&parsed.listener.link, &parsed.link) else { continue };
        if !seen.contains(name.as_str()) {
            let endpoint = parsed.listener.endpoint();
            let message = format!("listener {endpoint} names a link that does not exist: {name}");
            problems.at(place, message, choose(name, &names));
        }
    }
}

/// Writes "did you mean …", or the names that exist.
fn choose(name: &str, names: &[&str]) -> String {
    match did_you_mean(name, names) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None if names.len() > 8 => "choose an existing link, or add a [[link]]".into(),
        None => {
            let names = [&[DEFAULT_LINK], names].concat().join(", ");
            format!("choose from {names}, or add a [[link]] with this name")
        }
    }
}

/// Returns the names of all links, the default one first.
pub fn known(network: &Network) -> Vec<String> {
    network.all_links().map(|link| link.name.clone()).collect()
}

/// Returns whether a link does not exist; `None` means the default one.
pub fn unknown(network: &Network, name: Option<&str>) -> bool {
    name.is_some_and(|name| network.links.iter().all(|link| link.name != name))
}

/// Describes a contradiction within a configuration's network, checking only the parts that a live change can
/// affect; `None` if there is none.
pub fn wrong(network: &Network, listeners: &[Listener]) -> Option<String> {
    let Network { links, .. } = network;
    let mut seen = BTreeSet::new();
    if let Some(twice) = links.iter().find(|link| !seen.insert(link.name.as_str())) {
        return Some(format!("link {} would occur twice", twice.name));
    }
    if links.len() > LINKS_MAX {
        return Some(format!("there would be more than {LINKS_MAX} links"));
    }
    listeners.iter().find_map(|listener| {
        let name = listener.link.as_deref().filter(|name| !seen.contains(name))?;
        Some(format!("listener {} names link {name}, which does not exist", listener.endpoint()))
    })
}
