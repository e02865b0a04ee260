//! The target role against hand-made PDUs.

use zerocopy::IntoBytes;
use zerocopy::little_endian::U16;

use super::sent;
use crate::nvme::{Sqe, Status};
use crate::queue::{
    Arriving, CapsuleData, HostReceived, HostTransport, Received, SlotId, Transport,
};
use crate::tcp::pdu::{
    CapsuleCmd, CapsuleResp, DataPdu, Digests, Flags, Header, Initialize, PduType, R2t,
};
use crate::tcp::read::read;
use crate::tcp::{HostConnection, HostParams, TargetConnection, TargetParams};

/// Makes an initialized connection with a queue of 8 entries.
pub(super) fn ready(params: TargetParams, sq_flow_control: bool) -> TargetConnection<Vec<u8>> {
    let mut connection = TargetConnection::new(params);
    let request = Initialize::new(PduType::IcReq, 0, Digests::empty(), 0);
    let mut input = request.as_bytes();
    assert!(matches!(connection.next(&mut input), Ok(Some(Received::Initialized))));
    assert_eq!(sent(connection.tx()).len(), 128);
    connection.set_queue(8, sq_flow_control);
    connection.set_in_capsule_data(4096);
    connection
}

pub(super) fn command(cid: u16) -> Vec<u8> {
    let header = Header::new(PduType::CapsuleCmd, Flags::empty(), 0, 72);
    let sqe = Sqe { opcode: 2, cid: U16::new(cid), ..Sqe::default() };
    CapsuleCmd { header, sqe }.as_bytes().to_vec()
}

pub(super) fn take_command(connection: &mut TargetConnection<Vec<u8>>, cid: u16) -> SlotId {
    let bytes = command(cid);
    let mut input = &bytes[..];
    match connection.next(&mut input) {
        Ok(Some(Received::Command { slot, data: CapsuleData::None })) => {
            assert_eq!(connection.sqe_of(slot).cid.get(), cid);
            slot
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn digests_are_used_where_both_ends_want_them() {
    for wanted in 0u8..16 {
        let [header, data, ask_header, ask_data] = [1, 2, 4, 8].map(|bit| wanted & bit != 0);
        let params =
            TargetParams { header_digest: header, data_digest: data, ..TargetParams::default() };
        let mut target = TargetConnection::<Vec<u8>>::new(params);
        let digests = Digests::from_flags(ask_header, ask_data);
        let request = Initialize::new(PduType::IcReq, 0, digests, 0);
        let mut input = request.as_bytes();
        assert!(matches!(target.next(&mut input), Ok(Some(Received::Initialized))));
        let in_use = (header && ask_header, data && ask_data);
        assert_eq!(target.digests(), in_use);
        let response = sent(target.tx());
        let params = HostParams {
            header_digest: ask_header,
            data_digest: ask_data,
            ..HostParams::default()
        };
        let mut host = HostConnection::<Vec<u8>>::new(params);
        match host.next(&mut &response[..]) {
            Ok(Some(HostReceived::Ready { header_digest, data_digest, .. })) => {
                assert_eq!((header_digest, data_digest), in_use);
                assert_eq!(host.digests(), in_use);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn success_flag_needs_no_flow_control_or_result() {
    for (flow_control, result, flag) in [(false, 0, true), (true, 0, false), (false, 7, false)] {
        let mut connection = ready(TargetParams::default(), flow_control);
        let slot = take_command(&mut connection, 9);
        connection.complete_with_data(slot, vec![5; 512], result);
        let bytes = sent(connection.tx());
        let data: DataPdu = read(&bytes).unwrap();
        assert_eq!((data.cccid.get(), data.datao.get(), data.datal.get()), (9, 0, 512));
        assert_eq!(data.header.flags & Flags::SUCCESS.bits() != 0, flag);
        assert_eq!(data.header.flags & Flags::LAST.bits(), Flags::LAST.bits());
        assert_eq!(bytes[24..536], [5; 512]);
        assert_eq!(bytes.len(), if flag { 536 } else { 560 });
        if !flag {
            let response: CapsuleResp = read(&bytes[536..]).unwrap();
            assert_eq!((response.cqe.cid.get(), response.cqe.result.get()), (9, result));
            assert_eq!(response.cqe.sqhd.get(), if flow_control { 1 } else { u16::MAX });
        }
        assert_eq!(connection.in_flight(), 0);
    }
}

/// Returns the data that an R2T asks for.
fn data_for(r2t: &R2t) -> Vec<u8> {
    let length = r2t.r2tl.get();
    let pdu = DataPdu {
        header: Header::new(PduType::H2cData, Flags::LAST, 24, 24 + length),
        cccid: r2t.cccid,
        ttag: r2t.ttag,
        datao: r2t.r2to,
        datal: r2t.r2tl,
        reserved: [0; 4],
    };
    let mut bytes = pdu.as_bytes().to_vec();
    bytes.resize(24 + length as usize, 1);
    bytes
}

#[test]
fn arrived_data_belongs_to_unanswered_command() {
    let mut connection = ready(TargetParams::default(), true);
    let slot = take_command(&mut connection, 3);
    connection.fetch(slot, 6000);
    let bytes = data_for(&read(&sent(connection.tx())).unwrap());
    let (head, data) = bytes.split_at(24);
    assert!(matches!(connection.next(&mut &head[..]), Ok(None)));
    let arriving = |offset, length| Some(Arriving { slot, offset, length });
    assert_eq!(connection.arriving(), arriving(0, 6000));
    assert!(connection.arrived(&data[..1000]));
    assert_eq!(connection.arriving(), arriving(1000, 5000));
    connection.complete(slot, 0, Status::ABORT_REQUESTED);
    assert_eq!(connection.arriving(), None);
    assert!(!connection.arrived(&data[1000..]), "nobody wants it any more");
    assert!(matches!(connection.next(&mut &[][..]), Ok(None)));
    assert_eq!(sent(connection.tx()).len(), 24, "the answer waited for the data");
}

#[test]
fn r2t_data_arrives_in_parts_with_one_end() {
    let params = TargetParams { max_r2t_data: 4096, ..TargetParams::default() };
    let mut connection = ready(params, true);
    let slot = take_command(&mut connection, 3);
    connection.fetch(slot, 6000);
    for (offset, length) in [(0, 4096), (4096, 1904)] {
        let r2t: R2t = read(&sent(connection.tx())).unwrap();
        assert_eq!((r2t.r2to.get(), r2t.r2tl.get()), (offset, length));
        let bytes = data_for(&r2t);
        let mut input = &bytes[..];
        let event = connection.next(&mut input).unwrap().unwrap();
        assert!(matches!(event, Received::Data { offset: at, .. } if at == offset), "{event:?}");
        let end = connection.next(&mut input).unwrap();
        assert_eq!(end.is_some(), offset != 0, "{end:?}");
    }
    connection.complete(slot, 0, Status::SUCCESS);
    assert_eq!(sent(connection.tx()).len(), 24);
}

#[test]
fn responses_that_are_sent_together_are_one_run() {
    let mut connection = ready(TargetParams::default(), true);
    let slots = [1, 2, 3].map(|cid| take_command(&mut connection, cid));
    for slot in slots {
        connection.complete(slot, 0, Status::SUCCESS);
    }
    assert_eq!(connection.tx().pending_bytes(), 72);
    assert!(connection.tx().begin());
    assert_eq!(connection.tx().slices().count(), 1);
}
