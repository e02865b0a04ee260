//! Tests of the methods on live changes.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::test_engine::TestEngine;
use super::tests::{FullStore, NQN};
use super::*;
use crate::store::{Live, Store};

const FILE: &str = "# Rack 7.\n[[listener]]\naddress = \"127.0.0.1:4420\"\n\
    [[subsystem]]\nnqn = \"nqn.2026-01.io.x:s0\"\nhosts = [\"nqn.2026-01.io.x:h0\"]\n\
    # The database.\n[[subsystem.namespace]]\nnsid = 1\nbackend = \"memory\"\nsize = \"1 MiB\"\n";

struct Rig {
    _folder: tempfile::TempDir,
    file: PathBuf,
    engine: Arc<TestEngine>,
    store: Arc<FullStore>,
    control: Arc<Control>,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.toml");
        std::fs::write(&file, FILE).unwrap();
        let store: Arc<FullStore> = Arc::default();
        let (live, _) = Live::open(Config::load(&file).unwrap(), store.clone()).unwrap();
        let engine = Arc::new(TestEngine::new(live.current().clone()));
        let control = Control::of_file(engine.clone(), live, Some(file.clone()));
        Self { _folder: folder, file, engine, store, control }
    }

    fn call(&self, method: &str, params: Value) -> Result<Value, Value> {
        let line = json!({ "id": 7, "method": method, "params": params }).to_string();
        let answer: Value = serde_json::from_str(&self.control.handle(line.as_bytes())).unwrap();
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].clone()),
        }
    }

    /// Removes the namespace, adds a host and a listener.
    fn change(&self) {
        self.call("namespace.remove", json!({"subsystem": NQN, "nsid": 1})).unwrap();
        self.call("host.add", json!({"subsystem": NQN, "host": "nqn.2026-01.io.x:h1"})).unwrap();
        self.call("listener.add", json!({"address": "127.0.0.1:4421"})).unwrap();
    }

    fn names(&self) -> Vec<String> {
        let diff = self.call("config.diff", json!({})).unwrap();
        let objects = diff["objects"].as_array().unwrap();
        objects.iter().map(|object| object["object"].as_str().unwrap().to_owned()).collect()
    }

    /// Checks that the engine runs what the file says, and that nothing is stored.
    fn is_as_the_file(&self) {
        let (file, live) = (Config::load(&self.file).unwrap(), self.control.live());
        assert_eq!(live.changes(), 0);
        assert_eq!(self.engine.config.lock().unwrap().subsystems, file.subsystems);
        assert_eq!(self.engine.config.lock().unwrap().listeners, file.listeners);
        assert!(self.store.objects().unwrap().is_empty());
    }
}

#[test]
fn objects_that_differ_are_listed_and_marked() {
    let rig = Rig::new();
    assert_eq!(rig.names(), [""; 0]);
    rig.change();
    let host = format!("host {NQN} nqn.2026-01.io.x:h1");
    let namespace = format!("namespace {NQN} 1");
    assert_eq!(rig.names(), [host, namespace, "listener 127.0.0.1:4421".to_owned()]);
    let diff = rig.call("config.diff", json!({})).unwrap();
    assert_eq!(diff["objects"][0]["change"], "added");
    assert_eq!(diff["objects"][1]["change"], "removed");
    assert!(diff["objects"][1]["file"].as_str().unwrap().contains("size = \"1 MiB\""), "{diff}");
    assert_eq!(
        (&diff["file_changed"], &diff["objects"][1]["running"]),
        (&json!(null), &json!(null))
    );
    let listeners = rig.call("listener.list", json!({})).unwrap();
    assert_eq!((&listeners[0]["live"], &listeners[1]["live"]), (&json!(false), &json!(true)));
    assert_eq!(rig.call("subsystem.list", json!({})).unwrap()[0]["live"], true);
    let hosts = rig.call("host.list", json!({})).unwrap();
    assert_eq!(hosts[0]["live"], json!(["nqn.2026-01.io.x:h1"]));
    assert_eq!(rig.call("status", json!({})).unwrap()["live_changes"], 3);
    assert_eq!(rig.call("reload", json!({})).unwrap()["live_changes"], 3);
    std::fs::write(&rig.file, FILE.replace("1 MiB", "2 MiB")).unwrap();
    let diff = rig.call("config.diff", json!({})).unwrap();
    assert!(diff["file_changed"].as_str().unwrap().contains("sluice reload"), "{diff}");
}

#[test]
fn a_live_change_is_taken_back_alone_or_with_all_others() {
    let rig = Rig::new();
    rig.change();
    let object = json!({"object": format!("namespace {NQN} 1")});
    let answer = rig.call("config.revert", object.clone()).unwrap();
    assert_eq!(answer["objects"], json!([format!("namespace {NQN} 1")]));
    assert!(answer["changes"][0].as_str().unwrap().contains("is added"), "{answer}");
    assert_eq!(rig.names().len(), 2);
    let error = rig.call("config.revert", object).unwrap_err();
    assert_eq!(error["kind"], "not_found");
    assert!(error["message"].as_str().unwrap().contains("listener 127.0.0.1:4421"), "{error}");
    assert_eq!(
        rig.call("config.revert", json!({})).unwrap()["objects"].as_array().unwrap().len(),
        2
    );
    rig.is_as_the_file();
    assert_eq!(rig.call("config.revert", json!({})).unwrap()["changes"], json!([]));
}

#[test]
fn identities_of_objects_of_the_file_are_kept_for_a_revert() {
    let rig = Rig::new();
    rig.change();
    let added = json!({"subsystem": NQN, "nsid": 7, "backend": "null", "size": "8 KiB"});
    rig.call("namespace.add", added).unwrap();
    rig.call("namespace.remove", json!({"subsystem": NQN, "nsid": 7})).unwrap();
    rig.call("subsystem.remove", json!({"nqn": NQN})).unwrap();
    assert_eq!(*rig.engine.kept.lock().unwrap(), [true, false, true]);
    rig.call("config.revert", json!({})).unwrap();
    rig.call("config.revert", json!({"object": "qos"})).unwrap_err();
    assert_eq!(rig.engine.reverts.load(Ordering::Relaxed), 2);
    assert!(!rig.engine.is_reverting.load(Ordering::Relaxed), "a revert that fails ends too");
}

#[test]
fn the_name_of_a_subsystem_stands_for_its_parts() {
    let rig = Rig::new();
    rig.change();
    let object = json!({"object": format!("subsystem {NQN}")});
    rig.call("config.revert", object).unwrap();
    assert_eq!(rig.names(), ["listener 127.0.0.1:4421"]);
}

#[test]
fn a_revert_that_hurts_hosts_or_fails_changes_nothing() {
    let rig = Rig::new();
    rig.change();
    let listener = rig.control.live().current().listeners[1].endpoint();
    let loss = format!("{:?}", crate::engine::Loss::Listener(listener));
    rig.engine.hurt.lock().unwrap().push((loss, "nqn.2026-01.io.x:h1".to_owned()));
    let object = json!({"object": "listener 127.0.0.1:4421"});
    let error = rig.call("config.revert", object).unwrap_err();
    assert_eq!(error["kind"], "refused");
    assert_eq!(rig.call("config.revert", json!({})).unwrap_err()["kind"], "refused");
    *rig.engine.refuse_after.lock().unwrap() = Some(0);
    assert!(rig.call("config.revert", json!({"force": true})).is_err());
    assert_eq!(rig.names().len(), 3);
    *rig.engine.refuse_after.lock().unwrap() = None;
    rig.call("config.revert", json!({"force": true})).unwrap();
    rig.is_as_the_file();
}

#[test]
fn the_file_with_the_live_changes_leaves_none_after_a_reload() {
    let rig = Rig::new();
    rig.change();
    rig.call("namespace.add", json!({"subsystem": NQN, "backend": "null", "size": "8 KiB"}))
        .unwrap();
    rig.call("subsystem.add", json!({"nqn": "nqn.2026-01.io.x:s1"})).unwrap();
    let namespace = json!({"subsystem": "nqn.2026-01.io.x:s1", "backend": "null", "size": "8 KiB"});
    rig.call("namespace.add", namespace).unwrap();
    let merged = rig.call("config.merge", json!({})).unwrap();
    assert_eq!(merged["before"], FILE);
    let text = merged["text"].as_str().unwrap();
    assert!(text.starts_with("# Rack 7.\n") && !text.contains("1 MiB"), "{text}");
    std::fs::write(&rig.file, text).unwrap();
    let answer = rig.call("reload", json!({})).unwrap();
    assert_eq!((&answer["changes"], &answer["warnings"]), (&json!([]), &json!([])), "{text}");
    assert_eq!(answer["live_changes"], 0);
    assert!(rig.store.objects().unwrap().is_empty());
}

#[test]
fn a_file_that_has_changed_meanwhile_is_not_merged() {
    let rig = Rig::new();
    rig.change();
    std::fs::write(&rig.file, FILE.replace("1 MiB", "2 MiB")).unwrap();
    let error = rig.call("config.merge", json!({})).unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("has changed since"), "{error}");
    std::fs::write(&rig.file, format!("{FILE}# a comment\n")).unwrap();
    let merged = rig.call("config.merge", json!({})).unwrap();
    assert!(merged["text"].as_str().unwrap().contains("# a comment"), "{merged}");
}
