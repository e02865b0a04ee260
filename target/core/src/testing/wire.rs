//! The units between the ends of a queue: bytes over TCP, and capsules and work requests over RDMA.

use std::collections::VecDeque;
use std::io::Read as _;
use std::rc::Rc;

use fabric::queue::{Either, Fetch, Transport};
use fabric::rdma::wire::host_nic::{HostNic, Incoming};
use fabric::rdma::wire::{QueueParams, TargetQueue, Violation};
use fabric::tcp::{HostConnection, HostParams, TargetConnection, TargetParams};

use super::heap::HeapBuffer;
use crate::machine::driver::DataPlace;
use crate::memory::payload::TxData;

/// Data that a target returns.
pub type Returned = TxData<HeapBuffer>;
/// A command's buffer that is received into.
pub type Place = DataPlace<HeapBuffer>;
/// The target's end of a queue.
pub type TargetEnd = Either<TargetConnection<Returned>, TargetQueue<Returned, Vec<u8>>>;
/// The batch that a target sends at a time.
pub type Batch = <TargetEnd as Transport>::Batch;

/// Data that a host writes.
pub type Written = Rc<Vec<u8>>;
/// The host's end of a queue.
pub type HostEnd = Either<HostConnection<Written>, HostNic<Written>>;

/// The units on their way to a target: bytes, or capsules.
pub type Up = Line<Vec<u8>>;
/// The units on their way to a host: bytes, or RDMA WRITEs and responses.
pub type Down = Line<Incoming>;

/// The units that have arrived at an end; `W` is the unit over RDMA.
pub type Units<W> = Either<Vec<u8>, Vec<W>>;

/// Commands of a queue pair that have a part of their host's memory.
const PARTS: usize = 128;
/// Number of work requests that the direction to a host holds.
const MESSAGES: usize = 16;

/// The transport that carries a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// NVMe/TCP.
    Tcp,
    /// NVMe/RDMA.
    Rdma,
}

/// The units that one end has sent and the other has not received, in order.
#[derive(Debug)]
pub enum Line<W> {
    /// Bytes of a stream.
    Bytes(VecDeque<u8>),
    /// Capsules, WRITEs or responses over RDMA.
    Moved(VecDeque<W>),
}

impl<W> Default for Line<W> {
    fn default() -> Self {
        Self::new(Carrier::Tcp)
    }
}

impl<W> Line<W> {
    /// Makes an empty line.
    #[must_use]
    pub fn new(carrier: Carrier) -> Self {
        match carrier {
            Carrier::Tcp => Self::Bytes(VecDeque::new()),
            Carrier::Rdma => Self::Moved(VecDeque::new()),
        }
    }

    /// Returns how many units there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Moved(moved) => moved.len(),
        }
    }

    /// Returns whether there are no units.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops the units after the first `length`.
    pub fn truncate(&mut self, length: usize) {
        match self {
            Self::Bytes(bytes) => bytes.truncate(length),
            Self::Moved(moved) => moved.truncate(length),
        }
    }

    /// Takes the first `length` units, or all where there are fewer.
    pub fn take(&mut self, length: usize) -> Units<W> {
        let length = length.min(self.len());
        match self {
            Self::Bytes(bytes) => {
                let mut taken = vec![0; length];
                take_bytes(bytes, &mut taken);
                Either::Left(taken)
            }
            Self::Moved(moved) => Either::Right(moved.drain(..length).collect()),
        }
    }

    /// Moves up to `length` bytes to a place, as far as that has room. Returns how many; over RDMA none.
    pub fn take_into(&mut self, place: Option<&mut Place>, length: usize) -> usize {
        let Self::Bytes(bytes) = self else { return 0 };
        let into = place.map(DataPlace::bytes_mut).unwrap_or_default();
        let placed = into.len().min(length).min(bytes.len());
        take_bytes(bytes, into.get_mut(..placed).unwrap_or_default());
        placed
    }
}

impl Up {
    /// Adds the units that a host's end sends: bytes as far as there is `room`, or all capsules.
    pub fn fill(&mut self, end: &mut HostEnd, mut room: usize) {
        match (end, self) {
            (Either::Left(end), Self::Bytes(line)) => {
                let tx = end.tx();
                while tx.in_flight() || tx.begin() {
                    let taken = extend(line, tx.slices(), &mut room);
                    if taken == 0 || !tx.advance(taken) {
                        break;
                    }
                }
            }
            (Either::Right(end), Self::Moved(line)) => end.take_capsules(line),
            _ => debug_assert!(false, "an end sends units of its kind"),
        }
    }
}

impl Down {
    /// Adds the units that a target's batch sends: bytes as far as there is `room`, or work requests after the
    /// first `sent`. Returns whether the whole batch is on its way.
    pub fn fill(&mut self, batch: &mut Batch, mut room: usize, sent: &mut usize) -> bool {
        match (batch, self) {
            (Either::Left(batch), Self::Bytes(line)) => {
                let taken = extend(line, batch.slices(), &mut room);
                taken > 0 && batch.advance(taken)
            }
            (Either::Right(batch), Self::Moved(line)) => {
                let room = MESSAGES.saturating_sub(line.len());
                line.extend(batch.posts.iter().skip(*sent).take(room).map(Incoming::from));
                *sent = batch.posts.len().min(*sent + room);
                *sent == batch.posts.len()
            }
            _ => {
                debug_assert!(false, "a batch is of its connection's kind");
                true
            }
        }
    }
}

/// Fills `into` with the first bytes, of which there are enough, and removes them.
fn take_bytes(bytes: &mut VecDeque<u8>, into: &mut [u8]) {
    let read = bytes.read_exact(into);
    debug_assert!(read.is_ok(), "callers ask for as many as there are");
}

/// Appends runs of bytes as far as there is room. Returns how many bytes.
fn extend<'a>(
    line: &mut VecDeque<u8>,
    runs: impl Iterator<Item = &'a [u8]>,
    room: &mut usize,
) -> usize {
    let before = *room;
    for run in runs {
        let part = run.get(..*room).unwrap_or(run);
        line.extend(part);
        *room -= part.len();
    }
    before - *room
}

/// Makes a target's end of a new connection: over TCP for commands that move up to `max_transfer` bytes,
/// or of the queue pair `pair`.
#[must_use]
pub fn target_end(carrier: Carrier, max_transfer: u32, pair: QueueParams) -> TargetEnd {
    match carrier {
        Carrier::Tcp => {
            Either::Left(TargetConnection::new(TargetParams::for_transfers(max_transfer)))
        }
        Carrier::Rdma => Either::Right(TargetQueue::new(pair)),
    }
}

/// Makes a host's end of a new connection over TCP.
#[must_use]
pub fn host_over_tcp(params: HostParams) -> HostEnd {
    Either::Left(HostConnection::new(params))
}

/// Makes a host's end of a new queue pair, whose commands move up to `part` bytes, and whose responses
/// invalidate its key or do not.
#[must_use]
pub fn host_over_rdma(part: u32, invalidate: bool) -> HostEnd {
    Either::Right(HostNic::new(PARTS, part, invalidate))
}

/// Carries out an RDMA READ: data goes to its place. Returns the data where it has none.
///
/// # Errors
/// The target reads memory that the host has not granted.
pub fn fetch(
    end: &mut HostEnd,
    fetch: &Fetch,
    place: Option<&mut Place>,
) -> Result<Vec<u8>, Violation> {
    let Either::Right(nic) = end else {
        debug_assert!(false, "data is fetched over RDMA");
        return Ok(Vec::new());
    };
    let bytes = nic.read(fetch.remote, fetch.length)?;
    let Some(place) = place else { return Ok(bytes) };
    place.bytes_mut().iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    Ok(Vec::new())
}
