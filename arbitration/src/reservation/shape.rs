//! The period and the budget that a device keeps for a tenant's terms (docs/research/sources.md, F1:
//! reservations in the tenant's terms, and F4: buffers count in admission).
//!
//! By default they equal the terms. With k times the buffers, both are k times as large.
//!
//! With an allowed latency L, the period is short enough for commands to complete in time. Let r be
//! the reserved rate and B the commands that may arrive at once: in any time t, no more than B +
//! r*t commands arrive. Periods of p <= L / (k + 1) with n >= B/k + r*p commands each are enough.
//! At the begin of the first period after a burst no more than k periods' commands wait. Each
//! period serves n of the commands that wait at its begin, oldest first: with the period in which a
//! command arrived, at most k + 1 periods pass. A greater k has shorter periods, whose fixed cost
//! is paid more often, and reserves less beyond the rate.

use units::Nanos;

use super::profile::Profile;
use super::terms::{Budget, SHORTEST_PERIOD, Terms};

/// The most periods over which a burst is spread.
const SPREAD_MAX: u64 = 16;

/// Returns the terms as a device may keep them: each with its period and budget, without latency.
/// None, where the latency leaves no period that is long enough.
pub(super) fn shapes(profile: &Profile, terms: &Terms) -> impl Iterator<Item = Terms> + use<> {
    let plain = Terms { latency: None, ..*terms }.lengthened(terms.buffers.max(1));
    let (profile, of) = (*profile, *terms);
    let short = terms.latency.into_iter().flat_map(move |latency| {
        (1..=SPREAD_MAX).filter_map(move |spread| shortened(&profile, &of, latency, spread))
    });
    terms.latency.is_none().then_some(plain).into_iter().chain(short)
}

/// Returns the terms with periods that keep a latency, and budgets that spread a burst over `spread`
/// of them.
fn shortened(profile: &Profile, terms: &Terms, latency: Nanos, spread: u64) -> Option<Terms> {
    let periods = u128::from(terms.period.0) * u128::from(spread + 1);
    let parts = periods.div_ceil(u128::from(latency.0.max(1)));
    let parts = u64::try_from(parts).unwrap_or(u64::MAX).max(1);
    let period = Nanos(terms.period.0 / parts);
    if period < SHORTEST_PERIOD {
        return None;
    }
    let burst = u64::from(terms.burst).div_ceil(spread);
    let more = match terms.budget {
        Budget::Operations(_) => burst,
        Budget::Bytes(_) => burst.saturating_mul(terms.request_bytes.into()),
        Budget::DeviceTime(_) => burst.saturating_mul(profile.mean_of(terms)),
    };
    let amount = terms.budget.amount().div_ceil(parts).saturating_add(more);
    let budget = terms.budget.with_amount(amount);
    Some(Terms { budget, period, latency: None, ..*terms })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MS, SECOND, per_second};

    fn period_budgets(terms: &Terms) -> Vec<(u64, u64)> {
        let shapes = shapes(&Profile::default(), terms);
        shapes.map(|shape| (shape.period.0, shape.budget.amount())).collect()
    }

    #[test]
    fn f1_latency_and_burst_shape_periods() {
        let plain = per_second(100);
        assert_eq!(period_budgets(&plain), [(SECOND, 100)]);
        let latency = Some(Nanos(200 * MS));
        let shapes = period_budgets(&Terms { latency, burst: 6, ..plain });
        // 100 ms have 10 of the rate, and a burst of 6; a third of 200 ms and half of the burst.
        assert_eq!(shapes[..2], [(100 * MS, 10 + 6), (SECOND / 15, 7 + 3)]);
        assert!(shapes.iter().zip(1..).all(|((period, n), k)| {
            period * (k + 1) <= 200 * MS && n * k * SECOND >= 6 * SECOND + 100 * period * k
        }));
        let long = Terms { latency: Some(Nanos(4 * SECOND)), burst: 6, ..plain };
        assert_eq!(period_budgets(&long)[..3], [(SECOND, 106), (SECOND, 103), (SECOND, 102)]);
    }

    #[test]
    fn f1_a_burst_is_in_the_budgets_own_unit() {
        let latency = Some(Nanos(200 * MS));
        let bytes = Terms::of(Budget::Bytes(1 << 20), Nanos(SECOND));
        let first = period_budgets(&Terms { latency, burst: 3, request_bytes: 8192, ..bytes })[0];
        assert_eq!(first, (100 * MS, (1_u64 << 20).div_ceil(10) + 3 * 8192));
        let time = Terms::of(Budget::DeviceTime(Nanos(100 * MS)), Nanos(SECOND));
        let first = period_budgets(&Terms { latency, burst: 3, ..time })[0];
        assert_eq!(first, (100 * MS, 10 * MS + 3 * Profile::default().mean_of(&time)));
    }

    #[test]
    fn f1_latency_below_two_periods_has_no_shape() {
        let plain = per_second(100);
        assert_eq!(period_budgets(&Terms { latency: Some(Nanos(2 * MS)), ..plain }), [(MS, 2)]);
        assert_eq!(period_budgets(&Terms { latency: Some(Nanos(2 * MS - 1)), ..plain }), []);
    }
}
