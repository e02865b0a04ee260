//! Tags of completions: the operation that a completion of the ring belongs to.

use fabric::controller::ConnectionId;
use sluice_core::Key;

/// The operation that a completion belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// A listener has a new connection.
    Accept(u32),
    /// A connection has received.
    Receive(Key),
    /// A connection has received once.
    ReceiveOnce(Key),
    /// A connection has sent.
    Send(Key),
    /// A unit of a job has ended.
    Unit(u32),
    /// The mailbox has something.
    Mail,
    /// A cancellation; nothing to do.
    Cancel,
    /// A socket is closed.
    Close,
    /// A completion queue has completions.
    Completions(u32),
}

impl Tag {
    /// Encodes the tag in 64 bits: kind 63:56, generation 47:24, index 31:0 or 23:0.
    #[must_use]
    pub(super) fn encode(self) -> u64 {
        let key = |kind: u64, key: Key| kind << 56 | key.id(0).0;
        match self {
            Self::Accept(listener) => 1 << 56 | u64::from(listener),
            Self::Receive(of) => key(2, of),
            Self::Send(of) => key(3, of),
            Self::Unit(unit) => 4 << 56 | u64::from(unit),
            Self::Mail => 5 << 56,
            Self::Cancel => 6 << 56,
            Self::ReceiveOnce(of) => key(7, of),
            Self::Close => 8 << 56,
            Self::Completions(queue) => 9 << 56 | u64::from(queue),
        }
    }

    /// Decodes 64 bits; `None` for what [`Self::encode`] did not make.
    #[must_use]
    pub(super) fn decode(bits: u64) -> Option<Self> {
        let low = u32::try_from(bits & u64::from(u32::MAX)).ok()?;
        let (_, key) = Key::of(ConnectionId(bits & 0xffff_ffff_ffff));
        Some(match bits >> 56 {
            1 => Self::Accept(low),
            2 => Self::Receive(key),
            3 => Self::Send(key),
            4 => Self::Unit(low),
            5 => Self::Mail,
            6 => Self::Cancel,
            7 => Self::ReceiveOnce(key),
            8 => Self::Close,
            9 => Self::Completions(low),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MASK: u32 = 0xff_ffff;

    proptest! {
        #[test]
        fn names_survive_their_encoding(index in 0..=MASK, generation in 0..=MASK) {
            let key = Key { index, generation };
            let connection = [Tag::Receive(key), Tag::ReceiveOnce(key), Tag::Send(key)];
            for tag in connection.into_iter().chain([Tag::Accept(index), Tag::Unit(generation)]) {
                prop_assert_eq!(Tag::decode(tag.encode()), Some(tag));
            }
        }
    }
}
