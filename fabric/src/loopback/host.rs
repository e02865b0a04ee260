//! The host role.

use super::{DataMessage, GrantMessage, ToHost, ToTarget, Violation};
use crate::nvme::{Cqe, SglDescriptor, Sqe};
use crate::queue::{HostReceived, HostTransport, Payload, SubmitError, Termination, length_of};

/// A command that is not complete.
#[derive(Debug)]
struct Command<H> {
    /// Data that the command writes, where the target fetches it.
    data: Option<H>,
    /// Bytes of `data` that were granted.
    granted: u32,
    /// Number of bytes that the command reads.
    expected: u32,
    /// Number of those bytes that have arrived.
    received: u32,
}

/// A queue's host end; `H` is the payload of its writes, `P` that of what the target returns.
#[derive(Debug)]
pub struct LoopbackHost<H, P> {
    /// Commands by their identifiers; the table grows to the largest in use.
    commands: Vec<Option<Command<H>>>,
    in_flight: usize,
    in_capsule_data: u32,
    /// Largest piece of data to the target in bytes; `None` before the connection is set up.
    max_data: Option<u32>,
    closed: bool,
    outbox: Vec<ToTarget<H>>,
    target_payload: core::marker::PhantomData<fn(P)>,
}

impl<H: Payload + Clone, P: Payload> Default for LoopbackHost<H, P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H: Payload + Clone, P: Payload> LoopbackHost<H, P> {
    /// Makes a host's end that waits to be accepted.
    #[must_use]
    pub fn new() -> Self {
        Self {
            commands: Vec::new(),
            in_flight: 0,
            in_capsule_data: crate::tcp::ADMIN_IN_CAPSULE_DATA,
            max_data: None,
            closed: false,
            outbox: Vec::new(),
            target_payload: core::marker::PhantomData,
        }
    }

    /// Moves the output, in order, into `messages`.
    pub fn transmit(&mut self, messages: &mut Vec<ToTarget<H>>) {
        messages.append(&mut self.outbox);
    }

    fn command(&mut self, cid: u16) -> Result<&mut Command<H>, Violation> {
        let entry = self.commands.get_mut(usize::from(cid)).and_then(Option::as_mut);
        entry.ok_or(Violation::UNKNOWN_COMMAND)
    }

    /// Sends the granted data, in messages that the target takes.
    fn granted(&mut self, grant: GrantMessage, max_data: u32) -> Result<(), Violation> {
        let GrantMessage { cid, slot, tag, mut offset, length } = grant;
        let command = self.command(cid)?;
        let data = command.data.clone().ok_or(Violation::UNKNOWN_COMMAND)?;
        let left = length_of(&data) - command.granted;
        if offset != command.granted || length == 0 || length > left {
            return Err(Violation::NOT_NEXT);
        }
        command.granted += length;
        let end = offset + length;
        while offset < end {
            let length = max_data.min(end - offset);
            let data = data.clone();
            self.outbox.push(ToTarget::Data(DataMessage { slot, tag, offset, length, data }));
            offset += length;
        }
        Ok(())
    }

    fn read_data<'a>(
        &mut self,
        cid: u16,
        offset: u32,
        data: &'a P,
    ) -> Result<HostReceived<'a>, Violation> {
        let command = self.command(cid)?;
        let length = length_of(data);
        if offset != command.received || length > command.expected - command.received {
            return Err(Violation::NOT_NEXT);
        }
        command.received += length;
        Ok(HostReceived::ReadData { cid, offset, bytes: data.bytes() })
    }

    fn response<'a>(&mut self, cqe: Cqe) -> Result<HostReceived<'a>, Violation> {
        let cid = cqe.cid.get();
        let received = self.command(cid)?.received;
        if let Some(entry) = self.commands.get_mut(usize::from(cid)) {
            *entry = None;
        }
        self.in_flight -= 1;
        Ok(HostReceived::Response { cid, cqe, received })
    }

    fn message<'a>(
        &mut self,
        message: &'a ToHost<P>,
    ) -> Result<Option<HostReceived<'a>>, Violation> {
        match (message, self.max_data) {
            (ToHost::Accepted { max_data }, None) => {
                self.max_data = Some((*max_data).max(1));
                Ok(Some(HostReceived::Ready {
                    max_h2c_data: *max_data,
                    header_digest: false,
                    data_digest: false,
                }))
            }
            (ToHost::Accepted { .. }, Some(_)) => Err(Violation::TWICE_ACCEPTED),
            (ToHost::Grant(grant), Some(max_data)) => self.granted(*grant, max_data).map(|()| None),
            (ToHost::Data { cid, offset, data }, _) => {
                self.read_data(*cid, *offset, data).map(Some)
            }
            (ToHost::Response(cqe), _) => self.response(*cqe).map(Some),
            (ToHost::Terminated(violation), _) => {
                self.closed = true;
                let reason = Termination { code: violation.code, information: 0 };
                Ok(Some(HostReceived::Terminated(reason)))
            }
            (ToHost::Grant(_), None) => Err(Violation::UNKNOWN_COMMAND),
        }
    }
}

impl<H: Payload + Clone, P: Payload + 'static> HostTransport for LoopbackHost<H, P> {
    type Payload = H;
    type Chunk<'a> = &'a [ToHost<P>];
    type Violation = Violation;

    fn set_in_capsule_data(&mut self, bytes: u32) {
        self.in_capsule_data = bytes;
    }

    fn submit(
        &mut self,
        mut sqe: Sqe,
        data: Option<H>,
        read_length: u32,
    ) -> Result<(), SubmitError> {
        if self.closed || self.max_data.is_none() {
            return Err(SubmitError::NotReady);
        }
        let (cid, length) = (sqe.cid.get(), data.as_ref().map_or(0, length_of));
        let in_capsule = length > 0 && length <= self.in_capsule_data;
        let index = usize::from(cid);
        if index >= self.commands.len() {
            self.commands.resize_with(index + 1, || None);
        }
        let entry = self.commands.get_mut(index).filter(|entry| entry.is_none());
        let entry = entry.ok_or(SubmitError::CidInUse(cid))?;
        sqe.flags = sqe.flags & 0b11 | 0b01 << 6;
        sqe.sgl = if in_capsule {
            SglDescriptor::in_capsule(length)
        } else {
            SglDescriptor::transport(length.max(read_length))
        };
        let (capsule, fetched) = if in_capsule { (data, None) } else { (None, data) };
        *entry = Some(Command { data: fetched, granted: 0, expected: read_length, received: 0 });
        self.in_flight += 1;
        self.outbox.push(ToTarget::Command { sqe, data: capsule });
        Ok(())
    }

    fn next<'a>(
        &mut self,
        input: &mut Self::Chunk<'a>,
    ) -> Result<Option<HostReceived<'a>>, Violation> {
        while !self.closed {
            let Some((message, rest)) = input.split_first() else { return Ok(None) };
            *input = rest;
            match self.message(message) {
                Ok(None) => {}
                Ok(event) => return Ok(event),
                Err(violation) => {
                    self.closed = true;
                    self.outbox.push(ToTarget::Terminated(violation));
                    return Err(violation);
                }
            }
        }
        *input = &[];
        Ok(None)
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}
