//! Every violation ends the connection with the right termination request.

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use super::{joined, sent};
use crate::nvme::{Cqe, Sqe, Status};
use crate::queue::{HostReceived, HostTransport, SlotId, Termination, Transport};
use crate::tcp::pdu::{
    CapsuleCmd, CapsuleResp, DataPdu, Digests, Flags, Header, Initialize, PduType, R2t, TermReq,
};
use crate::tcp::read::read;
use crate::tcp::{
    Fes, HostConnection, HostParams, TargetConnection, TargetParams, Violation, crc32c,
};

const FIELD: Fes = Fes::InvalidHeaderField;
const SEQUENCE: Fes = Fes::SequenceError;
const RANGE: Fes = Fes::DataOutOfRange;
const LIMIT: Fes = Fes::LimitExceeded;
const UNSUPPORTED: Fes = Fes::UnsupportedParameter;

/// A connection's state before the offending bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Before {
    /// Nothing received.
    Fresh,
    /// Initialized without digests.
    Plain,
    /// Initialized with header and data digests.
    Digests,
    /// Initialized without digests, CPDA or HPDA 15: data at multiples of 64 bytes.
    Aligned,
    /// Target: R2T open for 8192 bytes of command 5. Host: command 5 reads 8192 bytes, command 6
    /// writes 8192 bytes by R2T.
    Busy,
    /// [`Before::Busy`], and the first half has come: of the data, and for the host the R2T for half of the write.
    Half,
    /// Host: [`Before::Busy`], and data with LAST has come.
    Last,
}

type Case = (&'static str, Before, Vec<u8>, Fes, u32);

fn initialize(kind: PduType, edit: impl FnOnce(&mut Initialize)) -> Vec<u8> {
    let limit = if kind == PduType::IcReq { 0 } else { 8192 };
    let mut pdu = Initialize::new(kind, 0, Digests::empty(), limit);
    edit(&mut pdu);
    pdu.as_bytes().to_vec()
}

fn command(edit: impl FnOnce(&mut Header)) -> Vec<u8> {
    let mut header = Header::new(PduType::CapsuleCmd, Flags::empty(), 0, 72);
    edit(&mut header);
    let sqe = Sqe { cid: U16::new(5), ..Sqe::default() };
    CapsuleCmd { header, sqe }.as_bytes().to_vec()
}

/// Makes a data PDU without its data; PLEN says what DATAL said before the edit.
fn data(
    kind: PduType,
    cid: u16,
    (offset, length): (u32, u32),
    edit: impl FnOnce(&mut DataPdu),
) -> Vec<u8> {
    let mut pdu = DataPdu {
        header: Header::new(kind, Flags::empty(), 24, 24 + length),
        cccid: U16::new(cid),
        datao: U32::new(offset),
        datal: U32::new(length),
        ..DataPdu::default()
    };
    if kind == PduType::H2cData {
        pdu.ttag = U16::new(open_tag());
    }
    edit(&mut pdu);
    pdu.as_bytes().to_vec()
}

/// Adds the 4096 bytes of a data PDU.
fn with_data(mut pdu: Vec<u8>) -> Vec<u8> {
    pdu.resize(24 + 4096, 0);
    pdu
}

fn r2t(cid: u16, offset: u32, length: u32) -> Vec<u8> {
    let header = Header::new(PduType::R2t, Flags::empty(), 0, 24);
    let (cccid, r2to, r2tl) = (U16::new(cid), U32::new(offset), U32::new(length));
    R2t { header, cccid, r2to, r2tl, ..R2t::default() }.as_bytes().to_vec()
}

/// Returns the tag of the R2T that [`Before::Busy`] opens.
fn open_tag() -> u16 {
    let mut connection = target(Before::Plain);
    let mut input = &command(|_| ())[..];
    connection.next(&mut input).unwrap();
    connection.fetch(SlotId(0), 8192);
    read::<R2t>(&sent(connection.tx())).unwrap().ttag.get()
}

fn last(pdu: &mut DataPdu) {
    pdu.header.flags = Flags::LAST.bits();
}

fn plen(length: u32) -> impl FnOnce(&mut Header) {
    move |header| header.plen = U32::new(length)
}

fn target(before: Before) -> TargetConnection<Vec<u8>> {
    let cpda = if before == Before::Aligned { 15 } else { 0 };
    let max_h2c_data = 4096;
    let params = TargetParams { cpda, max_h2c_data, ..TargetParams::default() };
    if before == Before::Fresh {
        return TargetConnection::new(params);
    }
    let mut connection = joined(params, host_params(before)).1;
    connection.set_queue(2, true);
    connection.set_in_capsule_data(1024);
    if matches!(before, Before::Busy | Before::Half) {
        assert!(connection.next(&mut &command(|_| ())[..]).unwrap().is_some());
        connection.fetch(SlotId(0), 8192);
        sent(connection.tx());
    }
    if before == Before::Half {
        let half = with_data(data(PduType::H2cData, 5, (0, 4096), |_| ()));
        assert_eq!(fault(&half, 1000, |input| Ok(connection.next(input)?.is_some())), None);
    }
    connection
}

fn host_params(before: Before) -> HostParams {
    let hpda = if before == Before::Aligned { 15 } else { 0 };
    let digests = before == Before::Digests;
    HostParams { hpda, header_digest: digests, data_digest: digests, maxr2t: 0 }
}

fn host(before: Before) -> HostConnection<Vec<u8>> {
    if before == Before::Fresh {
        let mut connection = HostConnection::new(host_params(before));
        sent(connection.tx());
        return connection;
    }
    let mut connection = joined(TargetParams::default(), host_params(before)).0;
    connection.set_in_capsule_data(0);
    let sqe = |cid| Sqe { cid: U16::new(cid), ..Sqe::default() };
    connection.submit(sqe(5), None, 8192).unwrap();
    connection.submit(sqe(6), Some(vec![0; 8192]), 0).unwrap();
    sent(connection.tx());
    let half = |edit: fn(&mut DataPdu)| with_data(data(PduType::C2hData, 5, (0, 4096), edit));
    let begun = match before {
        Before::Half => [half(|_| ()), r2t(6, 0, 4096)].concat(),
        Before::Last => half(last),
        _ => return connection,
    };
    assert_eq!(fault(&begun, 1000, |input| Ok(connection.next(input)?.is_some())), None);
    sent(connection.tx());
    connection
}

/// Feeds `bytes` in chunks; the violation, if one comes of it.
fn fault(
    bytes: &[u8],
    chunk: usize,
    mut next: impl FnMut(&mut &[u8]) -> Result<bool, Violation>,
) -> Option<Violation> {
    for mut input in bytes.chunks(chunk) {
        loop {
            match next(&mut input) {
                Ok(true) => {}
                Ok(false) => break,
                Err(violation) => return Some(violation),
            }
        }
    }
    None
}

/// Checks that the termination request names the fault and repeats the header that the fault is in.
fn check_term_req(case: &Case, kind: PduType, violation: Option<Violation>, answer: &[u8]) {
    let (name, _, bytes, fes, fei) = case;
    let violation = violation.unwrap_or_else(|| panic!("{name}: accepted"));
    assert_eq!((violation.fes, violation.fei), (*fes, *fei), "{name}: {violation}");
    let code = format!("fatal error status {:02x}h", fes.code());
    assert!(violation.to_string().contains(&code), "{name}: {violation}");
    let term: TermReq = read(answer).unwrap_or_else(|_| panic!("{name}: no answer"));
    assert_eq!((term.header.kind, term.header.hlen), (kind.code(), 24), "{name}");
    assert_eq!((term.fes.get(), term.fei.get()), (fes.code(), *fei), "{name}");
    assert_eq!(term.header.plen.get() as usize, answer.len(), "{name}");
    let copy = &answer[24..];
    assert!((8..=128).contains(&copy.len()), "{name}: {} bytes", copy.len());
    assert_eq!(copy, &bytes[..copy.len()], "{name}");
}

fn digested(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend(crc32c(&bytes).to_le_bytes());
    bytes
}

fn cases_for_both(init: PduType, wrong_way: u8, plain: PduType) -> Vec<Case> {
    use Before::{Fresh, Plain};
    let head = |code| {
        let header = Header { kind: code, ..Header::new(plain, Flags::empty(), 0, 24) };
        header.as_bytes().to_vec()
    };
    vec![
        ("unknown type", Plain, head(0x0b), FIELD, 0),
        ("type of the other direction", Plain, head(wrong_way), FIELD, 0),
        ("unknown type at first", Fresh, head(0x42), FIELD, 0),
        ("not initialized", Fresh, head(plain.code()), SEQUENCE, 0),
        ("initialized twice", Plain, initialize(init, |_| ()), SEQUENCE, 0),
        ("PFV", Fresh, initialize(init, |pdu| pdu.pfv = U16::new(1)), UNSUPPORTED, 8),
        ("HPDA or CPDA", Fresh, initialize(init, |pdu| pdu.pda = 32), FIELD, 10),
        ("HLEN at first", Fresh, initialize(init, |pdu| pdu.header.hlen = 24), FIELD, 2),
        ("PDO at first", Fresh, initialize(init, |pdu| pdu.header.pdo = 24), FIELD, 3),
        ("PLEN at first", Fresh, initialize(init, |p| p.header.plen = U32::new(127)), FIELD, 4),
        ("huge PLEN", Fresh, initialize(init, |p| p.header.plen = U32::MAX_VALUE), FIELD, 4),
        ("digest flag at first", Fresh, initialize(init, |pdu| pdu.header.flags = 1), FIELD, 1),
    ]
}

fn target_cases() -> Vec<Case> {
    use Before::{Aligned, Busy, Digests, Half, Plain};
    let h2c = PduType::H2cData;
    let set = |flags: Flags| move |header: &mut Header| header.flags = flags.bits();
    let shape = |pdo: u8, length: u32| {
        move |header: &mut Header| (header.pdo, header.plen) = (pdo, U32::new(length))
    };
    let with_digests = |flags, pdo, length| {
        digested(command(|h| (h.flags, h.pdo, h.plen) = (flags, pdo, U32::new(length))))
    };
    let mut damaged = with_digests(1, 0, 76);
    damaged[20] ^= 4;
    let came = u32::from_le_bytes(damaged[72..].try_into().unwrap());
    let three_commands = [command(|_| ()), command(|_| ()), command(|_| ())].concat();
    let stale = |pdu: &mut DataPdu| pdu.ttag = U16::new(pdu.ttag.get() ^ 0x8000);
    let short = |pdu: &mut DataPdu| pdu.datal = U32::new(4092);
    let mut cases = cases_for_both(PduType::IcReq, 0x05, PduType::CapsuleCmd);
    cases.extend::<Vec<Case>>(vec![
        ("HLEN", Plain, command(|header| header.hlen = 71), FIELD, 2),
        ("PLEN below HLEN", Plain, command(plen(71)), FIELD, 4),
        ("PLEN 0", Plain, command(plen(0)), FIELD, 4),
        ("PDO inside the header", Plain, command(shape(68, 584)), FIELD, 3),
        ("PDO not a multiple of 4", Plain, command(shape(74, 584)), FIELD, 3),
        ("PDO against CPDA", Aligned, command(shape(72, 584)), FIELD, 3),
        ("PDO beyond PLEN", Plain, command(shape(80, 76)), FIELD, 4),
        ("in-capsule data too large", Plain, command(shape(72, 72 + 1028)), LIMIT, 0),
        ("header digest not negotiated", Plain, command(set(Flags::HEADER_DIGEST)), FIELD, 1),
        ("data digest not negotiated", Plain, command(set(Flags::DATA_DIGEST)), FIELD, 1),
        ("header digest missing", Digests, command(|_| ()), FIELD, 1),
        ("data digest missing", Digests, with_digests(1, 76, 588), FIELD, 1),
        ("room for the data digest only", Digests, with_digests(3, 76, 80), FIELD, 4),
        ("wrong header digest", Digests, damaged, Fes::HeaderDigest, came),
        ("more commands than entries", Plain, three_commands, SEQUENCE, 0),
        ("unknown TTAG", Plain, data(h2c, 5, (0, 4096), |_| ()), SEQUENCE, 0),
        ("stale TTAG", Busy, data(h2c, 5, (0, 4096), stale), SEQUENCE, 0),
        ("CCCID", Busy, data(h2c, 6, (0, 4096), |_| ()), FIELD, 8),
        ("DATAL 0", Busy, data(h2c, 5, (0, 0), |_| ()), FIELD, 4),
        ("DATAL against PLEN", Busy, data(h2c, 5, (0, 4096), short), FIELD, 16),
        ("DATAL above MAXH2CDATA", Busy, data(h2c, 5, (0, 4100), |_| ()), LIMIT, 0),
        ("DATAO ahead", Busy, data(h2c, 5, (4096, 4096), last), RANGE, 0),
        ("DATAO out of range", Busy, data(h2c, 5, (8192, 4096), |_| ()), RANGE, 0),
        ("LAST too early", Busy, data(h2c, 5, (0, 4096), last), FIELD, 1),
        ("LAST missing", Half, data(h2c, 5, (4096, 4096), |_| ()), FIELD, 1),
    ]);
    cases
}

fn host_cases() -> Vec<Case> {
    use Before::{Aligned, Busy, Digests, Fresh, Half, Last, Plain};
    let c2h = PduType::C2hData;
    let set = |flags: Flags| move |pdu: &mut DataPdu| pdu.header.flags = flags.bits();
    let response = |cid, length| {
        let header = Header::new(PduType::CapsuleResp, Flags::empty(), 0, length);
        let cqe = Cqe::new(cid, 0, 0, Status::SUCCESS);
        CapsuleResp { header, cqe }.as_bytes().to_vec()
    };
    let mut cases = cases_for_both(PduType::IcResp, 0x04, PduType::CapsuleResp);
    let init = PduType::IcResp;
    cases.extend::<Vec<Case>>(vec![
        ("MAXH2CDATA", Fresh, initialize(init, |pdu| pdu.limit = U32::new(4092)), FIELD, 12),
        ("digest not asked for", Fresh, initialize(init, |pdu| pdu.dgst = 2), UNSUPPORTED, 11),
        ("CID of no command", Busy, response(7, 24), FIELD, 20),
        ("PLEN of a response", Busy, response(5, 28), FIELD, 4),
        ("header digest missing", Digests, response(5, 24), FIELD, 1),
        ("data for no command", Busy, data(c2h, 7, (0, 4096), |_| ()), FIELD, 8),
        ("data beyond the command", Busy, data(c2h, 5, (0, 8196), |_| ()), RANGE, 0),
        ("data for a write", Busy, data(c2h, 6, (0, 512), |_| ()), RANGE, 0),
        ("data beyond the command in all", Half, data(c2h, 5, (4096, 4100), |_| ()), RANGE, 0),
        ("data after the last", Last, data(c2h, 5, (4096, 512), |_| ()), SEQUENCE, 0),
        ("data not contiguous", Busy, data(c2h, 5, (512, 512), |_| ()), RANGE, 0),
        ("SUCCESS without LAST", Plain, data(c2h, 5, (0, 8192), set(Flags::SUCCESS)), FIELD, 1),
        ("PDO against HPDA", Aligned, data(c2h, 5, (0, 8192), |_| ()), FIELD, 3),
        ("R2T for no command", Busy, r2t(7, 0, 4096), FIELD, 8),
        ("R2T for a read", Busy, r2t(5, 0, 4096), FIELD, 8),
        ("R2T of nothing", Busy, r2t(6, 0, 0), FIELD, 16),
        ("R2T out of range", Busy, r2t(6, 0, 8196), RANGE, 0),
        ("R2Ts beyond the data in all", Half, r2t(6, 4096, 4100), RANGE, 0),
        ("R2T not contiguous", Busy, r2t(6, 4096, 4096), RANGE, 0),
    ]);
    cases
}

#[test]
fn a_target_answers_each_violation_with_its_term_req() {
    for case in target_cases() {
        for chunk in [1, 7, usize::MAX] {
            let mut connection = target(case.1);
            let found = fault(&case.2, chunk, |input| Ok(connection.next(input)?.is_some()));
            check_term_req(&case, PduType::C2hTermReq, found, &sent(connection.tx()));
            let mut more = &command(|_| ())[..];
            assert!(matches!(connection.next(&mut more), Ok(None)), "{}: goes on", case.0);
            assert!(more.is_empty());
        }
    }
}

#[test]
fn a_host_answers_each_violation_with_its_term_req() {
    for case in host_cases() {
        for chunk in [1, 7, usize::MAX] {
            let mut connection = host(case.1);
            let found = fault(&case.2, chunk, |input| Ok(connection.next(input)?.is_some()));
            check_term_req(&case, PduType::H2cTermReq, found, &sent(connection.tx()));
            assert!(connection.submit(Sqe::default(), None, 0).is_err(), "{}: goes on", case.0);
        }
    }
}

#[test]
fn term_req_ends_connection_without_answer() {
    let term = |kind, plen| {
        let header = Header::new(kind, Flags::empty(), 0, plen);
        let (fes, fei) = (U16::new(1), U32::new(8));
        TermReq { header, fes, fei, ..TermReq::default() }.as_bytes().to_vec()
    };
    let mut connection = host(Before::Plain);
    let bytes = term(PduType::C2hTermReq, 32);
    let event = connection.next(&mut &bytes[..]).unwrap();
    let Some(HostReceived::Terminated(termination)) = event else { panic!("{event:?}") };
    assert_eq!(termination, Termination { code: 1, information: 8 });
    for length in [23, 153] {
        let mut connection = target(Before::Plain);
        let violation = connection.next(&mut &term(PduType::H2cTermReq, length)[..]).unwrap_err();
        assert!(!violation.answered);
        assert!(sent(connection.tx()).is_empty());
    }
}
