//! Commands that are carried out slice by slice: others go between their slices, and they can be
//! given up there.

use fabric::host::commands::deallocate;
use fabric::nvm::{IoCommand, LbaRange};
use fabric::nvme::{Sqe, Status, opcode};
use zerocopy::little_endian::U32;

use super::rig::{BLOCKS, DRIVE, MEMORY, Plan, Rig, abort, io, read, without_more, write};

/// Blocks of a slice at a drive, in the rig: 1 MiB.
const SLICE: u32 = 2048;

fn zeroes(nsid: u32, blocks: u32) -> Sqe {
    // FUA, CDW12 bit 30.
    let sqe = io(opcode::io::WRITE_ZEROES, nsid, 0, blocks);
    Sqe { cdw12: U32::new(sqe.cdw12.get() | 1 << 30), ..sqe }
}

/// Returns the blocks of the commands in the drive.
fn in_drive(rig: &mut Rig) -> Vec<LbaRange> {
    let range = |command: &IoCommand| match command {
        IoCommand::WriteZeroes { range, fua: true, .. }
        | IoCommand::Verify { range }
        | IoCommand::Deallocate { range }
        | IoCommand::Read { range, .. } => Some(*range),
        _ => None,
    };
    rig.core.driver().jobs.iter().filter_map(|job| range(&job.command)).collect()
}

/// Ends the slices of a command that is in the drive: four of `slice` blocks, from this block on, and one
/// of one block. Between any two a read of another queue goes.
fn end_slices(rig: &mut Rig, large: u16, from: u64, slice: u32) {
    let other = rig.connect_queue(2);
    let mut slices = 0;
    while rig.answer(1, large).is_none() {
        let lba = from + u64::from(slices * slice);
        let blocks = if slices < 4 { slice } else { 1 };
        assert_eq!(in_drive(rig), [LbaRange { lba, blocks }], "the next slice, and it alone");
        let cid = rig.submit(other, read(DRIVE, 5, 1), None, 512);
        // The slice ends, and a command that waited before the next slice asked goes first.
        rig.end_oldest();
        assert_eq!(in_drive(rig), [LbaRange { lba: 5, blocks: 1 }]);
        rig.end_oldest();
        assert_eq!(rig.answer(other, cid), Some(Status::SUCCESS));
        slices += 1;
    }
    assert_eq!((slices, rig.answer(1, large)), (5, Some(Status::SUCCESS)));
    assert_eq!(rig.states(), []);
    let told = rig.stats(1);
    assert_eq!((told.other.ops, told.queueing.count()), (1, 1), "it is one command");
}

#[test]
fn d3_large_write_zeroes_and_verify_let_others_go_between_their_slices() {
    for opcode in [opcode::io::WRITE_ZEROES, opcode::io::VERIFY] {
        let mut rig = Rig::new(&Plan { window: 1, ..Plan::default() });
        let large = rig.submit(1, Sqe { opcode, ..zeroes(DRIVE, 4 * SLICE + 1) }, None, 0);
        end_slices(&mut rig, large, 0, SLICE);
    }
}

/// Reads by queue `other` until command `large` of queue 1 is answered; counts the reads.
fn reads_until_answered(rig: &mut Rig, other: usize, large: u16) -> u32 {
    let mut reads = 0;
    while rig.answer(1, large).is_none() {
        let cid = rig.queue(other, read(MEMORY, 5, 1), None, 512);
        while rig.answer(other, cid).is_none() {
            assert!(rig.turn());
        }
        reads += 1;
    }
    reads
}

/// Returns the first blocks of the ranges in the drive, in ascending order.
fn lbas_in_drive(rig: &mut Rig) -> Vec<u64> {
    let mut lbas: Vec<u64> = in_drive(rig).iter().map(|range| range.lba).collect();
    lbas.sort_unstable();
    lbas
}

#[test]
fn d3_four_large_commands_progress_at_once() {
    let mut rig = Rig::new(&Plan::default());
    let large: Vec<u16> =
        (0..10).map(|_| rig.submit(1, zeroes(DRIVE, 4 * SLICE), None, 0)).collect();
    // A namespace without large commands in progress is not kept waiting.
    let elsewhere = rig.submit(1, zeroes(MEMORY, 1 << 14), None, 0);
    assert_eq!(rig.answer(1, elsewhere), Some(Status::SUCCESS));
    for ended in 0..=large.len() {
        let answered = large.iter().filter(|cid| rig.answer(1, **cid).is_some());
        let answered: Vec<u16> = answered.copied().collect();
        assert_eq!(answered, large[..ended]);
        let at_once = (large.len() - ended).min(4);
        assert_eq!(in_drive(&mut rig).len(), at_once, "after {ended} commands");
        while large.get(ended).is_some_and(|cid| rig.answer(1, *cid).is_none()) {
            assert!(rig.end_oldest());
        }
    }
    assert_eq!(rig.states(), []);
}

#[test]
fn next_large_command_replaces_aborted_one() {
    let mut rig = Rig::new(&Plan { window: 1, ..Plan::default() });
    let large: Vec<u16> =
        (0..6).map(|_| rig.submit(1, zeroes(DRIVE, 2 * SLICE), None, 0)).collect();
    assert_eq!(rig.states(), [("slicing", 2), ("slice_turn", 3), ("slice_in_device", 1)]);
    // Three wait for their turn, the fifth has not begun, and the first has a slice in the drive.
    [1, 2, 3, 4, 0].into_iter().for_each(|at| _ = rig.submit(0, abort(1, large[at]), None, 0));
    rig.end_oldest();
    assert!(large[..5].iter().all(|cid| rig.answer(1, *cid) == Some(Status::ABORT_REQUESTED)));
    assert_eq!(lbas_in_drive(&mut rig), [0]);
    rig.end_oldest();
    assert_eq!(lbas_in_drive(&mut rig), [u64::from(SLICE)]);
    rig.end_oldest();
    assert_eq!(rig.answer(1, large[5]), Some(Status::SUCCESS));
    assert_eq!(rig.states(), []);
}

#[test]
fn large_commands_outlive_aborted_ones() {
    let mut rig = Rig::new(&Plan { window: 1, ..Plan::default() });
    let other = rig.connect_queue(2);
    rig.submit(other, read(DRIVE, 5, 1), None, 512);
    let large: Vec<u16> =
        (0..6).map(|_| rig.submit(1, zeroes(DRIVE, 2 * SLICE), None, 0)).collect();
    assert_eq!(rig.states(), [("in_device", 1), ("slicing", 2), ("slice_turn", 4)]);
    large[..4].iter().for_each(|cid| _ = rig.submit(0, abort(1, *cid), None, 0));
    while rig.end_oldest() {}
    assert_eq!(rig.answer(1, large[4]), Some(Status::SUCCESS));
    assert_eq!(rig.answer(1, large[5]), Some(Status::SUCCESS));
    assert_eq!(rig.states(), []);
}

#[test]
fn large_commands_of_lost_drive_are_answered() {
    let mut rig = Rig::new(&Plan { window: 1, ..Plan::default() });
    let large: Vec<u16> =
        (0..9).map(|_| rig.submit(1, zeroes(DRIVE, 2 * SLICE), None, 0)).collect();
    rig.lose_drive();
    rig.end_oldest();
    assert!(large.iter().all(|cid| rig.answer(1, *cid).is_some()));
    assert_eq!(rig.states(), []);
}

#[test]
fn large_commands_to_memory_interleave_with_others() {
    let all = u32::try_from(BLOCKS).unwrap() - 1;
    let (sqe, ranges) = deallocate(MEMORY, 0, all);
    for (case, stages, slice, (sqe, data), blocks, least) in [
        // With turns, and without; 512 KiB in slices of 4 KiB.
        ("Write Zeroes", true, 1 << 10, (zeroes(MEMORY, 1 << 10), None), 1 << 10, 9),
        ("Write Zeroes", false, 1 << 10, (zeroes(MEMORY, 1 << 10), None), 1 << 10, 9),
        // 64 MiB in slices of 4 MiB.
        ("deallocation", true, 1 << 20, (sqe, Some(ranges)), all, 5),
    ] {
        let mut rig = Rig::new(&Plan { stages, slice, ..Plan::default() });
        let other = rig.connect_queue(2);
        let lbas = [0, u64::from(blocks) - 1, blocks.into()];
        for lba in lbas {
            assert!(rig.call(1, write(MEMORY, lba, 1), Some(vec![9; 512]), 0).0.is_success());
        }
        let large = rig.queue(1, sqe, data, 0);
        let between = reads_until_answered(&mut rig, other, large);
        assert!(between >= least, "{case}: {between} reads went between slices");
        let content = lbas.map(|lba| rig.content(1, MEMORY, lba, 1));
        assert_eq!(content, [0, 0, 9].map(|byte| vec![byte; 512]), "{case}");
        assert_eq!(rig.states(), []);
    }
}

#[test]
fn commands_of_any_size_are_carried_out() {
    let mut rig = Rig::new(&Plan::default());
    // WZSL and VSL are 1 MiB, and recommendations: hosts that do not know them send 65536 blocks.
    for opcode in [opcode::io::WRITE_ZEROES, opcode::io::VERIFY] {
        for (nsid, slices) in [(MEMORY, 0), (DRIVE, 32)] {
            let large = rig.submit(1, Sqe { opcode, ..zeroes(nsid, 1 << 16) }, None, 0);
            let in_drive = std::iter::from_fn(|| rig.end_oldest().then_some(())).count();
            assert_eq!(in_drive, slices);
            assert_eq!(rig.answer(1, large), Some(Status::SUCCESS));
        }
    }
}

/// Aborts a command of several slices of which one is in the drive.
fn abort_between_slices(rig: &mut Rig, sqe: Sqe, data: Option<Vec<u8>>) {
    let large = rig.submit(1, sqe, data, 0);
    let aborts: Vec<_> = (0..2).map(|_| rig.submit(0, abort(1, large), None, 0)).collect();
    assert_eq!(rig.states(), [("deferred", 2), ("slice_in_device", 1)]);
    assert_eq!(rig.answer(0, aborts[0]), None, "a slice is in the drive");
    rig.end_oldest();
    assert_eq!(rig.answer(1, large), Some(Status::ABORT_REQUESTED));
    assert!(aborts.iter().all(|cid| rig.result(0, *cid) == Some(0)), "it was aborted");
    assert!(!rig.end_oldest(), "no slice follows");
    assert_eq!((rig.states(), rig.core.buffers().0), (vec![], 0));
    let after = rig.submit(1, zeroes(DRIVE, 1), None, 0);
    rig.end_oldest();
    assert_eq!(rig.answer(1, after), Some(Status::SUCCESS), "the queue goes on");
}

#[test]
fn a_command_is_aborted_between_its_slices() {
    let mut rig = Rig::new(&Plan { window: 1, ..Plan::default() });
    abort_between_slices(&mut rig, zeroes(DRIVE, 4 * SLICE), None);
}

#[test]
fn a_command_whose_slice_waits_for_its_turn_is_aborted_at_once() {
    let mut rig = Rig::new(&Plan { window: 1, ..Plan::default() });
    rig.submit(1, read(DRIVE, 0, 1), None, 512);
    let large = rig.submit(1, zeroes(DRIVE, 4 * SLICE), None, 0);
    assert_eq!(rig.states(), [("in_device", 1), ("slice_turn", 1)]);
    let cid = rig.submit(0, abort(1, large), None, 0);
    assert_eq!(rig.result(0, cid), Some(0));
    assert_eq!(rig.answer(1, large), Some(Status::ABORT_REQUESTED));
    assert!(rig.end_oldest() && !rig.end_oldest(), "no slice follows");
}

#[test]
fn an_abort_during_the_last_slice_comes_too_late() {
    let mut rig = Rig::new(&Plan::default());
    let large = rig.submit(1, zeroes(DRIVE, SLICE + 1), None, 0);
    rig.end_oldest();
    let cid = rig.submit(0, abort(1, large), None, 0);
    rig.end_oldest();
    assert_eq!(rig.answer(1, large), Some(Status::SUCCESS));
    assert_eq!(rig.result(0, cid), Some(1), "it was not aborted");
}

#[test]
fn a_slice_that_fails_is_the_last() {
    for nsid in [MEMORY, DRIVE] {
        let mut rig = Rig::new(&Plan { slice: 1 << 10, ..Plan::default() });
        rig.disk(nsid).content.fails.set(Some(Status::WRITE_FAULT));
        let large = rig.submit(1, zeroes(nsid, SLICE), None, 0);
        rig.end_oldest();
        let status = rig.answer(1, large).map(without_more);
        assert_eq!(status, Some(Status::WRITE_FAULT));
        assert!(!rig.end_oldest(), "no slice follows");
        assert_eq!(rig.states(), []);
    }
}

#[test]
fn no_slice_follows_when_the_connection_ends() {
    let mut rig = Rig::new(&Plan::default());
    rig.submit(1, zeroes(DRIVE, 4 * SLICE), None, 0);
    rig.cut(1, "the host has gone");
    assert_eq!(rig.ended(1), None, "a slice is in the drive");
    assert!(rig.end_oldest() && !rig.end_oldest(), "no slice follows");
    assert_eq!(rig.ended(1), Some("the host has gone"));
    assert_eq!(rig.states(), []);
}

#[test]
fn a_large_deallocation_ends_with_its_connection() {
    let mut rig = Rig::new(&Plan::default());
    let (sqe, ranges) = deallocate(MEMORY, 0, u32::try_from(BLOCKS).unwrap());
    rig.queue(1, sqe, Some(ranges), 0);
    rig.turn();
    rig.cut(1, "the host has gone");
    assert_eq!(rig.ended(1), Some("the host has gone"));
    assert_eq!((rig.states(), rig.core.buffers().0), (vec![], 0));
}

/// Blocks of a slice that a drive deallocates, in a rig with slices of 1 KiB: 64 KiB.
const HOLE: u32 = 128;

#[test]
fn a_drive_deallocates_in_slices_and_others_go_between() {
    let mut rig = Rig::new(&Plan { window: 1, slice: 1 << 10, ..Plan::default() });
    let (sqe, ranges) = deallocate(DRIVE, 7, 4 * HOLE + 1);
    let large = rig.submit(1, sqe, Some(ranges), 0);
    assert_eq!(rig.core.buffers().0, 0, "what the host has sent is given back");
    end_slices(&mut rig, large, 7, HOLE);
}

#[test]
fn a_drives_deallocation_is_aborted_between_its_slices() {
    let mut rig = Rig::new(&Plan { window: 1, slice: 1 << 10, ..Plan::default() });
    let (sqe, ranges) = deallocate(DRIVE, 0, 4 * HOLE);
    abort_between_slices(&mut rig, sqe, Some(ranges));
}
