//! The data that a reactor sends.

use std::ops::{Deref, Range};
use std::rc::Rc;

use fabric::queue::Payload;

use super::held::{Held, PAGE};
use super::lease::Leased;

/// The largest piece of zeroes that is written or sent at once, in bytes.
pub const ZEROES: usize = 128 << 10;

/// Zeroes aligned to pages, for O_DIRECT.
#[repr(align(4096))]
struct Aligned([u8; ZEROES]);

static ZERO_PAGES: Aligned = Aligned([0; ZEROES]);

/// Returns `length` zero bytes, at most [`ZEROES`].
#[must_use]
pub fn zeroes(length: usize) -> &'static [u8] {
    ZERO_PAGES.0.get(..length).unwrap_or(&ZERO_PAGES.0)
}

/// The data of a C2HData PDU.
#[derive(Debug)]
pub enum TxData<B> {
    /// This many zeroes, at most [`ZEROES`].
    Zeroes(usize),
    /// An I/O buffer, given back when it has been sent.
    Buffer(Leased<B>),
    /// Blocks that their device holds until they have been sent, and the lease of as much memory.
    Held(Leased<Held>),
    /// The data of an admin command.
    Bytes(Vec<u8>),
    /// A part of data that is sent in several.
    Part(Part<B>),
}

/// A part of data that is sent in several. The data is given back when all of them have been sent.
#[derive(Debug)]
pub struct Part<B> {
    whole: Rc<TxData<B>>,
    range: Range<usize>,
}

impl<B: Deref<Target = [u8]>> TxData<B> {
    /// Returns how many bytes to send of the data at once, where no more than `most` may go: blocks that
    /// a device holds go by whole pages, which some devices ask for (soft RoCE in Linux 7.3 mixes up the
    /// bytes of a packet that crosses pages of memory that is registered on demand).
    pub(crate) fn cut(&self, most: usize) -> usize {
        match self {
            Self::Held(_) => (most / PAGE * PAGE).max(PAGE),
            Self::Part(part) => part.whole.cut(most),
            Self::Zeroes(_) | Self::Buffer(_) | Self::Bytes(_) => most,
        }
    }

    /// Takes a part of the data, which becomes shared between its parts.
    pub(crate) fn part(&mut self, range: Range<usize>) -> Self {
        let all = 0..self.bytes().len();
        let whole = match std::mem::replace(self, Self::Zeroes(0)) {
            Self::Part(Part { whole, .. }) => whole,
            whole => Rc::new(whole),
        };
        *self = Self::Part(Part { whole: Rc::clone(&whole), range: all });
        Self::Part(Part { whole, range })
    }
}

impl<B: Deref<Target = [u8]>> Payload for TxData<B> {
    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Zeroes(length) => zeroes(*length),
            Self::Buffer(buffer) => buffer,
            Self::Held(blocks) => blocks,
            Self::Bytes(bytes) => bytes,
            Self::Part(part) => part.whole.bytes().get(part.range.clone()).unwrap_or_default(),
        }
    }
}
