//! The RDMA queue pairs of a reactor: posted work, and its completions.
//!
//! Nothing here calls the core: events are listed, and the reactor takes them from the list ([`QueuePairs::next`]).
//!
//! Each queue pair has a receive queue of its own. In a shared one, a host that is held back would occupy the
//! buffers of others.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};

use fabric::queue::Fetch;
use fabric::queue::Payload as _;
use fabric::rdma::wire::{self, Post};
use fabric_verbs::{
    ActivePair, Completion, CompletionQueue, Done, Outcome, RateRange, ReceiveBuffer, Stable,
    StableMut, Token, Work,
};
use qtcp::completions::Posted;
use qtcp::device_limit::{DeviceLimit, DeviceRates};
use qtcp::poller::QueuePairMeters;
use rustc_hash::FxHashMap;
use sluice_core::{Key, PAGE, TxData};

use super::pool::Buffer;
use super::receive::DataPlace;
use crate::serve::network::QueuePairPath;
use crate::serve::rdma::NewQueuePair;
use crate::serve::shared::Shared;
use crate::sys::clock::Clock;

/// A receive buffer with a command capsule.
pub(super) type Capsule = ReceiveBuffer;
/// Work requests that are posted together.
pub(super) type Batch = wire::Batch<TxData<Buffer>>;

/// Completions that are taken in a turn.
const COMPLETIONS: usize = 256;

/// Data that is sent from where it is.
#[derive(Debug)]
struct Sent(TxData<Buffer>);

// SAFETY: the bytes are static zeroes, or in a reactor's arena, or on the heap behind a pointer of the
// payload: they stay where they are when the payload moves, and nothing changes them.
unsafe impl Stable for Sent {
    fn stable_bytes(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// Data that is fetched, with the place for it: a command's buffer, or memory of its own.
#[derive(Debug)]
struct Fetching {
    fetch: Fetch,
    place: Option<DataPlace>,
    own: Vec<u8>,
    /// The record for its connection's meter when it is over.
    posted: Option<Posted>,
}

// SAFETY: the bytes are in a reactor's arena, or on the heap: they stay where they are when this
// moves.
unsafe impl StableMut for Fetching {
    fn stable_bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.place {
            Some(place) => place.bytes_mut(),
            None => &mut self.own,
        }
    }
}

type Pair = ActivePair<Sent, Fetching>;

/// How many of the arrived capsules the core wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wants {
    Nothing,
    /// Each chunk.
    Stream,
    /// One chunk, as of a stream.
    Chunk,
    /// One chunk.
    Once,
}

/// One queue pair.
#[derive(Debug)]
struct Link {
    key: Key,
    token: Token,
    pair: Pair,
    /// Number of its completion queue.
    completions: usize,
    /// Batches that were posted and are not over, with their records for the connection's meter.
    batches: VecDeque<(Batch, Option<Posted>)>,
    /// The meters of a connection that the network's stage looks after.
    meters: Option<Box<QueuePairMeters>>,
    /// The name of its device, and the port's number.
    port: (String, u8),
    /// Bytes of data in a packet; 0 while the connection is not accepted.
    mtu: u32,
    /// RDMA READs that are posted together, before they are.
    fetches: Vec<Work<Sent, Fetching>>,
    wants: Wants,
    /// Capsules that have arrived and were not handed over.
    arrived: Vec<Capsule>,
    /// Why the connection is over.
    lost: Option<Cow<'static, str>>,
    /// Whether it is over because a call for it has failed.
    has_failed: bool,
    /// Whether this end has ended the connection.
    is_down: bool,
    /// Whether it is in the list of those with receive buffers to post.
    reposts: bool,
}

/// Something that has happened, for the core.
#[derive(Debug)]
pub(super) enum Happened {
    /// Capsules have arrived, which the core wants: [`QueuePairs::take_arrived`].
    Arrived(Key),
    /// A batch is over; or lost, with the reason.
    Sent(Key, Batch, Option<Cow<'static, str>>),
    /// Data was fetched to its place, or to bytes; or not, with the reason.
    Fetched(Key, Fetch, Option<DataPlace>, Vec<u8>, Option<Cow<'static, str>>),
    /// Nothing is received any more, because the core wants it so, or for the reason.
    ReceiveEnded(Key, Option<Cow<'static, str>>),
}

/// The core's request that arrived capsules answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handed {
    /// They are part of a stream, which goes on.
    Stream,
    /// They are the last chunk of a stream.
    Chunk,
    /// They answer a single receive.
    Once,
}

/// A completion queue of this reactor.
#[derive(Debug)]
struct Completions {
    number: usize,
    queue: CompletionQueue,
    /// Whether its descriptor tells of the next completion.
    armed: bool,
    watched: bool,
}

/// The queue pairs of a reactor.
#[derive(Debug)]
pub(super) struct QueuePairs {
    clock: Clock,
    /// Queue pairs by the indexes of their connections' keys.
    links: Vec<Option<Box<Link>>>,
    /// Connections by completion queue and queue pair number, and by their names.
    numbers: FxHashMap<(usize, u32), Key>,
    tokens: FxHashMap<u64, Key>,
    completions: Vec<Completions>,
    taken: Vec<Completion>,
    happened: VecDeque<Happened>,
    reposts: Vec<Key>,
}

/// Finds the queue pair of a connection.
fn find(links: &mut [Option<Box<Link>>], key: Key) -> Option<&mut Link> {
    let link = links.get_mut(key.index as usize)?.as_deref_mut()?;
    (link.key == key).then_some(link)
}

impl QueuePairs {
    /// Makes the queue pairs of a reactor: none yet.
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            links: Vec::new(),
            numbers: FxHashMap::default(),
            tokens: FxHashMap::default(),
            completions: Vec::new(),
            taken: Vec::new(),
            happened: VecDeque::new(),
            reposts: Vec::new(),
        }
    }

    /// Returns whether there is no queue pair.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Takes a queue pair, and accepts its connection with this private data. `tos` is the traffic class byte of
    /// sent packets; `None` means the host's.
    pub(super) fn add(
        &mut self,
        key: Key,
        new: NewQueuePair,
        tos: Option<u8>,
        private_data: &[u8],
    ) {
        let NewQueuePair { token, pair, accept, port, completions: (number, queue), .. } = new;
        if let Some(queue) = queue {
            self.completions.push(Completions { number, queue, armed: false, watched: false });
        }
        debug_assert!(
            self.completions.iter().any(|one| one.number == number),
            "a queue pair's completion queue came with the first of its pairs"
        );
        self.numbers.insert((number, pair.number()), key);
        self.tokens.insert(token.0, key);
        let index = key.index as usize;
        if index >= self.links.len() {
            self.links.resize_with(index + 1, || None);
        }
        let link = Link {
            key,
            token,
            pair: pair.activate(),
            completions: number,
            batches: VecDeque::new(),
            meters: None,
            port,
            mtu: 0,
            fetches: Vec::new(),
            wants: Wants::Nothing,
            arrived: Vec::new(),
            lost: None,
            has_failed: false,
            is_down: false,
            reposts: false,
        };
        if let Some(place) = self.links.get_mut(index) {
            let link = place.insert(Box::new(link));
            match link.pair.pair().accept(accept, private_data, tos) {
                Ok(mtu) => link.mtu = mtu,
                Err(error) => {
                    let reason = format!("the connection cannot be accepted: {error}");
                    fail(link, &mut self.happened, reason.into());
                }
            }
        }
    }

    /// Meters a connection from now on. Returns its path for the network's stage.
    pub(super) fn meter(&mut self, key: Key) -> Option<QueuePairPath> {
        let link = find(&mut self.links, key)?;
        let told = link.meters.insert(Box::default()).traffic();
        let path = QueuePairPath::new(told, link.port.clone(), link.mtu);
        Some(match link.pair.pair().rate_limit() {
            Some(set) => {
                let RateRange { least, most } = set.range();
                let limit = DeviceLimit::new(DeviceRates { least, most }, link.mtu);
                path.with_limit(limit, Box::new(set))
            }
            None => path,
        })
    }

    /// Takes note that a connection is over.
    pub(super) fn lost(&mut self, token: Token, reason: String) {
        let Self { links, happened, tokens, .. } = self;
        let key = tokens.get(&token.0).copied();
        if let Some(link) = key.and_then(|key| find(links, key)) {
            lose(link, happened, reason.into());
        }
    }

    /// Ends the connection of a device that is gone. The device may never complete outstanding work requests, so their
    /// buffers come back here.
    pub(super) fn device_gone(&mut self, token: Token) {
        let Self { links, happened, tokens, .. } = self;
        let key = tokens.get(&token.0).copied();
        let Some(link) = key.and_then(|key| find(links, key)) else { return };
        lose(link, happened, "its RDMA device is gone".into());
        let (owed, number) = (link.pair.give_up(), link.completions);
        for completion in owed {
            self.complete(number, completion);
        }
    }

    /// Takes completions, of all queues. Returns whether there were any.
    pub(super) fn poll(&mut self) -> bool {
        let mut any = false;
        for index in 0..self.completions.len() {
            let mut taken = std::mem::take(&mut self.taken);
            let Some(Completions { queue, number, .. }) = self.completions.get_mut(index) else {
                break;
            };
            let number = *number;
            let mut more = true;
            while more && taken.len() < COMPLETIONS {
                more = queue.poll(&mut taken).unwrap_or_else(|error| {
                    tracing::error!(%error, "an RDMA completion queue has failed");
                    false
                });
            }
            any |= !taken.is_empty();
            for completion in taken.drain(..) {
                self.complete(number, completion);
            }
            self.taken = taken;
        }
        any
    }

    fn complete(&mut self, number: usize, completion: Completion) {
        let Self { clock, links, numbers, happened, reposts, .. } = self;
        let key = numbers.get(&(number, completion.queue_pair())).copied();
        let Some(link) = key.and_then(|key| find(links, key)) else { return };
        let Link { key, pair, batches, arrived, meters, .. } = link;
        let key = *key;
        let (mut failed, mut came) = (None, false);
        pair.complete(completion, |done| match done {
            Done::Received(capsule) => {
                arrived.push(capsule);
                came = true;
            }
            Done::Lost(outcome) => failed = Some(outcome),
            Done::Work { work: Work::Read { into, .. }, outcome, .. } => {
                let Fetching { fetch, place, own, posted } = into;
                if let (Some(meters), Some(posted)) = (&mut *meters, posted) {
                    meters.complete_into(clock.now(), posted);
                }
                if !outcome.is_success() {
                    failed = Some(outcome);
                }
                let lost = (!outcome.is_success()).then(|| reason(outcome));
                happened.push_back(Happened::Fetched(key, fetch, place, own, lost));
            }
            Done::Work { outcome, ends, .. } => {
                if !outcome.is_success() {
                    failed = Some(outcome);
                }
                if ends && let Some((batch, posted)) = batches.pop_front() {
                    if let (Some(meters), Some(posted)) = (&mut *meters, posted) {
                        meters.complete_out(clock.now(), posted);
                    }
                    let lost = (!outcome.is_success()).then(|| reason(outcome));
                    happened.push_back(Happened::Sent(key, batch, lost));
                }
            }
        });
        if came {
            if link.wants != Wants::Nothing && link.arrived.len() == 1 {
                happened.push_back(Happened::Arrived(key));
            }
            if !link.reposts {
                link.reposts = true;
                reposts.push(key);
            }
        }
        if let Some(outcome) = failed {
            lose(link, happened, reason(outcome));
        }
    }

    /// Returns the next thing that has happened.
    pub(super) fn next(&mut self) -> Option<Happened> {
        self.happened.pop_front()
    }

    /// Takes the capsules that have arrived, if they are wanted.
    pub(super) fn take_arrived(&mut self, key: Key) -> Option<(Handed, Vec<Capsule>)> {
        let link = find(&mut self.links, key)?;
        if link.arrived.is_empty() {
            return None;
        }
        let handed = match link.wants {
            Wants::Nothing => return None,
            Wants::Stream => Handed::Stream,
            Wants::Chunk => Handed::Chunk,
            Wants::Once => Handed::Once,
        };
        if handed != Handed::Stream {
            link.wants = Wants::Nothing;
        }
        Some((handed, std::mem::take(&mut link.arrived)))
    }

    /// Keeps the memory of a list of capsules that were handed over.
    pub(super) fn keep(&mut self, key: Key, mut list: Vec<Capsule>) {
        list.clear();
        if let Some(link) = find(&mut self.links, key)
            && link.arrived.is_empty()
        {
            link.arrived = list;
        }
    }

    /// Posts receive buffers again that are free.
    pub(super) fn repost(&mut self) {
        let Self { links, reposts, happened, .. } = self;
        reposts.retain(|&key| {
            let Some(link) = find(links, key) else { return false };
            if link.lost.is_none()
                && let Err(error) = link.pair.repost()
            {
                fail(link, happened, error.to_string().into());
            }
            link.reposts = link.lost.is_none() && link.pair.is_short();
            link.reposts
        });
    }

    fn want(&mut self, key: Key, wants: Wants) {
        let Self { links, happened, .. } = self;
        let Some(link) = find(links, key) else { return };
        link.wants = wants;
        if !link.arrived.is_empty() {
            happened.push_back(Happened::Arrived(key));
        } else if let Some(lost) = &link.lost {
            link.wants = Wants::Nothing;
            happened.push_back(Happened::ReceiveEnded(key, Some(lost.clone())));
        }
    }

    /// Receives from a connection from now on.
    pub(super) fn receive(&mut self, key: Key) {
        self.want(key, Wants::Stream);
    }

    /// Receives one chunk, as of a stream.
    pub(super) fn receive_chunk(&mut self, key: Key) {
        self.want(key, Wants::Chunk);
    }

    /// Receives once.
    pub(super) fn receive_once(&mut self, key: Key) {
        self.want(key, Wants::Once);
    }

    /// Ends a stream of chunks.
    pub(super) fn stop_receiving(&mut self, key: Key) {
        let Self { links, happened, .. } = self;
        let Some(link) = find(links, key) else { return };
        if matches!(link.wants, Wants::Stream | Wants::Chunk) {
            link.wants = Wants::Nothing;
            happened.push_back(Happened::ReceiveEnded(key, None));
        }
    }

    /// Returns whether bytes can be sent to a connection from their place: they are registered, and begin with a
    /// page.
    pub(super) fn reaches(&self, key: Key, bytes: &[u8]) -> bool {
        let link = self.links.get(key.index as usize).and_then(Option::as_deref);
        let begins_page = (bytes.as_ptr() as usize).is_multiple_of(PAGE);
        link.is_none_or(|link| link.key != key || begins_page && link.pair.reaches(bytes))
    }

    /// Returns whether a connection is over because a call for it has failed.
    pub(super) fn has_failed(&self, key: Key) -> bool {
        let link = self.links.get(key.index as usize).and_then(Option::as_deref);
        link.is_some_and(|link| link.key == key && link.has_failed)
    }

    /// Posts a batch.
    pub(super) fn send(&mut self, key: Key, mut batch: Batch) {
        let Self { clock, links, happened, .. } = self;
        let Some(link) = find(links, key) else { return };
        // A host may send its next command as soon as it has an answer: there is a buffer for it first.
        // An error comes again at the turn's end.
        if link.reposts && link.lost.is_none() {
            let _ = link.pair.repost();
        }
        let count = batch.posts.len();
        let bytes = batch.bytes() as u64;
        let posted = link.meters.as_mut().map(|meters| meters.post_out(clock.now(), bytes));
        let works = batch.posts.drain(..).map(|post| match post {
            Post::Data { payload, remote } => Work::Write { payload: Sent(payload), remote },
            Post::Response { ref cqe, invalidate } => {
                Work::send(zerocopy::IntoBytes::as_bytes(cqe), invalidate)
            }
        });
        match link.pair.post(works) {
            Ok(()) => link.batches.push_back((batch, posted)),
            Err((error, rest)) => {
                let lost: Cow<'static, str> = error.to_string().into();
                fail(link, happened, lost.clone());
                let _ = link.pair.set_error();
                if rest.len() == count {
                    happened.push_back(Happened::Sent(key, batch, Some(lost)));
                } else {
                    // Posted works come back flushed.
                    link.batches.push_back((batch, posted));
                }
            }
        }
    }

    /// Fetches data from the host's memory, with the next call of [`Self::post_fetches`].
    pub(super) fn fetch(&mut self, key: Key, fetch: Fetch, place: Option<DataPlace>) {
        let Some(link) = find(&mut self.links, key) else { return };
        let own = if place.is_some() { Vec::new() } else { vec![0; fetch.length as usize] };
        let bytes = u64::from(fetch.length);
        let posted = link.meters.as_mut().map(|meters| meters.post_into(self.clock.now(), bytes));
        let into = Fetching { fetch, place, own, posted };
        link.fetches.push(Work::Read { into, remote: fetch.remote });
    }

    /// Posts all fetches of a connection in one call: each call is expensive.
    pub(super) fn post_fetches(&mut self, key: Key) {
        let Self { links, happened, .. } = self;
        let Some(link) = find(links, key) else { return };
        if let Err((error, works)) = link.pair.post(link.fetches.drain(..)) {
            let lost: Cow<'static, str> = error.to_string().into();
            fail(link, happened, lost.clone());
            for work in works {
                if let Work::Read { into: Fetching { fetch, place, own, .. }, .. } = work {
                    let lost = Some(lost.clone());
                    happened.push_back(Happened::Fetched(key, fetch, place, own, lost));
                }
            }
        }
    }

    /// Ends a connection: posted work comes back.
    pub(super) fn shut_down(&mut self, key: Key) {
        let Self { links, happened, .. } = self;
        let Some(link) = find(links, key) else { return };
        if link.is_down {
            return;
        }
        link.is_down = true;
        if link.pair.pair().id().disconnect().is_err() {
            let _ = link.pair.set_error();
        }
        lose(link, happened, "the target has ended the connection".into());
    }

    /// Takes out a connection of which the core has nothing any more.
    pub(super) fn end(&mut self, shared: &Shared, key: Key) {
        let Some(place) = self.links.get_mut(key.index as usize) else { return };
        let Some(link) = place.take_if(|link| link.key == key) else { return };
        let Link { token, pair, completions, .. } = *link;
        self.numbers.remove(&(completions, pair.pair().number()));
        self.tokens.remove(&token.0);
        match pair.retire() {
            Ok(pair) => shared.rdma.end(token, pair),
            Err(pair) => {
                debug_assert!(false, "the core ends no connection with works under way");
                drop(pair.destroy());
            }
        }
    }

    /// Takes a completion queue out that no queue pair uses any more.
    pub(super) fn remove_completions(&mut self, number: usize) -> Option<CompletionQueue> {
        let index = self.completions.iter().position(|one| one.number == number)?;
        Some(self.completions.swap_remove(index).queue)
    }

    /// Returns the descriptors of completion queues that are not watched, with their numbers.
    pub(super) fn take_unwatched(&mut self) -> Vec<(usize, RawFd)> {
        let unwatched = self.completions.iter_mut().filter(|one| !one.watched);
        unwatched
            .map(|one| {
                one.watched = true;
                (one.number, one.queue.as_fd().as_raw_fd())
            })
            .collect()
    }

    /// Takes note that a completion queue's descriptor became readable, and whether it is watched
    /// still.
    pub(super) fn woken(&mut self, number: usize, watched: bool) {
        if let Some(one) = self.completions.iter_mut().find(|one| one.number == number) {
            one.queue.take_events();
            (one.armed, one.watched) = (false, watched);
        }
    }

    /// Prepares to sleep: each descriptor tells of the next completion. Returns false where there
    /// are completions already.
    pub(super) fn arm(&mut self) -> bool {
        let mut armed = false;
        for one in &mut self.completions {
            if !one.armed {
                one.armed = one.queue.arm().is_ok();
                armed = true;
            }
        }
        // Completions from before the queues were armed are not notified.
        !(armed && self.poll()) && self.happened.is_empty()
    }
}

/// Takes note that a connection is over; the first reason counts.
fn lose(link: &mut Link, happened: &mut VecDeque<Happened>, reason: Cow<'static, str>) {
    let reason = link.lost.get_or_insert(reason);
    if std::mem::replace(&mut link.wants, Wants::Nothing) != Wants::Nothing {
        happened.push_back(Happened::ReceiveEnded(link.key, Some(reason.clone())));
    }
}

/// Takes note that a connection is over because the device or the kernel has refused a call for it.
fn fail(link: &mut Link, happened: &mut VecDeque<Happened>, reason: Cow<'static, str>) {
    link.has_failed |= link.lost.is_none();
    lose(link, happened, reason);
}

/// Returns why a connection is over after an outcome.
fn reason(outcome: Outcome) -> Cow<'static, str> {
    if outcome.is_flushed() {
        "the connection was lost".into()
    } else {
        format!("the connection was lost: {}", outcome.text()).into()
    }
}
