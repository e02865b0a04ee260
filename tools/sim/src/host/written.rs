//! The data that a host writes.

use std::rc::Rc;

use fabric::queue::Payload;

/// The most data that a command of a host moves, in bytes: no kernel makes larger requests.
pub(crate) const LARGEST: u32 = 4 << 20;
static DATA: [u8; LARGEST as usize] = [0; LARGEST as usize];

/// Data that a host writes.
#[derive(Clone, Debug)]
pub(super) enum Written {
    /// Data of an admin command.
    Bytes(Rc<Vec<u8>>),
    /// This many zeroes.
    Zeroes(usize),
}

impl Payload for Written {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Zeroes(length) => DATA.get(..*length).unwrap_or(&DATA),
        }
    }
}
