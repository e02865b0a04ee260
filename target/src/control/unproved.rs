//! Hosts whose TLS keys do not protect them: a subsystem of theirs is also served without TLS, and without a
//! secret, anyone can connect there under the host's NQN. If keys are in a keyring of the kernel, the daemon does
//! not know which hosts have keys: one warning covers them all. Also hosts with secrets or TLS keys that no
//! subsystem allows: most often their NQN is mistyped.

use std::collections::BTreeSet;
use std::fmt;

use fabric::controller::SecureChannel;
use sluice_config::{Config, Listener, Subsystem, Transport};

use crate::serve::engine::SubsystemState;
use crate::serve::host_keys::HostKeys;
use crate::serve::tls;
use crate::sys::words::list;

/// The most hosts that one list of warnings names.
const LINES: usize = 10;

/// A case in which secrets or TLS keys protect nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unproved {
    /// TLS keys in a keyring of the kernel, with listeners that do not require TLS.
    Keyring {
        /// Its name.
        name: String,
        /// The listeners that do not require TLS.
        listeners: Vec<String>,
    },
    /// The TLS key of a host without a secret, in a subsystem that is also served without TLS.
    Host {
        /// Its NQN.
        host: String,
        /// The subsystem's NQN.
        subsystem: String,
        /// The listeners without TLS.
        listeners: Vec<String>,
    },
    /// The secrets or TLS keys of a host that no subsystem allows, by its NQN.
    Unallowed(String),
    /// A host that a subsystem lists, and whose last secret or TLS key is gone.
    Opened {
        /// Its NQN.
        host: String,
        /// The subsystem's NQN.
        subsystem: String,
    },
}

impl fmt::Display for Unproved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyring { name, listeners } => write!(
                f,
                "a host that has its TLS key in the keyring {name} alone, and no secret, is believed \
                 without it where TLS is not required ({}): give such hosts secrets (sluice host key \
                 set), or their subsystems no such listener",
                list(listeners)
            ),
            Self::Host { host, subsystem, listeners } => write!(
                f,
                "the TLS key of host {host} proves nothing in subsystem {subsystem}, which is served \
                 without TLS, too ({}): give the host a secret (sluice host key set), or the subsystem \
                 no listener without TLS",
                list(listeners)
            ),
            Self::Unallowed(host) => write!(
                f,
                "host {host} has a secret or a TLS key, and no subsystem allows it: correct its \
                 NQN, allow it (sluice host add SUBSYSTEM {host}), or remove its keys (sluice host \
                 key remove {host})"
            ),
            Self::Opened { host, subsystem } => write!(
                f,
                "host {host} has no secret and no TLS key any more, and anyone could connect to {subsystem} under its \
                 NQN: give it one (sluice host key set), remove it (sluice host remove {subsystem} {host}), or set \
                 require_authentication"
            ),
        }
    }
}

/// Returns the reasons for which a reload does not take `keys` in place of those `before`: a new one is of a host that
/// no subsystem allows, so that its NQN is mistyped, or the host must be allowed first. Or the last one of a host goes,
/// and anyone could connect under its NQN.
pub(crate) fn key_refusals(config: &Config, before: &HostKeys, keys: &HostKeys) -> Vec<Unproved> {
    let mut found = unallowed(keys, &Allowed::in_config(config));
    found.retain(|one| matches!(one, Unproved::Unallowed(host) if !before.contains_key(host)));
    for host in before.keys().filter(|host| !keys.contains_key(*host)) {
        let opens = |subsystem: &&Subsystem| {
            let is_listed = subsystem.hosts.iter().any(|listed| listed.nqn == *host);
            let required = requires_authentication(config, subsystem);
            let is_open = |listener: &Listener| {
                let tls =
                    listener.transport == Transport::Tcp && listener.tls == SecureChannel::Required;
                serves(listener, subsystem) && !listener.require_authentication && !tls
            };
            is_listed && !required && config.listeners.iter().any(is_open)
        };
        found.extend(config.subsystems.iter().find(opens).map(|subsystem| {
            let (host, subsystem) = (host.clone(), subsystem.nqn.clone());
            Unproved::Opened { host, subsystem }
        }));
    }
    found
}

/// Finds secrets and TLS keys that protect nothing: first in a keyring, then in hosts' files.
pub(crate) fn find(config: &Config, keys: &HostKeys) -> BTreeSet<Unproved> {
    let mut found = hosts(config, keys);
    found.extend(keyring(config));
    found.extend(unallowed(keys, &Allowed::in_config(config)));
    found
}

/// The hosts that the subsystems allow together.
#[derive(Debug)]
pub(crate) struct Allowed<'a> {
    /// Whether a subsystem allows any host.
    any: bool,
    /// The NQNs of the hosts that subsystems allow by name.
    hosts: BTreeSet<&'a str>,
}

impl<'a> Allowed<'a> {
    fn in_config(config: &'a Config) -> Self {
        let subsystems = &config.subsystems;
        Self {
            any: subsystems.iter().any(|subsystem| subsystem.allow_any_host),
            hosts: subsystems.iter().flat_map(|s| &s.hosts).map(|host| host.nqn.as_str()).collect(),
        }
    }

    /// Returns the hosts that the present subsystems allow.
    pub(crate) fn by(subsystems: &'a [SubsystemState]) -> Self {
        Self {
            any: subsystems.iter().any(|subsystem| subsystem.allow_any_host),
            hosts: subsystems.iter().flat_map(|s| &s.hosts).map(String::as_str).collect(),
        }
    }

    /// Returns whether a subsystem allows a host by its NQN.
    pub(crate) fn lists(&self, host: &str) -> bool {
        self.hosts.contains(host)
    }

    /// Returns whether a subsystem allows a host by its NQN, or any host.
    pub(crate) fn has(&self, host: &str) -> bool {
        self.any || self.lists(host)
    }
}

/// Finds the hosts with secrets or TLS keys that no subsystem allows.
pub(crate) fn unallowed(keys: &HostKeys, allowed: &Allowed<'_>) -> Vec<Unproved> {
    let hosts = keys.keys().filter(|host| !allowed.has(host));
    hosts.cloned().map(Unproved::Unallowed).collect()
}

/// Writes the warnings of a start about secrets and TLS keys: whether the keyring can be used, too.
pub(crate) fn at_start(config: &Config, keys: &HostKeys) -> Vec<String> {
    let mut warnings = lines(&find(config, keys));
    warnings.extend(keyring_doubt(config));
    warnings
}

/// Returns why the keyring of a configuration cannot be used.
pub(crate) fn keyring_doubt(config: &Config) -> Option<String> {
    config.target.keyring.as_deref().and_then(tls::keyring_doubt)
}

/// Returns whether a subsystem's hosts must authenticate at every listener.
pub(crate) fn requires_authentication(config: &Config, subsystem: &Subsystem) -> bool {
    config.target.require_authentication || subsystem.require_authentication
}

/// Finds the hosts whose TLS keys prove nothing, by subsystem.
fn hosts(config: &Config, keys: &HostKeys) -> BTreeSet<Unproved> {
    let with_key_alone = |host: &str| {
        keys.get(host).is_some_and(|file| !file.tls_keys.is_empty() && file.secrets.is_none())
    };
    let mut found = BTreeSet::new();
    for subsystem in &config.subsystems {
        let required = requires_authentication(config, subsystem);
        let open = |listener: &&Listener| {
            !required && !listener.require_authentication && lets_in(listener, subsystem)
        };
        let open = config.listeners.iter().filter(open);
        let listeners: Vec<String> = open.map(|open| open.endpoint().to_string()).collect();
        if listeners.is_empty() {
            continue;
        }
        let known = keys.keys().filter(|_| subsystem.allow_any_host);
        let listed = subsystem.hosts.iter().map(|host| &host.nqn);
        for host in known.chain(listed).filter(|host| with_key_alone(host)) {
            let (host, subsystem) = (host.clone(), subsystem.nqn.clone());
            found.insert(Unproved::Host { host, subsystem, listeners: listeners.clone() });
        }
    }
    found
}

/// Finds the listeners where the keys of a keyring of the kernel prove nothing.
fn keyring(config: &Config) -> Option<Unproved> {
    let name = config.target.keyring.clone()?;
    let subsystems = &config.subsystems;
    let all = !subsystems.is_empty() && subsystems.iter().all(|s| s.require_authentication);
    let required = config.target.require_authentication || all;
    let open = |listener: &&Listener| {
        let must = listener.transport == Transport::Tcp && listener.tls == SecureChannel::Required;
        let must = must || required || listener.require_authentication;
        !must && !listener.discovery_only
    };
    let open = config.listeners.iter().filter(open);
    let listeners: Vec<String> = open.map(|open| open.endpoint().to_string()).collect();
    (!listeners.is_empty()).then_some(Unproved::Keyring { name, listeners })
}

/// Returns whether a listener admits hosts with TLS keys to a subsystem without TLS.
fn lets_in(listener: &Listener, subsystem: &Subsystem) -> bool {
    let without = listener.transport == Transport::Rdma || listener.tls == SecureChannel::Off;
    serves(listener, subsystem) && without
}

fn serves(listener: &Listener, subsystem: &Subsystem) -> bool {
    let served = listener.subsystems.as_ref().is_none_or(|served| served.contains(&subsystem.nqn));
    served && !listener.discovery_only
}

/// Writes warnings, a line for each of the first ones and one for the rest.
pub(crate) fn lines<'a>(found: impl IntoIterator<Item = &'a Unproved>) -> Vec<String> {
    let mut found = found.into_iter();
    let mut lines: Vec<String> = found.by_ref().take(LINES).map(Unproved::to_string).collect();
    let rest = found.count();
    if rest > 0 {
        lines.push(format!("warnings about the keys of {rest} more hosts are left out"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::host_keys::tests::key_file;
    use sluice_config::testing::parse;

    const OWN: &str = "nqn.2026-01.io.x:s";

    fn keys(hosts: usize, key: bool, secret: bool) -> HostKeys {
        (0..hosts).map(|n| key_file(&format!("nqn.2026-01.io.x:h{n}"), secret, key)).collect()
    }

    #[test]
    fn a_key_proves_nothing_where_its_host_gets_in_without_tls_and_without_a_secret() {
        let listeners = [
            ("", true),
            ("tls = \"allowed\"", false),
            ("tls = \"required\"", false),
            ("transport = \"rdma\"", true),
            ("discovery_only = true", false),
            ("subsystems = [\"nqn.2026-01.io.x:other\"]", false),
            ("subsystems = [\"nqn.2026-01.io.x:s\"]", true),
            ("require_authentication = true", false),
        ];
        let hosts = [
            ("hosts = [\"nqn.2026-01.io.x:h0\"]", true),
            ("allow_any_host = true", true),
            ("hosts = [\"nqn.2026-01.io.x:h1\"]", false),
        ];
        for (listener, open) in listeners {
            for (hosts, gets_in) in hosts {
                let text = format!(
                    "[[listener]]\naddress = \"10.0.0.1:4420\"\ntls = \"required\"\n\
                     [[listener]]\naddress = \"10.0.0.1:4421\"\n{listener}\n\
                     [[subsystem]]\nnqn = \"nqn.2026-01.io.x:other\"\n\
                     [[subsystem]]\nnqn = \"{OWN}\"\n{hosts}\n"
                );
                let config = parse(&text).unwrap();
                for (key, secret) in [(true, false), (true, true), (false, true)] {
                    let found = find(&config, &keys(1, key, secret)).into_iter();
                    let (unallowed, found): (Vec<_>, Vec<_>) =
                        found.partition(|one| matches!(one, Unproved::Unallowed(_)));
                    assert_eq!(unallowed.len(), usize::from(!gets_in), "{text}");
                    let expected = open && gets_in && key && !secret;
                    assert_eq!(found.len(), usize::from(expected), "{text} {key} {secret}");
                    for line in lines(&found) {
                        for part in ["host nqn.2026-01.io.x:h0 ", OWN, "10.0.0.1:4421)"] {
                            assert!(line.contains(part), "{part}: {line}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn keys_of_a_keyring_prove_nothing_where_tls_is_not_required() {
        for (listener, open) in [
            ("", true),
            ("tls = \"allowed\"", true),
            ("tls = \"required\"", false),
            ("transport = \"rdma\"", true),
            ("discovery_only = true", false),
            ("require_authentication = true", false),
        ] {
            let text = format!("[[listener]]\naddress = \"10.0.0.1:4420\"\n{listener}\n");
            let said = |text: &str| lines(&find(&parse(text).unwrap(), &HostKeys::default()));
            assert_eq!(said(&text), [""; 0], "no keyring");
            let said = said(&format!("[target]\nkeyring = \".nvme\"\n{text}"));
            assert_eq!(said.len(), usize::from(open), "{text}");
            let names = |said: &String| said.contains(".nvme") && said.contains("10.0.0.1:4420)");
            assert!(said.iter().all(names));
        }
        for required in [
            "require_authentication = true\n[[listener]]\naddress = \"10.0.0.1:4420\"\n",
            "[[listener]]\naddress = \"10.0.0.1:4420\"\n\
             [[subsystem]]\nnqn = \"nqn.2026-01.io.x:s\"\nrequire_authentication = true\n",
        ] {
            let text = format!("[target]\nkeyring = \".nvme\"\n{required}");
            assert_eq!(find(&parse(&text).unwrap(), &HostKeys::default()), BTreeSet::new());
        }
    }

    #[test]
    fn host_with_a_secret_that_no_subsystem_allows_is_named() {
        let said = |rest: &str| {
            let text = format!(
                "[[subsystem]]\nnqn = \"{OWN}\"\nhosts = [\"nqn.2026-01.io.x:h0\"]\n{rest}"
            );
            lines(&find(&parse(&text).unwrap(), &keys(2, false, true)))
        };
        let seen = said("");
        let [line] = &seen[..] else { panic!("{seen:?}") };
        for part in [
            "host nqn.2026-01.io.x:h1 has a secret",
            "sluice host add SUBSYSTEM nqn.2026-01.io.x:h1",
            "sluice host key remove nqn.2026-01.io.x:h1",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert_eq!(said("allow_any_host = true\n"), [""; 0]);
        let other = "[[subsystem]]\nnqn = \"nqn.2026-01.io.x:t\"\nallow_any_host = true\n";
        assert_eq!(said(other), [""; 0], "one subsystem is enough");
    }

    #[test]
    fn warnings_without_end_are_a_few_lines() {
        let text = format!(
            "[[listener]]\naddress = \"10.0.0.1:4420\"\n\
             [[subsystem]]\nnqn = \"{OWN}\"\nallow_any_host = true\n"
        );
        let found = find(&parse(&text).unwrap(), &keys(500, true, false));
        assert_eq!(found.len(), 500);
        let lines = lines(&found);
        assert_eq!(lines.len(), LINES + 1);
        assert!(lines.last().unwrap().contains(" 490 more hosts"), "{lines:?}");
    }
}
