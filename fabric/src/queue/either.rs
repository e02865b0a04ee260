//! One of two transports, so that the same code serves, or uses, queues over both.

use core::fmt::{Debug, Display, Formatter, Result as FmtResult};

use super::{Arriving, CapsuleData, Chunk, Fetch, Inbox, Received, SlotId, Transport};
use crate::fabrics::{ConnectCommand, ConnectField};
use crate::nvm::Transfer;
use crate::nvme::{Sqe, Status};

/// One of two: an end of a transport, its input, a batch of it, or a violation of its protocol. Three
/// transports are one, or one of the two others.
#[derive(Clone, Copy, Debug)]
pub enum Either<A, B> {
    /// The first.
    Left(A),
    /// The second.
    Right(B),
}

impl<A: Display, B: Display> Display for Either<A, B> {
    fn fmt(&self, f: &mut Formatter<'_>) -> FmtResult {
        match self {
            Self::Left(one) => one.fmt(f),
            Self::Right(one) => one.fmt(f),
        }
    }
}

impl<A: core::error::Error, B: core::error::Error> core::error::Error for Either<A, B> {}

/// An inbox is of the first kind until something of the second arrives.
impl<A: Default, B> Default for Either<A, B> {
    fn default() -> Self {
        Self::Left(A::default())
    }
}

impl<A: Inbox, B: Inbox> Inbox for Either<A, B> {
    type Chunk<'a>
        = Either<Chunk<'a, A>, Chunk<'a, B>>
    where
        Self: 'a;

    fn keep(&mut self, chunk: Self::Chunk<'_>) {
        match (&mut *self, chunk) {
            (Self::Left(kept), Either::Left(chunk)) => kept.keep(chunk),
            (Self::Right(kept), Either::Right(chunk)) => kept.keep(chunk),
            (kept, chunk) => {
                debug_assert_eq!(kept.bytes(), 0, "a queue has input of one kind");
                *kept = match chunk {
                    Either::Left(chunk) => Self::Left(keep_first(chunk)),
                    Either::Right(chunk) => Self::Right(keep_first(chunk)),
                };
            }
        }
    }

    fn kept(&self) -> Self::Chunk<'_> {
        match self {
            Self::Left(kept) => Either::Left(kept.kept()),
            Self::Right(kept) => Either::Right(kept.kept()),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Left(kept) => kept.bytes(),
            Self::Right(kept) => kept.bytes(),
        }
    }
}

fn keep_first<I: Inbox>(chunk: Chunk<'_, I>) -> I {
    let mut inbox = I::default();
    inbox.keep(chunk);
    inbox
}

/// Asks the transport, whichever it is.
macro_rules! ask {
    ($end:ident . $method:ident ( $($argument:expr),* )) => {
        match $end {
            Self::Left(end) => end.$method($($argument),*),
            Self::Right(end) => end.$method($($argument),*),
        }
    };
}

#[cfg(any(test, feature = "testing"))]
mod host;

impl<A, B> Transport for Either<A, B>
where
    A: Transport,
    B: Transport<Payload = A::Payload>,
{
    type Payload = A::Payload;
    type Inbox = Either<A::Inbox, B::Inbox>;
    type Batch = Either<A::Batch, B::Batch>;
    type Violation = Either<A::Violation, B::Violation>;

    #[inline(always)]
    fn next<'a>(
        &mut self,
        input: &mut Chunk<'a, Self::Inbox>,
    ) -> Result<Option<Received<'a>>, Self::Violation> {
        match (self, input) {
            (Self::Left(end), Either::Left(input)) => end.next(input).map_err(Either::Left),
            (Self::Right(end), Either::Right(input)) => end.next(input).map_err(Either::Right),
            // Nothing has arrived of which the inbox could have its kind.
            _ => Ok(None),
        }
    }

    fn set_queue(&mut self, entries: u16, sq_flow_control: bool) {
        ask!(self.set_queue(entries, sq_flow_control));
    }

    fn set_in_capsule_data(&mut self, bytes: u32) {
        ask!(self.set_in_capsule_data(bytes));
    }

    #[inline]
    fn check_place(
        &self,
        sqe: &Sqe,
        transfer: &Transfer,
        data: &CapsuleData<'_>,
    ) -> Result<(), Status> {
        ask!(self.check_place(sqe, transfer, data))
    }

    fn check_connect(&self, command: &ConnectCommand) -> Result<(), ConnectField> {
        ask!(self.check_connect(command))
    }

    #[inline]
    fn fetch(&mut self, slot: SlotId, length: u32) {
        ask!(self.fetch(slot, length));
    }

    fn fetch_metered(&mut self, slot: SlotId, length: u32) {
        ask!(self.fetch_metered(slot, length));
    }

    fn grant(&mut self, slot: SlotId, most: u32) -> u32 {
        ask!(self.grant(slot, most))
    }

    #[inline]
    fn fetches_into_buffers(&self) -> bool {
        ask!(self.fetches_into_buffers())
    }

    #[inline]
    fn take_fetch(&mut self) -> Option<Fetch> {
        ask!(self.take_fetch())
    }

    #[inline]
    fn bound_fetches(&mut self, bytes: Option<u64>) {
        ask!(self.bound_fetches(bytes));
    }

    fn fetched(&mut self, fetch: &Fetch) -> Option<Received<'static>> {
        ask!(self.fetched(fetch))
    }

    #[inline]
    fn complete(&mut self, slot: SlotId, result: u64, status: Status) {
        ask!(self.complete(slot, result, status));
    }

    #[inline(always)]
    fn complete_with_data(&mut self, slot: SlotId, data: A::Payload, result: u64) {
        ask!(self.complete_with_data(slot, data, result));
    }

    #[inline(always)]
    fn send_data(&mut self, slot: SlotId, data: A::Payload, offset: u32, last: bool) {
        ask!(self.send_data(slot, data, offset, last));
    }

    fn withdraw(&mut self, slot: SlotId) {
        ask!(self.withdraw(slot));
    }

    #[inline]
    fn sqe_of(&self, slot: SlotId) -> &Sqe {
        ask!(self.sqe_of(slot))
    }

    fn find_cid(&self, cid: u16) -> Option<SlotId> {
        ask!(self.find_cid(cid))
    }

    #[inline]
    fn in_flight(&self) -> usize {
        ask!(self.in_flight())
    }

    fn in_data(&self) -> bool {
        ask!(self.in_data())
    }

    #[inline]
    fn brings_data(&self, input: &Chunk<'_, Self::Inbox>) -> bool {
        match (self, input) {
            (Self::Left(end), Either::Left(input)) => end.brings_data(input),
            (Self::Right(end), Either::Right(input)) => end.brings_data(input),
            _ => false,
        }
    }

    #[inline]
    fn arriving(&self) -> Option<Arriving> {
        ask!(self.arriving())
    }

    fn arrived(&mut self, bytes: &[u8]) -> bool {
        ask!(self.arrived(bytes))
    }

    #[inline]
    fn unsent(&self) -> usize {
        ask!(self.unsent())
    }

    #[inline]
    fn take_batch(&mut self) -> Option<Self::Batch> {
        match self {
            Self::Left(end) => end.take_batch().map(Either::Left),
            Self::Right(end) => end.take_batch().map(Either::Right),
        }
    }

    #[inline]
    fn give_back(&mut self, batch: Self::Batch) {
        match (self, batch) {
            (Self::Left(end), Either::Left(batch)) => end.give_back(batch),
            (Self::Right(end), Either::Right(batch)) => end.give_back(batch),
            _ => debug_assert!(false, "a batch goes back to where it came from"),
        }
    }

    #[inline]
    fn under_way(&self) -> Option<usize> {
        ask!(self.under_way())
    }

    #[inline]
    fn is_sending(&self) -> bool {
        ask!(self.is_sending())
    }
}
