//! A region as memory that RDMA devices may reach.

use fabric_verbs::Memory;
use pmem::medium::Medium as _;
use pmem::region::Region;
use std::sync::Arc;

/// A region that clients read and write by themselves. On this machine it is only used as atomic words.
#[derive(Debug)]
pub(super) struct ClientMemory(pub(super) Arc<Region>);

// SAFETY: the region is mapped, for reading and writing, until its last owner drops it, and this is one; the
// mapping has the stated number of bytes. This machine's own accesses are accesses of atomic words.
unsafe impl Memory for ClientMemory {
    fn address(&self) -> *mut u8 {
        self.0.address()
    }

    fn length(&self) -> usize {
        usize::try_from(self.0.bytes()).unwrap_or(0)
    }
}
