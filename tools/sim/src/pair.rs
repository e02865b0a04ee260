//! A queue pair: the messages of its two devices, in the streams of two flows. A message has arrived when all of its
//! bytes have, and a batch is complete when all of it is acknowledged.

use std::collections::VecDeque;
use std::sync::Arc;

use fabric::queue::{Fetch, Payload as _, Remote};
use fabric::rdma::wire::{self, Post};
use qtcp::completions::Posted;
use qtcp::poller::{QueuePairMeters, QueuePairTraffic};
use sluice_core::testing::wire::{Place, Returned};
use units::Nanos;
use zerocopy::IntoBytes as _;

/// A batch that the target posts.
pub(crate) type Posts = wire::Batch<Returned>;

/// Bytes of a READ request beyond its packet's headers, and of the connection manager's answer: they are
/// small, and nobody counts them.
const SMALL: u64 = 16;

/// A message to the target's device.
#[derive(Debug)]
pub(crate) enum ToTarget {
    /// SEND of a command capsule.
    Capsule(Vec<u8>),
    /// The answer to the oldest READ: its data, or `None` for zeroes.
    Fetched(Option<Vec<u8>>),
}

/// A message to the host's device.
#[derive(Debug)]
pub(crate) enum ToHost {
    /// The target has accepted the connection.
    Accepted,
    /// RDMA WRITE to a place in the host's memory: the data, or `None` for zeroes.
    Write(Remote, Option<Vec<u8>>),
    /// SEND of a response capsule.
    Response(Vec<u8>),
    /// READ of so many bytes at a place.
    Read(Remote, u32),
}

/// The messages of one direction, in order.
#[derive(Debug)]
struct Line<M> {
    /// Each message, and up to where in the stream it goes.
    messages: VecDeque<(u64, M)>,
    written: u64,
    arrived: u64,
}

impl<M> Line<M> {
    const fn new() -> Self {
        Self { messages: VecDeque::new(), written: 0, arrived: 0 }
    }

    fn push(&mut self, bytes: u64, message: M) {
        self.written += bytes;
        self.messages.push_back((self.written, message));
    }

    fn pop(&mut self) -> Option<M> {
        let arrived = self.arrived;
        self.messages.pop_front_if(|(end, _)| *end <= arrived).map(|(_, message)| message)
    }
}

/// A READ that is under way.
#[derive(Debug)]
pub(crate) struct Fetching {
    pub(crate) fetch: Fetch,
    pub(crate) place: Option<Place>,
    posted: Option<Posted>,
}

/// A batch that is under way.
#[derive(Debug)]
struct Sending {
    /// Up to where in the stream it goes.
    end: u64,
    batch: Posts,
    posted: Option<Posted>,
}

/// A queue pair between a host and the target.
#[derive(Debug)]
pub(crate) struct QueuePair {
    up: Line<ToTarget>,
    down: Line<ToHost>,
    /// Up to where the target knows that its stream has arrived.
    acknowledged: u64,
    /// Capsules that have arrived and that the reactor has not taken.
    pub(crate) capsules: Vec<Vec<u8>>,
    sending: VecDeque<Sending>,
    fetching: VecDeque<Fetching>,
    /// The meters of a queue pair that the network's stage looks after.
    meters: Option<Box<QueuePairMeters>>,
}

impl QueuePair {
    pub(crate) const fn new() -> Self {
        Self {
            up: Line::new(),
            down: Line::new(),
            acknowledged: 0,
            capsules: Vec::new(),
            sending: VecDeque::new(),
            fetching: VecDeque::new(),
            meters: None,
        }
    }

    /// Meters the queue pair from now on. Returns the counters that the network stage reads.
    pub(crate) fn meter(&mut self) -> Arc<QueuePairTraffic> {
        self.meters.insert(Box::default()).traffic()
    }

    /// Sends the answer to the host's wish to connect. Returns the bytes of it.
    pub(crate) fn accept(&mut self) -> u64 {
        self.down.push(SMALL, ToHost::Accepted);
        SMALL
    }

    /// Posts a batch. Returns the bytes that the target's device has to send for it.
    pub(crate) fn post(&mut self, now: Nanos, batch: Posts) -> u64 {
        let before = self.down.written;
        for post in &batch.posts {
            let bytes = post.bytes() as u64;
            let message = match post {
                Post::Data { payload, remote } => ToHost::Write(*remote, kept(payload.bytes())),
                Post::Response { cqe, .. } => ToHost::Response(cqe.as_bytes().to_vec()),
            };
            self.down.push(bytes, message);
        }
        let bytes = batch.bytes() as u64;
        let posted = self.meters.as_mut().map(|meters| meters.post_out(now, bytes));
        self.sending.push_back(Sending { end: self.down.written, batch, posted });
        self.down.written - before
    }

    /// Posts a READ. Returns the bytes of its request.
    pub(crate) fn fetch(&mut self, now: Nanos, fetch: Fetch, place: Option<Place>) -> u64 {
        let bytes = u64::from(fetch.length);
        let posted = self.meters.as_mut().map(|meters| meters.post_into(now, bytes));
        self.down.push(SMALL, ToHost::Read(fetch.remote, fetch.length));
        self.fetching.push_back(Fetching { fetch, place, posted });
        SMALL
    }

    /// Notes that bytes from the host have arrived. Adds finished READs to `fetched`, each with its data unless it has
    /// a place for it.
    pub(crate) fn arrive_up(
        &mut self,
        now: Nanos,
        bytes: u64,
        fetched: &mut Vec<(Fetching, Vec<u8>)>,
    ) {
        self.up.arrived += bytes;
        while let Some(message) = self.up.pop() {
            match message {
                ToTarget::Capsule(capsule) => self.capsules.push(capsule),
                ToTarget::Fetched(data) => {
                    let Some(mut fetching) = self.fetching.pop_front() else { continue };
                    if let (Some(meters), Some(posted)) = (&mut self.meters, fetching.posted) {
                        meters.complete_into(now, posted);
                    }
                    let own = place(&mut fetching, data);
                    fetched.push((fetching, own));
                }
            }
        }
    }

    /// Notes that the host has acknowledged bytes. Adds finished batches to `sent`.
    pub(crate) fn acknowledge(&mut self, now: Nanos, bytes: u64, sent: &mut Vec<Posts>) {
        self.acknowledged += bytes;
        let acknowledged = self.acknowledged;
        while let Some(sending) = self.sending.pop_front_if(|one| one.end <= acknowledged) {
            if let (Some(meters), Some(posted)) = (&mut self.meters, sending.posted) {
                meters.complete_out(now, posted);
            }
            sent.push(sending.batch);
        }
    }

    /// Returns everything in flight on a closed queue pair.
    pub(crate) fn flush(&mut self) -> (Vec<Posts>, Vec<Fetching>) {
        let sent = self.sending.drain(..).map(|sending| sending.batch);
        (sent.collect(), self.fetching.drain(..).collect())
    }

    /// Notes that bytes from the target have arrived.
    pub(crate) const fn arrive_down(&mut self, bytes: u64) {
        self.down.arrived += bytes;
    }

    /// Removes the next message that has arrived at the host.
    pub(crate) fn take_down(&mut self) -> Option<ToHost> {
        self.down.pop()
    }

    /// Sends a message of so many bytes to the target.
    pub(crate) fn send_up(&mut self, bytes: u64, message: ToTarget) {
        self.up.push(bytes, message);
    }
}

/// Copies data that is not all zeroes.
fn kept(bytes: &[u8]) -> Option<Vec<u8>> {
    /// Data of I/O is all zeroes and not looked through: only what admin commands return is as short.
    const LOOKED_THROUGH: usize = 4096;
    let looked = bytes.get(..LOOKED_THROUGH).unwrap_or(bytes);
    looked.iter().any(|byte| *byte != 0).then(|| bytes.to_vec())
}

/// Copies fetched data to its place. Returns the data if it has no place.
fn place(fetching: &mut Fetching, data: Option<Vec<u8>>) -> Vec<u8> {
    let length = fetching.fetch.length as usize;
    let Some(place) = &mut fetching.place else {
        return data.unwrap_or_else(|| vec![0; length]);
    };
    let into = place.bytes_mut();
    match data {
        Some(data) => {
            if let Some(into) = into.get_mut(..data.len()) {
                into.copy_from_slice(&data);
            }
        }
        None => into.fill(0),
    }
    Vec::new()
}
