//! The selection of the commands that are traced.

use std::sync::Arc;

use arbitration::Class;
use fabric::Nanos;
use fabric::controller::ControllerShared;

/// Traced commands of one reactor per second, which bound its time for them.
const NS_PER_COMMAND: u64 = 20_000;
/// Commands that are traced at once after a time with fewer.
const BURST: u64 = 4096;
const CREDIT_MAX: u64 = BURST * NS_PER_COMMAND;
/// Queues whose commands are traced at one time: each needs up to 50 KiB.
const QUEUES_MAX: u32 = 1024;

/// The commands that are traced. A filter of `None` selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceFilter {
    /// The NQN of the host.
    pub host: Option<String>,
    /// The NQN of the subsystem.
    pub subsystem: Option<String>,
    /// The namespace.
    pub nsid: Option<u32>,
    /// The class.
    pub class: Option<Class>,
    /// The least time in the target, in ns.
    pub slower_than: u64,
}

/// The state of a reactor that traces.
#[derive(Debug)]
pub(crate) struct Tracing {
    pub(crate) filter: Arc<TraceFilter>,
    /// Time in ns that traced commands may take yet: [`NS_PER_COMMAND`] each.
    credit: u64,
    refilled: Nanos,
    skipped: u32,
    queues: u32,
}

impl Tracing {
    pub(crate) fn new(filter: Arc<TraceFilter>, now: Nanos) -> Self {
        Self { filter, credit: CREDIT_MAX, refilled: now, skipped: 0, queues: 0 }
    }

    /// Returns whether commands of a controller are traced on one more queue.
    pub(crate) fn begin_queue(&mut self, controller: &ControllerShared) -> bool {
        let is = |name: &Option<String>, of: &str| name.as_ref().is_none_or(|name| name == of);
        let selects = is(&self.filter.host, &controller.host_nqn)
            && is(&self.filter.subsystem, &controller.subsystem_nqn)
            && self.queues < QUEUES_MAX;
        self.queues += u32::from(selects);
        selects
    }

    /// Notes that a queue of which commands were traced is gone.
    pub(crate) fn end_queue(&mut self) {
        self.queues = self.queues.saturating_sub(1);
    }

    /// Returns whether the filter selects a command of a queue that is traced.
    #[inline]
    pub(crate) fn selects(&self, nsid: u32, class: Class) -> bool {
        self.filter.nsid.is_none_or(|only| only == nsid)
            && self.filter.class.is_none_or(|only| only == class)
    }

    /// Returns whether a command that was answered after `elapsed` ns is traced further, as far as the number of traced
    /// commands per second allows. A faster command than the filter selects may yet be slow to send; half of the
    /// burst is left to commands that are slow already.
    #[inline]
    pub(crate) fn takes(&mut self, now: Nanos, elapsed: u64) -> bool {
        let is_slow = elapsed >= self.filter.slower_than;
        let more = now.ns_since(self.refilled);
        (self.credit, self.refilled) = (self.credit.saturating_add(more).min(CREDIT_MAX), now);
        let kept = if is_slow { 0 } else { CREDIT_MAX / 2 };
        if self.credit < kept + NS_PER_COMMAND {
            self.skipped = self.skipped.saturating_add(u32::from(is_slow));
            return false;
        }
        self.credit -= NS_PER_COMMAND;
        true
    }

    /// Takes the number of commands that were not traced since the last call.
    pub(crate) fn take_skipped(&mut self) -> u32 {
        std::mem::take(&mut self.skipped)
    }
}
