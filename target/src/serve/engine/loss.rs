//! The loss that a change brings to hosts that are connected or may come back.

use sluice_config::answer::LostHost;
use sluice_config::{AllowedHost, Endpoint, RegionConfig};

/// The hosts that would lose something by a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HurtHosts {
    /// NQNs of connected hosts, each once.
    pub connected: Vec<String>,
    /// Hosts that are not connected, did not shut down and may come back, each once.
    pub lost: Vec<LostHost>,
}

impl HurtHosts {
    /// Returns whether there are no such hosts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.connected.is_empty() && self.lost.is_empty()
    }
}

/// The loss that a change brings to hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss<'a> {
    /// A subsystem, by its NQN.
    Subsystem(&'a str),
    /// A namespace, by its subsystem's NQN and its NSID.
    Namespace(&'a str, u32),
    /// The blocks beyond a namespace's new size in bytes; without one, beyond the size that its
    /// file or device has now. Nothing is lost where the new size is not less than the present one.
    Size(&'a str, u32, Option<u64>),
    /// A listener.
    Listener(Endpoint),
    /// A region of persistent memory that becomes another one, or without that goes away.
    Region(&'a RegionConfig, Option<&'a RegionConfig>),
    /// The permission to connect to a subsystem, by its NQN, without authentication.
    Authentication(&'a str),
    /// The permission to use a subsystem, for hosts that could not have connected with these settings; and
    /// namespaces, or the right to write to them, for the other hosts.
    Access {
        /// The subsystem's NQN.
        nqn: &'a str,
        /// Whether any host may connect then.
        any: bool,
        /// The hosts that may connect then.
        hosts: &'a [AllowedHost],
    },
}
