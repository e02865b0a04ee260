//! A host's end of a queue pair with its device and its memory, for simulations: data that a device
//! would move between two machines' memories is passed as messages.

use super::{HostInput, HostPost, HostQueue, HostQueueParams, Post, Violation};
use crate::nvme::Sqe;
use crate::queue::{HostReceived, HostTransport, Payload, Remote, SubmitError};
use zerocopy::IntoBytes;

/// The key and the address of the host's memory.
pub const MEMORY: Remote = Remote { address: 0x7000_1000, key: 0xabcd_ef01 };

/// A message to a host's device.
#[derive(Clone, Debug)]
pub enum Incoming {
    /// RDMA WRITE to a place in the host's memory.
    Write(Remote, Vec<u8>),
    /// SEND of a response capsule, with the key to invalidate.
    Response(Vec<u8>, Option<u32>),
}

impl<P: Payload> From<&Post<P>> for Incoming {
    /// Copies the data that a work request of the target moves to the host.
    fn from(post: &Post<P>) -> Self {
        match post {
            Post::Data { payload, remote } => Self::Write(*remote, payload.bytes().to_vec()),
            Post::Response { cqe, invalidate } => {
                Self::Response(cqe.as_bytes().to_vec(), *invalidate)
            }
        }
    }
}

/// A host's end with its device and its memory; `P` is the payload of what commands write.
#[derive(Debug)]
pub struct HostNic<P> {
    queue: HostQueue<P, Vec<u8>>,
    /// The memory as far as it was used.
    memory: Vec<u8>,
    length: usize,
    part: usize,
}

impl<P: Payload> HostNic<P> {
    /// Makes the end of a host with a number of parts of its memory, of `part` bytes each, whose
    /// responses invalidate its key or do not.
    #[must_use]
    pub fn new(parts: usize, part: u32, invalidate: bool) -> Self {
        let length = parts.saturating_mul(part as usize);
        let params = HostQueueParams { memory: MEMORY, length, part, invalidate };
        Self { queue: HostQueue::new(params), memory: Vec::new(), length, part: part as usize }
    }

    /// Removes the command capsules that the end sends.
    pub fn take_capsules(&mut self, capsules: &mut impl Extend<Vec<u8>>) {
        while let Some(post) = self.queue.take_post() {
            match post {
                HostPost::Place { cid, data } => {
                    let start = usize::from(cid).saturating_mul(self.part);
                    if let Some(place) = self.place(start, data.bytes().len()) {
                        place.copy_from_slice(data.bytes());
                    }
                }
                HostPost::Capsule { sqe, data } => {
                    let data = data.as_ref().map_or(&[][..], Payload::bytes);
                    capsules.extend([[sqe.as_bytes(), data].concat()]);
                }
            }
        }
    }

    /// Answers an RDMA READ.
    ///
    /// # Errors
    /// Its place is not in the memory, or its key is another.
    pub fn read(&mut self, remote: Remote, length: u32) -> Result<Vec<u8>, Violation> {
        Ok(self.at(remote, length as usize)?.1.to_vec())
    }

    /// Returns bytes of the memory, which grows as it is used.
    fn place(&mut self, start: usize, length: usize) -> Option<&mut [u8]> {
        let end = start.checked_add(length).filter(|end| *end <= self.length)?;
        if self.memory.len() < end {
            self.memory.resize(end, 0);
        }
        self.memory.get_mut(start..end)
    }

    /// Finds the place of a work request: its first byte's number, and the bytes.
    fn at(&mut self, remote: Remote, length: usize) -> Result<(usize, &mut [u8]), Violation> {
        if remote.key != MEMORY.key {
            return Err(Violation("a work request with a key that the host did not give"));
        }
        let outside = Violation("a work request for memory that the host did not give");
        let start = remote.address.checked_sub(MEMORY.address).ok_or(outside)?;
        let start = usize::try_from(start).map_err(|_| outside)?;
        Ok((start, self.place(start, length).ok_or(outside)?))
    }
}

impl<P: Payload> HostTransport for HostNic<P> {
    type Payload = P;
    type Chunk<'a> = &'a [Incoming];
    type Violation = Violation;

    fn set_in_capsule_data(&mut self, bytes: u32) {
        self.queue.set_in_capsule_data(bytes);
    }

    fn submit(&mut self, sqe: Sqe, data: Option<P>, read_length: u32) -> Result<(), SubmitError> {
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
                Incoming::Write(remote, bytes) => {
                    let part = self.part.max(1);
                    let (start, place) = self.at(*remote, bytes.len())?;
                    place.copy_from_slice(bytes);
                    let cid = u16::try_from(start / part).unwrap_or(u16::MAX);
                    let offset = u32::try_from(start % part).unwrap_or(u32::MAX);
                    return Ok(Some(HostReceived::ReadData { cid, offset, bytes }));
                }
                Incoming::Response(bytes, invalidate) => {
                    if invalidate.is_some_and(|key| key != MEMORY.key) {
                        return Err(Violation("a response that invalidates another key"));
                    }
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
