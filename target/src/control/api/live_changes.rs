//! Methods on the live changes: how the configuration that runs differs from the file, back to the
//! file, and the file with the changes in it.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use sluice_config::answer::{self, ConfigDiff, ConfigMerged, KeyDifference, LiveChange, Reverted};
use sluice_config::{Config, values};

use super::Control;
use super::change::Answer;
use super::parameters::read;
use super::protocol::{ErrorKind, Failure};
use crate::control::store::{Difference, Live, LiveObjects, ObjectId, differences, edit};
use crate::control::unproved;
use crate::serve::host_keys::HostKeys;
use crate::sys::access;
use crate::sys::sync::lock;
use crate::sys::words::list;

impl Control {
    /// Returns the objects that differ from the file. While a change is being made they are those
    /// from before it, since a client that only looks does not wait for changes.
    pub(super) fn live_objects(&self) -> Arc<LiveObjects> {
        let mut known = lock(&self.live_objects);
        if let Ok(live) = self.live.try_lock() {
            *known = Arc::new(LiveObjects::of(&live.differences()));
        }
        Arc::clone(&known)
    }

    /// Answers `config.diff`.
    pub(super) fn config_diff(&self) -> ConfigDiff {
        let live = self.live();
        ConfigDiff {
            file: self.file.as_ref().map(|path| path.display().to_string()),
            file_changed: self.file.as_deref().and_then(|path| unlike_file(path, &live)),
            objects: live.differences().into_iter().map(shown).collect(),
            needs_restart: self.needs_restart(live.file()),
        }
    }

    /// Answers `config.merge`.
    pub(super) fn config_merge(&self) -> Result<ConfigMerged, Failure> {
        let path = self.file()?;
        let live = self.live();
        let unreadable = |error: std::io::Error| {
            Failure::new(ErrorKind::System, format!("cannot read {}: {error}", path.display()))
        };
        let before = std::fs::read_to_string(path).map_err(unreadable)?;
        let file =
            Config::parse(&before, path).map_err(|errors| Failure::invalid(format!("{errors}")))?;
        if file != *live.file() {
            return Err(Failure::invalid(changed_since(path)));
        }
        let running = live.as_file();
        let text = edit(&before, &file, &running)
            .map_err(|why| Failure::invalid(format!("{}: {why}", path.display())))?;
        // The path that a rename replaces: a symbolic link's target, not the link.
        let place = path.canonicalize().map_err(unreadable)?;
        let live_changes = differences(&file, &running).len();
        let left_over = live.differences().len().saturating_sub(live_changes);
        Ok(ConfigMerged {
            file: place.display().to_string(),
            before,
            text,
            live_changes,
            left_over,
        })
    }

    /// Answers `config.revert`.
    pub(super) fn config_revert(&self, params: &Value) -> Answer<Reverted> {
        let (name, force) = read(params, |mut fields| {
            let name = fields.get("object", values::object).map(|at| at.value);
            let force = fields.value_or("force", false, values::boolean);
            fields.finish();
            Some((name, force))
        })?;
        let mut live = self.live();
        let before = unproved::find(live.current(), &self.engine().host_keys());
        // Namespaces that come back are the disks that hosts know.
        self.engine().restore_identities();
        let done = match name {
            Some(name) => self.revert_one(&mut live, &name, force),
            None => self.revert_all(&mut live, force),
        };
        self.settle_identities(&live);
        let (objects, changes) = done?;
        let after = unproved::find(live.current(), &self.engine().host_keys());
        let warnings = unproved::lines(after.difference(&before));
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        Ok(self.done(Reverted { objects, changes, warnings }))
    }

    /// Takes all live changes back. Returns the names of the objects, and the changes in words.
    fn revert_all(&self, live: &mut Live, force: bool) -> Result<Done, Failure> {
        let names = names(&live.differences());
        let next = live.without_changes()?;
        let changes = self.changes_to(live, &next.config);
        self.unless_harmful(force, &changes, &next.config, &HostKeys::new())?;
        if self.is_dry_run() {
            return Err(self.planned(live, &changes, &next.config));
        }
        let file = live.file().clone();
        let stored = live.take(file, next)?;
        self.make(live, stored, &changes)?;
        Ok((names, changes.iter().map(ToString::to_string).collect()))
    }

    /// Reverts the live change of one object, or of a subsystem and its parts.
    fn revert_one(&self, live: &mut Live, name: &str, force: bool) -> Result<Done, Failure> {
        let object = find(&live.differences(), name)?;
        let text = object.text(live.file());
        let assign =
            |config: &mut Config| object.assign(config, text.as_deref()).map_err(Failure::invalid);
        let mut next = live.current().clone();
        assign(&mut next)?;
        let changes = self.changes_to(live, &next);
        self.unless_harmful(force, &changes, &next, &HostKeys::new())?;
        if self.is_dry_run() {
            return Err(self.planned(live, &changes, &next));
        }
        let stored = live.store(&object, assign)?;
        self.make(live, stored, &changes)?;
        Ok((vec![object.to_string()], changes.iter().map(ToString::to_string).collect()))
    }
}

/// The names of the objects that are as in the file again, and the changes in words.
type Done = (Vec<String>, Vec<String>);

/// Describes how a file differs from the file that the daemon read last; `None` if it does not.
fn unlike_file(path: &Path, live: &Live) -> Option<String> {
    match Config::load(path, access::explain) {
        Ok(now) => (now != *live.file()).then(|| changed_since(path)),
        Err(errors) => Some(errors.to_string()),
    }
}

/// Returns the message for a file that has changed since it was read.
fn changed_since(path: &Path) -> String {
    format!(
        "{} has changed since sluiced read it; `sluice reload --check` shows the changes, `sluice \
         reload` makes them",
        path.display()
    )
}

fn names(differences: &[Difference]) -> Vec<String> {
    differences.iter().map(|difference| difference.object.to_string()).collect()
}

/// Finds the object of a name among the differing ones. The name of a subsystem also stands for its differing
/// parts.
fn find(differences: &[Difference], name: &str) -> Result<ObjectId, Failure> {
    if let Some(found) = differences.iter().find(|other| other.object.to_string() == name) {
        return Ok(found.object.clone());
    }
    let whole = |difference: &Difference| {
        let whole = ObjectId::Subsystem(difference.object.subsystem()?.to_owned());
        (whole.to_string() == name).then_some(whole)
    };
    differences.iter().find_map(whole).ok_or_else(|| {
        let message = match differences {
            [] => format!("\"{name}\" does not differ from the file: there are no live changes"),
            all => format!(
                "\"{name}\" does not differ from the file; live changes are of: {}",
                list(&names(all))
            ),
        };
        Failure::not_found(message)
    })
}

/// Shows an object that differs.
pub(super) fn shown(difference: Difference) -> answer::Difference {
    let key = |(key, file, running)| KeyDifference { key, file, running };
    let keys = difference.keys().into_iter().map(key).collect();
    let Difference { object, file, running } = difference;
    let change = match (&file, &running) {
        (None, _) => LiveChange::Added,
        (_, None) => LiveChange::Removed,
        _ => LiveChange::Changed,
    };
    answer::Difference { object: object.to_string(), change, file, running, keys }
}
