//! A connection between a host and a reactor, with the units on their way in both directions.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use fabric::queue::Fetch;
use sluice_core::Key;
use sluice_core::testing::Receive;
use sluice_core::testing::wire::{Batch, Carrier, Down, Line, Place, Units, Up};

/// The number of connections that are no queues of their hosts.
pub(crate) const BESIDE: u16 = u16::MAX;

/// Number of bytes that one direction holds: the capacity of the sender's socket.
const ROOM: usize = 64 << 10;
/// Number of bytes that a reactor takes at once beside a command's data.
const REST: usize = 4096;

#[derive(Debug, Default)]
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
    /// The way in which the reactor receives, if it does.
    pub(crate) receiving: Option<Receive>,
    /// Whether the reactor has asked to receive no more.
    pub(crate) stopping: bool,
    /// Batches that are sent: one at a time, but over RDMA.
    pub(crate) sending: VecDeque<Batch>,
    /// Number of work requests of the first batch that are on their way; it keeps them until all are.
    pub(crate) sent: usize,
    /// RDMA READs that are on their way to the host and back.
    pub(crate) fetching: VecDeque<(Fetch, Option<Place>)>,
    /// Whether nothing is delivered to the target any more, though the connection stands.
    pub(crate) silent: bool,
    pub(crate) cut: bool,
    /// Whether the host has heard of the cut.
    pub(crate) host_knows: bool,
    /// Whether its peer's address is an IPv4 address that is mapped into IPv6.
    pub(crate) mapped: bool,
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
            up: Line::new(carrier),
            down: Line::new(carrier),
            up_ns,
            down_ns,
            ..Self::default()
        }
    }

    /// Returns the address of its peer: each host has one, and another for connections beside its own queues.
    pub(crate) fn address(&self) -> IpAddr {
        let host = u8::try_from(self.host).unwrap_or(u8::MAX);
        let address = Ipv4Addr::new(10, 0, u8::from(self.qid == BESIDE), host);
        if self.mapped { address.to_ipv6_mapped().into() } else { address.into() }
    }

    /// Returns the carrier of the queue.
    pub(crate) fn carrier(&self) -> Carrier {
        match self.up {
            Line::Bytes(_) => Carrier::Tcp,
            Line::Moved(_) => Carrier::Rdma,
        }
    }

    /// Returns whether the target may begin to send another batch.
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

    /// Returns whether the reactor may receive something now.
    pub(crate) fn can_deliver_up(&self) -> bool {
        let arrived = self.cut || (!self.up.is_empty() && !self.silent);
        match self.receiving {
            None => false,
            Some(Receive::Once(_)) => arrived,
            Some(Receive::Chunks | Receive::Chunk) => self.stopping || arrived,
        }
    }

    /// Takes up to `length` bytes for a reactor that receives once. Returns the number of bytes in the place for
    /// data, and the units after them.
    pub(crate) fn take_once(
        &mut self,
        place: Option<&mut Place>,
        length: usize,
    ) -> (usize, Units<Vec<u8>>) {
        let placed = self.up.take_into(place, length);
        let rest = (length - placed).min(REST).min(self.up.len());
        (placed, self.up.take(rest))
    }

    /// Returns whether there is something for the host to receive.
    pub(crate) fn can_deliver_down(&self) -> bool {
        !self.down.is_empty() || !self.sending.is_empty() || (self.cut && !self.host_knows)
    }
}
