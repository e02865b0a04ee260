//! The control plane: requests over a local socket, answered with the running target's state or
//! with a change that takes effect at once and survives a restart.
//!
//! [`Control`] is the meaning of a request; [`Server`] is the thread with the sockets.

mod change;
mod force;
mod http;
mod methods;
mod network;
pub(crate) mod occupant;
mod protocol;
mod qos;
mod server;
mod show;
mod socket;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

pub use protocol::{ErrorKind, Failure, LINE_MAX};
pub use server::{CLIENTS_MAX, ControlError, Server};

use crate::engine::Engine;
use crate::metrics::Metrics;
use crate::store::Live;

/// What requests act on.
#[derive(Debug)]
pub struct Control {
    engine: EngineHandle,
    /// Also puts changes in an order: one at a time.
    live: Mutex<Live>,
    metrics: Metrics,
    durable: bool,
    started: Instant,
}

/// An engine that can be part of what is printed for debugging.
#[derive(Clone)]
pub(crate) struct EngineHandle(pub(crate) Arc<dyn Engine>);

impl std::fmt::Debug for EngineHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Engine")
    }
}

impl Control {
    /// The control plane of an engine that runs `live`'s present configuration.
    #[must_use]
    pub fn new(engine: Arc<dyn Engine>, live: Live) -> Arc<Self> {
        let durable = live.durable();
        let engine = EngineHandle(engine);
        let metrics = Metrics::new(engine.clone());
        let live = Mutex::new(live);
        Arc::new(Self { engine, live, metrics, durable, started: Instant::now() })
    }

    /// Answers one line of the control protocol with one line, both without the newline.
    #[must_use]
    pub fn handle(&self, line: &[u8]) -> String {
        protocol::answer(line, |method, params| self.call(method, params))
    }

    /// The OpenMetrics text.
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
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod network_tests;
#[cfg(test)]
mod qos_tests;
#[cfg(test)]
pub(crate) mod test_engine;
#[cfg(test)]
mod tests;
