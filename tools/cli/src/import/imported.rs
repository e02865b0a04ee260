//! The imported configuration in the terms of this target, and its text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sluice_config::{DISCOVERY_NQN, Lines, quote, quote_list};

/// A configuration in the terms of this target.
#[derive(Debug, Default)]
pub(super) struct Imported {
    /// Keys of `[target]` with their TOML values.
    pub(super) target: BTreeMap<&'static str, String>,
    pub(super) listeners: Vec<Listener>,
    pub(super) subsystems: Vec<Subsystem>,
    /// Addresses at which the discovery subsystem is offered, and whether over RDMA.
    pub(super) discovery: Vec<(String, bool)>,
    /// Sessions with limits: the name, and keys with their TOML values.
    pub(super) sessions: BTreeMap<String, BTreeMap<&'static str, String>>,
    /// Settings without a counterpart, each with a substitute.
    pub(super) notes: Vec<String>,
}

/// An address, and the subsystems that are offered there.
#[derive(Debug)]
pub(super) struct Listener {
    address: String,
    rdma: bool,
    tls: Option<&'static str>,
    subsystems: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct Subsystem {
    pub(super) nqn: String,
    pub(super) serial: Option<String>,
    pub(super) model: Option<String>,
    pub(super) allow_any_host: bool,
    pub(super) require_authentication: bool,
    pub(super) hosts: Vec<String>,
    pub(super) namespaces: Vec<Namespace>,
}

#[derive(Debug, Default)]
pub(super) struct Namespace {
    pub(super) nsid: u32,
    /// Keys with their TOML values, without `nsid`.
    pub(super) keys: Vec<(&'static str, String)>,
}

/// Returns an NGUID as 32 hexadecimal digits; `None` where it is not set.
fn nguid(text: &str) -> Option<String> {
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let is_set = digits.len() == 32 && digits.chars().any(|digit| digit != '0');
    is_set.then(|| digits.to_ascii_lowercase())
}

/// Returns the keys that name a file or a block device.
pub(super) fn path_keys(path: &str) -> Vec<(&'static str, String)> {
    let backend = if path.starts_with("/dev/") { "block" } else { "file" };
    vec![("backend", quote(backend)), ("path", quote(path))]
}

impl Namespace {
    /// Returns a namespace that hosts recognize by its identifiers, where they are set.
    pub(super) fn new(
        nsid: u32,
        mut keys: Vec<(&'static str, String)>,
        uuid: Option<String>,
        guid: Option<String>,
    ) -> Self {
        if let Some(uuid) = uuid.filter(|uuid| nguid(uuid).is_some()) {
            keys.push(("uuid", quote(&uuid)));
        }
        if let Some(nguid) = guid.and_then(|text| nguid(&text)) {
            keys.push(("nguid", quote(&nguid)));
        }
        if keys.iter().any(|(_, value)| value == "\"block\"") {
            // The daemon has not served the device before, and its data is wanted.
            keys.push(("force", "true".to_owned()));
        }
        Self { nsid, keys }
    }
}

impl Imported {
    /// Notes that hosts lose the reservations of a namespace.
    pub(super) fn note_reservations(&mut self, nsid: u32, nqn: &str) {
        self.note(format!(
            "Namespace {nsid} of {nqn} has persistent reservations. Nothing replaces them: a cluster needs another way \
             to fence its hosts"
        ));
    }

    /// Notes a setting without a counterpart, once.
    pub(super) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Adds an address at which a subsystem is offered.
    pub(super) fn listen(
        &mut self,
        (address, rdma): (String, bool),
        tls: Option<&'static str>,
        nqn: &str,
    ) {
        if nqn == DISCOVERY_NQN {
            self.discovery.push((address, rdma));
            return;
        }
        let found =
            self.listeners.iter_mut().find(|one| one.address == address && one.rdma == rdma);
        match found {
            Some(found) => {
                found.tls = found.tls.or(tls);
                if !found.subsystems.iter().any(|other| other == nqn) {
                    found.subsystems.push(nqn.to_owned());
                }
            }
            None => self.listeners.push(Listener {
                address,
                rdma,
                tls,
                subsystems: vec![nqn.to_owned()],
            }),
        }
    }

    /// Returns the subsystem of an NQN.
    pub(super) fn subsystem(&mut self, nqn: &str) -> Option<&mut Subsystem> {
        self.subsystems.iter_mut().find(|one| one.nqn == nqn)
    }

    /// Writes the configuration.
    pub(super) fn render(&self, source: &str) -> String {
        let mut text = format!("# Imported from {source}.\n");
        if !self.notes.is_empty() {
            text.push_str("#\n# Not imported:\n");
        }
        for note in &self.notes {
            let _ = writeln!(text, "# - {}", note.replace('\n', " "));
        }
        let mut lines = Lines::default();
        lines.title("[target]");
        lines.raw("state", quote("/var/lib/sluicegate/state.redb"));
        if self.subsystems.iter().any(|one| one.require_authentication) {
            lines.raw("host_keys", quote("/etc/sluicegate/keys"));
        }
        for (name, value) in &self.target {
            lines.raw(name, value);
        }
        for (name, keys) in &self.sessions {
            lines.title("[[session]]");
            lines.raw("name", quote(name));
            keys.iter().for_each(|(name, value)| lines.raw(name, value));
        }
        for listener in &self.listeners {
            lines.title("[[listener]]");
            lines.raw("address", quote(&listener.address));
            if listener.rdma {
                lines.raw("transport", quote("rdma"));
            }
            if let Some(tls) = listener.tls {
                lines.raw("tls", quote(tls));
            }
            let offers = |one: &Subsystem| listener.subsystems.contains(&one.nqn);
            if !self.subsystems.iter().all(offers) {
                lines.raw("subsystems", quote_list(&listener.subsystems));
            }
        }
        for (address, rdma) in &self.discovery {
            if self.listeners.iter().any(|one| one.address == *address && one.rdma == *rdma) {
                continue;
            }
            lines.title("[[listener]]");
            lines.raw("address", quote(address));
            if *rdma {
                lines.raw("transport", quote("rdma"));
            }
            lines.raw("discovery_only", "true");
        }
        for subsystem in &self.subsystems {
            lines.title("[[subsystem]]");
            lines.raw("nqn", quote(&subsystem.nqn));
            for (name, value) in [("serial", &subsystem.serial), ("model", &subsystem.model)] {
                if let Some(value) = value {
                    lines.raw(name, quote(value));
                }
            }
            if subsystem.allow_any_host {
                lines.raw("allow_any_host", "true");
            }
            if subsystem.require_authentication {
                lines.raw("require_authentication", "true");
            }
            if !subsystem.hosts.is_empty() {
                lines.raw("hosts", quote_list(&subsystem.hosts));
            }
            for namespace in &subsystem.namespaces {
                lines.title("[[subsystem.namespace]]");
                lines.raw("nsid", namespace.nsid);
                namespace.keys.iter().for_each(|(name, value)| lines.raw(name, value));
            }
        }
        text + "\n" + &lines.into_text()
    }
}
