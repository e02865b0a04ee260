//! Commands that arrive: the namespaces that they find, the path of their data, and the reports of failed ones.

use std::collections::VecDeque;

use fabric::controller::{BackendId, CloseReason};
use fabric::nvm::BlockFormat;
use fabric::nvme::Status;

use super::rig::{BLOCKS, DRIVE, MEMORY, MS, NQN, Plan, Rig, io, read};
use crate::testing::wire::Carrier;
use crate::testing::{Seen, namespace};

#[test]
fn a_namespace_that_comes_later_is_found_and_one_that_goes_is_not() {
    let mut rig = Rig::new(&Plan::default());
    assert_eq!(rig.call(1, read(3, 0, 1), None, 512).0, Status::INVALID_NAMESPACE.dnr().more());
    let disk = rig.disk(MEMORY);
    rig.shared.disks.borrow_mut().insert(BackendId(3), disk);
    let namespace = namespace(3, BlockFormat::BYTES_512, BLOCKS);
    rig.serve(|now, service| service.add_namespace(now, NQN, namespace).unwrap());
    assert_eq!(rig.call(1, read(3, 0, 1), None, 512).0, Status::SUCCESS);
    rig.serve(|now, service| service.remove_namespace(now, NQN, 3).unwrap());
    assert_eq!(rig.call(1, read(3, 0, 1), None, 512).0, Status::INVALID_NAMESPACE.dnr().more());
}

#[test]
fn what_is_written_is_what_is_read_by_any_way_of_the_data() {
    for carrier in [Carrier::Tcp, Carrier::Rdma] {
        let mut rig = Rig::new(&Plan { carrier, ..Plan::default() });
        for nsid in [MEMORY, DRIVE] {
            // In a capsule; by an R2T, or a READ; by an R2T straight into the buffer, or by four READs.
            for (turn, blocks) in [(1, 1), (2, 16), (3, 128)] {
                let data: Vec<u8> = (0..251).map(|n| n ^ turn).cycle().take(blocks * 512).collect();
                let read = rig.write_and_read(nsid, 500, &data);
                assert!(read == data, "{carrier:?}, namespace {nsid}, {blocks} blocks");
            }
        }
        assert_eq!(rig.states(), []);
    }
}

/// Returns the time in ns that a command waits far from the drive's head, which has enough to do
/// where it is; after ten containers of nine commands, each ended by an Output Mark or not.
fn wait_of_a_container(marks: bool) -> u64 {
    let far = || read(DRIVE, BLOCKS - 1, 1);
    let mut rig = Rig::new(&Plan::default());
    rig.order_by_place(100 * MS);
    let beside = rig.add_host();
    for round in 0..90 {
        rig.submit(1, far(), None, 512);
        rig.end_after(5 * MS);
        rig.pass(100 * MS);
        if marks && round % 9 == 8 {
            for nsid in [MEMORY, DRIVE] {
                assert_eq!(rig.call(1, io(0xc0, nsid, 0, 1), None, 0).0, Status::SUCCESS);
            }
        }
    }
    let mut place = 0;
    let mut near = |rig: &mut Rig| {
        place += 8;
        rig.submit(beside, read(DRIVE, place, 1), None, 512)
    };
    let mut waiting: VecDeque<u16> = (0..4).map(|_| near(&mut rig)).collect();
    let (sent, waits) = (rig.now, rig.submit(1, far(), None, 512));
    while rig.answer(1, waits).is_none() {
        assert!(rig.now.since(sent).as_secs() < 60, "it is never served");
        rig.end_after(5 * MS);
        while waiting.front().is_some_and(|cid| rig.answer(beside, *cid).is_some()) {
            waiting.pop_front();
            waiting.push_back(near(&mut rig));
        }
    }
    rig.now.ns_since(sent)
}

#[test]
fn an_output_mark_ends_a_container() {
    let (with, without) = (wait_of_a_container(true), wait_of_a_container(false));
    assert!(with > 2 * without, "{with} ns and {without} ns without marks");
}

#[test]
fn large_data_goes_straight_into_its_buffer_and_small_data_does_not() {
    for (bytes, straight) in [(64 << 10, true), (8 << 10, false)] {
        let mut rig = Rig::new(&Plan::default());
        for n in 0..8 {
            let data: Vec<u8> = (0..=250).cycle().skip(n).take(bytes).collect();
            assert_eq!(rig.write_and_read(DRIVE, 0, &data), data);
        }
        if straight {
            // Except for the part that arrives in one chunk with the head.
            assert!(rig.placed > 8 * bytes / 2, "{} of {}", rig.placed, 8 * bytes);
        } else {
            assert_eq!(rig.placed, 0);
        }
    }
}

#[test]
fn a_host_that_is_silent_for_too_long_is_told_of_once_by_its_admin_queue() {
    let mut rig = Rig::new(&Plan::default());
    // Its last commands count as a sign of life until the service has looked once more.
    for _ in 0..3 {
        rig.pass(130_000 * MS);
        rig.serve(|now, service| _ = service.tick(now));
    }
    rig.pass_often(20, 100 * MS);
    assert!(rig.ended(0).is_some() && rig.ended(1).is_some());
    let seen = &rig.core.driver().seen;
    let expired = seen.iter().filter(|(_, seen)| *seen == Seen::KeepAliveExpired).count();
    assert_eq!(expired, 1, "{seen:?}");
}

#[test]
fn a_connection_that_ends_otherwise_is_not_said_to_have_been_silent() {
    let mut rig = Rig::new(&Plan::default());
    rig.serve(|now, service| service.remove_subsystem(now, NQN).unwrap());
    rig.pass_often(20, 100 * MS);
    let reason = CloseReason::SubsystemRemoved.text();
    assert_eq!([0, 1].map(|peer| rig.ended(peer)), [Some(reason); 2]);
    let seen = &rig.core.driver().seen;
    assert!(seen.iter().all(|(_, seen)| *seen != Seen::KeepAliveExpired));
}

#[test]
fn failed_commands_are_in_their_controllers_log_no_more_than_some_in_a_second() {
    let mut rig = Rig::new(&Plan::default());
    // Error Information: the count of the newest entry.
    let logged = |rig: &mut Rig| u64::from_le_bytes(rig.log_page(1, 64)[..8].try_into().unwrap());
    let fail = |rig: &mut Rig| {
        let (status, _) = rig.call(1, read(MEMORY, BLOCKS, 1), None, 512);
        assert!(!status.is_success());
        // M, More: there is an entry in the log.
        status.bits() & 0x2000 != 0
    };
    assert!(fail(&mut rig));
    assert_eq!(logged(&mut rig), 1);
    let more = (0..500).filter(|_| fail(&mut rig)).count() as u64;
    assert!((1..400).contains(&more), "{more} of 500 in no time");
    assert_eq!(logged(&mut rig), 1 + more);
    rig.pass(900 * MS);
    assert!(!fail(&mut rig), "the second is not over");
    rig.pass(200 * MS);
    let again = (0..500).filter(|_| fail(&mut rig)).count() as u64;
    assert_eq!(again, 1 + more, "as many in the next second");
}
