//! The connection in the host role.

use super::encode::{self, Encoder, Piece};
use super::framing::{DataPiece, Framing};
use super::pdu::{CapsuleResp, DataPdu, Digests, Flags, Header, Initialize, PduType, R2t, TermReq};
use super::read::read;
use super::rules::{Rules, Shape};
use super::tx::Tx;
use super::{ADMIN_IN_CAPSULE_DATA, MAX_PDA, MIN_MAX_H2C_DATA, Violation};
use crate::nvme::{Cqe, SglDescriptor, Sqe, Status};
use crate::queue::{HostReceived, HostTransport, Payload, SubmitError, Termination, length_of};

/// The parameters that this side sets and asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostParams {
    /// HPDA, 0..=31: data PDUs from the target start their data at a multiple of (hpda + 1) * 4
    /// bytes.
    pub hpda: u8,
    /// Whether to ask for header digests.
    pub header_digest: bool,
    /// Whether to ask for data digests.
    pub data_digest: bool,
    /// MAXR2T: R2T PDUs that may be outstanding for one command, 0's based.
    pub maxr2t: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Initializing,
    Ready,
    Closed,
}

/// A command that is not complete.
#[derive(Debug)]
struct Command<P> {
    /// Data that the command writes by R2T.
    data: Option<P>,
    /// Bytes of `data` that the target has asked for.
    asked: u32,
    /// Number of bytes that the command reads.
    expected: u32,
    /// Number of those bytes that have arrived.
    received: u32,
    /// Whether the last C2HData PDU has arrived.
    last: bool,
    digest_ok: bool,
}

/// The C2HData PDU whose data is arriving.
#[derive(Clone, Copy, Debug, Default)]
struct Arriving {
    cid: u16,
    offset: u32,
    /// Whether the SUCCESS flag is set, so that the PDU completes its command.
    success: bool,
}

/// A connection in the host role: commands in, bytes out; bytes in, completions out.
#[derive(Debug)]
pub struct HostConnection<P> {
    params: HostParams,
    state: State,
    rules: Rules,
    framing: Framing,
    encoder: Encoder,
    arriving: Arriving,
    /// A response to report after the present event.
    pending: Option<u16>,
    /// Commands by their identifiers; the table grows to the largest in use.
    commands: Vec<Option<Command<P>>>,
    in_flight: usize,
    max_h2c_data: u32,
    in_capsule_data: u32,
    tx: Tx<P>,
}

impl<P: Payload + Clone> HostConnection<P> {
    /// Makes a connection with the ICReq queued. An HPDA above 31 counts as 31.
    #[must_use]
    pub fn new(params: HostParams) -> Self {
        let params = HostParams { hpda: params.hpda.min(MAX_PDA), ..params };
        let rules = Rules {
            from_host: false,
            initialized: false,
            header_digest: false,
            data_digest: false,
            alignment: Encoder::alignment_of(params.hpda),
        };
        let digests = Digests::from_flags(params.header_digest, params.data_digest);
        let mut tx = Tx::default();
        encode::initialize(&mut tx, PduType::IcReq, params.hpda, digests, params.maxr2t);
        Self {
            params,
            state: State::Initializing,
            rules,
            framing: Framing::new(),
            encoder: Encoder::default(),
            arriving: Arriving::default(),
            pending: None,
            commands: Vec::new(),
            in_flight: 0,
            max_h2c_data: MIN_MAX_H2C_DATA,
            in_capsule_data: ADMIN_IN_CAPSULE_DATA,
            tx,
        }
    }

    /// Returns the table entry of an identifier that is not in use.
    #[inline]
    fn free_entry(&mut self, cid: u16) -> Option<&mut Option<Command<P>>> {
        let index = usize::from(cid);
        if index >= self.commands.len() {
            self.commands.resize_with(index + 1, || None);
        }
        self.commands.get_mut(index).filter(|entry| entry.is_none())
    }

    #[cold]
    fn terminate(&mut self, violation: Violation, chunk: &[u8]) -> Violation {
        self.state = State::Closed;
        if violation.answered {
            let offending = self.framing.offending(chunk);
            encode::terminate(&mut self.tx, PduType::H2cTermReq, &violation, offending);
        }
        violation
    }

    #[inline]
    fn head<'a>(&mut self, input: &mut &[u8]) -> Result<Option<Head<'a>>, Violation> {
        let Some((shape, head)) = self.framing.head(input, &self.rules)? else { return Ok(None) };
        match shape.kind {
            PduType::C2hData => {
                let pdu = read(head)?;
                self.c2h_data(&pdu, &shape)?;
                return Ok(Some(Head::Handled));
            }
            PduType::CapsuleResp => {
                let CapsuleResp { cqe, .. } = read(head)?;
                let event = self.response(cqe).ok_or_else(|| {
                    let what = "the completion's CID matches no outstanding command";
                    Violation::field(CapsuleResp::CID, what)
                })?;
                return Ok(Some(Head::Event(event)));
            }
            PduType::R2t => {
                let pdu = read(head)?;
                self.r2t(&pdu)?;
                return Ok(Some(Head::Handled));
            }
            PduType::IcResp => {
                let pdu = read(head)?;
                return self.initialize(&pdu).map(|event| Some(Head::Event(event)));
            }
            _ => {}
        }
        // The rules let pass no other type from a target.
        let pdu: TermReq = read(head)?;
        self.state = State::Closed;
        let (fes, fei) = (pdu.fes.get(), pdu.fei.get());
        let reason = Termination { code: fes, information: fei };
        Ok(Some(Head::Event(HostReceived::Terminated(reason))))
    }

    fn initialize<'a>(&mut self, response: &Initialize) -> Result<HostReceived<'a>, Violation> {
        if response.pfv.get() != 0 {
            let what = "PFV: only PDU format version 0 is supported";
            return Err(Violation::unsupported(Initialize::PFV, what));
        }
        if response.pda > MAX_PDA {
            return Err(Violation::field(Initialize::PDA, "CPDA is more than 31"));
        }
        let granted = Digests::from_bits_retain(response.dgst);
        let (header, data) = (granted.contains(Digests::HEADER), granted.contains(Digests::DATA));
        if header && !self.params.header_digest || data && !self.params.data_digest {
            let what = "DGST enables a digest that was not asked for";
            return Err(Violation::unsupported(Initialize::DGST, what));
        }
        let max_h2c_data = response.limit.get();
        if max_h2c_data < MIN_MAX_H2C_DATA {
            return Err(Violation::field(Initialize::LIMIT, "MAXH2CDATA is less than 4096"));
        }
        (self.rules.header_digest, self.rules.data_digest) = (header, data);
        self.rules.initialized = true;
        let alignment = Encoder::alignment_of(response.pda);
        self.encoder = Encoder::new(header, data, alignment);
        self.max_h2c_data = max_h2c_data & !3;
        self.state = State::Ready;
        Ok(HostReceived::Ready { max_h2c_data, header_digest: header, data_digest: data })
    }

    /// Handles the head of a C2HData PDU: it must bring the next bytes that its command reads.
    #[inline]
    fn c2h_data(&mut self, pdu: &DataPdu, shape: &Shape) -> Result<(), Violation> {
        let cid = pdu.cccid.get();
        let Some(Some(command)) = self.commands.get_mut(usize::from(cid)) else {
            return Err(Violation::field(DataPdu::CCCID, "CCCID is not an outstanding command"));
        };
        let (offset, length) = (pdu.datao.get(), pdu.datal.get());
        if length != shape.data {
            return Err(Violation::field(DataPdu::DATAL, "DATAL does not agree with PLEN"));
        }
        let (last, success) =
            (shape.flags.contains(Flags::LAST), shape.flags.contains(Flags::SUCCESS));
        if success && !last {
            let what = "FLAGS: SUCCESS without LAST_PDU";
            return Err(Violation::field(Header::FLAGS, what));
        }
        if command.last {
            return Err(Violation::sequence("C2HData after the last one of its command"));
        }
        if offset != command.received || length > command.expected - command.received {
            return Err(Violation::range("DATAO and DATAL are not the next bytes of the command"));
        }
        command.received += length;
        command.last = last;
        self.arriving = Arriving { cid, offset, success };
        self.framing.expect_data(shape);
        Ok(())
    }

    #[inline]
    fn piece<'a>(&mut self, bytes: &'a [u8]) -> HostReceived<'a> {
        let Arriving { cid, offset, .. } = self.arriving;
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.arriving.offset = offset.saturating_add(length);
        HostReceived::ReadData { cid, offset, bytes }
    }

    /// Ends a C2HData PDU's data.
    #[inline]
    fn pdu_end<'a>(&mut self, digest_ok: bool) -> Option<HostReceived<'a>> {
        let Arriving { cid, success, .. } = self.arriving;
        if digest_ok {
            return if success { self.success(cid) } else { None };
        }
        if let Some(Some(command)) = self.commands.get_mut(usize::from(cid)) {
            command.digest_ok = false;
        }
        self.pending = success.then_some(cid);
        Some(HostReceived::DigestError { cid })
    }

    /// Makes the response that the SUCCESS flag stands for.
    #[inline]
    fn success<'a>(&mut self, cid: u16) -> Option<HostReceived<'a>> {
        self.response(Cqe::new(cid, u16::MAX, 0, Status::SUCCESS))
    }

    #[inline]
    fn response<'a>(&mut self, mut cqe: Cqe) -> Option<HostReceived<'a>> {
        let cid = cqe.cid.get();
        let command = self.commands.get_mut(usize::from(cid))?.take()?;
        self.in_flight -= 1;
        if !command.digest_ok && cqe.status().is_success() {
            cqe = Cqe::new(cid, cqe.sqhd.get(), 0, Status::TRANSIENT_TRANSPORT_ERROR);
        }
        Some(HostReceived::Response { cid, cqe, received: command.received })
    }

    /// Answers an R2T at once, so that the number outstanding never exceeds MAXR2T + 1.
    fn r2t(&mut self, pdu: &R2t) -> Result<(), Violation> {
        let cccid = pdu.cccid.get();
        let entry = self.commands.get_mut(usize::from(cccid)).and_then(Option::as_mut);
        let Some(Command { data: Some(data), asked, .. }) = entry else {
            let what = "CCCID is not an outstanding command with data to send";
            return Err(Violation::field(R2t::CCCID, what));
        };
        let (offset, length) = (pdu.r2to.get(), pdu.r2tl.get());
        if length == 0 {
            return Err(Violation::field(R2t::R2TL, "R2TL is 0"));
        }
        if offset != *asked || length > length_of(data) - *asked {
            return Err(Violation::range("R2TO and R2TL are not the next bytes of the command"));
        }
        *asked += length;
        let kept = self.tx.keep(data.clone());
        let (kind, flags) = (PduType::H2cData, Flags::empty());
        let piece = Piece { kind, flags, cccid, ttag: pdu.ttag.get(), datao: offset };
        let range = (kept, offset, offset + length);
        self.encoder.data_split(&mut self.tx, piece, range, self.max_h2c_data, Flags::LAST);
        Ok(())
    }

    /// Returns whether header digests and data digests are in use.
    #[must_use]
    pub fn digests(&self) -> (bool, bool) {
        (self.encoder.header_digest, self.encoder.data_digest)
    }

    /// Returns the queue of what this end sends.
    #[inline]
    pub fn tx(&mut self) -> &mut Tx<P> {
        &mut self.tx
    }
}

impl<P: Payload + Clone> HostTransport for HostConnection<P> {
    type Payload = P;
    type Chunk<'a> = &'a [u8];
    type Violation = Violation;

    fn set_in_capsule_data(&mut self, bytes: u32) {
        self.in_capsule_data = bytes;
    }

    #[inline]
    fn submit(
        &mut self,
        mut sqe: Sqe,
        data: Option<P>,
        read_length: u32,
    ) -> Result<(), SubmitError> {
        if self.state != State::Ready {
            return Err(SubmitError::NotReady);
        }
        let cid = sqe.cid.get();
        let (limit, length) = (self.in_capsule_data, data.as_ref().map_or(0, length_of));
        let in_capsule = length > 0 && length <= limit;
        let entry = self.free_entry(cid).ok_or(SubmitError::CidInUse(cid))?;
        let command = entry.insert(Command {
            data: None,
            asked: 0,
            expected: read_length,
            received: 0,
            last: false,
            digest_ok: true,
        });
        sqe.flags = sqe.flags & 0b11 | 0b01 << 6;
        sqe.sgl = if in_capsule {
            SglDescriptor::in_capsule(length)
        } else {
            SglDescriptor::transport(length.max(read_length))
        };
        match data {
            Some(data) if in_capsule => self.encoder.command_with_data(&mut self.tx, sqe, data),
            data => {
                command.data = data;
                self.encoder.command(&mut self.tx, sqe);
            }
        }
        self.in_flight += 1;
        Ok(())
    }

    /// Returns the next event from the input. On an error the H2CTermReq is queued, unless [`Violation::answered`] is
    /// false.
    #[inline]
    fn next<'a>(
        &mut self,
        input: &mut Self::Chunk<'a>,
    ) -> Result<Option<HostReceived<'a>>, Violation> {
        if let Some(cid) = self.pending.take() {
            return Ok(self.success(cid));
        }
        loop {
            if self.state == State::Closed {
                *input = &[];
                return Ok(None);
            }
            if !self.framing.in_data() {
                let chunk = *input;
                match self.head(input) {
                    Ok(Some(Head::Event(event))) => return Ok(Some(event)),
                    Ok(Some(Head::Handled)) => continue,
                    Ok(None) => return Ok(None),
                    Err(violation) => return Err(self.terminate(violation, chunk)),
                }
            }
            let event = match self.framing.data(input) {
                None => return Ok(None),
                Some(DataPiece::Bytes(bytes)) => Some(self.piece(bytes)),
                Some(DataPiece::End { digest_ok }) => self.pdu_end(digest_ok),
            };
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}

/// The result of a PDU head.
enum Head<'a> {
    Event(HostReceived<'a>),
    /// There is nothing to report yet.
    Handled,
}
