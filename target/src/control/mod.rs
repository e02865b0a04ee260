//! The control plane: requests over a local socket, answered with the running target's state or
//! with a change that takes effect at once and survives a restart.
//!
//! [`Control`] is the meaning of a request; [`Server`] is the thread with the sockets.

mod change;
mod clients;
mod error;
mod force;
mod hosts;
mod http;
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

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

pub use error::ControlError;
pub use protocol::{ErrorKind, Failure, LINE_MAX};
pub use reload::Reloaded;
pub use server::{CLIENTS_MAX, Server};

use crate::config::Config;
use crate::engine::{Engine, EngineHandle};
use crate::metrics::Metrics;
use crate::store::Live;
use crate::sync::lock;

/// The state that requests act on.
#[derive(Debug)]
pub struct Control {
    engine: EngineHandle,
    /// The live configuration; its lock makes changes one at a time.
    live: Mutex<Live>,
    metrics: Metrics,
    durable: bool,
    started: Instant,
    /// The configuration file; `None` where the embedded configuration runs.
    file: Option<PathBuf>,
    /// The configuration with which the target was started.
    first: Config,
    /// Whether `shutdown` was called.
    told_to_end: AtomicBool,
}

impl Control {
    /// Makes the control plane of an engine that runs `live`'s present configuration.
    #[must_use]
    pub fn new(engine: Arc<dyn Engine>, live: Live) -> Arc<Self> {
        Self::of_file(engine, live, None)
    }

    /// Makes the control plane of an engine that runs a configuration file, which `reload` reads
    /// again; `None` stands for the embedded configuration.
    #[must_use]
    pub fn of_file(engine: Arc<dyn Engine>, live: Live, file: Option<PathBuf>) -> Arc<Self> {
        let engine = EngineHandle(engine);
        Arc::new(Self {
            metrics: Metrics::new(engine.clone()),
            engine,
            durable: live.durable(),
            started: Instant::now(),
            file,
            first: live.current().clone(),
            live: Mutex::new(live),
            told_to_end: AtomicBool::new(false),
        })
    }

    /// Says whether the method `shutdown` was called, so that the daemon stays down.
    #[must_use]
    pub fn was_told_to_end(&self) -> bool {
        self.told_to_end.load(Ordering::Relaxed)
    }

    /// Answers one line of the control protocol with one line, both without the newline.
    #[must_use]
    pub fn handle(&self, line: &[u8]) -> String {
        protocol::answer(line, |method, params| self.call(method, params))
    }

    /// Returns the OpenMetrics text.
    ///
    /// # Errors
    /// The text could not be made.
    pub fn metrics(&self) -> Result<String, std::fmt::Error> {
        self.metrics.text()
    }

    fn engine(&self) -> &dyn Engine {
        self.engine.0.as_ref()
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        lock(&self.live)
    }
}

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
