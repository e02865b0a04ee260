//! A connection: the streams of both directions, and the reactor's actions on its end of them.

use fabric::tcp;
use qtcp::Nanos;
use sluice_core::Key;
use sluice_core::testing::Receive;
use sluice_core::testing::wire::Returned;

use crate::network::{FlowId, Network};
use crate::pair::QueuePair;
use crate::stream::Stream;

/// A batch that the target sends on a socket.
type Sent = tcp::Batch<Returned>;

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) flow: FlowId,
    stream: Stream,
    /// Bytes that have arrived and were not read.
    arrived: usize,
    /// Bytes that were written since the start.
    written: u64,
    /// Bytes that were read since the start.
    pub(crate) read: u64,
}

impl Pipe {
    pub(crate) fn new(flow: FlowId) -> Self {
        Self { flow, stream: Stream::default(), arrived: 0, written: 0, read: 0 }
    }

    /// Writes as much as the send buffer has room for from runs of bytes. Returns how much that was.
    pub(crate) fn write<'a>(
        &mut self,
        now: Nanos,
        network: &mut Network,
        runs: impl Iterator<Item = &'a [u8]>,
    ) -> usize {
        let mut room = usize::try_from(network.room(self.flow)).unwrap_or(usize::MAX);
        let mut taken = 0;
        for run in runs {
            if room == 0 {
                break;
            }
            let part = run.get(..room).unwrap_or(run);
            self.stream.push(part);
            taken += part.len();
            room -= part.len();
        }
        if taken > 0 {
            self.written += taken as u64;
            network.write(now, self.flow, taken as u64);
        }
        taken
    }

    /// Sends bytes whose content a queue pair keeps.
    pub(crate) fn send(&mut self, now: Nanos, network: &mut Network, bytes: u64) {
        if bytes > 0 {
            self.written += bytes;
            network.write(now, self.flow, bytes);
        }
    }

    /// Notes that bytes have arrived whose content a queue pair keeps.
    pub(crate) const fn receive(&mut self, bytes: u64) {
        self.read += bytes;
    }

    /// Notes that bytes have arrived.
    pub(crate) fn arrive(&mut self, bytes: u64) {
        self.arrived += usize::try_from(bytes).unwrap_or(0);
        debug_assert!(self.arrived <= self.stream.len(), "what arrives was written");
    }

    /// Returns the number of bytes that were written and not read.
    pub(crate) fn unread(&self) -> u64 {
        self.written.saturating_sub(self.read)
    }

    /// Returns the number of bytes that may be read.
    pub(crate) fn readable(&self) -> usize {
        self.arrived.min(self.stream.len())
    }

    /// Returns the next bytes, at most as many; all of them may need several calls.
    pub(crate) fn front(&self, most: usize) -> &[u8] {
        self.stream.front(most.min(self.readable()))
    }

    /// Drops bytes that were read.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.stream.consume(bytes);
        self.arrived = self.arrived.saturating_sub(bytes);
        self.read += bytes as u64;
    }
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) host: usize,
    pub(crate) qid: u16,
    /// DSCP with which the host has connected.
    pub(crate) dscp: u8,
    pub(crate) reactor: usize,
    /// Its name in its reactor; `None` before it was accepted and after it has ended.
    pub(crate) key: Option<Key>,
    /// To the target.
    pub(crate) up: Pipe,
    /// To the host.
    pub(crate) down: Pipe,
    /// The messages of both devices, if the connection is a queue pair.
    pub(crate) pair: Option<Box<QueuePair>>,
    /// How the reactor receives, if it does.
    pub(crate) receive: Option<Receive>,
    /// Whether the reactor has asked to receive no more.
    pub(crate) stopping: bool,
    /// The batch that the target is sending, until the socket has accepted all of it.
    pub(crate) sending: Option<Sent>,
    /// Whether it is in its reactor's list of connections with input.
    pub(crate) listed: bool,
    /// Whether it has ended at the target.
    pub(crate) cut: bool,
}

impl Connection {
    /// Makes a connection of a host's queue to a reactor.
    pub(crate) fn new(
        (host, qid): (usize, u16),
        dscp: u8,
        reactor: usize,
        (up, down): (FlowId, FlowId),
    ) -> Self {
        Self {
            host,
            qid,
            dscp,
            reactor,
            key: None,
            up: Pipe::new(up),
            down: Pipe::new(down),
            pair: None,
            receive: None,
            stopping: false,
            sending: None,
            listed: false,
            cut: false,
        }
    }

    /// Returns whether a turn of its reactor has something to receive.
    pub(crate) fn has_input(&self) -> bool {
        let capsules = self.pair.as_ref().is_some_and(|pair| !pair.capsules.is_empty());
        let something = self.up.readable() > 0 || capsules || self.cut;
        self.receive.is_some() && (something || self.stopping)
    }

    /// Hands the target's batch to the socket as far as there is room. Returns the batch when all of
    /// it is there.
    pub(crate) fn push_batch(&mut self, now: Nanos, network: &mut Network) -> Option<Sent> {
        let batch = self.sending.as_mut()?;
        if !self.cut {
            let taken = self.down.write(now, network, batch.slices());
            if taken == 0 || !batch.advance(taken) {
                return None;
            }
        }
        self.sending.take()
    }
}
