//! Namespaces that come, go and change: each with its device, its settings in the stages, and its
//! image for hosts.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arbitration::Class;
use fabric::controller::{BackendId, Namespace as FabricNamespace, NamespaceFeatures};
use sluice_core::stats::PerReactor;
use uuid::Uuid;

use super::table::{Known, Table};
use super::{settings, shown};
use crate::backend::{BackendError, WakeUp};
use crate::backings::{Backings, Occasion, Opened};
use crate::config::{self, Namespace};
use crate::devices::Stats;
use crate::engine::{EngineError, FileSystem, NamespaceState};
use crate::file_systems::{self, SparseFile};
use crate::shared::Shared;
use crate::store::Place;
use crate::sync::lock;

/// All namespaces, with their files and devices.
#[derive(Debug)]
pub(super) struct Namespaces {
    pub(super) shared: Arc<Shared>,
    pub(super) backings: Backings,
    pub(super) table: Table,
    /// The keeper's wake-up, for errors of devices.
    pub(super) wake_up: Arc<WakeUp>,
    /// The file systems that files of namespaces are on, as they were at the last look.
    file_systems: Mutex<Vec<FileSystem>>,
    /// The places of namespaces that were removed by the change that is under way, and cannot be opened.
    unsettled: Mutex<BTreeSet<Place>>,
}

impl Namespaces {
    /// Makes a target without namespaces.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub(super) fn new(shared: Arc<Shared>, backings: Backings) -> std::io::Result<Self> {
        let (table, file_systems, unsettled) = Default::default();
        Ok(Self { shared, backings, table, wake_up: WakeUp::new()?, file_systems, unsettled })
    }

    /// Adds a namespace of the configuration, whether its device is there or not.
    pub(super) fn add_configured(&self, nqn: &str, namespace: &Namespace) -> anyhow::Result<()> {
        use anyhow::Context;
        let nsid = namespace.nsid.unwrap_or_else(|| self.lowest_free_nsid(nqn));
        match self.open(nqn, nsid, namespace, Occasion::Configured) {
            Ok(opened) => self.install((nqn, nsid), namespace, opened),
            Err(error) => self.install_absent((nqn, nsid), namespace, error.to_string()),
        }
        .with_context(|| format!("namespace {nsid} of {nqn}"))
    }

    /// Adds a namespace on request. It is not added where its identity and the state of its device
    /// cannot be kept: the next start could not tell it from a new one. Returns the UUID.
    ///
    /// A namespace that was not available before the change that this is part of may stay so, and so may one that
    /// is put back: its hosts keep the disk.
    pub(super) fn add(&self, nqn: &str, namespace: &Namespace) -> Result<Uuid, EngineError> {
        let nsid = namespace.nsid.unwrap_or_else(|| self.lowest_free_nsid(nqn));
        if self.shared.with_service(|service| service.namespace(nqn, nsid).is_some()) {
            let message = format!("namespace {nsid} of {nqn} exists already");
            return Err(EngineError::Exists(message));
        }
        let place = (nqn.to_owned(), nsid);
        let opened = match self.open(nqn, nsid, namespace, Occasion::Added) {
            Ok(opened) => opened,
            Err(error) => {
                let first = lock(&self.unsettled).insert(place);
                let identity = self.backings.identity(nqn, nsid, namespace).filter(|_| !first);
                let Some(uuid) = identity else { return Err(error) };
                self.backings.keep_seen(nqn, nsid, uuid);
                self.install_absent((nqn, nsid), namespace, error.to_string())?;
                return Ok(uuid);
            }
        };
        let uuid = opened.uuid;
        self.install((nqn, nsid), namespace, opened)?;
        lock(&self.unsettled).remove(&place);
        if let Err(error) = self.backings.keep() {
            self.remove(nqn, nsid)?;
            self.backings.identities().discard(nqn, nsid);
            return Err(EngineError::System(format!("it is not added: {error}")));
        }
        Ok(uuid)
    }

    /// Opens a namespace's file or device.
    pub(super) fn open(
        &self,
        nqn: &str,
        nsid: u32,
        namespace: &Namespace,
        occasion: Occasion,
    ) -> Result<Opened, EngineError> {
        if matches!(namespace.backend, config::Backend::Nvme { .. })
            && !self.shared.passthrough.load(Ordering::Relaxed)
        {
            return Err(EngineError::System(
                "this kernel's io_uring has no passthrough (URING_CMD, Linux 5.19): use \
                 backend = \"block\" on the block device, or a newer kernel"
                    .to_owned(),
            ));
        }
        self.backings.open(nqn, nsid, namespace, occasion)
    }

    /// Puts a namespace that is open in place: hosts see it from here on.
    pub(super) fn install(
        &self,
        (nqn, nsid): (&str, u32),
        namespace: &Namespace,
        Opened { backend, uuid }: Opened,
    ) -> Result<(), EngineError> {
        let place = (nqn.to_owned(), nsid);
        backend.health().report_to(&self.wake_up);
        let again =
            self.table.with(&place, |known| (Arc::clone(&known.stats), known.cached.clone()));
        let reopened = again.is_some();
        let (stats, cached) = again.unwrap_or_else(|| (self.fresh_stats(), None));
        if cached.is_some_and(|cached| cached.are_pending()) {
            tracing::error!(
                subsystem = nqn,
                nsid,
                "writes that were cached when the device went away may be lost: the next Flush fails"
            );
            backend.health().lose_cached_before();
        }
        let rules = {
            let general = &self.shared.qos.snapshot().general;
            settings::device_rules(namespace, general, backend.description().seeks)
        };
        let (id, device) = self.shared.devices.add(backend, rules, Arc::clone(&stats));
        let now = self.shared.clock.now();
        // The namespace's session and class exist before its first command.
        let qos = (namespace.class, &namespace.device);
        self.shared.qos.add_namespace(now, (nqn, nsid), id, &device, qos);
        self.shared.refresh();
        let mut open = shown::open(nsid, namespace, uuid, id, &*device.backend);
        let replaces = self.replaces(nqn, nsid, uuid);
        open.replaces = replaces;
        let added = self.shared.with_service(|service| {
            if reopened {
                return service.replace_namespace(now, nqn, open).map(drop);
            }
            service.add_namespace(now, nqn, open).map(drop)
        });
        if let Err(error) = added {
            self.shared.qos.remove_namespace(now, nqn, nsid);
            self.shared.remove_devices(&[id]);
            self.backings.discard(nqn, nsid);
            return Err(error.into());
        }
        let origin = device.backend.origin();
        self.backings.identify((nqn, nsid), namespace, (uuid, replaces), origin);
        if reopened {
            self.table.with(&place, |known| (known.open, known.cached) = (Some(id), None));
        } else {
            self.table.insert(place, Known::serving(namespace.clone(), id, stats));
        }
        Ok(())
    }

    /// Puts a namespace in place that could not be opened: hosts see it, and are told to retry.
    fn install_absent(
        &self,
        (nqn, nsid): (&str, u32),
        namespace: &Namespace,
        why: String,
    ) -> Result<(), EngineError> {
        let now = self.shared.clock.now();
        let uuid = self.backings.uuid(nqn, nsid, namespace, Occasion::Configured)?;
        let mut absent = shown::absent(nsid, namespace, uuid, self.backings.seen(nqn, nsid), now);
        let replaces = self.replaces(nqn, nsid, uuid.unwrap_or_default());
        absent.replaces = replaces;
        self.shared.with_service(|service| service.add_namespace(now, nqn, absent).map(drop))?;
        if let Some(uuid) = uuid {
            self.backings.identify((nqn, nsid), namespace, (uuid, replaces), None);
        }
        tracing::error!(
            subsystem = nqn,
            nsid,
            reason = why,
            "the namespace is not available: hosts are told to retry until its device opens"
        );
        let known = Known::absent(namespace.clone(), self.fresh_stats(), now, why);
        self.table.insert((nqn.to_owned(), nsid), known);
        Ok(())
    }

    /// Says whether a namespace is another disk than hosts may know by its NSID.
    fn replaces(&self, nqn: &str, nsid: u32, uuid: Uuid) -> bool {
        let is_identified = |other: Uuid| {
            let other = other.into_bytes();
            self.shared.with_service(|service| service.is_identified(nqn, nsid, other))
        };
        self.backings.identities().replaces(nqn, nsid, uuid, is_identified)
    }

    fn fresh_stats(&self) -> Stats {
        Arc::new(PerReactor::new(self.shared.mailboxes.len()))
    }

    /// Removes a namespace.
    pub(super) fn remove(&self, nqn: &str, nsid: u32) -> Result<(), EngineError> {
        let now = self.shared.clock.now();
        let removed = self.shared.with_service(|service| service.remove_namespace(now, nqn, nsid));
        let backend = removed?.backend;
        self.note_unsettled(|(of, id)| of == nqn && *id == nsid);
        self.table.forget(nqn, nsid);
        self.shared.qos.remove_namespace(now, nqn, nsid);
        self.shared.refresh();
        self.retire(&[backend]);
        self.backings.forget(|place| place == &(nqn.to_owned(), nsid));
        Ok(())
    }

    /// Removes what is left of the namespaces of a removed subsystem: their entries, `devices` and
    /// claims.
    pub(super) fn remove_all_of(&self, nqn: &str, devices: &[BackendId]) {
        self.note_unsettled(|(of, _)| of == nqn);
        self.table.forget_all_of(nqn);
        self.retire(devices);
        self.backings.forget(|(other, _)| other == nqn);
    }

    /// Notes the namespaces that are removed without having been available.
    fn note_unsettled(&self, is_removed: impl Fn(&Place) -> bool) {
        let absent = self.table.places(|place, known| is_removed(place) && known.open.is_none());
        lock(&self.unsettled).extend(absent);
    }

    /// Notes that changes are complete: a namespace that is added at one of these places now is a new one.
    pub(super) fn settle(&self, is_complete: impl Fn(&Place) -> bool) {
        lock(&self.unsettled).retain(|place| !is_complete(place));
    }

    /// Waits until no reactor has the devices, and closes them on this thread: a reactor would
    /// stand still while the memory of a large namespace is freed.
    fn retire(&self, backends: &[BackendId]) {
        const LONGEST: Duration = Duration::from_secs(5);
        const NAP: Duration = Duration::from_millis(2);
        let mut nap = Duration::from_micros(20);
        let start = Instant::now();
        for device in self.shared.remove_devices(backends) {
            while Arc::strong_count(&device) > 1 && start.elapsed() < LONGEST {
                std::thread::sleep(nap);
                nap = (nap * 2).min(NAP);
            }
        }
    }

    /// Sets a namespace's size in bytes; `None` stands for the size of its file or device. Returns
    /// the size.
    pub(super) fn resize(
        &self,
        nqn: &str,
        nsid: u32,
        size: Option<u64>,
    ) -> Result<u64, EngineError> {
        if let Some(why) = self.why_unavailable(nqn, nsid) {
            return Err(EngineError::Invalid(format!(
                "namespace {nsid} of {nqn} is not available: {why}; it can have another size when \
                 its device is there"
            )));
        }
        let missing = || EngineError::NotFound(format!("subsystem {nqn} has no namespace {nsid}"));
        let id = self
            .shared
            .with_service(|service| service.namespace(nqn, nsid).map(|n| n.backend))
            .ok_or_else(missing)?;
        let device = self.shared.devices.get(id).ok_or_else(missing)?;
        let format = device.backend.description().format;
        if let Some(size) = size
            && (size == 0 || !format.divides(size))
        {
            return Err(EngineError::Invalid(format!(
                "{size} bytes is not a size: give a multiple of the block size, {} bytes",
                format.data_bytes()
            )));
        }
        // A namespace shrinks before its device does, and grows after it.
        let now = self.shared.clock.now();
        let resize = |blocks| {
            self.shared.with_service(|service| service.resize_namespace(now, nqn, nsid, blocks))
        };
        let wanted = size.map(|size| format.blocks(size));
        if let Some(blocks) = wanted.filter(|&blocks| blocks < device.backend.health().blocks()) {
            resize(blocks)?;
        }
        let invalid = |error: BackendError| EngineError::Invalid(error.to_string());
        let blocks = device.backend.resize(wanted).map_err(invalid)?;
        resize(blocks)?;
        self.shared.qos.resize_namespace(now, nqn, nsid, format.bytes(blocks));
        self.shared.refresh();
        self.backings.resized(nqn, nsid, format.bytes(blocks));
        self.table.reconfigure(nqn, nsid, |known| known.backend.set_size(size));
        Ok(format.bytes(blocks))
    }

    /// Sets a namespace's class. A namespace that is not available has the class once it is.
    pub(super) fn set_class(
        &self,
        nqn: &str,
        nsid: u32,
        class: Option<Class>,
    ) -> Result<(), EngineError> {
        let known = self.table.reconfigure(nqn, nsid, |known| known.class = class);
        if self.shared.qos.set_namespace(self.shared.clock.now(), nqn, nsid, class) {
            self.shared.refresh();
        }
        if known {
            return Ok(());
        }
        Err(EngineError::NotFound(format!("there is no namespace {nsid} in {nqn}")))
    }

    /// Says why a namespace does not serve; `None` where it does, or does not exist.
    fn why_unavailable(&self, nqn: &str, nsid: u32) -> Option<String> {
        let now = self.shared.clock.now();
        let known = self.table.with(&(nqn.to_owned(), nsid), |known| {
            (!known.watch.is_open()).then(|| known.watch.state(now).1)
        });
        known.flatten().flatten()
    }

    /// Looks at the file systems that files of namespaces are on, and warns of those that are
    /// overcommitted; `is_change` says that an operator has changed namespaces.
    pub(super) fn survey(&self, is_change: bool) {
        // Looking may block, and the answers to requests must not.
        let files = self.table.written();
        let files = files.iter().filter_map(|backend| SparseFile::of(backend, false));
        let now = file_systems::sum(files);
        let before = std::mem::replace(&mut *lock(&self.file_systems), now.clone());
        for warning in file_systems::news(&before, &now, is_change) {
            tracing::warn!("{warning}");
        }
    }

    /// Returns the file systems at the last look.
    pub(super) fn file_systems(&self) -> Vec<FileSystem> {
        lock(&self.file_systems).clone()
    }

    /// Returns what the operator should know of a namespace's file or device: how it is used, and that
    /// its file system is overcommitted.
    pub(super) fn warnings(&self, nqn: &str, nsid: u32) -> Vec<String> {
        let known = self.table.with(&(nqn.to_owned(), nsid), |known| {
            (known.open, known.config.backend.clone(), known.config.read_only)
        });
        let Some((open, backend, read_only)) = known else { return Vec::new() };
        let device = open.and_then(|id| self.shared.devices.get(id));
        let notice = device.and_then(|device| device.backend.description().notice.clone());
        let path = backend.path().unwrap_or(Path::new("?")).display();
        let notice = notice.map(|notice| format!("{path}: {notice}"));
        let own = SparseFile::of(&backend, read_only).map(|file| file_systems::sum([file]));
        let mounts: Vec<String> = own.into_iter().flatten().map(|of| of.mount).collect();
        let all = self.file_systems();
        let shared = all.iter().filter(|of| mounts.contains(&of.mount));
        notice.into_iter().chain(shared.filter_map(file_systems::warning)).collect()
    }

    fn lowest_free_nsid(&self, nqn: &str) -> u32 {
        self.shared.with_service(|service| service.free_nsid(nqn)).unwrap_or(1)
    }

    /// Returns the states of the namespaces of one subsystem that hosts see.
    pub(super) fn states(&self, nqn: &str, all: &[Arc<FabricNamespace>]) -> Vec<NamespaceState> {
        all.iter().map(|namespace| self.state(nqn, namespace)).collect()
    }

    fn state(&self, nqn: &str, namespace: &FabricNamespace) -> NamespaceState {
        let now = self.shared.clock.now();
        let device = self.shared.devices.get(namespace.backend);
        let description = device.as_ref().map(|device| device.backend.description());
        let known = self.table.with(&(nqn.to_owned(), namespace.nsid), |known| {
            let backend = &known.config.backend;
            let path = backend.path().map(std::path::Path::to_owned);
            (backend.kind(), path, known.watch.state(now), known.watch.errors())
        });
        // A namespace that has just been removed is shown as far as hosts see it.
        let (kind, path, (state, reason), errors) = known.unwrap_or_default();
        let path = description.map_or(path, |open| open.path.clone());
        let block_size =
            if namespace.has_geometry() { namespace.geometry.format.data_bytes() } else { 0 };
        NamespaceState {
            nsid: namespace.nsid,
            backend: description.map_or(kind, |open| open.kind).to_owned(),
            region: description.and_then(|open| open.region).map(str::to_owned),
            path: path.map(|path| path.display().to_string()),
            size: namespace.geometry.bytes(),
            block_size,
            uuid: told(namespace.uuid).map(|uuid| uuid.to_string()).unwrap_or_default(),
            nguid: told(namespace.nguid).map(|id| id.simple().to_string()).unwrap_or_default(),
            read_only: namespace.features.contains(NamespaceFeatures::READ_ONLY),
            hosts: namespace.hosts.clone(),
            state,
            reason,
            errors,
        }
    }
}

/// Returns an identifier of 16 bytes; `None` of zeroes, where it is not known yet.
fn told(bytes: [u8; 16]) -> Option<Uuid> {
    Some(Uuid::from_bytes(bytes)).filter(|uuid| !uuid.is_nil())
}
