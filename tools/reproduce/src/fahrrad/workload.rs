//! The streams.

use std::ops::Range;

use arbitration::Nanos;
use arbitration::reservation::{Budget, Locality, Terms};
use fastrand::Rng;
use serde::Deserialize;

use super::super::disk::SECTOR;
use crate::random::Draw as _;

const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiskRequest {
    /// The time at which the request is due by the reservation, in ns.
    pub(super) due: u64,
    /// The first sector.
    pub(super) position: u64,
}

/// The arrivals of requests.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "process", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Arrivals {
    /// A number of requests each second, evenly. A request that finds `room` others waiting is
    /// lost: a recorder's buffer is full.
    Constant { rate: u64, room: Option<u64> },
    /// `count` requests at random moments, so that they are this number each second in the mean.
    Burst { rate: u64, count: u64 },
    /// A request whenever fewer than this number are outstanding.
    Closed { depth: u64 },
}

impl Arrivals {
    /// Returns the requests per second, where they do not wait for others.
    pub(super) const fn rate(self) -> u64 {
        match self {
            Self::Constant { rate, .. } | Self::Burst { rate, .. } => rate,
            Self::Closed { .. } => 0,
        }
    }
}

/// The places of requests.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// Places one after the other, and from the start of the area again.
    Sequential { next: u64, area: Range<u64> },
    /// Random places.
    Random(Range<u64>),
}

#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) name: String,
    /// The requests that the stream reserves for each second; 0: it reserves nothing.
    pub(super) reserves: u64,
    /// The sectors of a request.
    pub(super) blocks: u32,
    pub(super) arrivals: Arrivals,
    place: Place,
    /// The time of the next requests.
    next: Nanos,
    pub(super) outstanding: u64,
    /// The second at whose end the last request is due, and the number that is due then.
    due: (u64, u64),
    /// The number of requests that found no room.
    pub(super) lost: u64,
}

impl Stream {
    /// Makes a stream before its first request.
    pub(super) const fn new(
        name: String,
        reserves: u64,
        blocks: u32,
        arrivals: Arrivals,
        place: Place,
    ) -> Self {
        let (next, due) = (Nanos::ZERO, (0, 0));
        Self { name, reserves, blocks, arrivals, place, next, outstanding: 0, due, lost: 0 }
    }

    /// Makes the terms that the stream asks the broker for; `None`: it asks for nothing.
    pub(super) fn terms(&self) -> Option<Terms> {
        let locality = match self.place {
            Place::Sequential { .. } => Locality::Sequential,
            Place::Random(_) => Locality::Random,
        };
        let request_bytes = self.blocks.saturating_mul(SECTOR);
        let terms = Terms::of(Budget::Operations(self.reserves), Nanos(SECOND));
        (self.reserves > 0).then_some(Terms { request_bytes, locality, ..terms })
    }

    /// Hands all requests that have come by `now` to `take`.
    pub(super) fn arrive(
        &mut self,
        now: Nanos,
        random: &mut Rng,
        mut take: impl FnMut(DiskRequest),
    ) {
        match self.arrivals {
            Arrivals::Constant { rate, room } => {
                while self.next <= now {
                    self.next = self.next.after(SECOND / rate.max(1));
                    if room.is_none_or(|room| self.outstanding < room) {
                        take(self.request(now, random));
                    } else {
                        self.lost += 1;
                    }
                }
            }
            Arrivals::Burst { rate, count } => {
                while self.next <= now {
                    let most = 2 * count * SECOND / rate.max(1);
                    self.next = self.next.after(random.below(most));
                    (0..count).for_each(|_| take(self.request(now, random)));
                }
            }
            Arrivals::Closed { depth } => {
                while self.outstanding < depth {
                    take(self.request(now, random));
                }
            }
        }
    }

    /// Returns when the next requests come, if not at a completion.
    pub(super) fn next(&self) -> Nanos {
        match self.arrivals {
            Arrivals::Closed { .. } => Nanos::MAX,
            _ => self.next,
        }
    }

    fn request(&mut self, now: Nanos, random: &mut Rng) -> DiskRequest {
        self.outstanding += 1;
        let due = self.next_due(now);
        let blocks = u64::from(self.blocks);
        let position = match &mut self.place {
            Place::Sequential { next, area } => {
                let position = if *next + blocks > area.end { area.start } else { *next };
                *next = position + blocks;
                position
            }
            Place::Random(area) => area.start + random.below(area.end.saturating_sub(area.start)),
        };
        DiskRequest { due, position }
    }

    /// Computes when the next request is due by the reservation, in ns. The requests that wait at
    /// the beginning of a second are served in that second, as many as are reserved. Without a reservation
    /// no request is due.
    fn next_due(&mut self, now: Nanos) -> u64 {
        if self.reserves == 0 {
            return u64::MAX;
        }
        let (last, count) = self.due;
        let next = if count < self.reserves { last } else { last + 1 }.max(now.0 / SECOND + 2);
        self.due = (next, if next == last { count + 1 } else { 1 });
        next * SECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequential_stream_begins_its_area_again_and_without_a_reservation_nothing_is_due() {
        let place = Place::Sequential { next: 100, area: 100..125 };
        let arrivals = Arrivals::Closed { depth: 5 };
        let mut stream = Stream::new("media".to_owned(), 0, 10, arrivals, place);
        let mut requests = Vec::new();
        stream.arrive(Nanos::ZERO, &mut Rng::with_seed(1), |request| requests.push(request));
        let request = |position| DiskRequest { due: u64::MAX, position };
        assert_eq!(requests, [100, 110, 100, 110, 100].map(request));
    }
}
