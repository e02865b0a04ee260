//! Persistent memory from the writer's view.
//!
//! # The state after a power cut
//!
//! A store goes to a cache of the CPU and from there to the medium, some time later and in any order.
//! When the power fails, or the machine stops otherwise, these rules hold:
//!
//! - **Whole words.** An aligned word of 8 bytes survives whole or not at all. Anything larger may be
//!   torn between any two words: some hold the new bytes and some the old ones.
//! - **Any order.** A later store may survive without an earlier one, and a word that was stored
//!   several times may have any of these values.
//! - **Flush, then fence.** Bytes stored before a [`Medium::flush`] of them that precedes a [`Medium::fence`] survive.
//!   Without the fence the flush promises nothing.
//! - **Nothing is certainly lost.** A cache may write a line back at any time, so that bytes that were
//!   never flushed may survive too.
//!
//! If one store must survive before another, flush the first, fence, and only then store the
//! second. In tests, `model::Model` is a medium that loses as much as these rules allow.
//!
//! Mappings of files without DAX keep none of these promises until the file is synchronized: see the
//! kinds of regions.

#[cfg(test)]
pub(crate) mod model;

use std::fmt;

/// The bytes that a medium keeps whole: an aligned store of this many is never torn.
pub const WORD: u64 = 8;
/// The bytes of a cache line, which a flush writes back together.
pub const LINE: u64 = 64;

/// Persistent memory.
///
/// Places are in bytes from the medium's start and multiples of [`WORD`], as are the lengths of
/// [`Medium::read`] and [`Medium::write`]. Words have their least significant byte first. Loads
/// beyond the end give zeroes, stores there do nothing.
///
/// Loads and exchanges of single words are sequentially consistent among all threads. A store, and
/// each word of a `read` or `write`, is atomic by itself: a reader that overlaps with a writer may
/// see words of both.
pub trait Medium: Send + Sync + fmt::Debug {
    /// Returns the length in bytes, a multiple of [`WORD`].
    fn bytes(&self) -> u64;

    /// Returns a word.
    fn load(&self, at: u64) -> u64;

    /// Sets a word.
    fn store(&self, at: u64, word: u64);

    /// Sets a word that has the value `old`.
    ///
    /// # Errors
    /// The word has another value, which is returned; it is left as it is.
    fn exchange(&self, at: u64, old: u64, new: u64) -> Result<(), u64>;

    /// Copies bytes out of the medium.
    fn read(&self, at: u64, into: &mut [u8]);

    /// Copies bytes into the medium.
    fn write(&self, at: u64, from: &[u8]);

    /// Starts to write back the cache lines of some bytes, which may be any.
    fn flush(&self, at: u64, bytes: u64);

    /// Waits until all flushes of this thread have reached the medium.
    fn fence(&self);
}

impl<M: Medium + ?Sized> Medium for std::sync::Arc<M> {
    fn bytes(&self) -> u64 {
        (**self).bytes()
    }

    fn load(&self, at: u64) -> u64 {
        (**self).load(at)
    }

    fn store(&self, at: u64, word: u64) {
        (**self).store(at, word);
    }

    fn exchange(&self, at: u64, old: u64, new: u64) -> Result<(), u64> {
        (**self).exchange(at, old, new)
    }

    fn read(&self, at: u64, into: &mut [u8]) {
        (**self).read(at, into);
    }

    fn write(&self, at: u64, from: &[u8]) {
        (**self).write(at, from);
    }

    fn flush(&self, at: u64, bytes: u64) {
        (**self).flush(at, bytes);
    }

    fn fence(&self) {
        (**self).fence();
    }
}
