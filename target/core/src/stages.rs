//! What one reactor has of the stages S2 to S5: the arbiter, the gate to the memory for data from
//! hosts, and the sessions' statistics.

use std::sync::Arc;

use arbitration::Class;
use arbitration::arbiter::{Arbiter, Waiters};
use arbitration::memory::{MemoryEntryId, MemoryFlowId, MemoryGate, MemoryGrant};
use arbitration::settings::OrderSettings;
use fabric::Nanos;
use fabric::queue::SlotId;

use crate::accounts::Accounts;
use crate::buffers::Sizes;
use crate::charge::Charge;
use crate::job::Job;
use crate::key::Key;
use crate::lease::{Lease, Returned};

/// The stages of one reactor.
#[derive(Debug)]
pub(crate) struct Stages {
    /// Where commands wait for their devices.
    pub(crate) arbiter: Arbiter<(Key, SlotId)>,
    /// Where commands wait for memory for the data that their hosts will be asked for.
    pub(crate) gate: MemoryGate<(Key, SlotId)>,
    /// Where commands wait for memory for what they read, which they hold until it was sent.
    pub(crate) reads: MemoryGate<(Key, SlotId)>,
    /// What reads have given back.
    returned: Returned,
    /// What in-capsule data takes; nothing waits here.
    pub(crate) capsules: MemoryGate<()>,
    /// What in-capsule data has given back.
    capsules_returned: Returned,
    /// Memory for in-capsule data has come back since [`Self::capsules_came_back`] was last asked.
    capsules_back: bool,
    /// The statistics of the sessions.
    pub(crate) accounts: Accounts,
}

impl Stages {
    /// The stages of reactor number `reactor`.
    pub(crate) fn new(
        reactor: u32,
        order: &OrderSettings,
        waiters: Arc<Waiters>,
        sizes: Sizes,
    ) -> Self {
        Self {
            arbiter: Arbiter::new(reactor, order, waiters, 4096),
            gate: MemoryGate::new(order, sizes.window),
            reads: MemoryGate::new(order, sizes.memory),
            returned: Returned::default(),
            capsules: MemoryGate::new(order, sizes.capsules),
            capsules_returned: Returned::default(),
            capsules_back: false,
            accounts: Accounts::default(),
        }
    }

    /// Takes a new order of the classes.
    pub(crate) fn set_order(&mut self, order: &OrderSettings) {
        self.arbiter.set_order(order);
        self.gate.set_order(order);
        self.reads.set_order(order);
    }

    /// Whether any command waits for its turn.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.arbiter.waiting() > 0 || self.gate.waiting() > 0
    }

    /// Takes memory for a read of `bytes` bytes at once, if it need not wait for its turn. Others use
    /// `used` bytes of the memory, and `kept` are kept for them.
    #[inline]
    pub(crate) fn lease_now(
        &mut self,
        charge: &Charge,
        bytes: u32,
        (used, kept): (usize, usize),
    ) -> Option<Lease> {
        self.take_leases_back();
        self.reads.set_others(used, kept);
        let grant = self.reads.pass(charge.read?, charge.class, block(bytes))?;
        Some(self.returned.lend(grant))
    }

    /// Lets a read of `bytes` bytes wait for its turn to have memory.
    pub(crate) fn await_lease(
        &mut self,
        charge: &Charge,
        bytes: u32,
        command: (Key, SlotId),
    ) -> Option<MemoryEntryId> {
        Some(self.reads.enqueue(charge.read?, charge.class, block(bytes), command))
    }

    /// Takes the next read out for which there is memory. Others use `used` bytes of it, and `kept`
    /// are kept for them.
    #[inline]
    pub(crate) fn next_lease(
        &mut self,
        (used, kept): (usize, usize),
    ) -> Option<((Key, SlotId), Lease)> {
        self.take_leases_back();
        if self.reads.waiting() == 0 {
            return None;
        }
        self.reads.set_others(used, kept);
        let (command, grant) = self.reads.pull()?;
        Some((command, self.returned.lend(grant)))
    }

    /// Says whether a host may have memory for in-capsule data of `bytes` bytes now.
    #[inline]
    pub(crate) fn may_lease_capsule(&self, flow: MemoryFlowId, bytes: u32) -> bool {
        self.capsules.may_pass(flow, block(bytes))
    }

    /// Takes memory for in-capsule data of `bytes` bytes.
    #[inline]
    pub(crate) fn lease_capsule(
        &mut self,
        flow: MemoryFlowId,
        class: Class,
        bytes: u32,
    ) -> Option<Lease> {
        self.take_capsules_back();
        let grant = self.capsules.pass(flow, class, block(bytes))?;
        Some(self.capsules_returned.lend(grant))
    }

    /// Takes back what in-capsule data has held.
    #[inline]
    pub(crate) fn take_capsules_back(&mut self) {
        if !self.capsules_returned.is_empty() {
            let capsules = &mut self.capsules;
            self.capsules_returned.drain(|grant| capsules.give_back(grant));
            self.capsules_back = true;
        }
    }

    /// Says whether memory for in-capsule data has come back since this was last asked: connections
    /// may go on that have waited for it.
    pub(crate) fn capsules_came_back(&mut self) -> bool {
        self.take_capsules_back();
        std::mem::take(&mut self.capsules_back)
    }

    /// Takes back what reads have held.
    #[inline]
    fn take_leases_back(&mut self) {
        if !self.returned.is_empty() {
            let reads = &mut self.reads;
            self.returned.drain(|grant| reads.give_back(grant));
        }
    }

    /// Gives back what a command had of the memory for data from hosts.
    pub(crate) fn give_back_memory(&mut self, grant: Option<MemoryGrant>) {
        if let Some(grant) = grant {
            self.gate.give_back(grant);
        }
    }

    /// Gives back what a job has of the stages; `served` where its device has carried it out. How
    /// long it was in its device, in ns.
    pub(crate) fn give_back<V, B>(&mut self, job: &mut Job<V, B>, now: Nanos, served: bool) -> u64 {
        self.give_back_memory(job.memory.take());
        match job.grant.take() {
            Some(grant) => {
                let service = now.ns_since(grant.at());
                self.arbiter.complete(now, grant, served);
                service
            }
            None => now.ns_since(job.arrived),
        }
    }
}

/// Returns the bytes that a buffer for this many takes of the memory: buffers are powers of two.
const fn block(bytes: u32) -> u32 {
    if bytes > 1 << 31 { u32::MAX } else { bytes.next_power_of_two() }
}
