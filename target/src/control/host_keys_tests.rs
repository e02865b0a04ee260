//! Tests of what the daemon tells of hosts' secrets and TLS keys.

use std::path::Path;
use std::sync::Arc;

use fabric::dhchap::{HostSecrets, Secret, SecretPair};
use fabric::key_file::KeyFile;
use fabric::tls_psk::{ConfiguredPsk, PskLength, Transform};
use serde_json::{Value, json};

use super::Control;
use super::test_engine::TestEngine;
use super::tests::NQN;
use crate::config::tests::parse;
use crate::store::{Live, MemoryStore};

/// Makes the file of a host. Beside its secret the target has one of its own.
fn file(host: &str, secret: bool, tls_key: bool) -> (String, KeyFile) {
    let controller = Some(Secret::generate(&[2; 64], None));
    let pair = SecretPair { host: Secret::generate(&[1; 64], None), controller };
    let secrets = HostSecrets { pairs: vec![pair], hashes: vec![], groups: vec![] };
    let psk = ConfiguredPsk::generate(&[1; 48], PskLength::Bytes32, Transform::Hash);
    let file = KeyFile {
        secrets: secret.then_some(secrets),
        tls_keys: if tls_key { vec![psk] } else { vec![] },
        ..KeyFile::new(host)
    };
    (host.to_owned(), file)
}

/// Makes a target that reads keys in a folder, with a subsystem of these lines.
fn rig(folder: &Path, lines: &str) -> (Arc<TestEngine>, Arc<Control>) {
    let text = format!(
        "[target]\nhost_keys = \"{}\"\n[[subsystem]]\nnqn = \"{NQN}\"\n{lines}\n",
        folder.display()
    );
    let config = parse(&text).unwrap();
    let engine = Arc::new(TestEngine::new(config.clone()));
    let (live, _) = Live::open(config, Arc::new(MemoryStore::default())).unwrap();
    (Arc::clone(&engine), Control::new(engine, live))
}

fn host(n: u8) -> String {
    format!("nqn.2026-01.io.x:h{n}")
}

#[test]
fn hosts_are_told_with_what_they_have_and_whether_a_subsystem_allows_them() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, control) =
        rig(folder.path(), "hosts = [\"nqn.2026-01.io.x:h1\", \"nqn.2026-01.io.x:h3\"]");
    let both = file(&host(1), true, true);
    *engine.host_keys.lock().unwrap() = [both.clone(), file(&host(2), true, false)].into();
    *engine.keys_of_files.lock().unwrap() = [both, file(&host(2), false, true)].into();
    let row = |n: u8, secret: bool, tls_key: bool, allowed: bool| {
        json!({"host": host(n), "secret": secret, "controller_secret": secret,
               "tls_key": tls_key, "allowed": allowed})
    };
    let told = control.call("host.keys", &json!({})).unwrap();
    assert_eq!(told["folder"].as_str(), folder.path().to_str());
    assert_eq!(told["hosts"], json!([row(1, true, true, true), row(2, true, false, false)]));
    let changes = ["has no secret any more", "has a TLS key"];
    assert_eq!(told["changes"], json!(changes.map(|what| format!("host {} {what}", host(2)))));
    let one = control.call("host.keys", &json!({"host": host(3)})).unwrap();
    assert_eq!(one["hosts"], json!([row(3, false, false, true)]), "it has nothing yet");
    let list = control.call("host.list", &json!({})).unwrap();
    let of = |n: u8| list[0]["authentication"][host(n)].clone();
    assert_eq!((of(1), of(2), of(3)), (json!("both"), Value::Null, json!("none")));
    for text in [told.to_string(), list.to_string()] {
        assert!(!text.contains("DHHC-1") && !text.contains("NVMeTLSkey"), "{text}");
    }
}

#[test]
fn keys_of_hosts_that_nobody_allows_and_a_folder_that_cannot_be_read_are_problems() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, control) = rig(folder.path(), "");
    let problems = || -> Vec<String> {
        let status = control.call("status", &json!({})).unwrap();
        serde_json::from_value(status["problems"].clone()).unwrap()
    };
    assert_eq!(problems(), [""; 0]);
    *engine.host_keys.lock().unwrap() = [file(&host(1), true, false)].into();
    let told = problems();
    assert!(matches!(&told[..], [one] if one.starts_with("host nqn.2026-01.io.x:h1 ")), "{told:?}");
    control.call("host.any", &json!({"subsystem": NQN, "allow": true})).unwrap();
    assert_eq!(problems(), [""; 0]);
    std::fs::remove_dir(folder.path()).unwrap();
    let told = problems();
    let unread = "secrets of hosts: cannot read ";
    assert!(matches!(&told[..], [one] if one.starts_with(unread)), "{told:?}");
}
