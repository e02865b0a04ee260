//! The imported configuration in the terms of this target, and its text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

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

/// NQN of the discovery subsystem, which every target has by itself.
const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";

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

/// Writes a TOML string.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            _ if char.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(char));
            }
            _ => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}

/// Writes a TOML list of strings.
pub(super) fn list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", quoted.join(", "))
}

/// Writes an IP address with its port.
pub(super) fn endpoint(address: &str, port: &str) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

/// Returns an NGUID as 32 hexadecimal digits; `None` where it is not set.
pub(super) fn nguid(text: &str) -> Option<String> {
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let is_set = digits.len() == 32 && digits.chars().any(|digit| digit != '0');
    is_set.then(|| digits.to_ascii_lowercase())
}

/// Returns the keys that name a file or a block device.
pub(super) fn path_keys(path: &str) -> Vec<(&'static str, String)> {
    let backend = if path.starts_with("/dev/") { "block" } else { "file" };
    vec![("backend", quoted(backend)), ("path", quoted(path))]
}

impl Imported {
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
        if nqn == DISCOVERY {
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
        let table = |text: &mut String, head: &str| {
            let _ = write!(text, "\n{head}\n");
        };
        let key = |text: &mut String, key: &str, value: &str| {
            let _ = writeln!(text, "{key} = {value}");
        };
        table(&mut text, "[target]");
        key(&mut text, "state", "\"/var/lib/sluicegate/state.redb\"");
        if self.subsystems.iter().any(|one| one.require_authentication) {
            key(&mut text, "host_keys", "\"/etc/sluicegate/keys\"");
        }
        for (name, value) in &self.target {
            key(&mut text, name, value);
        }
        for (name, keys) in &self.sessions {
            table(&mut text, "[[session]]");
            key(&mut text, "name", &quoted(name));
            keys.iter().for_each(|(name, value)| key(&mut text, name, value));
        }
        for listener in &self.listeners {
            table(&mut text, "[[listener]]");
            key(&mut text, "address", &quoted(&listener.address));
            if listener.rdma {
                key(&mut text, "transport", "\"rdma\"");
            }
            if let Some(tls) = listener.tls {
                key(&mut text, "tls", &quoted(tls));
            }
            let offers = |one: &Subsystem| listener.subsystems.contains(&one.nqn);
            if !self.subsystems.iter().all(offers) {
                key(&mut text, "subsystems", &list(&listener.subsystems));
            }
        }
        for (address, rdma) in &self.discovery {
            if self.listeners.iter().any(|one| one.address == *address && one.rdma == *rdma) {
                continue;
            }
            table(&mut text, "[[listener]]");
            key(&mut text, "address", &quoted(address));
            if *rdma {
                key(&mut text, "transport", "\"rdma\"");
            }
            key(&mut text, "discovery_only", "true");
        }
        for subsystem in &self.subsystems {
            table(&mut text, "[[subsystem]]");
            key(&mut text, "nqn", &quoted(&subsystem.nqn));
            for (name, value) in [("serial", &subsystem.serial), ("model", &subsystem.model)] {
                if let Some(value) = value {
                    key(&mut text, name, &quoted(value));
                }
            }
            if subsystem.allow_any_host {
                key(&mut text, "allow_any_host", "true");
            }
            if subsystem.require_authentication {
                key(&mut text, "require_authentication", "true");
            }
            if !subsystem.hosts.is_empty() {
                key(&mut text, "hosts", &list(&subsystem.hosts));
            }
            for namespace in &subsystem.namespaces {
                table(&mut text, "[[subsystem.namespace]]");
                key(&mut text, "nsid", &namespace.nsid.to_string());
                namespace.keys.iter().for_each(|(name, value)| key(&mut text, name, value));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted_as_toml_has_them() {
        assert_eq!(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000A\"");
    }
}
