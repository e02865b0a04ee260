//! Profiling, and the capacity that is estimated while it is used (docs/research/sources.md, H4).

use std::collections::VecDeque;

use thiserror::Error;

use crate::token::Tokens;

/// The reason why samples make no profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProfileError {
    /// A standard deviation takes two samples.
    #[error("a profile of {0} samples: measure at least 2 periods")]
    TooFew(usize),
    /// Nothing was done in any of them.
    #[error(
        "no I/O was counted while profiling: check the clients that make the load, and whether the \
         RDMA device counts packets"
    )]
    Idle,
}

/// The capacity that was measured with saturating clients before the service began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// Omega_prof: mean number of I/Os in a period.
    pub mean: Tokens,
    /// sigma: standard deviation of the number of I/Os in a period.
    pub sigma: f64,
}

impl Profile {
    /// Computes a profile from the I/Os completed in each of several periods in which all clients
    /// were backlogged; the paper takes 1000 periods of 10 clients.
    ///
    /// # Errors
    ///
    /// [`ProfileError`] where there are fewer than two samples, or only zeros.
    pub fn from_samples(samples: &[Tokens]) -> Result<Self, ProfileError> {
        if samples.len() < 2 {
            return Err(ProfileError::TooFew(samples.len()));
        }
        let count = samples.len() as f64;
        let mean = samples.iter().map(|sample| sample.0 as f64).sum::<f64>() / count;
        if mean < 0.5 {
            return Err(ProfileError::Idle);
        }
        let squares = samples.iter().map(|sample| (sample.0 as f64 - mean).powi(2));
        let sigma = (squares.sum::<f64>() / (count - 1.0)).sqrt();
        Ok(Self { mean: Tokens::rounded(mean), sigma })
    }

    /// Computes Omega_min = Omega_prof - 3 sigma, below which a period says nothing of the
    /// capacity: there was little demand.
    #[must_use]
    pub fn least(&self) -> Tokens {
        Tokens::rounded(self.mean.0 as f64 - 3.0 * self.sigma)
    }
}

/// The capacity of a data node, estimated anew after each period (algorithm 1 of the paper).
///
/// The algorithm prints `U == Omega_t` as the condition under which the estimate grows. Here it
/// also grows if U is greater. U is greater whenever the real capacity exceeds the estimate,
/// because the tokens of a conversion do not count the tokens that clients hold (see
/// [`crate::monitor`]); with `==`, such a period would leave the estimate unchanged for ever.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimator {
    profile: Profile,
    /// eta: the tokens by which the estimate grows.
    increment: Tokens,
    /// M: the largest number of periods in the history.
    window: usize,
    /// W: the I/Os completed in the last periods that count.
    history: VecDeque<Tokens>,
    estimate: Tokens,
}

impl Estimator {
    /// Makes an estimate of the profile's mean; `increment` is eta, `window` is M. The paper gives
    /// no values for them. A window of 0 counts as 1.
    #[must_use]
    pub fn new(profile: Profile, increment: Tokens, window: usize) -> Self {
        let estimate = profile.mean;
        Self { profile, increment, window: window.max(1), history: VecDeque::new(), estimate }
    }

    /// Returns Omega: the I/Os that the data node is believed to do in a period.
    #[must_use]
    pub const fn estimate(&self) -> Tokens {
        self.estimate
    }

    /// Returns the profile that the estimate began with.
    #[must_use]
    pub const fn profile(&self) -> Profile {
        self.profile
    }

    /// Replaces the profile and forgets the periods that ended. The increment keeps its proportion to the mean.
    pub fn restart(&mut self, profile: Profile) {
        let before = self.profile.mean.0.max(1);
        let increment = u128::from(self.increment.0) * u128::from(profile.mean.0);
        self.increment = Tokens(u64::try_from(increment / u128::from(before)).unwrap_or(u64::MAX));
        (self.profile, self.estimate) = (profile, profile.mean);
        self.history.clear();
    }

    /// Updates the estimate with U, the I/Os that all clients completed in a period, and returns the estimate for the
    /// next one.
    pub fn period_ended(&mut self, completed: Tokens) -> Tokens {
        if completed >= self.estimate {
            self.estimate += self.increment;
        } else if completed >= self.profile.least() {
            self.history.push_back(completed);
            if self.history.len() > self.window {
                self.history.pop_front();
            }
            let sum: Tokens = self.history.iter().copied().sum();
            let count = u64::try_from(self.history.len()).unwrap_or(u64::MAX);
            self.estimate = Tokens(sum.0.checked_div(count).unwrap_or(0));
        }
        self.estimate
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn estimator() -> Estimator {
        Estimator::new(Profile { mean: Tokens(1000), sigma: 50.0 }, Tokens(10), 3)
    }

    #[test]
    fn h4_profile_has_mean_and_deviation() {
        let profile = Profile::from_samples(&[990, 1010, 1000, 980, 1020].map(Tokens)).unwrap();
        assert_eq!(profile.mean, Tokens(1000));
        assert!((profile.sigma - 250_f64.sqrt()).abs() < 1e-9);
        assert_eq!(profile.least(), Tokens(953));
        assert_eq!(Profile::from_samples(&[Tokens(1)]), Err(ProfileError::TooFew(1)));
        assert_eq!(Profile::from_samples(&[Tokens(0); 9]), Err(ProfileError::Idle));
        let wild = Profile { mean: Tokens(10), sigma: 50.0 };
        assert_eq!(wild.least(), Tokens::ZERO);
    }

    #[test]
    fn h4_another_profile_begins_anew() {
        let mut estimator = estimator();
        estimator.period_ended(Tokens(900));
        estimator.restart(Profile { mean: Tokens(5000), sigma: 10.0 });
        assert_eq!(estimator.estimate(), Tokens(5000));
        assert_eq!(estimator.period_ended(Tokens(5000)), Tokens(5050), "a hundredth more");
        assert_eq!(estimator.period_ended(Tokens(4969)), Tokens(5050), "4970 is the least");
        assert_eq!(estimator.period_ended(Tokens(4970)), Tokens(4970), "900 is forgotten");
    }

    #[test]
    fn h4_estimate_follows_periods_of_full_demand() {
        for (case, periods) in [
            ("grows while all tokens are used", &[(1000, 1010), (1010, 1020), (1100, 1030)][..]),
            ("mean of the last three", &[(900, 900), (860, 880), (862, 874), (850, 857)]),
            ("850 is the least that counts", &[(849, 1000), (850, 850), (0, 850)]),
        ] {
            let mut estimator = estimator();
            assert_eq!(estimator.estimate(), Tokens(1000));
            for (completed, estimate) in periods {
                let next = estimator.period_ended(Tokens(*completed));
                assert_eq!(next, Tokens(*estimate), "{case}: {completed}");
            }
        }
    }

    proptest! {
        #[test]
        fn h4_the_estimate_never_falls_below_the_floor(
            periods in prop::collection::vec(0_u64..3000, 0..200), window in 0_usize..9,
        ) {
            let profile = Profile { mean: Tokens(1000), sigma: 50.0 };
            let mut estimator = Estimator::new(profile, Tokens(7), window);
            for completed in periods {
                prop_assert!(estimator.period_ended(Tokens(completed)) >= profile.least());
            }
        }
    }
}
