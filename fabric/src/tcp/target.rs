//! The connection in the target role.

use super::encode::{self, Encoder, Piece};
use super::framing::{DataPiece, Framing};
use super::grants::{MAX_GRANTS, Tags};
use super::pdu::{self, CapsuleCmd, DataPdu, Digests, Flags, Header, Initialize, PduType, TermReq};
use super::received::{CapsuleData, Received};
use super::rules::{Rules, Shape};
use super::slots::{Awaiting, Slot, SlotId, Slots};
use super::tx::{Kept, Tx};
use super::{MAX_PDA, MIN_MAX_H2C_DATA, Payload, Violation};
use crate::nvme::{Cqe, Sqe, Status};

/// What this side offers and demands.
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
    /// The most in-capsule data, bytes, until [`TargetConnection::set_queue`].
    pub in_capsule_data: u32,
    /// The most bytes that one R2T asks for.
    pub max_r2t_data: u32,
    /// The most bytes in one C2HData PDU.
    pub max_c2h_data: u32,
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

/// The PDU whose data is arriving.
#[derive(Clone, Copy, Debug)]
struct Arriving {
    slot: SlotId,
    /// Offset of the next byte within the command's data.
    offset: u32,
}

/// A connection in the target role: bytes in, commands out; completions in, bytes out.
///
/// At first one command may be outstanding, the Connect; [`Self::set_queue`] opens the queue.
#[derive(Debug)]
pub struct TargetConnection<P> {
    params: TargetParams,
    state: State,
    rules: Rules,
    framing: Framing,
    encoder: Encoder,
    arriving: Arriving,
    slots: Slots,
    tags: Tags,
    /// R2T PDUs that the host takes for one command, MAXR2T + 1.
    host_r2t_limit: u32,
    entries: u32,
    sq_flow_control: bool,
    in_capsule_data: u32,
    /// Submission queue head: commands received, modulo the entries.
    sqhd: u32,
    tx: Tx<P>,
}

impl<P: Payload> TargetConnection<P> {
    /// A connection that waits for ICReq. Values out of range are brought into range.
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
            arriving: Arriving { slot: SlotId(0), offset: 0 },
            slots: Slots::default(),
            tags: Tags::new(1),
            host_r2t_limit: 1,
            entries: 1,
            sq_flow_control: true,
            in_capsule_data: params.in_capsule_data,
            sqhd: 0,
            tx: Tx::default(),
        }
    }

    /// Sizes the queue once Connect succeeded, before its completion: number of entries (SQSIZE +
    /// 1), whether submission queue flow control is in use (CATTR bit 2 clear), and the most
    /// in-capsule data in bytes (admin queue: [`super::ADMIN_IN_CAPSULE_DATA`]).
    pub fn set_queue(&mut self, entries: u16, sq_flow_control: bool, in_capsule_data: u32) {
        self.entries = u32::from(entries.max(1));
        self.sqhd %= self.entries;
        self.tags = Tags::new(self.entries);
        self.sq_flow_control = sq_flow_control;
        self.in_capsule_data = in_capsule_data;
    }

    /// Consumes from `input` what makes the next event. None: more bytes are needed, `input` is
    /// used up.
    ///
    /// # Errors
    ///
    /// The peer broke the protocol: the C2HTermReq is queued (unless [`Violation::answered`] is
    /// false); send what is queued, then close. Input is ignored from then on.
    #[inline]
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Received<'a>>, Violation> {
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

    #[cold]
    fn terminate(&mut self, violation: Violation, chunk: &[u8]) -> Violation {
        self.state = State::Closed;
        if violation.answered {
            let offending = self.framing.offending(chunk);
            encode::terminate(&mut self.tx, PduType::C2hTermReq, &violation, offending);
        }
        violation
    }

    #[inline]
    fn head<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Head<'a>>, Violation> {
        let Some((shape, head)) = self.framing.head(input, &self.rules)? else { return Ok(None) };
        match shape.kind {
            PduType::CapsuleCmd => {
                let CapsuleCmd { sqe, .. } = pdu::read(head)?;
                return self.command(sqe, &shape, input).map(|event| Some(Head::Event(event)));
            }
            PduType::H2cData => {
                let pdu = pdu::read(head)?;
                self.h2c_data(&pdu, &shape)?;
                return Ok(Some(Head::Data));
            }
            PduType::IcReq => {
                let pdu = pdu::read(head)?;
                self.initialize(&pdu)?;
                return Ok(Some(Head::Event(Received::Initialized)));
            }
            _ => {}
        }
        // The rules let pass no other type from a host.
        let pdu: TermReq = pdu::read(head)?;
        self.state = State::Closed;
        let (fes, fei) = (pdu.fes.get(), pdu.fei.get());
        Ok(Some(Head::Event(Received::Terminated { fes, fei })))
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
        self.encoder = Encoder { header_digest: header, data_digest: data, alignment };
        self.host_r2t_limit = request.limit.get().saturating_add(1);
        let (cpda, limit) = (self.params.cpda, self.params.max_h2c_data);
        encode::initialize(&mut self.tx, PduType::IcResp, cpda, Digests::of(header, data), limit);
        Ok(())
    }

    #[inline]
    fn command<'a>(
        &mut self,
        sqe: Sqe,
        shape: &Shape,
        input: &mut &'a [u8],
    ) -> Result<Received<'a>, Violation> {
        if shape.data > self.in_capsule_data {
            return Err(Violation::limit("more in-capsule data than the queue takes"));
        }
        let slot = self
            .slots
            .take(sqe, self.entries as usize)
            .ok_or_else(|| Violation::sequence("more commands outstanding than queue entries"))?;
        self.sqhd = if self.sqhd + 1 >= self.entries { 0 } else { self.sqhd + 1 };
        let data = if shape.data == 0 {
            CapsuleData::None
        } else if let Some(bytes) = self.framing.whole(input, shape) {
            CapsuleData::Whole(bytes)
        } else {
            self.framing.expect_data(shape);
            self.arriving = Arriving { slot, offset: 0 };
            if let Some(command) = self.slots.get_mut(slot) {
                command.awaiting = Awaiting::Capsule;
            }
            CapsuleData::Partial { length: shape.data }
        };
        Ok(Received::Command { slot, sqe, data })
    }

    /// The head of an H2CData PDU: it must answer an R2T, contiguously, within the limits.
    fn h2c_data(&mut self, pdu: &DataPdu, shape: &Shape) -> Result<(), Violation> {
        let unknown = || Violation::sequence("H2CData with a TTAG that no R2T is open for");
        let (slot, index) = self.tags.split(pdu.ttag.get());
        let slot = SlotId(slot);
        let (command, transfer) = self.slots.receiving(slot).ok_or_else(unknown)?;
        let grant = transfer.grants.find(index, pdu.ttag.get()).ok_or_else(unknown)?;
        if pdu.cccid.get() != command.sqe.cid.get() {
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
        self.arriving = Arriving { slot, offset };
        self.framing.expect_data(shape);
        Ok(())
    }

    /// A piece of data; no event if the command has been answered already.
    fn piece<'a>(&mut self, bytes: &'a [u8]) -> Option<Received<'a>> {
        let Arriving { slot, offset } = self.arriving;
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.arriving.offset = offset.saturating_add(length);
        self.slots.receiving(slot).filter(|(_, transfer)| transfer.deferred.is_none())?;
        Some(Received::Data { slot, offset, bytes })
    }

    /// The end of a PDU's data: perhaps the end of the command's data, else more to ask for.
    fn pdu_end<'a>(&mut self, digest_ok: bool) -> Option<Received<'a>> {
        let slot = self.arriving.slot;
        let command = self.slots.get_mut(slot)?;
        command.digest_ok &= digest_ok;
        if command.awaiting == Awaiting::Granted {
            self.grant(slot);
        }
        let (command, transfer) = self.slots.receiving(slot)?;
        if command.awaiting == Awaiting::Granted && !transfer.grants.done() {
            let grants = &transfer.grants;
            let more = grants.metered() && grants.unasked() > 0 && grants.idle();
            return more.then_some(Received::GrantEnd { slot });
        }
        command.awaiting = Awaiting::Nothing;
        let digest_ok = command.digest_ok;
        if let Some((result, status)) = transfer.deferred.take() {
            self.complete(slot, result, status);
            return None;
        }
        Some(Received::DataEnd { slot, digest_ok })
    }

    /// Asks the host for `length` bytes of the command's data, in R2T PDUs of the largest allowed
    /// size, as many at once as the host takes. [`Received::Data`] and then [`Received::DataEnd`]
    /// follow. To be called at most once for a command, and not for one that had in-capsule data;
    /// a length of 0 asks for nothing.
    pub fn request_data(&mut self, slot: SlotId, length: u32) {
        if self.request(slot, length, false) {
            self.grant(slot);
        }
    }

    /// Like [`Self::request_data`], but asks for nothing yet: each R2T is sent by
    /// [`Self::grant_data`]. After all that was granted has come, and before there is all of the
    /// data, comes [`Received::GrantEnd`].
    pub fn request_data_metered(&mut self, slot: SlotId, length: u32) {
        self.request(slot, length, true);
    }

    /// Asks for at most `most` further bytes (and a DWORD at least) of data that was requested by
    /// [`Self::request_data_metered`]; the bytes asked for: 0 where all was asked for already, or
    /// the host still owes what was.
    pub fn grant_data(&mut self, slot: SlotId, most: u32) -> u32 {
        let Some((command, transfer)) = self.slots.receiving(slot) else { return 0 };
        if command.awaiting != Awaiting::Granted || !transfer.grants.metered() {
            return 0;
        }
        let most = (most.max(4) & !3).min(self.params.max_r2t_data);
        let (cid, tags) = (command.sqe.cid.get(), &mut self.tags);
        let opened = transfer.grants.open(1, most, |index| tags.make(slot.0, index));
        let Some((ttag, offset, length)) = opened else { return 0 };
        self.encoder.r2t(&mut self.tx, cid, ttag, offset, length);
        length
    }

    fn request(&mut self, slot: SlotId, length: u32, metered: bool) -> bool {
        let Some((command, transfer)) = self.slots.receiving(slot) else { return false };
        if length == 0 || command.awaiting != Awaiting::Nothing {
            return false;
        }
        command.awaiting = Awaiting::Granted;
        transfer.grants.start(length, metered);
        true
    }

    /// Sends the R2T PDUs that the command may have now.
    fn grant(&mut self, slot: SlotId) {
        let Some((command, transfer)) = self.slots.receiving(slot) else { return };
        if transfer.grants.metered() {
            return;
        }
        let limit = self.tags.grants().min(MAX_GRANTS);
        let limit = u8::try_from(self.host_r2t_limit).unwrap_or(limit).min(limit);
        let (cid, most) = (command.sqe.cid.get(), self.params.max_r2t_data);
        loop {
            let tags = &mut self.tags;
            let opened = transfer.grants.open(limit, most, |index| tags.make(slot.0, index));
            let Some((ttag, offset, length)) = opened else { return };
            self.encoder.r2t(&mut self.tx, cid, ttag, offset, length);
        }
    }

    /// Completes a command: a CapsuleResp with `result` in DW0 and DW1; the slot is free again.
    ///
    /// While data that the host owes is still on its way, the response waits for it, the data is
    /// dropped without events, and the slot stays taken until then.
    #[inline]
    pub fn complete(&mut self, slot: SlotId, result: u64, status: Status) {
        let Some(command) = self.slots.get(slot) else { return };
        if command.awaiting != Awaiting::Nothing {
            self.defer(slot, result, status);
            return;
        }
        let cid = command.sqe.cid.get();
        self.slots.release(slot);
        let sqhd = if self.sq_flow_control { u16::try_from(self.sqhd).ok() } else { None };
        let cqe = Cqe::new(cid, sqhd.unwrap_or(u16::MAX), result, status);
        self.encoder.response(&mut self.tx, cqe);
    }

    /// Forgets a command that is the shell's, without an answer: the slot is free again.
    pub fn withdraw(&mut self, slot: SlotId) {
        if self.slots.get(slot).is_some_and(|command| command.awaiting == Awaiting::Nothing) {
            self.slots.release(slot);
        }
    }

    #[cold]
    fn defer(&mut self, slot: SlotId, result: u64, status: Status) {
        let Some((command, transfer)) = self.slots.receiving(slot) else { return };
        if command.awaiting == Awaiting::Granted {
            transfer.grants.stop();
            if transfer.grants.done() {
                // Nothing is on its way: a metered transfer between two grants.
                command.awaiting = Awaiting::Nothing;
                self.complete(slot, result, status);
                return;
            }
        }
        transfer.deferred = Some((result, status));
    }

    /// Completes a command successfully with `data` from offset 0: C2HData PDUs, the last of them
    /// with the SUCCESS flag where that may stand for the response (flow control off, `result`
    /// 0), else a CapsuleResp. The slot is free again.
    #[inline]
    pub fn complete_with_data(&mut self, slot: SlotId, data: P, result: u64) {
        self.send(slot, data, 0, true, result);
    }

    /// Sends a part of a command's data that starts at `offset`; parts go in order. With `last`
    /// the command is completed successfully as by [`Self::complete_with_data`]. A command that
    /// fails on the way is completed with [`Self::complete`].
    pub fn send_data(&mut self, slot: SlotId, data: P, offset: u32, last: bool) {
        self.send(slot, data, offset, last, 0);
    }

    #[inline]
    fn send(&mut self, slot: SlotId, data: P, offset: u32, last: bool, result: u64) {
        let Some(Slot { sqe, awaiting, .. }) = self.slots.get(slot) else { return };
        let cccid = sqe.cid.get();
        let kept = self.tx.keep(data);
        let success = last
            && !self.sq_flow_control
            && result == 0
            && kept.length > 0
            && *awaiting == Awaiting::Nothing;
        let last_flags = match (last, success) {
            (_, true) => Flags::LAST | Flags::SUCCESS,
            (true, false) => Flags::LAST,
            (false, false) => Flags::empty(),
        };
        self.put_data(cccid, kept, offset, last_flags);
        if success {
            self.slots.release(slot);
        } else if last {
            self.complete(slot, result, Status::SUCCESS);
        }
    }

    #[inline]
    fn put_data(&mut self, cccid: u16, kept: Kept, datao: u32, last: Flags) {
        let flags = Flags::empty();
        let piece = Piece { kind: PduType::C2hData, flags, cccid, ttag: 0, datao };
        let (range, most) = ((kept, 0, kept.length), self.params.max_c2h_data);
        self.encoder.data_split(&mut self.tx, piece, range, most, last);
    }

    /// The command in a slot; all zeroes if the slot holds none.
    #[must_use]
    #[inline]
    pub fn sqe_of(&self, slot: SlotId) -> &Sqe {
        static NO_COMMAND: Sqe = zerocopy::transmute!([0u8; 64]);
        self.slots.get(slot).map_or(&NO_COMMAND, |slot| &slot.sqe)
    }

    /// The identifier of the command in a slot.
    #[must_use]
    #[inline]
    pub fn cid(&self, slot: SlotId) -> u16 {
        self.sqe_of(slot).cid.get()
    }

    /// The slot of the outstanding command with that identifier: a search, for Abort.
    #[must_use]
    pub fn find_cid(&self, cid: u16) -> Option<SlotId> {
        let mut commands = self.slots.outstanding();
        commands.find(|(_, slot)| slot.sqe.cid.get() == cid).map(|(id, _)| id)
    }

    /// The slots of all outstanding commands.
    pub fn outstanding(&self) -> impl Iterator<Item = SlotId> {
        self.slots.outstanding().map(|(id, _)| id)
    }

    /// Number of commands that are not completed.
    #[must_use]
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.slots.in_use()
    }

    /// Whether header digests and data digests are in use.
    #[must_use]
    pub fn digests(&self) -> (bool, bool) {
        (self.encoder.header_digest, self.encoder.data_digest)
    }

    /// What the next bytes of the stream are, where they are data of a command: its slot, their
    /// offset within its data, and how many follow. A shell may receive these straight into the
    /// command's buffer and hand that to [`Self::next`]: the [`Received::Data`] then borrows from
    /// where the bytes belong.
    #[must_use]
    pub fn arriving(&self) -> Option<(SlotId, u32, u32)> {
        let left = self.framing.data_left();
        let Arriving { slot, offset } = self.arriving;
        let wanted = left > 0 && self.slots.transfer(slot)?.deferred.is_none();
        wanted.then_some((slot, offset, left))
    }

    /// Whether a PDU's data is arriving: it has begun and its end (or its digest) has not come.
    #[must_use]
    #[inline]
    pub fn in_data(&self) -> bool {
        self.framing.in_data()
    }

    /// What is to be sent.
    #[inline]
    pub fn tx(&mut self) -> &mut Tx<P> {
        &mut self.tx
    }
}

/// What a PDU head led to.
enum Head<'a> {
    Event(Received<'a>),
    /// Its data is to be received.
    Data,
}
