//! The account of a client's tokens.

use crate::token::Tokens;

/// Sources and uses of a client's tokens since its engine was created. Received tokens equal the
/// sum of used and held ones: [`Ledger::held`] equals the engine's own count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Reservation tokens that were pushed to it.
    pub pushed: Tokens,
    /// Global tokens that it fetched.
    pub fetched: Tokens,
    /// Tokens spent, one for each I/O.
    pub spent: Tokens,
    /// Reservation tokens given up during a period, because they were more than X.
    pub given_up: Tokens,
    /// Tokens of both kinds that were left when their period ended.
    pub expired: Tokens,
}

impl Ledger {
    /// Computes the tokens that the client holds.
    #[must_use]
    pub fn held(&self) -> Tokens {
        self.pushed + self.fetched - self.spent - self.given_up - self.expired
    }
}
