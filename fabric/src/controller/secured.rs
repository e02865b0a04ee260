//! The daemon's reports about TLS to the service: connections over TLS, and hosts with keys.

use std::sync::Arc;

use super::{ConnectionId, GeneratedKeys, KeyNames, Service};

impl Service {
    /// Notes that an accepted connection is over TLS, with a key for these names: a Connect with others is refused.
    pub fn secured(&mut self, connection: ConnectionId, names: KeyNames) {
        self.channels.add(connection, names);
    }

    /// Enables the generation of TLS keys during authentication, for hosts that request one; `keys` stores them. Called
    /// at most once, before hosts connect; without it such hosts are refused.
    pub fn set_generated_keys(&mut self, keys: Arc<dyn GeneratedKeys>) {
        self.gate.set_keys(keys);
    }

    /// Sets whether a host has a TLS key. On a listener that allows TLS, its connections must be
    /// over TLS from now on. Present connections stay, and hosts of discovery are notified.
    pub fn set_tls_key(&mut self, host: &str, has: bool) {
        if self.channels.set_key(host, has) {
            self.discovery_changed(|controller| controller.host() == host);
        }
    }
}
