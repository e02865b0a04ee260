//! A TCP connection between a host and a reactor: bytes that are on their way, in both directions.

use std::collections::VecDeque;

use fabric::tcp::Batch;
use sluice_core::{DataPlace, Key, TxData};

use crate::driver::Buffer;

/// Bytes that one direction holds: what the sender's socket takes before it is full.
const ROOM: usize = 64 << 10;

/// Bytes that a reactor takes at once beside a command's data.
const REST: usize = 4096;

/// What a reactor has received once: where data belongs, bytes there, and what follows.
type Once = (Option<DataPlace<Buffer>>, usize, Vec<u8>);

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) host: usize,
    pub(crate) qid: u16,
    pub(crate) reactor: usize,
    /// Its name in its reactor; `None` before it was accepted and after it has ended.
    pub(crate) key: Option<Key>,
    /// To the target.
    pub(crate) up: VecDeque<u8>,
    /// To the host.
    pub(crate) down: VecDeque<u8>,
    /// The reactor receives.
    pub(crate) armed: bool,
    /// The reactor wants to receive no more.
    pub(crate) stopping: bool,
    /// The reactor receives once, into a place for data if it has one.
    pub(crate) once: Option<Option<DataPlace<Buffer>>>,
    pub(crate) sending: Option<Batch<TxData<Buffer>>>,
    /// Nothing is delivered to the target any more, though the connection stands.
    pub(crate) silent: bool,
    pub(crate) cut: bool,
    /// The host has heard of the cut.
    pub(crate) host_knows: bool,
    pub(crate) up_scheduled: bool,
    pub(crate) down_scheduled: bool,
    /// Between one delivery and the next, in ns.
    pub(crate) up_ns: u64,
    pub(crate) down_ns: u64,
}

impl Connection {
    pub(crate) fn new(host: usize, qid: u16, reactor: usize, (up_ns, down_ns): (u64, u64)) -> Self {
        Self {
            host,
            qid,
            reactor,
            key: None,
            up: VecDeque::new(),
            down: VecDeque::new(),
            armed: false,
            stopping: false,
            once: None,
            sending: None,
            silent: false,
            cut: false,
            host_knows: false,
            up_scheduled: false,
            down_scheduled: false,
            up_ns,
            down_ns,
        }
    }

    /// Takes bytes from the target's batch as far as there is room; the batch, when it is over.
    pub(crate) fn take_batch(&mut self) -> Option<Batch<TxData<Buffer>>> {
        let batch = self.sending.as_mut()?;
        if self.cut {
            return self.sending.take();
        }
        let mut room = ROOM.saturating_sub(self.down.len());
        let mut taken = 0;
        for run in batch.slices() {
            let part = run.get(..room).unwrap_or(run);
            self.down.extend(part);
            taken += part.len();
            room -= part.len();
            if room == 0 {
                break;
            }
        }
        if taken > 0 && batch.advance(taken) { self.sending.take() } else { None }
    }

    /// The room for bytes to the target.
    pub(crate) fn up_room(&self) -> usize {
        ROOM.saturating_sub(self.up.len())
    }

    /// Whether there is something for the reactor to receive, and it wants to.
    pub(crate) fn can_deliver_up(&self) -> bool {
        let arrived = self.cut || (!self.up.is_empty() && !self.silent);
        (self.armed && (self.stopping || arrived)) || (self.once.is_some() && arrived)
    }

    /// Takes up to `length` bytes for a reactor that receives once: the place that it gave, how
    /// many went there, and what follows.
    pub(crate) fn take_once(&mut self, length: usize) -> Once {
        let mut place = self.once.take().flatten();
        let mut placed = 0;
        for to in place.iter_mut().flat_map(DataPlace::bytes_mut).take(length) {
            let Some(byte) = self.up.pop_front() else { break };
            *to = byte;
            placed += 1;
        }
        let rest = (length - placed).min(REST).min(self.up.len());
        (place, placed, self.up.drain(..rest).collect())
    }

    /// Whether there is something for the host to receive.
    pub(crate) fn can_deliver_down(&self) -> bool {
        !self.down.is_empty() || self.sending.is_some() || (self.cut && !self.host_knows)
    }
}
