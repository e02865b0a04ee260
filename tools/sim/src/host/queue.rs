//! One of a host's queues: its end of a connection, and its outstanding commands.

use fabric::nvme::{Cqe, Sqe};
use fabric::queue::{HostReceived, HostTransport as _};
use fabric::tcp::{HostConnection, HostParams};
use units::Nanos;
use zerocopy::little_endian::U16;

use super::pair::HostPair;
use super::written::Written;
use crate::connection::Connection;
use crate::network::Network;

/// The most bytes that a host takes from a connection at a time.
const CHUNK: usize = 64 << 10;

/// Entries of an admin queue, as Linux has them (NVME_AQ_DEPTH).
const ADMIN_ENTRIES: u16 = 32;

/// A part of an access: one command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Index of the access.
    pub(super) access: usize,
    pub(super) lba: u64,
    pub(super) blocks: u32,
    /// How often it was submitted.
    pub(super) tries: u8,
}

/// The purpose of a command.
#[derive(Debug)]
pub(super) enum Purpose {
    /// Connect of the queue.
    Connect,
    /// A command of the association, with its read buffer.
    Admin(Vec<u8>),
    Io(Part),
}

/// Something that a queue has heard from the target.
#[derive(Debug)]
pub(super) enum Heard {
    /// Commands may be submitted.
    Ready,
    Answered(Purpose, Cqe),
    /// The target has ended the connection, or broken the protocol; in words.
    Lost(String),
}

/// The transport of a queue.
#[derive(Debug)]
enum Protocol {
    Tcp(Box<HostConnection<Written>>),
    Rdma(Box<HostPair>),
}

#[derive(Debug)]
pub(super) struct Queue {
    /// Index of its connection.
    pub(super) connection: usize,
    protocol: Protocol,
    /// Whether its Connect has succeeded.
    pub(super) live: bool,
    /// Outstanding commands, by their identifiers.
    outstanding: Vec<Option<Purpose>>,
    /// Identifiers of I/O commands that are free.
    free: Vec<u16>,
}

impl Queue {
    /// Makes a queue whose I/O commands may be as many; an admin queue for none.
    pub(super) fn new(connection: usize, depth: u16, rdma: bool) -> Self {
        let protocol = if rdma {
            let entries = if depth == 0 { ADMIN_ENTRIES } else { depth.saturating_add(1) };
            Protocol::Rdma(Box::new(HostPair::new(entries, depth == 0)))
        } else {
            Protocol::Tcp(Box::new(HostConnection::new(HostParams::default())))
        };
        Self {
            connection,
            protocol,
            live: false,
            outstanding: Vec::new(),
            free: (0..depth).rev().collect(),
        }
    }

    /// Returns whether an I/O command may be submitted.
    pub(super) fn has_room(&self) -> bool {
        self.live && !self.free.is_empty()
    }

    /// Counts the I/O commands that are outstanding.
    pub(super) fn outstanding(&self) -> impl Iterator<Item = &Part> {
        self.outstanding.iter().flatten().filter_map(|purpose| match purpose {
            Purpose::Io(part) => Some(part),
            _ => None,
        })
    }

    /// Notes that the queue is connected.
    pub(super) fn connected(&mut self, in_capsule_data: u32) {
        match &mut self.protocol {
            Protocol::Tcp(end) => end.set_in_capsule_data(in_capsule_data),
            Protocol::Rdma(end) => end.queue.set_in_capsule_data(in_capsule_data),
        }
        self.live = true;
    }

    /// Submits a command under the identifier that it has. Returns whether it was submitted.
    pub(super) fn submit(
        &mut self,
        sqe: Sqe,
        data: Option<Written>,
        read: u32,
        purpose: Purpose,
    ) -> bool {
        let submitted = match &mut self.protocol {
            Protocol::Tcp(end) => end.submit(sqe, data, read),
            Protocol::Rdma(end) => end.queue.submit(sqe, data, read),
        };
        if submitted.is_err() {
            return false;
        }
        let place = usize::from(sqe.cid.get());
        if self.outstanding.len() <= place {
            self.outstanding.resize_with(place + 1, || None);
        }
        if let Some(at) = self.outstanding.get_mut(place) {
            *at = Some(purpose);
        }
        true
    }

    /// Submits an I/O command under a free identifier. Returns whether it was submitted.
    pub(super) fn submit_io(
        &mut self,
        sqe: Sqe,
        data: Option<Written>,
        read: u32,
        part: Part,
    ) -> bool {
        let Some(cid) = self.free.pop() else { return false };
        let sqe = Sqe { cid: U16::new(cid), ..sqe };
        let submitted = self.submit(sqe, data, read, Purpose::Io(part));
        if !submitted {
            self.free.push(cid);
        }
        submitted
    }

    /// Writes pending data to the connection, as far as there is room.
    pub(super) fn pump(&mut self, now: Nanos, connection: &mut Connection, network: &mut Network) {
        let end = match &mut self.protocol {
            Protocol::Rdma(end) => return end.pump(now, connection, network),
            Protocol::Tcp(end) => end,
        };
        let tx = end.tx();
        while tx.in_flight() || tx.begin() {
            let taken = connection.up.write(now, network, tx.slices());
            if taken == 0 || !tx.advance(taken) {
                break;
            }
        }
    }

    /// Handles the data that has arrived.
    pub(super) fn hear(
        &mut self,
        now: Nanos,
        connection: &mut Connection,
        network: &mut Network,
        heard: &mut Vec<Heard>,
    ) {
        let Self { protocol, outstanding, free, .. } = self;
        let mut outstanding = Outstanding { outstanding, free, heard };
        let result = match protocol {
            Protocol::Rdma(end) => {
                end.next(now, connection, network, |one| outstanding.received(one))
            }
            Protocol::Tcp(end) => hear_bytes(end, connection, &mut outstanding),
        };
        if let Err(violation) = result {
            heard.push(Heard::Lost(format!("the target broke the protocol: {violation}")));
        }
    }
}

/// Handles the bytes that have arrived on a socket.
fn hear_bytes(
    end: &mut HostConnection<Written>,
    connection: &mut Connection,
    outstanding: &mut Outstanding<'_>,
) -> Result<(), String> {
    while connection.down.readable() > 0 {
        let chunk = connection.down.front(CHUNK);
        let length = chunk.len();
        let mut input = chunk;
        let result = loop {
            match end.next(&mut input) {
                Ok(None) => break Ok(()),
                Ok(Some(received)) => outstanding.received(received),
                Err(violation) => break Err(violation.to_string()),
            }
        };
        connection.down.consume(length);
        result?;
    }
    Ok(())
}

/// The outstanding commands of a queue, while something has arrived.
struct Outstanding<'a> {
    outstanding: &'a mut [Option<Purpose>],
    free: &'a mut Vec<u16>,
    heard: &'a mut Vec<Heard>,
}

impl Outstanding<'_> {
    /// Handles one received event.
    fn received(&mut self, received: HostReceived<'_>) {
        match received {
            HostReceived::Ready { .. } => self.heard.push(Heard::Ready),
            HostReceived::ReadData { cid, offset, bytes } => self.read(cid, offset, bytes),
            HostReceived::Response { cid, cqe, .. } => {
                let place = self.outstanding.get_mut(usize::from(cid));
                let Some(purpose) = place.and_then(Option::take) else { return };
                if matches!(purpose, Purpose::Io(_)) {
                    self.free.push(cid);
                }
                self.heard.push(Heard::Answered(purpose, cqe));
            }
            HostReceived::DigestError { .. } => {}
            HostReceived::Terminated(why) => {
                self.heard.push(Heard::Lost(format!("the target ended it: {why:?}")));
            }
        }
    }

    /// Keeps data that an admin command reads.
    fn read(&mut self, cid: u16, offset: u32, bytes: &[u8]) {
        let place = self.outstanding.get_mut(usize::from(cid));
        if let Some(Some(Purpose::Admin(read))) = place {
            let into = read.get_mut(offset as usize..).unwrap_or_default();
            if let Some(into) = into.get_mut(..bytes.len()) {
                into.copy_from_slice(bytes);
            }
        }
    }
}
