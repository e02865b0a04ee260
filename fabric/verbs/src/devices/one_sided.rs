//! A connection by which this side reads and writes memory of the peer, of which the peer's processor sees
//! nothing.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use super::arena::Part;
use super::completion::{Completion, CompletionQueue, Outcome};
use super::connection::Id;
use super::queue_pair::{ActivePair, QueuePair};
use super::region::Regions;
use crate::error::Error;
use crate::operation::{Fault, OneSidedEvent, OneSidedSize, OneSidedWork, Ticket, Unposted};
use crate::work::{Done, QueuePairSize, Work};

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

    /// Polls the pending events, and passes them on in order.
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
