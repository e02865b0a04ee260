//! Tests of the methods on live changes.

use serde_json::json;

use super::tests::{NQN, Rig};
use super::*;
use crate::control::store::Store;
use crate::sys::access;

pub(super) const FILE: &str = "# Rack 7.\n[[listener]]\naddress = \"127.0.0.1:4420\"\n\
    [[subsystem]]\nnqn = \"nqn.2026-01.io.x:s0\"\nhosts = [\"nqn.2026-01.io.x:h0\"]\n\
    # The database.\n[[subsystem.namespace]]\nnsid = 1\nbackend = \"memory\"\nsize = \"1 MiB\"\n";

impl Rig {
    /// Removes the namespace, adds a host and a listener.
    fn change(&self) {
        self.call("namespace.remove", json!({"subsystem": NQN, "nsid": 1}));
        self.call("host.add", json!({"subsystem": NQN, "host": "nqn.2026-01.io.x:h1"}));
        self.call("listener.add", json!({"address": "127.0.0.1:4421"}));
    }

    fn names(&self) -> Vec<String> {
        let diff = self.ask("config.diff");
        let objects = diff["objects"].as_array().unwrap();
        objects.iter().map(|object| object["object"].as_str().unwrap().to_owned()).collect()
    }

    /// Checks that the engine runs the file's configuration, and that nothing is stored.
    fn is_as_the_file(&self) {
        let (file, live) =
            (Config::load(&self.file(), access::explain).unwrap(), self.control.live());
        assert_eq!(live.changes(), 0);
        assert_eq!(self.engine.config.lock().unwrap().subsystems, file.subsystems);
        assert_eq!(self.engine.config.lock().unwrap().listeners, file.listeners);
        assert!(self.store.objects().unwrap().is_empty());
    }
}

#[test]
fn objects_that_differ_are_listed_and_marked() {
    let rig = Rig::of(FILE);
    assert_eq!(rig.names(), [""; 0]);
    rig.change();
    let host = format!("host {NQN} nqn.2026-01.io.x:h1");
    let namespace = format!("namespace {NQN} 1");
    assert_eq!(rig.names(), [host, namespace, "listener 127.0.0.1:4421".to_owned()]);
    let diff = rig.ask("config.diff");
    assert_eq!(diff["objects"][0]["change"], "added");
    assert_eq!(diff["objects"][1]["change"], "removed");
    assert!(diff["objects"][1]["file"].as_str().unwrap().contains("size = \"1 MiB\""), "{diff}");
    assert!(diff["file_changed"].is_null() && diff["objects"][1]["running"].is_null(), "{diff}");
    let listeners = rig.ask("listener.list");
    assert_eq!((&listeners[0]["live"], &listeners[1]["live"]), (&json!(false), &json!(true)));
    assert_eq!(rig.ask("subsystem.list")[0]["live"], true);
    let hosts = rig.ask("host.list");
    assert_eq!(hosts[0]["live"], json!(["nqn.2026-01.io.x:h1"]));
    assert_eq!(rig.ask("status")["live_changes"], 3);
    assert_eq!(rig.ask("reload")["live_changes"], 3);
    rig.edit(&FILE.replace("1 MiB", "2 MiB"));
    let diff = rig.ask("config.diff");
    assert!(diff["file_changed"].as_str().unwrap().contains("sluice reload"), "{diff}");
}

#[test]
fn a_live_change_is_taken_back_alone_or_with_all_others() {
    let rig = Rig::of(FILE);
    rig.change();
    let object = json!({"object": format!("namespace {NQN} 1")});
    let answer = rig.call("config.revert", object.clone());
    assert_eq!(answer["objects"], json!([format!("namespace {NQN} 1")]));
    assert!(answer["changes"][0].as_str().unwrap().contains("is added"), "{answer}");
    assert_eq!(rig.names().len(), 2);
    rig.refuses("config.revert", object, "not_found", "listener 127.0.0.1:4421");
    assert_eq!(rig.ask("config.revert")["objects"].as_array().unwrap().len(), 2);
    rig.is_as_the_file();
    assert_eq!(rig.ask("config.revert")["changes"], json!([]));
}

#[test]
fn identities_of_objects_of_the_file_are_kept_for_a_revert() {
    let rig = Rig::of(FILE);
    rig.change();
    let added = json!({"subsystem": NQN, "nsid": 7, "backend": "null", "size": "8 KiB"});
    rig.call("namespace.add", added);
    rig.call("namespace.remove", json!({"subsystem": NQN, "nsid": 7}));
    rig.call("subsystem.remove", json!({"nqn": NQN}));
    assert_eq!(*rig.engine.kept.lock().unwrap(), [true, false, true]);
    rig.ask("config.revert");
    rig.attempt("config.revert", json!({"object": "qos"})).unwrap_err();
    assert_eq!(rig.engine.reverts.load(Ordering::Relaxed), 2);
    assert!(!rig.engine.is_reverting.load(Ordering::Relaxed), "a revert that fails ends too");
}

#[test]
fn the_name_of_a_subsystem_stands_for_its_parts() {
    let rig = Rig::of(FILE);
    rig.change();
    let object = json!({"object": format!("subsystem {NQN}")});
    rig.call("config.revert", object);
    assert_eq!(rig.names(), ["listener 127.0.0.1:4421"]);
}

#[test]
fn a_revert_that_hurts_hosts_or_fails_changes_nothing() {
    let rig = Rig::of(FILE);
    rig.change();
    let listener = rig.control.live().current().listeners[1].endpoint();
    rig.engine.add_hurt(&crate::serve::engine::Loss::Listener(listener), "nqn.2026-01.io.x:h1");
    for object in [json!({"object": "listener 127.0.0.1:4421"}), json!({})] {
        rig.refuses("config.revert", object, "refused", "127.0.0.1:4421");
    }
    *rig.engine.refuse_after.lock().unwrap() = Some(0);
    rig.attempt("config.revert", json!({"force": true})).unwrap_err();
    assert_eq!(rig.names().len(), 3);
    *rig.engine.refuse_after.lock().unwrap() = None;
    rig.call("config.revert", json!({"force": true}));
    rig.is_as_the_file();
}

#[test]
fn the_file_with_the_live_changes_leaves_none_after_a_reload() {
    let rig = Rig::of(FILE);
    rig.change();
    rig.add_disk();
    rig.call("subsystem.add", json!({"nqn": "nqn.2026-01.io.x:s1"}));
    let namespace = json!({"subsystem": "nqn.2026-01.io.x:s1", "backend": "null", "size": "8 KiB"});
    rig.call("namespace.add", namespace);
    let merged = rig.ask("config.merge");
    assert_eq!(merged["before"], FILE);
    let text = merged["text"].as_str().unwrap();
    assert!(text.starts_with("# Rack 7.\n") && !text.contains("1 MiB"), "{text}");
    rig.edit(text);
    let answer = rig.ask("reload");
    assert_eq!((&answer["changes"], &answer["warnings"]), (&json!([]), &json!([])), "{text}");
    assert_eq!(answer["live_changes"], 0);
    assert!(rig.store.objects().unwrap().is_empty());
}

#[test]
fn settings_left_over_from_removed_objects_are_in_no_file() {
    let rig = Rig::new();
    rig.call("session.set", json!({"name": format!("{NQN}/1"), "iops": 9000}));
    rig.call("session.add", json!({"name": "below", "parent": format!("{NQN}/1")}));
    rig.call("session.add", json!({"name": "gold", "iops": 8000}));
    let host = "nqn.2026-01.io.x:h0";
    for session in ["below", "gold"] {
        let policy = json!({"host": host, "subsystem": NQN, "nsid": 1, "session": session});
        rig.call("qos.policy", policy);
    }
    rig.call("namespace.remove", json!({"subsystem": NQN, "nsid": 1}));
    let left = |text: &str| {
        let config = sluice_config::testing::parse(text).unwrap();
        let names: Vec<String> = config.qos.sessions.into_iter().map(|one| one.name).collect();
        (names, config.qos.policies.len())
    };
    let shown = rig.call("config.show", json!({}));
    assert_eq!(left(shown["text"].as_str().unwrap()), (vec!["gold".to_owned()], 0));
    let merged = rig.call("config.merge", json!({}));
    assert_eq!(merged["live_changes"], 2, "the namespace and gold");
    assert_eq!(merged["left_over"], 3, "the session, the one below it and the policy");
    let text = merged["text"].as_str().unwrap();
    assert_eq!(left(text), (vec!["gold".to_owned()], 0));
    std::fs::write(rig.file(), text).unwrap();
    let answer = rig.call("reload", json!({}));
    assert_eq!(answer["live_changes"], 3, "the session, the one below it and the policy stay");
    let shown = rig.call("config.show", json!({}));
    assert_eq!(left(shown["text"].as_str().unwrap()), (vec!["gold".to_owned()], 0));
}

#[test]
fn a_file_that_has_changed_meanwhile_is_not_merged() {
    let rig = Rig::of(FILE);
    rig.change();
    rig.edit(&FILE.replace("1 MiB", "2 MiB"));
    assert!(rig.refused("config.merge", json!({})).1.contains("has changed since"));
    rig.edit(&format!("{FILE}# a comment\n"));
    let merged = rig.ask("config.merge");
    assert!(merged["text"].as_str().unwrap().contains("# a comment"), "{merged}");
}
