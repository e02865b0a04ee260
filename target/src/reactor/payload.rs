//! What a reactor sends as data.

use fabric::tcp::Payload;

use super::pool::Buffer;
use crate::backend::zeroes;

/// The data of a C2HData PDU.
#[derive(Debug)]
pub(super) enum TxData {
    /// This many zeroes, at most [`crate::backend::ZEROES`].
    Zeroes(usize),
    /// An I/O buffer, given back when it has been sent.
    Buffer(Buffer),
    /// The data of an admin command.
    Bytes(Vec<u8>),
}

impl Payload for TxData {
    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Zeroes(length) => zeroes(*length),
            Self::Buffer(buffer) => buffer,
            Self::Bytes(bytes) => bytes,
        }
    }
}
