//! Stage S6 in the daemon: what the configuration and live changes say of links and classes, and
//! what connections get of the network.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::config::Network;
use crate::engine::NetworkState;
use crate::shared::lock;

/// Stage S6, as all threads share it.
#[derive(Debug)]
pub(crate) struct NetworkShared {
    version: AtomicU64,
    config: Mutex<Network>,
}

impl NetworkShared {
    /// With the settings of a configuration.
    pub(crate) fn new(config: &Network) -> Self {
        Self { version: AtomicU64::new(1), config: Mutex::new(config.clone()) }
    }

    /// The version of the present settings.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The present settings.
    pub(crate) fn config(&self) -> Network {
        lock(&self.config).clone()
    }

    /// Replaces the settings.
    pub(crate) fn set(&self, config: &Network) {
        *lock(&self.config) = config.clone();
        self.version.fetch_add(1, Ordering::Release);
    }

    /// What classes get now.
    pub(crate) fn state(&self) -> NetworkState {
        NetworkState { enabled: self.config().enabled, ..NetworkState::default() }
    }
}
