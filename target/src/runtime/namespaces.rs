//! The namespaces of the running target: how each is to be opened, what it is kept on now, and
//! whether it serves.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

use fabric::controller::{
    BackendId, Geometry, Namespace as FabricNamespace, NamespaceFeatures, Readiness,
};
use fabric::nvm::BlockFormat;

use super::{Runtime, describe, refused};
use crate::availability::{Note, Watch};
use crate::backend::{Backend, Bell, Finding};
use crate::backings::Occasion;
use crate::config::{self, Namespace, derived_uuid};
use crate::devices::{Device, Stats};
use crate::engine::{EngineError, NamespaceState};
use crate::shared::lock;
use crate::store::Seen;
use sluice_core::stats::{IoSnapshot, PerReactor};

/// A namespace's subsystem and NSID.
pub(super) type Place = (String, u32);

/// All namespaces. Its lock is the last one that is taken.
#[derive(Debug)]
pub(super) struct Namespaces {
    all: Mutex<BTreeMap<Place, Known>>,
    /// One try at a time: a file cannot be opened by two at once.
    trying: Mutex<()>,
    /// Rings when a device has something to say.
    pub(super) bell: Arc<Bell>,
}

/// One namespace.
#[derive(Debug)]
struct Known {
    /// How it is opened.
    config: Namespace,
    /// What it is kept on now.
    open: Option<BackendId>,
    /// What it was kept on, while commands are still in it.
    left: Weak<Device>,
    /// Counted whatever it is kept on.
    stats: Stats,
    /// Errors of what it was kept on before.
    errors_before: u64,
    watch: Watch,
    /// What was at its path when it was last tried.
    tried: Option<Sign>,
}

/// What tells whether something has changed at a path: device, inode, device number, size, and
/// when it was last changed.
type Sign = (u64, u64, u64, u64, i64, i64);

fn sign(path: &Path) -> Option<Sign> {
    let seen = std::fs::metadata(path).ok()?;
    Some((seen.dev(), seen.ino(), seen.rdev(), seen.len(), seen.ctime(), seen.ctime_nsec()))
}

impl Namespaces {
    /// None yet.
    ///
    /// # Errors
    /// No file descriptor is to be had.
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self { all: Mutex::default(), trying: Mutex::default(), bell: Bell::new()? })
    }

    pub(super) fn forget(&self, nqn: &str, nsid: u32) {
        lock(&self.all).remove(&(nqn.to_owned(), nsid));
    }

    pub(super) fn forget_all_of(&self, nqn: &str) {
        lock(&self.all).retain(|(subsystem, _), _| subsystem != nqn);
    }

    /// Changes how a namespace is opened the next time.
    pub(super) fn reconfigure(
        &self,
        nqn: &str,
        nsid: u32,
        change: impl FnOnce(&mut Namespace),
    ) -> bool {
        let mut all = lock(&self.all);
        let known = all.get_mut(&(nqn.to_owned(), nsid));
        known.map(|known| change(&mut known.config)).is_some()
    }

    /// The operations of all namespaces.
    pub(super) fn statistics(&self) -> Vec<(String, u32, IoSnapshot)> {
        let all: Vec<(Place, Stats)> = lock(&self.all)
            .iter()
            .map(|(place, known)| (place.clone(), Arc::clone(&known.stats)))
            .collect();
        let sum = |stats: &PerReactor| {
            let mut total = IoSnapshot::default();
            for stats in stats.iter() {
                total.merge(&stats.snapshot());
            }
            total
        };
        all.into_iter().map(|((nqn, nsid), stats)| (nqn, nsid, sum(&stats))).collect()
    }

    fn places(&self, meant: impl Fn(&Place, &Known) -> bool) -> Vec<Place> {
        let all = lock(&self.all);
        all.iter().filter(|(place, known)| meant(place, known)).map(|(p, _)| p.clone()).collect()
    }

    fn with<R>(&self, place: &Place, use_it: impl FnOnce(&mut Known) -> R) -> Option<R> {
        lock(&self.all).get_mut(place).map(use_it)
    }
}

impl Runtime {
    /// Puts a namespace that is open in place: hosts see it from here on.
    pub(super) fn install(
        &self,
        (nqn, nsid): (&str, u32),
        namespace: &Namespace,
        backend: Arc<dyn Backend>,
    ) -> Result<(), EngineError> {
        let place = (nqn.to_owned(), nsid);
        backend.health().report_to(&self.namespaces.bell);
        let again = self.namespaces.with(&place, |known| Arc::clone(&known.stats));
        let reopened = again.is_some();
        let stats = again.unwrap_or_else(|| self.fresh_stats());
        let rules = self.rules_of(namespace);
        let (id, device) = self.shared.devices.add(backend, rules, stats);
        let now = self.shared.clock.now();
        // Its session and its class are there before its first command.
        let settings = (namespace.class, &namespace.device);
        let stage_time = self.shared.clock.now();
        self.shared.qos.add_namespace(stage_time, (nqn, nsid), id, &device, settings);
        self.shared.refresh();
        let shown = describe(nqn, nsid, namespace, id, &*device.backend);
        let shown = self.shared.with_service(|service| {
            if reopened {
                return service.replace_namespace(now, nqn, shown).map(drop);
            }
            service.add_namespace(now, nqn, shown).map(drop)
        });
        if let Err(error) = shown {
            self.shared.qos.remove_namespace(self.shared.clock.now(), nqn, nsid);
            self.shared.remove_devices(&[id]);
            self.backings.discard(nqn, nsid);
            return Err(refused(error));
        }
        let mut all = lock(&self.namespaces.all);
        let known = all.entry(place).or_insert_with(|| Known {
            config: namespace.clone(),
            open: None,
            left: Weak::new(),
            stats: Arc::clone(&device.stats),
            errors_before: 0,
            watch: Watch::open(),
            tried: None,
        });
        known.open = Some(id);
        Ok(())
    }

    /// Puts a namespace in place that could not be opened: hosts see it, and are told to come
    /// again.
    pub(super) fn install_absent(
        &self,
        (nqn, nsid): (&str, u32),
        namespace: &Namespace,
        why: String,
    ) -> Result<(), EngineError> {
        let now = self.shared.clock.now();
        let shown = absent(nqn, nsid, namespace, self.backings.seen(nqn, nsid));
        let added = self.shared.with_service(|service| service.add_namespace(now, nqn, shown));
        added.map_err(refused)?;
        tracing::error!(
            subsystem = nqn,
            nsid,
            reason = why,
            "the namespace is not available: hosts are told to come again, and its device is \
             looked for"
        );
        let known = Known {
            config: namespace.clone(),
            open: None,
            left: Weak::new(),
            stats: self.fresh_stats(),
            errors_before: 0,
            watch: Watch::closed(now, why),
            tried: path_of(namespace).and_then(sign),
        };
        lock(&self.namespaces.all).insert((nqn.to_owned(), nsid), known);
        Ok(())
    }

    fn fresh_stats(&self) -> Stats {
        Arc::new(PerReactor::new(self.shared.mailboxes.len()))
    }

    /// Why a namespace does not serve; `None` where it does, or is not there.
    pub(super) fn why_unavailable(&self, nqn: &str, nsid: u32) -> Option<String> {
        let now = self.shared.clock.now();
        let known = self.namespaces.with(&(nqn.to_owned(), nsid), |known| {
            (!known.watch.is_open()).then(|| known.watch.state(now).1)
        });
        known.flatten().flatten()
    }

    /// Does what there is to do for the namespaces now; with `look`, sees after their files too.
    /// When there is more to do, in the daemon's time.
    pub(super) fn tend(&self, look: bool) -> Option<fabric::Nanos> {
        for place in self.namespaces.places(|_, known| known.open.is_some()) {
            self.check_open(&place, look);
        }
        if look {
            self.nudge_changed();
        }
        let now = self.shared.clock.now();
        for place in self.namespaces.places(|_, known| known.watch.is_due(now)) {
            self.try_open(&place);
        }
        lock(&self.namespaces.all).values().filter_map(|known| known.watch.next()).min()
    }

    /// There is a sign of a device: all that are not there may be.
    pub(super) fn nudge_all(&self) {
        let now = self.shared.clock.now();
        for known in lock(&self.namespaces.all).values_mut() {
            known.watch.nudge(now);
        }
    }

    /// Tries namespaces that are not available now, without waiting for their time.
    pub(super) fn retry(&self, nqn: Option<&str>, nsid: Option<u32>) {
        let meant = |place: &Place, known: &Known| {
            let named = nqn.is_none_or(|nqn| place.0 == nqn) && nsid.is_none_or(|n| place.1 == n);
            named && !known.watch.is_open()
        };
        for place in self.namespaces.places(meant) {
            self.try_open(&place);
        }
    }

    /// Sees whether an open device is gone, and takes its errors.
    fn check_open(&self, place: &Place, look: bool) {
        let Some(Some(id)) = self.namespaces.with(place, |known| known.open) else { return };
        let Some(device) = self.shared.devices.get(id) else { return };
        let health = device.backend.health();
        let (errors, last) = health.errors();
        let found = if look || errors > 0 { device.backend.look() } else { None };
        let looked = look || errors > 0;
        let (damage, gone) = match found {
            Some(Finding::Gone(why)) => (None, Some(why)),
            Some(Finding::Damaged(words)) => (Some(words), health.fault()),
            None => (None, health.fault()),
        };
        let now = self.shared.clock.now();
        let notes = self.namespaces.with(place, |known| {
            let last = || last.map(|error| error.to_string()).unwrap_or_default();
            let total = known.errors_before + errors;
            let damage =
                if looked && gone.is_none() { known.watch.see_damage(damage) } else { None };
            [damage, known.watch.see_errors(now, total, last)]
        });
        let path = device.backend.description().path.clone().unwrap_or_default();
        for note in notes.into_iter().flatten().flatten() {
            tell(place, &path, note);
        }
        if let Some(why) = gone {
            self.close(place, id, device, why);
        }
    }

    /// A device is gone: its namespace stays, and hosts are told to come again.
    fn close(&self, place: &Place, id: BackendId, device: Arc<Device>, why: String) {
        let _one = lock(&self.change);
        let (nqn, nsid) = (&place.0, place.1);
        let now = self.shared.clock.now();
        let ours = self.namespaces.with(place, |known| {
            let ours = known.open == Some(id);
            if ours {
                known.open = None;
                known.left = Arc::downgrade(&device);
                known.errors_before += device.backend.health().errors().0;
                known.watch.gone(now, why.clone());
                known.tried = None;
            }
            ours
        });
        if ours != Some(true) {
            return;
        }
        tracing::error!(
            subsystem = nqn,
            nsid,
            reason = why,
            "the namespace's device is gone: hosts are told to come again until it is back"
        );
        let replaced = self.shared.with_service(|service| {
            let mut gone = FabricNamespace::clone(service.namespace(nqn, nsid)?);
            gone.readiness = Readiness::NotReady { geometry_known: true };
            Some(service.replace_namespace(now, nqn, gone))
        });
        if let Some(Err(error)) = replaced {
            tracing::error!(subsystem = nqn, nsid, %error, "hosts are not told that it is gone");
        }
        self.shared.qos.remove_namespace(self.shared.clock.now(), nqn, nsid);
        self.shared.refresh();
        self.shared.remove_devices(&[id]);
    }

    /// Tries to open what a namespace is kept on.
    fn try_open(&self, place: &Place) {
        let _one_try = lock(&self.namespaces.trying);
        let (nqn, nsid) = (place.0.as_str(), place.1);
        let config = self.namespaces.with(place, |known| {
            if known.watch.is_open() {
                return None;
            }
            // What it was kept on is in the way until the last command has left it.
            if known.left.strong_count() > 0 {
                known.watch.postpone(self.shared.clock.now());
                return None;
            }
            known.tried = path_of(&known.config).and_then(sign);
            Some(known.config.clone())
        });
        let Some(Some(config)) = config else { return };
        let opened = self.open(nqn, nsid, &config, Occasion::Configured);
        let _one = lock(&self.change);
        // It may have been removed meanwhile, or be to be opened otherwise.
        let wanted = |known: &mut Known| !known.watch.is_open() && known.config == config;
        if self.namespaces.with(place, wanted) != Some(true) {
            self.backings.discard(nqn, nsid);
            return;
        }
        let installed = opened.and_then(|backend| self.install((nqn, nsid), &config, backend));
        let now = self.shared.clock.now();
        match installed {
            Ok(()) => {
                if let Err(error) = self.backings.keep() {
                    tracing::warn!(%error, "what was seen of files and devices is not kept");
                }
                let absent = self.namespaces.with(place, |known| known.watch.opened(now));
                let seconds = absent.unwrap_or_default().as_secs();
                tracing::info!(subsystem = nqn, nsid, seconds, "the namespace is available again");
            }
            Err(error) => {
                let why = error.to_string();
                let again = |known: &mut Known| known.watch.refused(now, why.clone());
                if self.namespaces.with(place, again) == Some(true) {
                    tracing::error!(
                        subsystem = nqn,
                        nsid,
                        reason = why,
                        "the namespace is still not available"
                    );
                }
            }
        }
    }

    /// Has those tried at whose paths something has changed.
    fn nudge_changed(&self) {
        let closed: Vec<_> = lock(&self.namespaces.all)
            .iter()
            .filter(|(_, known)| !known.watch.is_open())
            .filter_map(|(place, known)| {
                Some((place.clone(), path_of(&known.config)?.to_owned(), known.tried))
            })
            .collect();
        for (place, path, tried) in closed {
            if sign(&path) != tried {
                let now = self.shared.clock.now();
                self.namespaces.with(&place, |known| known.watch.nudge(now));
            }
        }
    }

    /// The rows of namespaces of one subsystem.
    pub(super) fn namespace_states(
        &self,
        nqn: &str,
        shown: &[Arc<FabricNamespace>],
    ) -> Vec<NamespaceState> {
        let now = self.shared.clock.now();
        let all = lock(&self.namespaces.all);
        let row = |namespace: &Arc<FabricNamespace>| {
            let known = all.get(&(nqn.to_owned(), namespace.nsid));
            self.row(now, namespace, known)
        };
        shown.iter().map(row).collect()
    }

    fn row(
        &self,
        now: fabric::Nanos,
        namespace: &FabricNamespace,
        known: Option<&Known>,
    ) -> NamespaceState {
        let device = self.shared.devices.get(namespace.backend);
        let description = device.as_ref().map(|device| device.backend.description());
        let config = known.map(|known| &known.config);
        let path = description
            .and_then(|open| open.path.as_deref())
            .or_else(|| config.and_then(path_of))
            .map(|path| path.display().to_string());
        let kind = match description {
            Some(open) => open.kind,
            None => config.map_or("", kind_of),
        };
        let (state, reason) = known.map(|known| known.watch.state(now)).unwrap_or_default();
        let block_size =
            if namespace.has_geometry() { namespace.geometry.format.data_bytes() } else { 0 };
        NamespaceState {
            nsid: namespace.nsid,
            backend: kind.to_owned(),
            path,
            size: namespace.geometry.bytes(),
            block_size,
            uuid: uuid::Uuid::from_bytes(namespace.uuid).to_string(),
            nguid: namespace.nguid.iter().map(|byte| format!("{byte:02x}")).collect(),
            read_only: namespace.features.contains(NamespaceFeatures::READ_ONLY),
            hosts: namespace.hosts.clone(),
            state,
            reason,
            errors: known.map_or(0, |known| known.watch.errors()),
        }
    }
}

/// Logs what has been noted of a namespace's device.
fn tell((nqn, nsid): &Place, path: &Path, note: Note) {
    let path = path.display();
    match note {
        Note::Errors(count, last) => tracing::error!(
            subsystem = nqn, nsid, %path, count, last,
            "the device answered commands with errors"
        ),
        Note::Damaged(reason) => {
            tracing::error!(subsystem = nqn, nsid, reason, "the namespace is damaged");
        }
        Note::Sound => tracing::info!(subsystem = nqn, nsid, %path, "the device is sound again"),
    }
}

/// A namespace as hosts see it whose device is not open, with the size that it had when it was
/// seen last.
fn absent(nqn: &str, nsid: u32, namespace: &Namespace, seen: Option<Seen>) -> FabricNamespace {
    let uuid = namespace.uuid.unwrap_or_else(|| derived_uuid(nqn, nsid));
    let mut features = NamespaceFeatures::empty();
    features.set(NamespaceFeatures::READ_ONLY, namespace.read_only);
    // With another UUID it is another disk.
    let geometry = seen.filter(|seen| seen.uuid == uuid).and_then(|seen| {
        let format = BlockFormat::plain(u64::from(seen.block_size)).ok()?;
        Some(Geometry { format, blocks: format.blocks(seen.size) })
    });
    FabricNamespace {
        nsid,
        uuid: uuid.into_bytes(),
        nguid: namespace.nguid.unwrap_or_else(|| uuid.into_bytes()),
        geometry: geometry.unwrap_or_default(),
        features,
        hosts: namespace.hosts.clone(),
        backend: BackendId::NONE,
        readiness: Readiness::NotReady { geometry_known: geometry.is_some() },
        identify: None,
        device: None,
    }
}

/// The file or device of a namespace, where it has one.
fn path_of(namespace: &Namespace) -> Option<&Path> {
    match &namespace.backend {
        config::Backend::File { path, .. } => Some(path),
        config::Backend::Nvme { device, .. } => Some(device),
        config::Backend::Null { .. } | config::Backend::Memory { .. } => None,
    }
}

/// What a namespace is kept on, as far as its configuration tells.
fn kind_of(namespace: &Namespace) -> &'static str {
    match &namespace.backend {
        config::Backend::File { path, .. } if path.starts_with("/dev") => "block",
        config::Backend::File { .. } => "file",
        config::Backend::Nvme { .. } => "nvme",
        config::Backend::Null { .. } => "null",
        config::Backend::Memory { .. } => "memory",
    }
}

/// Sets the size that a namespace is opened with.
pub(super) fn set_size(backend: &mut config::Backend, bytes: Option<u64>) {
    match backend {
        config::Backend::Null { size, .. } | config::Backend::Memory { size, .. } => {
            *size = bytes.unwrap_or(*size);
        }
        config::Backend::File { size, .. } => *size = bytes,
        config::Backend::Nvme { .. } => {}
    }
}
