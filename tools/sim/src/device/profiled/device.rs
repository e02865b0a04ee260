//! The device: servers that commands take in order of arrival.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use units::Nanos;

use super::super::interface::{Device, Kind, Request};
use super::super::under_way::UnderWay;
use super::settings::{SERVERS_MAX, Settings};

/// A device.
#[derive(Debug)]
pub struct Profiled {
    settings: Settings,
    /// The times at which servers are free, the earliest first.
    free_at: BinaryHeap<Reverse<Nanos>>,
    under_way: UnderWay,
    random: fastrand::Rng,
}

impl Profiled {
    /// Makes a device; `seed` decides the times of commands.
    #[must_use]
    pub fn new(settings: Settings, seed: u64) -> Self {
        let servers = settings.parallelism.clamp(1, SERVERS_MAX);
        Self {
            settings,
            free_at: (0..servers).map(|_| Reverse(Nanos::ZERO)).collect(),
            under_way: UnderWay::default(),
            random: fastrand::Rng::with_seed(seed),
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
        let begin = self.free_at.pop().map_or(now, |Reverse(free)| free.max(now));
        self.free_at.push(Reverse(begin.after(holds)));
        self.under_way.push(begin.after(takes), request.id);
    }

    fn next(&self) -> Option<Nanos> {
        self.under_way.next()
    }

    fn advance(&mut self, until: Nanos, done: &mut Vec<(Nanos, u64)>) {
        self.under_way.advance(until, done);
    }
}
