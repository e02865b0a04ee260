//! The memory of a read until its host has received the data, and of in-capsule data until it is written: a gate
//! charges the memory to the host, wherever the buffer is.

use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;

use arbitration::Class;
use arbitration::memory::{MemoryFlowId, MemoryGate, MemoryGrant};
use arbitration::settings::OrderSettings;

/// The grants of leases that have ended, until the gate takes them back.
type Returned = Rc<RefCell<Vec<MemoryGrant>>>;

/// A gate whose memory is lent: a lease that is dropped gives its memory back, wherever the lease
/// is then.
#[derive(Debug)]
pub(crate) struct LeaseGate<T> {
    gate: MemoryGate<T>,
    returned: Returned,
    /// Whether memory has come back since [`Self::came_back`] was last asked.
    back: bool,
}

impl<T> LeaseGate<T> {
    /// Makes a gate to `bytes` bytes of memory.
    pub(crate) fn new(order: &OrderSettings, bytes: usize) -> Self {
        Self { gate: MemoryGate::new(order, bytes), returned: Returned::default(), back: false }
    }

    /// Returns the gate itself: its order and its flows, and the commands that wait.
    pub(crate) fn gate(&mut self) -> &mut MemoryGate<T> {
        &mut self.gate
    }

    /// Takes memory for a buffer of `bytes` bytes at once, if it need not wait for its turn.
    #[inline]
    pub(crate) fn lease_now(
        &mut self,
        flow: MemoryFlowId,
        class: Class,
        bytes: u32,
    ) -> Option<Lease> {
        self.take_back();
        let grant = self.gate.pass(flow, class, block(bytes))?;
        Some(self.lend(grant))
    }

    /// Returns whether [`Self::lease_now`] would grant memory now.
    #[inline]
    pub(crate) fn may_lease(&self, flow: MemoryFlowId, bytes: u32) -> bool {
        self.gate.may_pass(flow, block(bytes))
    }

    /// Takes the next command out for which there is memory.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(T, Lease)> {
        self.take_back();
        if self.gate.waiting() == 0 {
            return None;
        }
        let (item, grant) = self.gate.pull()?;
        Some((item, self.lend(grant)))
    }

    /// Returns how many pages are lent.
    pub(crate) fn lent(&self) -> u32 {
        let returned: u32 = self.returned.borrow().iter().map(MemoryGrant::pages).sum();
        self.gate.held().saturating_sub(returned)
    }

    /// Counts the bytes that commands hold of the reserve.
    pub(crate) fn reserve_held(&self) -> usize {
        self.gate.reserve_held()
    }

    /// Counts the flows of the gate.
    pub(crate) fn flows(&self) -> usize {
        self.gate.flows()
    }

    /// Takes the memory back of leases that have ended.
    #[inline]
    pub(crate) fn take_back(&mut self) {
        let mut returned = self.returned.borrow_mut();
        if returned.is_empty() {
            return;
        }
        self.back = true;
        for grant in returned.drain(..) {
            self.gate.give_back(grant);
        }
    }

    /// Returns whether memory has come back since the last call.
    pub(crate) fn came_back(&mut self) -> bool {
        self.take_back();
        std::mem::take(&mut self.back)
    }

    fn lend(&self, grant: MemoryGrant) -> Lease {
        Lease { grant: Some(grant), returned: Rc::clone(&self.returned) }
    }
}

/// Returns the size of a buffer for this many bytes: buffers are powers of two.
pub(crate) const fn block(bytes: u32) -> u32 {
    if bytes > 1 << 31 { u32::MAX } else { bytes.next_power_of_two() }
}

/// Memory for a command's read data or in-capsule data. Dropping the lease returns the memory to the gate.
#[derive(Debug)]
pub(crate) struct Lease {
    grant: Option<MemoryGrant>,
    returned: Returned,
}

impl Drop for Lease {
    #[inline]
    fn drop(&mut self) {
        let Some(grant) = self.grant.take() else { return };
        let mut returned = self.returned.borrow_mut();
        // Leases of one host usually end one after the other.
        match returned.last_mut() {
            Some(last) if last.is_like(&grant) => last.join(grant),
            _ => returned.push(grant),
        }
    }
}

/// Read data in a buffer, and the lease of its memory.
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
