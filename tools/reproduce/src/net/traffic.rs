//! Sources of requests.

use super::time::{Time, from_seconds};
use crate::random::Draw as _;
use fastrand::Rng;

/// The size of requests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Size {
    /// Exponentially distributed, with a mean in bytes.
    Exponential(f64),
    /// A number of blocks of `bytes` bytes, each number from `least` to `most` equally likely.
    Blocks { least: u64, most: u64, bytes: u64 },
}

impl Size {
    /// Computes the mean in bytes.
    pub(crate) fn mean(self) -> f64 {
        match self {
            Self::Exponential(mean) => mean,
            Self::Blocks { least, most, bytes } => (least + most) as f64 / 2.0 * bytes as f64,
        }
    }

    fn draw(self, random: &mut Rng) -> u64 {
        match self {
            Self::Exponential(mean) => {
                let bytes = random.exponential(mean);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "`as` saturates"
                )]
                let bytes = bytes as u64;
                bytes.max(1)
            }
            Self::Blocks { least, most, bytes } => {
                (least + random.below(most.saturating_sub(least) + 1)) * bytes
            }
        }
    }
}

/// The properties of a source.
#[derive(Clone, Debug)]
pub(crate) struct SourceSetup {
    /// The size of requests.
    pub(crate) size: Size,
    /// The mean rate in bytes of payload per second.
    pub(crate) rate: f64,
    /// The numbers of the flows over which requests are spread at random.
    pub(crate) flows: Vec<u32>,
}

/// A source of requests, which come at exponentially distributed distances.
#[derive(Debug)]
pub(crate) struct Source {
    setup: SourceSetup,
    random: Rng,
    /// The mean time between two requests in seconds.
    gap: f64,
}

impl Source {
    pub(crate) fn new(setup: SourceSetup, seed: u64) -> Self {
        let gap = setup.size.mean() / setup.rate.max(f64::MIN_POSITIVE);
        Self { setup, random: Rng::with_seed(seed), gap }
    }

    /// Draws the time until the next request.
    #[inline]
    pub(crate) fn gap(&mut self) -> Time {
        let gap = self.random.exponential(self.gap);
        from_seconds(gap).max(1)
    }

    /// Draws a request: the flow that it goes to, and its size in bytes.
    #[inline]
    pub(crate) fn request(&mut self) -> Option<(u32, u64)> {
        let flows = u64::try_from(self.setup.flows.len()).unwrap_or(0);
        let chosen = usize::try_from(self.random.below(flows)).unwrap_or(0);
        let bytes = self.setup.size.draw(&mut self.random);
        Some((*self.setup.flows.get(chosen)?, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::time::seconds;
    use super::*;

    #[test]
    fn a_source_keeps_its_rate_and_uses_all_its_flows() {
        for size in [Size::Blocks { least: 17, most: 98, bytes: 4096 }, Size::Exponential(2e6)] {
            let flows = vec![3, 5, 7];
            let mut source = Source::new(SourceSetup { size, rate: 1e9, flows }, 11);
            let (mut time, mut bytes, mut used) = (0.0, 0.0, [0; 8]);
            for _ in 0..100_000 {
                time += seconds(source.gap());
                let (flow, size) = source.request().unwrap();
                bytes += size as f64;
                used[flow as usize] += 1;
            }
            assert!((bytes / time / 1e9 - 1.0).abs() < 0.02, "{size:?}");
            let used = [used[3], used[5], used[7]];
            assert!(used.iter().all(|used| (30_000..36_000).contains(used)), "{used:?}");
        }
    }
}
