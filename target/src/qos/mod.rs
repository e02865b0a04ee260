//! Quality of service in the daemon: what the configuration and live changes say, made into a
//! [`Snapshot`] for the reactors, and what the stages do, for whoever asks.

mod control;
mod reserve;
mod snapshot;
#[cfg(test)]
mod tests;
mod view;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arbitration::PerClass;
use arbitration::arbiter::Waiters;

use crate::config::QosConfig;
use crate::lent::Lent;
use crate::shared::lock;
use sluice_core::stats::IoStats;

use control::Control;
pub(crate) use sluice_core::Touched;
pub(crate) use snapshot::{NamespaceRule, Snapshot};

/// The settings of the namespaces, for whoever begins to use one. Held for one look or one change
/// at a time.
#[derive(Debug, Default)]
pub(crate) struct Namespaces(Mutex<HashMap<String, HashMap<u32, NamespaceRule>>>);

impl Namespaces {
    fn get(&self, nqn: &str, nsid: u32) -> Option<NamespaceRule> {
        lock(&self.0).get(nqn)?.get(&nsid).cloned()
    }

    fn set(&self, nqn: &str, nsid: u32, rule: Option<NamespaceRule>) {
        let mut all = lock(&self.0);
        let before = match rule {
            Some(rule) => match all.get_mut(nqn) {
                Some(of_subsystem) => of_subsystem.insert(nsid, rule),
                None => all.entry(nqn.to_owned()).or_default().insert(nsid, rule),
            },
            None => all.get_mut(nqn).and_then(|all| all.remove(&nsid)),
        };
        drop(all);
        drop(before);
    }

    fn forget(&self, nqn: &str) {
        let before = lock(&self.0).remove(nqn);
        drop(before);
    }
}

/// Quality of service, as all threads share it.
#[derive(Debug)]
pub(crate) struct QosShared {
    version: AtomicU64,
    current: Mutex<Arc<Snapshot>>,
    /// Earlier ones.
    before: Lent<Snapshot>,
    control: Mutex<Control>,
    namespaces: Arc<Namespaces>,
    /// One for each reactor, written by that reactor alone.
    pub(crate) classes: Vec<PerClass<IoStats>>,
    pub(crate) waiters: Arc<Waiters>,
}

impl QosShared {
    /// For `reactors` reactors with `memory` bytes of buffers in all. Sessions and reservations
    /// of `config` come into force with the subsystems and namespaces that they are of.
    pub(crate) fn new(config: &QosConfig, reactors: usize, memory: u64) -> Self {
        let namespaces: Arc<Namespaces> = Arc::default();
        let mut control = Control::new(config, reactors, memory, Arc::clone(&namespaces));
        let snapshot = control.first_snapshot();
        Self {
            version: AtomicU64::new(1),
            current: Mutex::new(Arc::new(snapshot)),
            before: Lent::default(),
            control: Mutex::new(control),
            namespaces,
            classes: (0..reactors).map(|_| PerClass::from_fn(|_| IoStats::default())).collect(),
            waiters: Arc::new(Waiters::new(reactors)),
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

    /// What reactors are to look at again since the last call; `None` where there is nothing.
    pub(crate) fn take_touched(&self) -> Option<Touched> {
        let touched = std::mem::take(&mut lock(&self.control).touched);
        Some(touched).filter(|touched| !touched.is_empty())
    }

    /// Changes something; the caller tells the reactors afterwards (`Shared::refresh`). A change
    /// that is refused changes nothing.
    fn change<R, E>(
        &self,
        now: arbitration::Nanos,
        change: impl FnOnce(&mut Control) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut control = lock(&self.control);
        let answer = change(&mut control)?;
        control.settle_reservations();
        if let Some(snapshot) = control.snapshot(now) {
            control.touched.snapshot = true;
            let before = std::mem::replace(&mut *lock(&self.current), Arc::new(snapshot));
            self.before.keep(before);
            self.version.fetch_add(1, Ordering::Release);
        }
        Ok(answer)
    }
}
