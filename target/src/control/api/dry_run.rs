//! Dry runs: the parameter `dry_run` of methods that change the configuration. The request is checked as far as that is
//! possible without opening devices, listening on addresses and admitting reservations.
//!
//! A dry run is a [`Control`] of its own on the same target, of which [`Control::change`] plans the change instead of
//! making it.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sluice_config::{Config, Method, clash};

use super::audit::Audit;
use super::live_changes::shown;
use super::parameters::inconsistent;
use super::protocol::{ErrorKind, Failure};
use super::{Control, DRY_RUN, Reloaded};
use crate::control::log::Log;
use crate::control::metrics::Metrics;
use crate::control::reload::Change;
use crate::control::store::{Live, differences};
use crate::sys::sync::lock;

impl Control {
    /// Returns the effect of a change of the configuration, without making it.
    ///
    /// # Errors
    /// The change would be refused, or the method changes no configuration.
    pub(super) fn call_dry(&self, method: &str, params: &Value) -> Result<Value, Failure> {
        let known = Method::from_name(method);
        let mut params = params.clone();
        let asked = params.as_object_mut().and_then(|params| params.remove(DRY_RUN));
        if !matches!(asked, Some(Value::Bool(_))) {
            return Err(Failure::invalid("`dry_run` is not a boolean; write true or false"));
        }
        if asked == Some(Value::Bool(false)) {
            return Err(Failure::invalid("`dry_run` is false; leave it out to make the change"));
        }
        match known {
            Some(known) if !known.changes_configuration() => Err(Failure::invalid(format!(
                "`dry_run`: {method} changes no configuration; leave it out"
            ))),
            Some(Method::Reload | Method::ConfigApply) => {
                if let Some(params) = params.as_object_mut() {
                    params.insert("check".to_owned(), json!(true));
                }
                self.call(method, &params)
            }
            _ => {
                let dry = self.as_dry_run();
                let result = dry.call(method, &params);
                let planned = dry.planned.as_ref().and_then(|planned| lock(planned).take());
                match planned {
                    Some(planned) => {
                        serde_json::to_value(planned).map_err(|error| inconsistent(method, &error))
                    }
                    None => result,
                }
            }
        }
    }

    /// Makes a control plane of the same target that plans changes.
    fn as_dry_run(&self) -> Self {
        Self {
            engine: self.engine.clone(),
            live: Arc::clone(&self.live),
            live_objects: Mutex::default(),
            metrics: Metrics::new(self.engine.clone()),
            durable: self.durable,
            started: self.started,
            file: self.file.clone(),
            first: self.first.clone(),
            told_to_end: AtomicBool::new(false),
            audit: Audit::new(),
            log: Log::default(),
            planned: Some(Mutex::default()),
        }
    }

    /// Returns whether changes are planned and not made.
    pub(super) fn is_dry_run(&self) -> bool {
        self.planned.is_some()
    }

    /// Plans the change that `edit` makes. Returns the failure that ends the method.
    pub(super) fn plan_only(
        &self,
        live: &Live,
        edit: impl FnOnce(&mut Config) -> Result<(), Failure>,
    ) -> Failure {
        let mut next = live.current().clone();
        if let Err(failure) = edit(&mut next) {
            return failure;
        }
        if let Some(reason) = clash(&next) {
            return Failure::exists(reason);
        }
        self.planned(live, &self.changes_to(live, &next), &next)
    }

    /// Notes the planned changes, which lead to `next`. Returns the failure that ends the method.
    pub(super) fn planned(&self, live: &Live, changes: &[Change], next: &Config) -> Failure {
        if let Some(planned) = &self.planned {
            let objects = differences(live.current(), next);
            *lock(planned) = Some(Reloaded {
                changes: changes.iter().map(ToString::to_string).collect(),
                live_changes: differences(live.file(), next).len(),
                objects: objects.into_iter().map(shown).collect(),
                ..Reloaded::default()
            });
        }
        Failure::new(ErrorKind::Refused, "a dry run makes no change")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sluice_config::Method;

    use crate::control::api::tests::{NQN, Rig};

    #[test]
    fn every_change_has_dry_run_without_effect() {
        let rig = Rig::new();
        rig.call("session.add", json!({"name": "gold"}));
        let before = rig.ask("config.show");
        for (method, params, line) in [
            ("subsystem.add", json!({"nqn": "nqn.2026-01.io.x:s9", "hosts": []}), "s9"),
            ("subsystem.remove", json!({"nqn": NQN}), NQN),
            ("namespace.add", json!({"subsystem": NQN, "backend": "null", "size": "8 KiB"}), "2"),
            ("namespace.remove", json!({"subsystem": NQN, "nsid": 1}), NQN),
            ("namespace.resize", json!({"subsystem": NQN, "nsid": 1, "size": "2 MiB"}), "2 MiB"),
            ("listener.add", json!({"address": "127.0.0.1:4425"}), "4425"),
            ("listener.remove", json!({"address": "127.0.0.1:4420"}), "4420"),
            ("host.add", json!({"subsystem": NQN, "host": "nqn.2026-01.io.x:h7"}), "h7"),
            ("host.any", json!({"subsystem": NQN, "allow": true}), NQN),
            ("qos.set", json!({"weights": [5, 2, 1]}), "[5, 2, 1]"),
            ("session.set", json!({"name": "gold", "iops": 700}), "700"),
            ("profile.add", json!({"name": "p", "iops": 5}), "profile p"),
            ("link.add", json!({"name": "east"}), "link east"),
            ("config.revert", json!({}), "session gold"),
            ("reload", json!({}), "gold"),
        ] {
            let mut dry = params.clone();
            dry["dry_run"] = json!(true);
            let planned = rig.call(method, dry);
            let text = planned.to_string();
            assert!(method == "reload" || text.contains(line), "{method}: {text}");
            assert_eq!(rig.ask("config.show"), before, "{method}");
        }
    }

    #[test]
    fn dry_run_is_refused_as_the_change_would_be() {
        let rig = Rig::new();
        let missing = json!({"subsystem": NQN, "nsid": 9, "dry_run": true});
        rig.refuses("namespace.remove", missing, "not_found", "namespace 9");
        let wrong = json!({"name": "x", "parent": "none", "dry_run": true});
        assert!(rig.attempt("session.add", wrong).is_err());
        let acts = |method: &&Method| method.changes() && !method.changes_configuration();
        let acting: Vec<&Method> = Method::ALL.iter().filter(acts).collect();
        assert!(acting.contains(&&Method::Shutdown) && acting.contains(&&Method::PmemProfile));
        for method in acting {
            let dry = json!({"dry_run": true});
            rig.refuses(method.name(), dry, "invalid", "changes no configuration");
        }
        assert!(rig.engine.ended.lock().unwrap().is_none());
        rig.refuses("qos.set", json!({"dry_run": 1}), "invalid", "`dry_run`");
    }
}
