//! Losses of hosts that a change would bring about.

use sluice_config::{AllowedHost, Endpoint, Namespace};
use sluiced::serve::engine::{Engine, Loss};

use super::client::{HOST, NQN, Queue, connected};
use super::{disk, eventually, file, memory, target};

const OTHER: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000ffff";

#[test]
fn a_connected_host_and_a_lost_one_are_named_wherever_they_would_lose_something() {
    let hidden = Namespace { hosts: Some(vec![OTHER.to_owned()]), ..memory() };
    let (runtime, address) = target(vec![memory(), hidden], 1);
    let listed = [AllowedHost::from(HOST)];
    let access = |any, hosts| Loss::Access { nqn: NQN, any, hosts };
    let losses = [
        Loss::Subsystem(NQN),
        Loss::Namespace(NQN, 1),
        Loss::Size(NQN, 1, Some(32 << 20)),
        Loss::Listener(Endpoint::tcp(address)),
        Loss::Authentication(NQN),
        access(false, &[]),
    ];
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
    // Checks the hosts that each of the losses would hurt: connected ones, and lost ones.
    let check = |connected: &[&str], lost: &[&str]| {
        for loss in &losses {
            let hurt = runtime.hosts_hurt(loss);
            let names: Vec<&str> = hurt.lost.iter().map(|lost| lost.host.as_str()).collect();
            assert_eq!(hurt.connected, connected, "{loss:?}");
            assert_eq!(names, lost, "{loss:?}");
        }
        for loss in &spared {
            assert!(runtime.hosts_hurt(loss).is_empty(), "{loss:?}");
        }
    };
    check(&[], &[]);
    let (admin, _) = Queue::controller(address);
    check(&[HOST], &[]);
    drop(admin);
    eventually("it is gone, and had no queue", || {
        runtime.hosts_hurt(&Loss::Subsystem(NQN)).is_empty()
    });
    drop(connected::<1>(address));
    eventually("it is lost", || !runtime.lost_hosts().is_empty());
    check(&[], &[HOST]);
    assert_eq!(runtime.statistics().hosts_lost, 1);
}

#[test]
fn taking_over_the_size_of_a_file_that_was_cut_counts_as_shrinking() {
    let (_folder, path) = disk();
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
    let (_folder, path) = disk();
    let (runtime, address) = target(vec![file(&path), memory()], 1);
    let (_admin, [mut queue]) = connected(address);
    for nsid in [1, 2] {
        queue.write(nsid, 9000, vec![7; 4096]);
        assert_eq!(runtime.resize_namespace(NQN, nsid, Some(32 << 20)).unwrap(), 32 << 20);
        assert!(!queue.try_read(nsid, 9000).is_success(), "beyond the end");
        runtime.resize_namespace(NQN, nsid, Some(64 << 20)).unwrap();
        let byte = if nsid == 1 { 7 } else { 0 };
        assert_eq!(queue.read(nsid, 9000, 1), [byte; 4096], "namespace {nsid}");
    }
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 64 << 20, "the file was never cut");
}
