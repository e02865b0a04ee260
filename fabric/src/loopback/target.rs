//! The target role.

use core::fmt::Debug;

use super::{DataMessage, GrantMessage, ToHost, ToTarget, Violation};
use crate::nvm;
use crate::nvme::{Sqe, Status};
use crate::queue::{
    self, Arriving, CapsuleData, Chunk, Commands, MAX_GRANTS, Payload, Progress, Received, SlotId,
    Termination, Transport, length_of,
};

/// The parameters that the target sets.
#[derive(Clone, Copy, Debug)]
pub struct LoopbackParams {
    /// The most in-capsule data, bytes, until [`Transport::set_in_capsule_data`].
    pub in_capsule_data: u32,
    /// The most bytes that one grant allows.
    pub max_grant: u32,
    /// The most bytes in one message of the host.
    pub max_data: u32,
    /// Grants that may be open for one command, 1..=4.
    pub grants: u8,
}

impl Default for LoopbackParams {
    fn default() -> Self {
        Self {
            in_capsule_data: crate::tcp::ADMIN_IN_CAPSULE_DATA,
            max_grant: 128 * 1024,
            max_data: 128 * 1024,
            grants: 1,
        }
    }
}

/// A queue's target end; `P` is the payload of what it returns, `H` that of the host's writes.
#[derive(Debug)]
pub struct LoopbackTarget<P, H> {
    params: LoopbackParams,
    in_capsule_data: u32,
    commands: Commands,
    /// Number of the last grant.
    tag: u16,
    /// Whether the connection's set-up was reported.
    opened: bool,
    closed: bool,
    /// Slot of a piece of data that was reported and whose end was not.
    ending: Option<SlotId>,
    outbox: Vec<ToHost<P>>,
    /// Number of bytes of the messages in the outbox, with their data.
    unsent: usize,
    /// Batch that was given back, with the messages that were not sent.
    batch: Vec<ToHost<P>>,
    /// Whether a batch is with the caller of [`Transport::take_batch`].
    taken: bool,
    host_payload: core::marker::PhantomData<fn(H)>,
}

impl<P: Payload, H: Payload> LoopbackTarget<P, H> {
    /// Makes a target's end with its [`ToHost::Accepted`] in the outbox. Parameters out of range
    /// are brought into range.
    #[must_use]
    pub fn new(params: LoopbackParams) -> Self {
        let params = LoopbackParams {
            max_grant: params.max_grant.max(4) & !3,
            max_data: params.max_data.max(1),
            grants: params.grants.clamp(1, MAX_GRANTS),
            ..params
        };
        let mut target = Self {
            params,
            in_capsule_data: params.in_capsule_data,
            commands: Commands::new(),
            tag: 0,
            opened: false,
            closed: false,
            ending: None,
            outbox: Vec::new(),
            unsent: 0,
            batch: Vec::new(),
            taken: false,
            host_payload: core::marker::PhantomData,
        };
        target.send(ToHost::Accepted { max_data: params.max_data });
        target
    }

    fn close(&mut self, violation: Violation) -> Violation {
        self.closed = true;
        self.send(ToHost::Terminated(violation));
        violation
    }

    fn command<'a>(&mut self, sqe: &Sqe, data: Option<&'a H>) -> Result<Received<'a>, Violation> {
        let bytes = data.map_or(&[][..], Payload::bytes);
        if bytes.len() > self.in_capsule_data as usize {
            return Err(Violation::CAPSULE);
        }
        let slot = self.commands.take(sqe).ok_or(Violation::SEQUENCE)?;
        let data = if bytes.is_empty() { CapsuleData::None } else { CapsuleData::Whole(bytes) };
        Ok(Received::Command { slot, data })
    }

    /// Takes granted data: its bytes, if the shell still wants them.
    fn data<'a>(&mut self, message: &'a DataMessage<H>) -> Result<Option<Received<'a>>, Violation> {
        let DataMessage { slot, tag, offset, length, .. } = *message;
        let index = u8::try_from(tag % u16::from(MAX_GRANTS)).unwrap_or(0);
        let (_, grant) =
            self.commands.find_grant(slot, index, tag).ok_or(Violation::NOT_GRANTED)?;
        let range = offset as usize..offset as usize + length as usize;
        let bytes = message.data.bytes().get(range).ok_or(Violation::OUT_OF_RANGE)?;
        let fits = offset == grant.next && length > 0 && length <= grant.left();
        if !fits || length > self.params.max_data {
            return Err(Violation::OUT_OF_RANGE);
        }
        grant.next += length;
        self.ending = Some(slot);
        let wanted = self.commands.wants_data(slot);
        Ok(wanted.then_some(Received::Data { slot, offset, bytes }))
    }

    /// Ends a message of data.
    fn data_end<'a>(&mut self, slot: SlotId) -> Option<Received<'a>> {
        self.send_grants(slot);
        match self.commands.piece_end(slot, true) {
            Progress::More => None,
            Progress::GrantEnd => Some(Received::GrantEnd { slot }),
            Progress::End { digest_ok } => Some(Received::DataEnd { slot, digest_ok }),
            Progress::Complete(cqe) => {
                self.send(ToHost::Response(cqe));
                None
            }
        }
    }

    /// Sends the grants that a fetch without metering may have now.
    fn send_grants(&mut self, slot: SlotId) {
        let limits = (self.params.grants, self.params.max_grant);
        while self.send_grant(slot, false, limits).is_some() {}
    }

    fn send_grant(&mut self, slot: SlotId, metered: bool, limits: (u8, u32)) -> Option<u32> {
        let number = &mut self.tag;
        // The tag names the grant's index, and tells it from the one before at that index.
        let tag = |index| {
            *number = number.wrapping_add(1);
            number.wrapping_mul(u16::from(MAX_GRANTS)) | u16::from(index)
        };
        let (tag, offset, length) = self.commands.open_grant(slot, metered, limits, tag)?;
        let cid = self.commands.cid(slot);
        self.send(ToHost::Grant(GrantMessage { cid, slot, tag, offset, length }));
        Some(length)
    }

    fn put(&mut self, slot: SlotId, data: P, offset: u32) {
        self.send(ToHost::Data { cid: self.commands.cid(slot), offset, data });
    }

    fn send(&mut self, message: ToHost<P>) {
        self.unsent += size_of::<ToHost<P>>() + message.payload_bytes() as usize;
        self.outbox.push(message);
    }
}

impl<P, H> Transport for LoopbackTarget<P, H>
where
    P: Payload,
    H: Payload + Clone + Debug,
{
    type Payload = P;
    type Inbox = Vec<ToTarget<H>>;
    type Batch = Vec<ToHost<P>>;
    type Violation = Violation;

    fn next<'a>(
        &mut self,
        input: &mut Chunk<'a, Self::Inbox>,
    ) -> Result<Option<Received<'a>>, Violation> {
        if !self.opened && !self.closed {
            self.opened = true;
            return Ok(Some(Received::Initialized));
        }
        loop {
            if let Some(slot) = self.ending.take()
                && let Some(event) = self.data_end(slot)
            {
                return Ok(Some(event));
            }
            if self.closed {
                *input = &[];
                return Ok(None);
            }
            let Some((message, rest)) = input.split_first() else { return Ok(None) };
            *input = rest;
            let event = match message {
                ToTarget::Command { sqe, data } => self.command(sqe, data.as_ref()).map(Some),
                ToTarget::Data(message) => self.data(message),
                ToTarget::Terminated(violation) => {
                    self.closed = true;
                    let reason = Termination { code: violation.code, information: 0 };
                    Ok(Some(Received::Terminated(reason)))
                }
            };
            match event {
                Ok(Some(event)) => return Ok(Some(event)),
                Ok(None) => {}
                Err(violation) => return Err(self.close(violation)),
            }
        }
    }

    fn set_queue(&mut self, entries: u16, sq_flow_control: bool) {
        self.commands.set_queue(entries, sq_flow_control);
    }

    fn set_in_capsule_data(&mut self, bytes: u32) {
        self.in_capsule_data = bytes;
    }

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
            self.send_grants(slot);
        }
    }

    fn fetch_metered(&mut self, slot: SlotId, length: u32) {
        self.commands.fetch(slot, length, true);
    }

    fn grant(&mut self, slot: SlotId, most: u32) -> u32 {
        let most = (most.max(4) & !3).min(self.params.max_grant);
        self.send_grant(slot, true, (1, most)).unwrap_or(0)
    }

    fn complete(&mut self, slot: SlotId, result: u64, status: Status) {
        if let Some(cqe) = self.commands.complete(slot, result, status) {
            self.send(ToHost::Response(cqe));
        }
    }

    fn complete_with_data(&mut self, slot: SlotId, data: P, result: u64) {
        if self.commands.holds(slot) {
            self.put(slot, data, 0);
            self.complete(slot, result, Status::SUCCESS);
        }
    }

    fn send_data(&mut self, slot: SlotId, data: P, offset: u32, last: bool) {
        if self.commands.holds(slot) {
            self.put(slot, data, offset);
            if last {
                self.complete(slot, 0, Status::SUCCESS);
            }
        }
    }

    fn withdraw(&mut self, slot: SlotId) {
        if self.commands.is_settled(slot) {
            self.commands.release(slot);
        }
    }

    fn sqe_of(&self, slot: SlotId) -> &Sqe {
        self.commands.sqe_of(slot)
    }

    fn find_cid(&self, cid: u16) -> Option<SlotId> {
        self.commands.find_cid(cid)
    }

    fn in_flight(&self) -> usize {
        self.commands.in_flight()
    }

    fn in_data(&self) -> bool {
        self.ending.is_some()
    }

    fn brings_data(&self, input: &&[ToTarget<H>]) -> bool {
        matches!(input.first(), Some(ToTarget::Command { data: Some(_), .. }))
    }

    /// Returns `None`: messages bring their bytes with them.
    fn arriving(&self) -> Option<Arriving> {
        None
    }

    fn arrived(&mut self, _: &[u8]) -> bool {
        debug_assert!(false, "nothing was arriving");
        false
    }

    fn unsent(&self) -> usize {
        self.unsent
    }

    fn take_batch(&mut self) -> Option<Vec<ToHost<P>>> {
        if self.taken {
            return None;
        }
        if self.batch.is_empty() {
            core::mem::swap(&mut self.batch, &mut self.outbox);
            self.unsent = 0;
        }
        self.taken = !self.batch.is_empty();
        self.taken.then(|| core::mem::take(&mut self.batch))
    }

    fn give_back(&mut self, batch: Vec<ToHost<P>>) {
        self.batch = batch;
        self.taken = false;
    }

    fn is_sending(&self) -> bool {
        self.taken || !self.batch.is_empty()
    }
}

impl<H: Payload> ToTarget<H> {
    /// Returns the number of bytes that the message brings.
    #[must_use]
    pub fn payload_bytes(&self) -> u32 {
        match self {
            Self::Command { data, .. } => data.as_ref().map_or(0, length_of),
            Self::Data(message) => message.length,
            Self::Terminated(_) => 0,
        }
    }
}

impl<P: Payload> ToHost<P> {
    /// Returns the number of bytes that the message brings.
    #[must_use]
    pub fn payload_bytes(&self) -> u32 {
        match self {
            Self::Data { data, .. } => length_of(data),
            Self::Accepted { .. } | Self::Grant(_) | Self::Response(_) | Self::Terminated(_) => 0,
        }
    }
}
