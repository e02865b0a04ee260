//! The interface of all devices.

use core::fmt::Debug;

use units::{Class, Nanos};

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads.
    Read,
    /// Writes; the data need not survive a loss of power when the request ends.
    Write,
    /// Makes all earlier writes of ended requests survive.
    Flush,
    /// Discards the content.
    Deallocate,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The caller's number of it, which the device tells when it ends.
    pub id: u64,
    /// Operation.
    pub kind: Kind,
    /// The first byte.
    pub offset: u64,
    /// The bytes; of no meaning for [`Kind::Flush`].
    pub length: u64,
    /// Its class, where the device has an order of classes.
    pub class: Class,
}

/// A device on simulated time.
pub trait Device: Debug {
    /// Submits a request. The caller should have handled events up to `now` before ([`Self::advance`]).
    fn submit(&mut self, now: Nanos, request: Request);

    /// Returns the time at which something happens next.
    fn next(&self) -> Option<Nanos>;

    /// Handles everything up to `until`, and appends the times and numbers of requests that ended,
    /// in order.
    fn advance(&mut self, until: Nanos, done: &mut Vec<(Nanos, u64)>);

    /// Returns the time that the device's servers were busy since the start, in ns and divided by their
    /// number; `None` where the model has no servers.
    fn busy(&self) -> Option<u64> {
        None
    }
}
