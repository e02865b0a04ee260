//! One-sided operations on the words of a data node.
//!
//! RDMA verbs are asynchronous: an operation is posted, and its completion is found later in a
//! queue. A provider within one process may complete it at once. Both fit [`OneSided`]: every
//! posted operation is returned by [`OneSided::completed`], at once or later, and no call waits.
//! The engine and the monitor return the next [`Operation`], and are given its [`Completion`].

use thiserror::Error;

/// The address of a 64-bit word in the memory that a data node shares; a multiple of 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u64);

/// The mark of a posted operation, which identifies its completion. The caller that posts it
/// chooses the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// An operation on one 64-bit word of a data node. The two that both read and write are atomic with
/// respect to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads the word.
    Read {
        /// Address of the word.
        at: Address,
    },
    /// Writes the word.
    Write {
        /// Address of the word.
        at: Address,
        /// The new word.
        word: u64,
    },
    /// Adds to the word, wrapping around, and returns its old value.
    FetchAdd {
        /// Address of the word.
        at: Address,
        /// The number to add, which may be negative.
        add: i64,
    },
    /// Writes the word if it is as expected, and returns its old value.
    CompareSwap {
        /// Address of the word.
        at: Address,
        /// The word that is expected.
        expected: u64,
        /// The new word.
        new: u64,
    },
}

/// The reason why an operation has failed. Whether it was carried out is not known then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Failed {
    /// The data node allows no such operation there.
    #[error("the data node refuses access to this word: ask it for a grant again")]
    Refused,
    /// The connection is lost.
    #[error("the connection to the data node is lost: connect again")]
    Disconnected,
}

/// The completion of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Mark that the operation was posted with.
    pub ticket: Ticket,
    /// The word that was read, or that there was before; for a write, the word written.
    pub result: Result<u64, Failed>,
}

/// The refusal to take an operation now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotPosted {
    /// As many operations are under way as the provider can keep.
    #[error("too many operations are under way: post it again after a completion")]
    Full,
    /// The connection is lost.
    #[error("the connection to the data node is lost: connect again")]
    Disconnected,
}

/// A connection to a data node, as far as words are concerned. Operations of one connection take
/// effect in the order in which they were posted.
pub trait OneSided {
    /// Posts an operation.
    ///
    /// # Errors
    ///
    /// [`NotPosted`] where it was not taken; there is no completion then.
    fn post(&mut self, ticket: Ticket, operation: Operation) -> Result<(), NotPosted>;

    /// Returns the next completion, if there is one already.
    fn completed(&mut self) -> Option<Completion>;

    /// Posts the reading of a word.
    ///
    /// # Errors
    ///
    /// As for [`Self::post`].
    fn read(&mut self, ticket: Ticket, at: Address) -> Result<(), NotPosted> {
        self.post(ticket, Operation::Read { at })
    }

    /// Posts the writing of a word.
    ///
    /// # Errors
    ///
    /// As for [`Self::post`].
    fn write(&mut self, ticket: Ticket, at: Address, word: u64) -> Result<(), NotPosted> {
        self.post(ticket, Operation::Write { at, word })
    }

    /// Posts an addition to a word.
    ///
    /// # Errors
    ///
    /// As for [`Self::post`].
    fn fetch_add(&mut self, ticket: Ticket, at: Address, add: i64) -> Result<(), NotPosted> {
        self.post(ticket, Operation::FetchAdd { at, add })
    }
}
