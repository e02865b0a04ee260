//! The device: servers that commands take in order of arrival.

use units::{Calendar, Nanos};

use super::super::interface::{Device, Kind, Request};
use super::settings::{SERVERS_MAX, Settings};

/// A device.
#[derive(Debug)]
pub struct Profiled {
    settings: Settings,
    /// When servers become free.
    free_at: Calendar<()>,
    under_way: Calendar<u64>,
    random: fastrand::Rng,
    /// Time of servers that commands have taken, all servers together, in ns.
    busy: u64,
}

impl Profiled {
    /// Makes a device; `seed` decides the times of commands.
    #[must_use]
    pub fn new(settings: Settings, seed: u64) -> Self {
        let mut free_at = Calendar::new();
        let servers = settings.parallelism.clamp(1, SERVERS_MAX);
        (0..servers).for_each(|_| free_at.insert(Nanos::ZERO, ()));
        Self {
            settings,
            free_at,
            under_way: Calendar::new(),
            random: fastrand::Rng::with_seed(seed),
            busy: 0,
        }
    }
}

impl Device for Profiled {
    fn submit(&mut self, now: Nanos, request: Request) {
        let (times, bytes) = match request.kind {
            Kind::Read => (&self.settings.read, request.length),
            Kind::Write => (&self.settings.write, request.length),
            Kind::Flush | Kind::Deallocate => (&self.settings.write, 0),
        };
        let takes = times.draw(self.random.f64(), bytes);
        let holds = times.holds(bytes).max(takes);
        let begin = self.free_at.pop_due(Nanos::MAX).map_or(now, |(free, ())| free.max(now));
        self.busy = self.busy.saturating_add(holds);
        self.free_at.insert(begin.after(holds), ());
        self.under_way.insert(begin.after(takes), request.id);
    }

    fn next(&self) -> Option<Nanos> {
        self.under_way.next_time()
    }

    fn advance(&mut self, until: Nanos, done: &mut Vec<(Nanos, u64)>) {
        done.extend(core::iter::from_fn(|| self.under_way.pop_due(until)));
    }

    fn busy(&self) -> Option<u64> {
        Some(self.busy / u64::from(self.settings.parallelism.clamp(1, SERVERS_MAX)))
    }
}
