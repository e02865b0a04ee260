//! Namespaces that come, go and change: each with its device, its settings in the stages, and its
//! image for hosts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use arbitration::Class;
use fabric::controller::{BackendId, Namespace as FabricNamespace, NamespaceFeatures};
use sluice_config::{Namespace, RegionConfig};
use sluice_core::stats::PerReactor;
use uuid::Uuid;

use super::helpers::Helpers;
use super::table::{Fingerprint, Known, Table, fingerprint};
use super::{settings, shown};
use crate::control::store::Place;
use crate::disks::backend::{BackendError, OpenRegion, WakeUp};
use crate::disks::backings::{Backings, Occasion, Opened};
use crate::disks::devices::{Presence, Stats};
use crate::disks::file_systems::{self, SparseFile};
use crate::serve::engine::{EngineError, FileSystem, NamespaceState};
use crate::serve::pmem::RegionFiles;
use crate::serve::qos::LimitChange;
use crate::serve::shared::Shared;
use crate::sys::sync::lock;

/// The time after which a device or file system does not answer: the others are looked at meanwhile.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// The same for an operator's request, which may take longer: a file grows, or a page cache is written back.
const CHANGES_WITHIN: Duration = Duration::from_secs(30);

/// Work that may wait for a device or file system. No two threads do the same at once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    /// Looks at an open file or device, and closes it if it is gone.
    Check(Place),
    /// Looks whether something has changed at the path.
    Compare(Place),
    /// Opens the file or device of a namespace of the configuration.
    Open(Place),
    /// Opens a region of the configuration.
    OpenRegion(String),
    /// Tries again to open regions that are not open.
    OpenRegions,
    /// Carries out an operator's request at a path.
    Change(PathBuf),
    /// Looks at the file systems of all files.
    Survey,
    /// Closes a device.
    Close(BackendId),
    /// Stores what could not be stored.
    Keep,
}

/// A try to open a namespace.
#[derive(Debug)]
pub(super) struct Try {
    /// The fingerprint of the file or device at the path; `None` if there is none, or it does not answer.
    tried: Option<Fingerprint>,
    opened: Result<Opened, EngineError>,
}

/// All namespaces, with their files and devices.
#[derive(Debug)]
pub(super) struct Namespaces {
    pub(super) shared: Arc<Shared>,
    pub(super) backings: Backings,
    pub(super) table: Table,
    /// The keeper's wake-up, for errors of devices.
    pub(super) wake_up: Arc<WakeUp>,
    /// Threads for work at files and devices. The lock of changes is not held meanwhile.
    pub(super) helpers: Helpers<Task>,
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
        let wake_up = WakeUp::new()?;
        shared.devices.report_to(&wake_up);
        let helpers = Helpers::new(ANSWERS_WITHIN, Arc::clone(&wake_up));
        Ok(Self { shared, backings, table, wake_up, helpers, file_systems, unsettled })
    }

    /// Adds a namespace of the configuration, whether its device is there or not.
    pub(super) fn add_configured(
        self: &Arc<Self>,
        nqn: &str,
        namespace: &Namespace,
    ) -> anyhow::Result<()> {
        use anyhow::Context;
        let nsid = namespace.nsid.unwrap_or_else(|| self.lowest_free_nsid(nqn));
        let how = (Occasion::Configured, Task::Open((nqn.to_owned(), nsid)), None);
        let Try { tried, opened } = self.try_within((nqn, nsid), namespace, how);
        match opened {
            Ok(opened) => self.install((nqn, nsid), namespace, opened),
            Err(error) => self.install_absent((nqn, nsid), namespace, (error.to_string(), tried)),
        }
        .with_context(|| format!("namespace {nsid} of {nqn}"))
    }

    /// Adds a namespace on request. It is not added if its identity and the state of its device cannot be kept: the
    /// next start could not distinguish it from a new one. Returns the UUID.
    ///
    /// A namespace that was not available before the change that this is part of may stay so, and so may a
    /// namespace that is put back: its hosts keep the disk.
    pub(super) fn add(
        self: &Arc<Self>,
        nqn: &str,
        namespace: &Namespace,
    ) -> Result<Uuid, EngineError> {
        self.add_within(nqn, namespace, CHANGES_WITHIN)
    }

    /// Does the same where the file or device answers within this time.
    pub(super) fn add_within(
        self: &Arc<Self>,
        nqn: &str,
        namespace: &Namespace,
        within: Duration,
    ) -> Result<Uuid, EngineError> {
        let nsid = namespace.nsid.unwrap_or_else(|| self.lowest_free_nsid(nqn));
        if self.shared.with_service(|service| service.namespace(nqn, nsid).is_some()) {
            let message = format!("namespace {nsid} of {nqn} exists already");
            return Err(EngineError::Exists(message));
        }
        let place = (nqn.to_owned(), nsid);
        let path = namespace.backend.path().map(Path::to_owned).unwrap_or_default();
        let how = (Occasion::Added, Task::Change(path), Some(within));
        let Try { tried, opened } = self.try_within((nqn, nsid), namespace, how);
        let one = lock(&self.shared.change);
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let first = lock(&self.unsettled).insert(place);
                let identity = self.backings.identity(nqn, nsid, namespace).filter(|_| !first);
                let Some(uuid) = identity else { return Err(error) };
                self.backings.note_again(nqn, nsid, uuid);
                self.install_absent((nqn, nsid), namespace, (error.to_string(), tried))?;
                drop(one);
                self.backings.keep_or_warn();
                return Ok(uuid);
            }
        };
        let uuid = opened.uuid;
        self.install((nqn, nsid), namespace, opened)?;
        drop(one);
        if let Err(error) = self.backings.keep() {
            let backend = self.take_out(nqn, nsid)?;
            self.backings.take_back(nqn, nsid);
            self.retire(&[backend]);
            return Err(EngineError::System(format!("it is not added: {error}")));
        }
        lock(&self.unsettled).remove(&place);
        Ok(uuid)
    }

    /// Tries to open a namespace's file or device within a time (`None`: the time of [`Helpers::ask`]).
    fn try_within(
        self: &Arc<Self>,
        (nqn, nsid): (&str, u32),
        namespace: &Namespace,
        (occasion, task, within): (Occasion, Task, Option<Duration>),
    ) -> Try {
        let Some(path) = namespace.backend.path() else {
            return Try { tried: None, opened: self.open(nqn, nsid, namespace, occasion) };
        };
        let (own, nqn, namespace) = (Arc::clone(self), nqn.to_owned(), namespace.clone());
        let at = path.to_owned();
        let done = self.helpers.ask(&task, within, move || Try {
            tried: fingerprint(&at),
            opened: own.open(&nqn, nsid, &namespace, occasion),
        });
        done.unwrap_or_else(|| Try { tried: None, opened: Err(does_not_answer(path)) })
    }

    /// Carries out an operator's request at a file or device.
    fn ask<R: Send + 'static>(
        &self,
        path: Option<&Path>,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, EngineError> {
        let Some(path) = path else { return Ok(work()) };
        let done = self.helpers.ask(&Task::Change(path.to_owned()), Some(CHANGES_WITHIN), work);
        done.ok_or_else(|| does_not_answer(path))
    }

    /// Opens a namespace's file or device. This may wait for a device or server that does not answer.
    pub(super) fn open(
        &self,
        nqn: &str,
        nsid: u32,
        namespace: &Namespace,
        occasion: Occasion,
    ) -> Result<Opened, EngineError> {
        if matches!(namespace.backend, sluice_config::Backend::Nvme { .. })
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

    /// Puts a namespace that is open in place: hosts see it from here on. The caller has the lock of changes.
    pub(super) fn install(
        &self,
        (nqn, nsid): (&str, u32),
        namespace: &Namespace,
        Opened { backend, uuid, origin }: Opened,
    ) -> Result<(), EngineError> {
        let place = (nqn.to_owned(), nsid);
        backend.health().report_to(&self.wake_up);
        let again =
            self.table.with(&place, |known| (Arc::clone(&known.stats), known.cached.clone()));
        let reopened = again.is_some();
        let (stats, cached) = again.unwrap_or_else(|| (self.fresh_stats(), None));
        let untold = cached.map(|(cached, users)| cached.untold(users)).unwrap_or_default();
        if !untold.is_empty() {
            tracing::error!(
                subsystem = nqn,
                nsid,
                "writes that were cached when the device went away may be lost: the next Flush of \
                 each host that used it fails"
            );
            backend.health().lose_cached_before(untold);
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
        self.backings.identify((nqn, nsid), namespace, (uuid, replaces), origin);
        if reopened {
            self.table.with(&place, |known| (known.open, known.cached) = (Some(id), None));
        } else {
            self.table.insert(place, Known::serving(namespace.clone(), id, stats));
        }
        Ok(())
    }

    /// Adds a namespace that could not be opened: hosts see it, and must retry their commands.
    fn install_absent(
        &self,
        (nqn, nsid): (&str, u32),
        namespace: &Namespace,
        (why, tried): (String, Option<Fingerprint>),
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
            "the namespace is not available: hosts are asked to retry until its device opens"
        );
        let known = Known::absent(namespace.clone(), self.fresh_stats(), now, (why, tried));
        self.table.insert((nqn.to_owned(), nsid), known);
        Ok(())
    }

    /// Returns whether a namespace is another disk than hosts may know by its NSID.
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
        let backend = self.take_out(nqn, nsid)?;
        self.retire(&[backend]);
        self.backings.forget(|place| place == &(nqn.to_owned(), nsid));
        Ok(())
    }

    /// Ends a namespace for hosts. Returns its device, for [`Self::retire`].
    fn take_out(&self, nqn: &str, nsid: u32) -> Result<BackendId, EngineError> {
        let _one = lock(&self.shared.change);
        let now = self.shared.clock.now();
        let removed = self.shared.with_service(|service| service.remove_namespace(now, nqn, nsid));
        let backend = removed?.backend;
        self.note_unsettled(|(of, id)| of == nqn && *id == nsid);
        self.table.forget(nqn, nsid);
        self.shared.qos.remove_namespace(now, nqn, nsid);
        self.shared.refresh();
        Ok(backend)
    }

    /// Removes the entries of all namespaces of a removed subsystem.
    pub(super) fn remove_entries_of(&self, nqn: &str) {
        self.note_unsettled(|(of, _)| of == nqn);
        self.table.forget_all_of(nqn);
    }

    /// Closes the `devices` of a removed subsystem, and forgets their recorded states.
    pub(super) fn retire_all_of(&self, nqn: &str, devices: &[BackendId]) {
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

    /// Waits until no reactor has the devices and they are closed, so that they can be used otherwise. The wait is
    /// bounded: commands may be in a device, and an unresponsive device does not close.
    fn retire(&self, backends: &[BackendId]) {
        const LONGEST: Duration = Duration::from_secs(5);
        let devices = self.shared.remove_devices(backends);
        let open: Vec<Weak<Presence>> = devices.iter().map(|device| device.presence()).collect();
        let start = Instant::now();
        for device in devices {
            nap_while(|| Arc::strong_count(&device) > 1 && start.elapsed() < LONGEST);
        }
        self.close_unused();
        let is_open = || open.iter().any(|presence| presence.strong_count() > 0);
        nap_while(|| is_open() && start.elapsed() < CHANGES_WITHIN);
        if is_open() {
            tracing::warn!(
                "a removed namespace's device is still being closed: until then it cannot be used otherwise"
            );
        }
    }

    /// Closes the devices that nobody uses any more.
    pub(super) fn close_unused(&self) {
        for closing in self.shared.devices.take_unused() {
            self.helpers.run(&Task::Close(closing.id()), move || drop(closing));
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
        // A namespace shrinks before its device does, and grows after it. Meanwhile the keeper may close the device.
        let place = (nqn.to_owned(), nsid);
        let resize = |blocks| {
            if self.table.with(&place, |known| known.open) != Some(Some(id)) {
                return Err(EngineError::Invalid(format!(
                    "the device of namespace {nsid} of {nqn} went away meanwhile"
                )));
            }
            let now = self.shared.clock.now();
            self.shared.with_service(|service| service.resize_namespace(now, nqn, nsid, blocks))?;
            Ok(())
        };
        let wanted = size.map(|size| format.blocks(size));
        if let Some(blocks) = wanted.filter(|&blocks| blocks < device.backend.health().blocks()) {
            let _one = lock(&self.shared.change);
            let change = LimitChange::Size { nqn, nsid, bytes: format.bytes(blocks) };
            if let Some(refusal) = self.shared.refusal(change) {
                return Err(EngineError::Invalid(refusal));
            }
            resize(blocks)?;
        }
        let invalid = |error: BackendError| EngineError::Invalid(error.to_string());
        let path = device.backend.description().path.clone();
        let own = Arc::clone(&device);
        let resized = self.ask(path.as_deref(), move || own.backend.resize(wanted))?;
        let blocks = resized.map_err(invalid)?;
        let one = lock(&self.shared.change);
        resize(blocks)?;
        let now = self.shared.clock.now();
        self.shared.qos.resize_namespace(now, nqn, nsid, format.bytes(blocks));
        self.shared.refresh();
        self.table.reconfigure(nqn, nsid, |known| known.backend.set_size(size));
        drop(one);
        self.backings.resized(nqn, nsid, format.bytes(blocks));
        Ok(format.bytes(blocks))
    }

    /// Returns the number of blocks that a device has now; `None` where it does not answer.
    pub(super) fn present_blocks(&self, id: BackendId) -> Option<u64> {
        let device = self.shared.devices.get(id)?;
        let path = device.backend.description().path.clone();
        self.ask(path.as_deref(), move || device.backend.present_blocks()).ok()?.ok()
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

    /// Looks at the file systems of namespaces' files, and warns of overcommitted ones; `is_change` means that an
    /// operator has changed namespaces.
    pub(super) fn survey(self: &Arc<Self>, is_change: bool) {
        // One look that does not end must not delay each change.
        if !self.helpers.has_left_alone(&Task::Survey) {
            let own = Arc::clone(self);
            self.helpers.run_after(&Task::Survey, move || own.look_at_file_systems(is_change));
        }
    }

    fn look_at_file_systems(&self, is_change: bool) {
        let files = self.table.written();
        let files = files.iter().filter_map(|backend| SparseFile::of(backend, false));
        let regions = self.shared.pmem.config().regions;
        let now = file_systems::sum(files.chain(regions.iter().filter_map(SparseFile::of_region)));
        let before = std::mem::replace(&mut *lock(&self.file_systems), now.clone());
        for warning in file_systems::news(&before, &now, is_change) {
            tracing::warn!("{warning}");
        }
    }

    /// Returns the file systems at the last look.
    pub(super) fn file_systems(&self) -> Vec<FileSystem> {
        lock(&self.file_systems).clone()
    }

    /// Returns warnings for the operator about a namespace's file or device: how it is used, and that its file
    /// system is overcommitted.
    pub(super) fn warnings(&self, nqn: &str, nsid: u32) -> Vec<String> {
        let known = self.table.with(&(nqn.to_owned(), nsid), |known| {
            (known.open, known.config.backend.clone(), known.config.read_only)
        });
        let Some((open, backend, read_only)) = known else { return Vec::new() };
        let device = open.and_then(|id| self.shared.devices.get(id));
        let notice = device.and_then(|device| device.backend.description().notice.clone());
        let path = backend.path().unwrap_or(Path::new("?")).display();
        let notice = notice.map(|notice| format!("{path}: {notice}"));
        let path = backend.path().map(Path::to_owned);
        let own = self.ask(path.as_deref(), move || {
            SparseFile::of(&backend, read_only).map(|file| file_systems::sum([file]))
        });
        let own = own.ok().flatten();
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

    fn state(&self, nqn: &str, namespace: &Arc<FabricNamespace>) -> NamespaceState {
        let now = self.shared.clock.now();
        let known = self.table.with(&(nqn.to_owned(), namespace.nsid), |known| {
            let backend = &known.config.backend;
            let path = backend.path().map(std::path::Path::to_owned);
            (backend.kind(), path, known.watch.state(now), known.watch.errors(), known.open)
        });
        // A namespace that has just been removed is shown as far as hosts see it.
        let (kind, path, (state, reason), errors, open) = known.unwrap_or_default();
        // A namespace that was opened since `namespace` was read is shown with its present properties.
        let reopened = open.filter(|open| *open != namespace.backend).and_then(|_| {
            self.shared.with_service(|service| service.namespace(nqn, namespace.nsid).cloned())
        });
        let namespace = reopened.as_ref().unwrap_or(namespace);
        let device = self.shared.devices.get(namespace.backend);
        let description = device.as_ref().map(|device| device.backend.description());
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

impl RegionFiles for Arc<Namespaces> {
    fn backings(&self) -> &Backings {
        &self.backings
    }

    fn open_or_resize(
        &self,
        region: &RegionConfig,
        from: Option<&OpenRegion>,
        is_change: bool,
    ) -> Result<OpenRegion, EngineError> {
        let Some(path) = &region.path else {
            return RegionFiles::open_or_resize(&self.backings, region, from, is_change);
        };
        let (own, config, from) = (Self::clone(self), region.clone(), from.cloned());
        let (task, within) = match is_change {
            true => (Task::Change(path.clone()), Some(CHANGES_WITHIN)),
            false => (Task::OpenRegion(region.name.clone()), None),
        };
        let open =
            move || RegionFiles::open_or_resize(&own.backings, &config, from.as_ref(), is_change);
        self.helpers.ask(&task, within, open).unwrap_or_else(|| Err(does_not_answer(path)))
    }
}

fn does_not_answer(path: &Path) -> EngineError {
    EngineError::System(format!("{}: its device or file system does not answer", path.display()))
}

/// Sleeps while a condition holds, ever longer up to 2 ms at a time.
fn nap_while(condition: impl Fn() -> bool) {
    const NAP: Duration = Duration::from_millis(2);
    let mut nap = Duration::from_micros(20);
    while condition() {
        std::thread::sleep(nap);
        nap = (nap * 2).min(NAP);
    }
}

/// Returns an identifier of 16 bytes; `None` of zeroes, where it is not known yet.
fn told(bytes: [u8; 16]) -> Option<Uuid> {
    Some(Uuid::from_bytes(bytes)).filter(|uuid| !uuid.is_nil())
}
