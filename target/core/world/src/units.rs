//! The units between the ends of a queue: bytes over TCP, and over RDMA what devices move.

use std::collections::VecDeque;

use fabric::queue::Either;

/// What carries a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Tcp,
    Rdma,
}

/// The units that have arrived at an end; `W` is what a device moves there.
pub(crate) type Units<W> = Either<Vec<u8>, Vec<W>>;

/// The units that one end has sent and the other has not received, in order.
#[derive(Debug)]
pub(crate) enum Line<W> {
    Bytes(VecDeque<u8>),
    Moved(VecDeque<W>),
}

impl<W> Line<W> {
    /// Makes an empty line.
    pub(crate) fn new(carrier: Carrier) -> Self {
        match carrier {
            Carrier::Tcp => Self::Bytes(VecDeque::new()),
            Carrier::Rdma => Self::Moved(VecDeque::new()),
        }
    }

    /// Returns how many units there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Moved(moved) => moved.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops the units after the first `length`.
    pub(crate) fn truncate(&mut self, length: usize) {
        match self {
            Self::Bytes(bytes) => bytes.truncate(length),
            Self::Moved(moved) => moved.truncate(length),
        }
    }

    /// Takes the first `length` units.
    pub(crate) fn take(&mut self, length: usize) -> Units<W> {
        match self {
            Self::Bytes(bytes) => Either::Left(bytes.drain(..length).collect()),
            Self::Moved(moved) => Either::Right(moved.drain(..length).collect()),
        }
    }
}
