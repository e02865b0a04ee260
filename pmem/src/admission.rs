//! The two capacities that decide whether a reservation is admitted (docs/sources.md, H3).

use core::time::Duration;

use thiserror::Error;

use crate::token::{Iops, Tokens};

/// The refusal of a reservation, with the reservation that would fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// All reservations together would exceed the data node's capacity: sum R_i <= T * C_G.
    #[error(
        "a reservation of {wanted} I/Os in a period: of the {capacity} that the data node can do, \
         {reserved} are reserved already; give at most {fits}"
    )]
    Aggregate {
        /// The reservation asked for, in tokens for a period.
        wanted: Tokens,
        /// T * C_G: what the data node can do in a period.
        capacity: Tokens,
        /// The sum of the reservations that are admitted.
        reserved: Tokens,
        /// The largest reservation that would be admitted.
        fits: Tokens,
    },
    /// The client could not do so many I/Os by itself: R_i <= T * C_L.
    #[error(
        "a reservation of {wanted} I/Os in a period: one client can do {most}; give at most {fits}"
    )]
    Local {
        /// The reservation asked for, in tokens for a period.
        wanted: Tokens,
        /// T * C_L: what one client can do in a period.
        most: Tokens,
        /// The largest reservation that would be admitted.
        fits: Tokens,
    },
}

/// The test that a reservation must pass (Definition 2 of the paper).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// T: length of a period.
    pub period: Duration,
    /// The number of I/Os that the data node can do in a period: T * C_G, as it is estimated now.
    pub capacity: Tokens,
    /// C_L: the I/Os per second that one client can do by itself.
    pub local: Iops,
}

impl Admission {
    /// Checks a reservation against both capacities, beside the sum of those that are admitted.
    ///
    /// # Errors
    ///
    /// [`Refusal`] with the reason, and with the reservation that would fit.
    pub fn check(&self, reserved: Tokens, wanted: Tokens) -> Result<(), Refusal> {
        let most = self.local.in_time(self.period);
        let left = self.capacity - reserved;
        let fits = left.min(most);
        if wanted > most {
            Err(Refusal::Local { wanted, most, fits })
        } else if wanted > left {
            Err(Refusal::Aggregate { wanted, capacity: self.capacity, reserved, fits })
        } else {
            Ok(())
        }
    }

    /// Tells whether a client that has completed `completed` I/Os can still reach its reservation
    /// at `elapsed` of the period: R_i - N_i(t) <= (T - t) * C_L.
    ///
    /// No admission can promise this for t > 0, since it depends on how the data node divides its
    /// capacity (Example 2 of the paper): the monitor names the clients for which it fails.
    #[must_use]
    pub fn in_reach(&self, reservation: Tokens, completed: Tokens, elapsed: Duration) -> bool {
        reservation - completed <= self.local.in_time(self.period.saturating_sub(elapsed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADMISSION: Admission = Admission {
        period: Duration::from_secs(1),
        capacity: Tokens(1_570_000),
        local: Iops(400_000),
    };

    #[test]
    fn h3_a_refusal_says_why_and_what_would_fit() {
        let reserved = Tokens(1_200_000);
        assert_eq!(ADMISSION.check(reserved, Tokens(370_000)), Ok(()));
        let refusal = ADMISSION.check(reserved, Tokens(370_001)).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "a reservation of 370001 I/Os in a period: of the 1570000 that the data node can do, \
             1200000 are reserved already; give at most 370000"
        );
        assert_eq!(ADMISSION.check(Tokens::ZERO, Tokens(400_000)), Ok(()));
        let refusal = ADMISSION.check(Tokens::ZERO, Tokens(400_001)).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "a reservation of 400001 I/Os in a period: one client can do 400000; \
             give at most 400000"
        );
        let Refusal::Local { fits, .. } =
            ADMISSION.check(Tokens(1_500_000), Tokens(500_000)).unwrap_err()
        else {
            panic!("the client's own capacity is the smaller obstacle to move");
        };
        assert_eq!(fits, Tokens(70_000), "what fits passes both tests");
        let over = ADMISSION.check(Tokens(2_000_000), Tokens(1)).unwrap_err();
        assert!(matches!(over, Refusal::Aggregate { fits: Tokens::ZERO, .. }), "{over}");
    }

    #[test]
    fn h3_what_is_said_to_fit_is_admitted() {
        for reserved in [0, 1, 1_169_999, 1_170_000, 1_569_999, 1_570_000, 1_600_000] {
            let reserved = Tokens(reserved);
            match ADMISSION.check(reserved, Tokens(u64::MAX)).unwrap_err() {
                Refusal::Local { fits, .. } | Refusal::Aggregate { fits, .. } => {
                    assert_eq!(ADMISSION.check(reserved, fits), Ok(()));
                }
            }
        }
    }

    /// Example 2 of the paper: C_G = 100, C_L = 50, reservations of 40 and four times 10.
    #[test]
    fn h3_a_burst_of_others_can_put_an_admitted_reservation_out_of_reach() {
        let period = Duration::from_secs(1);
        let admission = Admission { period, capacity: Tokens(100), local: Iops(50) };
        let mut reserved = Tokens::ZERO;
        for wanted in [40, 10, 10, 10, 10].map(Tokens) {
            assert_eq!(admission.check(reserved, wanted), Ok(()));
            reserved += wanted;
        }
        assert!(admission.in_reach(Tokens(40), Tokens::ZERO, Duration::ZERO));
        let half = Duration::from_millis(500);
        assert!(!admission.in_reach(Tokens(40), Tokens(10), half), "30 left, 25 possible");
        assert!(admission.in_reach(Tokens(40), Tokens(15), half));
        assert!(admission.in_reach(Tokens(10), Tokens(10), period));
        assert!(!admission.in_reach(Tokens(10), Tokens(9), period * 2));
    }
}
