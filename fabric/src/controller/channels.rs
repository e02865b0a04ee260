//! Connections over TLS: the names that the key of each is for, and the hosts that have keys.

use std::collections::{HashMap, HashSet};

use super::{ConnectionId, Refusal, SecureChannel};

/// The host and the subsystem that a TLS key is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyNames {
    /// The host's NQN.
    pub host: String,
    /// The subsystem's NQN.
    pub subsystem: String,
    /// Whether an authentication has made the key: then the host need not prove itself again.
    pub generated: bool,
}

/// The connections over TLS, and the hosts that must use it.
#[derive(Debug, Default)]
pub(super) struct Channels {
    names: HashMap<ConnectionId, KeyNames>,
    /// The hosts that have TLS keys.
    hosts: HashSet<String>,
}

impl Channels {
    /// Returns why a Connect of a host to a subsystem is refused on a connection of a listener with this TLS mode;
    /// `None`: it is not.
    pub(super) fn refusal(
        &self,
        connection: ConnectionId,
        (host, subsystem): (&str, &str),
        channel: SecureChannel,
    ) -> Option<Refusal> {
        match self.names.get(&connection) {
            Some(names) if names.host != host => Some(Refusal::OtherTlsHost),
            Some(names) if names.subsystem != subsystem => Some(Refusal::OtherTlsSubsystem),
            Some(_) => None,
            None => {
                let must = match channel {
                    SecureChannel::Off => false,
                    SecureChannel::Allowed => self.hosts.contains(host),
                    SecureChannel::Required => true,
                };
                must.then_some(Refusal::NoTls)
            }
        }
    }

    /// Notes the names that the key of a connection is for.
    pub(super) fn add(&mut self, connection: ConnectionId, names: KeyNames) {
        self.names.insert(connection, names);
    }

    /// Returns the names that the key of a connection is for; `None`: it is not over TLS.
    pub(super) fn names(&self, connection: ConnectionId) -> Option<&KeyNames> {
        self.names.get(&connection)
    }

    /// Returns whether the key of a connection proves its host: an authentication has made it.
    pub(super) fn proves(&self, connection: ConnectionId) -> bool {
        self.names(connection).is_some_and(|names| names.generated)
    }

    /// Sets whether a host has a TLS key. Returns whether that is another answer than before.
    pub(super) fn set_key(&mut self, host: &str, has: bool) -> bool {
        match has {
            true => self.hosts.insert(host.to_owned()),
            false => self.hosts.remove(host),
        }
    }

    /// Returns whether a host has a TLS key.
    pub(super) fn has_key(&self, host: &str) -> bool {
        self.hosts.contains(host)
    }

    pub(super) fn forget(&mut self, connection: ConnectionId) {
        self.names.remove(&connection);
    }
}
