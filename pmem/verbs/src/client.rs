//! A client of a region: a connection to its data node, and the engine that lets I/Os go.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use pmem::one_sided::Ticket;
//! use pmem_verbs::client::Client;
//! use pmem_verbs::gate::Pace;
//! use pmem_verbs::private_data::{RegionId, Request, Rights, Secret};
//!
//! /// Reads the first 4 KiB of a region eight times, two at once while tokens are reserved.
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // Address, secret and rights come from the target, by Get Region.
//!     let request = Request {
//!         region: RegionId(u128::from_le_bytes(*b"log\0\0\0\0\0\0\0\0\0\0\0\0\0")),
//!         secret: Secret(0x1234),
//!         rights: Rights::Read,
//!     };
//!     // Beyond its reservation the client has one I/O under way, so that others keep theirs.
//!     let pace = Pace::tokens(2);
//!     let patience = Duration::from_secs(5);
//!     let mut client = Client::open("10.0.0.1:4430".parse()?, request, pace, patience)?;
//!     let mut free = client.buffers(2, 4096)?;
//!     let (mut posted, mut done) = (0, 0);
//!     client.want(8);
//!     while done < 8 {
//!         // Whatever has a buffer and a token goes.
//!         while posted < 8 {
//!             let Some(buffer) = free.pop() else { break };
//!             if let Some(buffer) = client.read(Ticket(posted), 0, buffer)? {
//!                 free.push(buffer);
//!                 break;
//!             }
//!             posted += 1;
//!         }
//!         client.wait(Duration::from_secs(1))?;
//!         while let Some(read) = client.transferred() {
//!             println!("{:?}: {:?}", read.ticket, read.buffer.bytes().first());
//!             free.push(read.buffer);
//!             done += 1;
//!         }
//!     }
//!     Ok(())
//! }
//! ```

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use fabric::rdma::placement::Placement;
use fabric_verbs::{Error, Fault, Part};
use pmem::engine::{Engine, SettingsError, Step};
use pmem::one_sided::{NotPosted, OneSided as _, Ticket};
use thiserror::Error as ThisError;
use units::Nanos;

use crate::connection::{ConnectError, Connection};
use crate::gate::{Gate, Pace, PeriodEnd};
use crate::message::{Message, Sync};
use crate::private_data::{Accept, Request};
use crate::provider::{Provider, Transfer};

/// Operations on words that an engine has under way at once: one of each kind.
const WORDS: u16 = 3;
/// Syncs that are on their way at once.
const SYNCS: u16 = 1;

/// The reason why there is no client.
#[derive(Debug, ThisError)]
pub enum OpenError {
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// No engine can work so.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

/// The reason why a client can no longer be used. The outcome of outstanding operations is unknown.
#[derive(Debug, ThisError)]
pub enum ClientError {
    /// The data node has ended the connection, or is gone.
    #[error(
        "the data node has ended the connection: the grant is over, or the data node is; ask for the \
         region again"
    )]
    Ended,
    /// An operation has failed.
    #[error("{0}: ask for the region again, with the rights that are needed")]
    Failed(Fault),
    /// An operation could not be posted.
    #[error("the connection takes no operations any more: ask for the region again")]
    Unposted,
    /// An I/O is larger than the data node counts for one token. The client can still be used.
    #[error("an I/O of {bytes} bytes: the data node permits {most} for a token; use smaller I/Os")]
    TooLarge {
        /// The I/O's bytes.
        bytes: usize,
        /// The most bytes of an I/O.
        most: u32,
    },
    /// The device has failed.
    #[error(transparent)]
    Rdma(#[from] Error),
}

/// A client of a region.
///
/// The caller announces its demand ([`Self::want`]), and the client carries out reads and writes as
/// far as there are tokens for them. All other work on tokens happens in [`Self::poll`] and
/// [`Self::wait`], one of which must be called repeatedly. Reservation tokens without demand are
/// given up in the course of a period. A caller that will read a thousand blocks should announce
/// them at once, to keep its tokens on a busy data node.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    gate: Gate,
    /// Start of the client's clock.
    begin: Instant,
    /// I/Os that may go.
    allowed: u32,
    transferred: VecDeque<Transfer>,
    /// Ticket of the next sync.
    tickets: u32,
    /// Ticket of the sync that is on its way.
    syncing: Option<u32>,
    /// Whether the last sync was done, until somebody asks.
    synced: Option<bool>,
}

impl Client {
    /// Connects to a data node. Waits for it, `time` for each answer at the most.
    ///
    /// # Errors
    ///
    /// [`OpenError`] where the data node refuses, does not answer, or RDMA fails; and for a window of 0.
    pub fn open(
        address: SocketAddr,
        request: Request,
        pace: Pace,
        time: Duration,
    ) -> Result<Self, OpenError> {
        let operations = pace.window().saturating_add(WORDS + SYNCS);
        let connection = Connection::open(address, request, operations, time)?;
        let gate = Gate::new(pace, connection.provider.accept().settings())?;
        let transferred = VecDeque::with_capacity(pace.window().into());
        let (begin, allowed) = (Instant::now(), 0);
        let (tickets, syncing, synced) = (0, None, None);
        Ok(Self { connection, gate, begin, allowed, transferred, tickets, syncing, synced })
    }

    /// Returns the data node's grant.
    #[must_use]
    pub const fn accept(&self) -> &Accept {
        self.connection.provider.accept()
    }

    /// Returns the engine, where there is one.
    #[must_use]
    pub const fn engine(&self) -> Option<&Engine> {
        self.gate.engine()
    }

    /// Returns the connection's first fault; `None` while it has none.
    #[must_use]
    pub const fn fault(&self) -> Option<Fault> {
        self.connection.provider.fault()
    }

    /// Makes buffers for transfers, of `length` bytes each.
    ///
    /// # Errors
    ///
    /// There is no memory, or the device takes no more.
    pub fn buffers(&self, count: u16, length: usize) -> Result<Vec<Part>, Error> {
        self.connection.buffers(count, length)
    }

    /// Announces demand for `count` more I/Os; `u64::MAX` for unlimited demand.
    pub fn want(&mut self, count: u64) {
        self.gate.want(count);
    }

    /// Withdraws all demand beyond the I/Os already allowed.
    pub fn want_no_more(&mut self) {
        self.gate.want_no_more();
    }

    /// Reads the buffer's length of bytes, from an offset of the data on, if an I/O may be
    /// dispatched now. Otherwise returns the buffer: try again after [`Self::wait`]. This call also
    /// announces the I/O, unless it was announced before.
    ///
    /// The end comes with [`Self::transferred`].
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the client can no longer be used.
    pub fn read(
        &mut self,
        ticket: Ticket,
        offset: u64,
        into: Part,
    ) -> Result<Option<Part>, ClientError> {
        self.io(into, |provider, into| provider.read(ticket, offset, into))
    }

    /// Writes a buffer's bytes to an offset of the data, if an I/O may go now: as [`Self::read`].
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn write(
        &mut self,
        ticket: Ticket,
        offset: u64,
        from: Part,
    ) -> Result<Option<Part>, ClientError> {
        self.io(from, |provider, from| provider.write(ticket, offset, from))
    }

    /// Returns where FLUSHes have data placed, by which [`Self::sync`] works then; `None` where it asks the
    /// data node.
    #[must_use]
    pub fn flushes(&self) -> Option<Placement> {
        self.connection.provider.flushes()
    }

    /// Makes earlier writes to a range of the data durable, as far as the region's kind permits: by
    /// RDMA FLUSH if that promises as much and both sides support it, else by a request to the data
    /// node. It takes no token. [`Self::synced`] returns the answer. Only one is outstanding at a
    /// time: returns false if there is one.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn sync(&mut self, offset: u64, length: u64) -> Result<bool, ClientError> {
        if self.syncing.is_some() {
            return Ok(false);
        }
        let ticket = self.tickets;
        match self.connection.provider.sync(Sync { ticket, offset, length }) {
            Ok(()) => {
                self.tickets = ticket.wrapping_add(1);
                self.syncing = Some(ticket);
                Ok(true)
            }
            Err(NotPosted::Full) => Ok(false),
            Err(NotPosted::Disconnected) => Err(self.lost().unwrap_or(ClientError::Unposted)),
        }
    }

    /// Returns whether the last sync was done, once there is an answer: false where the medium has
    /// failed, or the data node does not take such a sync.
    pub fn synced(&mut self) -> Option<bool> {
        self.synced.take()
    }

    fn io(
        &mut self,
        buffer: Part,
        post: impl FnOnce(&mut Provider, Part) -> Result<(), (NotPosted, Option<Part>)>,
    ) -> Result<Option<Part>, ClientError> {
        let bytes = buffer.bytes().len();
        if let Some(most) = self.accept().io_bytes.map(NonZeroU32::get)
            && usize::try_from(most).is_ok_and(|most| bytes > most)
        {
            return Err(ClientError::TooLarge { bytes, most });
        }
        if self.allowed == 0 {
            if self.gate.waiting() == 0 {
                self.gate.want(1);
            }
            self.advance();
        }
        let Some(left) = self.allowed.checked_sub(1) else { return Ok(Some(buffer)) };
        match post(&mut self.connection.provider, buffer) {
            Ok(()) => {
                self.allowed = left;
                Ok(None)
            }
            Err((NotPosted::Full, Some(buffer))) => Ok(Some(buffer)),
            Err(_) => Err(self.lost().unwrap_or(ClientError::Unposted)),
        }
    }

    /// Returns the next transfer that is over, if there is one.
    pub fn transferred(&mut self) -> Option<Transfer> {
        self.transferred.pop_front()
    }

    /// Returns the next period that is over, if there is one. Only the last 64 are kept.
    pub fn period_ended(&mut self) -> Option<PeriodEnd> {
        self.gate.period_ended()
    }

    /// Handles pending events, and the steps that the tokens need. Does not wait, nor check whether
    /// the data node has ended the connection while nothing is outstanding: [`Self::wait`] does.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the client can no longer be used. Transfers that are over are still there.
    pub fn poll(&mut self) -> Result<(), ClientError> {
        let now = self.now();
        let Self { connection, gate, transferred, syncing, synced, .. } = self;
        let provider = &mut connection.provider;
        provider.poll();
        while let Some(completion) = provider.completed() {
            gate.completed(now, completion);
        }
        while let Some(transfer) = provider.transferred() {
            if transfer.result.is_ok() {
                gate.io_completed();
            }
            transferred.push_back(transfer);
        }
        // Completions before a period's begin belong to the previous one.
        while let Some(message) = provider.message() {
            match message {
                Message::Synced { ticket, done } if *syncing == Some(ticket) => {
                    (*syncing, *synced) = (None, Some(done));
                }
                message => gate.message(now, message),
            }
        }
        self.advance();
        self.lost().map_or(Ok(()), Err)
    }

    /// Waits until something happens or the tokens need something, for `time` at the most, and takes it
    /// as [`Self::poll`] does. Does not wait while there are transfers that were not taken.
    ///
    /// # Errors
    ///
    /// As [`Self::poll`].
    pub fn wait(&mut self, time: Duration) -> Result<(), ClientError> {
        if self.transferred.is_empty() {
            let tick = self.gate.next_tick().since(self.now());
            self.connection.wait(time.min(tick))?;
        }
        self.poll()
    }

    fn now(&self) -> Nanos {
        Nanos(units::nanos(self.begin.elapsed()))
    }

    /// Executes the steps that the gate has due.
    fn advance(&mut self) {
        let now = self.now();
        while let Some(step) = self.gate.next(now) {
            match step {
                Step::Io => self.allowed = self.allowed.saturating_add(1),
                Step::Post(ticket, operation) => {
                    if self.connection.provider.post(ticket, operation).is_err() {
                        self.gate.not_posted(now, ticket);
                    }
                }
            }
        }
    }

    /// Returns the reason why the client is of no use any more.
    fn lost(&self) -> Option<ClientError> {
        match self.connection.provider.fault() {
            Some(Fault::Flushed) => Some(ClientError::Ended),
            Some(fault) => Some(ClientError::Failed(fault)),
            None if self.connection.has_ended() => Some(ClientError::Ended),
            None => None,
        }
    }
}
