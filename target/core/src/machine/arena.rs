//! Arenas of I/O buffers, as the core sees them.

use std::fmt;
use std::ops::DerefMut;

/// The purpose of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Anything.
    Any,
    /// Data that a host is asked for.
    Data,
    /// The same, of the reserve for hosts that hold little.
    Reserve,
}

/// An arena of I/O buffers, of one reactor. A buffer gives itself back when it is dropped.
pub trait Memory: fmt::Debug {
    /// A buffer.
    type Buffer: DerefMut<Target = [u8]> + fmt::Debug;

    /// Takes a buffer of `length` bytes; `None` when there is none: wait until one is dropped. The buffer keeps its
    /// old contents.
    fn take(&self, length: usize, what: Use) -> Option<Self::Buffer>;
    /// Returns whether [`Self::take`] of `length` bytes would return a buffer now.
    fn has(&self, length: usize) -> bool;
    /// Returns the number of bytes in use, and in all.
    fn usage(&self) -> (usize, usize);
    /// Returns the number of bytes in use for data that hosts were asked for.
    fn data_used(&self) -> usize;
    /// Returns the number of these bytes that are of the reserve.
    fn reserve_used(&self) -> usize;
    /// Returns the number of bytes for data that hosts were asked for whose buffers came back since
    /// the start.
    fn data_freed(&self) -> u64;
}
