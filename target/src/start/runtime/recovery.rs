//! Devices that go away while their namespaces are served, and come back.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fabric::Nanos;
use fabric::controller::{BackendId, Namespace as FabricNamespace, Readiness};

use super::hurt;
use super::namespaces::{Namespaces, Task};
use super::table::{Known, fingerprint};
use crate::control::store::Place;
use crate::disks::availability::Note;
use crate::disks::backend::Finding;
use crate::disks::backings::Occasion;
use crate::disks::devices::OpenDevice;
use crate::sys::sync::lock;

/// The time after which the keeper looks again at a device whose last user is about to let go of it.
const SOON: Duration = Duration::from_millis(10);

/// The recovery of devices: closes devices that are gone, and opens them again.
#[derive(Debug)]
pub(super) struct Recovery {
    pub(super) namespaces: Arc<Namespaces>,
}

impl Recovery {
    /// Makes the recovery of these namespaces.
    pub(super) fn new(namespaces: Arc<Namespaces>) -> Self {
        Self { namespaces }
    }

    fn now(&self) -> Nanos {
        self.namespaces.shared.clock.now()
    }

    /// Returns whether a device has not answered yet.
    pub(super) fn waits(&self) -> bool {
        self.namespaces.helpers.are_busy()
    }

    /// Does all work that is due for the namespaces; with `look`, looks at their files too. Returns
    /// the time of the next work.
    pub(super) fn tend(self: &Arc<Self>, look: bool) -> Option<Nanos> {
        let table = &self.namespaces.table;
        self.namespaces.close_unused();
        for place in table.places(|_, known| known.open.is_some()) {
            if look || !self.is_quiet(&place) {
                self.help(Task::Check, &place, move |own, place| own.check_open(place, look));
            } else {
                self.check_open(&place, look);
            }
        }
        if look {
            for place in table.places(|_, known| known.open.is_none()) {
                self.help(Task::Compare, &place, |recovery, place| {
                    recovery.namespaces.table.nudge_changed(place, recovery.now());
                });
            }
            self.namespaces.survey(false);
            if self.namespaces.shared.pmem.has_closed() {
                let namespaces = Arc::clone(&self.namespaces);
                let open = move || namespaces.shared.pmem.retry(&namespaces);
                self.namespaces.helpers.run(&Task::OpenRegions, open);
            }
            if self.namespaces.backings.has_unstored() {
                let namespaces = Arc::clone(&self.namespaces);
                self.namespaces
                    .helpers
                    .run(&Task::Keep, move || namespaces.backings.store_or_warn());
            }
        }
        let now = self.now();
        for place in table.places(|_, known| known.watch.is_due(now)) {
            if !self.help(Task::Open, &place, Self::try_open) {
                self.note_refused(&place, "its device or file system does not answer".to_owned());
            }
        }
        let soon = self.namespaces.shared.devices.has_unused().then(|| self.now() + SOON);
        table.next().into_iter().chain(soon).min()
    }

    /// Has a helper do a task, and returns whether it has ended.
    fn help(
        self: &Arc<Self>,
        task: fn(Place) -> Task,
        place: &Place,
        act: impl FnOnce(&Self, &Place) + Send + 'static,
    ) -> bool {
        let (own, place) = (Arc::clone(self), place.clone());
        self.namespaces.helpers.run(&task(place.clone()), move || act(&own, &place))
    }

    /// Tries namespaces that are not available now, without waiting for their time.
    pub(super) fn retry(self: &Arc<Self>, nqn: Option<&str>, nsid: Option<u32>) {
        let meant = |place: &Place, known: &Known| {
            let named = nqn.is_none_or(|nqn| place.0 == nqn) && nsid.is_none_or(|n| place.1 == n);
            named && !known.watch.is_open()
        };
        for place in self.namespaces.table.places(meant) {
            let (own, key) = (Arc::clone(self), Task::Open(place.clone()));
            self.namespaces.helpers.run_after(&key, move || own.try_open(&place));
        }
    }

    /// Returns whether an open device gives the keeper no reason to look at it.
    fn is_quiet(&self, place: &Place) -> bool {
        let Namespaces { shared, table, .. } = &*self.namespaces;
        let open = table.with(place, |known| known.open).flatten();
        open.and_then(|id| shared.devices.get(id)).is_none_or(|device| {
            let health = device.backend.health();
            health.errors().0 == 0 && !health.is_suspect() && health.fault().is_none()
        })
    }

    /// Checks whether an open device is gone, and takes its errors.
    fn check_open(&self, place: &Place, look: bool) {
        let Namespaces { shared, table, .. } = &*self.namespaces;
        let open = table.with(place, |known| known.open).flatten();
        // A namespace may be removed at any time.
        let Some((id, device)) = open.and_then(|id| Some((id, shared.devices.get(id)?))) else {
            return;
        };
        let health = device.backend.health();
        let (errors, last) = health.errors();
        let looked = look || errors > 0 || health.is_suspect();
        let found = if looked { device.backend.look() } else { None };
        let damage = match found {
            Some(Finding::Gone(why)) => {
                // Commands whose errors are classified once more learn of it.
                health.fail(why);
                None
            }
            Some(Finding::Damaged(words)) => Some(words),
            None => None,
        };
        let gone = health.fault();
        let now = self.now();
        let notes = table.with(place, |known| {
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

    /// Closes a device that is gone: its namespace stays, and hosts must retry their commands.
    fn close(&self, place: &Place, id: BackendId, device: Arc<OpenDevice>, why: String) {
        let Namespaces { shared, table, .. } = &*self.namespaces;
        let one = lock(&shared.change);
        let (nqn, nsid) = (&place.0, place.1);
        let now = self.now();
        let users = hurt::users_of(shared, nqn, nsid);
        let names = users.connected.iter().chain(users.lost.iter().map(|lost| &lost.host));
        let users = names.map(|name| sluice_core::host_id(name)).collect();
        let ours = table.with(place, |known| {
            let ours = known.open == Some(id);
            if ours {
                known.open = None;
                known.left = device.presence();
                known.errors_before += device.backend.health().errors().0;
                known.cached = Some((Arc::clone(device.backend.health().cached()), users));
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
            "the namespace's device is gone: hosts are asked to retry until it is back"
        );
        let replaced = shared.with_service(|service| {
            let mut gone = FabricNamespace::clone(service.namespace(nqn, nsid)?);
            gone.readiness = Readiness::NotReady { geometry_known: true, since: now };
            Some(service.replace_namespace(now, nqn, gone))
        });
        if let Some(Err(error)) = replaced {
            tracing::error!(
                subsystem = nqn,
                nsid,
                %error,
                "hosts could not be notified that the device is gone"
            );
        }
        shared.qos.remove_namespace(now, nqn, nsid);
        shared.refresh();
        let removed = shared.remove_devices(&[id]);
        // Closing an unresponsive device takes long, and other changes are made meanwhile.
        drop(one);
        drop((removed, device));
        self.namespaces.close_unused();
    }

    /// Tries to open a namespace's file or device.
    fn try_open(&self, place: &Place) {
        let Namespaces { shared, table, backings, .. } = &*self.namespaces;
        let (nqn, nsid) = (place.0.as_str(), place.1);
        let config = table.with(place, |known| {
            if known.watch.is_open() {
                return None;
            }
            // The file is claimed until the last command has left the earlier device, and it is closed.
            if known.left.strong_count() > 0 {
                known.watch.postpone(self.now());
                return None;
            }
            Some(known.config.clone())
        });
        let Some(config) = config.flatten() else { return };
        // The table is not locked while this looks at the path.
        let tried = config.backend.path().and_then(fingerprint);
        table.with(place, |known| known.tried = tried);
        let opened = self.namespaces.open(nqn, nsid, &config, Occasion::Configured);
        let one = lock(&shared.change);
        // The namespace may have been removed meanwhile, or configured otherwise.
        let wanted = |known: &mut Known| !known.watch.is_open() && known.config == config;
        if table.with(place, wanted) != Some(true) {
            backings.discard(nqn, nsid);
            return;
        }
        let installed =
            opened.and_then(|backend| self.namespaces.install((nqn, nsid), &config, backend));
        let now = self.now();
        match installed {
            Ok(()) => {
                let absent = table.with(place, |known| known.watch.opened(now));
                drop(one);
                backings.keep_or_warn();
                let seconds = absent.unwrap_or_default().as_secs();
                tracing::info!(subsystem = nqn, nsid, seconds, "the namespace is available again");
            }
            Err(error) => self.note_refused(place, error.to_string()),
        }
    }

    /// Notes that a try to open a namespace has failed, and why.
    fn note_refused(&self, place: &Place, why: String) {
        let now = self.now();
        let again = |known: &mut Known| known.watch.refused(now, why.clone());
        if self.namespaces.table.with(place, again) == Some(true) {
            tracing::error!(
                subsystem = place.0,
                nsid = place.1,
                reason = why,
                "the namespace is still not available"
            );
        }
    }
}

/// Logs a note about a namespace's device.
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
