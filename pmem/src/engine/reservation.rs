//! The reservation tokens that a client has left in a period, and the bound that decays.

use core::time::Duration;

use crate::token::Tokens;

/// A client's reservation tokens in one period (docs/research/sources.md, H1; "Client Token Management" in
/// the paper).
///
/// X, the most tokens that the client may keep for requests still to come, is R_i at the start and
/// falls by delta * r_i in each interval delta, where r_i = R_i / T. Tokens above X are given up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reservation {
    /// R_i: the tokens that were pushed.
    whole: Tokens,
    /// The tokens that are left, those included for which requests wait.
    left: Tokens,
}

impl Reservation {
    pub(super) const fn new(whole: Tokens) -> Self {
        Self { whole, left: whole }
    }

    pub(super) const fn left(&self) -> Tokens {
        self.left
    }

    /// Spends a token on an I/O. Returns whether there was one.
    pub(super) fn take(&mut self) -> bool {
        let had = !self.left.is_zero();
        self.left -= Tokens(1);
        had
    }

    /// Computes X at `elapsed`, a whole number of intervals, of a period of length `period`.
    pub(super) fn bound(&self, elapsed: Duration, period: Duration) -> Tokens {
        self.whole.for_part(period.saturating_sub(elapsed), period)
    }

    /// Brings the tokens down to X and returns how many were given up.
    ///
    /// Requests that wait for their I/O have claimed their tokens as they came, as in Fig. 3: the
    /// client has the demand, and it is not its fault where the data node is slow. So only the
    /// other tokens are held against X (Definition 1 speaks of demand D_i, not of N_i).
    pub(super) fn decay(&mut self, elapsed: Duration, period: Duration, waiting: Tokens) -> Tokens {
        let claimed = waiting.min(self.left);
        let before = self.left;
        self.left = claimed + (before - claimed).min(self.bound(elapsed, period));
        before - self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_secs(1);

    /// Example 1 at 0.6 s: of a reservation of 50, `served` of `demand` requests were carried out.
    #[test]
    fn h1_example_1_insufficient_demand_gives_tokens_up() {
        for (demand, served, left, given_up, case) in [
            (20, 20, 20, 10, "insufficient demand"),
            (40, 40, 10, 0, "sufficient demand"),
            (50, 50, 0, 0, "demand for all tokens"),
            (40, 20, 30, 0, "20 wait, and 10 may still come"),
            (25, 20, 25, 5, "5 wait, and 20 may still come"),
            (90, 20, 30, 0, "30 of the 70 have tokens"),
        ] {
            let mut reservation = Reservation::new(Tokens(50));
            (0..served).for_each(|_| assert!(reservation.take(), "{case}"));
            let decayed = reservation.decay(T * 6 / 10, T, Tokens(demand - served));
            assert_eq!((reservation.left(), decayed), (Tokens(left), Tokens(given_up)), "{case}");
        }
    }
}
