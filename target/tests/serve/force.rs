//! Losses of hosts that a change would bring about.

use fabric::nvme::opcode;
use sluice_config::{AllowedHost, Endpoint, QosConfig};
use sluiced::serve::engine::{Engine, Loss};

use super::client::{HOST, NQN, Queue, connected, io, on};
use super::{eventually, file, memory, namespace, serve, settings, target};

const OTHER: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000ffff";

#[test]
fn a_connected_host_and_a_lost_one_are_named_wherever_they_would_lose_something() {
    let hidden =
        sluice_config::Namespace { hosts: Some(vec![OTHER.to_owned()]), ..namespace(memory()) };
    let (runtime, address) =
        serve(settings(), QosConfig::default(), vec![namespace(memory()), hidden]);
    let listed = [AllowedHost::from(HOST)];
    let access = |any, hosts| Loss::Access { nqn: NQN, any, hosts };
    let losses = [
        Loss::Subsystem(NQN),
        Loss::Namespace(NQN, 1),
        Loss::Size(NQN, 1, Some(32 << 20)),
        Loss::Listener(Endpoint::tcp(address)),
        access(false, &[]),
    ];
    for loss in &losses {
        assert!(runtime.hosts_hurt(loss).is_empty(), "nobody is connected: {loss:?}");
    }
    let (admin, _) = Queue::controller(address);
    for loss in &losses {
        assert_eq!(runtime.hosts_hurt(loss).connected, [HOST], "{loss:?}");
    }
    let spared = [
        Loss::Namespace(NQN, 2),
        Loss::Namespace(NQN, 9),
        Loss::Subsystem("nqn.2026-01.io.sluicegate:none"),
        Loss::Size(NQN, 1, Some(128 << 20)),
        Loss::Size(NQN, 1, None),
        Loss::Listener("127.0.0.1:1".parse().unwrap()),
        access(true, &[]),
        access(false, &listed),
    ];
    for loss in &spared {
        assert!(runtime.hosts_hurt(loss).is_empty(), "{loss:?}");
    }
    drop(admin);
    eventually("it is gone, and had no queue", || {
        runtime.hosts_hurt(&Loss::Subsystem(NQN)).is_empty()
    });
    let (admin, id) = Queue::controller(address);
    drop((Queue::connect(address, 1, id), admin));
    eventually("it is lost", || !runtime.lost_hosts().is_empty());
    for loss in &losses {
        let hurt = runtime.hosts_hurt(loss);
        let names: Vec<&str> = hurt.lost.iter().map(|lost| lost.host.as_str()).collect();
        assert_eq!((hurt.connected.len(), names), (0, vec![HOST]), "{loss:?}");
    }
    for loss in &spared {
        assert!(runtime.hosts_hurt(loss).is_empty(), "{loss:?}");
    }
    assert_eq!(runtime.statistics().hosts_lost, 1);
}

#[test]
fn taking_over_the_size_of_a_file_that_was_cut_counts_as_shrinking() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("disk");
    let (runtime, address) = target(vec![file(&path)], 1);
    let (_admin, _) = Queue::controller(address);
    let take = Loss::Size(NQN, 1, None);
    assert!(runtime.hosts_hurt(&take).is_empty(), "the file has its size");
    let cut = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    cut.set_len(32 << 20).unwrap();
    assert_eq!(runtime.hosts_hurt(&take).connected, [HOST]);
}

/// The statements of docs/reference/control.md about shrinking hold.
#[test]
fn a_file_that_becomes_larger_again_has_its_old_data_and_memory_has_zeroes() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("disk");
    let (runtime, address) = target(vec![file(&path), memory()], 1);
    let (_admin, [mut queue]) = connected(address);
    for nsid in [1, 2] {
        queue.write(nsid, 9000, vec![7; 4096]);
        assert_eq!(runtime.resize_namespace(NQN, nsid, Some(32 << 20)).unwrap(), 32 << 20);
        let beyond = on(nsid, io(opcode::io::READ, 9000, 1));
        assert!(!queue.call(beyond, None, 4096).0.is_success(), "beyond the end");
        runtime.resize_namespace(NQN, nsid, Some(64 << 20)).unwrap();
        let byte = if nsid == 1 { 7 } else { 0 };
        assert_eq!(queue.read(nsid, 9000, 1), [byte; 4096], "namespace {nsid}");
    }
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 64 << 20, "the file was never cut");
}
