//! A queue's part of the memory for in-capsule data.

use std::sync::Arc;

use arbitration::Class;
use arbitration::memory::MemoryFlowId;
use arbitration::session::{HostId, Session};

use super::lease::Lease;
use crate::machine::driver::{Buffer, Driver};
use crate::reactor::context::Context;

/// A queue's part of the memory for in-capsule data.
#[derive(Debug)]
pub(crate) struct CapsuleMemory {
    /// The host's flow at the gate to this memory; none once the connection ends.
    flow: Option<MemoryFlowId>,
    /// Whether there is known to be room: since the last look, nothing was taken.
    has_room: bool,
}

impl CapsuleMemory {
    /// Makes a host's flow at the gate.
    pub(crate) fn new<D: Driver>(
        io: &mut Context<D>,
        session: &Arc<Session>,
        host: HostId,
    ) -> Self {
        Self { flow: Some(io.stages.capsules.gate().flow(session, host)), has_room: false }
    }

    /// Takes a buffer for `bytes` bytes that came with a command of a class, and a lease of its
    /// memory.
    pub(crate) fn take<D: Driver>(
        &mut self,
        io: &mut Context<D>,
        class: Class,
        bytes: usize,
    ) -> Option<(Lease, Buffer<D>)> {
        self.has_room = false;
        let each = io.settings.in_capsule_data;
        let lease = io.stages.capsules.lease_now(self.flow?, class, each)?;
        Some((lease, io.buffers.for_capsule(bytes)?))
    }

    /// Notes that other hosts may have taken buffers.
    #[inline]
    pub(crate) fn look_again(&mut self) {
        self.has_room = false;
    }

    /// Returns whether the host may get a buffer now.
    #[inline]
    pub(crate) fn has_room<D: Driver>(&mut self, io: &Context<D>) -> bool {
        self.has_room = self.has_room || self.find_room(io);
        self.has_room
    }

    fn find_room<D: Driver>(&self, io: &Context<D>) -> bool {
        let each = io.settings.in_capsule_data;
        self.flow.is_some_and(|flow| io.stages.capsules.may_lease(flow, each))
            && io.buffers.has_for_capsule(each as usize)
    }

    /// Gives the host's flow up: the connection ends.
    pub(crate) fn leave<D: Driver>(&mut self, io: &mut Context<D>) {
        if let Some(flow) = self.flow.take() {
            io.stages.capsules.gate().release(flow);
        }
    }
}
