//! Aborts: a host gives a command up, wherever it waits.

use fabric::nvme::Status;

use super::rig::{DRIVE, Plan, Rig, read, write};

/// Puts a command into the drive, whose window holds one, so that others wait.
fn busy() -> (Rig, u16) {
    let mut rig = Rig::new(&Plan { window: 1, ..Plan::default() });
    let first = rig.submit(1, read(DRIVE, 0, 1), None, 512);
    (rig, first)
}

#[test]
fn a_command_that_waits_for_its_device_is_aborted_and_never_reaches_it() {
    let (mut rig, first) = busy();
    let waits = rig.submit(1, write(DRIVE, 8, 1), Some(vec![7; 512]), 0);
    assert_eq!(rig.states(), [("device_turn", 1), ("in_device", 1)]);
    assert!(rig.abort(0, 1, waits));
    assert_eq!(rig.answer(1, waits), Some(Status::ABORT_REQUESTED));
    assert!(rig.end_oldest() && !rig.end_oldest(), "nothing but the first goes to the drive");
    assert_eq!(rig.answer(1, first), Some(Status::SUCCESS));
    assert_eq!((rig.states(), rig.core.buffers().0), (vec![], 0));
}

#[test]
fn a_command_in_its_device_is_not_aborted() {
    let (mut rig, first) = busy();
    assert!(!rig.abort(0, 1, first));
    assert_eq!(rig.answer(1, first), None);
    rig.end_oldest();
    assert_eq!(rig.answer(1, first), Some(Status::SUCCESS));
    assert!(!rig.abort(0, 1, first), "it was answered before");
}

#[test]
fn a_write_whose_data_is_on_its_way_is_aborted_and_what_comes_is_let_pass() {
    let mut rig = Rig::new(&Plan::default());
    let cid = rig.owe_data(1);
    assert_eq!(rig.states(), [("filling", 1)]);
    assert!(rig.core.buffers().0 > 0);
    assert!(rig.abort(0, 1, cid));
    assert_eq!(rig.core.buffers().0, 0, "its buffer is free at once");
    assert_eq!(rig.answer(1, cid), None, "its identifier is in use until its data has come");
    rig.peers[1].sends = true;
    rig.run();
    assert_eq!(rig.answer(1, cid), Some(Status::ABORT_REQUESTED));
    assert_eq!((rig.states(), rig.core.buffers().0), (vec![], 0));
    assert!(!rig.end_oldest(), "nothing was written");
    assert!(rig.ended(1).is_none());
    let after = rig.submit(1, write(DRIVE, 0, 1), Some(vec![1; 512]), 0);
    rig.end_oldest();
    assert_eq!(rig.answer(1, after), Some(Status::SUCCESS), "the queue goes on");
}

#[test]
fn a_write_that_waits_for_memory_is_aborted_and_takes_none() {
    let mut rig = Rig::new(&Plan { memory: 128 << 10, ..Plan::default() });
    // Three quarters of the memory are for data from hosts: one write of 64 KiB has its turn.
    let other = rig.connect_queue(2);
    let held = rig.queue(1, write(DRIVE, 0, 128), Some(vec![3; 64 << 10]), 0);
    rig.run_until_asked(1);
    let waits = rig.submit(other, write(DRIVE, 200, 128), Some(vec![4; 64 << 10]), 0);
    let waiting = rig.states();
    assert!(waiting.iter().any(|(state, _)| ["memory_turn", "data_buffer"].contains(state)));
    assert!(rig.abort(0, 2, waits));
    assert_eq!(rig.answer(other, waits), Some(Status::ABORT_REQUESTED));
    rig.peers[1].sends = true;
    rig.run();
    while rig.end_oldest() {}
    assert_eq!(rig.answer(1, held), Some(Status::SUCCESS));
    assert_eq!((rig.states(), rig.core.buffers().0), (vec![], 0));
}
