//! Persistent-memory service: the global token pool that clients draw on with fetch-and-add.
#![forbid(unsafe_code)]

/// The global pool's 64-bit word as a fetch-and-add returned it (docs/sources.md, H1: clients hold
/// tokens).
///
/// The word is signed: clients subtract without looking, so it may pass below zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolWord(pub i64);

impl PoolWord {
    /// Returns how many tokens a client got that asked for `batch` and read this word: zero where
    /// the pool was empty or overdrawn.
    #[must_use]
    pub fn granted(self, batch: u32) -> u32 {
        u32::try_from(self.0.clamp(0, i64::from(batch))).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h1_an_overdrawn_pool_grants_nothing() {
        assert_eq!(PoolWord(5000).granted(1000), 1000);
        assert_eq!(PoolWord(400).granted(1000), 400);
        assert_eq!(PoolWord(0).granted(1000), 0);
        assert_eq!(PoolWord(-600).granted(1000), 0);
    }
}
