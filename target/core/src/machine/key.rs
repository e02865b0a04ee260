//! The names of connections.

use fabric::controller::ConnectionId;

/// A connection of one reactor: its place in the table, and the place's generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Place in the reactor's table, below 2^24.
    pub index: u32,
    /// Number of earlier connections in this place, modulo 2^24.
    pub generation: u32,
}

/// 24 bits.
const MASK: u32 = 0xff_ffff;

impl Key {
    /// Returns the connection's name in the whole daemon: reactor 63:48, generation 47:24, index
    /// 23:0.
    #[must_use]
    pub fn id(self, reactor: usize) -> ConnectionId {
        let reactor = u64::try_from(reactor).unwrap_or(0);
        ConnectionId(
            reactor << 48 | u64::from(self.generation & MASK) << 24 | u64::from(self.index & MASK),
        )
    }

    /// Returns the reactor and the key that [`Self::id`] was made from.
    #[must_use]
    pub fn of(id: ConnectionId) -> (usize, Self) {
        let low = |bits: u64| u32::try_from(bits & u64::from(MASK)).unwrap_or(0);
        let reactor = usize::try_from(id.0 >> 48).unwrap_or(usize::MAX);
        (reactor, Self { index: low(id.0), generation: low(id.0 >> 24) })
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
        }
    }
}
