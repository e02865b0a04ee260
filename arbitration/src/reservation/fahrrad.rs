//! Fahrrad's disk scheduling set, for a device that serves one command at a time (docs/sources.md,
//! F3: reservations are kept).
//!
//! Each stream's requests wait in a queue of their own. A request is moved into the set while it
//! fits, at its worst time, into its stream's budget and before the earliest deadline of all
//! streams; those of the earliest deadline first. So the set can be served in any order without a
//! deadline being missed, and it is served in the order of positions, one sweep after the other.
//! When a request completes, what it did not take of its worst time makes room for the next one.
//!
//! What reserved streams leave goes to requests beyond budgets and to streams without one: they
//! are moved while all that is reserved up to each deadline still fits before it. A device is never
//! left idle: where nothing fits any more, one request goes alone.
//!
//! This is the model that the simulator runs and that the broker's promises are proved against;
//! its queues grow as requests come.

use std::collections::{BTreeMap, VecDeque};

use units::Nanos;

use super::broker::Admitted;

/// A request to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRequest {
    /// Whatever the caller knows it by.
    pub id: u64,
    /// Position of the request on the disk.
    pub position: u64,
}

/// The streams of a device, and its disk scheduling set.
#[derive(Debug, Default)]
pub struct Fahrrad {
    streams: Vec<Stream>,
    /// Requests of the set by position, and by the order of moving among equal ones.
    set: BTreeMap<(u64, u64), Member>,
    /// Time that the set takes at its worst, in ns.
    set_time: u64,
    moved: u64,
    /// Position of the device: that of the request that was picked last.
    head: u64,
    served: Option<Member>,
    /// The stream that is first to have what others leave.
    turn: usize,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    stream: usize,
    request: DiskRequest,
    worst: u64,
    /// The end of the period it was charged in; `None`: it was not charged.
    charged: Option<Nanos>,
}

/// A stream's queue and what is left of its budget.
#[derive(Debug)]
struct Stream {
    queue: VecDeque<DiskRequest>,
    worst: u64,
    /// b and p; `None`: best effort.
    reserved: Option<(u64, u64)>,
    left: u64,
    end: Nanos,
}

impl Stream {
    /// Goes on to the period that `now` is in.
    fn roll(&mut self, now: Nanos) {
        let Some((budget, period)) = self.reserved else { return };
        if now >= self.end {
            self.end = self.end.after((now.ns_since(self.end) / period + 1) * period);
            self.left = budget;
        }
        if self.queue.is_empty() {
            self.left = self.left.min(self.part(now, self.end));
        }
    }

    /// Computes the part of the budget that corresponds to the time from `from` to `to`: what a
    /// stream that has nothing waiting may still ask for.
    fn part(&self, from: Nanos, to: Nanos) -> u64 {
        let Some((budget, period)) = self.reserved else { return 0 };
        let part = u128::from(budget) * u128::from(to.ns_since(from)) / u128::from(period);
        u64::try_from(part).unwrap_or(u64::MAX)
    }

    fn in_budget(&self) -> bool {
        self.reserved.is_some() && !self.queue.is_empty() && self.left >= self.worst
    }
}

impl Fahrrad {
    /// Makes a device without streams.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a stream with a reservation whose first period begins at `now`. Returns its number.
    pub fn add_reserved(&mut self, now: Nanos, admitted: &Admitted) -> usize {
        let (budget, period) = (admitted.translation.device_time.0, admitted.terms.period.0.max(1));
        self.add(Stream {
            queue: VecDeque::new(),
            worst: admitted.profile.worst_of(&admitted.terms),
            reserved: Some((budget, period)),
            left: budget,
            end: now.after(period),
        })
    }

    /// Adds a stream that has what others leave, whose requests take `worst` at most. Returns its
    /// number.
    pub fn add_best_effort(&mut self, worst: Nanos) -> usize {
        let (queue, end) = (VecDeque::new(), Nanos::MAX);
        self.add(Stream { queue, worst: worst.0, reserved: None, left: 0, end })
    }

    fn add(&mut self, stream: Stream) -> usize {
        self.streams.push(stream);
        self.streams.len() - 1
    }

    /// Takes a request of a stream that has come. A request of an unknown stream is dropped.
    pub fn arrive(&mut self, now: Nanos, stream: usize, request: DiskRequest) {
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.roll(now);
            stream.queue.push_back(request);
        }
    }

    /// Picks the next request for the idle device, with the number of its stream. Nothing waits
    /// where there is none.
    pub fn pick(&mut self, now: Nanos) -> Option<(usize, DiskRequest)> {
        self.streams.iter_mut().for_each(|stream| stream.roll(now));
        while let Some(stream) = self.next_to_move(now) {
            self.take_in(stream);
        }
        if self.set.is_empty() {
            let stream = self.earliest_in_budget().or_else(|| self.next_beyond())?;
            self.take_in(stream);
        }
        let ahead = self.set.range((self.head, 0)..).next();
        let key = *ahead.or_else(|| self.set.iter().next())?.0;
        let member = self.set.remove(&key)?;
        self.head = member.request.position;
        self.served = Some(member);
        Some((member.stream, member.request))
    }

    /// Notes that the request picked last has completed, after `actual` ns in the device.
    pub fn completed(&mut self, now: Nanos, actual: u64) {
        let Some(member) = self.served.take() else {
            debug_assert!(false, "what completes was picked");
            return;
        };
        self.set_time = self.set_time.saturating_sub(member.worst);
        let Some(stream) = self.streams.get_mut(member.stream) else {
            debug_assert!(false, "no stream goes");
            return;
        };
        if member.charged == Some(stream.end) && now < stream.end {
            stream.left = (stream.left + member.worst).saturating_sub(actual);
        }
    }

    /// Counts the requests of a stream that wait outside the set.
    #[must_use]
    pub fn waiting(&self, stream: usize) -> usize {
        self.streams.get(stream).map_or(0, |stream| stream.queue.len())
    }

    /// Counts the requests in the set.
    #[must_use]
    pub fn in_set(&self) -> usize {
        self.set.len()
    }

    fn take_in(&mut self, number: usize) {
        let Some(stream) = self.streams.get_mut(number) else {
            debug_assert!(false, "no stream goes");
            return;
        };
        let charged = stream.in_budget().then_some(stream.end);
        let Some(request) = stream.queue.pop_front() else {
            debug_assert!(false, "a stream is next because a request of it waits");
            return;
        };
        let worst = stream.worst;
        if charged.is_some() {
            stream.left -= worst;
        } else {
            self.turn = number + 1;
        }
        let member = Member { stream: number, request, worst, charged };
        self.moved += 1;
        self.set.insert((request.position, self.moved), member);
        self.set_time += worst;
    }

    /// Finds the stream whose next request fits into the set.
    fn next_to_move(&self, now: Nanos) -> Option<usize> {
        if let Some(first) = self.earliest_in_budget() {
            return self.fits(now, first).then_some(first);
        }
        self.next_beyond().filter(|next| self.fits(now, *next))
    }

    /// Finds, of the streams with requests and budget, the one whose deadline is the earliest.
    fn earliest_in_budget(&self) -> Option<usize> {
        let due = self.streams.iter().enumerate().filter(|(_, stream)| stream.in_budget());
        due.min_by_key(|(_, stream)| stream.end).map(|(number, _)| number)
    }

    /// Finds the stream that is next to have what reservations leave, in turn.
    fn next_beyond(&self) -> Option<usize> {
        let count = self.streams.len();
        let waits = |number: &usize| self.waiting(*number) > 0;
        (0..count).map(|step| (self.turn + step) % count).find(waits)
    }

    /// Says whether one more request of a stream can be in the set at its worst, and what other
    /// streams have reserved up to each deadline (up to the stream's own, when it has budget) still
    /// fits before it.
    fn fits(&self, now: Nanos, number: usize) -> bool {
        let Some(of) = self.streams.get(number) else {
            debug_assert!(false, "no stream goes");
            return false;
        };
        let in_budget = of.in_budget();
        let needed = self.set_time.saturating_add(of.worst);
        let earliest = self.streams.iter().map(|stream| stream.end).min().unwrap_or(Nanos::MAX);
        let deadlines = self.streams.iter().map(|stream| stream.end);
        let counts = |end: &Nanos| *end < Nanos::MAX && !(in_budget && *end >= of.end);
        needed <= earliest.ns_since(now)
            && deadlines.filter(counts).all(|end| {
                needed.saturating_add(self.reserved_until(now, end)) <= end.ns_since(now)
            })
    }

    /// Sums what reserved streams may still ask for up to `deadline`.
    fn reserved_until(&self, now: Nanos, deadline: Nanos) -> u64 {
        let due = self.streams.iter().filter(|stream| stream.end <= deadline);
        let asked = due.map(|stream| {
            let now_left = stream.left.min(stream.end.ns_since(now));
            now_left.saturating_add(stream.part(stream.end, deadline))
        });
        asked.fold(0, u64::saturating_add)
    }
}
