//! One-sided operations on the words and the data of a data node, over a queue pair.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use fabric::queue::Remote;
use fabric::rdma::placement::Placement;
use fabric_verbs::{
    Error, Fault, OneSided as Pair, OneSidedEvent, OneSidedWork, Part, Ticket as Mark, Unposted,
};
use pmem::one_sided::{Address, Completion, Failed, NotPosted, OneSided, Operation, Ticket};

use crate::message::{Message, Sync};
use crate::private_data::{Accept, Keyed};

/// The mark of messages to the data node, which complete without anybody waiting for it.
const SYNC: Ticket = Ticket(u64::MAX);
/// The mark of FLUSHes.
const FLUSH: Ticket = Ticket(u64::MAX - 1);

/// The end of a transfer of data.
#[derive(Debug)]
pub struct Transfer {
    /// Mark that it was posted with.
    pub ticket: Ticket,
    /// Whether it was carried out.
    pub result: Result<(), Failed>,
    /// Its buffer.
    pub buffer: Part,
}

/// A connection to a data node, with the keys of its grant.
///
/// Operations on words are posted by [`OneSided`]. Transfers of data are posted by [`Self::read`]
/// and [`Self::write`], and their tickets are separate.
#[derive(Debug)]
pub struct Provider {
    pair: Pair,
    accept: Accept,
    words: VecDeque<Completion>,
    transfers: VecDeque<Transfer>,
    messages: VecDeque<Message>,
    /// Ticket of the sync that a FLUSH carries out.
    flushing: Option<u32>,
    /// Why the connection is lost: the first operation that failed.
    fault: Option<Fault>,
    failed: bool,
}

impl Provider {
    /// Creates the provider of a connection, with the data node's grant.
    #[must_use]
    pub fn new(pair: Pair, accept: Accept) -> Self {
        let (words, transfers, messages) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        let (flushing, fault, failed) = (None, None, false);
        Self { pair, accept, words, transfers, messages, flushing, fault, failed }
    }

    /// Returns the data node's grant.
    #[must_use]
    pub const fn accept(&self) -> &Accept {
        &self.accept
    }

    /// Returns the connection.
    #[must_use]
    pub const fn pair(&self) -> &Pair {
        &self.pair
    }

    /// Returns the connection, for operations with other keys.
    #[must_use]
    pub fn into_pair(self) -> Pair {
        self.pair
    }

    /// Returns why the connection is lost; `None` while it is not, or nothing was tried since.
    #[must_use]
    pub const fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Posts the reading of as many bytes as the buffer has, from an offset of the data on. An offset
    /// beyond the data is refused by the data node.
    ///
    /// # Errors
    ///
    /// [`NotPosted`], with the buffer where it is still there.
    pub fn read(
        &mut self,
        ticket: Ticket,
        offset: u64,
        into: Part,
    ) -> Result<(), (NotPosted, Option<Part>)> {
        let at = self.data(offset);
        self.transfer(ticket, OneSidedWork::Read { at, into })
    }

    /// Makes earlier writes durable: the bytes from an offset of the data on. Uses a FLUSH, which
    /// bypasses the data node's processor, if the data node says that it promises as much; else
    /// asks the data node. [`Message::Synced`] with the ticket follows.
    ///
    /// # Errors
    ///
    /// [`NotPosted`].
    pub fn sync(&mut self, asked: Sync) -> Result<(), NotPosted> {
        if let (Some(placement), Ok(length)) = (self.flushes(), u32::try_from(asked.length)) {
            if self.flushing.is_some() {
                return Err(NotPosted::Full);
            }
            let work = OneSidedWork::Flush { at: self.data(asked.offset), length, placement };
            self.pair.post(Mark(FLUSH.0), work).map_err(not_posted)?;
            self.flushing = Some(asked.ticket);
            return Ok(());
        }
        let work = OneSidedWork::Send { bytes: asked.emit().to_vec() };
        self.pair.post(Mark(SYNC.0), work).map_err(not_posted)
    }

    /// Posts the writing of a buffer's bytes to an offset of the data.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn write(
        &mut self,
        ticket: Ticket,
        offset: u64,
        from: Part,
    ) -> Result<(), (NotPosted, Option<Part>)> {
        let at = self.data(offset);
        self.transfer(ticket, OneSidedWork::Write { at, from })
    }

    /// Returns where FLUSHes have data placed; `None` where this or the other side has none, or a FLUSH
    /// promises less than the data node's answer to a sync.
    #[must_use]
    pub fn flushes(&self) -> Option<Placement> {
        self.accept.flushes.filter(|_| self.pair.flushes())
    }

    fn data(&self, offset: u64) -> Remote {
        let Keyed { at, key } = self.accept.data;
        Remote { address: at.0.wrapping_add(offset), key }
    }

    fn transfer(
        &mut self,
        ticket: Ticket,
        work: OneSidedWork,
    ) -> Result<(), (NotPosted, Option<Part>)> {
        self.pair.post(Mark(ticket.0), work).map_err(|unposted| match unposted {
            Unposted::Full(OneSidedWork::Read { into: buffer, .. })
            | Unposted::Full(OneSidedWork::Write { from: buffer, .. }) => {
                (NotPosted::Full, Some(buffer))
            }
            Unposted::Full(_) => (NotPosted::Full, None),
            Unposted::Failed(_) => (NotPosted::Disconnected, None),
        })
    }

    /// Returns the next transfer that is over, if there is one.
    pub fn transferred(&mut self) -> Option<Transfer> {
        self.transfers.pop_front()
    }

    /// Returns the next message of the data node, if there is one.
    pub fn message(&mut self) -> Option<Message> {
        self.messages.pop_front()
    }

    /// Handles completions and messages.
    pub fn poll(&mut self) {
        let Self { pair, words, transfers, messages, flushing, fault, .. } = self;
        let polled = pair.poll(|event| match event {
            OneSidedEvent::Message(bytes) => messages.extend(Message::parse(&bytes)),
            OneSidedEvent::Done { ticket, result, buffer } => {
                let ticket = Ticket(ticket.0);
                if let Err(why) = result {
                    fault.get_or_insert(why);
                }
                let result = result.map_err(failed);
                match buffer {
                    None if ticket == SYNC => {}
                    None if ticket == FLUSH => messages.extend(
                        flushing
                            .take()
                            .map(|ticket| Message::Synced { ticket, done: result.is_ok() }),
                    ),
                    Some(buffer) => {
                        transfers.push_back(Transfer {
                            ticket,
                            result: result.map(|_| ()),
                            buffer,
                        });
                    }
                    None => words.push_back(Completion { ticket, result }),
                }
            }
        });
        self.failed |= polled.is_err();
    }

    /// Returns whether nothing was taken that nobody has asked for yet.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.words.is_empty() && self.transfers.is_empty() && self.messages.is_empty()
    }

    /// Makes the descriptor readable at the next event. An earlier event does not count: poll once
    /// more.
    ///
    /// # Errors
    ///
    /// The device has failed.
    pub fn arm(&mut self) -> Result<(), Error> {
        self.pair.arm()
    }

    /// Consumes the events that made the descriptor readable.
    pub fn take_events(&mut self) {
        self.pair.take_events();
    }

    /// Returns the key of a word; `None` if the data node did not grant it.
    fn place(&self, at: Address) -> Option<Remote> {
        let Accept { pool, grant, report, .. } = self.accept;
        let word = [pool, grant, report].into_iter().find(|word| word.at == at)?;
        Some(Remote { address: at.0, key: word.key })
    }
}

/// Returns why something was not posted, as engines and monitors know it.
fn not_posted(unposted: Unposted) -> NotPosted {
    match unposted {
        Unposted::Full(_) => NotPosted::Full,
        Unposted::Failed(_) => NotPosted::Disconnected,
    }
}

/// Returns the reason of a failure as engines and monitors know it.
const fn failed(fault: Fault) -> Failed {
    match fault {
        Fault::Refused => Failed::Refused,
        Fault::Flushed | Fault::Unanswered | Fault::Other(_) => Failed::Disconnected,
    }
}

impl OneSided for Provider {
    fn post(&mut self, ticket: Ticket, operation: Operation) -> Result<(), NotPosted> {
        if self.failed {
            return Err(NotPosted::Disconnected);
        }
        let at = match operation {
            Operation::Read { at }
            | Operation::Write { at, .. }
            | Operation::FetchAdd { at, .. }
            | Operation::CompareSwap { at, .. } => at,
        };
        // A word without a grant needs no device to be refused, which would end the connection.
        let Some(at) = self.place(at) else {
            self.words.push_back(Completion { ticket, result: Err(Failed::Refused) });
            return Ok(());
        };
        let work = match operation {
            Operation::Read { .. } => OneSidedWork::ReadWord { at },
            Operation::Write { word, .. } => OneSidedWork::WriteWord { at, word },
            Operation::FetchAdd { add, .. } => {
                OneSidedWork::FetchAdd { at, add: add.cast_unsigned() }
            }
            Operation::CompareSwap { expected, new, .. } => {
                OneSidedWork::CompareSwap { at, expect: expected, swap: new }
            }
        };
        self.pair.post(Mark(ticket.0), work).map_err(not_posted)
    }

    fn completed(&mut self) -> Option<Completion> {
        if self.words.is_empty() {
            self.poll();
        }
        self.words.pop_front()
    }
}

impl AsFd for Provider {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pair.as_fd()
    }
}
