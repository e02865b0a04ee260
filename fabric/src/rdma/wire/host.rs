//! The host's end of a queue pair.

use core::fmt::Debug;
use core::ops::Deref;
use std::collections::VecDeque;

use zerocopy::FromBytes;

use super::Violation;
use crate::nvme::{Cqe, SglDescriptor, Sqe};
use crate::queue::{HostReceived, HostTransport, Payload, Remote, SubmitError, length_of};

/// The parameters of a host's end.
#[derive(Clone, Copy, Debug)]
pub struct HostQueueParams {
    /// The registered memory that commands move their data from and to: command identifier n has
    /// `part` bytes from n times `part` on.
    pub memory: Remote,
    /// Length of the memory in bytes.
    pub length: usize,
    /// Length of a command's part of the memory in bytes.
    pub part: u32,
    /// Whether responses shall invalidate the memory's key.
    pub invalidate: bool,
}

/// Actions that the host's end requests, in order.
#[derive(Debug)]
pub enum HostPost<P> {
    /// Place a command's data in its part of the memory, before its capsule is sent.
    Place {
        /// The command.
        cid: u16,
        /// The data.
        data: P,
    },
    /// SEND a command capsule.
    Capsule {
        /// The submission queue entry.
        sqe: Sqe,
        /// In-capsule data, which follows it.
        data: Option<P>,
    },
}

/// Input of a host: the capsules, and the memory with the commands' parts.
#[derive(Debug)]
pub struct HostInput<'a, B> {
    /// Response capsules.
    pub capsules: &'a [B],
    /// The memory of [`HostQueueParams::memory`].
    pub memory: &'a [u8],
}

/// A command that is not complete.
#[derive(Clone, Copy, Debug)]
struct Command {
    /// Number of bytes that the command reads.
    expected: u32,
}

/// The host's end of a queue pair; `P` is the payload of what commands write, `B` a receive buffer with
/// a response capsule.
#[derive(Debug)]
pub struct HostQueue<P, B> {
    params: HostQueueParams,
    /// Commands by their identifiers; the table grows to the largest in use.
    commands: Vec<Option<Command>>,
    in_flight: usize,
    /// Capsules that were handed out and have no response.
    outstanding: usize,
    /// The most of them at once.
    most: usize,
    in_capsule_data: u32,
    opened: bool,
    closed: bool,
    /// A response whose data was reported.
    pending: Option<(Cqe, u32)>,
    outbox: VecDeque<HostPost<P>>,
    capsules: core::marker::PhantomData<fn(B)>,
}

impl<P: Payload, B> HostQueue<P, B> {
    /// Makes the end of a queue pair that is connected.
    #[must_use]
    pub fn new(params: HostQueueParams) -> Self {
        Self {
            params,
            commands: Vec::new(),
            in_flight: 0,
            outstanding: 0,
            most: usize::MAX,
            in_capsule_data: 0,
            opened: false,
            closed: false,
            pending: None,
            outbox: VecDeque::new(),
            capsules: core::marker::PhantomData,
        }
    }

    /// Limits the outstanding capsules to `most` from now on: the number of receive buffers that the target reports
    /// (CRQSIZE).
    pub fn limit_capsules(&mut self, most: u16) {
        self.most = most.into();
    }

    /// Removes and returns the next action of the host's end. A capsule waits for a response if the target may have no
    /// receive buffer for it, and blocks the actions behind it.
    pub fn take_post(&mut self) -> Option<HostPost<P>> {
        if let Some(HostPost::Capsule { .. }) = self.outbox.front() {
            if self.outstanding >= self.most {
                return None;
            }
            self.outstanding += 1;
        }
        self.outbox.pop_front()
    }

    /// Returns whether something waits for [`Self::take_post`].
    #[must_use]
    pub fn has_posts(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Returns where a command's part of the memory begins, as bytes from the start of the memory;
    /// `None` where it has none.
    fn part_of(&self, cid: u16) -> Option<usize> {
        let part = self.params.part as usize;
        let start = usize::from(cid).checked_mul(part)?;
        (start.checked_add(part)? <= self.params.length).then_some(start)
    }

    fn response(&mut self, cqe: Cqe) -> Result<(Cqe, u32), Violation> {
        let entry = self.commands.get_mut(usize::from(cqe.cid.get())).and_then(Option::take);
        let unknown = Violation("a response to a command that is not outstanding");
        let Command { expected } = entry.ok_or(unknown)?;
        self.in_flight -= 1;
        self.outstanding = self.outstanding.saturating_sub(1);
        Ok((cqe, if cqe.status().is_success() { expected } else { 0 }))
    }

    /// Handles a response capsule. Returns the data that the command has read, else the response.
    fn capsule<'a>(
        &mut self,
        bytes: &[u8],
        memory: &'a [u8],
    ) -> Result<HostReceived<'a>, Violation> {
        let cqe = Cqe::read_from_bytes(bytes);
        let cqe = cqe.map_err(|_| Violation("a response capsule that is not of 16 bytes"))?;
        let (cqe, received) = self.response(cqe)?;
        let cid = cqe.cid.get();
        let start = self.part_of(cid).unwrap_or(0);
        let data = memory.get(start..).and_then(|part| part.get(..received as usize));
        match data {
            Some(bytes) if received > 0 => {
                self.pending = Some((cqe, received));
                Ok(HostReceived::ReadData { cid, offset: 0, bytes })
            }
            _ => Ok(HostReceived::Response { cid, cqe, received }),
        }
    }
}

impl<P, B> HostTransport for HostQueue<P, B>
where
    P: Payload,
    B: Debug + Deref<Target = [u8]> + 'static,
{
    type Payload = P;
    type Chunk<'a> = HostInput<'a, B>;
    type Violation = Violation;

    fn set_in_capsule_data(&mut self, bytes: u32) {
        self.in_capsule_data = bytes;
    }

    fn submit(
        &mut self,
        mut sqe: Sqe,
        data: Option<P>,
        read_length: u32,
    ) -> Result<(), SubmitError> {
        if self.closed {
            return Err(SubmitError::NotReady);
        }
        let (cid, length) = (sqe.cid.get(), data.as_ref().map_or(0, length_of));
        let in_capsule = length > 0 && length <= self.in_capsule_data;
        let moved = length.max(read_length);
        let part = self.part_of(cid).filter(|_| moved <= self.params.part);
        if part.is_none() && moved > 0 && !in_capsule {
            return Err(SubmitError::NoMemory);
        }
        let index = usize::from(cid);
        if index >= self.commands.len() {
            self.commands.resize(index + 1, None);
        }
        let entry = self.commands.get_mut(index).filter(|entry| entry.is_none());
        *entry.ok_or(SubmitError::CidInUse(cid))? = Some(Command { expected: read_length });
        self.in_flight += 1;
        sqe.flags = sqe.flags & 0b11 | 0b01 << 6;
        let HostQueueParams { memory, invalidate, .. } = self.params;
        sqe.sgl = if in_capsule {
            SglDescriptor::in_capsule(length)
        } else {
            let (start, key) = match part {
                Some(start) if moved > 0 => (start as u64, memory.key),
                _ => (0, 0),
            };
            let address = if moved > 0 { memory.address.wrapping_add(start) } else { 0 };
            SglDescriptor::keyed(address, moved, key, invalidate && moved > 0)
        };
        let (capsule, placed) = if in_capsule { (data, None) } else { (None, data) };
        self.outbox.extend(placed.map(|data| HostPost::Place { cid, data }));
        self.outbox.push_back(HostPost::Capsule { sqe, data: capsule });
        Ok(())
    }

    fn next<'a>(
        &mut self,
        input: &mut Self::Chunk<'a>,
    ) -> Result<Option<HostReceived<'a>>, Violation> {
        if !self.opened {
            self.opened = true;
            return Ok(Some(HostReceived::Ready {
                max_h2c_data: self.params.part,
                header_digest: false,
                data_digest: false,
            }));
        }
        if let Some((cqe, received)) = self.pending.take() {
            let cid = cqe.cid.get();
            return Ok(Some(HostReceived::Response { cid, cqe, received }));
        }
        if self.closed {
            input.capsules = &[];
            return Ok(None);
        }
        let Some((capsule, rest)) = input.capsules.split_first() else { return Ok(None) };
        input.capsules = rest;
        let event = self.capsule(capsule, input.memory);
        self.closed = event.is_err();
        event.map(Some)
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}
