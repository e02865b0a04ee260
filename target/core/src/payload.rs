//! The data that a reactor sends.

use std::ops::Deref;

use fabric::queue::Payload;

use crate::lease::Leased;

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
    /// The data of an admin command.
    Bytes(Vec<u8>),
}

impl<B: Deref<Target = [u8]>> Payload for TxData<B> {
    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Zeroes(length) => zeroes(*length),
            Self::Buffer(buffer) => buffer,
            Self::Bytes(bytes) => bytes,
        }
    }
}
