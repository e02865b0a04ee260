//! `pdu_stream`: a peer sends arbitrary bytes, cut anywhere.
//!
//! The input is a byte of settings (bit 0: whether this side is the host; 2:1 alignment; 3 header
//! digest; 4 data digest), a byte that decides the chunks, then the stream. The stream is run
//! twice, in one chunk and in many: the answers must be the same.

use std::collections::BTreeMap;

use fabric::nvme::{SglDescriptor, Sqe, Status};
use fabric::queue::{
    Arriving, CapsuleData, HostReceived, HostTransport, Payload, Received, SlotId, Transport,
};
use fabric::tcp::pdu::{Header, PduType};
use fabric::tcp::{HostConnection, HostParams, TargetConnection, TargetParams, Tx};
use zerocopy::FromBytes as _;

use super::input::{Chunks, byte};

/// Entries of the queue, which bound the commands that may be outstanding.
const ENTRIES: u16 = 8;
/// The most in-capsule data, in bytes.
const IN_CAPSULE: u32 = 8192;
/// The most data that a command here reads, in bytes.
const READ: u32 = 4096;
/// The data that one grant of a metered transfer asks for, in bytes.
const STEP: u32 = 6000;
/// The data that a command writes in the host role, in bytes.
const WRITE: u32 = 16384;

/// Runs one input.
pub fn run(mut data: &[u8]) {
    let (settings, seed) = (byte(&mut data), byte(&mut data));
    let whole = stream(settings, data, None);
    let cut = stream(settings, data, Some(Chunks::new(seed)));
    [&whole, &cut].into_iter().for_each(|sent| check_pdus(sent, settings & 1 == 1));
    let same = without_echo(&whole) == without_echo(&cut);
    assert!(same, "the answer depends on how the stream is cut:\n{whole:02x?}\n{cut:02x?}");
}

/// Returns what one side sends when the peer sends `stream`.
fn stream(settings: u8, stream: &[u8], chunks: Option<Chunks>) -> Vec<u8> {
    let pda = [0, 1, 15, 31].get(usize::from(settings >> 1 & 3)).copied().unwrap_or(0);
    let digests = (settings & 8 != 0, settings & 16 != 0);
    if settings & 1 == 0 {
        let mut target = Target::new(pda, digests);
        cut(stream, chunks, |chunk| target.feed(chunk));
        target.sent
    } else {
        let mut host = Host::new(pda, digests);
        cut(stream, chunks, |chunk| host.feed(chunk));
        host.sent
    }
}

/// Feeds a stream in chunks, or in one, as long as `feed` says that the connection is open.
fn cut(mut rest: &[u8], mut chunks: Option<Chunks>, mut feed: impl FnMut(&[u8]) -> bool) {
    let mut open = true;
    while open && !rest.is_empty() {
        let chunk = match &mut chunks {
            Some(chunks) => chunks.take(&mut rest),
            None => std::mem::take(&mut rest),
        };
        open = feed(chunk);
    }
}

/// Removes all queued bytes, as a socket would.
fn drain<P: Payload>(tx: &mut Tx<P>, sent: &mut Vec<u8>) {
    while tx.begin() {
        let before = sent.len();
        for run in tx.slices() {
            sent.extend_from_slice(run);
        }
        assert!(tx.advance(sent.len() - before), "all of a batch was sent, and it is not done");
    }
}

/// Data that is still to come for a command.
#[derive(Debug)]
struct Coming {
    length: u32,
    received: u32,
}

/// The target role, which answers each command.
struct Target {
    connection: TargetConnection<Vec<u8>>,
    coming: BTreeMap<SlotId, Coming>,
    connected: bool,
    open: bool,
    sent: Vec<u8>,
}

impl Target {
    fn new(cpda: u8, (header_digest, data_digest): (bool, bool)) -> Self {
        let params = TargetParams {
            cpda,
            header_digest,
            data_digest,
            max_h2c_data: 8192,
            in_capsule_data: IN_CAPSULE,
            max_r2t_data: 2048,
            max_c2h_data: 1024,
        };
        Self {
            connection: TargetConnection::new(params),
            coming: BTreeMap::new(),
            connected: false,
            open: true,
            sent: Vec::new(),
        }
    }

    /// Processes a chunk. Returns whether the connection is open.
    fn feed(&mut self, mut chunk: &[u8]) -> bool {
        loop {
            let (arriving, before) = (self.connection.arriving(), chunk);
            match self.connection.next(&mut chunk) {
                Ok(Some(event)) => {
                    if let Some(arriving) = arriving.filter(|_| !before.is_empty()) {
                        check_place(arriving, before, &event);
                    }
                    self.received(event);
                }
                Ok(None) => break,
                Err(violation) => {
                    assert!(arriving.is_none(), "data of a command cannot be wrong: {violation}");
                    drain(self.connection.tx(), &mut self.sent);
                    let answered = last_pdu(&self.sent) == Some(PduType::C2hTermReq);
                    assert_eq!(answered, violation.answered, "{violation}");
                    let more = self.connection.next(&mut chunk);
                    assert!(matches!(more, Ok(None)), "input after a violation");
                    return false;
                }
            }
            let most = if self.connected { usize::from(ENTRIES) } else { 1 };
            let in_flight = self.connection.in_flight();
            assert!(in_flight <= most, "{in_flight} commands in a queue of {most}");
            drain(self.connection.tx(), &mut self.sent);
        }
        assert!(chunk.is_empty(), "{} bytes were not taken", chunk.len());
        self.open
    }

    fn received(&mut self, event: Received<'_>) {
        match event {
            Received::Initialized => {}
            Received::Command { slot, data } => {
                let sqe = *self.connection.sqe_of(slot);
                self.command(slot, &sqe, &data);
            }
            Received::Data { slot, offset, bytes } => {
                let coming = self.coming.get_mut(&slot).expect("data that nobody waits for");
                let length = u32::try_from(bytes.len()).expect("a chunk's length");
                let end = offset.checked_add(length).expect("an end within 4 GiB");
                assert!(end <= coming.length, "{end} bytes of {}", coming.length);
                coming.received += length;
            }
            Received::DataEnd { slot, digest_ok } => {
                let coming = self.coming.remove(&slot).expect("an end that nobody waits for");
                assert_eq!(coming.received, coming.length, "the end before all data");
                let bad = Status::TRANSIENT_TRANSPORT_ERROR;
                self.connection.complete(slot, 0, if digest_ok { Status::SUCCESS } else { bad });
            }
            Received::GrantEnd { slot } => {
                assert!(self.connection.grant(slot, STEP) > 0, "the next grant is due");
            }
            Received::Terminated { .. } => self.open = false,
        }
    }

    fn command(&mut self, slot: SlotId, sqe: &Sqe, data: &CapsuleData<'_>) {
        if !self.connected {
            self.connected = true;
            self.connection.set_queue(ENTRIES, sqe.cdw15.get() & 1 == 1);
            self.connection.set_in_capsule_data(IN_CAPSULE);
        }
        assert!(!self.coming.contains_key(&slot), "the slot of a command that is not complete");
        match *data {
            CapsuleData::Whole(bytes) => {
                assert!(bytes.len() <= usize::try_from(IN_CAPSULE).expect("small"));
                self.connection.complete(slot, 0, Status::SUCCESS);
            }
            CapsuleData::Partial { length } => {
                assert!(length <= IN_CAPSULE, "{length} bytes in the capsule");
                self.coming.insert(slot, Coming { length, received: 0 });
            }
            CapsuleData::None => self.without_data(slot, sqe),
        }
    }

    /// Carries out a command whose capsule has no data. Bits 1:0 of the opcode are the direction:
    /// 01b to the target, 10b to the host.
    fn without_data(&mut self, slot: SlotId, sqe: &Sqe) {
        let length = sqe.sgl.length.get();
        let transport = sqe.sgl.kind == SglDescriptor::TRANSPORT && length > 0;
        if transport && sqe.opcode & 3 == 1 {
            let length = length & 0xf_ffff;
            if length == 0 {
                return self.connection.complete(slot, 0, Status::INVALID_FIELD);
            }
            self.coming.insert(slot, Coming { length, received: 0 });
            if sqe.cdw15.get() & 1 == 0 {
                self.connection.fetch(slot, length);
            } else {
                self.connection.fetch_metered(slot, length);
                self.connection.grant(slot, STEP);
            }
        } else if transport && sqe.opcode & 3 == 2 {
            let length = usize::try_from(length.min(READ)).expect("small");
            let result = u64::from(sqe.cdw14.get() & 1);
            self.connection.complete_with_data(slot, vec![0xa5; length], result);
        } else {
            self.connection.complete(slot, 7, Status::SUCCESS);
        }
    }
}

/// Checks that data which was announced is handed over all at once, from where it was received:
/// that place may be its command's own buffer.
fn check_place(arriving: Arriving, input: &[u8], event: &Received<'_>) {
    let seen = match event {
        Received::Data { slot, offset, bytes } => {
            Some((*slot, *offset, bytes.len(), bytes.as_ptr()))
        }
        _ => None,
    };
    let length = usize::try_from(arriving.length).expect("small").min(input.len());
    let told = Some((arriving.slot, arriving.offset, length, input.as_ptr()));
    assert_eq!(seen, told, "{event:?} although {arriving:?}");
}

/// The host role, with a read, a write by R2T, a write in the capsule and a flush.
struct Host {
    connection: HostConnection<Vec<u8>>,
    /// Bytes that each command reads, by identifier.
    commands: BTreeMap<u16, u32>,
    open: bool,
    sent: Vec<u8>,
}

impl Host {
    fn new(hpda: u8, (header_digest, data_digest): (bool, bool)) -> Self {
        let params = HostParams { hpda, header_digest, data_digest, maxr2t: 1 };
        let connection = HostConnection::new(params);
        Self { connection, commands: BTreeMap::new(), open: true, sent: Vec::new() }
    }

    /// Processes a chunk. Returns whether the connection is open.
    fn feed(&mut self, mut chunk: &[u8]) -> bool {
        loop {
            match self.connection.next(&mut chunk) {
                Ok(Some(event)) => match event {
                    HostReceived::Ready { .. } => self.submit(),
                    HostReceived::ReadData { cid, offset, bytes } => self.data(cid, offset, bytes),
                    HostReceived::DigestError { cid } => {
                        assert!(self.commands.contains_key(&cid), "no such command: {cid}");
                    }
                    HostReceived::Response { cid, received, .. } => {
                        let length = self.commands.remove(&cid).expect("a command in flight");
                        assert!(received <= length, "{received} bytes of {length}");
                    }
                    HostReceived::Terminated { .. } => self.open = false,
                },
                Ok(None) => break,
                Err(_) => {
                    drain(self.connection.tx(), &mut self.sent);
                    return false;
                }
            }
            assert_eq!(self.connection.in_flight(), self.commands.len());
            drain(self.connection.tx(), &mut self.sent);
        }
        assert!(chunk.is_empty(), "{} bytes were not taken", chunk.len());
        drain(self.connection.tx(), &mut self.sent);
        self.open
    }

    fn data(&self, cid: u16, offset: u32, bytes: &[u8]) {
        let length = self.commands.get(&cid).expect("data for a command in flight");
        let end = u64::from(offset) + u64::try_from(bytes.len()).expect("a chunk's length");
        assert!(end <= u64::from(*length), "{end} bytes of {length}");
    }

    fn submit(&mut self) {
        let in_capsule = vec![1; 512];
        let by_r2t = vec![2; usize::try_from(WRITE).expect("small")];
        let commands =
            [(2, None, READ), (1, Some(by_r2t), 0), (1, Some(in_capsule), 0), (0, None, 0)];
        for (cid, (opcode, data, read)) in (0_u16..).zip(commands) {
            let mut sqe = Sqe { opcode, ..Sqe::default() };
            sqe.cid.set(cid);
            self.connection.submit(sqe, data, read).expect("a free identifier");
            self.commands.insert(cid, read);
        }
    }
}

/// Returns `sent` without the bytes of the offending PDU that a termination request repeats: as
/// many as had arrived of that PDU.
fn without_echo(sent: &[u8]) -> Vec<u8> {
    let mut kept = sent.to_vec();
    let mut at = 0;
    walk(sent, |kind, length| {
        if matches!(kind, PduType::C2hTermReq | PduType::H2cTermReq) {
            kept.truncate(at + usize::from(kind.header_length()));
            // PLEN, bytes 7:4.
            kept.get_mut(at + 4..at + 8).expect("a whole header").fill(0);
        }
        at += length;
    });
    kept
}

/// Returns the type of the last PDU of `sent`.
fn last_pdu(sent: &[u8]) -> Option<PduType> {
    let mut last = None;
    walk(sent, |kind, _| last = Some(kind));
    last
}

/// Checks that all of `sent` is whole PDUs of the kinds that this role sends, with nothing after
/// the end.
fn check_pdus(sent: &[u8], host: bool) {
    let mut ended = false;
    walk(sent, |kind, _| {
        assert_eq!(kind.code() & 1 == 0, host, "a {kind:?} from the wrong side");
        assert!(!ended, "a {kind:?} after the connection's end");
        ended = matches!(kind, PduType::C2hTermReq | PduType::H2cTermReq);
    });
}

fn walk(mut sent: &[u8], mut each: impl FnMut(PduType, usize)) {
    while !sent.is_empty() {
        let (header, _) = Header::read_from_prefix(sent).expect("a whole header");
        let kind = PduType::from_code(header.kind).expect("a type that exists");
        assert_eq!(header.hlen, kind.header_length(), "HLEN of {kind:?}");
        let length = usize::try_from(header.plen.get()).expect("a length");
        assert!(length >= usize::from(header.hlen), "PLEN of {kind:?}");
        each(kind, length);
        sent = sent.get(length..).expect("a whole PDU");
    }
}
