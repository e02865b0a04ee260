//! Persistent memory behind a port.
//!
//! An access takes 300 to 800 ns (docs/research/sources.md, E12: the source's section 4.4), and data goes
//! over the memory's bus in order of arrival. Other accesses do not wait for one in progress.

use core::time::Duration;

use units::{Calendar, Nanos, nanos};

use super::interface::{Device, Kind, Request};

/// The properties of persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The least time of an access: 300 ns in the source.
    pub least: Duration,
    /// The longest: 800 ns in the source. Times are spread evenly between the two.
    pub longest: Duration,
    /// Bytes in a second over its bus; the source has none. 6.8 GB/s is what one module of the kind
    /// that the source names reads (Izraelevitz et al., 2019, section 3.3).
    pub rate: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            least: Duration::from_nanos(300),
            longest: Duration::from_nanos(800),
            rate: 6_800_000_000,
        }
    }
}

/// Persistent memory.
#[derive(Debug)]
pub struct Pm {
    settings: Settings,
    /// The time at which the bus is free.
    free_at: Nanos,
    under_way: Calendar<u64>,
    random: fastrand::Rng,
}

impl Pm {
    /// Makes persistent memory; `seed` decides the times of accesses.
    #[must_use]
    pub fn new(settings: Settings, seed: u64) -> Self {
        Self {
            settings,
            free_at: Nanos::ZERO,
            under_way: Calendar::new(),
            random: fastrand::Rng::with_seed(seed),
        }
    }
}

impl Device for Pm {
    fn submit(&mut self, now: Nanos, request: Request) {
        let end = match request.kind {
            Kind::Read | Kind::Write => {
                let bytes = u128::from(request.length) * 1_000_000_000;
                let bus = bytes.div_ceil(u128::from(self.settings.rate.max(1)));
                self.free_at = self.free_at.max(now).after(u64::try_from(bus).unwrap_or(u64::MAX));
                let least = nanos(self.settings.least);
                let longest = nanos(self.settings.longest).max(least);
                self.free_at.after(self.random.u64(least..=longest))
            }
            // Written data is in the memory's power-fail domain at once.
            Kind::Flush | Kind::Deallocate => now,
        };
        self.under_way.insert(end, request.id);
    }

    fn next(&self) -> Option<Nanos> {
        self.under_way.next_time()
    }

    fn advance(&mut self, until: Nanos, done: &mut Vec<(Nanos, u64)>) {
        done.extend(core::iter::from_fn(|| self.under_way.pop_due(until)));
    }
}

#[cfg(test)]
mod tests {
    use units::Class;

    use super::*;

    fn read(id: u64, length: u64) -> Request {
        Request { id, kind: Kind::Read, offset: 0, length, class: Class::Urgent }
    }

    #[test]
    fn e12_an_access_takes_300_to_800_ns() {
        let mut pm = Pm::new(Settings::default(), 1);
        let mut done = Vec::new();
        for id in 0..1000 {
            pm.submit(Nanos(id * 10_000), read(id, 256));
            pm.advance(Nanos(id * 10_000 + 9_999), &mut done);
        }
        // 256 bytes take 38 ns of the bus.
        let times: Vec<u64> = done.iter().map(|(at, id)| at.0 - id * 10_000 - 38).collect();
        assert_eq!(times.len(), 1000);
        assert!(times.iter().all(|time| (300..=800).contains(time)), "{times:?}");
        let mean = times.iter().sum::<u64>() / 1000;
        assert!((530..570).contains(&mean), "{mean}");
    }

    #[test]
    fn much_data_waits_for_the_bus() {
        let settings =
            Settings { least: Duration::ZERO, longest: Duration::ZERO, rate: 1_000_000_000 };
        let mut pm = Pm::new(settings, 1);
        (0..3).for_each(|id| pm.submit(Nanos(0), read(id, 100)));
        let mut done = Vec::new();
        pm.advance(Nanos(250), &mut done);
        assert_eq!(done, [(Nanos(100), 0), (Nanos(200), 1)]);
        assert_eq!(pm.next(), Some(Nanos(300)));
    }
}
