//! The reload of the configuration file: all of its changes are made, or none.

use std::path::Path;

use sluice_config::{Config, Machine, params, restart_keys};

use sluice_config::answer::Reloaded;

use super::Control;
use super::force::refusal;
use super::in_use::InUse;
use super::protocol::{ErrorKind, Failure};
use crate::control::reload::{Change, harm, plan, run};
use crate::control::store::{Effective, Live, Stored, differences};
use crate::control::unproved;
use crate::serve::host_keys::HostKeys;
use crate::sys::access;
use crate::sys::systemd::Reloading;

impl Control {
    /// Answers `reload`.
    pub(super) fn reload_method(&self, asked: &params::Reload) -> Result<Reloaded, Failure> {
        match asked.check {
            true => self.would_reload(),
            false => self.reload(asked.force),
        }
    }

    /// Reads the configuration file again and applies it to the target, with the live changes that still count, or
    /// changes nothing. Logs the result.
    ///
    /// # Errors
    /// The file has errors, or a change cannot be stored or made, or would hurt hosts and is not forced. The target
    /// is as it was, unless the message says otherwise.
    pub fn reload(&self, force: bool) -> Result<Reloaded, Failure> {
        let _told = Reloading::begin();
        let result = self.reload_now(force);
        match &result {
            Ok(Reloaded { changes, needs_restart, warnings, live_changes, .. }) => {
                warnings.iter().for_each(|line| tracing::warn!("{line}"));
                changes.iter().for_each(|line| tracing::info!("reload: {line}"));
                for line in needs_restart {
                    tracing::warn!("reload: not changed before a restart: {line}");
                }
                let done = if changes.is_empty() { "nothing to change" } else { "done" };
                match live_changes {
                    0 => tracing::info!("reload: {done}"),
                    _ => tracing::info!("reload: {done}; {}", live_changes_stay(*live_changes)),
                }
            }
            Err(failure) => {
                tracing::error!("reload failed: {}", failure.message);
            }
        }
        result
    }

    /// Returns what [`Control::reload`] would do.
    ///
    /// # Errors
    /// The file has errors, or the store cannot be read.
    pub fn would_reload(&self) -> Result<Reloaded, Failure> {
        let look = self.look(&self.live())?;
        let keys = self.engine().read_host_keys()?;
        let mut told = look.told();
        told.warnings.extend(look.unproved(&keys));
        told.warnings.extend(self.key_refusals(&look, &keys));
        told.warnings.extend(self.refusals(&look.changes, &look.next.config, &keys));
        Ok(told)
    }

    /// Returns the reasons why a reload does not take new keys, in words: their hosts could connect without them.
    fn key_refusals(&self, look: &Look, keys: &HostKeys) -> Vec<String> {
        let found = unproved::key_refusals(&look.next.config, &self.engine().host_keys(), keys);
        found.iter().map(|one| format!("{one}; --force reloads all the same")).collect()
    }

    /// Returns the losses of hosts by changes that lead to `to`, in words.
    pub(super) fn refusals(&self, changes: &[Change], to: &Config, keys: &HostKeys) -> Vec<String> {
        let losses = harm(self.engine(), changes, to, keys);
        losses.iter().map(|(loss, hosts)| refusal(loss, hosts)).collect()
    }

    /// Refuses changes that lead to `to` where hosts would lose something, unless they are forced.
    ///
    /// # Errors
    /// Hosts would lose something.
    pub(super) fn unless_harmful(
        &self,
        force: bool,
        changes: &[Change],
        to: &Config,
        keys: &HostKeys,
    ) -> Result<(), Failure> {
        let refusals = if force { Vec::new() } else { self.refusals(changes, to, keys) };
        match refusals.is_empty() {
            true => Ok(()),
            false => Err(Failure::new(ErrorKind::Refused, refusals.join("\n"))),
        }
    }

    /// Makes changes that are stored already. Takes them out of the store again where one fails.
    ///
    /// # Errors
    /// A change failed, and everything is as it was, unless the message says otherwise.
    pub(super) fn make(
        &self,
        live: &mut Live,
        stored: Stored,
        changes: &[Change],
    ) -> Result<(), Failure> {
        run(self.engine(), changes).map_err(|refused| {
            let mut failure = Failure::from(refused);
            if let Err(error) = live.undo(stored) {
                let more = format!("; live changes may be lost at the next start: {error}");
                failure.message.push_str(&more);
            }
            failure
        })
    }

    /// Returns the path of the configuration file.
    ///
    /// # Errors
    /// The daemon runs without one.
    pub(super) fn file(&self) -> Result<&Path, Failure> {
        self.file.as_deref().ok_or_else(|| {
            Failure::invalid(
                "there is no configuration file to read: sluiced was started without --config",
            )
        })
    }

    fn reload_now(&self, force: bool) -> Result<Reloaded, Failure> {
        let mut live = self.live();
        let look = self.look(&live)?;
        // Read first: a fault in them leaves everything as it is.
        let keys = self.engine().read_host_keys()?;
        self.unless_harmful(force, &look.changes, &look.next.config, &keys)?;
        let mut told = look.told();
        let refusals = if force { Vec::new() } else { self.key_refusals(&look, &keys) };
        if !refusals.is_empty() {
            return Err(Failure::new(ErrorKind::Refused, refusals.join("\n")));
        }
        told.warnings.extend(look.unproved(&keys));
        let stored = live.take(look.file, look.next)?;
        // A host with a new key needs it at the first listener that admits the host; a host without a key from now
        // on needs its old one until all changes are made.
        let before = self.engine().host_keys();
        let mut all = before.clone();
        all.extend(keys.clone());
        let mut told_of_keys = self.engine().set_host_keys(all);
        if let Err(failure) = self.make(&mut live, stored, &look.changes) {
            self.engine().set_host_keys(before);
            return Err(failure);
        }
        self.settle_identities(&live);
        told_of_keys.extend(self.engine().set_host_keys(keys));
        told.changes.extend(told_of_keys);
        Ok(told)
    }

    /// Forgets the identities that neither the running configuration nor a revert to the file needs.
    pub(super) fn settle_identities(&self, live: &Live) {
        self.engine().forget_other_identities(live.current());
        self.engine().forget_removed_identities(live.file(), live.current());
    }

    /// Returns the changes that lead from the running configuration to another one.
    pub(super) fn changes_to(&self, live: &Live, to: &Config) -> Vec<Change> {
        plan(&InUse::of(self.engine()).as_given_by(live.current(), to), to)
    }

    /// Returns the settings of a file that need a restart, a line for each.
    pub(super) fn needs_restart(&self, file: &Config) -> Vec<String> {
        restart_keys(&self.first, file)
    }

    /// Reads the file and compares it with the running configuration.
    fn look(&self, live: &Live) -> Result<Look, Failure> {
        let path = self.file()?;
        let (file, notices) = Config::load_with_notices(path, &Machine::present(), access::explain)
            .map_err(|errors| Failure::invalid(format!("{errors}")))?;
        let mut next = live.under(&file)?;
        next.warnings.extend(notices);
        let needs_restart = self.needs_restart(&next.config);
        // Settings that are read at the start alone stay as they are.
        next.config.target = live.current().target.clone();
        next.config.pmem.general = live.current().pmem.general.clone();
        let changes = self.changes_to(live, &next.config);
        Ok(Look { file, next, changes, needs_restart })
    }
}

/// Describes how many live changes stay on top of the file.
pub(super) fn live_changes_stay(count: usize) -> String {
    let (noun, verb) = if count == 1 { ("change", "stays") } else { ("changes", "stay") };
    format!("{count} live {noun} {verb} on top of the file: sluice config diff")
}

/// A configuration file that was read, and the changes that it asks of the running target.
struct Look {
    file: Config,
    next: Effective,
    changes: Vec<Change>,
    needs_restart: Vec<String>,
}

impl Look {
    /// Returns warnings about hosts whose secrets and TLS keys will prove nothing.
    fn unproved(&self, keys: &HostKeys) -> Vec<String> {
        unproved::lines(&unproved::find(&self.next.config, keys))
    }

    fn told(&self) -> Reloaded {
        Reloaded {
            changes: self.changes.iter().map(Change::to_string).collect(),
            needs_restart: self.needs_restart.clone(),
            warnings: self.next.warnings.clone(),
            live_changes: differences(&self.file, &self.next.config).len(),
            ..Reloaded::default()
        }
    }
}
