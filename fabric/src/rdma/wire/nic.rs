//! The devices at both ends of a queue pair, for tests: what is posted at one end becomes messages to
//! the other, which move data from and to the host's memory.

use zerocopy::IntoBytes;

use super::{Batch, HostInput, HostPost, HostQueue, HostQueueParams, Post, TargetQueue, Violation};
use crate::fabrics::{ConnectCommand, ConnectField};
use crate::nvm::Transfer;
use crate::nvme::{Sqe, Status};
use crate::queue::{
    Arriving, CapsuleData, Chunk, Fetch, HostReceived, HostTransport, Received, Remote, SlotId,
    SubmitError, Transport,
};

/// The key and the address of a host's memory.
pub(crate) const MEMORY: Remote = Remote { address: 0x7000_1000, key: 0xabcd_ef01 };

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
    /// WRITE.
    Write(Remote, Vec<u8>),
    /// SEND, with the key to invalidate.
    Capsule(Vec<u8>, Option<u32>),
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
            messages.extend(batch.posts.drain(..).map(|post| match post {
                Post::Data { payload, remote } => ToHost::Write(remote, payload),
                Post::Response { cqe, invalidate } => {
                    ToHost::Capsule(cqe.as_bytes().to_vec(), invalidate)
                }
            }));
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

/// The host's end with its device and its memory.
#[derive(Debug)]
pub(crate) struct NicHost {
    pub(crate) queue: HostQueue<Vec<u8>, Vec<u8>>,
    memory: Vec<u8>,
    part: usize,
    answers: Vec<ToTarget>,
}

impl NicHost {
    /// Makes the end of a host with this many parts of its memory.
    pub(crate) fn new(parts: usize, part: u32, invalidate: bool) -> Self {
        let length = parts * part as usize;
        let params = HostQueueParams { memory: MEMORY, length, part, invalidate };
        let (queue, memory) = (HostQueue::new(params), vec![0; length]);
        Self { queue, memory, part: part as usize, answers: Vec::new() }
    }

    /// Takes what the end and its device send.
    pub(crate) fn transmit(&mut self) -> Vec<ToTarget> {
        let mut messages = std::mem::take(&mut self.answers);
        while let Some(post) = self.queue.take_post() {
            match post {
                HostPost::Place { cid, data } => {
                    let start = usize::from(cid) * self.part;
                    self.memory[start..start + data.len()].copy_from_slice(&data);
                }
                HostPost::Capsule { sqe, data } => {
                    let capsule = [sqe.as_bytes(), &data.unwrap_or_default()].concat();
                    messages.push(ToTarget::Capsule(capsule));
                }
            }
        }
        messages
    }

    fn at(&mut self, remote: Remote, length: usize) -> (usize, &mut [u8]) {
        assert_eq!(remote.key, MEMORY.key, "the key of the memory");
        let start = usize::try_from(remote.address - MEMORY.address).unwrap();
        (start, &mut self.memory[start..start + length])
    }
}

impl HostTransport for NicHost {
    type Payload = Vec<u8>;
    type Chunk<'a> = &'a [ToHost];
    type Violation = Violation;

    fn set_in_capsule_data(&mut self, bytes: u32) {
        self.queue.set_in_capsule_data(bytes);
    }

    fn submit(
        &mut self,
        sqe: Sqe,
        data: Option<Vec<u8>>,
        read_length: u32,
    ) -> Result<(), SubmitError> {
        self.queue.submit(sqe, data, read_length)
    }

    fn next<'a>(
        &mut self,
        input: &mut Self::Chunk<'a>,
    ) -> Result<Option<HostReceived<'a>>, Violation> {
        if let Some(event) = self.queue.next(&mut HostInput { capsules: &[], memory: &[] })? {
            return Ok(Some(event));
        }
        while let Some((message, rest)) = input.split_first() {
            *input = rest;
            match message {
                ToHost::Write(remote, bytes) => {
                    let (start, place) = self.at(*remote, bytes.len());
                    place.copy_from_slice(bytes);
                    let cid = u16::try_from(start / self.part).unwrap();
                    let offset = u32::try_from(start % self.part).unwrap();
                    return Ok(Some(HostReceived::ReadData { cid, offset, bytes }));
                }
                ToHost::Read(fetch) => {
                    let bytes = self.at(fetch.remote, fetch.length as usize).1.to_vec();
                    self.answers.push(ToTarget::Fetched(*fetch, bytes));
                }
                ToHost::Capsule(bytes, invalidate) => {
                    assert!(invalidate.is_none_or(|key| key == MEMORY.key));
                    let capsules = std::slice::from_ref(bytes);
                    let event = self.queue.next(&mut HostInput { capsules, memory: &[] })?;
                    if event.is_some() {
                        return Ok(event);
                    }
                }
            }
        }
        Ok(None)
    }

    fn in_flight(&self) -> usize {
        self.queue.in_flight()
    }
}
