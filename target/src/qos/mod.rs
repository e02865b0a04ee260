//! Quality of service in the daemon: what the configuration and live changes say, made into a
//! [`Snapshot`] for the reactors, and what the stages do, for whoever asks.

mod control;
mod reserve;
mod snapshot;
#[cfg(test)]
mod tests;
mod view;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arbitration::PerClass;
use arbitration::arbiter::{Boards, DeviceId};
use fabric::controller::BackendId;

use crate::config::QosConfig;
use crate::shared::lock;
use crate::stats::IoStats;

use control::Control;
pub(crate) use snapshot::Snapshot;

/// The number of the memory for data that hosts are asked for; devices come after it.
pub(crate) const MEMORY: DeviceId = DeviceId(0);

/// A device's number in the arbiters.
#[inline]
pub(crate) fn device_id(backend: BackendId) -> DeviceId {
    DeviceId(backend.0.saturating_add(1))
}

/// Quality of service, as all threads share it.
#[derive(Debug)]
pub(crate) struct QosShared {
    version: AtomicU64,
    current: Mutex<Arc<Snapshot>>,
    control: Mutex<Control>,
    /// One for each reactor, written by that reactor alone.
    pub(crate) classes: Vec<PerClass<IoStats>>,
    pub(crate) boards: Arc<Boards>,
}

impl QosShared {
    /// For `reactors` reactors with `memory` bytes of buffers in all. Sessions and reservations
    /// of `config` come into force with the subsystems and namespaces that they are of.
    pub(crate) fn new(config: &QosConfig, reactors: usize, memory: u64) -> Self {
        let mut control = Control::new(config, reactors, memory);
        let snapshot = control.snapshot(arbitration::Nanos::ZERO);
        Self {
            version: AtomicU64::new(1),
            current: Mutex::new(Arc::new(snapshot)),
            control: Mutex::new(control),
            classes: (0..reactors).map(|_| PerClass::from_fn(|_| IoStats::default())).collect(),
            boards: Arc::new(Boards::new(reactors)),
        }
    }

    /// The version of the present snapshot.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The present snapshot.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&lock(&self.current))
    }

    /// Changes something, and shows it to the reactors (which are to be woken by the caller). A
    /// change that is refused changes nothing.
    fn change<R, E>(
        &self,
        now: arbitration::Nanos,
        change: impl FnOnce(&mut Control) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut control = lock(&self.control);
        let answer = change(&mut control)?;
        *lock(&self.current) = Arc::new(control.snapshot(now));
        self.version.fetch_add(1, Ordering::Release);
        Ok(answer)
    }
}
