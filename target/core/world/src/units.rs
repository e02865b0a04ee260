//! The units between the ends of a queue: bytes over TCP, messages within the process, and over RDMA
//! what devices move.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::Deref;

use fabric::queue::Inbox;

/// Asks the transport that carries a queue, in a method of its end.
macro_rules! either {
    ($end:ident . $method:ident ( $($argument:expr),* )) => {
        match $end {
            Self::Tcp(end) => end.$method($($argument),*),
            Self::Loopback(end) => end.$method($($argument),*),
            Self::Rdma(end) => end.$method($($argument),*),
        }
    };
}
pub(crate) use either;

/// What carries a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Tcp,
    /// The transport within the process.
    Loopback,
    Rdma,
}

/// The units that one end has sent and the other has not received, in order.
#[derive(Debug)]
pub(crate) enum Line<M, W> {
    Bytes(VecDeque<u8>),
    Messages(VecDeque<M>),
    Moved(VecDeque<W>),
}

impl<M, W> Line<M, W> {
    /// Makes an empty line.
    pub(crate) fn new(carrier: Carrier) -> Self {
        match carrier {
            Carrier::Tcp => Self::Bytes(VecDeque::new()),
            Carrier::Loopback => Self::Messages(VecDeque::new()),
            Carrier::Rdma => Self::Moved(VecDeque::new()),
        }
    }

    /// Returns how many units there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Messages(messages) => messages.len(),
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
            Self::Messages(messages) => messages.truncate(length),
            Self::Moved(moved) => moved.truncate(length),
        }
    }

    /// Takes the first `length` units.
    pub(crate) fn take(&mut self, length: usize) -> Units<M, W> {
        match self {
            Self::Bytes(bytes) => Units::Bytes(bytes.drain(..length).collect()),
            Self::Messages(messages) => Units::Messages(messages.drain(..length).collect()),
            Self::Moved(moved) => Units::Moved(moved.drain(..length).collect()),
        }
    }
}

/// The units that have arrived at an end.
#[derive(Debug)]
pub(crate) enum Units<M, W> {
    Bytes(Vec<u8>),
    Messages(Vec<M>),
    Moved(Vec<W>),
}

impl<M, W> Default for Units<M, W> {
    fn default() -> Self {
        Self::Bytes(Vec::new())
    }
}

/// A piece of the units that have arrived at an end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run<'a, M, W> {
    Bytes(&'a [u8]),
    Messages(&'a [M]),
    Moved(&'a [W]),
}

impl<M, W> Units<M, W> {
    /// Returns how many units there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Messages(messages) => messages.len(),
            Self::Moved(moved) => moved.len(),
        }
    }

    /// Returns all units of the line.
    pub(crate) fn run(&self) -> Run<'_, M, W> {
        match self {
            Self::Bytes(bytes) => Run::Bytes(bytes),
            Self::Messages(messages) => Run::Messages(messages),
            Self::Moved(moved) => Run::Moved(moved),
        }
    }
}

impl<M: Clone + Debug, W: Clone + Debug + Deref<Target = [u8]>> Inbox for Units<M, W> {
    type Chunk<'a>
        = Run<'a, M, W>
    where
        Self: 'a;

    fn keep(&mut self, chunk: Run<'_, M, W>) {
        match (&mut *self, chunk) {
            (Self::Bytes(kept), Run::Bytes(bytes)) => kept.keep(bytes),
            (Self::Messages(kept), Run::Messages(messages)) => kept.keep(messages),
            (Self::Moved(kept), Run::Moved(moved)) => kept.keep(moved),
            // An inbox does not know its kind of units until the first arrives.
            (kept, chunk) => {
                debug_assert_eq!(kept.len(), 0, "one connection has units of one kind");
                *kept = match chunk {
                    Run::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
                    Run::Messages(messages) => Self::Messages(messages.to_vec()),
                    Run::Moved(moved) => Self::Moved(moved.to_vec()),
                };
            }
        }
    }

    fn kept(&self) -> Run<'_, M, W> {
        self.run()
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Bytes(kept) => kept.bytes(),
            Self::Messages(kept) => kept.bytes(),
            Self::Moved(kept) => kept.bytes(),
        }
    }
}
