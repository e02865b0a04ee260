//! The experiment of Fig. 9 with other clients, exponents and periods than the paper's.

use core::time::Duration;

use thiserror::Error;

use super::system::{
    AGGREGATE, LOCAL, Outcome, System, Testbed, WINDOW, clients, data_node, measure, zipf,
};
use crate::admission::{Admission, Refusal};
use crate::capacity::Profile;
use crate::monitor::Finding;
use crate::simulation::{Setup, Workload};
use crate::token::{Iops, Tokens};

/// The reason why a system cannot be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum VariationError {
    /// There are no clients, or more than a simulation can have.
    #[error("{0} clients: give 1 to {MOST_CLIENTS}")]
    Clients(usize),
    /// The exponent is negative or no number.
    #[error("an exponent of {0}: give 0 (equal parts) to {MOST_EXPONENT}")]
    Exponent(f64),
    /// The period is shorter than ten checks of the monitor, or very long.
    #[error("a period of {0:?}: give {SHORTEST:?} to {LONGEST:?}")]
    Period(Duration),
    /// A client's reservation does not pass admission (docs/sources.md, H3).
    #[error("client C{client} is not admitted: {refusal}")]
    Refused {
        /// The client's number, from 1 on.
        client: usize,
        /// The reason, in I/Os of a period at the paper's size.
        refusal: Refusal,
    },
}

/// The most clients of a simulation.
const MOST_CLIENTS: usize = 1000;
/// The largest exponent of Zipf's law; with it C1 has 99 % already.
const MOST_EXPONENT: f64 = 10.0;
/// The shortest period: ten intervals of 1 ms.
const SHORTEST: Duration = Duration::from_millis(10);
/// The longest period.
const LONGEST: Duration = Duration::from_secs(60);

/// A data node of the paper's capacities with clients of one's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variation {
    /// The number of clients.
    pub clients: usize,
    /// The exponent of Zipf's law, by which the reservations of five groups of clients differ.
    pub exponent: f64,
    /// The part of the data node's capacity that is reserved, in percent.
    pub percent: u64,
    /// T: length of a period. Checks stay 1 ms apart.
    pub period: Duration,
    /// Whether clients make their requests at a constant rate, not in bursts.
    pub constant: bool,
}

impl Variation {
    /// T * C_G: the I/Os that the data node can do in a period.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        Iops(AGGREGATE).in_time(self.period).0
    }

    /// Checks the settings, and divides the reservations.
    fn reserved(&self) -> Result<Vec<u64>, VariationError> {
        if self.clients == 0 || self.clients > MOST_CLIENTS {
            return Err(VariationError::Clients(self.clients));
        }
        if !(0.0..=MOST_EXPONENT).contains(&self.exponent) {
            return Err(VariationError::Exponent(self.exponent));
        }
        if !(SHORTEST..=LONGEST).contains(&self.period) {
            return Err(VariationError::Period(self.period));
        }
        let capacity = self.capacity();
        let sum = capacity.saturating_mul(self.percent) / 100;
        // Parts are rounded, so that all of them may be one I/O each more than the sum.
        let reserved = zipf(sum.saturating_sub(self.clients as u64), self.clients, self.exponent);
        let admission =
            Admission { period: self.period, capacity: Tokens(capacity), local: Iops(LOCAL) };
        let mut admitted = Tokens::ZERO;
        for (client, wanted) in (1..).zip(&reserved) {
            let refused = |refusal| VariationError::Refused { client, refusal };
            admission.check(admitted, Tokens(*wanted)).map_err(refused)?;
            admitted += Tokens(*wanted);
        }
        Ok(reserved)
    }
}

/// Measures `periods` periods of a variation of Fig. 9 after one that does not count: each client
/// wants its reservation and the initial global tokens.
///
/// # Errors
///
/// [`VariationError`] for settings that are out of range, and for reservations that are not
/// admitted.
pub fn variation(
    testbed: Testbed,
    wanted: &Variation,
    system: System,
    periods: usize,
) -> Result<Outcome, VariationError> {
    let reserved = wanted.reserved()?;
    let capacity = wanted.capacity();
    let pool = capacity.saturating_sub(reserved.iter().sum());
    let pattern = if wanted.constant { Workload::Constant } else { Workload::Burst };
    let workloads: Vec<Workload> =
        reserved.iter().map(|reserved| pattern(reserved + pool)).collect();
    let clients = clients(testbed, system, &reserved, &workloads);
    let profile = Profile { mean: Tokens(testbed.down(capacity)), sigma: 0.0 };
    let increment = Tokens(profile.mean.0 / 100);
    let period = wanted.period;
    let setup = Setup { clients, profile, increment, period, ..data_node(testbed) };
    Ok(measure(testbed, system, &reserved, setup, 1, periods))
}

impl Outcome {
    /// Lists the clients that did not have their reservation in some measured period, but for the
    /// I/Os that were under way at its end.
    #[must_use]
    pub fn missed(&self) -> Vec<usize> {
        let each = self.least.iter().zip(&self.reserved).enumerate();
        let less = each.filter(|(_, (least, reserved))| *least + (WINDOW as f64) < **reserved);
        less.map(|(client, _)| client).collect()
    }

    /// Lists the clients whose reservations the monitor has found to be out of reach (Definition 2 of
    /// the paper: what the data node left them is more than one client can do), in order, each once.
    #[must_use]
    pub fn out_of_reach(&self) -> Vec<usize> {
        let findings = self.record.findings.iter();
        let named = findings.filter_map(|(_, finding)| match finding {
            Finding::OutOfReach { client, .. } => usize::try_from(client.0).ok(),
            _ => None,
        });
        let mut named: Vec<usize> = named.collect();
        named.sort_unstable();
        named.dedup();
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Testbed = Testbed::scaled(16);
    const PAPER: Variation = Variation {
        clients: 10,
        exponent: 0.6,
        percent: 90,
        period: Duration::from_secs(1),
        constant: false,
    };

    #[test]
    fn h5_guarantees_hold_at_other_exponents_client_counts_and_periods() {
        for (clients, exponent, millis, percent) in [
            (4, 0.0, 1000, 95),
            (7, 0.3, 250, 80),
            (10, 0.9, 500, 60),
            (25, 1.2, 1000, 60),
            (100, 0.6, 2000, 80),
            (100, 0.0, 1000, 95),
        ] {
            let period = Duration::from_millis(millis);
            let wanted = Variation { clients, exponent, percent, period, ..PAPER };
            let printed = variation(SMALL, &wanted, System::Haechi, 2).unwrap();
            assert_eq!(printed.missed(), printed.out_of_reach(), "{wanted:?}: {:?}", printed.least);
            let low = variation(SMALL, &wanted, System::LowPriority, 2).unwrap();
            assert_eq!(low.missed(), [] as [usize; 0], "{wanted:?}: {:?}", low.least);
        }
    }

    #[test]
    fn h5_the_bare_system_misses_what_haechi_keeps() {
        let wanted = Variation { exponent: 0.9, percent: 60, constant: true, ..PAPER };
        let bare = variation(SMALL, &wanted, System::Bare, 2).unwrap();
        assert_eq!(bare.missed(), [0, 1]);
        let low = variation(SMALL, &wanted, System::LowPriority, 2).unwrap();
        assert_eq!(low.missed(), [] as [usize; 0]);
    }

    #[test]
    fn the_seed_decides_everything() {
        let wanted = Variation { period: Duration::from_millis(50), ..PAPER };
        let of = |seed| variation(Testbed { seed, ..SMALL }, &wanted, System::Haechi, 1).unwrap();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1).record, of(2).record);
    }

    #[test]
    fn what_cannot_be_simulated_is_refused_with_what_can() {
        let refused = |wanted: Variation| variation(SMALL, &wanted, System::Haechi, 1).unwrap_err();
        let text = refused(Variation { clients: 0, ..PAPER }).to_string();
        assert_eq!(text, "0 clients: give 1 to 1000");
        for exponent in [-0.1, f64::NAN, f64::INFINITY] {
            let error = refused(Variation { exponent, ..PAPER });
            assert!(matches!(error, VariationError::Exponent(_)), "{error}");
        }
        let period = Duration::from_millis(9);
        assert_eq!(refused(Variation { period, ..PAPER }), VariationError::Period(period));
        let text = refused(Variation { exponent: 3.0, clients: 5, ..PAPER }).to_string();
        assert!(text.starts_with("client C1 is not admitted: a reservation of 1"), "{text}");
        let over = refused(Variation { percent: 101, ..PAPER });
        assert!(matches!(over, VariationError::Refused { client: 10, .. }), "{over}");
    }
}
