//! Quality of service as all threads share it: takes live changes, gives snapshots to the reactors
//! and the state to the control socket.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arbitration::arbiter::Waiters;
use arbitration::{Class, Nanos, PerClass};
use fabric::controller::{BackendId, HostWithoutAcre, ListenerId};
use sluice_config::{DeviceQos, LowestRates, QosConfig};
use sluice_core::Touched;
use sluice_core::device::BlockDevice as _;
use sluice_core::stats::IoStats;

use super::control::Control;
use super::notices::{Notice, Notices};
use super::patience::{self, SizedSettings};
use super::published::PublishedRules;
use super::served::{KnownNamespace, namespace_name};
use super::snapshot::{NamespaceRule, Snapshot};
use super::view;
use crate::disks::devices::OpenDevice;
use crate::serve::engine::QosState;
use crate::sys::deferred_free::DeferredFree;
use crate::sys::sync::lock;

/// A change that lowers limits.
#[derive(Clone, Copy)]
pub(crate) enum LimitChange<'a> {
    /// Other settings.
    Settings(&'a QosConfig),
    /// Another size of a namespace, of which limits per GiB follow.
    Size {
        /// The subsystem.
        nqn: &'a str,
        /// The namespace.
        nsid: u32,
        /// The size in bytes.
        bytes: u64,
    },
}

/// Quality of service, as all threads share it.
#[derive(Debug)]
pub(crate) struct QosShared {
    version: AtomicU64,
    current: Mutex<Arc<Snapshot>>,
    /// Earlier snapshots that reactors may still use.
    before: DeferredFree<Snapshot>,
    control: Mutex<Control>,
    /// The sessions about which the log has lines.
    notices: Mutex<Notices>,
    published: Arc<PublishedRules>,
    /// The statistics of the classes, a part for each reactor, which that reactor alone writes.
    pub(crate) classes: Vec<PerClass<IoStats>>,
    pub(crate) waiters: Arc<Waiters>,
}

impl QosShared {
    /// Makes the stages of `reactors` reactors with `memory` bytes of buffers in all. Sessions and
    /// reservations of `config` come into force with their subsystems and namespaces.
    pub(crate) fn new(config: (&QosConfig, LowestRates), reactors: usize, memory: u64) -> Self {
        let published: Arc<PublishedRules> = Arc::default();
        let mut control = Control::new(config, reactors, memory, Arc::clone(&published));
        let snapshot = control.first_snapshot();
        Self {
            version: AtomicU64::new(1),
            current: Mutex::new(Arc::new(snapshot)),
            before: DeferredFree::default(),
            control: Mutex::new(control),
            notices: Mutex::default(),
            published,
            classes: (0..reactors).map(|_| PerClass::from_fn(|_| IoStats::default())).collect(),
            waiters: Arc::new(Waiters::new(reactors)),
        }
    }

    /// Returns the version of the present snapshot.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns the present snapshot.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&lock(&self.current))
    }

    /// Takes the sessions and devices that reactors must look at again; `None` where there are
    /// none.
    pub(crate) fn take_touched(&self) -> Option<Touched> {
        let touched = std::mem::take(&mut lock(&self.control).touched);
        Some(touched).filter(|touched| !touched.is_empty())
    }

    /// Makes a change; the caller tells the reactors afterwards (`Shared::refresh`). A change that
    /// is refused changes nothing.
    fn change<R, E>(
        &self,
        now: Nanos,
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

    /// Returns the present state of the stages.
    pub(crate) fn state(&self, now: Nanos) -> QosState {
        view::state(now, &lock(&self.control), &self.classes)
    }

    /// Returns the lines of the log about sessions that are due.
    pub(crate) fn notices(&self, now: Nanos) -> Vec<Notice> {
        let pressures = view::pressures(now, &lock(&self.control));
        lock(&self.notices).look(now, &pressures)
    }

    /// Returns the sessions whose reservations are not in force, with the reason.
    pub(crate) fn not_in_force(&self) -> BTreeMap<String, String> {
        lock(&self.control).reservations.not_in_force().clone()
    }

    /// Replaces all settings of `[qos]`, `[[session]]` and `[[policy]]`.
    ///
    /// # Errors
    /// The settings are refused, with the reason and the remedy; nothing has changed.
    pub(crate) fn set(&self, now: Nanos, config: &QosConfig) -> Result<(), String> {
        self.change(now, |control| control.set(now, config))
    }

    /// Describes a limit that a change would lower too far for connected hosts without ACRE; `None` if there is none.
    /// `largest` is the largest transfer of a command in bytes.
    pub(crate) fn refusal(
        &self,
        change: LimitChange<'_>,
        hosts: &[HostWithoutAcre],
        largest: u32,
    ) -> Option<String> {
        let control = lock(&self.control);
        let size = |session: &str| control.wanted.size_of(&control.served, session);
        let before = SizedSettings { config: &control.config, size: &size };
        match change {
            LimitChange::Settings(config) => {
                patience::refusal(before, SizedSettings { config, ..before }, hosts, largest)
            }
            LimitChange::Size { nqn, nsid, bytes } => {
                let present = control.served.get(nqn, nsid)?.size;
                let own = namespace_name(nqn, nsid);
                let size = |session: &str| {
                    let mut size = size(session)?;
                    if session == nqn || session == own {
                        size.bytes = size.bytes.saturating_sub(present).saturating_add(bytes);
                    }
                    Some(size)
                };
                patience::refusal(before, SizedSettings { size: &size, ..before }, hosts, largest)
            }
        }
    }

    /// Returns the present settings of `[qos]`, `[[session]]` and `[[policy]]`.
    pub(crate) fn config(&self) -> QosConfig {
        lock(&self.control).config.clone()
    }

    /// Sets a listener's class; present connections have it too.
    pub(crate) fn set_listener(&self, now: Nanos, listener: ListenerId, class: Option<Class>) {
        let Ok(_) = self.change(now, |control| {
            control.set_listener(listener, class);
            Ok::<_, Infallible>(())
        });
    }

    /// Adds a subsystem with its session, before its namespaces.
    pub(crate) fn add_subsystem(&self, now: Nanos, nqn: &str) {
        let Ok(_) = self.change(now, |control| {
            control.subsystem_came(now, nqn);
            Ok::<_, Infallible>(())
        });
    }

    /// Removes a subsystem with its namespaces.
    pub(crate) fn remove_subsystem(&self, now: Nanos, nqn: &str) {
        let Ok(_) = self.change(now, |control| {
            control.subsystem_gone(now, nqn);
            Ok::<_, Infallible>(())
        });
    }

    pub(crate) fn add_namespace(
        &self,
        now: Nanos,
        (nqn, nsid): (&str, u32),
        backend: BackendId,
        device: &OpenDevice,
        (class, settings): (Option<Class>, &DeviceQos),
    ) {
        let known = KnownNamespace {
            class,
            settings: settings.clone(),
            backend,
            device: Arc::clone(&device.qos),
            queued: device.queued,
            size: device.format().bytes(device.blocks()),
        };
        let Ok(_) = self.change(now, |control| {
            control.namespace_came(now, (nqn, nsid), known);
            Ok::<_, Infallible>(())
        });
    }

    /// Sets a namespace's size in bytes.
    pub(crate) fn resize_namespace(&self, now: Nanos, nqn: &str, nsid: u32, size: u64) {
        let Ok(_) = self.change(now, |control| {
            control.namespace_resized(now, nqn, nsid, size);
            Ok::<_, Infallible>(())
        });
    }

    pub(crate) fn remove_namespace(&self, now: Nanos, nqn: &str, nsid: u32) {
        let Ok(_) = self.change(now, |control| {
            control.namespace_gone(now, nqn, nsid);
            Ok::<_, Infallible>(())
        });
    }

    /// Sets a namespace's class. Returns whether the namespace exists.
    pub(crate) fn set_namespace(
        &self,
        now: Nanos,
        nqn: &str,
        nsid: u32,
        class: Option<Class>,
    ) -> bool {
        self.change(
            now,
            |control| {
                if control.set_class(nqn, nsid, class) { Ok(()) } else { Err(()) }
            },
        )
        .is_ok()
    }

    /// Tries reservations again that failed because a device was not measured yet, and adapts the others to new
    /// measurements. Returns whether anything has changed: then the caller tells the reactors.
    pub(crate) fn retry(&self, now: Nanos) -> bool {
        if lock(&self.control).reservations.are_none() {
            return false;
        }
        self.change(now, |control| {
            let are_retried =
                control.reservations.are_pending() && control.retry_reservations(now, None);
            let are_adapted = control.review_reservations(now);
            if are_retried || are_adapted { Ok(()) } else { Err(()) }
        })
        .is_ok()
    }

    /// Returns the settings of a namespace.
    pub(crate) fn namespace(&self, nqn: &str, nsid: u32) -> Option<NamespaceRule> {
        self.published.get(nqn, nsid)
    }

    /// Returns the number of sessions that have statistics.
    #[cfg(test)]
    pub(super) fn kept_statistics(&self) -> usize {
        lock(&self.control).stats.len()
    }
}
