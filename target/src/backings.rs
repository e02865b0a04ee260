//! The files and devices behind namespaces: which of them this daemon holds, and what was seen of
//! them when they were open last.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use crate::backend::{self, Backend, BackendError, Cause, Claims, OnSignature, Opening, OwnFile};
use crate::config::{Config, Namespace, TargetConfig, derived_uuid};
use crate::engine::EngineError;
use crate::store::{Place, Seen, SeenNamespaces, StoreError};
use crate::sync::lock;

/// Why a namespace is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// The configuration has it, at the start or when it is tried again.
    Configured,
    /// Somebody has just added it, and sees what becomes of it.
    Added,
}

/// The files and devices behind namespaces.
#[derive(Debug)]
pub(crate) struct Backings {
    claims: Claims,
    seen: SeenNamespaces,
    /// What was seen and is not kept yet.
    pending: Mutex<Vec<(Place, Seen)>>,
}

impl Backings {
    /// None is open yet; `seen` is what was seen of them earlier.
    pub(crate) fn new(target: &TargetConfig, seen: SeenNamespaces) -> Self {
        let control = OwnFile { path: target.control.clone(), what: "the control socket" };
        let state = target.state.clone();
        let state = state.map(|path| OwnFile { path, what: "the state file" });
        let claims = Claims::new(state.into_iter().chain([control]).collect());
        Self { claims, seen, pending: Mutex::default() }
    }

    /// Opens a namespace's backend, and notes what it sees until [`Backings::keep`].
    ///
    /// # Errors
    /// It cannot be served, or not be served as the disk that hosts know.
    pub(crate) fn open(
        &self,
        nqn: &str,
        nsid: u32,
        namespace: &Namespace,
        occasion: Occasion,
    ) -> Result<Arc<dyn Backend>, BackendError> {
        let uuid = namespace.uuid.unwrap_or_else(|| derived_uuid(nqn, nsid));
        // With another UUID it is another disk, of which nothing was seen.
        let seen = self.seen.get(nqn, nsid).filter(|seen| seen.uuid == uuid);
        let signature = match occasion {
            _ if namespace.force => OnSignature::Ignore,
            // It may have been served before, and hosts may have put there what there is.
            Occasion::Configured if !self.seen.complete() => OnSignature::Warn,
            _ => OnSignature::Refuse,
        };
        let name = format!("namespace {nsid} of {nqn}");
        let opening =
            Opening { claims: &self.claims, namespace: &name, seen: seen.as_ref(), signature };
        let backend = backend::open(&namespace.backend, namespace.read_only, &opening)?;
        let description = backend.description();
        if let Some(path) = &description.path {
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
        Ok(backend)
    }

    /// Keeps what was seen since the last time, in one write.
    ///
    /// # Errors
    /// The state cannot be written: the next start knows what was known before.
    pub(crate) fn keep(&self) -> Result<(), StoreError> {
        let pending = std::mem::take(&mut *self.pending());
        self.seen.note(pending)
    }

    /// Does not keep what was seen of a namespace that is not served after all.
    pub(crate) fn discard(&self, nqn: &str, nsid: u32) {
        self.pending().retain(|((subsystem, id), _)| subsystem != nqn || *id != nsid);
    }

    /// Returns what was seen of a namespace.
    pub(crate) fn seen(&self, nqn: &str, nsid: u32) -> Option<Seen> {
        self.seen.get(nqn, nsid)
    }

    /// Notes and keeps a size in bytes that somebody gave a namespace.
    pub(crate) fn resized(&self, nqn: &str, nsid: u32, size: u64) {
        let Some(seen) = self.seen(nqn, nsid) else { return };
        let resized = vec![((nqn.to_owned(), nsid), Seen { size, ..seen })];
        if let Err(error) = self.seen.note(resized) {
            tracing::warn!(subsystem = nqn, nsid, %error, "the new size is not kept");
        }
    }

    /// Forgets namespaces that were removed: of one with the same place nothing was seen.
    pub(crate) fn forget(&self, gone: impl Fn(&Place) -> bool) {
        self.pending().retain(|(place, _)| !gone(place));
        if let Err(error) = self.seen.forget(gone) {
            tracing::warn!(%error, "what was seen of removed namespaces stays in the state");
        }
    }

    /// Forgets all namespaces that are not in a configuration.
    pub(crate) fn forget_others(&self, config: &Config) {
        let places = config.subsystems.iter().flat_map(|subsystem| {
            let nsids = subsystem.namespaces.iter().filter_map(|namespace| namespace.nsid);
            nsids.map(|nsid| (subsystem.nqn.clone(), nsid))
        });
        let known: BTreeSet<Place> = places.collect();
        self.forget(|place| !known.contains(place));
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, Vec<(Place, Seen)>> {
        lock(&self.pending)
    }
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
