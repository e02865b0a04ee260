//! The target's end of a queue.

use super::{CapsuleData, Chunk, Fetch, Inbox, Payload, Received, SlotId};
use crate::fabrics::{ConnectCommand, ConnectField};
use crate::nvm::Transfer;
use crate::nvme::{Sqe, Status};

/// Data of a command that is about to arrive, for shells that receive it where it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arriving {
    /// The command's slot.
    pub slot: SlotId,
    /// Offset of the next byte within the command's data.
    pub offset: u32,
    /// Bytes that follow without a gap.
    pub length: u32,
}

/// The target's end of a queue.
///
/// A command occupies its slot from [`Received::Command`] until it is completed or withdrawn. In
/// between the command's data is fetched, if the capsule did not bring the data: [`Self::fetch`]
/// asks for all of the data at once; after [`Self::fetch_metered`], [`Self::grant`] says when the
/// host may send which part. Calls for a slot that holds no command do nothing.
pub trait Transport {
    /// The buffer type of data that commands return.
    type Payload: Payload;
    /// The form of input.
    type Inbox: Inbox;
    /// The batch that is sent at a time. A batch owns everything it refers to: its sender may hold
    /// it for long.
    type Batch;
    /// A violation of the protocol by a host.
    type Violation: core::error::Error;

    /// Consumes the units of the next event from `input`. Returns `None` when all of `input` was
    /// used up.
    ///
    /// # Errors
    /// The host broke the protocol, and was notified if the protocol has a way: send the queued
    /// output, then close. Input is ignored from then on.
    fn next<'a>(
        &mut self,
        input: &mut Chunk<'a, Self::Inbox>,
    ) -> Result<Option<Received<'a>>, Self::Violation>;

    /// Sizes the queue once Connect succeeded, before its completion: number of entries (SQSIZE +
    /// 1), and whether submission queue flow control is in use (CATTR bit 2 clear). Until then one
    /// command may be outstanding, the Connect.
    fn set_queue(&mut self, entries: u16, sq_flow_control: bool);

    /// Sets the most data that a capsule may carry, in bytes: on an I/O queue, before the Connect
    /// is completed. Without this call the transport's limit for admin queues applies.
    fn set_in_capsule_data(&mut self, bytes: u32);

    /// Checks that a command's data descriptor has a form that this transport knows, and that the
    /// data is in the described place; `data` is the data in the capsule.
    ///
    /// # Errors
    /// SGL Descriptor Type Invalid, SGL Offset Invalid, or Data SGL Length Invalid: the status to
    /// complete the command with.
    fn check_place(
        &self,
        sqe: &Sqe,
        transfer: &Transfer,
        data: &CapsuleData<'_>,
    ) -> Result<(), Status>;

    /// Fetches `length` bytes of the command's data. [`Received::Data`] and then
    /// [`Received::DataEnd`] follow. At most once for a command, and never for a command with data
    /// in its capsule; a length of 0 fetches nothing.
    fn fetch(&mut self, slot: SlotId, length: u32);

    /// Fetches data like [`Self::fetch`], but in amounts released by [`Self::grant`].
    /// [`Received::GrantEnd`] follows once all granted data has arrived, and some data is still
    /// missing.
    fn fetch_metered(&mut self, slot: SlotId, length: u32);

    /// Grants at most `most` further bytes (and a DWORD at least) of a metered fetch. Returns the number of bytes
    /// granted: 0 if all was granted before, or the host still owes granted bytes.
    fn grant(&mut self, slot: SlotId, most: u32) -> u32;

    /// Returns whether data is fetched by the shell, straight into the command's buffer, which has
    /// to be there before the data is asked for: [`Self::take_fetch`] then says what to fetch.
    /// Other transports bring the data by [`Self::next`].
    fn fetches_into_buffers(&self) -> bool {
        false
    }

    /// Hands out the next part of a command's data for the shell to move from the host's memory;
    /// [`Self::fetched`] takes note of its end. `None` where there is none, or where as many are
    /// out as may be.
    fn take_fetch(&mut self) -> Option<Fetch> {
        None
    }

    /// Bounds the outstanding bytes of [`Self::take_fetch`]. A command's data is then fetched in
    /// parts of at most half the bound, and one part may be outstanding even beyond the bound.
    /// `None` means no bound.
    fn bound_fetches(&mut self, bytes: Option<u64>) {
        let _ = bytes;
    }

    /// Notes that a part of a command's data that [`Self::take_fetch`] handed out is in its place. Returns
    /// [`Received::DataEnd`] or [`Received::GrantEnd`] if that follows. A fetch that failed has no such end: its
    /// connection is lost.
    fn fetched(&mut self, fetch: &Fetch) -> Option<Received<'static>> {
        let _ = fetch;
        None
    }

    /// Checks that a Connect agrees with the parameters of the transport's own connection.
    ///
    /// # Errors
    /// The field of the command that does not.
    fn check_connect(&self, command: &ConnectCommand) -> Result<(), ConnectField> {
        let _ = command;
        Ok(())
    }

    /// Completes a command with `result` in DW0 and DW1; the slot is free again.
    ///
    /// While data that was fetched is still on its way, the completion waits for that data, which
    /// is dropped without events, and the slot stays taken until then.
    fn complete(&mut self, slot: SlotId, result: u64, status: Status);

    /// Completes a command successfully, and returns `data` from offset 0. The slot is free again.
    fn complete_with_data(&mut self, slot: SlotId, data: Self::Payload, result: u64);

    /// Returns a part of a command's data that starts at `offset`; parts go in order. With `last`
    /// the command is completed successfully as by [`Self::complete_with_data`]. A command that
    /// fails on the way is completed with [`Self::complete`].
    fn send_data(&mut self, slot: SlotId, data: Self::Payload, offset: u32, last: bool);

    /// Forgets a command without an answer, unless its data is on its way: the slot is free again.
    fn withdraw(&mut self, slot: SlotId);

    /// Returns the command in a slot; all zeroes if the slot holds none.
    fn sqe_of(&self, slot: SlotId) -> &Sqe;

    /// Finds the slot of the outstanding command with that identifier: a search, for Abort.
    fn find_cid(&self, cid: u16) -> Option<SlotId>;

    /// Returns the number of commands that are not completed.
    fn in_flight(&self) -> usize;

    /// Returns whether a piece of data has begun to arrive and its end has not come.
    fn in_data(&self) -> bool;

    /// Returns whether [`Self::next`] would take a command with in-capsule data from the front of
    /// `input`. With too little input to tell, [`Self::next`] would return no event either.
    fn brings_data(&self, input: &Chunk<'_, Self::Inbox>) -> bool;

    /// Returns where the next input belongs, if the input is data of a command that still wants it: a shell may receive
    /// such data straight into the command's buffer, and report it by [`Self::arrived`].
    fn arriving(&self) -> Option<Arriving>;

    /// Notes data that was received at the place of [`Self::arriving`]: `bytes` from the offset on, no more than the
    /// length. These bytes are input that [`Self::next`] does not see; a data digest is computed over them as over any
    /// other. Returns whether the command still wants the bytes; the end of its data comes by [`Self::next`].
    fn arrived(&mut self, bytes: &[u8]) -> bool;

    /// Returns the number of unsent bytes, without the batch that is being sent.
    fn unsent(&self) -> usize;

    /// Hands out the next batch to send. `None` where there is nothing to send, or where as many
    /// batches as may be were handed out and have not come back: one of a stream.
    fn take_batch(&mut self) -> Option<Self::Batch>;

    /// Returns a batch of [`Self::take_batch`]: sent, or as far as it was. Batches are returned in the order in which
    /// they were handed out.
    fn give_back(&mut self, batch: Self::Batch);

    /// Returns the number of bytes of all batches that are out, if a returned batch has arrived at
    /// the host; `None` if it may be in transit for long.
    fn under_way(&self) -> Option<usize> {
        None
    }

    /// Returns whether a batch is out, or came back with something in it that was not sent.
    fn is_sending(&self) -> bool;
}
