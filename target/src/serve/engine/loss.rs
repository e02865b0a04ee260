//! The loss that a change brings to hosts, those that are connected and those that may come back.

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
    /// Says whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.connected.is_empty() && self.lost.is_empty()
    }
}

/// What a change takes from hosts.
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
    /// The permission to use a subsystem, of all hosts that could not connect as they have where it
    /// had these hosts; and namespaces, or the right to write to them, of those that could.
    Access {
        /// The subsystem's NQN.
        nqn: &'a str,
        /// Whether any host may connect then.
        any: bool,
        /// The hosts that may connect then.
        hosts: &'a [AllowedHost],
    },
}
