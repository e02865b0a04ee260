//! A connection by which this side reads and writes memory of the peer, of which the peer's processor sees
//! nothing.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use thiserror::Error;

use super::arena::Part;
use super::completion::{Completion, CompletionQueue, Outcome};
use super::connection::Id;
use super::error::Error;
use super::memory::Regions;
use super::queue_pair::{ActivePair, Done, QueuePair, QueuePairSize};
use super::receive::ReceiveBuffer;
use super::work::Work;
use crate::queue::Remote;
use crate::rdma::placement::Placement;

/// The mark of an operation, which identifies its completion. The caller that posts it chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// An operation on memory of the peer. Words are 64 bits at multiples of 8, in the byte order of this
/// machine, which must be the peer's.
#[derive(Debug)]
pub enum OneSidedWork {
    /// Reads a word.
    ReadWord {
        /// The word's place.
        at: Remote,
    },
    /// Writes a word.
    WriteWord {
        /// The word's place.
        at: Remote,
        /// The new word.
        word: u64,
    },
    /// Adds to a word, wrapping around. Atomic with other atomics that go through the same device.
    FetchAdd {
        /// The word's place.
        at: Remote,
        /// The number to add.
        add: u64,
    },
    /// Writes a word if it is as expected. Atomic as an addition is.
    CompareSwap {
        /// The word's place.
        at: Remote,
        /// The word that is expected.
        expect: u64,
        /// The new word.
        swap: u64,
    },
    /// Reads as many bytes as the buffer has.
    Read {
        /// The place of the first byte.
        at: Remote,
        /// The buffer.
        into: Part,
    },
    /// Writes the bytes of a buffer.
    Write {
        /// The place of the first byte.
        at: Remote,
        /// The buffer.
        from: Part,
    },
    /// Brings earlier written data to a place.
    Flush {
        /// The place of the first byte.
        at: Remote,
        /// The number of bytes.
        length: u32,
        /// The place that the bytes are brought to.
        placement: Placement,
    },
    /// Sends a message of up to 64 bytes, which arrives after the data of earlier WRITEs.
    Send {
        /// The message.
        bytes: Vec<u8>,
    },
}

/// The reason why an operation has failed. Whether it was carried out is not known then, and the
/// connection is of no use any more: a queue pair ends with the first failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// The peer allows no such access there: wrong key, out of range, or a right that was not
    /// granted, or was revoked.
    #[error("the peer refuses access to this memory")]
    Refused,
    /// The operation was not tried, or given up, since the connection had ended.
    #[error("the connection had ended")]
    Flushed,
    /// The peer did not answer, however often it was asked.
    #[error("the peer does not answer")]
    Unanswered,
    /// The device says something else.
    #[error("{0}")]
    Other(&'static str),
}

impl Fault {
    /// Returns the failure of an outcome; `None` if it is no failure.
    fn from_outcome(outcome: Outcome) -> Option<Self> {
        if outcome.is_success() {
            None
        } else if outcome.is_remote_access() {
            Some(Self::Refused)
        } else if outcome.is_flushed() {
            Some(Self::Flushed)
        } else if outcome.is_unanswered() {
            Some(Self::Unanswered)
        } else {
            Some(Self::Other(outcome.text()))
        }
    }
}

/// An event of the connection.
#[derive(Debug)]
pub enum OneSidedEvent {
    /// An operation is over.
    Done {
        /// Its mark.
        ticket: Ticket,
        /// The word that was read or that there was before; for a write, the word written, and 0 for a
        /// range, a FLUSH or a message.
        result: Result<u64, Fault>,
        /// The buffer of a range.
        buffer: Option<Part>,
    },
    /// The peer has sent a message.
    Message(ReceiveBuffer),
}

/// An operation that was not posted.
#[derive(Debug, Error)]
pub enum Unposted {
    /// As many operations are under way as there is room for.
    #[error("too many operations are under way: post it again after a completion")]
    Full(OneSidedWork),
    /// The device refuses it: the connection has ended, or the device has failed.
    #[error("the operation cannot be posted: {0}")]
    Failed(#[source] Error),
}

/// The size of a connection.
#[derive(Clone, Copy, Debug)]
pub struct OneSidedSize {
    /// Operations under way at once.
    pub operations: u16,
    /// Messages that can come at once.
    pub messages: u16,
    /// Bytes of a message, at the most.
    pub message_bytes: usize,
}

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// The kinds of operations, as far as their ends differ.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// The word is in the buffer.
    ReadsWord,
    /// The word that was written.
    WritesWord(u64),
    Range,
    /// A message, or a FLUSH: there is no buffer of the user's.
    Bare,
}

/// A connection to memory of a peer, on the thread that uses it. Operations are posted and completed in
/// order, and take effect in order; but [`OneSidedWork::Write`] may overtake reads and atomics that were
/// posted before it. No call waits.
#[derive(Debug)]
pub struct OneSided {
    pair: ActivePair<Part, Part>,
    completions: CompletionQueue,
    /// Buffers for words that are with no operation.
    words: Vec<Part>,
    /// The operations under way, in the order in which they were posted.
    under_way: VecDeque<(Ticket, Kind)>,
    most: usize,
    /// Completions taken from the queue; empty between calls.
    taken: Vec<Completion>,
}

impl OneSided {
    /// Makes the queue pair of a connection, to be connected by [`Self::id`] or accepted by
    /// [`Self::pair`].
    ///
    /// # Errors
    /// The device does not allow the size, or there is no memory.
    pub fn new(id: Id, regions: &Regions, size: OneSidedSize) -> Result<Self, Error> {
        let entries = u32::from(size.operations).saturating_add(size.messages.into());
        let completions = CompletionQueue::new(regions.domain().device(), entries.max(1))?;
        let pair_size = QueuePairSize {
            sends: size.operations.into(),
            receives: size.messages,
            receive_bytes: size.message_bytes,
            send_payloads: false,
            flushes: true,
        };
        let pair = QueuePair::new(id, regions, &completions, pair_size)?.activate();
        let words = Part::several(regions, size.operations, WORD)?;
        let most = size.operations.into();
        let (under_way, taken) = (VecDeque::new(), Vec::new());
        Ok(Self { pair, completions, words, under_way, most, taken })
    }

    /// Returns the connection.
    #[must_use]
    pub fn id(&self) -> &Id {
        self.pair.pair().id()
    }

    /// Returns the queue pair.
    #[must_use]
    pub fn pair(&self) -> &QueuePair {
        self.pair.pair()
    }

    /// Returns the number of operations under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Returns whether FLUSHes can be posted; the peer's device may still reject them.
    #[must_use]
    pub fn flushes(&self) -> bool {
        self.pair.flushes()
    }

    /// Posts an operation.
    ///
    /// # Errors
    /// [`Unposted`] where it was not taken; there is no completion then.
    pub fn post(&mut self, ticket: Ticket, work: OneSidedWork) -> Result<(), Unposted> {
        if self.under_way.len() >= self.most {
            return Err(Unposted::Full(work));
        }
        let has_word = match work {
            OneSidedWork::ReadWord { .. }
            | OneSidedWork::WriteWord { .. }
            | OneSidedWork::FetchAdd { .. }
            | OneSidedWork::CompareSwap { .. } => true,
            OneSidedWork::Flush { at, length, placement } => {
                self.pair.flush(at, length, placement).map_err(Unposted::Failed)?;
                self.under_way.push_back((ticket, Kind::Bare));
                return Ok(());
            }
            OneSidedWork::Read { .. } | OneSidedWork::Write { .. } | OneSidedWork::Send { .. } => {
                false
            }
        };
        let word = if has_word { self.words.pop() } else { None };
        let (kind, work) = match (work, word) {
            (OneSidedWork::Send { bytes }, _) => (Kind::Bare, Work::send(&bytes, None)),
            (OneSidedWork::Read { at, into }, _) => (Kind::Range, Work::Read { into, remote: at }),
            (OneSidedWork::Write { at, from }, _) => {
                (Kind::Range, Work::Write { payload: from, remote: at })
            }
            (OneSidedWork::ReadWord { at }, Some(into)) => {
                (Kind::ReadsWord, Work::Read { into, remote: at })
            }
            (OneSidedWork::WriteWord { at, word }, Some(mut payload)) => {
                payload.bytes_mut().copy_from_slice(&word.to_ne_bytes());
                (Kind::WritesWord(word), Work::WriteBehind { payload, remote: at })
            }
            (OneSidedWork::FetchAdd { at, add }, Some(into)) => {
                (Kind::ReadsWord, Work::FetchAdd { into, remote: at, add })
            }
            (OneSidedWork::CompareSwap { at, expect, swap }, Some(into)) => {
                (Kind::ReadsWord, Work::CompareSwap { into, remote: at, expect, swap })
            }
            // There are as many buffers for words as operations.
            (work @ OneSidedWork::Flush { .. }, _) | (work, None) => {
                return Err(Unposted::Full(work));
            }
        };
        match self.pair.post([work]) {
            Ok(()) => {
                self.under_way.push_back((ticket, kind));
                Ok(())
            }
            Err((error, refused)) => {
                self.words.extend(refused.into_iter().filter_map(|work| match kind {
                    Kind::Range | Kind::Bare => None,
                    Kind::ReadsWord | Kind::WritesWord(_) => buffer(work),
                }));
                Err(Unposted::Failed(error))
            }
        }
    }

    /// Takes the pending events, and passes them on in order.
    ///
    /// # Errors
    /// The device has failed.
    pub fn poll(&mut self, mut event: impl FnMut(OneSidedEvent)) -> Result<(), Error> {
        let Self { pair, completions, words, under_way, taken, .. } = self;
        loop {
            let more = completions.poll(taken)?;
            for completion in taken.drain(..) {
                pair.complete(completion, |done| match done {
                    Done::Received(message) => event(OneSidedEvent::Message(message)),
                    // The connection ends: operations and the connection manager tell why.
                    Done::Lost(_) => {}
                    Done::Work { work, outcome, .. } => {
                        let Some((ticket, kind)) = under_way.pop_front() else { return };
                        let mut buffer = buffer(work);
                        let fault = Fault::from_outcome(outcome);
                        let word = match (kind, &buffer) {
                            (Kind::ReadsWord, Some(buffer)) => word_in(buffer),
                            (Kind::WritesWord(word), _) => word,
                            (Kind::ReadsWord | Kind::Range | Kind::Bare, _) => 0,
                        };
                        if !matches!(kind, Kind::Range) {
                            words.extend(buffer.take());
                        }
                        let result = fault.map_or(Ok(word), Err);
                        event(OneSidedEvent::Done { ticket, result, buffer });
                    }
                });
            }
            if !more {
                break;
            }
        }
        // If the connection has ended, no message can arrive any more.
        let _ = pair.repost();
        Ok(())
    }

    /// Makes the descriptor readable at the next event. An earlier event does not count: poll once
    /// more.
    ///
    /// # Errors
    /// The device has failed.
    pub fn arm(&mut self) -> Result<(), Error> {
        self.completions.arm()
    }

    /// Consumes the events that made the descriptor readable.
    pub fn take_events(&mut self) {
        self.completions.take_events();
    }
}

impl AsFd for OneSided {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.completions.as_fd()
    }
}

/// Returns the buffer of a work.
fn buffer(work: Work<Part, Part>) -> Option<Part> {
    match work {
        Work::Write { payload, .. } | Work::WriteBehind { payload, .. } => Some(payload),
        Work::Read { into, .. } | Work::FetchAdd { into, .. } | Work::CompareSwap { into, .. } => {
            Some(into)
        }
        Work::Send { payload, .. } => payload,
        Work::Flush { .. } => None,
    }
}

/// Returns the word in a buffer of one.
fn word_in(buffer: &Part) -> u64 {
    buffer.bytes().first_chunk().map_or(0, |word| u64::from_ne_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_outcomes_have_distinct_reasons() {
        use rdma_sys::ibv_wc_status::*;
        for (status, fault) in [
            (IBV_WC_SUCCESS, None),
            (IBV_WC_REM_ACCESS_ERR, Some(Fault::Refused)),
            (IBV_WC_REM_INV_REQ_ERR, Some(Fault::Refused)),
            (IBV_WC_WR_FLUSH_ERR, Some(Fault::Flushed)),
            (IBV_WC_RETRY_EXC_ERR, Some(Fault::Unanswered)),
        ] {
            assert_eq!(Fault::from_outcome(Outcome::from_status(status)), fault, "{status}");
        }
        let other = Fault::from_outcome(Outcome::from_status(IBV_WC_LOC_LEN_ERR)).unwrap();
        assert!(matches!(other, Fault::Other(text) if !text.is_empty()), "{other:?}");
    }
}
