//! The host's end of a queue: over TCP or within the process.

use fabric::loopback::{LoopbackHost, ToHost, ToTarget};
use fabric::nvme::Sqe;
use fabric::queue::{HostReceived, HostTransport, SubmitError};
use fabric::tcp::{HostConnection, HostParams};

use crate::host::Written;
use crate::target_end::Violation;
use crate::units::{Line, Run, either};

/// Data that a host reads, as it comes within the process.
pub(crate) type Read = Vec<u8>;

/// The host's end of a queue.
#[derive(Debug)]
pub(crate) enum HostEnd {
    Tcp(Box<HostConnection<Written>>),
    Loopback(LoopbackHost<Written, Read>),
}

impl HostEnd {
    /// Makes a host's end of a new connection over TCP.
    pub(crate) fn tcp(digests: bool) -> Self {
        let (header_digest, data_digest) = (digests, digests);
        let params = HostParams { header_digest, data_digest, ..HostParams::default() };
        Self::Tcp(Box::new(HostConnection::new(params)))
    }

    /// Makes a host's end of a new connection within the process.
    pub(crate) fn loopback() -> Self {
        Self::Loopback(LoopbackHost::new())
    }

    /// Moves queued output onto the line to the target: bytes as far as there is `room`, or all
    /// messages.
    pub(crate) fn send(&mut self, line: &mut Line<ToTarget<Written>>, mut room: usize) {
        match (self, line) {
            (Self::Tcp(end), Line::Bytes(line)) => {
                let tx = end.tx();
                while tx.in_flight() || tx.begin() {
                    let mut taken = 0;
                    for run in tx.slices() {
                        let part = run.get(..room).unwrap_or(run);
                        line.extend(part);
                        taken += part.len();
                        room -= part.len();
                    }
                    if taken == 0 || !tx.advance(taken) {
                        break;
                    }
                }
            }
            (Self::Loopback(end), Line::Messages(line)) => {
                let mut messages = Vec::new();
                end.transmit(&mut messages);
                line.extend(messages);
            }
            _ => debug_assert!(false, "bytes leave over TCP, messages within the process"),
        }
    }
}

impl HostTransport for HostEnd {
    type Payload = Written;
    type Chunk<'a> = Run<'a, ToHost<Read>>;
    type Violation = Violation;

    fn set_in_capsule_data(&mut self, bytes: u32) {
        either!(self.set_in_capsule_data(bytes))
    }

    fn submit(
        &mut self,
        sqe: Sqe,
        data: Option<Written>,
        read_length: u32,
    ) -> Result<(), SubmitError> {
        either!(self.submit(sqe, data, read_length))
    }

    fn next<'a>(
        &mut self,
        input: &mut Self::Chunk<'a>,
    ) -> Result<Option<HostReceived<'a>>, Violation> {
        match (self, input) {
            (Self::Tcp(end), Run::Bytes(bytes)) => end.next(bytes).map_err(Violation::Tcp),
            (Self::Loopback(end), Run::Messages(messages)) => {
                end.next(messages).map_err(Violation::Loopback)
            }
            _ => {
                debug_assert!(false, "bytes arrive over TCP, messages within the process");
                Ok(None)
            }
        }
    }

    fn in_flight(&self) -> usize {
        either!(self.in_flight())
    }
}
