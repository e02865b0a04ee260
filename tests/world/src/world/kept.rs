//! Records of a drain that is under way, of reservations in force, of the hosts that may connect, and of
//! their rights.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arbitration::reservation::{Admitted, Reserved};
use fabric::Nanos;
use fabric::controller::{BackendId, HostRights};

/// A drain that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    /// Time that reactors have to settle their commands.
    pub(super) time: Duration,
    /// Time at which reactors must have closed everything.
    pub(super) until: Nanos,
    /// Number of reactors that have not started to drain.
    pub(super) untold: usize,
    /// Step at which the last reactor started to drain.
    pub(super) told: u64,
    /// Number of commands in reactors when they started to drain.
    pub(super) had: usize,
    /// Number of those commands that were answered since.
    pub(super) answered: usize,
}

/// A reservation in force.
#[derive(Clone, Debug)]
pub(super) struct Granted {
    pub(super) backend: BackendId,
    pub(super) session: String,
    pub(super) admitted: Admitted,
    pub(super) reserved: Arc<Reserved>,
}

/// The rights of a host.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    pub(super) rights: HostRights,
    /// Time of their last change.
    pub(super) since: Nanos,
    /// Number of the host's commands with a class above its highest, once the commands from before the change are
    /// answered.
    pub(super) above: Option<u64>,
}

/// The hosts that may connect.
#[derive(Debug, Default)]
pub(super) struct Access {
    /// Whether hosts that are not listed may not connect.
    pub(super) listed_only: bool,
    /// Whether each listed host may come from where it is, by its NQN.
    pub(super) listed: HashMap<String, bool>,
}

impl Access {
    /// Returns whether a host may connect.
    pub(super) fn admits(&self, host: &str) -> bool {
        self.listed.get(host).copied().unwrap_or(!self.listed_only)
    }
}
