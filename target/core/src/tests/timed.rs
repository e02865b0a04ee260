//! Devices that carry commands out on the spot and complete them later.

use fabric::nvme::{Status, opcode};

use super::rig::{MEMORY, MS, Plan, Rig, io, read, write};

/// A rig whose commands to memory are complete after 5 ms.
fn slow() -> Rig {
    let mut rig = Rig::new(&Plan::default());
    rig.delay_memory(5 * MS);
    rig
}

#[test]
fn commands_to_a_slow_device_are_answered_when_its_time_is_over() {
    let mut rig = slow();
    let first = rig.submit(1, write(MEMORY, 0, 1), Some(vec![7; 512]), 0);
    rig.pass(2 * MS);
    let second = rig.submit(1, read(MEMORY, 0, 1), None, 512);
    assert_eq!(rig.states(), [("in_device", 2)]);
    assert_eq!(rig.core.now(), rig.now);
    assert_eq!(rig.core.idle_until(), Some(rig.now.after(3 * MS)), "it comes back for the first");
    rig.pass(3 * MS - 1);
    assert_eq!(rig.answer(1, first), None);
    rig.pass(1);
    assert_eq!((rig.answer(1, first), rig.answer(1, second)), (Some(Status::SUCCESS), None));
    rig.pass(2 * MS);
    assert_eq!(rig.answer(1, second), Some(Status::SUCCESS));
    assert_eq!(rig.data(1, second), [7; 512]);
    assert_eq!((rig.states(), rig.core.buffers().0), (vec![], 0));
    let seen = rig.stats(1);
    assert!(seen.service.quantile_ns(0.0) >= 5 * MS, "both were in the device for as long");
}

#[test]
fn a_connection_with_a_command_in_a_slow_device_ends_when_that_is_over() {
    let mut rig = slow();
    rig.submit(1, write(MEMORY, 0, 1), Some(vec![7; 512]), 0);
    rig.cut(1, "the host has gone");
    rig.pass(4 * MS);
    assert_eq!((rig.ended(1), rig.peers[1].shut_down), (None, false));
    rig.pass(MS);
    assert_eq!(rig.ended(1), Some("the host has gone"));
    assert_eq!(rig.core.buffers().0, 0);
}

#[test]
fn slices_at_a_slow_device_follow_one_another() {
    let mut rig = Rig::new(&Plan { slice: 4096, ..Plan::default() });
    rig.delay_memory(5 * MS);
    // Ten slices of eight blocks.
    let large = rig.submit(1, io(opcode::io::WRITE_ZEROES, MEMORY, 0, 80), None, 0);
    let mut took = 0;
    while rig.answer(1, large).is_none() {
        assert_eq!(rig.states(), [("slice_in_device", 1)], "after {took} ms");
        rig.pass(MS);
        took += 1;
        assert!(took <= 60, "it never ends");
    }
    assert_eq!((took, rig.answer(1, large)), (50, Some(Status::SUCCESS)));
    rig.cut(1, "the host has gone");
    assert!(rig.ended(1).is_some(), "no slice of it is in the device any more");
}
