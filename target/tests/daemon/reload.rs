//! Reload of the configuration file.

use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use fabric::nvme::opcode;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::client::{HOST, NQN, connected, free_address, io, on, pattern};
use crate::daemon::{Daemon, Setup};

const SECOND: &str = "[[subsystem.namespace]]\nnsid = 2\nbackend = \"memory\"\nsize = \"1 MiB\"\n";

#[test]
fn sighup_under_io_keeps_the_connection_and_takes_the_change() {
    let setup = Setup::with("");
    let daemon = setup.start();
    let (_admin, [mut queue]) = connected(setup.address);
    let stop = Arc::new(AtomicBool::new(false));
    let rounds = Arc::new(AtomicU32::new(0));
    let working = std::thread::spawn({
        let (stop, rounds) = (Arc::clone(&stop), Arc::clone(&rounds));
        move || {
            while !stop.load(Relaxed) {
                let lba = rounds.fetch_add(1, Relaxed) % 1000;
                queue.write(1, lba, pattern(lba, 1, 3));
                assert!(queue.read(1, lba, 1) == pattern(lba, 1, 3));
            }
            queue
        }
    });
    let more = SECOND.to_owned() + "[qos]\nburst = 8\n";
    let edited = setup.text(&more).replace("64 MiB", "96 MiB").replace("\"5 s\"", "\"7 s\"");
    setup.write(&edited.replace("[[listener]]", "[[listener]]\nclass = \"high\""));
    daemon.send(Signal::SIGHUP);
    daemon.logged("reload: done");
    for words in [
        format!("namespace 1 of {NQN} goes from 64 MiB to 96 MiB"),
        format!("namespace 2 of {NQN} (memory, 1 MiB) is added"),
        format!("listener {} goes from no class to class high", setup.address),
        "quality of service changes: [qos]".to_owned(),
        "[target] drain_time: \"5 s\" now, \"7 s\" after a restart".to_owned(),
    ] {
        daemon.logged(&words);
    }
    let before = rounds.load(Relaxed);
    while rounds.load(Relaxed) < before + 10 && !working.is_finished() {
        std::thread::sleep(Duration::from_millis(1));
    }
    stop.store(true, Relaxed);
    let mut queue = working.join().unwrap();
    // The same connection sees the new namespace, and the old data.
    queue.read(2, 0, 1);
    queue.read(1, (80 << 20) / 4096, 1);
    assert_eq!(queue.read(1, 0, 1), pattern(0, 1, 3));
    daemon.send(Signal::SIGHUP);
    daemon.logged("reload: nothing to change");
    // The host has both disks, and neither is removed without force.
    setup.write(&setup.text("").replace("\"5 s\"", "\"7 s\""));
    daemon.send(Signal::SIGHUP);
    let line = daemon.logged("reload failed");
    assert!(line.contains(HOST), "{line}");
    queue.read(2, 0, 1);
    daemon.call("reload", json!({ "force": true })).unwrap();
    assert!(!queue.call(on(2, io(opcode::io::READ, 0, 1)), None, 4096).0.is_success());
}

#[test]
fn a_file_with_errors_changes_nothing_and_all_of_them_are_told() {
    let setup = Setup::with("");
    let daemon = setup.start();
    let before = daemon.call("subsystem.list", json!({})).unwrap();
    let (_admin, [mut queue]) = connected(setup.address);
    setup.write(&(setup.text(SECOND) + "coluor = 1\n[extra]\n"));
    daemon.send(Signal::SIGHUP);
    daemon.logged("reload failed");
    daemon.logged("unknown key `coluor`");
    daemon.logged("extra");
    std::fs::remove_file(setup.path("a.toml")).unwrap();
    let error = daemon.call("reload", json!({})).unwrap_err();
    assert!(error.kind == "invalid" && error.message.contains("cannot read"), "{error}");
    // The listener's address is taken: the changes before it are undone.
    let address = free_address();
    let taken = std::net::TcpListener::bind(address).unwrap();
    setup.write(&(setup.text(SECOND) + &format!("[[listener]]\naddress = \"{address}\"\n")));
    let error = daemon.call("reload", json!({})).unwrap_err();
    assert_eq!(error.kind, "system", "{error}");
    assert!(error.message.contains("everything is as it was"), "{error}");
    assert_eq!(daemon.call("subsystem.list", json!({})).unwrap(), before);
    queue.read(1, 0, 1);
    drop(taken);
    let answer = daemon.call("reload", json!({ "check": true })).unwrap();
    assert_eq!(answer["changes"].as_array().unwrap().len(), 2, "{answer}");
    assert_eq!(daemon.call("subsystem.list", json!({})).unwrap(), before);
    let answer = daemon.call("reload", json!({})).unwrap();
    assert_eq!(answer["changes"].as_array().unwrap().len(), 2, "{answer}");
    let (_admin, [mut queue]) = connected(address);
    queue.read(1, 0, 1);
}

#[test]
fn systemd_is_told_of_each_step() {
    let setup = Setup::with("");
    let socket = UnixDatagram::bind(setup.path("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut command = setup.command();
    command.env("NOTIFY_SOCKET", setup.path("notify"));
    let daemon = Daemon::spawn(command, setup.path("control.sock"));
    let heard = || {
        let mut buffer = [0; 1024];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    assert_eq!(heard().trim(), "READY=1");
    daemon.send(Signal::SIGHUP);
    let told = heard();
    let since = told.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
    assert!(since.trim().parse::<u64>().unwrap() > 0);
    assert_eq!(heard().trim(), "READY=1");
    daemon.send(Signal::SIGTERM);
    assert_eq!(heard().trim(), "STOPPING=1");
}
