//! The two capacities that decide whether a reservation is admitted (docs/research/sources.md, H3).

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
        /// T * C_G: the data node's capacity in a period.
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
    /// Checks a reservation against both capacities, beside the sum of the admitted ones.
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

    /// Returns whether a client that has completed `completed` I/Os can still reach its reservation
    /// at `elapsed` of the period: R_i - N_i(t) <= (T - t) * C_L.
    ///
    /// No admission can promise this for t > 0, since it depends on how the data node divides its
    /// capacity (Example 2 of the paper): the monitor names the clients for which it fails.
    #[must_use]
    pub fn in_reach(&self, reservation: Tokens, completed: Tokens, elapsed: Duration) -> bool {
        reservation - completed <= self.local.in_time(self.period.saturating_sub(elapsed))
    }

    /// Computes how much of its reservation each client attains by a period's end if all of them
    /// want more than they reserved, from its start on. A client with a greater reservation may
    /// miss it although it is admitted.
    ///
    /// The data node serves in order of arrival, so that clients with equal windows have equal parts.
    /// A client that has spent its reservation goes on with global tokens while the pool, which is
    /// C_G * (T - t) - L, has some; for each I/O that others keep under way it keeps `best_effort`
    /// (more than 0, at most 1). Batches, messages and variation are left out.
    #[must_use]
    pub fn attainable(&self, reservations: &[Tokens], best_effort: f64) -> Vec<Tokens> {
        let (capacity, local) = (self.capacity.0 as f64, self.local.in_time(self.period).0 as f64);
        let mut ascending: Vec<Tokens> = reservations.to_vec();
        ascending.sort_unstable();
        let reserved: Tokens = ascending.iter().copied().sum();
        let mut pool = (self.capacity - reserved).0 as f64;
        // Parts of the period that are left, and the I/Os of each client that has tokens left.
        let (mut left, mut each) = (1.0, 0.0);
        let mut spent = 0.0;
        let mut with_tokens = ascending.len() as f64;
        for reservation in ascending {
            while each < reservation.0 as f64 && left > 0.0 {
                let global = if pool > 0.0 { spent * best_effort } else { 0.0 };
                let rate = local.min(capacity / (with_tokens + global));
                if rate <= 0.0 {
                    left = 0.0;
                    break;
                }
                let until_spent = (reservation.0 as f64 - each) / rate;
                let falls = capacity - with_tokens * rate;
                let until_empty = if pool > 0.0 && falls > 0.0 { pool / falls } else { 1.0 };
                let step = until_spent.min(until_empty).min(left);
                each += rate * step;
                pool -= falls * step;
                left -= step;
                if until_empty <= step {
                    pool = 0.0;
                }
                if until_spent <= step {
                    break;
                }
            }
            if left <= 0.0 {
                break;
            }
            each = reservation.0 as f64;
            (spent, with_tokens) = (spent + 1.0, with_tokens - 1.0);
        }
        let each = Tokens::rounded(each);
        reservations.iter().map(|reservation| each.min(*reservation)).collect()
    }
}

/// Computes the most I/Os per second of a client that keeps `window` I/Os under way, of which each
/// takes `latency` at the least.
#[must_use]
pub fn most_of_window(window: u64, latency: Duration) -> Iops {
    let window = u128::from(window).saturating_mul(Duration::from_secs(1).as_nanos());
    let most = window.checked_div(latency.as_nanos()).unwrap_or(u128::MAX);
    Iops(u64::try_from(most).unwrap_or(u64::MAX))
}

/// Computes the smallest window with which a client does `rate` where each I/O takes `latency`.
#[must_use]
pub fn window_for(rate: Iops, latency: Duration) -> u64 {
    let window = u128::from(rate.0).saturating_mul(latency.as_nanos());
    let window = window.div_ceil(Duration::from_secs(1).as_nanos());
    u64::try_from(window).unwrap_or(u64::MAX)
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
    fn h3_refusal_states_reason_and_fitting_amount() {
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
    fn h3_window_bounds_reservation() {
        let latency = Duration::from_micros(40);
        assert_eq!(most_of_window(1, latency), Iops(25_000));
        assert_eq!(most_of_window(64, latency), Iops(1_600_000));
        assert_eq!(most_of_window(1, Duration::ZERO), Iops(u64::MAX), "nothing is known of it");
        assert_eq!(window_for(Iops(25_000), latency), 1);
        assert_eq!(window_for(Iops(25_001), latency), 2);
        assert_eq!(window_for(Iops(0), latency), 0);
        for rate in [1, 7, 999, 123_456, 5_000_000] {
            let window = window_for(Iops(rate), latency);
            assert!(most_of_window(window, latency).0 >= rate, "{rate}");
            assert!(most_of_window(window - 1, latency).0 < rate, "{rate}");
        }
    }

    #[test]
    fn h3_reservations_within_equal_part_are_attainable() {
        for best_effort in [1.0, 1.0 / 64.0] {
            let equal = [Tokens(157_000); 10];
            assert_eq!(ADMISSION.attainable(&equal, best_effort), equal);
            let few = [0, 300_000, 400_000].map(Tokens);
            assert_eq!(ADMISSION.attainable(&few, best_effort), few, "three have C_L each");
        }
        assert_eq!(ADMISSION.attainable(&[], 1.0), []);
        let nothing = Admission { capacity: Tokens::ZERO, ..ADMISSION };
        assert_eq!(nothing.attainable(&[Tokens(5)], 1.0), [Tokens::ZERO]);
    }

    #[test]
    fn h3_unattainable_reservation_is_known_at_admission() {
        // Zipf's reservations of the paper's Fig. 9, of which C1 and C2 have 236 thousand.
        let zipf = [235_995, 155_700, 122_078, 102_722, 89_850];
        let zipf: Vec<Tokens> = zipf.into_iter().flat_map(|each| [Tokens(each); 2]).collect();
        let as_printed = ADMISSION.attainable(&zipf, 1.0);
        assert!((190_000..200_000).contains(&as_printed[0].0), "196K: {as_printed:?}");
        assert_eq!(as_printed[2..], zipf[2..]);
        let shipped = ADMISSION.attainable(&zipf, 1.0 / 64.0);
        assert!((235_000..235_600).contains(&shipped[0].0), "235.4K: {shipped:?}");
        assert_eq!((shipped[1], &shipped[2..]), (shipped[0], &zipf[2..]));
        // Five reserve 85 %, and eighteen nothing.
        let five = [[Tokens(266_900); 5].as_slice(), &[Tokens::ZERO; 18]].concat();
        assert_eq!(ADMISSION.attainable(&five, 1.0 / 64.0), five);
    }

    #[test]
    fn h3_offered_amount_is_admitted() {
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
    fn h3_bursts_can_make_admitted_reservation_unattainable() {
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
