//! The memory that a read holds until its host has taken the data, and in-capsule data until it is
//! written: charged to the host by a gate, whoever has the buffer meanwhile.

use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;

use arbitration::memory::MemoryGrant;

/// The grants of leases that have ended, until the gate takes them back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Returned(Rc<RefCell<Vec<MemoryGrant>>>);

impl Returned {
    /// Lends a grant until the lease is dropped.
    #[inline]
    pub(crate) fn lend(&self, grant: MemoryGrant) -> Lease {
        Lease { grant: Some(grant), returned: self.clone() }
    }

    /// Says whether a lease has ended since the last [`Self::drain`].
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Takes the grants of leases that have ended.
    pub(crate) fn drain(&self, mut take: impl FnMut(MemoryGrant)) {
        for grant in self.0.borrow_mut().drain(..) {
            take(grant);
        }
    }
}

/// Memory for what a command reads, or for its in-capsule data. It goes back to the gate when the lease is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    grant: Option<MemoryGrant>,
    returned: Returned,
}

impl Drop for Lease {
    #[inline]
    fn drop(&mut self) {
        self.returned.0.borrow_mut().extend(self.grant.take());
    }
}

/// A buffer with what a command has read, and the lease of its memory.
#[derive(Debug)]
pub struct Leased<B> {
    buffer: B,
    #[expect(dead_code, reason = "the memory is held for as long as the buffer")]
    lease: Option<Lease>,
}

impl<B> Leased<B> {
    /// Joins a buffer with the lease of its memory.
    pub(crate) fn new(buffer: B, lease: Option<Lease>) -> Self {
        Self { buffer, lease }
    }
}

impl<B: Deref<Target = [u8]>> Deref for Leased<B> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.buffer
    }
}
