//! Names of things in flight: connections, and what a ring completion is about.

use fabric::controller::ConnectionId;

/// A connection of one reactor: its place in the table, and which user of the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Place in the reactor's table, below 2^24.
    pub index: u32,
    /// Counts the connections that have had this place, modulo 2^24.
    pub generation: u32,
}

/// 24 bits.
const MASK: u32 = 0xff_ffff;

impl Key {
    /// The connection's name in the whole daemon: reactor 63:48, generation 47:24, index 23:0.
    #[must_use]
    pub fn id(self, reactor: usize) -> ConnectionId {
        let reactor = u64::try_from(reactor).unwrap_or(0);
        ConnectionId(
            reactor << 48 | u64::from(self.generation & MASK) << 24 | u64::from(self.index & MASK),
        )
    }

    /// The reactor and the key that [`Self::id`] was made from.
    #[must_use]
    pub fn of(id: ConnectionId) -> (usize, Self) {
        let low = |bits: u64| u32::try_from(bits & u64::from(MASK)).unwrap_or(0);
        let reactor = usize::try_from(id.0 >> 48).unwrap_or(usize::MAX);
        (reactor, Self { index: low(id.0), generation: low(id.0 >> 24) })
    }
}

/// What a completion is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// A listener has a new connection.
    Accept(u32),
    /// A connection has received.
    Receive(Key),
    /// A connection has sent.
    Send(Key),
    /// A unit of a job has ended.
    Unit(u32),
    /// The mailbox has something.
    Mail,
    /// A cancellation; nothing to do.
    Cancel,
}

impl Tag {
    /// As 64 bits: kind 63:56, generation 47:24, index 31:0 or 23:0.
    #[must_use]
    pub fn encode(self) -> u64 {
        let key = |kind: u64, key: Key| kind << 56 | key.id(0).0;
        match self {
            Self::Accept(listener) => 1 << 56 | u64::from(listener),
            Self::Receive(of) => key(2, of),
            Self::Send(of) => key(3, of),
            Self::Unit(unit) => 4 << 56 | u64::from(unit),
            Self::Mail => 5 << 56,
            Self::Cancel => 6 << 56,
        }
    }

    /// From 64 bits; nothing that [`Self::encode`] did not make.
    #[must_use]
    pub fn decode(bits: u64) -> Option<Self> {
        let low = u32::try_from(bits & u64::from(u32::MAX)).ok()?;
        let (_, key) = Key::of(ConnectionId(bits & 0xffff_ffff_ffff));
        Some(match bits >> 56 {
            1 => Self::Accept(low),
            2 => Self::Receive(key),
            3 => Self::Send(key),
            4 => Self::Unit(low),
            5 => Self::Mail,
            6 => Self::Cancel,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_survive_their_encoding(index in 0..=MASK, generation in 0..=MASK, reactor in 0usize..256) {
            let key = Key { index, generation };
            prop_assert_eq!(Key::of(key.id(reactor)), (reactor, key));
            for tag in [Tag::Receive(key), Tag::Send(key), Tag::Accept(index), Tag::Unit(generation)] {
                prop_assert_eq!(Tag::decode(tag.encode()), Some(tag));
            }
        }
    }
}
