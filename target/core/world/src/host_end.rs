//! The host's end of a queue: over TCP, over RDMA, or within the process.

use fabric::loopback::{LoopbackHost, ToHost, ToTarget};
use fabric::nvme::Sqe;
use fabric::queue::{Fetch, HostReceived, HostTransport, SubmitError};
use fabric::rdma::wire::host_nic::{HostNic, Incoming};
use fabric::tcp::{HostConnection, HostParams};

use crate::host::Written;
use crate::target_end::Violation;
use crate::units::{Line, Run, either};

/// What is on its way to a target.
pub(crate) type Up = Line<ToTarget<Written>, Vec<u8>>;

/// Data that a host reads, as it comes within the process.
pub(crate) type Read = Vec<u8>;

/// Commands of a queue pair that have a part of their host's memory, and its size in bytes: more than any
/// command moves.
const COMMANDS: usize = 128;
const PART: u32 = 1 << 20;

/// The host's end of a queue.
#[derive(Debug)]
pub(crate) enum HostEnd {
    Tcp(Box<HostConnection<Written>>),
    Loopback(LoopbackHost<Written, Read>),
    Rdma(Box<HostNic<Written>>),
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

    /// Makes a host's end of a new queue pair, with memory for its commands, and responses that
    /// invalidate its key or do not.
    pub(crate) fn rdma(invalidate: bool) -> Self {
        Self::Rdma(Box::new(HostNic::new(COMMANDS, PART, invalidate)))
    }

    /// Answers an RDMA READ; `None` over other transports.
    pub(crate) fn read(&mut self, fetch: &Fetch) -> Option<Result<Vec<u8>, Violation>> {
        let Self::Rdma(nic) = self else { return None };
        Some(nic.read(fetch.remote, fetch.length).map_err(Violation::Rdma))
    }

    /// Moves queued output onto the line to the target: bytes as far as there is `room`, or all
    /// messages.
    pub(crate) fn send(&mut self, line: &mut Up, mut room: usize) {
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
            (Self::Rdma(end), Line::Moved(line)) => end.take_capsules(line),
            _ => debug_assert!(false, "an end sends units of its kind"),
        }
    }
}

impl HostTransport for HostEnd {
    type Payload = Written;
    type Chunk<'a> = Run<'a, ToHost<Read>, Incoming>;
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
            (Self::Rdma(end), Run::Moved(moved)) => end.next(moved).map_err(Violation::Rdma),
            _ => {
                debug_assert!(false, "an end receives units of its kind");
                Ok(None)
            }
        }
    }

    fn in_flight(&self) -> usize {
        either!(self.in_flight())
    }
}
