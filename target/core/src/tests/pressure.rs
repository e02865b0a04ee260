//! More comes than there is room for.

use arbitration::Class;
use arbitration::overload::RetryDelays;
use fabric::nvme::{Status, opcode};

use super::rig::{BLOCKS, DRIVE, MEMORY, MS, Plan, Rig, io, kind, read, retry_delay, write};

/// Makes a reactor with a session of which four commands may wait, one of them in the drive.
fn small(delays: [u16; 3]) -> Rig {
    let retry_delays = RetryDelays::new(delays).unwrap();
    Rig::new(&Plan { queue: 4, window: 1, retry_delays, ..Plan::default() })
}

/// Submits reads of these blocks; their identifiers.
fn flood(rig: &mut Rig, blocks: impl IntoIterator<Item = u64>) -> Vec<(u16, u64)> {
    let submit = |lba| (rig.queue(1, read(DRIVE, lba, 1), None, 512), lba);
    let submitted = blocks.into_iter().map(submit).collect();
    rig.run();
    submitted
}

#[test]
fn a_host_whose_session_is_full_is_not_read_from_until_there_is_room() {
    let mut rig = small([1, 50, 300]);
    let reads = flood(&mut rig, 0..50);
    assert_eq!(rig.states(), [("device_turn", 4), ("in_device", 1)]);
    assert!(rig.core.inventory().unread_bytes > 0);
    rig.pass(10_000 * MS);
    assert_eq!(rig.core.inventory().commands, 5, "it does not understand delays, and waits");
    while rig.end_oldest() {
        assert!(rig.core.inventory().ordered <= 4);
    }
    assert!(reads.iter().all(|(cid, _)| rig.answer(1, *cid) == Some(Status::SUCCESS)));
    assert_eq!(rig.core.inventory().unread_bytes, 0);
}

#[test]
fn a_host_that_understands_is_told_when_to_retry_and_not_twice() {
    let mut rig = small([1, 50, 300]);
    rig.honour_delays(0);
    // One in 200 ms: waiting commands have most of a second before them.
    let mut reads = flood(&mut rig, 0..8);
    (0..3).for_each(|_| _ = rig.end_after(200 * MS));
    rig.pass(200 * MS);
    reads.extend(flood(&mut rig, 8..11));
    let failed = |rig: &Rig, cid| rig.answer(1, cid).filter(|status| !status.is_success());
    reads.retain(|(cid, _)| failed(&rig, *cid).is_some());
    assert!(!reads.is_empty(), "{:?}", rig.states());
    for (cid, _) in &reads {
        let status = rig.answer(1, *cid).unwrap();
        // One of the delays that Identify names.
        assert_eq!(kind(status), Status::COMMAND_INTERRUPTED);
        assert!(!status.is_dnr() && retry_delay(status) > 0, "{status}");
    }
    assert_eq!(rig.core.driver().classes[Class::Low].refused(), reads.len() as u64);
    let again = flood(&mut rig, reads.into_iter().map(|(_, lba)| lba));
    assert!(again.iter().all(|(cid, _)| failed(&rig, *cid).is_none()), "none is refused twice");
    while rig.end_oldest() {}
    assert!(again.iter().all(|(cid, _)| rig.answer(1, *cid) == Some(Status::SUCCESS)));
}

/// Linux fails a command that is sent back for a sixth time (`nvme_core.max_retries`).
#[test]
fn d1_command_is_sent_back_five_times_at_most() {
    let mut rig = small([1, 50, 300]);
    rig.honour_delays(0);
    flood(&mut rig, [99]);
    let wait = |rig: &mut Rig| {
        let [(cid, _)] = flood(rig, [7])[..] else { unreachable!() };
        rig.pass_often(22, 500 * MS);
        (cid, rig.answer(1, cid).map(kind))
    };
    for round in 0..2 {
        for time in 0..5 {
            let answer = wait(&mut rig).1;
            assert_eq!(answer, Some(Status::COMMAND_INTERRUPTED), "{time} of {round}");
        }
        let (last, answer) = wait(&mut rig);
        assert_eq!(answer, None, "its last try waits for the device");
        rig.end_oldest();
        flood(&mut rig, [99 + round]);
        rig.end_oldest();
        assert_eq!(rig.answer(1, last), Some(Status::SUCCESS));
    }
}

/// Answers to slow hosts may hold the memory that a device needs beside the data of a command.
#[test]
fn d1_commands_whose_device_has_no_memory_are_sent_back() {
    let mut rig = Rig::new(&Plan::default());
    rig.honour_delays(0);
    rig.core.driver().short_of_memory = 1;
    let reads = flood(&mut rig, 0..3);
    rig.pass_often(18, 500 * MS);
    assert!(reads.iter().all(|(cid, _)| rig.answer(1, *cid).is_none()), "in 9 s");
    rig.pass_often(4, 500 * MS);
    let answer = |rig: &Rig, at: usize| rig.answer(1, reads[at].0).map(kind);
    assert_eq!(answer(&rig, 0), None, "it is in its device");
    for at in [1, 2] {
        assert_eq!(answer(&rig, at), Some(Status::COMMAND_INTERRUPTED));
    }
    assert!(rig.end_oldest());
    assert_eq!(rig.states(), []);
    assert_eq!(rig.core.buffers().0, 0);
    let again = flood(&mut rig, 1..3);
    while rig.end_oldest() {}
    assert!(again.iter().all(|(cid, _)| rig.answer(1, *cid) == Some(Status::SUCCESS)));
}

#[test]
fn d1_slices_whose_device_has_no_memory_are_sent_back() {
    let mut rig = Rig::new(&Plan::default());
    rig.honour_delays(0);
    let (read, _) = flood(&mut rig, 0..1)[0];
    rig.core.driver().short_of_memory = 1;
    let zeroes = io(opcode::io::WRITE_ZEROES, DRIVE, 0, 1 << 16);
    let cid = rig.submit(1, zeroes, None, 0);
    assert_eq!(rig.states(), [("in_device", 1), ("slice_in_device", 1)]);
    rig.pass_often(39, 500 * MS);
    assert_eq!(rig.answer(1, cid), None, "in 19.5 s");
    rig.pass_often(2, 500 * MS);
    assert_eq!(rig.answer(1, cid).map(kind), Some(Status::COMMAND_INTERRUPTED));
    assert!(rig.end_oldest());
    assert_eq!((rig.answer(1, read), rig.states()), (Some(Status::SUCCESS), vec![]));
    let cid = rig.submit(1, zeroes, None, 0);
    while rig.end_oldest() {}
    assert_eq!(rig.answer(1, cid), Some(Status::SUCCESS), "the host sends it again");
}

#[test]
fn d5_the_delay_that_reaches_the_host_is_as_long_as_the_wait_that_was_measured() {
    let (standard, long, short) = ([1, 50, 300], [10, 20, 30], [1, 1, 2]);
    // Four commands wait; the device ends one of them every `gap` ms.
    for (delays, gap, crd) in
        [(standard, 100, 1), (standard, 2000, 2), (long, 200, 1), (long, 600, 2), (short, 100, 3)]
    {
        let mut rig = small(delays);
        rig.honour_delays(0);
        let mut reads = flood(&mut rig, 0..11);
        (0..3).for_each(|_| _ = rig.end_after(gap * MS));
        // For a tenth of a second the host is only held back.
        rig.pass(101 * MS);
        reads.extend(flood(&mut rig, 11..14));
        let refused = reads.iter().filter_map(|(cid, _)| rig.answer(1, *cid));
        let told = refused.filter(|status| !status.is_success()).last().expect("one is refused");
        assert_eq!(retry_delay(told), crd, "one in {gap} ms: {told:?}");
    }
}

#[test]
fn reads_wait_for_buffers_in_the_order_in_which_they_came() {
    let mut rig = Rig::new(&Plan { memory: 128 << 10, ..Plan::default() });
    // Each takes half of the memory, so that the host has one at a time; it does not read its
    // answers yet.
    rig.peers[1].reads = false;
    let cids = rig.submit_reads(4);
    assert_eq!(rig.states(), [("read_turn", 3)]);
    assert_eq!(rig.core.buffers().0, 64 << 10, "the memory of the first one is held");
    rig.peers[1].reads = true;
    rig.run();
    assert!(rig.succeeded(1, &cids) && rig.peers[1].order.ends_with(&cids));
    assert_eq!(rig.core.buffers().0, 0);
}

#[test]
fn commands_that_need_no_device_are_charged_to_their_sessions_limit() {
    for (case, sqe, data, reads) in [
        ("a mark", io(0xc0, MEMORY, 0, 1), None, 0),
        ("no such namespace", read(77, 0, 1), None, 512),
        ("a read beyond the end", read(MEMORY, BLOCKS, 1), None, 512),
        ("an unknown command", io(0x99, MEMORY, 0, 1), None, 0),
        ("a write beyond the end", write(DRIVE, BLOCKS, 8), Some(vec![0; 4096]), 0),
        ("a read", read(MEMORY, 0, 1), None, 512),
    ] {
        let mut rig = Rig::new(&Plan::default());
        rig.charge_to("limited");
        let before = rig.peers[1].order.len();
        // A second in which the host has 64 commands in the target at any time.
        let mut waiting: Vec<u16> = Vec::new();
        for _ in 0..1000 {
            waiting.extend((waiting.len()..64).map(|_| rig.queue(1, sqe, data.clone(), reads)));
            rig.pass(MS);
            waiting.retain(|cid| rig.answer(1, *cid).is_none());
        }
        let answered = rig.peers[1].order.len() - before;
        // A bucket may hold a part of a second at the start.
        assert!((900..1300).contains(&answered), "{case}: {answered} answers a second");
        // A command that waits for its answer can be aborted, and ends with its connection.
        if let Some(cid) = waiting.pop() {
            assert!(rig.abort(0, 1, cid));
            assert_eq!(rig.answer(1, cid), Some(Status::ABORT_REQUESTED));
        }
        rig.cut(1, "the host has gone");
        assert_eq!((rig.states(), rig.core.buffers().0), (vec![], 0));
    }
}

#[test]
fn a_host_without_room_for_in_capsule_data_goes_on_with_commands_that_bring_none() {
    let mut rig = Rig::new(&Plan::default());
    let other = rig.connect_queue(2);
    // More than a host may have of the memory for such data.
    let mut writes: Vec<u16> =
        (0..8).map(|n| rig.queue(1, write(DRIVE, n * 8, 8), Some(vec![1; 4096]), 0)).collect();
    rig.run();
    assert!(rig.core.inventory().unread_bytes > 0, "the next write is not looked at");
    assert_eq!(rig.call(other, read(MEMORY, 0, 1), None, 512).0, Status::SUCCESS);
    let late = rig.submit(other, write(MEMORY, 0, 1), Some(vec![1; 512]), 0);
    assert_eq!(rig.answer(other, late), None, "it brings data");
    while rig.end_oldest() {}
    writes.retain(|cid| rig.answer(1, *cid) != Some(Status::SUCCESS));
    assert_eq!((writes, rig.answer(other, late)), (vec![], Some(Status::SUCCESS)));
}

#[test]
fn a_host_that_holds_little_is_asked_for_data_before_hosts_that_keep_theirs() {
    let mut rig = Rig::new(&Plan::default());
    // Each host may have a quarter of the memory, and all of them more than there are buffers for.
    rig.add_hosts_that_hold_memory();
    let little = rig.submit(1, write(DRIVE, 0, 16), Some(vec![1; 8 << 10]), 0);
    while rig.end_oldest() {}
    assert_eq!(rig.answer(1, little), Some(Status::SUCCESS), "{:?}", rig.states());
}
