//! The host's end of a queue, over TCP or over RDMA.

use fabric::queue::{Either, Fetch};
use fabric::rdma::wire::Violation;
use fabric::rdma::wire::host_nic::HostNic;
use fabric::tcp::{HostConnection, HostParams};

use crate::host::Written;
use crate::units::Line;

/// What is on its way to a target.
pub(crate) type Up = Line<Vec<u8>>;
/// The host's end of a queue.
pub(crate) type HostEnd = Either<HostConnection<Written>, HostNic<Written>>;

/// Commands of a queue pair that have a part of their host's memory.
const COMMANDS: usize = 128;

/// Makes a host's end of a new connection over TCP.
pub(crate) fn over_tcp(digests: bool) -> HostEnd {
    let (header_digest, data_digest) = (digests, digests);
    let params = HostParams { header_digest, data_digest, ..HostParams::default() };
    Either::Left(HostConnection::new(params))
}

/// Makes a host's end of a new queue pair, whose commands move up to `part` bytes, and whose responses
/// invalidate its key or do not.
pub(crate) fn over_rdma(part: u32, invalidate: bool) -> HostEnd {
    Either::Right(HostNic::new(COMMANDS, part, invalidate))
}

/// Answers an RDMA READ; `None` over TCP.
pub(crate) fn read(end: &mut HostEnd, fetch: &Fetch) -> Option<Result<Vec<u8>, Violation>> {
    let Either::Right(nic) = end else { return None };
    Some(nic.read(fetch.remote, fetch.length))
}

/// Moves an end's output onto the line to the target: bytes as far as there is `room`, or all
/// capsules.
pub(crate) fn send(end: &mut HostEnd, line: &mut Up, mut room: usize) {
    match (end, line) {
        (Either::Left(end), Line::Bytes(line)) => {
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
        (Either::Right(end), Line::Moved(line)) => end.take_capsules(line),
        _ => debug_assert!(false, "an end sends units of its kind"),
    }
}
