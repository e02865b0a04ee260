//! Tests of the daemon's reports about hosts' secrets and TLS keys.

use std::path::Path;

use serde_json::{Value, json};

use super::tests::{NQN, Rig};
use crate::serve::host_keys::tests::key_file;

/// Makes a target that reads keys in a folder, with a subsystem of these lines.
fn rig(folder: &Path, lines: &str) -> Rig {
    let text = format!(
        "[target]\nhost_keys = \"{}\"\n[[subsystem]]\nnqn = \"{NQN}\"\n{lines}\n",
        folder.display()
    );
    Rig::of(&text)
}

fn host(n: u8) -> String {
    format!("nqn.2026-01.io.x:h{n}")
}

#[test]
fn hosts_are_told_with_what_they_have_and_whether_a_subsystem_allows_them() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(folder.path(), &format!("hosts = {:?}", [host(1), host(3), host(4)]));
    let both = key_file(&host(1), true, true);
    *rig.engine.host_keys.lock().unwrap() = [both.clone(), key_file(&host(2), true, false)].into();
    *rig.engine.keys_of_files.lock().unwrap() = [both, key_file(&host(2), false, true)].into();
    let row = |n: u8, secret: bool, tls_key: bool, allowed: bool| {
        json!({"host": host(n), "secret": secret, "controller_secret": secret,
               "tls_key": tls_key, "allowed": allowed, "listed": allowed})
    };
    let told = rig.ask("host.keys");
    assert_eq!(told["folder"].as_str(), folder.path().to_str());
    assert_eq!(told["hosts"], json!([row(1, true, true, true), row(2, true, false, false)]));
    let changes = ["has no secret any more", "has a TLS key"];
    assert_eq!(told["changes"], json!(changes.map(|what| format!("host {} {what}", host(2)))));
    let one = rig.call("host.keys", json!({"host": host(3)}));
    assert_eq!(one["hosts"], json!([row(3, false, false, true)]), "it has nothing yet");
    let list = rig.ask("host.list");
    let of = |n: u8| list[0]["authentication"][host(n)].clone();
    assert_eq!((of(1), of(2), of(3)), (json!("both"), Value::Null, json!("none")));
    assert_eq!(of(4), json!("tls_key"), "of the keyring");
    for text in [told.to_string(), list.to_string()] {
        assert!(!text.contains("DHHC-1") && !text.contains("NVMeTLSkey"), "{text}");
    }
}

#[test]
fn keys_of_hosts_that_nobody_allows_and_a_folder_that_cannot_be_read_are_problems() {
    let folder = tempfile::tempdir().unwrap();
    let rig = rig(folder.path(), "");
    let problems = || -> Vec<String> {
        serde_json::from_value(rig.ask("status")["problems"].clone()).unwrap()
    };
    assert_eq!(problems(), [""; 0]);
    *rig.engine.host_keys.lock().unwrap() = [key_file(&host(1), true, false)].into();
    let told = problems();
    assert!(matches!(&told[..], [one] if one.starts_with("host nqn.2026-01.io.x:h1 ")), "{told:?}");
    rig.call("host.any", json!({"subsystem": NQN, "allow": true}));
    assert_eq!(problems(), [""; 0]);
    std::fs::remove_dir(folder.path()).unwrap();
    let told = problems();
    let unread = "secrets of hosts: cannot read ";
    assert!(matches!(&told[..], [one] if one.starts_with(unread)), "{told:?}");
}

#[test]
fn host_without_its_last_key_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let listed = format!("hosts = {:?}", [host(1)]);
    let listener = "[[listener]]\naddress = \"127.0.0.1:4420\"";
    for (lines, is_open) in [
        (format!("{listed}\n{listener}"), true),
        (format!("{listed}\nrequire_authentication = true\n{listener}"), false),
        (format!("{listed}\n{listener}\nrequire_authentication = true"), false),
        (format!("{listed}\n{listener}\ntls = \"required\""), false),
        (format!("{listed}\n{listener}\ndiscovery_only = true"), false),
        (listed, false),
        (listener.to_owned(), false),
    ] {
        let rig = rig(folder.path(), &lines);
        *rig.engine.host_keys.lock().unwrap() = [key_file(&host(1), true, false)].into();
        if is_open {
            let words = "anyone could connect to nqn.2026-01.io.x:s0 under its NQN";
            rig.refuses("reload", json!({}), "refused", words);
            assert_eq!(rig.engine.host_keys.lock().unwrap().len(), 1, "the key counts");
        }
        rig.call("reload", json!({"force": is_open}));
        assert!(rig.engine.host_keys.lock().unwrap().is_empty(), "{lines}");
    }
}
