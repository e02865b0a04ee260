//! The files and devices behind namespaces and regions: the claims on them, their state when they were open
//! last, and the identities of their data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use sluice_config::{Config, Namespace, RegionConfig, TargetConfig, uuid_of_data};
use uuid::Uuid;

use super::backend::{
    self, Backend, BackendError, Cause, Claims, OnSignature, OpenRegion, Opening, OwnFile,
};
use crate::control::store::{Identities, Place, Seen, SeenNamespaces, StoreError, Unstored};
use crate::serve::engine::EngineError;
use crate::sys::sync::lock;

/// The reason for which a namespace is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// The configuration has the namespace, and it is opened at the start or tried again.
    Configured,
    /// An operator adds the namespace, and sees the result.
    Added,
}

/// A backend that is open.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) backend: Arc<dyn Backend>,
    /// The UUID of its data.
    pub(crate) uuid: Uuid,
    /// A text that distinguishes its data from other files and devices.
    pub(crate) origin: Option<String>,
}

/// The files and devices behind namespaces.
#[derive(Debug)]
pub(crate) struct Backings {
    claims: Claims,
    seen: SeenNamespaces,
    identities: Identities,
    /// The states of this change, which [`Backings::keep`] notes.
    pending: Mutex<Vec<(Place, Seen)>>,
    unstored: Unstored,
}

impl Backings {
    /// Makes the table before any backend is open. `seen` has the states of files and devices when
    /// they were open last.
    pub(crate) fn new(target: &TargetConfig, seen: SeenNamespaces, identities: Identities) -> Self {
        let control = OwnFile { path: target.control.clone(), what: "the control socket" };
        let state = target.state.clone();
        let state = state.map(|path| OwnFile { path, what: "the state file" });
        let claims = Claims::new(state.into_iter().chain([control]).collect());
        Self { claims, seen, identities, pending: Mutex::default(), unstored: Unstored::default() }
    }

    /// Opens a namespace's backend. The state of its file or device is stored by
    /// [`Backings::keep`].
    ///
    /// # Errors
    /// The backend cannot be served, or not as the disk that hosts know; the kernel has no random
    /// UUID.
    pub(crate) fn open(
        &self,
        nqn: &str,
        nsid: u32,
        namespace: &Namespace,
        occasion: Occasion,
    ) -> Result<Opened, EngineError> {
        // Memory that is allocated now is another disk than memory that was lost.
        let is_memory = matches!(namespace.backend, sluice_config::Backend::Memory { .. });
        let known = match is_memory {
            true => namespace.uuid,
            false => self.uuid(nqn, nsid, namespace, occasion)?,
        };
        // A namespace with another UUID is another disk, of which nothing was seen.
        let seen = known.and_then(|uuid| {
            let seen = self.seen.get(nqn, nsid).filter(|seen| seen.uuid == uuid);
            seen.or_else(|| self.identities.seen(nqn, nsid, uuid))
        });
        let signature = match occasion {
            _ if namespace.force => OnSignature::Ignore,
            // The device may have been served before, and its content may be the hosts'.
            Occasion::Configured if !self.seen.complete() => OnSignature::Warn,
            _ => OnSignature::Refuse,
        };
        let name = format!("namespace {nsid} of {nqn}");
        let opening =
            Opening { claims: &self.claims, namespace: &name, seen: seen.as_ref(), signature };
        let backend = backend::open(&namespace.backend, namespace.read_only, &opening)?;
        let description = backend.description();
        let origin = backend.origin();
        let is_other = |uuid: &Uuid| {
            let origin = origin.as_deref();
            namespace.uuid.is_none() && self.identities.is_other_data(nqn, nsid, *uuid, origin)
        };
        let same = known.filter(|uuid| !is_other(uuid));
        if let Some(before) = known.filter(|_| same.is_none()) {
            tracing::warn!(
                subsystem = nqn,
                nsid,
                path = description.path.as_deref().map(|path| path.display().to_string()),
                uuid = %before,
                "another file than before is at this path: hosts get it as another disk. If it has \
                 the same data, a `uuid` of the namespace with this value keeps the disk"
            );
        }
        let uuid = match (same, &description.path) {
            (Some(uuid), _) => uuid,
            // Without a state file, the origin of the data is the same after a restart.
            (None, Some(path)) if !self.identities.durable() => {
                let origin = origin.clone().unwrap_or_else(|| path.display().to_string());
                uuid_of_data(nqn, nsid, &origin)
            }
            (None, _) if is_memory => self.random_uuid(nqn, nsid, Occasion::Added)?,
            (None, _) => self.random_uuid(nqn, nsid, occasion)?,
        };
        if let Some(path) = &description.path {
            if let Some(seen) = seen.as_ref().filter(|seen| seen.uuid == uuid) {
                backend::compare_blocks(path, seen.block_size, description.format.data_bytes())?;
            }
            let now = Seen {
                size: description.format.bytes(backend.health().blocks()),
                block_size: description.format.data_bytes(),
                kind: description.kind.to_owned(),
                path: path.clone(),
                device: description.device.clone(),
                uuid,
            };
            self.pending().push(((nqn.to_owned(), nsid), now));
        }
        Ok(Opened { backend, uuid, origin })
    }

    /// Notes the recorded state of a namespace that was removed and is there again, though it cannot be opened.
    /// [`Backings::keep`] stores it.
    pub(crate) fn note_again(&self, nqn: &str, nsid: u32, uuid: Uuid) {
        let seen = self.identities.seen(nqn, nsid, uuid);
        self.seen.note(seen.map(|seen| ((nqn.to_owned(), nsid), seen)));
    }

    /// Returns the UUID under which hosts know a namespace with this file or device; `None` where none was there
    /// before the change that is under way.
    pub(crate) fn identity(&self, nqn: &str, nsid: u32, namespace: &Namespace) -> Option<Uuid> {
        self.identities.uuid(nqn, nsid, &data(namespace))
    }

    /// Returns the UUID that a namespace has or will have, if it does not depend on the file or device; else
    /// `None`.
    ///
    /// # Errors
    /// The kernel has no random UUID.
    pub(crate) fn uuid(
        &self,
        nqn: &str,
        nsid: u32,
        namespace: &Namespace,
        occasion: Occasion,
    ) -> Result<Option<Uuid>, EngineError> {
        let known = namespace.uuid.or_else(|| self.identity(nqn, nsid, namespace));
        if known.is_some() || !self.identities.durable() {
            return Ok(known);
        }
        // The identities of a state file that was damaged may be lost where the states are not.
        let path = namespace.backend.path();
        let seen = self.seen.get(nqn, nsid).filter(|seen| Some(&*seen.path) == path);
        match seen.filter(|_| occasion == Occasion::Configured) {
            Some(seen) => Ok(Some(seen.uuid)),
            None => self.random_uuid(nqn, nsid, occasion).map(Some),
        }
    }

    fn random_uuid(&self, nqn: &str, nsid: u32, occasion: Occasion) -> Result<Uuid, EngineError> {
        let uuid = self.identities.new_uuid(nqn, nsid, occasion == Occasion::Configured);
        uuid.map_err(|error| EngineError::System(format!("no random UUID can be made: {error}")))
    }

    /// Notes the UUID of a namespace that hosts are shown, whether it replaces another disk, and the origin of its data
    /// (`None` where it is not known). [`Backings::keep`] stores all of this.
    pub(crate) fn identify(
        &self,
        place: (&str, u32),
        namespace: &Namespace,
        identity: (Uuid, bool),
        origin: Option<String>,
    ) {
        self.identities.set_uuid(place, &data(namespace), identity, origin);
    }

    /// Returns the identities, which [`Backings::keep`] stores.
    pub(crate) fn identities(&self) -> &Identities {
        &self.identities
    }

    /// Opens a region. [`Backings::note_regions`] keeps its size, so that a file that has vanished since is not
    /// created again, empty, in its place. The content belongs to clients, so nothing else is recorded.
    ///
    /// # Errors
    /// The region cannot be opened, or is not the file or device that it was.
    pub(crate) fn open_region(&self, region: &RegionConfig) -> Result<OpenRegion, BackendError> {
        let name = format!("region {}", region.name);
        let (place, nsid) = region_place(&region.name);
        let seen =
            self.seen.get(&place, nsid).filter(|seen| Some(&seen.path) == region.path.as_ref());
        let (claims, signature) = (&self.claims, OnSignature::Ignore);
        let opening = Opening { claims, namespace: &name, seen: seen.as_ref(), signature };
        backend::open_region(region, &opening)
    }

    /// Notes the state of regions that are served, with their sizes in bytes, and forgets all others.
    pub(crate) fn note_regions<'a>(
        &self,
        served: impl Iterator<Item = (&'a RegionConfig, Option<u64>)>,
    ) {
        let mut known = BTreeSet::new();
        for (region, bytes) in served {
            let place = region_place(&region.name);
            if let (Some(path), Some(size)) = (region.path.clone(), bytes) {
                let (block_size, device, uuid) = (1, None, Uuid::nil());
                let kind = "region".to_owned();
                let now = Seen { size, block_size, kind, path, device, uuid };
                self.seen.note([(place.clone(), now)]);
            }
            known.insert(place);
        }
        self.seen.forget(|place| is_region(place) && !known.contains(place));
        self.keep_or_warn();
    }

    /// Stores the identities and states that are new, each in one write.
    ///
    /// # Errors
    /// The state file cannot be written: the next start knows only those before, unless [`Backings::store_or_warn`]
    /// stores them.
    pub(crate) fn keep(&self) -> Result<(), StoreError> {
        self.seen.note(std::mem::take(&mut *self.pending()));
        self.store()
    }

    /// Stores the same. A failure is logged, and retried later.
    pub(crate) fn keep_or_warn(&self) {
        // `store` has logged an error.
        let _ = self.keep();
    }

    /// Returns whether something is not stored.
    pub(crate) fn has_unstored(&self) -> bool {
        self.identities.has_unstored() || self.seen.has_unstored()
    }

    /// Stores noted data that is not stored yet. A failure is logged, and retried later.
    pub(crate) fn store_or_warn(&self) {
        // `store` has logged an error.
        let _ = self.store();
    }

    /// Describes unstored data, with the time and the reason of the failure, for the operator; `None` if everything
    /// is stored.
    pub(crate) fn problem(&self) -> Option<String> {
        self.unstored.problem(STORED)
    }

    fn store(&self) -> Result<(), StoreError> {
        // First, since the states name the identities.
        let identities = self.identities.keep();
        let stored = self.seen.keep().and(identities);
        let is_news = self.unstored.note(&stored);
        match &stored {
            Err(error) if is_news => tracing::warn!(
                %error,
                "{STORED} are not stored: a restart would lose them; this is tried again every 5 s"
            ),
            Ok(()) if is_news => tracing::info!("{STORED} are stored now"),
            _ => {}
        }
        stored
    }

    /// Drops the state that was seen of a namespace that is not served after all.
    pub(crate) fn discard(&self, nqn: &str, nsid: u32) {
        self.pending().retain(|((subsystem, id), _)| subsystem != nqn || *id != nsid);
    }

    /// Drops the identity and the state of a namespace that is not added after all, since they could not be stored.
    pub(crate) fn take_back(&self, nqn: &str, nsid: u32) {
        self.seen.forget(|(subsystem, id)| subsystem == nqn && *id == nsid);
        self.identities.discard(nqn, nsid);
    }

    /// Returns the states of all namespaces when they were open last.
    pub(crate) fn all_seen(&self) -> Vec<(Place, Seen)> {
        self.seen.all().into_iter().filter(|(place, _)| !is_region(place)).collect()
    }

    /// Returns the state of a namespace when it was open last.
    pub(crate) fn seen(&self, nqn: &str, nsid: u32) -> Option<Seen> {
        self.seen.get(nqn, nsid)
    }

    /// Stores the size in bytes that an operator gave a namespace.
    pub(crate) fn resized(&self, nqn: &str, nsid: u32, size: u64) {
        let Some(seen) = self.seen(nqn, nsid) else { return };
        self.seen.note([((nqn.to_owned(), nsid), Seen { size, ..seen })]);
        self.store_or_warn();
    }

    /// Forgets namespaces that were removed: a new one in the same place counts as never seen.
    pub(crate) fn forget(&self, gone: impl Fn(&Place) -> bool) {
        self.forget_namespaces(gone);
        self.store_or_warn();
    }

    fn forget_namespaces(&self, gone: impl Fn(&Place) -> bool) {
        self.pending().retain(|(place, _)| !gone(place));
        for (place, seen) in self.seen.forget(|place| !is_region(place) && gone(place)) {
            self.identities.note_removed(place, seen);
        }
    }

    /// Forgets all namespaces and subsystems that are not in a configuration.
    pub(crate) fn forget_others(&self, config: &Config) {
        let known = data_by_place(config);
        self.forget_namespaces(|place| !known.contains_key(place));
        self.identities.forget_others(config);
        self.keep_or_warn();
    }

    /// Forgets the identities of removed namespaces and subsystems that a revert to `file` does not
    /// bring back: `file` does not have them, or `running` does.
    pub(crate) fn forget_removed(&self, file: &Config, running: &Config) {
        let (wanted, present) = (data_by_place(file), data_by_place(running));
        let has = |all: &BTreeMap<Place, String>, place: &Place, data: &str| {
            all.get(place).is_some_and(|other| other == data)
        };
        let nqns = |config: &Config| -> BTreeSet<String> {
            config.subsystems.iter().map(|subsystem| subsystem.nqn.clone()).collect()
        };
        let (in_file, runs) = (nqns(file), nqns(running));
        self.identities.forget_removed(
            |place, data| has(&wanted, place, data) && !has(&present, place, data),
            |nqn| in_file.contains(nqn) && !runs.contains(nqn),
        );
        self.keep_or_warn();
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, Vec<(Place, Seen)>> {
        lock(&self.pending)
    }
}

/// The data that this module stores, in words.
const STORED: &str = "identities of namespaces and states of files and devices";

/// Describes the file or device of a namespace, as the configuration names it.
fn data(namespace: &Namespace) -> String {
    let backend = &namespace.backend;
    match backend.path() {
        Some(path) => format!("{} {}", backend.kind(), path.display()),
        None => backend.kind().to_owned(),
    }
}

/// Describes the files and devices of all namespaces of a configuration.
fn data_by_place(config: &Config) -> BTreeMap<Place, String> {
    let places = config.subsystems.iter().flat_map(|subsystem| {
        let all = subsystem.namespaces.iter();
        all.map(|namespace| ((subsystem.nqn.clone(), namespace.id()), data(namespace)))
    });
    places.collect()
}

/// Returns the place under which the state of a region is kept: no namespace has NSID 0.
fn region_place(name: &str) -> Place {
    (format!("region {name}"), 0)
}

fn is_region((_, nsid): &Place) -> bool {
    *nsid == 0
}

impl From<BackendError> for EngineError {
    fn from(error: BackendError) -> Self {
        let text = error.to_string();
        match error.cause {
            Cause::InUse => Self::Exists(text),
            Cause::HoldsData | Cause::Changed => Self::Refused(text),
            Cause::Missing | Cause::Unusable => Self::System(text),
        }
    }
}
