//! Tests of the method `reload`.

use std::sync::Arc;

use serde_json::json;
use sluice_config::AllowedHost;

use super::live_changes_tests::FILE;
use super::test_engine::TestEngine;
use super::tests::{NQN, Rig, logged};
use super::*;
use crate::control::store::{Live, MemoryStore, Store};
use crate::serve::engine::Loss;
use crate::serve::host_keys::HostKeys;
use crate::serve::host_keys::tests::key_file;

#[test]
fn live_changes_stay_until_their_entry_in_the_file_changes() {
    let rig = Rig::of(FILE);
    let host = |n: u8| format!("nqn.2026-01.io.x:h{n}");
    rig.call("host.add", json!({"subsystem": NQN, "host": host(1)}));
    rig.call("namespace.resize", json!({"subsystem": NQN, "nsid": 1, "size": "2 MiB"}));
    // Objects that the file does not touch stay as they were changed.
    rig.edit(&FILE.replace("4420", "4421"));
    let answer = rig.ask("reload");
    assert_eq!(
        answer["changes"],
        json!(["listener 127.0.0.1:4420 is removed", "listener 127.0.0.1:4421 is added"])
    );
    let subsystem = &rig.check_agreement().subsystems[0];
    assert_eq!(subsystem.hosts, [host(0), host(1)].map(AllowedHost::from));
    // A new size in the file wins over the live one, which is forgotten.
    rig.edit(&FILE.replace("1 MiB", "4 MiB"));
    let answer = rig.call("reload", json!({ "check": true }));
    assert_eq!(rig.store.objects().unwrap().len(), 2, "nothing was done");
    assert_eq!(rig.ask("reload"), answer);
    assert!(answer["warnings"][0].as_str().unwrap().contains("has changed since"), "{answer}");
    assert_eq!(rig.store.objects().unwrap().len(), 1);
    rig.check_agreement();
    // A later live change is compared with the new file.
    rig.call("namespace.resize", json!({"subsystem": NQN, "nsid": 1, "size": "4 MiB"}));
    assert_eq!(rig.store.objects().unwrap().len(), 1, "a change to what the file says");
    rig.call("namespace.resize", json!({"subsystem": NQN, "nsid": 1, "size": "8 MiB"}));
    rig.check_agreement();
    assert_eq!(rig.ask("reload")["changes"], json!([]));
}

#[test]
fn what_cannot_be_done_changes_nothing() {
    let rig = Rig::of(FILE);
    rig.call("namespace.resize", json!({"subsystem": NQN, "nsid": 1, "size": "2 MiB"}));
    let (before, stored) = (rig.check_agreement(), rig.stored());
    let unchanged = |words: &str, kind: &str| {
        rig.refuses("reload", json!({}), kind, words);
        assert_eq!((rig.running(), rig.stored()), (before.clone(), stored.clone()));
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
    rig.store.set_full(true);
    unchanged("no space left", "store");
    rig.store.set_full(false);
    std::fs::remove_file(rig.file()).unwrap();
    unchanged("cannot read", "invalid");
    rig.edit(FILE);
    rig.check_agreement();
}

/// Checks that the warnings of a reload and of its check have these words.
fn warns(rig: &Rig, words: &[&str]) {
    for check in [true, false] {
        let warnings = rig.call("reload", json!({ "check": check }))["warnings"].to_string();
        assert!(words.iter().all(|word| warnings.contains(word)), "{check}: {warnings}");
    }
}

#[test]
fn who_makes_a_tls_key_prove_nothing_is_told() {
    let host = "nqn.2026-01.io.x:h7";
    let rig = Rig::of(FILE);
    let keys = HostKeys::from([key_file(host, false, true)]);
    (*rig.engine.keys_of_files.lock().unwrap()).clone_from(&keys);
    let refused = rig.attempt("reload", json!({})).unwrap_err();
    assert_eq!(refused["kind"], "refused");
    let message = refused["message"].to_string();
    assert!(message.contains(host) && message.contains("--force"), "{message}");
    assert!(rig.engine.host_keys.lock().unwrap().is_empty(), "nothing was taken");
    // With the keys of a host that was removed later, the target reloads.
    (*rig.engine.host_keys.lock().unwrap()).clone_from(&keys);
    warns(&rig, &[host, "no subsystem allows it"]);
    // A live change lets the host in, by a listener without TLS.
    let seen = logged(|| {
        rig.call("host.add", json!({"subsystem": NQN, "host": host}));
        rig.call("host.add", json!({"subsystem": NQN, "host": "nqn.2026-01.io.x:h8"}));
    });
    let lines = seen.lines().filter(|line| line.contains("proves nothing in subsystem"));
    let lines: Vec<&str> = lines.collect();
    assert!(matches!(lines[..], [one] if one.contains(host)), "once: {seen}");
    warns(&rig, &[host, "127.0.0.1:4420"]);
}

#[test]
fn who_makes_keys_of_a_keyring_prove_nothing_is_told() {
    let required = FILE.replace("4420\"\n", "4420\"\ntls = \"required\"\n");
    let rig = Rig::of(&format!("[target]\nkeyring = \".nvme\"\n{required}"));
    warns(&rig, &["[]"]);
    let seen = logged(|| {
        rig.call("listener.add", json!({"address": "127.0.0.1:4421"}));
        rig.call("host.add", json!({"subsystem": NQN, "host": "nqn.2026-01.io.x:h8"}));
    });
    let lines: Vec<&str> = seen.lines().filter(|line| line.contains("keyring .nvme")).collect();
    assert!(matches!(lines[..], [one] if one.contains("(127.0.0.1:4421)")), "once: {seen}");
    warns(&rig, &["keyring .nvme", "127.0.0.1:4421"]);
}

#[test]
fn keys_are_there_before_a_change_lets_their_hosts_in_and_go_behind_the_last_change() {
    let keys = |host: &str| HostKeys::from([key_file(host, true, false)]);
    let (old, new) = ("nqn.2026-01.io.x:old", "nqn.2026-01.io.x:new");
    let rig = Rig::of(FILE);
    *rig.engine.host_keys.lock().unwrap() = keys(old);
    *rig.engine.keys_of_files.lock().unwrap() = keys(new);
    rig.edit(&FILE.replace("4420", "4421"));
    *rig.engine.refuse_after.lock().unwrap() = Some(0);
    rig.attempt("reload", json!({ "force": true })).unwrap_err();
    assert_eq!(*rig.engine.host_keys.lock().unwrap(), keys(old), "as it was");
    rig.engine.keys_at_changes.lock().unwrap().clear();
    let answer = rig.call("reload", json!({ "force": true }));
    assert_eq!(*rig.engine.host_keys.lock().unwrap(), keys(new));
    let seen = rig.engine.keys_at_changes.lock().unwrap();
    assert!(!seen.is_empty() && seen.iter().all(|hosts| *hosts == [new, old]), "{seen:?}");
    let told = answer["changes"].to_string();
    assert!(told.contains("new has to prove") && told.contains("old has no secret"), "{told}");
}

#[test]
fn what_only_a_restart_changes_is_named_each_time() {
    let rig = Rig::of(FILE);
    let target = "[target]\nqueue_depth = 512\nmetrics = \"127.0.0.1:9090\"\n";
    let pmem = "[pmem]\nclients = 5\ncapacity = 1000\n";
    rig.edit(&format!("{target}{pmem}[network]\nbase = \"reno\"\n[qos]\nwrr = false\n{FILE}"));
    for round in 0..2 {
        let answer = rig.ask("reload");
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
    assert_eq!(rig.ask("reload")["needs_restart"], json!([]));
}

#[test]
fn without_a_file_there_is_nothing_to_read() {
    let live = Live::open(Config::default(), Arc::new(MemoryStore::default())).unwrap().0;
    let control = Control::new(Arc::new(TestEngine::default()), live);
    let failure = control.reload(false).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Invalid);
    assert!(failure.message.contains("without --config"), "{}", failure.message);
}

#[test]
fn what_connected_hosts_would_lose_is_refused_with_their_names() {
    let rig = Rig::of(FILE);
    let host = |n: u8| format!("nqn.2026-01.io.x:h{n}");
    let refused = |words: &str| {
        let would = rig.call("reload", json!({ "check": true }));
        assert!(would["warnings"].to_string().contains(words), "{would}");
        let before = rig.running();
        let message = rig.refuses("reload", json!({}), "refused", words);
        assert!(message.contains("--force"), "{message}");
        assert_eq!(rig.running(), before);
    };
    rig.edit(&FILE.replace("1 MiB", "8 KiB"));
    rig.engine.add_hurt(&Loss::Size(NQN, 1, Some(8192)), &host(3));
    refused(&host(3));
    rig.edit(&FILE.replace("nsid = 1", "nsid = 2"));
    rig.engine.add_hurt(&Loss::Namespace(NQN, 1), &host(4));
    refused(&host(4));
    rig.edit(&FILE.replace("[[subsystem]]", "[[subsystem]]\nrequire_authentication = true"));
    rig.engine.add_hurt(&Loss::Authentication(NQN), &host(5));
    refused(&host(5));
    // Only the access after all changes counts.
    let h0 = [AllowedHost::from(host(0))];
    rig.edit(&FILE.replace("hosts = [\"nqn.2026-01.io.x:h0\"]", "allow_any_host = true"));
    rig.ask("reload");
    rig.engine.add_hurt(&Loss::Access { nqn: NQN, any: false, hosts: &h0 }, &host(1));
    rig.edit(FILE);
    refused(&host(1));
    let (_, message) = rig.refused("reload", json!({}));
    assert!(!message.contains(&host(0)), "{message}");
    rig.call("reload", json!({ "force": true }));
    rig.check_agreement();
}

#[test]
fn regions_change_with_the_file_and_what_clients_would_lose_is_refused() {
    let rig = Rig::of(FILE);
    let regions = |text: &str| rig.edit(&format!("{FILE}{text}"));
    let reload = || rig.ask("reload")["changes"].clone();
    let one = "[[region]]\nname = \"log\"\nsize = \"8 KiB\"\n";
    regions(one);
    assert_eq!(reload(), json!(["regions change: log is added"]));
    rig.check_agreement();
    // A live change wins until the file's entry changes.
    rig.call("region.set", json!({"name": "log", "reserve": 5}));
    rig.call("region.add", json!({"name": "live", "path": "/r"}));
    assert_eq!(reload(), json!([]));
    regions(&format!("{one}reserve = 7\n"));
    assert_eq!(reload(), json!(["regions change: log gets another reserve"]));
    assert_eq!(rig.running().pmem.regions.len(), 2, "the live one stays");
    let before = rig.check_agreement().pmem.regions;
    regions("");
    let log = before.iter().find(|region| region.name == "log").unwrap();
    rig.engine.add_hurt(&Loss::Region(log, None), "nqn.2026-01.io.x:h5");
    rig.refuses("reload", json!({}), "refused", "region log is in use by 1");
    assert_eq!(rig.running().pmem.regions, before);
    let answer = rig.call("reload", json!({"force": true}));
    assert_eq!(answer["changes"], json!(["regions change: log is removed"]));
    rig.check_agreement();
}

#[test]
fn identities_in_use_may_be_written_into_the_file_and_taken_out_again() {
    let rig = Rig::of(FILE);
    let shown = rig.ask("namespace.list");
    let given = format!("uuid = {}\nnguid = {}\n", shown[0]["uuid"], shown[0]["nguid"]);
    for text in [FILE.to_owned() + &given, FILE.to_owned(), FILE.to_owned() + &given] {
        rig.edit(&text);
        assert_eq!(rig.ask("reload")["changes"], json!([]), "{text}");
        let current = rig.control.live().current().clone();
        assert_eq!(*rig.engine.settled.lock().unwrap(), Some(current));
    }
    rig.edit(&(FILE.to_owned() + "uuid = \"00000000-0000-0000-0000-00000000000a\"\n"));
    let answer = rig.ask("reload");
    let words = answer["changes"].to_string();
    assert!(words.contains("is added again, with another uuid"), "{words}");
    rig.check_agreement();
}
