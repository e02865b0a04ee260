//! What a client had in each period of a measurement.

use std::time::Duration;

use pmem_verbs::gate::PeriodEnd;

use super::region_report::Had;

/// The whole periods of a measurement. Without tokens there are none: windows as long count instead.
#[derive(Debug, Default)]
pub(crate) struct Periods {
    /// The length of a window, where windows count.
    window: Option<Duration>,
    /// I/Os of the windows before the present one.
    before: u64,
    /// Whether the present period has begun within the measurement.
    whole: bool,
    had: Vec<Had>,
}

impl Periods {
    /// Begins a measurement; `window` is the length of windows, where there are no periods.
    pub(crate) fn new(window: Option<Duration>) -> Self {
        Self { window: window.filter(|window| !window.is_zero()), ..Self::default() }
    }

    /// Takes a period that is over. The first one began before the measurement.
    pub(crate) fn ended(&mut self, end: PeriodEnd) {
        if self.whole {
            let PeriodEnd { period, reservation, completed } = end;
            self.had.push(Had {
                period: period.0.into(),
                reserved: reservation.0,
                had: completed.0,
            });
        }
        self.whole = true;
    }

    /// Takes the number of I/Os that have completed in the time that has passed.
    pub(crate) fn passed(&mut self, elapsed: Duration, completed: u64) {
        let Some(window) = self.window else { return };
        let number = u64::try_from(self.had.len()).unwrap_or(u64::MAX);
        let ends = u32::try_from(number.saturating_add(1)).unwrap_or(u32::MAX);
        if elapsed >= window.saturating_mul(ends) {
            let had = completed.saturating_sub(self.before);
            self.had.push(Had { period: number, reserved: 0, had });
            self.before = completed;
        }
    }

    /// Returns the whole periods, or windows, in order.
    pub(crate) fn had(self) -> Vec<Had> {
        self.had
    }
}

#[cfg(test)]
mod tests {
    use pmem::period::Period;
    use pmem::token::Tokens;

    use super::*;

    #[test]
    fn a_period_that_began_before_the_measurement_does_not_count() {
        let mut periods = Periods::new(None);
        for number in 5..8 {
            let (reservation, completed) = (Tokens(100), Tokens(u64::from(number)));
            periods.ended(PeriodEnd { period: Period(number), reservation, completed });
            periods.passed(Duration::from_secs(100), 1000);
        }
        let had = |number| Had { period: number, reserved: 100, had: number };
        assert_eq!(periods.had(), [had(6), had(7)]);
    }

    #[test]
    fn windows_stand_in_for_periods() {
        let mut periods = Periods::new(Some(Duration::from_secs(1)));
        for (millis, completed) in [(0, 0), (999, 50), (1001, 60), (1500, 70), (2000, 90)] {
            periods.passed(Duration::from_millis(millis), completed);
        }
        let had = |period, had| Had { period, reserved: 0, had };
        assert_eq!(periods.had(), [had(0, 60), had(1, 30)]);
        let mut none = Periods::new(Some(Duration::ZERO));
        none.passed(Duration::from_secs(1), 1);
        assert_eq!(none.had(), []);
    }
}
