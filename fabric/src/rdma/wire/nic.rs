//! The devices at both ends of a queue pair, for tests: what is posted at one end becomes messages to
//! the other, which move data from and to the host's memory.

use super::host_nic::{HostNic, Incoming};
use super::{Batch, TargetQueue, Violation};
use crate::fabrics::{ConnectCommand, ConnectField};
use crate::nvm::Transfer;
use crate::nvme::{Sqe, Status};
use crate::queue::{
    Arriving, CapsuleData, Chunk, Fetch, HostReceived, HostTransport, Received, SlotId,
    SubmitError, Transport,
};

/// A message to the target's device.
#[derive(Clone, Debug)]
pub(crate) enum ToTarget {
    /// A command capsule was sent.
    Capsule(Vec<u8>),
    /// The answer to a READ.
    Fetched(Fetch, Vec<u8>),
}

/// A message to the host's device.
#[derive(Clone, Debug)]
pub(crate) enum ToHost {
    /// WRITE or SEND.
    Moved(Incoming),
    /// READ.
    Read(Fetch),
}

/// The target's end with its device.
#[derive(Debug)]
pub(crate) struct NicTarget {
    pub(crate) queue: TargetQueue<Vec<u8>, Vec<u8>>,
    out: Vec<Batch<Vec<u8>>>,
    ending: Option<Fetch>,
}

impl NicTarget {
    pub(crate) fn new(queue: TargetQueue<Vec<u8>, Vec<u8>>) -> Self {
        Self { queue, out: Vec::new(), ending: None }
    }

    /// Takes what the end wants posted; what was posted before has gone.
    pub(crate) fn transmit(&mut self) -> Vec<ToHost> {
        for batch in self.out.drain(..) {
            self.queue.give_back(batch);
        }
        let mut messages = Vec::new();
        while let Some(mut batch) = self.queue.take_batch() {
            messages.extend(batch.posts.drain(..).map(|post| ToHost::Moved(Incoming::from(&post))));
            self.out.push(batch);
        }
        while let Some(fetch) = self.queue.take_fetch() {
            messages.push(ToHost::Read(fetch));
        }
        messages
    }
}

impl Transport for NicTarget {
    type Payload = Vec<u8>;
    type Inbox = Vec<ToTarget>;
    type Batch = Batch<Vec<u8>>;
    type Violation = Violation;

    fn next<'a>(
        &mut self,
        input: &mut Chunk<'a, Vec<ToTarget>>,
    ) -> Result<Option<Received<'a>>, Violation> {
        if let Some(event) = self.queue.next(&mut &[][..])? {
            return Ok(Some(event));
        }
        loop {
            if let Some(fetch) = self.ending.take()
                && let Some(event) = self.queue.fetched(&fetch)
            {
                return Ok(Some(event));
            }
            let Some((message, rest)) = input.split_first() else { return Ok(None) };
            *input = rest;
            match message {
                ToTarget::Capsule(bytes) => {
                    let event = self.queue.next(&mut std::slice::from_ref(bytes))?;
                    if event.is_some() {
                        return Ok(event);
                    }
                }
                ToTarget::Fetched(fetch, bytes) => {
                    self.ending = Some(*fetch);
                    let Fetch { slot, offset, .. } = *fetch;
                    if self.queue.wants_data(slot) {
                        return Ok(Some(Received::Data { slot, offset, bytes }));
                    }
                }
            }
        }
    }

    fn set_queue(&mut self, entries: u16, sq_flow_control: bool) {
        self.queue.set_queue(entries, sq_flow_control);
    }

    fn set_in_capsule_data(&mut self, bytes: u32) {
        self.queue.set_in_capsule_data(bytes);
    }

    fn check_place(
        &self,
        sqe: &Sqe,
        transfer: &Transfer,
        data: &CapsuleData<'_>,
    ) -> Result<(), Status> {
        self.queue.check_place(sqe, transfer, data)
    }

    fn check_connect(&self, command: &ConnectCommand) -> Result<(), ConnectField> {
        self.queue.check_connect(command)
    }

    fn fetch(&mut self, slot: SlotId, length: u32) {
        self.queue.fetch(slot, length);
    }

    fn fetch_metered(&mut self, slot: SlotId, length: u32) {
        self.queue.fetch_metered(slot, length);
    }

    fn grant(&mut self, slot: SlotId, most: u32) -> u32 {
        self.queue.grant(slot, most)
    }

    fn complete(&mut self, slot: SlotId, result: u64, status: Status) {
        self.queue.complete(slot, result, status);
    }

    fn complete_with_data(&mut self, slot: SlotId, data: Vec<u8>, result: u64) {
        self.queue.complete_with_data(slot, data, result);
    }

    fn send_data(&mut self, slot: SlotId, data: Vec<u8>, offset: u32, last: bool) {
        self.queue.send_data(slot, data, offset, last);
    }

    fn withdraw(&mut self, slot: SlotId) {
        self.queue.withdraw(slot);
    }

    fn sqe_of(&self, slot: SlotId) -> &Sqe {
        self.queue.sqe_of(slot)
    }

    fn find_cid(&self, cid: u16) -> Option<SlotId> {
        self.queue.find_cid(cid)
    }

    fn in_flight(&self) -> usize {
        self.queue.in_flight()
    }

    fn in_data(&self) -> bool {
        self.ending.is_some()
    }

    fn brings_data(&self, input: &&[ToTarget]) -> bool {
        matches!(input.first(), Some(ToTarget::Capsule(bytes)) if bytes.len() > super::COMMAND_BYTES)
    }

    fn arriving(&self) -> Option<Arriving> {
        self.queue.arriving()
    }

    fn arrived(&mut self, bytes: &[u8]) -> bool {
        self.queue.arrived(bytes)
    }

    fn unsent(&self) -> usize {
        self.queue.unsent()
    }

    fn take_batch(&mut self) -> Option<Batch<Vec<u8>>> {
        self.queue.take_batch()
    }

    fn give_back(&mut self, batch: Batch<Vec<u8>>) {
        self.queue.give_back(batch);
    }

    fn is_sending(&self) -> bool {
        self.queue.is_sending()
    }
}

/// The host's end with its device, which answers READs.
#[derive(Debug)]
pub(crate) struct NicHost {
    pub(crate) end: HostNic<Vec<u8>>,
    answers: Vec<ToTarget>,
}

impl NicHost {
    /// Makes the end of a host with this many parts of its memory.
    pub(crate) fn new(parts: usize, part: u32, invalidate: bool) -> Self {
        Self { end: HostNic::new(parts, part, invalidate), answers: Vec::new() }
    }

    /// Takes what the end and its device send.
    pub(crate) fn transmit(&mut self) -> Vec<ToTarget> {
        let mut capsules = Vec::new();
        self.end.take_capsules(&mut capsules);
        let mut messages = std::mem::take(&mut self.answers);
        messages.extend(capsules.into_iter().map(ToTarget::Capsule));
        messages
    }
}

impl HostTransport for NicHost {
    type Payload = Vec<u8>;
    type Chunk<'a> = &'a [ToHost];
    type Violation = Violation;

    fn set_in_capsule_data(&mut self, bytes: u32) {
        self.end.set_in_capsule_data(bytes);
    }

    fn submit(
        &mut self,
        sqe: Sqe,
        data: Option<Vec<u8>>,
        read_length: u32,
    ) -> Result<(), SubmitError> {
        self.end.submit(sqe, data, read_length)
    }

    fn next<'a>(
        &mut self,
        input: &mut Self::Chunk<'a>,
    ) -> Result<Option<HostReceived<'a>>, Violation> {
        if let Some(event) = self.end.next(&mut &[][..])? {
            return Ok(Some(event));
        }
        while let Some((message, rest)) = input.split_first() {
            *input = rest;
            match message {
                ToHost::Moved(incoming) => {
                    let event = self.end.next(&mut std::slice::from_ref(incoming))?;
                    if event.is_some() {
                        return Ok(event);
                    }
                }
                ToHost::Read(fetch) => {
                    let bytes = self.end.read(fetch.remote, fetch.length)?;
                    self.answers.push(ToTarget::Fetched(*fetch, bytes));
                }
            }
        }
        Ok(None)
    }

    fn in_flight(&self) -> usize {
        self.end.in_flight()
    }
}
