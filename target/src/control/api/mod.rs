//! The control plane: requests over a local socket, answered with the running target's state or
//! with a change that takes effect at once and survives a restart.
//!
//! [`Control`] is the meaning of a request; [`Server`] is the thread with the sockets.

mod apply;
mod audit;
mod caller;
mod change;
mod clients;
mod dry_run;
mod error;
mod events;
mod force;
mod hosts;
mod http;
mod in_use;
mod live_changes;
mod look;
mod measured;
mod methods;
mod named;
mod network;
mod object;
pub(crate) mod occupant;
mod parameters;
mod pmem;
mod protocol;
mod qos;
mod reload;
mod server;
mod show;
mod socket;
mod traces;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use sluice_config::{Config, Method, TargetConfig};

pub use error::ControlError;
pub use protocol::{ErrorKind, Failure, LINE_MAX};
pub use server::{CLIENTS_MAX, Server};
pub use sluice_config::answer::Reloaded;

use self::audit::Audit;
use self::caller::{Caller, Groups};
use super::log::Log;
use super::metrics::Metrics;
use super::ready;
use super::store::{Live, LiveObjects};
use crate::serve::engine::{Engine, EngineHandle};
use crate::sys::sync::lock;

/// The parameter of methods that change the configuration, by which they only show their changes.
const DRY_RUN: &str = "dry_run";

/// Checks that this machine has the groups that may use the control socket.
///
/// # Errors
/// It has no such group.
pub(crate) fn check_groups(config: &TargetConfig) -> Result<(), ControlError> {
    Groups::find(config).map(drop)
}

/// The state that requests act on.
#[derive(Debug)]
pub struct Control {
    engine: EngineHandle,
    /// The live configuration; its lock makes changes one at a time.
    live: Arc<Mutex<Live>>,
    /// The objects that differed from the file when they were looked at last.
    live_objects: Mutex<Arc<LiveObjects>>,
    metrics: Metrics,
    durable: bool,
    started: Instant,
    /// The configuration file; `None` where the embedded configuration runs.
    file: Option<PathBuf>,
    /// The configuration with which the target was started.
    first: Config,
    /// Whether `shutdown` was called.
    told_to_end: AtomicBool,
    /// The record of changes that were asked for.
    audit: Audit,
    log: Log,
    /// The changes that a dry run would make, once they are known; `None`: changes are made.
    planned: Option<Mutex<Option<Reloaded>>>,
}

impl Control {
    /// Makes the control plane of an engine that runs `live`'s present configuration.
    #[must_use]
    pub fn new(engine: Arc<dyn Engine>, live: Live) -> Arc<Self> {
        Self::of_file(engine, live, None, Log::default())
    }

    /// Makes the control plane of an engine that runs a configuration file, which `reload` reads
    /// again; `None` stands for the embedded configuration.
    #[must_use]
    pub fn of_file(
        engine: Arc<dyn Engine>,
        live: Live,
        file: Option<PathBuf>,
        log: Log,
    ) -> Arc<Self> {
        engine.forget_removed_identities(live.file(), live.current());
        let engine = EngineHandle(engine);
        Arc::new(Self {
            metrics: Metrics::new(engine.clone()),
            engine,
            durable: live.durable(),
            started: Instant::now(),
            file,
            first: live.current().clone(),
            live: Arc::new(Mutex::new(live)),
            live_objects: Mutex::default(),
            told_to_end: AtomicBool::new(false),
            audit: Audit::new(),
            log,
            planned: None,
        })
    }

    /// Returns whether the method `shutdown` was called, so that the daemon stays down.
    #[must_use]
    pub fn was_told_to_end(&self) -> bool {
        self.told_to_end.load(Ordering::Relaxed)
    }

    /// Answers one line of the control protocol with one line, both without the newline.
    #[must_use]
    pub fn handle(&self, line: &[u8]) -> String {
        self.handle_of(line, &Caller::own())
    }

    /// Answers one line of a caller, who can only read without permission to change the target. Changes are logged
    /// with their caller.
    fn handle_of(&self, line: &[u8], caller: &Caller) -> String {
        self.audit.tell();
        protocol::answer(line, |method, params| {
            if !Method::from_name(method).is_some_and(Method::changes) {
                return self.call(method, params);
            }
            if params.get(DRY_RUN).is_some() {
                return caller.may_change().and_then(|()| self.call_dry(method, params));
            }
            let result = caller.may_change().and_then(|()| self.call(method, params));
            self.audit.record(caller, method, params, &result);
            result
        })
    }

    /// Returns the OpenMetrics text.
    ///
    /// # Errors
    /// The text could not be made.
    pub fn metrics(&self) -> Result<String, std::fmt::Error> {
        self.metrics.text()
    }

    /// Returns whether the target serves hosts: all listeners are open, and it is not ending.
    ///
    /// # Errors
    /// It does not, with the reason.
    pub fn readiness(&self) -> Result<(), String> {
        ready::check(self.engine())
    }

    /// Looks up the groups that may use the control socket.
    fn groups(&self) -> Result<Groups, ControlError> {
        Groups::find(&self.first.target)
    }

    fn engine(&self) -> &dyn Engine {
        self.engine.0.as_ref()
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        lock(&self.live)
    }
}

#[cfg(test)]
mod force_tests;
#[cfg(test)]
mod host_keys_tests;
#[cfg(test)]
mod live_changes_tests;
#[cfg(test)]
mod network_tests;
#[cfg(test)]
mod pmem_tests;
#[cfg(test)]
mod qos_tests;
#[cfg(test)]
mod reload_tests;
#[cfg(test)]
pub(crate) mod test_engine;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod wire_tests;
