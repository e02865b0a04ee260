//! The state file between one run and the next.

use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::client::NQN;
use crate::daemon::{Daemon, Setup};

#[test]
fn a_damaged_state_file_is_set_aside_without_a_panics_text_and_the_configuration_is_served() {
    let setup = Setup::with("");
    let mut daemon = setup.start();
    let host = "nqn.2026-01.io.x:h";
    daemon.call("host.add", json!({ "subsystem": NQN, "host": host })).unwrap();
    daemon.send(Signal::SIGTERM);
    assert_eq!(daemon.ended(), Some(0));
    let state = setup.path("state.redb");
    let good = std::fs::read(&state).unwrap();
    assert_eq!(good[9] & 2, 0, "it was closed in order");
    let mut aside = 0;
    // These are the first bytes of each page that is not empty, which tell the page's type.
    let pages: Vec<usize> = (1..good.len() / 4096).filter(|n| good[n * 4096] != 0).collect();
    for page in pages {
        let mut bytes = good.clone();
        bytes[page * 4096..page * 4096 + 4].fill(0xff);
        std::fs::write(&state, &bytes).unwrap();
        let daemon = setup.start();
        let log = daemon.log();
        assert!(!log.contains("panicked"), "{log}");
        let hosts = daemon.call("host.list", json!({})).unwrap();
        let kept: Vec<String> = std::fs::read_dir(setup.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path().display().to_string())
            .filter(|name| name.contains("damaged-"))
            .collect();
        if kept.len() > aside {
            aside = kept.len();
            let line = log.lines().find(|line| line.contains("is damaged")).unwrap();
            assert!(
                line.contains("ERROR") && line.contains(&state.display().to_string()),
                "{line}"
            );
            assert!(kept.iter().any(|name| line.contains(name.as_str())), "{line}");
        } else {
            // The page was no longer in use.
            assert_eq!(hosts[0]["hosts"], json!([host]));
        }
    }
    assert!(aside > 2, "only {aside} were noticed");
}

#[test]
fn acknowledged_changes_survive_a_kill() {
    let setup = Setup::with("");
    for n in 0..3 {
        let mut daemon = setup.start();
        let hosts = daemon.call("host.list", json!({})).unwrap();
        assert_eq!(hosts[0]["hosts"].as_array().unwrap().len(), n);
        let host = format!("nqn.2026-01.io.x:h{n}");
        daemon.call("host.add", json!({ "subsystem": NQN, "host": host })).unwrap();
        daemon.send(Signal::SIGKILL);
        assert_eq!(daemon.ended(), None);
        assert_eq!(daemon.count("ERROR"), 0, "{}", daemon.log());
    }
}

#[test]
fn what_could_not_be_stored_on_a_full_disk_is_stored_once_there_is_room() {
    let setup = Setup::new();
    let disk = setup.path("disk");
    std::fs::write(&disk, vec![0; 1 << 20]).unwrap();
    setup.write(&setup.text(&format!(
        "[[subsystem.namespace]]\nnsid = 2\nbackend = \"file\"\npath = \"{}\"\ndirect = false\n\
         size = \"1 MiB\"\ncreate = true\n",
        disk.display()
    )));
    // No file can become larger than a block, as on a disk that is full.
    let mut daemon = setup.start_limited("-S -f 1");
    let problems =
        |of: &Daemon| of.call("status", json!({})).unwrap()["problems"].as_array().unwrap().clone();
    let uuid = |of: &Daemon| of.call("namespace.list", json!({})).unwrap()[1]["uuid"].clone();
    let first = uuid(&daemon);
    // The keeper tries again.
    std::thread::sleep(std::time::Duration::from_secs(6));
    let told = problems(&daemon);
    assert!(told.len() == 1 && told[0].as_str().unwrap().contains("no space left"), "{told:?}");
    assert_eq!(daemon.count("a restart would lose them"), 1, "{}", daemon.log());
    let host = json!({ "subsystem": NQN, "host": "nqn.2026-01.io.x:h" });
    daemon.call("host.add", host.clone()).unwrap_err();
    let id = daemon.id().to_string();
    let raised = Command::new("prlimit").args(["--pid", &id, "--fsize=unlimited"]).status();
    assert!(raised.unwrap().success());
    daemon.logged("are stored now");
    assert_eq!(problems(&daemon), [""; 0]);
    daemon.call("host.add", host).unwrap();
    daemon.send(Signal::SIGTERM);
    assert_eq!(daemon.ended(), Some(0));
    std::fs::remove_file(&disk).unwrap();
    let daemon = setup.start();
    assert_eq!(uuid(&daemon), first);
    assert!(!disk.exists() && daemon.log().contains("there is no such file any more"));
}
