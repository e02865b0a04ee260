//! The edges of both roles: the least and the most that may be sent, and what is told of it.

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use super::target::{command, ready, sent, take_command};
use crate::nvme::{SglDescriptor, Sqe};
use crate::queue::{CapsuleData, HostReceived, HostTransport, Received, Transport};
use crate::tcp::Fes;
use crate::tcp::pdu::{CapsuleCmd, DataPdu, Digests, Flags, Header, Initialize, PduType, R2t};
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

/// Makes a host whose connection is initialized; the target takes this many bytes in a PDU.
fn host(max_h2c_data: u32) -> HostConnection<Vec<u8>> {
    let mut host = HostConnection::new(HostParams::default());
    let response = Initialize::new(PduType::IcResp, 0, Digests::empty(), max_h2c_data);
    assert!(matches!(host.next(&mut response.as_bytes()), Ok(Some(HostReceived::Ready { .. }))));
    said(&mut host);
    host
}

/// Takes what a host sends.
fn said(host: &mut HostConnection<Vec<u8>>) -> Vec<u8> {
    let (mut all, tx) = (Vec::new(), host.tx());
    while tx.begin() {
        let bytes: Vec<u8> = tx.slices().flatten().copied().collect();
        tx.advance(bytes.len());
        all.extend(bytes);
    }
    all
}

fn data_pdu(kind: PduType, flags: Flags, offset: u32, length: u32) -> Vec<u8> {
    let pdu = DataPdu {
        header: Header::new(kind, flags, 24, 24 + length),
        cccid: U16::new(3),
        ttag: U16::new(0),
        datao: U32::new(offset),
        datal: U32::new(length),
        reserved: [0; 4],
    };
    let mut bytes = pdu.as_bytes().to_vec();
    bytes.resize(24 + length as usize, 1);
    bytes
}

#[test]
fn a_target_moves_each_command_in_one_pdu() {
    let small = TargetParams::for_transfers(64 << 10);
    let sizes = (small.max_h2c_data, small.max_r2t_data, small.max_c2h_data);
    assert_eq!(sizes, (128 << 10, 64 << 10, 64 << 10));
    let large = TargetParams::for_transfers(1 << 20);
    let sizes = (large.max_h2c_data, large.max_r2t_data, large.max_c2h_data);
    assert_eq!(sizes, (1 << 20, 1 << 20, 1 << 20));
}

#[test]
fn a_capsule_that_brings_data_is_known_before_it_is_taken() {
    let mut connection = ready(TargetParams::default(), false);
    let (with, without) = (capsule(1, 512), command(2));
    assert!(connection.brings_data(&&with[..]));
    assert!(!connection.brings_data(&&without[..]));
    assert!(!connection.brings_data(&&with[..7]), "the header is not here");
    let other = data_pdu(PduType::H2cData, Flags::LAST, 0, 512);
    assert!(!connection.brings_data(&&other[..]), "it is no command");
    assert!(!connection.in_data());
    // The first bytes of the header came before.
    let mut input = &with[..5];
    assert!(matches!(connection.next(&mut input), Ok(None)));
    assert!(connection.brings_data(&&with[5..]));
    let mut input = &with[5..300];
    let taken = connection.next(&mut input);
    assert!(
        matches!(
            taken,
            Ok(Some(Received::Command { data: CapsuleData::Partial { length: 512 }, .. }))
        ),
        "{taken:?}"
    );
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
    let bytes = sent(&mut connection);
    let header: Header = read(&bytes[bytes.len() - 24..]).unwrap();
    assert_eq!(header.kind, PduType::CapsuleResp.code(), "{bytes:?}");
    assert_eq!(connection.in_flight(), 0);
}

#[test]
fn a_target_may_end_a_connection_before_it_is_initialized() {
    let mut host = HostConnection::<Vec<u8>>::new(HostParams::default());
    let mut target = TargetConnection::<Vec<u8>>::new(TargetParams::default());
    // A response where a request belongs: the target says what is wrong.
    let wrong = Initialize::new(PduType::IcReq, 99, Digests::empty(), 0);
    assert!(target.next(&mut wrong.as_bytes()).is_err());
    let termination = sent(&mut target);
    let heard = host.next(&mut &termination[..]);
    assert!(matches!(heard, Ok(Some(HostReceived::Terminated(_)))), "{heard:?}");
}

#[test]
fn a_host_takes_targets_that_take_4096_bytes_at_a_time_and_no_less() {
    for (bytes, fits) in [(4092, false), (4096, true)] {
        let mut host = HostConnection::<Vec<u8>>::new(HostParams::default());
        let response = Initialize::new(PduType::IcResp, 0, Digests::empty(), bytes);
        assert_eq!(host.next(&mut response.as_bytes()).is_ok(), fits, "{bytes}");
        assert!(!fits || host.digests() == (false, false));
    }
}

#[test]
fn a_hosts_command_is_fused_or_not_and_has_an_sgl() {
    let mut host = host(8192);
    host.set_in_capsule_data(512);
    for (cid, flags) in [(0, 0b1000_0010), (1, 0b0000_0001), (2, 0)] {
        let sqe = Sqe { cid: U16::new(cid), flags, ..Sqe::default() };
        host.submit(sqe, None, 0).unwrap();
        assert_eq!(host.in_flight(), usize::from(cid) + 1);
        let pdu: CapsuleCmd = read(&said(&mut host)).unwrap();
        assert_eq!(pdu.sqe.flags, flags & 0b11 | 0b0100_0000);
    }
    // In its capsule, or asked for; nothing is neither.
    for (cid, bytes, length) in [(3, 512, 72 + 512), (4, 513, 72), (5, 0, 72)] {
        let sqe = Sqe { cid: U16::new(cid), ..Sqe::default() };
        host.submit(sqe, Some(vec![1; bytes]), 0).unwrap();
        assert_eq!(said(&mut host).len(), length, "{bytes} bytes");
    }
}

#[test]
fn a_target_sends_no_more_than_was_to_be_read_in_all_pdus() {
    for (second, fits) in [(256, true), (260, false), (512, false)] {
        let mut host = host(8192);
        host.submit(Sqe { cid: U16::new(3), ..Sqe::default() }, None, 512).unwrap();
        let first = data_pdu(PduType::C2hData, Flags::empty(), 0, 256);
        let mut input = &first[..];
        while host.next(&mut input).unwrap().is_some() {}
        let more = data_pdu(PduType::C2hData, Flags::LAST, 256, second);
        let heard = host.next(&mut &more[..]);
        assert_eq!(heard.is_ok(), fits, "{second} bytes more: {heard:?}");
        if let Err(violation) = heard {
            assert_eq!(violation.fes, Fes::DataOutOfRange);
            assert!(violation.to_string().contains("fatal error status 04h"), "{violation}");
        }
    }
}

#[test]
fn a_target_asks_for_no_more_than_there_is_in_all_r2ts() {
    for (second, fits) in [(256, true), (260, false), (512, false)] {
        let mut host = host(8192);
        host.set_in_capsule_data(0);
        let sqe = Sqe { cid: U16::new(3), ..Sqe::default() };
        host.submit(sqe, Some(vec![1; 512]), 0).unwrap();
        let ask = |offset: u32, length: u32| R2t {
            header: Header::new(PduType::R2t, Flags::empty(), 0, 24),
            cccid: U16::new(3),
            ttag: U16::new(0),
            r2to: U32::new(offset),
            r2tl: U32::new(length),
            reserved: [0; 4],
        };
        assert!(host.next(&mut ask(0, 256).as_bytes()).is_ok());
        assert_eq!(
            host.next(&mut ask(256, second).as_bytes()).is_ok(),
            fits,
            "{second} bytes more"
        );
    }
}
