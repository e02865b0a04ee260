//! An open loop: commands fall due at a rate, whether or not earlier ones have ended.

use fastrand::Rng;

use super::job::Arrivals;

/// The times at which the commands of one connection fall due.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    /// The mean time between two commands in nanoseconds.
    interval_ns: f64,
    /// The time at which the next command is due, in nanoseconds. The precision of an f64 is 1 us
    /// after 285 years.
    due: f64,
    arrivals: Arrivals,
    numbers: Rng,
}

impl Pace {
    /// Makes a pace of `rate` commands per second; `seed` differs between connections.
    pub(crate) fn new(rate: f64, arrivals: Arrivals, seed: u64) -> Self {
        Self { interval_ns: 1e9 / rate, due: 0.0, arrivals, numbers: Rng::with_seed(seed) }
    }

    /// Starts over; the first command is due within the mean distance, so that several
    /// connections do not go in step.
    pub(crate) fn restart(&mut self, now: u64) {
        self.due = now as f64 + self.numbers.f64() * self.interval_ns;
    }

    /// Takes the next command if it is due by now. Returns the time at which it was due, in ns.
    #[inline]
    pub(crate) fn take(&mut self, now: u64) -> Option<u64> {
        let due = self.due;
        if due > now as f64 {
            return None;
        }
        self.due += match self.arrivals {
            Arrivals::Constant => self.interval_ns,
            // 1 is never drawn, so the logarithm is of more than 0.
            Arrivals::Poisson => -self.interval_ns * (1.0 - self.numbers.f64()).ln(),
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time before now, rounded to whole nanoseconds"
        )]
        Some((due as u64).min(now))
    }

    /// Returns the time at which the next command is due, in nanoseconds, rounded up.
    pub(crate) fn next_due(&self) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time of a run, which is positive"
        )]
        let due = self.due.ceil() as u64;
        due
    }

    /// Estimates how many commands are due but not taken.
    pub(crate) fn waiting(&self, now: u64) -> u64 {
        let late = now as f64 - self.due;
        if late < 0.0 {
            return 0;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number of intervals, at least 1"
        )]
        let waiting = (late / self.interval_ns) as u64 + 1;
        waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the distances between commands in `time` ns at 10 K/s.
    fn distances(arrivals: Arrivals, time: u64) -> Vec<f64> {
        let mut pace = Pace::new(10_000.0, arrivals, 7);
        pace.restart(0);
        let times: Vec<u64> = std::iter::from_fn(|| pace.take(time)).collect();
        times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect()
    }

    #[test]
    fn constant_arrivals_keep_their_distance() {
        let distances = distances(Arrivals::Constant, 1_000_000_000);
        assert!((9_998..=9_999).contains(&distances.len()), "{}", distances.len());
        assert!(distances.iter().all(|distance| (99_999.0..=100_001.0).contains(distance)));
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_a_deviation_as_large_as_the_mean() {
        let distances = distances(Arrivals::Poisson, 10_000_000_000);
        let n = distances.len() as f64;
        let mean = distances.iter().sum::<f64>() / n;
        let variance = distances.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / n;
        assert!((mean / 100_000.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.03, "{}", variance.sqrt());
    }

    #[test]
    fn what_was_not_taken_waits_and_counts_from_when_it_was_due() {
        let mut pace = Pace::new(1e6, Arrivals::Constant, 1);
        pace.restart(0);
        assert_eq!(pace.waiting(0), 0);
        assert_eq!(pace.waiting(1_000_000), 1000);
        assert!(pace.take(1_000_000).unwrap() < 1000, "the first one was due in the first us");
        assert_eq!(pace.waiting(1_000_000), 999);
    }
}
