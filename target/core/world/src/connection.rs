//! A connection between a host and a reactor, with what is on its way in both directions.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use fabric::Nanos;
use fabric::queue::Fetch;
use sluice_core::Key;
use sluice_core::testing::wire::{Batch, Carrier, Down, Line, Place, Units, Up};

/// The number of connections that are no queues of their hosts.
pub(crate) const BESIDE: u16 = u16::MAX;

/// Number of bytes that one direction holds: what the sender's socket takes before it is full.
const ROOM: usize = 64 << 10;
/// Number of bytes that a reactor takes at once beside a command's data.
const REST: usize = 4096;

/// The input that a reactor has received once: the place for data, the number of bytes there, and
/// what follows.
type Once = (Option<Place>, usize, Units<Vec<u8>>);

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) host: usize,
    pub(crate) qid: u16,
    pub(crate) reactor: usize,
    /// Its name in its reactor; `None` before it was accepted and after it has ended.
    pub(crate) key: Option<Key>,
    /// Input that is on its way to the target.
    pub(crate) up: Up,
    /// Output that is on its way to the host.
    pub(crate) down: Down,
    /// Units of both that were given to the link and are not received, where there is a link; and
    /// those among them that have come to the target.
    pub(crate) up_sent: usize,
    pub(crate) up_arrived: usize,
    pub(crate) down_sent: usize,
    /// Whether the reactor receives.
    pub(crate) armed: bool,
    /// It receives one chunk.
    pub(crate) one_chunk: bool,
    /// Whether the reactor has asked to receive no more.
    pub(crate) stopping: bool,
    /// Whether the reactor receives once, and the place for data if it has one.
    pub(crate) once: Option<Option<Place>>,
    /// Batches that are sent: one at a time, but over RDMA.
    pub(crate) sending: VecDeque<Batch>,
    /// Number of work requests of the first batch that are on their way; it keeps them until all are.
    sent: usize,
    /// RDMA READs that are on their way to the host and back.
    pub(crate) fetching: VecDeque<(Fetch, Option<Place>)>,
    /// Whether nothing is delivered to the target any more, though the connection stands.
    pub(crate) silent: bool,
    pub(crate) cut: bool,
    /// Whether the host has heard of the cut.
    pub(crate) host_knows: bool,
    /// Its place among the connections that are looked at.
    pub(crate) paced: Option<usize>,
    /// Whether its peer's address is an IPv4 address that is mapped into IPv6.
    pub(crate) mapped: bool,
    /// Rate at which the target sends, in bytes a second.
    pub(crate) pace: Option<u64>,
    /// Time at which the target may send again.
    pub(crate) pace_at: Nanos,
    pub(crate) up_scheduled: bool,
    pub(crate) down_scheduled: bool,
    /// Time between one delivery and the next, in ns.
    pub(crate) up_ns: u64,
    pub(crate) down_ns: u64,
}

impl Connection {
    /// Makes a connection between that queue of a host and that reactor, with what carries it and the
    /// times between one delivery and the next.
    pub(crate) fn new(
        (host, qid): (usize, u16),
        reactor: usize,
        carrier: Carrier,
        (up_ns, down_ns): (u64, u64),
    ) -> Self {
        Self {
            host,
            qid,
            reactor,
            key: None,
            up: Line::new(carrier),
            down: Line::new(carrier),
            up_sent: 0,
            up_arrived: 0,
            down_sent: 0,
            armed: false,
            one_chunk: false,
            stopping: false,
            once: None,
            sending: VecDeque::new(),
            sent: 0,
            fetching: VecDeque::new(),
            silent: false,
            cut: false,
            host_knows: false,
            paced: None,
            mapped: false,
            pace: None,
            pace_at: Nanos(0),
            up_scheduled: false,
            down_scheduled: false,
            up_ns,
            down_ns,
        }
    }

    /// Returns the address of its peer: each host has one, and another for what it makes beside its
    /// own queues.
    pub(crate) fn address(&self) -> IpAddr {
        let host = u8::try_from(self.host).unwrap_or(u8::MAX);
        let address = Ipv4Addr::new(10, 0, u8::from(self.qid == BESIDE), host);
        if self.mapped { address.to_ipv6_mapped().into() } else { address.into() }
    }

    /// Returns what carries the queue.
    pub(crate) fn carrier(&self) -> Carrier {
        match self.up {
            Line::Bytes(_) => Carrier::Tcp,
            Line::Moved(_) => Carrier::Rdma,
        }
    }

    /// Says whether the target may begin to send another batch.
    pub(crate) fn may_send(&self) -> bool {
        self.sending.is_empty() || self.carrier() == Carrier::Rdma
    }

    /// Takes from the target's batch as far as there is room. Returns the batch when it is over.
    pub(crate) fn take_batch(&mut self) -> Option<Batch> {
        let mut sent = std::mem::take(&mut self.sent);
        let batch = self.sending.front_mut()?;
        let room = ROOM.saturating_sub(self.down.len());
        if !self.cut && !self.down.fill(batch, room, &mut sent) {
            self.sent = sent;
            return None;
        }
        self.sending.pop_front()
    }

    /// Returns the room for bytes to the target.
    pub(crate) fn up_room(&self) -> usize {
        ROOM.saturating_sub(self.up.len())
    }

    /// Says whether there is something that the reactor may receive now.
    pub(crate) fn can_deliver_up(&self) -> bool {
        let arrived = self.cut || (!self.up.is_empty() && !self.silent);
        (self.armed && (self.stopping || arrived)) || (self.once.is_some() && arrived)
    }

    /// Takes up to `length` bytes for a reactor that receives once. Returns the place that it gave,
    /// the number of bytes that went there, and what follows.
    pub(crate) fn take_once(&mut self, length: usize) -> Once {
        let mut place = self.once.take().flatten();
        let placed = self.up.take_into(place.as_mut(), length);
        let rest = (length - placed).min(REST).min(self.up.len());
        (place, placed, self.up.take(rest))
    }

    /// Says whether there is something for the host to receive.
    pub(crate) fn can_deliver_down(&self) -> bool {
        !self.down.is_empty() || !self.sending.is_empty() || (self.cut && !self.host_knows)
    }
}
