//! The streams of the figure.

use arbitration::Nanos;
use arbitration::reservation::{Budget, Locality, Terms};

use crate::random::Random;

const SECOND: u64 = 1_000_000_000;

/// A request to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiskRequest {
    /// The time at which the request is due by the reservation, in ns.
    pub(super) due: u64,
    /// The first sector.
    pub(super) position: u64,
}

/// The arrivals of requests.
#[derive(Clone, Copy, Debug)]
enum Arrivals {
    /// A number of requests each second, evenly. A request that finds `room` others waiting is
    /// lost: a recorder's buffer is full.
    Even { per_second: u64, room: u64 },
    /// Bursts of a number of requests, at a number of random moments in 100 s.
    Bursts { size: u64, per_100_s: u64 },
    /// A request whenever fewer than this number are outstanding.
    Outstanding(u64),
}

/// The places of requests.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Places one after the other from here on.
    Sequential(u64),
    /// Random places from the first to the second.
    Random(u64, u64),
}

/// A stream of reads.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) name: &'static str,
    /// The requests that the stream reserves for each second.
    pub(super) reserves: u64,
    /// The sectors of a request.
    pub(super) blocks: u32,
    arrivals: Arrivals,
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
    /// Makes the terms that the stream asks the broker for.
    pub(super) fn terms(&self) -> Terms {
        let locality = match self.place {
            Place::Sequential(_) => Locality::Sequential,
            Place::Random(..) => Locality::Random,
        };
        let request_bytes = self.blocks.saturating_mul(512);
        let terms = Terms::of(Budget::Operations(self.reserves), Nanos(SECOND));
        Terms { request_bytes, locality, ..terms }
    }

    /// Hands all requests that have come by `now` to `take`.
    pub(super) fn arrive(
        &mut self,
        now: Nanos,
        random: &mut Random,
        mut take: impl FnMut(DiskRequest),
    ) {
        match self.arrivals {
            Arrivals::Even { per_second, room } => {
                while self.next <= now {
                    self.next = self.next.after(SECOND / per_second.max(1));
                    if self.outstanding < room {
                        take(self.request(now, random));
                    } else {
                        self.lost += 1;
                    }
                }
            }
            Arrivals::Bursts { size, per_100_s } => {
                while self.next <= now {
                    self.next = self.next.after(random.below(200 * SECOND / per_100_s.max(1)));
                    (0..size).for_each(|_| take(self.request(now, random)));
                }
            }
            Arrivals::Outstanding(count) => {
                while self.outstanding < count {
                    take(self.request(now, random));
                }
            }
        }
    }

    /// Returns when the next requests come, if not at a completion.
    pub(super) fn next(&self) -> Nanos {
        match self.arrivals {
            Arrivals::Outstanding(_) => Nanos::MAX,
            _ => self.next,
        }
    }

    fn request(&mut self, now: Nanos, random: &mut Random) -> DiskRequest {
        self.outstanding += 1;
        let due = self.next_due(now);
        let position = match &mut self.place {
            Place::Sequential(next) => {
                let position = *next;
                *next += u64::from(self.blocks);
                position
            }
            Place::Random(from, to) => *from + random.below(to.saturating_sub(*from)),
        };
        DiskRequest { due, position }
    }

    /// Computes when the next request is due by the reservation, in ns. The requests that wait at
    /// the beginning of a second are served in that second, as many as are reserved.
    fn next_due(&mut self, now: Nanos) -> u64 {
        let (last, count) = self.due;
        let next = if count < self.reserves { last } else { last + 1 }.max(now.0 / SECOND + 2);
        self.due = (next, if next == last { count + 1 } else { 1 });
        next * SECOND
    }
}

/// Makes two media streams, transactions that come in bursts, and a backup or rebuild in the
/// background that has `background` requests outstanding, on a disk of `sectors` sectors.
pub(super) fn streams(sectors: u64, background: u64) -> [Stream; 4] {
    let stream = |name, reserves, blocks, arrivals, place| Stream {
        name,
        reserves,
        blocks,
        arrivals,
        place,
        next: Nanos::ZERO,
        outstanding: 0,
        due: (0, 0),
        lost: 0,
    };
    // Each has buffers for two periods.
    let even = |per_second| Arrivals::Even { per_second, room: 2 * per_second };
    let bursts = Arrivals::Bursts { size: 100, per_100_s: 20 };
    let (first, second) = (sectors / 10, sectors / 5 * 3);
    let tables = Place::Random(sectors / 4, sectors / 2);
    let backlog = Arrivals::Outstanding(background);
    [
        stream("media 1", 400, 64, even(400), Place::Sequential(first)),
        stream("media 2", 200, 64, even(200), Place::Sequential(second)),
        stream("transactions", 20, 8, bursts, tables),
        stream("background", 10, 8, backlog, Place::Random(0, sectors)),
    ]
}
