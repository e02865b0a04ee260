//! Tests of the method `reload`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Value, json};

use super::test_engine::TestEngine;
use super::tests::{FullStore, NQN};
use super::*;
use crate::config::AllowedHost;
use crate::engine::Loss;
use crate::store::{Live, Store};

const FILE: &str = "[[listener]]\naddress = \"127.0.0.1:4420\"\n\
    [[subsystem]]\nnqn = \"nqn.2026-01.io.x:s0\"\nhosts = [\"nqn.2026-01.io.x:h0\"]\n\
    [[subsystem.namespace]]\nnsid = 1\nbackend = \"memory\"\nsize = \"1 MiB\"\n";

struct Rig {
    _folder: tempfile::TempDir,
    file: PathBuf,
    engine: Arc<TestEngine>,
    store: Arc<FullStore>,
    control: Arc<Control>,
}

impl Rig {
    fn new() -> Self {
        Self::of(FILE)
    }

    fn of(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.toml");
        std::fs::write(&file, text).unwrap();
        let store: Arc<FullStore> = Arc::default();
        let (live, _) = Live::open(Config::load(&file).unwrap(), store.clone()).unwrap();
        let engine = Arc::new(TestEngine::new(live.current().clone()));
        engine.strict.store(true, Relaxed);
        let control = Control::of_file(engine.clone(), live, Some(file.clone()));
        Self { _folder: folder, file, engine, store, control }
    }

    fn edit(&self, text: &str) {
        std::fs::write(&self.file, text).unwrap();
    }

    fn call(&self, method: &str, params: Value) -> Result<Value, Value> {
        let line = json!({ "id": 7, "method": method, "params": params }).to_string();
        let answer: Value = serde_json::from_str(&self.control.handle(line.as_bytes())).unwrap();
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].clone()),
        }
    }

    /// Checks that the engine runs what the control plane believes.
    fn agrees_but_for_the_file(&self) -> Config {
        let current = self.control.live().current().clone();
        assert_eq!(*self.engine.config.lock().unwrap(), current);
        current
    }

    /// Checks that the engine runs what the control plane believes, and what a start with the file
    /// would run.
    fn agrees(&self) -> Config {
        let current = self.control.live().current().clone();
        assert_eq!(*self.engine.config.lock().unwrap(), current);
        let file = Config::load(&self.file).unwrap();
        let (again, warnings) = Live::open(file, self.store.clone()).unwrap();
        assert_eq!((again.current(), warnings), (&current, Vec::new()));
        current
    }
}

#[test]
fn live_changes_stay_until_their_entry_in_the_file_changes() {
    let rig = Rig::new();
    let host = |n: u8| format!("nqn.2026-01.io.x:h{n}");
    rig.call("host.add", json!({"subsystem": NQN, "host": host(1)})).unwrap();
    rig.call("namespace.resize", json!({"subsystem": NQN, "nsid": 1, "size": "2 MiB"})).unwrap();
    // Objects that the file does not touch stay as they were changed.
    rig.edit(&FILE.replace("4420", "4421"));
    let answer = rig.call("reload", json!({})).unwrap();
    assert_eq!(
        answer["changes"],
        json!(["listener 127.0.0.1:4421 is added", "listener 127.0.0.1:4420 is removed"])
    );
    let subsystem = &rig.agrees().subsystems[0];
    assert_eq!(subsystem.hosts, [host(0), host(1)].map(AllowedHost::from));
    // A new size in the file wins over the live one, which is forgotten.
    rig.edit(&FILE.replace("1 MiB", "4 MiB"));
    let answer = rig.call("reload", json!({ "check": true })).unwrap();
    assert_eq!(rig.store.objects().unwrap().len(), 2, "nothing was done");
    assert_eq!(rig.call("reload", json!({})).unwrap(), answer);
    assert!(answer["warnings"][0].as_str().unwrap().contains("has changed since"), "{answer}");
    assert_eq!(rig.store.objects().unwrap().len(), 1);
    rig.agrees();
    // A later live change is compared with the new file.
    rig.call("namespace.resize", json!({"subsystem": NQN, "nsid": 1, "size": "4 MiB"})).unwrap();
    assert_eq!(rig.store.objects().unwrap().len(), 1, "a change to what the file says");
    rig.call("namespace.resize", json!({"subsystem": NQN, "nsid": 1, "size": "8 MiB"})).unwrap();
    rig.agrees();
    assert_eq!(rig.call("reload", json!({})).unwrap()["changes"], json!([]));
}

#[test]
fn what_cannot_be_done_changes_nothing() {
    let rig = Rig::new();
    rig.call("namespace.resize", json!({"subsystem": NQN, "nsid": 1, "size": "2 MiB"})).unwrap();
    let (before, stored) = (rig.agrees(), rig.store.objects().unwrap());
    let unchanged = |words: &str, kind: &str| {
        let error = rig.call("reload", json!({})).unwrap_err();
        assert_eq!(error["kind"], kind, "{error}");
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
        assert_eq!(*rig.engine.config.lock().unwrap(), before);
        assert_eq!(*rig.control.live().current(), before);
        let values = |objects: &[crate::store::Object]| -> Vec<(String, String)> {
            objects.iter().map(|o| (o.key.to_string(), o.value.clone())).collect()
        };
        assert_eq!(values(&rig.store.objects().unwrap()), values(&stored));
    };
    rig.edit(&format!("{FILE}colour = 1\nsise = 2\n"));
    unchanged("unknown key `colour`", "invalid");
    unchanged("unknown key `sise`", "invalid");
    // The file has two changes, the second of which fails.
    rig.edit(&FILE.replace("4420", "4421").replace("1 MiB", "4 MiB"));
    for after in 0..3 {
        *rig.engine.refuse_after.lock().unwrap() = Some(after);
        unchanged("everything is as it was", "system");
    }
    rig.store.full.store(true, Relaxed);
    unchanged("no space left", "store");
    rig.store.full.store(false, Relaxed);
    std::fs::remove_file(&rig.file).unwrap();
    unchanged("cannot read", "invalid");
    rig.edit(FILE);
    rig.agrees();
}

#[test]
fn who_makes_a_tls_key_prove_nothing_is_told() {
    let psk = fabric::tls_psk::ConfiguredPsk::generate(
        &[1; 48],
        fabric::tls_psk::PskLength::Bytes32,
        fabric::tls_psk::Transform::Hash,
    );
    let host = "nqn.2026-01.io.x:h7";
    let key =
        fabric::key_file::KeyFile { tls_keys: vec![psk], ..fabric::key_file::KeyFile::new(host) };
    let rig = Rig::new();
    *rig.engine.keys_of_files.lock().unwrap() = [(host.to_owned(), key)].into();
    let told = |check: bool| {
        rig.call("reload", json!({ "check": check })).unwrap()["warnings"].to_string()
    };
    for check in [true, false] {
        let told = told(check);
        assert!(told.contains(host) && told.contains("no subsystem allows it"), "{told}");
    }
    // A live change lets the host in, by a listener without TLS.
    let seen = super::tests::logged(|| {
        rig.call("host.add", json!({"subsystem": NQN, "host": host})).unwrap();
        rig.call("host.add", json!({"subsystem": NQN, "host": "nqn.2026-01.io.x:h8"})).unwrap();
    });
    let lines = seen.lines().filter(|line| line.contains("proves nothing in subsystem"));
    let lines: Vec<&str> = lines.collect();
    assert!(matches!(lines[..], [one] if one.contains(host)), "once: {seen}");
    for check in [true, false] {
        let told = told(check);
        assert!(told.contains(host) && told.contains("127.0.0.1:4420"), "{told}");
    }
}

#[test]
fn who_makes_keys_of_a_keyring_prove_nothing_is_told() {
    let required = FILE.replace("4420\"\n", "4420\"\ntls = \"required\"\n");
    let rig = Rig::of(&format!("[target]\nkeyring = \".nvme\"\n{required}"));
    let told = |check: bool| {
        rig.call("reload", json!({ "check": check })).unwrap()["warnings"].to_string()
    };
    assert_eq!((told(true), told(false)), ("[]".into(), "[]".into()));
    let seen = super::tests::logged(|| {
        rig.call("listener.add", json!({"address": "127.0.0.1:4421"})).unwrap();
        rig.call("host.add", json!({"subsystem": NQN, "host": "nqn.2026-01.io.x:h8"})).unwrap();
    });
    let lines: Vec<&str> = seen.lines().filter(|line| line.contains("keyring .nvme")).collect();
    assert!(matches!(lines[..], [one] if one.contains("(127.0.0.1:4421)")), "once: {seen}");
    for check in [true, false] {
        let told = told(check);
        assert!(told.contains("keyring .nvme") && told.contains("127.0.0.1:4421"), "{told}");
    }
}

#[test]
fn keys_are_there_before_a_change_lets_their_hosts_in_and_go_behind_the_last_change() {
    const SECRET: &str = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
    let keys = |hosts: &[&str]| -> crate::host_keys::HostKeys {
        let file = |host: &&str| {
            let text = format!("host {host}\nsecret {SECRET}\n");
            ((*host).to_owned(), fabric::key_file::KeyFile::parse(&text).unwrap())
        };
        hosts.iter().map(file).collect()
    };
    let (old, new) = ("nqn.2026-01.io.x:old", "nqn.2026-01.io.x:new");
    let rig = Rig::new();
    *rig.engine.host_keys.lock().unwrap() = keys(&[old]);
    *rig.engine.keys_of_files.lock().unwrap() = keys(&[new]);
    rig.edit(&FILE.replace("4420", "4421"));
    *rig.engine.refuse_after.lock().unwrap() = Some(0);
    rig.call("reload", json!({})).unwrap_err();
    assert_eq!(*rig.engine.host_keys.lock().unwrap(), keys(&[old]), "as it was");
    rig.engine.keys_at_changes.lock().unwrap().clear();
    let answer = rig.call("reload", json!({})).unwrap();
    assert_eq!(*rig.engine.host_keys.lock().unwrap(), keys(&[new]));
    let seen = rig.engine.keys_at_changes.lock().unwrap();
    assert!(!seen.is_empty() && seen.iter().all(|hosts| *hosts == [new, old]), "{seen:?}");
    let told = answer["changes"].to_string();
    assert!(told.contains("new has to prove") && told.contains("old has no secret"), "{told}");
}

#[test]
fn what_only_a_restart_changes_is_named_each_time() {
    let rig = Rig::new();
    let target = "[target]\nqueue_depth = 512\nmetrics = \"127.0.0.1:9090\"\n";
    let pmem = "[pmem]\nclients = 5\ncapacity = 1000\n";
    rig.edit(&format!("{target}{pmem}[network]\nbase = \"reno\"\n[qos]\nwrr = false\n{FILE}"));
    for round in 0..2 {
        let answer = rig.call("reload", json!({})).unwrap();
        let lines = answer["needs_restart"].as_array().unwrap();
        for line in [
            "[target] queue_depth: 256 now, 512 after a restart",
            "[target] metrics: not set now, \"127.0.0.1:9090\" after a restart",
            "[pmem] clients: 64 now, 5 after a restart",
            "[pmem] capacity: not set now, 1000 after a restart",
            "[network] base: \"auto\" now, \"reno\" after a restart",
            "[qos] wrr (with enabled = true): true now, false after a restart",
        ] {
            assert!(lines.contains(&json!(line)), "{round}: {answer}");
        }
        assert_eq!(lines.len(), 6, "{answer}");
    }
    assert_eq!(rig.control.live().current().target.queue_depth, 256, "what runs");
    assert_eq!(rig.control.live().current().pmem.general.clients, 64, "what runs");
    rig.edit(FILE);
    assert_eq!(rig.call("reload", json!({})).unwrap()["needs_restart"], json!([]));
}

#[test]
fn without_a_file_there_is_nothing_to_read() {
    let live = Live::open(Config::default(), Arc::new(FullStore::default())).unwrap().0;
    let control = Control::new(Arc::new(TestEngine::default()), live);
    let failure = control.reload(false).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Invalid);
    assert!(failure.message.contains("without --config"), "{}", failure.message);
}

#[test]
fn what_connected_hosts_would_lose_is_refused_with_their_names() {
    let rig = Rig::new();
    let host = |n: u8| format!("nqn.2026-01.io.x:h{n}");
    let hurt = |loss: &str, n| rig.engine.hurt.lock().unwrap().push((loss.to_owned(), host(n)));
    let refused = |words: &str| {
        let would = rig.call("reload", json!({ "check": true })).unwrap();
        assert!(would["warnings"].to_string().contains(words), "{would}");
        let before = rig.agrees_but_for_the_file();
        let error = rig.call("reload", json!({})).unwrap_err();
        assert_eq!(error["kind"], "refused");
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
        assert!(error["message"].as_str().unwrap().contains("--force"), "{error}");
        assert_eq!(rig.agrees_but_for_the_file(), before);
    };
    let smaller = FILE.replace("1 MiB", "8 KiB");
    rig.edit(&smaller);
    hurt(&format!("Size({NQN:?}, 1, Some(8192))"), 3);
    refused(&host(3));
    rig.edit(&FILE.replace("nsid = 1", "nsid = 2"));
    hurt(&format!("Namespace({NQN:?}, 1)"), 4);
    refused(&host(4));
    // What counts is who may connect after all changes.
    let h0 = [AllowedHost::from(host(0))];
    let access = |any, hosts| format!("{:?}", Loss::Access { nqn: NQN, any, hosts });
    rig.edit(&FILE.replace("hosts = [\"nqn.2026-01.io.x:h0\"]", "allow_any_host = true"));
    rig.call("reload", json!({})).unwrap();
    hurt(&access(false, &h0), 1);
    rig.edit(FILE);
    refused(&host(1));
    let message = rig.call("reload", json!({})).unwrap_err()["message"].to_string();
    assert!(!message.contains(&host(0)), "{message}");
    rig.call("reload", json!({ "force": true })).unwrap();
    rig.agrees();
}

#[test]
fn regions_change_with_the_file_and_what_clients_would_lose_is_refused() {
    let rig = Rig::new();
    let regions = |text: &str| rig.edit(&format!("{FILE}{text}"));
    let reload = || rig.call("reload", json!({})).unwrap()["changes"].clone();
    let one = "[[region]]\nname = \"log\"\nsize = \"8 KiB\"\n";
    regions(one);
    assert_eq!(reload(), json!(["regions change: log is added"]));
    rig.agrees();
    // A live change wins until the file's entry changes.
    rig.call("region.set", json!({"name": "log", "reserve": 5})).unwrap();
    rig.call("region.add", json!({"name": "live", "path": "/r"})).unwrap();
    assert_eq!(reload(), json!([]));
    regions(&format!("{one}reserve = 7\n"));
    assert_eq!(reload(), json!(["regions change: log gets another reserve"]));
    assert_eq!(rig.agrees_but_for_the_file().pmem.regions.len(), 2, "the live one stays");
    let before = rig.agrees().pmem.regions;
    regions("");
    let loss = format!("{:?}", Loss::Region(&before[0], None));
    rig.engine.hurt.lock().unwrap().push((loss, "nqn.2026-01.io.x:h5".into()));
    let error = rig.call("reload", json!({})).unwrap_err();
    assert_eq!(error["kind"], "refused");
    assert!(error["message"].as_str().unwrap().contains("region log is in use by 1"), "{error}");
    assert_eq!(rig.agrees_but_for_the_file().pmem.regions, before);
    let answer = rig.call("reload", json!({"force": true})).unwrap();
    assert_eq!(answer["changes"], json!(["regions change: log is removed"]));
    rig.agrees();
}

#[test]
fn identities_in_use_may_be_written_into_the_file_and_taken_out_again() {
    let rig = Rig::new();
    let shown = rig.call("namespace.list", json!({})).unwrap();
    let given = format!("uuid = {}\nnguid = {}\n", shown[0]["uuid"], shown[0]["nguid"]);
    for text in [FILE.to_owned() + &given, FILE.to_owned(), FILE.to_owned() + &given] {
        rig.edit(&text);
        assert_eq!(rig.call("reload", json!({})).unwrap()["changes"], json!([]), "{text}");
        let current = rig.control.live().current().clone();
        assert_eq!(*rig.engine.settled.lock().unwrap(), Some(current));
    }
    rig.edit(&(FILE.to_owned() + "uuid = \"00000000-0000-0000-0000-00000000000a\"\n"));
    let answer = rig.call("reload", json!({})).unwrap();
    let words = answer["changes"].to_string();
    assert!(words.contains("is added again, with another uuid"), "{words}");
    rig.agrees();
}
