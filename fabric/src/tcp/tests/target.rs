//! The target role against hand-made PDUs.

use zerocopy::IntoBytes;
use zerocopy::little_endian::U16;

use super::{joined, sent};
use crate::nvme::{Sqe, Status};
use crate::queue::{Arriving, CapsuleData, Received, SlotId, Transport};
use crate::tcp::pdu::{CapsuleCmd, CapsuleResp, DataPdu, Flags, Header, PduType, R2t};
use crate::tcp::read::read;
use crate::tcp::{HostParams, TargetConnection, TargetParams};

/// Makes an initialized connection with a queue of 8 entries.
pub(super) fn ready(params: TargetParams, sq_flow_control: bool) -> TargetConnection<Vec<u8>> {
    let (_, mut connection) = joined(params, HostParams::default());
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
    match connection.next(&mut &command(cid)[..]) {
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
        let [header_digest, data_digest, ask_header, ask_data] =
            [1, 2, 4, 8].map(|bit| wanted & bit != 0);
        let params = TargetParams { header_digest, data_digest, ..TargetParams::default() };
        let in_use = (header_digest && ask_header, data_digest && ask_data);
        let (header_digest, data_digest) = (ask_header, ask_data);
        let host = HostParams { header_digest, data_digest, ..HostParams::default() };
        let (host, target) = joined(params, host);
        assert_eq!((target.digests(), host.digests()), (in_use, in_use), "{wanted:#06b}");
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
fn fetch_is_divided_by_largest_r2t() {
    let params = TargetParams { max_r2t_data: 4096, ..TargetParams::default() };
    let mut connection = ready(params, true);
    let slot = take_command(&mut connection, 3);
    connection.fetch(slot, 6000);
    for (offset, length) in [(0, 4096), (4096, 1904)] {
        let r2t: R2t = read(&sent(connection.tx())).unwrap();
        assert_eq!((r2t.r2to.get(), r2t.r2tl.get()), (offset, length));
        let bytes = data_for(&r2t);
        let mut input = &bytes[..];
        while connection.next(&mut input).unwrap().is_some() {}
    }
}

#[test]
fn responses_that_are_sent_together_are_one_run() {
    let mut connection = ready(TargetParams::default(), true);
    for slot in [1, 2, 3].map(|cid| take_command(&mut connection, cid)) {
        connection.complete(slot, 0, Status::SUCCESS);
    }
    assert_eq!(connection.tx().pending_bytes(), 72);
    assert!(connection.tx().begin());
    assert_eq!(connection.tx().slices().count(), 1);
}
