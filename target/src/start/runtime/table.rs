//! The namespaces of the running target: the configuration of each, its present device, and whether
//! it serves.

use std::collections::{BTreeMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

use arbitration::session::HostId;
use fabric::Nanos;
use fabric::controller::BackendId;
use sluice_config::{Backend, Namespace};
use sluice_core::stats::IoSnapshot;

use crate::control::store::Place;
use crate::disks::availability::Watch;
use crate::disks::backend::CachedWrites;
use crate::disks::devices::{Presence, Stats};
use crate::sys::sync::lock;

/// The table of all namespaces. Its lock is taken after all others.
#[derive(Debug, Default)]
pub(super) struct Table(Mutex<BTreeMap<Place, Known>>);

/// A namespace of the running target.
#[derive(Debug)]
pub(super) struct Known {
    /// The configuration with which the namespace is opened.
    pub(super) config: Namespace,
    /// The present device.
    pub(super) open: Option<BackendId>,
    /// The earlier device, until it is closed: commands may still be in it.
    pub(super) left: Weak<Presence>,
    /// The cached writes of the earlier device, and the hosts that used it when it went away, until the namespace is
    /// open again.
    pub(super) cached: Option<(Arc<CachedWrites>, HashSet<HostId>)>,
    /// The statistics of all devices of the namespace, past and present.
    pub(super) stats: Stats,
    /// The errors of earlier devices.
    pub(super) errors_before: u64,
    pub(super) watch: Watch,
    /// The fingerprint of the file or device at the namespace's path, at the last try.
    pub(super) tried: Option<Fingerprint>,
}

/// A fingerprint that changes with the file or device at a path: device, inode, device number, size
/// in bytes, and the time of the last change in seconds and nanoseconds.
pub(super) type Fingerprint = (u64, u64, u64, u64, i64, i64);

/// Reads the fingerprint of the file or device at a path.
pub(super) fn fingerprint(path: &Path) -> Option<Fingerprint> {
    let seen = std::fs::metadata(path).ok()?;
    Some((seen.dev(), seen.ino(), seen.rdev(), seen.len(), seen.ctime(), seen.ctime_nsec()))
}

impl Known {
    pub(super) fn serving(config: Namespace, device: BackendId, stats: Stats) -> Self {
        let (open, left, watch) = (Some(device), Weak::new(), Watch::open());
        let (cached, tried) = (None, None);
        Self { config, open, left, cached, stats, errors_before: 0, watch, tried }
    }

    /// Makes a namespace whose device could not be opened. `tried` is the fingerprint at its path then.
    pub(super) fn absent(
        config: Namespace,
        stats: Stats,
        now: Nanos,
        (why, tried): (String, Option<Fingerprint>),
    ) -> Self {
        let (left, watch) = (Weak::new(), Watch::closed(now, why));
        Self { config, open: None, left, cached: None, stats, errors_before: 0, watch, tried }
    }
}

impl Table {
    /// Adds a namespace, and replaces an existing one.
    pub(super) fn insert(&self, place: Place, known: Known) {
        lock(&self.0).insert(place, known);
    }

    /// Removes one namespace.
    pub(super) fn forget(&self, nqn: &str, nsid: u32) {
        lock(&self.0).remove(&(nqn.to_owned(), nsid));
    }

    /// Removes all namespaces of a subsystem.
    pub(super) fn forget_all_of(&self, nqn: &str) {
        lock(&self.0).retain(|(subsystem, _), _| subsystem != nqn);
    }

    /// Looks at one namespace, or changes it; `None` where it does not exist.
    pub(super) fn with<R>(&self, place: &Place, use_it: impl FnOnce(&mut Known) -> R) -> Option<R> {
        lock(&self.0).get_mut(place).map(use_it)
    }

    /// Changes the configuration with which a namespace is opened next. Returns whether the
    /// namespace exists.
    pub(super) fn reconfigure(
        &self,
        nqn: &str,
        nsid: u32,
        change: impl FnOnce(&mut Namespace),
    ) -> bool {
        self.with(&(nqn.to_owned(), nsid), |known| change(&mut known.config)).is_some()
    }

    /// Returns the namespaces for which `meant` holds.
    pub(super) fn places(&self, meant: impl Fn(&Place, &Known) -> bool) -> Vec<Place> {
        let all = lock(&self.0);
        all.iter().filter(|(place, known)| meant(place, known)).map(|(p, _)| p.clone()).collect()
    }

    /// Returns the watches' earliest deadline.
    pub(super) fn next(&self) -> Option<Nanos> {
        lock(&self.0).values().filter_map(|known| known.watch.next()).min()
    }

    /// Makes all namespaces that are not available due now, since a device has appeared.
    pub(super) fn nudge_all(&self, now: Nanos) {
        for known in lock(&self.0).values_mut() {
            known.watch.nudge(now);
        }
    }

    /// Makes a namespace due now that is not available, if something has changed at its path.
    pub(super) fn nudge_changed(&self, place: &Place, now: Nanos) {
        let closed = self.with(place, |known| {
            let path = known.config.backend.path().filter(|_| !known.watch.is_open())?;
            Some((path.to_owned(), known.tried))
        });
        // The lock is free while this looks at the file system.
        if let Some((path, tried)) = closed.flatten()
            && fingerprint(&path) != tried
        {
            self.with(place, |known| known.watch.nudge(now));
        }
    }

    /// Returns the backends that hosts may write to, as they are configured.
    pub(super) fn written(&self) -> Vec<Backend> {
        let all = lock(&self.0);
        let written = all.values().filter(|known| !known.config.read_only);
        written.map(|known| known.config.backend.clone()).collect()
    }

    /// Returns the operations of all namespaces.
    pub(super) fn statistics(&self) -> Vec<(String, u32, IoSnapshot)> {
        let all: Vec<(Place, Stats)> = lock(&self.0)
            .iter()
            .map(|(place, known)| (place.clone(), Arc::clone(&known.stats)))
            .collect();
        let sum = |stats: &Stats| {
            let mut total = IoSnapshot::default();
            for stats in stats.iter() {
                total.merge(&stats.snapshot());
            }
            total
        };
        all.into_iter().map(|((nqn, nsid), stats)| (nqn, nsid, sum(&stats))).collect()
    }
}
