//! The method that makes the target run a given configuration.

use std::path::Path;

use sluice_config::{Config, clash, params};

use super::live_changes::shown;
use super::protocol::Failure;
use super::{Control, Reloaded};
use crate::control::reload::Change;
use crate::control::store::differences;
use crate::control::unproved;
use crate::serve::host_keys::HostKeys;

/// The name of the configuration in messages about its lines.
const NAME: &str = "the configuration";

impl Control {
    /// Answers `config.apply`.
    pub(super) fn config_apply(&self, asked: &params::ConfigApply) -> Result<Reloaded, Failure> {
        let mut next = Config::parse(&asked.text, Path::new(NAME))
            .map_err(|errors| Failure::invalid(errors.to_string()))?;
        let mut live = self.live();
        let needs_restart = self.needs_restart(&next);
        // Settings that are read at the start alone stay as they are.
        next.target = live.current().target.clone();
        next.pmem.general = live.current().pmem.general.clone();
        if let Some(reason) = clash(&next) {
            return Err(Failure::invalid(reason));
        }
        let changes = self.changes_to(&live, &next);
        let mut told = Reloaded {
            changes: changes.iter().map(Change::to_string).collect(),
            needs_restart,
            warnings: unproved::lines(&unproved::find(&next, &self.engine().host_keys())),
            live_changes: differences(live.file(), &next).len(),
            objects: differences(live.current(), &next).into_iter().map(shown).collect(),
        };
        if asked.check {
            told.warnings.extend(self.refusals(&changes, &next, &HostKeys::new()));
            return Ok(told);
        }
        self.unless_harmful(asked.force, &changes, &next, &HostKeys::new())?;
        let stored = live.take_as_changes(next)?;
        self.make(&mut live, stored, &changes)?;
        self.settle_identities(&live);
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::control::api::tests::{FILE, NQN, Rig};
    use crate::serve::engine::Loss;

    /// Another configuration: a namespace more, a session, and no host.
    fn other() -> String {
        let other = FILE.replace("hosts = [\"nqn.2026-01.io.x:h0\"]", "hosts = []");
        format!(
            "{other}[[subsystem.namespace]]\nnsid = 2\nbackend = \"null\"\nsize = \"8 KiB\"\n\
             [[session]]\nname = \"gold\"\niops = 700\n"
        )
    }

    #[test]
    fn applied_configuration_runs_as_live_changes() {
        let rig = Rig::new();
        rig.call("session.add", json!({"name": "silver"}));
        let checked = rig.call("config.apply", json!({"text": other(), "check": true}));
        assert_eq!(rig.ask("session.list").to_string().matches("gold").count(), 0);
        let applied = rig.call("config.apply", json!({"text": other()}));
        assert_eq!(applied["changes"], checked["changes"]);
        let objects = applied["objects"].to_string();
        assert!(
            objects.contains("session gold") && objects.contains("session silver"),
            "{objects}"
        );
        assert!(applied["changes"].to_string().contains("namespace 2"), "{applied}");
        let sessions = rig.ask("session.list").to_string();
        assert!(sessions.contains("gold") && !sessions.contains("silver"), "{sessions}");
        // It is kept on top of the file, and a second time changes nothing.
        assert_eq!(applied["live_changes"], rig.ask("status")["live_changes"]);
        let again = rig.call("config.apply", json!({"text": other()}));
        assert_eq!(again["changes"], json!([]));
        // The file is applied by its own text.
        let back = rig.call("config.apply", json!({"text": FILE}));
        assert_eq!(back["live_changes"], 0);
        assert_eq!(rig.ask("config.diff")["objects"], json!([]));
    }

    #[test]
    fn running_configuration_applied_to_itself_changes_nothing() {
        let rig = Rig::new();
        rig.add_disk();
        let text = rig.ask("config.show")["text"].clone();
        let applied = rig.call("config.apply", json!({"text": text}));
        assert_eq!(applied["changes"], json!([]), "{applied}");
    }

    #[test]
    fn wrong_harmful_or_unstored_configuration_is_not_applied() {
        let rig = Rig::new();
        let before = rig.ask("config.show");
        rig.refuses("config.apply", json!({"text": "[targ"}), "invalid", "the configuration");
        rig.engine.add_hurt(&Loss::Namespace(NQN, 1), "nqn.2026-01.io.x:h0");
        let without = FILE.split("[[subsystem.namespace]]").next().unwrap();
        rig.refuses("config.apply", json!({"text": without}), "refused", "--force");
        rig.store.set_full(true);
        assert!(rig.attempt("config.apply", json!({"text": other()})).is_err());
        assert_eq!(rig.ask("config.show"), before);
    }

    #[test]
    fn failed_change_leaves_everything_as_it_was() {
        let rig = Rig::new();
        let before = rig.ask("config.show");
        *rig.engine.refuse_after.lock().unwrap() = Some(1);
        assert!(rig.attempt("config.apply", json!({"text": other()})).is_err());
        assert_eq!(rig.ask("config.show"), before);
        assert_eq!(rig.ask("config.diff")["objects"], json!([]));
    }
}
