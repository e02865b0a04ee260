//! Connections that end: by their hosts' silence, or with the target.

use std::time::Duration;

use fabric::host::commands;
use fabric::nvme::Status;
use fabric::queue::HostTransport as _;

use super::rig::{DRIVE, MEMORY, MS, Plan, Rig, read, write};
use crate::testing::Seen;

#[test]
fn who_sends_no_connect_is_disconnected_after_ten_seconds() {
    let mut rig = Rig::new(&Plan::default());
    let silent = rig.accept_silent();
    rig.pass(9_900 * MS);
    assert_eq!(rig.ended(silent), None);
    rig.pass(200 * MS);
    assert_eq!(rig.ended(silent), Some("no Connect within 10 s"));
    assert!(rig.core.driver().seen.contains(&(rig.peers[silent].key, Seen::NoConnect)));
    assert!(rig.ended(0).is_none() && rig.ended(1).is_none());
    assert_eq!(rig.core.inventory().connections, 2);
}

#[test]
fn who_owes_data_is_disconnected_after_thirty_seconds_and_what_it_held_is_free() {
    let (sqe, data) = commands::honour_retry_delays();
    for (peer, sqe, data) in [(0, sqe, data), (1, write(DRIVE, 0, 64), vec![3; 32 << 10])] {
        let mut rig = Rig::new(&Plan::default());
        let idle = rig.add_host();
        rig.pass(60_000 * MS);
        rig.peers[peer].host.set_in_capsule_data(0);
        rig.queue(peer, sqe, Some(data), 0);
        rig.run_until_asked(peer);
        assert!(peer == 0 || rig.core.buffers().0 > 0);
        rig.pass(29_900 * MS);
        assert_eq!(rig.ended(peer), None);
        rig.pass(300 * MS);
        assert_eq!(rig.ended(peer), Some("it owes data for 30 s"));
        assert_eq!((rig.core.buffers().0, rig.states()), (0, vec![]));
        assert!(rig.ended(idle).is_none(), "who owes nothing may be silent");
        assert!(rig.call(idle, read(MEMORY, 0, 1), None, 512).0.is_success());
    }
}

#[test]
fn a_host_that_waits_for_its_device_owes_nothing() {
    let mut rig = Rig::new(&Plan::default());
    let cid = rig.submit(1, write(DRIVE, 0, 64), Some(vec![3; 64 * 512]), 0);
    rig.pass(100_000 * MS);
    assert_eq!(rig.ended(1), None);
    rig.end_oldest();
    assert_eq!(rig.answer(1, cid), Some(Status::SUCCESS));
}

#[test]
fn a_target_that_ends_answers_what_it_has_and_takes_nothing_new() {
    let mut rig = Rig::new(&Plan { window: 1, ..Plan::default() });
    let had: Vec<u16> = (0..2).map(|lba| rig.submit(1, read(DRIVE, lba, 1), None, 512)).collect();
    rig.core.drain(Duration::from_secs(5));
    let late = rig.submit(1, read(MEMORY, 0, 1), None, 512);
    rig.pass(100 * MS);
    assert!(!rig.core.is_drained() && rig.ended(1).is_none());
    while rig.end_oldest() {}
    rig.pass_often(10, 5 * MS);
    assert!(rig.succeeded(1, &had));
    assert_eq!(rig.answer(1, late), None, "its host sends it again elsewhere");
    assert_eq!([0, 1].map(|peer| rig.ended(peer)), [Some("the target is ending"); 2]);
    assert!(rig.core.is_drained());
}

#[test]
fn a_target_that_ends_waits_for_its_devices_but_not_for_its_hosts() {
    let mut rig = Rig::new(&Plan::default());
    rig.submit(1, read(DRIVE, 0, 1), None, 512);
    let other = rig.connect_queue(2);
    rig.owe_data(other);
    rig.core.drain(Duration::from_secs(1));
    rig.pass(990 * MS);
    assert!(rig.ended(other).is_none());
    rig.pass(20 * MS);
    assert_eq!(rig.ended(other), Some("the target is ending"));
    assert!(!rig.core.is_drained(), "a command is in its device");
    rig.end_oldest();
    rig.pass(10 * MS);
    assert!(rig.core.is_drained());
    assert_eq!(rig.core.buffers().0, 0);
}

#[test]
fn a_connection_that_ends_with_a_command_in_its_device_ends_when_that_is_over() {
    let mut rig = Rig::new(&Plan { window: 1, ..Plan::default() });
    rig.submit(1, write(DRIVE, 0, 1), Some(vec![1; 512]), 0);
    rig.submit(1, write(DRIVE, 1, 1), Some(vec![1; 512]), 0);
    rig.cut(1, "the host has gone");
    assert_eq!(rig.ended(1), None, "a write may not reach a device after its queue is gone");
    assert!(!rig.peers[1].shut_down, "nor after the end of its stream");
    assert_eq!(rig.core.inventory().ordered, 0, "what waited goes nowhere");
    assert!(rig.end_oldest() && !rig.end_oldest());
    assert_eq!(rig.ended(1), Some("the host has gone"));
    assert_eq!(rig.core.inventory().connections, 1);
}

#[test]
fn commands_that_wait_for_a_device_that_goes_are_told_so() {
    let mut rig = Rig::new(&Plan { window: 1, ..Plan::default() });
    let first = rig.submit(1, read(DRIVE, 0, 1), None, 512);
    let waits = rig.submit(1, read(DRIVE, 1, 1), None, 512);
    rig.lose_drive();
    assert!(!rig.answer(1, waits).expect("an answer").is_success());
    assert_eq!(rig.answer(1, first), None, "it is in the device");
    rig.end_oldest();
    assert_eq!(rig.answer(1, first), Some(Status::SUCCESS));
    assert!(!rig.call(1, read(DRIVE, 0, 1), None, 512).0.is_success());
    assert_eq!(rig.core.inventory().commands, 0);
}

#[test]
fn who_sends_data_that_it_owes_little_by_little_is_disconnected() {
    let mut rig = Rig::new(&Plan::default());
    rig.queue(1, write(DRIVE, 0, 128), Some(vec![3; 64 << 10]), 0);
    rig.run_until_asked(1);
    let bytes = rig.bytes_of(1);
    for piece in bytes.chunks(1000).take(40) {
        rig.peers[1].up().extend(piece);
        rig.pass(1000 * MS);
    }
    assert_eq!(rig.ended(1), Some("it sends data that it owes at less than 64 KiB a second"));
    assert_eq!((rig.core.buffers().0, rig.states()), (0, vec![]));
}

#[test]
fn data_that_comes_when_its_device_has_gone_is_written_nowhere() {
    let mut rig = Rig::new(&Plan::default());
    let cid = rig.owe_data(1);
    rig.lose_drive();
    rig.peers[1].sends = true;
    rig.run();
    assert!(!rig.end_oldest(), "the device is given nothing");
    assert!(rig.answer(1, cid).is_some_and(|status| !status.is_success()));
    let held = rig.core.inventory();
    assert_eq!((held.buffer_bytes, held.granted_bytes, held.commands), (0, 0, 0));
}
