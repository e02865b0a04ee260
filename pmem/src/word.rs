//! The 64-bit words on the data node that clients and the monitor share.
//!
//! | word | who writes | bits |
//! |---|---|---|
//! | [`PoolWord`] | all: clients by fetch-and-add | 63:48 period, 47:0 tokens, signed |
//! | [`GrantWord`], one for each client | the monitor | 63:48 period, 31:0 reservation |
//! | [`ReportWord`], one for each client | the client | 63:52 period, 51:26 reservation left, 25:0 completed |

use crate::period::Period;
use crate::token::Tokens;

/// Number of bits below the period in a pool word.
const COUNT_BITS: u32 = 48;
/// The largest number of tokens in a pool word, of either sign.
const MAX_COUNT: i64 = (1 << (COUNT_BITS - 1)) - 1;
/// Number of bits of each of the two numbers in a report.
const REPORT_BITS: u32 = 26;
/// The largest number in a report; greater ones are reported as this.
const MAX_REPORTED: u64 = (1 << REPORT_BITS) - 1;

/// The pool of global tokens, as a fetch-and-add returns it (docs/research/sources.md, H1: clients hold
/// tokens).
///
/// The number of tokens is signed: clients subtract without looking, so it may pass below zero. The
/// word is the sum of the period, times 2^48, and the tokens; so a fetch-and-add of tokens leaves
/// the period as it is, even where they pass below zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolWord {
    /// Number of the period to which the tokens belong.
    pub period: Period,
    /// Number of tokens; negative where clients have asked for more than there were.
    pub tokens: i64,
}

impl PoolWord {
    /// Makes the word of a pool; more tokens than fit become the most that do.
    #[must_use]
    pub fn new(period: Period, tokens: Tokens) -> Self {
        Self { period, tokens: i64::try_from(tokens.0).unwrap_or(MAX_COUNT).min(MAX_COUNT) }
    }

    /// Reads a word.
    #[must_use]
    pub const fn unpack(word: u64) -> Self {
        let tokens = (word << (64 - COUNT_BITS)).cast_signed() >> (64 - COUNT_BITS);
        let [.., low, high] = word.wrapping_sub(tokens.cast_unsigned()).to_le_bytes();
        Self { period: Period(u16::from_le_bytes([low, high])), tokens }
    }

    /// Returns the word.
    #[must_use]
    pub fn pack(self) -> u64 {
        let tokens = self.tokens.clamp(-MAX_COUNT - 1, MAX_COUNT).cast_unsigned();
        (u64::from(self.period.0) << COUNT_BITS).wrapping_add(tokens)
    }

    /// Returns how many tokens a client got that asked for `batch` and read this word: none where
    /// the pool was empty or overdrawn.
    #[must_use]
    pub fn granted(self, batch: Tokens) -> Tokens {
        Tokens(u64::try_from(self.tokens).unwrap_or(0)).min(batch)
    }
}

/// A client's reservation in the present period, for an engine that missed the push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantWord {
    /// Number of the present period.
    pub period: Period,
    /// The client's reservation in tokens.
    pub reservation: Tokens,
}

impl GrantWord {
    /// Reads a word.
    #[must_use]
    pub const fn unpack(word: u64) -> Self {
        let [.., low, high] = word.to_le_bytes();
        let reservation = Tokens(word & 0xffff_ffff);
        Self { period: Period(u16::from_le_bytes([low, high])), reservation }
    }

    /// Returns the word; a reservation of 2^32 or more becomes 2^32 - 1.
    #[must_use]
    pub fn pack(self) -> u64 {
        u64::from(self.period.0) << COUNT_BITS | self.reservation.0.min(u64::from(u32::MAX))
    }
}

/// A client's report: the one 64-bit value that it writes each millisecond once it was asked
/// (docs/research/sources.md, H1; "Client Reporting" in the paper).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportWord {
    /// The low 12 bits of the period's number.
    pub period: u16,
    /// The reservation tokens that are left.
    pub residual: Tokens,
    /// N_i: the I/Os completed in this period.
    pub completed: Tokens,
}

impl ReportWord {
    /// Makes a report; numbers of 2^26 or more become 2^26 - 1.
    #[must_use]
    pub fn new(period: Period, residual: Tokens, completed: Tokens) -> Self {
        let most = Tokens(MAX_REPORTED);
        Self {
            period: period.0 & 0xfff,
            residual: residual.min(most),
            completed: completed.min(most),
        }
    }

    /// Reads a word.
    #[must_use]
    pub fn unpack(word: u64) -> Self {
        Self {
            period: u16::try_from(word >> (2 * REPORT_BITS)).unwrap_or(0),
            residual: Tokens(word >> REPORT_BITS & MAX_REPORTED),
            completed: Tokens(word & MAX_REPORTED),
        }
    }

    /// Returns the word.
    #[must_use]
    pub fn pack(self) -> u64 {
        let period = u64::from(self.period & 0xfff) << (2 * REPORT_BITS);
        let residual = self.residual.0.min(MAX_REPORTED) << REPORT_BITS;
        period | residual | self.completed.0.min(MAX_REPORTED)
    }

    /// Returns whether the report is of this period, as far as its 12 bits tell.
    #[must_use]
    pub const fn is_of(self, period: Period) -> bool {
        self.period == period.0 & 0xfff
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn h1_fetch_add_preserves_pool_period(
            period: u16, tokens in 0_u64..1 << 40, fetches in 0_u64..100, batch in 1_u64..1 << 40,
        ) {
            let mut word = PoolWord::new(Period(period), Tokens(tokens)).pack();
            for _ in 0..fetches {
                word = word.wrapping_sub(batch);
            }
            let left = i64::try_from(tokens).unwrap() - i64::try_from(fetches * batch).unwrap();
            let expected = PoolWord { period: Period(period), tokens: left };
            prop_assert_eq!(PoolWord::unpack(word), expected);
        }

        #[test]
        fn words_are_read_as_they_were_written(period: u16, left: u32, done: u32, any: u64) {
            let grant = GrantWord { period: Period(period), reservation: Tokens(left.into()) };
            prop_assert_eq!(GrantWord::unpack(grant.pack()), grant);
            let report = ReportWord::new(Period(period), Tokens(left.into()), Tokens(done.into()));
            prop_assert_eq!(ReportWord::unpack(report.pack()), report);
            prop_assert!(report.is_of(Period(period)));
            prop_assert!(!report.is_of(Period(period).next()));
            prop_assert_eq!(ReportWord::unpack(any).pack(), any);
            prop_assert_eq!(PoolWord::unpack(any).pack(), any, "every word is some pool");
        }
    }
}
