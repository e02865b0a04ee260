//! The streams of the figure.

use arbitration::Nanos;
use arbitration::reservation::{Budget, Locality, Request, Terms};

use super::super::random::Random;

const SECOND: u64 = 1_000_000_000;

/// When requests come.
#[derive(Clone, Copy, Debug)]
enum Arrivals {
    /// So many each second, evenly. What finds `room` others waiting is lost: a recorder's buffer
    /// is full.
    Even { per_second: u64, room: u64 },
    /// So many at once, at random moments, so many times in 100 s.
    Bursts { size: u64, per_100_s: u64 },
    /// As soon as fewer than so many are outstanding.
    Outstanding(u64),
}

/// Where they go.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// One after the other from here on.
    Sequential(u64),
    /// Anywhere from the first to the second.
    Random(u64, u64),
}

/// A stream of reads.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) name: &'static str,
    /// Requests that it reserves for each second.
    pub(super) reserves: u64,
    /// Sectors of a request.
    pub(super) blocks: u32,
    arrivals: Arrivals,
    place: Place,
    /// When the next requests come.
    next: Nanos,
    pub(super) outstanding: u64,
    /// The second at whose end the last request is due, and how many are due then.
    due: (u64, u64),
    /// Requests that found no room.
    pub(super) lost: u64,
}

impl Stream {
    /// What it asks the broker for.
    pub(super) fn terms(&self) -> Terms {
        let locality = match self.place {
            Place::Sequential(_) => Locality::Sequential,
            Place::Random(..) => Locality::Random,
        };
        Terms {
            budget: Budget::Operations(self.reserves),
            period: Nanos(SECOND),
            request_bytes: self.blocks.saturating_mul(512),
            write_percent: 0,
            locality,
        }
    }

    /// Hands all requests that have come by `now` to `take`.
    pub(super) fn arrive(
        &mut self,
        now: Nanos,
        random: &mut Random,
        mut take: impl FnMut(Request),
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

    /// When the next requests come, if not at a completion.
    pub(super) fn next(&self) -> Nanos {
        match self.arrivals {
            Arrivals::Outstanding(_) => Nanos::MAX,
            _ => self.next,
        }
    }

    fn request(&mut self, now: Nanos, random: &mut Random) -> Request {
        self.outstanding += 1;
        let id = self.next_due(now);
        let position = match &mut self.place {
            Place::Sequential(next) => {
                let position = *next;
                *next += u64::from(self.blocks);
                position
            }
            Place::Random(from, to) => *from + random.below(to.saturating_sub(*from)),
        };
        Request { id, position }
    }

    /// When the next request is due by the reservation, in ns: what waits at the beginning of a
    /// second is served in it, up to as many requests as are reserved.
    fn next_due(&mut self, now: Nanos) -> u64 {
        let (last, count) = self.due;
        let next = if count < self.reserves { last } else { last + 1 }.max(now.0 / SECOND + 2);
        self.due = (next, if next == last { count + 1 } else { 1 });
        next * SECOND
    }
}

/// Two media streams, transactions that come in bursts, and a backup or rebuild in the background
/// that has `background` requests outstanding, on a disk of so many sectors.
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
    // Buffers of two periods.
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
