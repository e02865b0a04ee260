//! The edges of both roles: the least and the most that may be sent, and the reports about it.

use zerocopy::IntoBytes;
use zerocopy::little_endian::U16;

use super::hostile::pair;
use super::sent;
use super::target::{command, ready, take_command};
use crate::nvme::{SglDescriptor, Sqe, Status};
use crate::queue::{CapsuleData, HostReceived, HostTransport, Received, Transport};
use crate::tcp::pdu::{CapsuleCmd, Digests, Flags, Header, Initialize, PduType};
use crate::tcp::read::read;
use crate::tcp::{HostConnection, HostParams, TargetConnection, TargetParams};

/// Makes a capsule that brings this many bytes of data.
fn capsule(cid: u16, bytes: u32) -> Vec<u8> {
    let mut header = Header::new(PduType::CapsuleCmd, Flags::empty(), 72, 72 + bytes);
    header.hlen = 72;
    let sgl = SglDescriptor::in_capsule(bytes);
    let sqe = Sqe { opcode: 1, cid: U16::new(cid), flags: 0x40, sgl, ..Sqe::default() };
    let mut all = CapsuleCmd { header, sqe }.as_bytes().to_vec();
    all.resize(72 + bytes as usize, 5);
    all
}

#[test]
fn a_target_moves_each_command_in_one_pdu() {
    for (transfer, h2c_data) in [(64 << 10, 128 << 10), (1 << 20, 1 << 20)] {
        let params = TargetParams::for_transfers(transfer);
        let sizes = (params.max_h2c_data, params.max_r2t_data, params.max_c2h_data);
        assert_eq!(sizes, (h2c_data, transfer, transfer));
    }
}

#[test]
fn capsule_with_data_is_recognised_in_advance() {
    let mut connection = ready(TargetParams::default(), false);
    let (with, without) = (capsule(1, 512), command(2));
    assert!(connection.brings_data(&&with[..]));
    assert!(!connection.brings_data(&&without[..]));
    assert!(!connection.brings_data(&&with[..7]), "the header is not here");
    let other = Header::new(PduType::H2cData, Flags::LAST, 24, 24 + 512);
    assert!(!connection.brings_data(&other.as_bytes()), "it is no command");
    assert!(!connection.in_data());
    // The first bytes of the header came before.
    let mut input = &with[..5];
    assert!(matches!(connection.next(&mut input), Ok(None)));
    assert!(connection.brings_data(&&with[5..]));
    let mut input = &with[5..300];
    let Ok(Some(Received::Command { data, .. })) = connection.next(&mut input) else { panic!() };
    assert!(matches!(data, CapsuleData::Partial { length: 512 }), "{data:?}");
    while let Ok(Some(_)) = connection.next(&mut input) {}
    assert!(connection.in_data());
    assert!(!connection.brings_data(&&with[..]), "these are data");
    let mut input = &with[300..];
    while let Ok(Some(_)) = connection.next(&mut input) {}
    assert!(!connection.in_data());
}

#[test]
fn a_read_of_nothing_has_a_response() {
    let mut connection = ready(TargetParams::default(), false);
    let slot = take_command(&mut connection, 3);
    connection.complete_with_data(slot, Vec::new(), 0);
    let bytes = sent(connection.tx());
    let header: Header = read(&bytes[bytes.len() - 24..]).unwrap();
    assert_eq!(header.kind, PduType::CapsuleResp.code(), "{bytes:?}");
    assert_eq!(connection.in_flight(), 0);
}

#[test]
fn target_may_terminate_before_initialization() {
    let mut host = HostConnection::<Vec<u8>>::new(HostParams::default());
    let mut target = TargetConnection::<Vec<u8>>::new(TargetParams::default());
    // A response in place of a request: the target reports the fault.
    let wrong = Initialize::new(PduType::IcReq, 99, Digests::empty(), 0);
    assert!(target.next(&mut wrong.as_bytes()).is_err());
    let termination = sent(target.tx());
    let heard = host.next(&mut &termination[..]);
    assert!(matches!(heard, Ok(Some(HostReceived::Terminated(_)))), "{heard:?}");
}

#[test]
fn host_command_has_fuse_and_sgl_fields() {
    let (mut host, _) = pair(HostParams::default());
    host.set_in_capsule_data(512);
    for (cid, flags) in [(0, 0b1000_0010), (1, 0b0000_0001), (2, 0)] {
        let sqe = Sqe { cid: U16::new(cid), flags, ..Sqe::default() };
        host.submit(sqe, None, 0).unwrap();
        assert_eq!(host.in_flight(), usize::from(cid) + 1);
        let pdu: CapsuleCmd = read(&sent(host.tx())).unwrap();
        assert_eq!(pdu.sqe.flags, flags & 0b11 | 0b0100_0000);
    }
    // In its capsule, or asked for; nothing is neither.
    for (cid, bytes, length) in [(3, 512, 72 + 512), (4, 513, 72), (5, 0, 72)] {
        let sqe = Sqe { cid: U16::new(cid), ..Sqe::default() };
        host.submit(sqe, Some(vec![1; bytes]), 0).unwrap();
        assert_eq!(sent(host.tx()).len(), length, "{bytes} bytes");
    }
}

#[test]
fn batch_in_flight_is_immutable() {
    let mut connection = ready(TargetParams::default(), true);
    let slots = [1, 2].map(|cid| take_command(&mut connection, cid));
    connection.complete_with_data(slots[0], vec![1; 100], 0);
    assert!(connection.tx().begin());
    let all: Vec<u8> = connection.tx().slices().flatten().copied().collect();
    connection.complete(slots[1], 0, Status::SUCCESS);
    assert!(!connection.tx().begin(), "one batch at a time");
    for sent in 0..all.len() {
        let left: Vec<u8> = connection.tx().slices().flatten().copied().collect();
        assert_eq!(left, all[sent..]);
        assert_eq!(connection.tx().advance(1), sent + 1 == all.len());
    }
    assert!(connection.tx().begin());
    assert_eq!(connection.tx().slices().flatten().count(), 24);
}
