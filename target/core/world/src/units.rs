//! The units between the ends of a queue: bytes over TCP, messages within the process.

use std::collections::VecDeque;
use std::fmt::Debug;

use fabric::queue::Inbox;

/// Asks the transport that carries a queue, in a method of its end.
macro_rules! either {
    ($end:ident . $method:ident ( $($argument:expr),* )) => {
        match $end {
            Self::Tcp(end) => end.$method($($argument),*),
            Self::Loopback(end) => end.$method($($argument),*),
        }
    };
}
pub(crate) use either;

/// The units that one end has sent and the other has not received, in order.
#[derive(Debug)]
pub(crate) enum Line<M> {
    Bytes(VecDeque<u8>),
    Messages(VecDeque<M>),
}

impl<M> Line<M> {
    /// Makes an empty line.
    pub(crate) fn new(messages: bool) -> Self {
        if messages { Self::Messages(VecDeque::new()) } else { Self::Bytes(VecDeque::new()) }
    }

    /// Returns how many bytes or messages there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Messages(messages) => messages.len(),
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
        }
    }

    /// Takes the first `length` units.
    pub(crate) fn take(&mut self, length: usize) -> Units<M> {
        match self {
            Self::Bytes(bytes) => Units::Bytes(bytes.drain(..length).collect()),
            Self::Messages(messages) => Units::Messages(messages.drain(..length).collect()),
        }
    }
}

/// The units that have arrived at an end.
#[derive(Debug)]
pub(crate) enum Units<M> {
    Bytes(Vec<u8>),
    Messages(Vec<M>),
}

impl<M> Default for Units<M> {
    fn default() -> Self {
        Self::Bytes(Vec::new())
    }
}

/// A piece of the units that have arrived at an end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run<'a, M> {
    Bytes(&'a [u8]),
    Messages(&'a [M]),
}

impl<M> Units<M> {
    /// Returns how many bytes or messages there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Messages(messages) => messages.len(),
        }
    }

    /// Returns all units of the line.
    pub(crate) fn run(&self) -> Run<'_, M> {
        match self {
            Self::Bytes(bytes) => Run::Bytes(bytes),
            Self::Messages(messages) => Run::Messages(messages),
        }
    }
}

impl<M: Clone + Debug> Inbox for Units<M> {
    type Chunk<'a>
        = Run<'a, M>
    where
        M: 'a;

    fn keep(&mut self, chunk: Run<'_, M>) {
        match (&mut *self, chunk) {
            (Self::Bytes(kept), Run::Bytes(bytes)) => kept.keep(bytes),
            (Self::Messages(kept), Run::Messages(messages)) => kept.keep(messages),
            // An inbox does not know its kind of units until the first arrives.
            (Self::Bytes(kept), Run::Messages(messages)) => {
                debug_assert!(kept.is_empty(), "one connection has bytes or messages");
                *self = Self::Messages(messages.to_vec());
            }
            (Self::Messages(_), Run::Bytes(bytes)) => {
                debug_assert!(bytes.is_empty(), "one connection has bytes or messages");
            }
        }
    }

    fn kept(&self) -> Run<'_, M> {
        self.run()
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Bytes(kept) => kept.bytes(),
            Self::Messages(kept) => kept.bytes(),
        }
    }
}
