//! Arenas of I/O buffers, as the core sees them.

use std::fmt;
use std::ops::DerefMut;

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Anything.
    Any,
    /// Data that a host is asked for.
    Data,
}

/// An arena of I/O buffers, of one reactor. A buffer gives itself back when it is dropped.
pub trait Memory: fmt::Debug {
    /// A buffer.
    type Buffer: DerefMut<Target = [u8]> + fmt::Debug;

    /// A buffer of `length` bytes, or `None` when there is none: wait until one is dropped. The
    /// contents are whatever they were.
    fn take(&self, length: usize, what: Use) -> Option<Self::Buffer>;
    /// Whether [`Self::take`] of `length` bytes would give a buffer now.
    fn has(&self, length: usize) -> bool;
    /// Bytes in use, and bytes in all.
    fn usage(&self) -> (usize, usize);
    /// Bytes in use for data that hosts were asked for.
    fn data_used(&self) -> usize;
    /// Bytes of such data whose buffers came back since the start.
    fn data_freed(&self) -> u64;
}
