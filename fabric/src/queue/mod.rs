//! A queue of commands over any transport: TCP, RDMA, or memory.
//!
//! [`Transport`] is the target's end: commands and their data come in as [`Received`] events, data
//! is fetched from the host and returned to it, commands are completed. [`HostTransport`] is the
//! host's end. Both are pure: input is an argument, and output waits in the transport until its
//! shell takes the output.
//!
//! Both traits are for generic code that the compiler makes one copy of for each transport: no
//! method is called through a table of functions, and none allocates for a command.

mod commands;
mod either;
mod fetch;
mod grants;
mod host;
mod inbox;
mod place;
mod received;
mod transport;

use std::rc::Rc;
use std::sync::Arc;

pub(crate) use commands::{Commands, Progress};
pub use either::Either;
pub use fetch::{Fetch, Remote};
pub(crate) use grants::MAX_GRANTS;
pub use host::{HostReceived, HostTransport, SubmitError};
pub use inbox::{Chunk, Inbox};
pub(crate) use place::check_place;
pub use received::{CapsuleData, Received, Termination};
pub use transport::{Arriving, Transport};

/// A command's place in its queue's table of outstanding commands, and in its shell's own parallel
/// table: below the queue's number of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(pub u16);

impl SlotId {
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Data on its way to the peer: the shell's buffer type.
///
/// The bytes must neither move nor change between the call that hands the payload over and the
/// moment at which the transport drops it: after it was sent.
pub trait Payload {
    /// Returns the bytes to send.
    fn bytes(&self) -> &[u8];
}

impl Payload for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

impl Payload for &'static [u8] {
    fn bytes(&self) -> &[u8] {
        self
    }
}

impl<T: Payload + ?Sized> Payload for Arc<T> {
    fn bytes(&self) -> &[u8] {
        (**self).bytes()
    }
}

impl<T: Payload + ?Sized> Payload for Rc<T> {
    fn bytes(&self) -> &[u8] {
        (**self).bytes()
    }
}

/// Returns the length of a payload in bytes; bytes beyond 4 GiB - 1 are not sent.
pub(crate) fn length_of<P: Payload>(payload: &P) -> u32 {
    u32::try_from(payload.bytes().len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
