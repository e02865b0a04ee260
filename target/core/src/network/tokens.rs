//! A bucket of tokens, one for each byte: how much may move by now at a rate.

use fabric::Nanos;

/// One second, in ns.
const SECOND: u64 = 1_000_000_000;

/// A bucket of tokens. It may be in debt: bytes are paid for after they have moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens {
    /// Bytes that may move now; negative where more has moved.
    tokens: i64,
    /// Time at which the tokens were last counted.
    at: Nanos,
}

impl Tokens {
    /// Makes an empty bucket.
    pub(crate) fn new(now: Nanos) -> Self {
        Self { tokens: 0, at: now }
    }

    /// Adds the tokens of the time since they were last counted, at a rate in bytes per second: up to
    /// `kept`. A debt from a time of a higher rate counts as no more than `debt`.
    pub(crate) fn refill(&mut self, now: Nanos, rate: u64, kept: u64, debt: u64) {
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let nanos = now.0.saturating_sub(self.at.0).min(SECOND);
        let parts = u128::from(rate) * u128::from(nanos);
        let new = i64::try_from(parts / u128::from(SECOND)).unwrap_or(i64::MAX);
        if new > 0 {
            // The fraction of a byte stays for the next time.
            let rest = parts % u128::from(SECOND) / u128::from(rate.max(1));
            self.at = Nanos(now.0.saturating_sub(u64::try_from(rest).unwrap_or(0)));
            self.tokens = self.tokens.saturating_add(new).min(signed(kept));
        }
        self.tokens = self.tokens.max(-signed(debt));
    }

    /// Returns the time at which the bucket is out of debt; `None` where it is not in debt.
    pub(crate) fn due(&self, now: Nanos, rate: u64) -> Option<Nanos> {
        let debt = u128::from(self.tokens.min(0).unsigned_abs());
        if debt == 0 {
            return None;
        }
        let nanos = debt * u128::from(SECOND) / u128::from(rate.max(1)) + 1;
        Some(Nanos(now.0.saturating_add(u64::try_from(nanos).unwrap_or(u64::MAX))))
    }

    /// Returns the bytes that may move now; negative where more has moved.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> i64 {
        self.tokens
    }

    /// Takes the tokens of what moves.
    pub(crate) fn take(&mut self, bytes: u64) {
        self.tokens = self.tokens.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}

/// Returns how many bytes a rate in bytes per second is in a time in ns.
pub(crate) fn bytes_in(rate: u64, nanos: u64) -> u64 {
    u64::try_from(u128::from(rate) * u128::from(nanos) / u128::from(SECOND)).unwrap_or(u64::MAX)
}
