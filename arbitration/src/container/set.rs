//! The requests that wait for one device, and the choice of the next.

use units::{Nanos, follow};

use super::order::Order;
use super::stream::Stream;

/// The rule by which a [`DiskSet`] chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// CSCAN order (upwards from the head, then again from the bottom) until a deadline is
    /// imminent, then order by deadline.
    Vanilla,
    /// As vanilla, but each chosen stream is then served this many requests in CSCAN order,
    /// regardless of deadlines.
    Batch(u32),
    /// As vanilla, with deadlines put off towards the end of their containers. Requests of one
    /// container that share a deadline are served in CSCAN order.
    Containers,
}

/// A request as the set sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetRequest {
    /// The caller's number for the request: below the set's capacity, and no other's in the set.
    pub id: u32,
    /// Stream that sent the request; with containers, below the set's number of streams.
    pub stream: u32,
    /// First block.
    pub lba: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// Time by which the request should be done.
    pub deadline: Nanos,
}

/// Number of streams whose needs are added up to see whether there is time for anything else.
const AHEAD: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Waiting {
    request: SetRequest,
    /// Time from the request's arrival to its deadline, in ns.
    latency: u64,
}

impl Waiting {
    fn by_block(&self) -> (u64, u32) {
        (self.request.lba, self.request.id)
    }

    fn by_stream(&self) -> (u32, u64, u32) {
        (self.request.stream, self.request.lba, self.request.id)
    }
}

/// The requests that wait for one device (docs/research/sources.md, I3: deadlines extend to the container's
/// end). Every operation takes logarithmic time, and none but [`new`](Self::new) allocates.
#[derive(Debug)]
pub struct DiskSet {
    scheduler: Scheduler,
    waiting: Vec<Option<Waiting>>,
    len: usize,
    /// All requests by block.
    blocks: Order<(u64, u32)>,
    /// All requests by deadline; with containers, each stream for itself.
    deadlines: Order<(u32, Nanos, u32)>,
    /// Each stream by block; `None`: neither batches nor containers need that.
    by_stream: Option<Order<(u32, u64, u32)>>,
    /// With containers, the streams that have something waiting, by when that is due.
    due: Order<(Nanos, u32)>,
    /// The streams with separate containers, and when the next request of each is due.
    streams: Vec<(Stream, Option<Nanos>)>,
    /// The block after the last chosen request.
    head: u64,
    /// The stream that has a batch open, and how much of it is left.
    batch: Option<(u32, u32)>,
    /// With containers, the stream that was chosen last, and the number of its requests since
    /// another stream was.
    visit: Option<(u32, u64)>,
    /// Whether streams that are late go by deadline, too.
    by_deadline: bool,
    /// Smoothed time of a request in the device, in ns.
    service: u64,
    /// Smoothed deviation of that time, in ns.
    spread: u64,
}

impl DiskSet {
    /// Makes an empty set for up to `capacity` requests of `streams` streams. Allocates once.
    #[must_use]
    pub fn new(scheduler: Scheduler, capacity: usize, streams: usize) -> Self {
        let apart = scheduler != Scheduler::Vanilla;
        let containers = if scheduler == Scheduler::Containers { streams } else { 0 };
        Self {
            scheduler,
            waiting: vec![None; capacity],
            len: 0,
            blocks: Order::new(capacity),
            deadlines: Order::new(capacity),
            by_stream: apart.then(|| Order::new(capacity)),
            due: Order::new(containers),
            streams: vec![(Stream::default(), None); containers],
            head: 0,
            batch: None,
            visit: None,
            by_deadline: false,
            service: 0,
            spread: 0,
        }
    }

    /// Counts the requests that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no request waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a request. Returns false where the set refuses it: its id is not below the capacity or
    /// in the set already, or, with containers, its stream is not below the number of streams.
    pub fn insert(&mut self, now: Nanos, request: SetRequest) -> bool {
        let containers = self.scheduler == Scheduler::Containers;
        if containers && request.stream as usize >= self.streams.len() {
            return false;
        }
        let Some(place @ None) = self.waiting.get_mut(request.id as usize) else { return false };
        let waiting = Waiting { request, latency: request.deadline.ns_since(now) };
        *place = Some(waiting);
        self.len += 1;
        self.blocks.insert(request.id, waiting.by_block());
        self.deadlines.insert(request.id, self.by_deadline(&waiting));
        if let Some(by_stream) = &mut self.by_stream {
            by_stream.insert(request.id, waiting.by_stream());
        }
        self.follow_stream(request.stream, |stream| stream.entered(now));
        true
    }

    /// Sets whether streams that are late go by deadline, too: where deadlines keep reservations, a
    /// visit to a late stream would make others late. Without this, late streams are served in runs.
    pub fn set_by_deadline(&mut self, by_deadline: bool) {
        self.by_deadline = by_deadline;
    }

    /// Takes out the request that goes to the device next. Returns its id.
    pub fn pick(&mut self, now: Nanos) -> Option<u32> {
        let id = self.batched().or_else(|| self.imminent(now)).or_else(|| self.in_order())?;
        let taken = self.take(id);
        debug_assert!(taken.is_some(), "a request waits until it is chosen or removed");
        let Waiting { request, latency } = taken?;
        self.head = request.lba.saturating_add(u64::from(request.blocks));
        if let Scheduler::Batch(size) = self.scheduler {
            let open = self.batch.filter(|(stream, left)| *stream == request.stream && *left > 0);
            let left = open.map_or(size, |(_, left)| left);
            self.batch = Some((request.stream, left.saturating_sub(1)));
        }
        let before = self.visit.filter(|(stream, _)| *stream == request.stream);
        self.visit = Some((request.stream, before.map_or(0, |(_, served)| served) + 1));
        self.follow_stream(request.stream, |stream| {
            stream.chosen(now, request.deadline, latency);
        });
        Some(id)
    }

    /// Removes a request that must not be served. Returns false where there is none of this id.
    pub fn remove(&mut self, id: u32) -> bool {
        let Some(Waiting { request, .. }) = self.take(id) else { return false };
        self.follow_stream(request.stream, Stream::left);
        true
    }

    /// Notes that a chosen request is done, after this many ns in the device. These times tell how
    /// soon a deadline is imminent.
    pub fn completed(&mut self, service: u64) {
        if self.service == 0 {
            (self.service, self.spread) = (service, service / 2);
            return;
        }
        self.spread = follow(self.spread, service.abs_diff(self.service), 4);
        self.service = follow(self.service, service, 8);
    }

    /// Ends the container of a stream whose user has seen an output. Another container begins.
    pub fn output(&mut self, now: Nanos, stream: u32) {
        self.follow_stream(stream, |ended| ended.output(now));
    }

    fn by_deadline(&self, waiting: &Waiting) -> (u32, Nanos, u32) {
        let containers = self.scheduler == Scheduler::Containers;
        let group = if containers { waiting.request.stream } else { 0 };
        (group, waiting.request.deadline, waiting.request.id)
    }

    fn take(&mut self, id: u32) -> Option<Waiting> {
        let waiting = self.waiting.get_mut(id as usize)?.take()?;
        self.len -= 1;
        self.blocks.remove(waiting.by_block());
        self.deadlines.remove(self.by_deadline(&waiting));
        if let Some(by_stream) = &mut self.by_stream {
            by_stream.remove(waiting.by_stream());
        }
        Some(waiting)
    }

    /// Changes a stream with separate containers, and notes when its next request is due.
    fn follow_stream(&mut self, number: u32, change: impl FnOnce(&mut Stream)) {
        if self.scheduler != Scheduler::Containers {
            return;
        }
        let oldest = self.oldest(number);
        let oldest = oldest.and_then(|oldest| self.waiting.get(oldest as usize)?.as_ref());
        // An output of a stream that the set does not tell apart ends nothing.
        let Some((stream, noted)) = self.streams.get_mut(number as usize) else { return };
        change(stream);
        let due = oldest.map(|oldest| stream.due(oldest.request.deadline, oldest.latency));
        let before = std::mem::replace(noted, due);
        if before == due {
            return;
        }
        if let Some(before) = before {
            self.due.remove((before, number));
        }
        if let Some(due) = due {
            self.due.insert(number, (due, number));
        }
    }

    /// Finds the request with the earliest deadline of its own: of a stream with containers, of all
    /// requests (as stream 0) without.
    fn oldest(&self, stream: u32) -> Option<u32> {
        let found = self.deadlines.at_or_after((stream, Nanos::ZERO, 0));
        found.filter(|((group, ..), _)| *group == stream).map(|(_, id)| id)
    }

    /// Finds the next request of an open batch.
    fn batched(&self) -> Option<u32> {
        let (stream, _) = self.batch.filter(|(_, left)| *left > 0)?;
        self.onwards(stream)
    }

    /// Finds a stream's next request in CSCAN order.
    fn onwards(&self, stream: u32) -> Option<u32> {
        let by_stream = self.by_stream.as_ref();
        debug_assert!(by_stream.is_some(), "batches and containers keep streams by block");
        let by_stream = by_stream?;
        let from = |lba| by_stream.at_or_after((stream, lba, 0));
        let mine = |found: &((u32, u64, u32), u32)| found.0.0 == stream;
        from(self.head).filter(mine).or_else(|| from(0).filter(mine)).map(|(_, id)| id)
    }

    /// Finds the request to serve for the sake of a deadline that would be missed if others went
    /// first.
    fn imminent(&self, now: Nanos) -> Option<u32> {
        if self.scheduler == Scheduler::Containers {
            return self.imminent_container(now);
        }
        let ((_, deadline, _), id) = self.deadlines.first()?;
        self.is_near(now, deadline, 1).then_some(id)
    }

    /// Finds the request to serve for the sake of a container. Unless late streams go by deadline, each
    /// has its requests in CSCAN order: its deadline is missed in any order, and this one is the fastest.
    fn imminent_container(&self, now: Nanos) -> Option<u32> {
        let stream = self.short_of_time(now)?;
        let (of, due) = self.streams.get(stream as usize)?;
        let late = !self.by_deadline && due.is_some_and(|due| due < now);
        if let Some(staying) = self.staying(now, stream).filter(|_| late) {
            return self.onwards(staying);
        }
        if late || of.is_together() { self.onwards(stream) } else { self.oldest(stream) }
    }

    /// Finds the stream that is served on although another stream is late: the stream of the previous
    /// request, if it is short of time as well. On an overloaded device a seek for each request would
    /// delay all streams. A visit ends after as many requests as the smaller container of the two holds.
    fn staying(&self, now: Nanos, late: u32) -> Option<u32> {
        let (last, served) = self.visit.filter(|(last, _)| *last != late)?;
        let (waits, _) = self.streams.get(late as usize)?;
        let (of, due) = self.streams.get(last as usize)?;
        let short = due.is_some_and(|due| self.is_near(now, due, 1));
        (short && served < of.size().min(waits.size())).then_some(last)
    }

    /// Returns the first of the streams due next that would be late if another request preceded its
    /// own needed requests. If there is none, returns the first that would be late if another
    /// request preceded its needs and the needs of the streams due before it.
    fn short_of_time(&self, now: Nanos) -> Option<u32> {
        let (mut from, mut requests, mut short) = ((Nanos::ZERO, 0), 0_u32, None);
        for _ in 0..AHEAD {
            let Some(((due, _), stream)) = self.due.at_or_after(from) else { break };
            let needed = self.streams.get(stream as usize).map_or(1, |(of, _)| of.needed());
            if self.is_near(now, due, needed) {
                return Some(stream);
            }
            requests = requests.saturating_add(needed);
            if short.is_none() && self.is_near(now, due, requests) {
                short = Some(stream);
            }
            from = (due, stream.saturating_add(1));
        }
        short
    }

    /// Returns whether this many requests would come late if any other went before them.
    fn is_near(&self, now: Nanos, deadline: Nanos, requests: u32) -> bool {
        let needed = self.service.saturating_mul(u64::from(requests) + 1);
        now.after(needed.saturating_add(self.spread.saturating_mul(4))) >= deadline
    }

    /// Finds the next request in CSCAN order: upwards from the head, then from the bottom.
    fn in_order(&self) -> Option<u32> {
        let next = self.blocks.at_or_after((self.head, 0)).or_else(|| self.blocks.first());
        next.map(|(_, id)| id)
    }
}
