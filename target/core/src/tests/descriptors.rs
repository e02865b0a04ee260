//! Descriptors of commands' data: a command whose descriptor is not one of NVMe/TCP is refused.

use fabric::host::commands;
use fabric::nvme::{Sqe, Status, opcode};
use zerocopy::little_endian::U32;

use super::rig::{MEMORY, NQN, Plan, Rig, read, without_more, write};

/// Offsets of fields in a capsule's PDU: its header has 8 bytes.
const FLAGS: usize = 8 + 1;
const ADDRESS: usize = 8 + 24;
const KIND: usize = 8 + 39;

/// Wrong descriptions of a command's data, and the status of each.
const WRONG: [(usize, u8, Status); 6] = [
    // PSDT, bits 7:6 of the flags: PRPs, an SGL of metadata, reserved.
    (FLAGS, 0x00, Status::INVALID_FIELD),
    (FLAGS, 0x80, Status::INVALID_FIELD),
    (FLAGS, 0xc0, Status::INVALID_FIELD),
    // A keyed data block, which is memory for RDMA; a last segment.
    (KIND, 0x40, Status::SGL_TYPE_INVALID),
    (KIND, 0x30, Status::SGL_TYPE_INVALID),
    // An offset into the capsule, which has its data at its start.
    (ADDRESS, 16, Status::SGL_OFFSET_INVALID),
];

/// Submits a command with a byte of its PDU changed. Returns its status, without M.
fn with(
    rig: &mut Rig,
    peer: usize,
    (sqe, data, reads): (Sqe, Option<Vec<u8>>, u32),
    (at, byte): (usize, u8),
) -> Status {
    let cid = rig.queue(peer, sqe, data, reads);
    rig.take_from_host(peer);
    rig.peers[peer].up()[at] = byte;
    rig.run();
    without_more(rig.answer(peer, cid).expect("an answer"))
}

#[test]
fn connect_is_refused_where_its_data_is_not_described_as_in_capsule_data_of_tcp() {
    for (at, byte, refused) in WRONG {
        let mut rig = Rig::new(&Plan::default());
        let peer = rig.accept_silent();
        let data = commands::connect_data([9; 16], 0xffff, NQN, "nqn.2026-01.io:other");
        let connect = commands::connect(0, 31, 0, None);
        let status = with(&mut rig, peer, (connect, Some(data), 0), (at, byte));
        assert_eq!(status, refused.dnr(), "{at} {byte:#x}");
    }
}

#[test]
fn admin_commands_and_io_are_refused_where_their_data_is_described_otherwise() {
    let mut rig = Rig::new(&Plan::default());
    let (behavior, _) = commands::honour_retry_delays();
    for (at, byte, refused) in WRONG {
        let brings = (behavior, Some(vec![0; 512]), 0);
        assert_eq!(with(&mut rig, 0, brings, (at, byte)), refused.dnr(), "{at} {byte:#x}");
        let brings = (write(MEMORY, 0, 1), Some(vec![1; 512]), 0);
        assert_eq!(with(&mut rig, 1, brings, (at, byte)), refused.dnr(), "{at} {byte:#x}");
        if at != ADDRESS {
            let reads = (commands::identify(1, 0), None, 4096);
            assert_eq!(with(&mut rig, 0, reads, (at, byte)), refused.dnr(), "{at} {byte:#x}");
            let reads = (read(MEMORY, 0, 1), None, 512);
            assert_eq!(with(&mut rig, 1, reads, (at, byte)), refused.dnr(), "{at} {byte:#x}");
        }
    }
    assert!(rig.call(0, behavior, Some(vec![0; 512]), 0).0.is_success(), "as it should be");
    assert!(rig.call(0, commands::identify(1, 0), None, 4096).0.is_success());
}

#[test]
fn a_command_without_data_needs_no_descriptor() {
    let mut rig = Rig::new(&Plan::default());
    let flush = Sqe { opcode: opcode::io::FLUSH, nsid: U32::new(MEMORY), ..Sqe::default() };
    let status = with(&mut rig, 1, (flush, None, 0), (FLAGS, 0));
    assert_eq!(status, Status::SUCCESS);
    assert_eq!(with(&mut rig, 0, (commands::keep_alive(), None, 0), (KIND, 0)), Status::SUCCESS);
}
