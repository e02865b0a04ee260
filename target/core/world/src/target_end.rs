//! The target's end of a queue: over TCP, over RDMA or within the process, all in one reactor.

use fabric::fabrics::{ConnectCommand, ConnectField};
use fabric::loopback::{self, LoopbackParams, LoopbackTarget, ToHost, ToTarget};
use fabric::nvm::Transfer;
use fabric::nvme::{Sqe, Status};
use fabric::queue::{Arriving, CapsuleData, Chunk, Fetch, Received, SlotId, Transport};
use fabric::rdma::wire::{self, QueueParams, TargetQueue};
use fabric::tcp::{self, TargetConnection, TargetParams};
use sluice_core::TxData;

use crate::host::Written;
use crate::units::{Run, Units, either};
use sluice_core::heap::HeapBuffer;

/// Data that the target returns.
pub(crate) type Returned = TxData<HeapBuffer>;

/// The target's end of a queue.
#[derive(Debug)]
pub(crate) enum TargetEnd {
    Tcp(Box<TargetConnection<Returned>>),
    Loopback(LoopbackTarget<Returned, Written>),
    Rdma(Box<TargetQueue<Returned, Vec<u8>>>),
}

impl TargetEnd {
    pub(crate) fn tcp(params: TargetParams) -> Self {
        Self::Tcp(Box::new(TargetConnection::new(params)))
    }

    pub(crate) fn loopback(params: LoopbackParams) -> Self {
        Self::Loopback(LoopbackTarget::new(params))
    }

    pub(crate) fn rdma(params: QueueParams) -> Self {
        Self::Rdma(Box::new(TargetQueue::new(params)))
    }
}

/// The batch that is sent at a time.
#[derive(Debug)]
pub(crate) enum Batch {
    Tcp(tcp::Batch<Returned>),
    Loopback(Vec<ToHost<Returned>>),
    Rdma(wire::Batch<Returned>),
}

/// A violation of the protocol by a host.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Violation {
    #[error(transparent)]
    Tcp(tcp::Violation),
    #[error(transparent)]
    Loopback(loopback::Violation),
    #[error(transparent)]
    Rdma(wire::Violation),
}

impl Transport for TargetEnd {
    type Payload = Returned;
    type Inbox = Units<ToTarget<Written>, Vec<u8>>;
    type Batch = Batch;
    type Violation = Violation;

    fn next<'a>(
        &mut self,
        input: &mut Chunk<'a, Self::Inbox>,
    ) -> Result<Option<Received<'a>>, Violation> {
        match (self, input) {
            (Self::Tcp(end), Run::Bytes(bytes)) => end.next(bytes).map_err(Violation::Tcp),
            (Self::Loopback(end), Run::Messages(messages)) => {
                end.next(messages).map_err(Violation::Loopback)
            }
            (Self::Rdma(end), Run::Moved(capsules)) => end.next(capsules).map_err(Violation::Rdma),
            // Nothing has arrived by which the inbox could know its kind of units.
            (Self::Rdma(end), _) => end.next(&mut &[][..]).map_err(Violation::Rdma),
            _ => {
                debug_assert!(false, "an end receives units of its kind");
                Ok(None)
            }
        }
    }

    fn set_queue(&mut self, entries: u16, sq_flow_control: bool) {
        either!(self.set_queue(entries, sq_flow_control));
    }

    fn set_in_capsule_data(&mut self, bytes: u32) {
        either!(self.set_in_capsule_data(bytes));
    }

    fn check_place(
        &self,
        sqe: &Sqe,
        transfer: &Transfer,
        data: &CapsuleData<'_>,
    ) -> Result<(), Status> {
        either!(self.check_place(sqe, transfer, data))
    }

    fn fetch(&mut self, slot: SlotId, length: u32) {
        either!(self.fetch(slot, length));
    }

    fn fetch_metered(&mut self, slot: SlotId, length: u32) {
        either!(self.fetch_metered(slot, length));
    }

    fn grant(&mut self, slot: SlotId, most: u32) -> u32 {
        either!(self.grant(slot, most))
    }

    fn fetches_into_buffers(&self) -> bool {
        either!(self.fetches_into_buffers())
    }

    fn take_fetch(&mut self) -> Option<Fetch> {
        either!(self.take_fetch())
    }

    fn fetched(&mut self, fetch: &Fetch) -> Option<Received<'static>> {
        either!(self.fetched(fetch))
    }

    fn check_connect(&self, command: &ConnectCommand) -> Result<(), ConnectField> {
        either!(self.check_connect(command))
    }

    fn complete(&mut self, slot: SlotId, result: u64, status: Status) {
        either!(self.complete(slot, result, status));
    }

    fn complete_with_data(&mut self, slot: SlotId, data: Returned, result: u64) {
        either!(self.complete_with_data(slot, data, result));
    }

    fn send_data(&mut self, slot: SlotId, data: Returned, offset: u32, last: bool) {
        either!(self.send_data(slot, data, offset, last));
    }

    fn withdraw(&mut self, slot: SlotId) {
        either!(self.withdraw(slot));
    }

    fn sqe_of(&self, slot: SlotId) -> &Sqe {
        either!(self.sqe_of(slot))
    }

    fn find_cid(&self, cid: u16) -> Option<SlotId> {
        either!(self.find_cid(cid))
    }

    fn in_flight(&self) -> usize {
        either!(self.in_flight())
    }

    fn in_data(&self) -> bool {
        either!(self.in_data())
    }

    fn brings_data(&self, input: &Chunk<'_, Self::Inbox>) -> bool {
        match (self, input) {
            (Self::Tcp(end), Run::Bytes(bytes)) => end.brings_data(bytes),
            (Self::Loopback(end), Run::Messages(messages)) => end.brings_data(messages),
            (Self::Rdma(end), Run::Moved(capsules)) => end.brings_data(capsules),
            _ => false,
        }
    }

    fn arriving(&self) -> Option<Arriving> {
        either!(self.arriving())
    }

    fn arrived(&mut self, bytes: &[u8]) -> bool {
        either!(self.arrived(bytes))
    }

    fn unsent(&self) -> usize {
        either!(self.unsent())
    }

    fn take_batch(&mut self) -> Option<Batch> {
        match self {
            Self::Tcp(end) => end.take_batch().map(Batch::Tcp),
            Self::Loopback(end) => end.take_batch().map(Batch::Loopback),
            Self::Rdma(end) => end.take_batch().map(Batch::Rdma),
        }
    }

    fn give_back(&mut self, batch: Batch) {
        match (self, batch) {
            (Self::Tcp(end), Batch::Tcp(batch)) => end.give_back(batch),
            (Self::Loopback(end), Batch::Loopback(batch)) => end.give_back(batch),
            (Self::Rdma(end), Batch::Rdma(batch)) => end.give_back(batch),
            _ => debug_assert!(false, "a batch goes back to where it came from"),
        }
    }

    fn is_sending(&self) -> bool {
        either!(self.is_sending())
    }
}
