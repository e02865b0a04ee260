//! The connection in the target role.

use super::encode::{self, Encoder, Piece};
use super::framing::{DataPiece, Framing};
use super::pdu::{CapsuleCmd, DataPdu, Digests, Flags, Header, Initialize, PduType, TermReq};
use super::read::{find, read};
use super::rules::{Rules, Shape};
use super::tags::Tags;
use super::tx::{Batch, Kept, Tx};
use super::{MAX_PDA, MIN_MAX_H2C_DATA, Violation};
use crate::nvm;
use crate::nvme::{Sqe, Status};
use crate::queue::{
    self, Arriving, CapsuleData, Chunk, Commands, MAX_GRANTS, Payload, Progress, Received, SlotId,
    Termination, Transport,
};

/// The parameters that this side offers and sets.
#[derive(Clone, Copy, Debug)]
pub struct TargetParams {
    /// CPDA, 0..=31: data PDUs from the host start their data at a multiple of (cpda + 1) * 4
    /// bytes.
    pub cpda: u8,
    /// Whether header digests are enabled when the host asks for them.
    pub header_digest: bool,
    /// Whether data digests are enabled when the host asks for them.
    pub data_digest: bool,
    /// MAXH2CDATA, bytes: at least 4096, a multiple of 4.
    pub max_h2c_data: u32,
    /// The most in-capsule data, bytes, until [`Transport::set_in_capsule_data`].
    pub in_capsule_data: u32,
    /// The most bytes that one R2T asks for.
    pub max_r2t_data: u32,
    /// The most bytes in one C2HData PDU.
    pub max_c2h_data: u32,
}

impl TargetParams {
    /// Makes the parameters of a target whose commands move at most `max_transfer` bytes, each in
    /// one R2T and one C2HData PDU.
    #[must_use]
    pub fn for_transfers(max_transfer: u32) -> Self {
        let params = Self::default();
        Self {
            max_h2c_data: max_transfer.max(params.max_h2c_data),
            max_r2t_data: max_transfer,
            max_c2h_data: max_transfer,
            ..params
        }
    }
}

impl Default for TargetParams {
    fn default() -> Self {
        Self {
            cpda: 0,
            header_digest: true,
            data_digest: true,
            max_h2c_data: 128 * 1024,
            in_capsule_data: super::ADMIN_IN_CAPSULE_DATA,
            max_r2t_data: 128 * 1024,
            max_c2h_data: 128 * 1024,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// After a termination request in either direction.
    Closed,
}

/// A connection in the target role: bytes in, commands out; completions in, bytes out.
///
/// At first one command may be outstanding, the Connect; [`Transport::set_queue`] opens the queue.
/// Data is fetched by R2T.
#[derive(Debug)]
pub struct TargetConnection<P> {
    params: TargetParams,
    state: State,
    rules: Rules,
    framing: Framing,
    encoder: Encoder,
    /// Place of the next bytes of the PDU's data: slot, and offset within the command's data.
    place: (SlotId, u32),
    commands: Commands,
    tags: Tags,
    /// R2T PDUs that the host takes for one command, MAXR2T + 1.
    host_r2t_limit: u32,
    in_capsule_data: u32,
    tx: Tx<P>,
}

impl<P: Payload> TargetConnection<P> {
    /// Makes a connection that waits for ICReq. Values out of range are brought into range.
    #[must_use]
    pub fn new(params: TargetParams) -> Self {
        let cpda = params.cpda.min(MAX_PDA);
        let rules = Rules {
            from_host: true,
            initialized: false,
            header_digest: false,
            data_digest: false,
            alignment: Encoder::alignment_of(cpda),
        };
        Self {
            params: TargetParams {
                cpda,
                max_h2c_data: params.max_h2c_data.max(MIN_MAX_H2C_DATA) & !3,
                max_r2t_data: params.max_r2t_data.max(4) & !3,
                max_c2h_data: params.max_c2h_data.max(4) & !3,
                ..params
            },
            state: State::Open,
            rules,
            framing: Framing::new(),
            encoder: Encoder::default(),
            place: (SlotId(0), 0),
            commands: Commands::new(),
            tags: Tags::new(1),
            host_r2t_limit: 1,
            in_capsule_data: params.in_capsule_data,
            tx: Tx::default(),
        }
    }

    #[cold]
    fn terminate(&mut self, violation: Violation, chunk: &[u8]) -> Violation {
        self.state = State::Closed;
        if violation.answered {
            let offending = self.framing.offending(chunk);
            encode::terminate(&mut self.tx, PduType::C2hTermReq, &violation, offending);
        }
        violation
    }

    #[inline(always)]
    fn head<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Head<'a>>, Violation> {
        let Some((shape, head)) = self.framing.head(input, &self.rules)? else { return Ok(None) };
        match shape.kind {
            PduType::CapsuleCmd => {
                let CapsuleCmd { sqe, .. } = find(head)?;
                let slot = Self::take(&mut self.commands, sqe, &shape, self.in_capsule_data)?;
                return Ok(Some(Head::Event(self.command(slot, &shape, input))));
            }
            PduType::H2cData => {
                let pdu = read(head)?;
                self.h2c_data(&pdu, &shape)?;
                return Ok(Some(Head::Data));
            }
            PduType::IcReq => {
                let pdu = read(head)?;
                self.initialize(&pdu)?;
                return Ok(Some(Head::Event(Received::Initialized)));
            }
            _ => {}
        }
        // The rules let pass no other type from a host.
        let pdu: TermReq = read(head)?;
        self.state = State::Closed;
        let (fes, fei) = (pdu.fes.get(), pdu.fei.get());
        let reason = Termination { code: fes, information: fei };
        Ok(Some(Head::Event(Received::Terminated(reason))))
    }

    fn initialize(&mut self, request: &Initialize) -> Result<(), Violation> {
        if request.pfv.get() != 0 {
            let what = "PFV: only PDU format version 0 is supported";
            return Err(Violation::unsupported(Initialize::PFV, what));
        }
        if request.pda > MAX_PDA {
            return Err(Violation::field(Initialize::PDA, "HPDA is more than 31"));
        }
        let asked = Digests::from_bits_retain(request.dgst);
        let header = self.params.header_digest && asked.contains(Digests::HEADER);
        let data = self.params.data_digest && asked.contains(Digests::DATA);
        (self.rules.header_digest, self.rules.data_digest) = (header, data);
        self.rules.initialized = true;
        let alignment = Encoder::alignment_of(request.pda);
        self.encoder = Encoder::new(header, data, alignment);
        self.host_r2t_limit = request.limit.get().saturating_add(1);
        let (cpda, limit) = (self.params.cpda, self.params.max_h2c_data);
        encode::initialize(
            &mut self.tx,
            PduType::IcResp,
            cpda,
            Digests::from_flags(header, data),
            limit,
        );
        Ok(())
    }

    /// Accepts a command whose capsule may have `most` bytes of data.
    #[inline]
    fn take(
        commands: &mut Commands,
        sqe: &Sqe,
        shape: &Shape,
        most: u32,
    ) -> Result<SlotId, Violation> {
        if shape.data > most {
            return Err(Violation::limit("more in-capsule data than the queue takes"));
        }
        commands
            .take(sqe)
            .ok_or_else(|| Violation::sequence("more commands outstanding than queue entries"))
    }

    /// Removes the in-capsule data of an accepted command, as far as it is there.
    #[inline(always)]
    fn command<'a>(&mut self, slot: SlotId, shape: &Shape, input: &mut &'a [u8]) -> Received<'a> {
        let data = if shape.data == 0 {
            CapsuleData::None
        } else if let Some(bytes) = self.framing.whole(input, shape) {
            CapsuleData::Whole(bytes)
        } else {
            self.framing.expect_data(shape);
            self.place = (slot, 0);
            self.commands.await_capsule(slot);
            CapsuleData::Partial { length: shape.data }
        };
        Received::Command { slot, data }
    }

    /// Handles the head of an H2CData PDU: it must answer an R2T, contiguously, within the limits.
    fn h2c_data(&mut self, pdu: &DataPdu, shape: &Shape) -> Result<(), Violation> {
        let unknown = || Violation::sequence("H2CData with a TTAG that no R2T is open for");
        let (slot, index) = self.tags.split(pdu.ttag.get());
        let slot = SlotId(slot);
        let found = self.commands.find_grant(slot, index, pdu.ttag.get());
        let (cid, grant) = found.ok_or_else(unknown)?;
        if pdu.cccid.get() != cid {
            return Err(Violation::field(DataPdu::CCCID, "CCCID is not the command of the TTAG"));
        }
        let (offset, length) = (pdu.datao.get(), pdu.datal.get());
        if length != shape.data {
            return Err(Violation::field(DataPdu::DATAL, "DATAL does not agree with PLEN"));
        }
        if length > self.params.max_h2c_data {
            return Err(Violation::limit("DATAL is more than MAXH2CDATA"));
        }
        if offset != grant.next || length > grant.left() {
            return Err(Violation::range("DATAO and DATAL are not the next bytes of the R2T"));
        }
        if shape.flags.contains(Flags::LAST) != (length == grant.left()) {
            let what = "FLAGS: LAST_PDU must be set on the last PDU of an R2T only";
            return Err(Violation::field(Header::FLAGS, what));
        }
        grant.next += length;
        self.place = (slot, offset);
        self.framing.expect_data(shape);
        Ok(())
    }

    /// Handles a piece of data; no event if the command has been answered already.
    fn piece<'a>(&mut self, bytes: &'a [u8]) -> Option<Received<'a>> {
        let (slot, offset) = self.place;
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.place.1 = offset.saturating_add(length);
        self.commands.wants_data(slot).then_some(Received::Data { slot, offset, bytes })
    }

    /// Ends a PDU's data: perhaps the end of the command's data, else more to ask for.
    fn pdu_end<'a>(&mut self, digest_ok: bool) -> Option<Received<'a>> {
        let (slot, _) = self.place;
        self.send_r2ts(slot);
        match self.commands.piece_end(slot, digest_ok) {
            Progress::More => None,
            Progress::GrantEnd => Some(Received::GrantEnd { slot }),
            Progress::End { digest_ok } => Some(Received::DataEnd { slot, digest_ok }),
            Progress::Complete(cqe) => {
                self.encoder.response(&mut self.tx, cqe);
                None
            }
        }
    }

    /// Sends the R2T PDUs that a fetch without metering may have now: of the largest allowed size,
    /// as many at once as the host takes.
    fn send_r2ts(&mut self, slot: SlotId) {
        let limit = self.tags.grants().min(MAX_GRANTS);
        let limit = u8::try_from(self.host_r2t_limit).unwrap_or(limit).min(limit);
        let most = self.params.max_r2t_data;
        while self.send_r2t(slot, false, (limit, most)).is_some() {}
    }

    /// Sends one R2T PDU, if the command may have one. Returns the number of bytes that it asks
    /// for.
    fn send_r2t(&mut self, slot: SlotId, metered: bool, limits: (u8, u32)) -> Option<u32> {
        let tags = &mut self.tags;
        let tag = |index| tags.make(slot.0, index);
        let (ttag, offset, length) = self.commands.open_grant(slot, metered, limits, tag)?;
        let cid = self.commands.cid(slot);
        self.encoder.r2t(&mut self.tx, cid, ttag, offset, length);
        Some(length)
    }

    /// Returns a part of a command's data. The data is moved once, to where it is kept: hence the
    /// part that is always inlined.
    #[inline(always)]
    fn send(&mut self, slot: SlotId, data: P, offset: u32, last: bool, result: u64) {
        if let Some((cid, is_settled)) = self.commands.find(slot) {
            let kept = self.tx.keep(data);
            self.send_kept((slot, cid, is_settled), kept, offset, last, result);
        }
    }

    fn send_kept(
        &mut self,
        (slot, cccid, is_settled): (SlotId, u16, bool),
        kept: Kept,
        offset: u32,
        last: bool,
        result: u64,
    ) {
        let success = last
            && !self.commands.sq_flow_control()
            && result == 0
            && kept.length > 0
            && is_settled;
        let last_flags = match (last, success) {
            (_, true) => Flags::LAST | Flags::SUCCESS,
            (true, false) => Flags::LAST,
            (false, false) => Flags::empty(),
        };
        self.put_data(cccid, kept, offset, last_flags);
        if success {
            self.commands.release(slot);
        } else if last {
            self.complete(slot, result, Status::SUCCESS);
        }
    }

    #[inline(always)]
    fn put_data(&mut self, cccid: u16, kept: Kept, datao: u32, last: Flags) {
        let flags = Flags::empty();
        let piece = Piece { kind: PduType::C2hData, flags, cccid, ttag: 0, datao };
        let (range, most) = ((kept, 0, kept.length), self.params.max_c2h_data);
        self.encoder.data_split(&mut self.tx, piece, range, most, last);
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

impl<P: Payload> Transport for TargetConnection<P> {
    type Payload = P;
    type Inbox = Vec<u8>;
    type Batch = Batch<P>;
    type Violation = Violation;

    /// Returns the next event from the input. On an error the C2HTermReq is queued, unless [`Violation::answered`] is
    /// false.
    ///
    /// It is always inlined: an event that goes through memory is written in small parts and read in
    /// large ones, for which the CPU waits.
    #[inline(always)]
    fn next<'a>(
        &mut self,
        input: &mut Chunk<'a, Vec<u8>>,
    ) -> Result<Option<Received<'a>>, Violation> {
        loop {
            if self.state == State::Closed {
                *input = &[];
                return Ok(None);
            }
            if !self.framing.in_data() {
                let chunk = *input;
                match self.head(input) {
                    Ok(Some(Head::Event(event))) => return Ok(Some(event)),
                    Ok(Some(Head::Data)) => {}
                    Ok(None) => return Ok(None),
                    Err(violation) => return Err(self.terminate(violation, chunk)),
                }
            }
            let event = match self.framing.data(input) {
                None => return Ok(None),
                Some(DataPiece::Bytes(bytes)) => self.piece(bytes),
                Some(DataPiece::End { digest_ok }) => self.pdu_end(digest_ok),
            };
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    fn set_queue(&mut self, entries: u16, sq_flow_control: bool) {
        self.commands.set_queue(entries, sq_flow_control);
        self.tags = Tags::new(self.commands.entries());
    }

    fn set_in_capsule_data(&mut self, bytes: u32) {
        self.in_capsule_data = bytes;
    }

    #[inline]
    fn check_place(
        &self,
        sqe: &Sqe,
        transfer: &nvm::Transfer,
        data: &CapsuleData<'_>,
    ) -> Result<(), Status> {
        queue::check_place(sqe, transfer, data)
    }

    fn fetch(&mut self, slot: SlotId, length: u32) {
        if self.commands.fetch(slot, length, false) {
            self.send_r2ts(slot);
        }
    }

    fn fetch_metered(&mut self, slot: SlotId, length: u32) {
        self.commands.fetch(slot, length, true);
    }

    fn grant(&mut self, slot: SlotId, most: u32) -> u32 {
        let most = (most.max(4) & !3).min(self.params.max_r2t_data);
        self.send_r2t(slot, true, (1, most)).unwrap_or(0)
    }

    #[inline]
    fn complete(&mut self, slot: SlotId, result: u64, status: Status) {
        if let Some(cqe) = self.commands.complete(slot, result, status) {
            self.encoder.response(&mut self.tx, cqe);
        }
    }

    /// Sends C2HData PDUs, the last of them with the SUCCESS flag where that may stand for the
    /// response (flow control off, `result` 0), else a CapsuleResp.
    #[inline(always)]
    fn complete_with_data(&mut self, slot: SlotId, data: P, result: u64) {
        self.send(slot, data, 0, true, result);
    }

    fn send_data(&mut self, slot: SlotId, data: P, offset: u32, last: bool) {
        self.send(slot, data, offset, last, 0);
    }

    fn withdraw(&mut self, slot: SlotId) {
        if self.commands.is_settled(slot) {
            self.commands.release(slot);
        }
    }

    #[inline]
    fn sqe_of(&self, slot: SlotId) -> &Sqe {
        self.commands.sqe_of(slot)
    }

    fn find_cid(&self, cid: u16) -> Option<SlotId> {
        self.commands.find_cid(cid)
    }

    #[inline]
    fn in_flight(&self) -> usize {
        self.commands.in_flight()
    }

    #[inline]
    fn in_data(&self) -> bool {
        self.framing.in_data()
    }

    fn brings_data(&self, input: &&[u8]) -> bool {
        let shape = self.framing.next_shape(input, &self.rules);
        shape.is_some_and(|shape| shape.kind == PduType::CapsuleCmd && shape.data > 0)
    }

    fn arriving(&self) -> Option<Arriving> {
        let length = self.framing.data_left();
        let (slot, offset) = self.place;
        let wanted = length > 0 && self.commands.wants_data(slot);
        wanted.then_some(Arriving { slot, offset, length })
    }

    fn arrived(&mut self, mut bytes: &[u8]) -> bool {
        // One event has all of these bytes, or none if the command was aborted: see `arriving`.
        let event = self.next(&mut bytes);
        let wanted = matches!(event, Ok(Some(Received::Data { .. })));
        debug_assert!(bytes.is_empty() && (wanted || matches!(event, Ok(None))));
        wanted
    }

    #[inline]
    fn unsent(&self) -> usize {
        self.tx.pending_bytes()
    }

    #[inline]
    fn take_batch(&mut self) -> Option<Batch<P>> {
        self.tx.take()
    }

    #[inline]
    fn give_back(&mut self, batch: Batch<P>) {
        self.tx.give_back(batch);
    }

    fn is_sending(&self) -> bool {
        self.tx.in_flight()
    }
}

/// The result of a PDU head.
enum Head<'a> {
    Event(Received<'a>),
    /// The PDU's data follows.
    Data,
}
