//! Reload of the configuration file.

use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use fabric::nvme::opcode;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::client::{HOST, NQN, Queue, io, pattern};
use crate::daemon::{Daemon, Setup, free_address};

const SECOND: &str = "[[subsystem.namespace]]\nnsid = 2\nbackend = \"memory\"\nsize = \"1 MiB\"\n";

#[test]
fn sighup_under_io_keeps_the_connection_and_takes_the_change() {
    let setup = Setup::new();
    setup.write(&setup.text(""));
    let daemon = setup.start();
    let (_admin, id) = Queue::controller(setup.address);
    let (mut queue, _) = Queue::connect(setup.address, 1, id);
    let stop = Arc::new(AtomicBool::new(false));
    let rounds = Arc::new(AtomicU32::new(0));
    let host = std::thread::spawn({
        let (stop, rounds) = (Arc::clone(&stop), Arc::clone(&rounds));
        move || {
            while !stop.load(Relaxed) {
                let lba = rounds.fetch_add(1, Relaxed) % 1000;
                let data = pattern(lba, 1, 3);
                let write = io(opcode::io::WRITE, lba, 1);
                assert!(queue.call(write, Some(data.clone()), 0).0.is_success());
                let (status, _, seen) = queue.call(io(opcode::io::READ, lba, 1), None, 4096);
                assert!(status.is_success() && seen == data);
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
    while rounds.load(Relaxed) < before + 10 && !host.is_finished() {
        std::thread::sleep(Duration::from_millis(1));
    }
    stop.store(true, Relaxed);
    let mut queue = host.join().unwrap();
    // The same connection sees the new namespace, and the old data.
    let mut read = io(opcode::io::READ, 0, 1);
    read.nsid = 2.into();
    assert!(queue.call(read, None, 4096).0.is_success());
    assert!(queue.call(io(opcode::io::READ, (80 << 20) / 4096, 1), None, 4096).0.is_success());
    assert_eq!(queue.call(io(opcode::io::READ, 0, 1), None, 4096).2, pattern(0, 1, 3));
    daemon.send(Signal::SIGHUP);
    daemon.logged("reload: nothing to change");
    // The host has both disks, and neither is removed without force.
    setup.write(&setup.text("").replace("\"5 s\"", "\"7 s\""));
    daemon.send(Signal::SIGHUP);
    let line = daemon.logged("reload failed");
    assert!(line.contains(HOST), "{line}");
    assert!(queue.call(read, None, 4096).0.is_success());
    daemon.call("reload", json!({ "force": true })).unwrap();
    assert!(!queue.call(read, None, 4096).0.is_success());
}

#[test]
fn a_file_with_errors_changes_nothing_and_all_of_them_are_told() {
    let setup = Setup::new();
    setup.write(&setup.text(""));
    let daemon = setup.start();
    let before = daemon.call("subsystem.list", json!({})).unwrap();
    let (_admin, id) = Queue::controller(setup.address);
    let (mut queue, _) = Queue::connect(setup.address, 1, id);
    setup.write(&(setup.text(SECOND) + "coluor = 1\n[extra]\n"));
    daemon.send(Signal::SIGHUP);
    daemon.logged("reload failed");
    daemon.logged("unknown key `coluor`");
    daemon.logged("extra");
    std::fs::remove_file(setup.path("a.toml")).unwrap();
    let error = daemon.call("reload", json!({})).unwrap_err();
    assert_eq!(error["kind"], "invalid");
    assert!(error["message"].as_str().unwrap().contains("cannot read"), "{error}");
    // The listener's address is taken: the changes before it are undone.
    let address = free_address();
    let taken = std::net::TcpListener::bind(address).unwrap();
    setup.write(&(setup.text(SECOND) + &format!("[[listener]]\naddress = \"{address}\"\n")));
    let error = daemon.call("reload", json!({})).unwrap_err();
    assert_eq!(error["kind"], "system", "{error}");
    assert!(error["message"].as_str().unwrap().contains("everything is as it was"), "{error}");
    assert_eq!(daemon.call("subsystem.list", json!({})).unwrap(), before);
    assert!(queue.call(io(opcode::io::READ, 0, 1), None, 4096).0.is_success());
    drop(taken);
    let answer = daemon.call("reload", json!({ "check": true })).unwrap();
    assert_eq!(answer["changes"].as_array().unwrap().len(), 2, "{answer}");
    assert_eq!(daemon.call("subsystem.list", json!({})).unwrap(), before);
    let answer = daemon.call("reload", json!({})).unwrap();
    assert_eq!(answer["changes"].as_array().unwrap().len(), 2, "{answer}");
    let (_admin, id) = Queue::controller(address);
    let (mut queue, _) = Queue::connect(address, 1, id);
    assert!(queue.call(io(opcode::io::READ, 0, 1), None, 4096).0.is_success());
}

#[test]
fn systemd_is_told_of_each_step() {
    let setup = Setup::new();
    setup.write(&setup.text(""));
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
