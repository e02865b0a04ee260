//! The stages S2 to S5 in one reactor: the arbiter, the gates to memory, and the sessions'
//! statistics.

use std::sync::Arc;

use arbitration::arbiter::{Arbiter, Waiters};
use arbitration::memory::{MemoryEntryId, MemoryGate, MemoryGrant};
use arbitration::session::Session;
use arbitration::settings::OrderSettings;
use fabric::Nanos;
use fabric::queue::SlotId;

use crate::machine::job::Job;
use crate::machine::key::Key;
use crate::memory::buffers::Sizes;
use crate::memory::lease::{Lease, LeaseGate, block};
use crate::stats::accounts::Accounts;
use crate::stats::charge::Charge;

/// The stages of one reactor.
#[derive(Debug)]
pub(crate) struct Stages {
    /// Arbiter in which commands wait for their devices.
    pub(crate) arbiter: Arbiter<(Key, SlotId)>,
    /// Gate in which commands wait for memory for the data that their hosts will be asked for.
    pub(crate) gate: MemoryGate<(Key, SlotId)>,
    /// Gate in which commands wait for memory for read data, which they hold until the data was sent.
    pub(crate) reads: LeaseGate<(Key, SlotId)>,
    /// Gate to the memory for in-capsule data. No command waits here: its connection does.
    pub(crate) capsules: LeaseGate<()>,
    /// The statistics of the sessions.
    pub(crate) accounts: Accounts,
}

impl Stages {
    /// Makes the stages of reactor number `reactor`.
    pub(crate) fn new(
        reactor: u32,
        order: &OrderSettings,
        waiters: Arc<Waiters>,
        sizes: Sizes,
    ) -> Self {
        Self {
            arbiter: Arbiter::new(reactor, order, waiters, 4096),
            gate: MemoryGate::new(order, sizes.window).setting_aside(),
            reads: LeaseGate::new(order, sizes.memory),
            capsules: LeaseGate::new(order, sizes.capsules),
            accounts: Accounts::default(),
        }
    }

    /// Takes a new order of the classes.
    pub(crate) fn set_order(&mut self, order: &OrderSettings) {
        self.arbiter.set_order(order);
        self.gate.set_order(order);
        self.reads.gate().set_order(order);
        self.capsules.gate().set_order(order);
    }

    /// Notes that the settings of a session have changed.
    pub(crate) fn touch_session(&mut self, session: &Arc<Session>) {
        self.arbiter.touch_session(session);
        self.gate.touch_session(session);
        self.reads.gate().touch_session(session);
        self.capsules.gate().touch_session(session);
    }

    /// Returns whether any command waits for its turn.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.arbiter.waiting() > 0 || self.gate.waiting() > 0
    }

    /// Counts the queues in which commands of hosts may wait for memory, and the pages of memory that
    /// commands hold.
    pub(crate) fn held(&self) -> (usize, u32) {
        let (reads, capsules) = (&self.reads, &self.capsules);
        let queues = self.gate.flows() + reads.flows() + capsules.flows();
        (queues, self.gate.held() + reads.lent() + capsules.lent())
    }

    /// Takes memory for a read of `bytes` bytes at once, if it need not wait for its turn. Others use
    /// `used` bytes of the memory, and `kept` are kept for them.
    #[inline]
    pub(crate) fn lease_read(
        &mut self,
        charge: &Charge,
        bytes: u32,
        (used, kept): (usize, usize),
    ) -> Option<Lease> {
        self.reads.gate().set_others(used, kept + self.gate.left_aside());
        self.reads.lease_now(charge.read?, charge.class, bytes)
    }

    /// Queues a read of `bytes` bytes for its turn to get memory. Returns `None` if its command has no queue for
    /// that.
    pub(crate) fn enqueue_read(
        &mut self,
        charge: &Charge,
        bytes: u32,
        command: (Key, SlotId),
    ) -> Option<MemoryEntryId> {
        Some(self.reads.gate().enqueue(charge.read?, charge.class, block(bytes), command))
    }

    /// Takes out the next read for which there is memory, which others use as [`Self::lease_read`]
    /// says.
    #[inline]
    pub(crate) fn next_read(
        &mut self,
        (used, kept): (usize, usize),
    ) -> Option<((Key, SlotId), Lease)> {
        self.reads.gate().set_others(used, kept + self.gate.left_aside());
        self.reads.next()
    }

    /// Releases a command's memory for data from hosts.
    pub(crate) fn give_back_memory(&mut self, grant: Option<MemoryGrant>) {
        if let Some(grant) = grant {
            self.gate.give_back(grant);
        }
    }

    /// Releases the grants of a job; `served` if its device has executed the job.
    pub(crate) fn give_back<V, B>(&mut self, job: &mut Job<V, B>, now: Nanos, served: bool) {
        self.give_back_memory(job.memory.take());
        if let Some(grant) = job.grant.take() {
            self.arbiter.complete(now, grant, served);
        }
    }
}
