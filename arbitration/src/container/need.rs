//! The share of a device that streams need whose containers are to be done in time.

/// One millionth, the unit of shares.
const WHOLE: u64 = 1_000_000;

/// The promise to one stream: the number of requests in each container, and the device time of each
/// request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Requests in a container.
    pub requests: u64,
    /// Time of a container, from one output to the next, in ns.
    pub every: u64,
    /// Mean device time of a request that follows one of another stream, in ns.
    pub far: u64,
    /// Mean device time of a request that follows one of the same stream, in ns.
    pub near: u64,
}

impl Promise {
    /// Computes the share of the device that the stream needs with
    /// [`Scheduler::Containers`](super::Scheduler::Containers), in millionths. The first two thirds
    /// of a container are served together. Each request of the safety zone has a deadline of its
    /// own, for which the head may have to come back.
    #[must_use]
    pub fn needed(&self) -> u64 {
        let together = self.requests.saturating_mul(2) / 3;
        self.share(self.requests - together + together.min(1))
    }

    /// Computes the share of the device that the stream needs in any order, in millionths: its
    /// whole container is served together.
    #[must_use]
    pub fn least(&self) -> u64 {
        self.share(self.requests.min(1))
    }

    /// Computes the share with this number of visits of the head.
    fn share(&self, visits: u64) -> u64 {
        let far = u128::from(self.far.max(self.near)) * u128::from(visits);
        let near = u128::from(self.near) * u128::from(self.requests.saturating_sub(visits));
        let share = far.saturating_add(near).saturating_mul(u128::from(WHOLE))
            / u128::from(self.every.max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

/// The share of a device that several streams need together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Sum of [`Promise::needed`], in millionths.
    pub needed: u64,
    /// Sum of [`Promise::least`], in millionths.
    pub least: u64,
}

impl Need {
    /// Adds up the needs of the streams.
    #[must_use]
    pub fn sum(promises: impl IntoIterator<Item = Promise>) -> Self {
        promises.into_iter().fold(Self::default(), |sum, promise| Self {
            needed: sum.needed.saturating_add(promise.needed()),
            least: sum.least.saturating_add(promise.least()),
        })
    }

    /// Returns whether the device has time for all containers.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.needed <= WHOLE
    }

    /// Returns whether some order may keep all promises.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        self.least <= WHOLE
    }
}
