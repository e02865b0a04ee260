//! The workloads of an I/O queue: its host's commands by namespace and class. Each has statistics
//! that all queues of the host share.

use std::sync::Arc;

use arbitration::Class;

use super::counters::{IoStats, PerReactor};

/// A workload as a command names it: its place in its queue's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkloadId(u32);

/// A workload of a queue.
#[derive(Debug)]
struct Workload {
    nsid: u32,
    class: Class,
    stats: Arc<PerReactor>,
}

/// The workloads that commands of a queue have belonged to. None goes before the queue does, so that
/// a command that is in its device for long is counted as well.
#[derive(Debug, Default)]
pub(crate) struct Workloads(Vec<Workload>);

impl Workloads {
    /// Finds the workload of a namespace and class, and makes it with the statistics that `stats`
    /// returns where the queue had no such command before.
    #[cold]
    pub(crate) fn open(
        &mut self,
        nsid: u32,
        class: Class,
        stats: impl FnOnce() -> Arc<PerReactor>,
    ) -> WorkloadId {
        let known = self.0.iter().position(|known| known.nsid == nsid && known.class == class);
        let place = known.unwrap_or_else(|| {
            self.0.push(Workload { nsid, class, stats: stats() });
            self.0.len() - 1
        });
        WorkloadId(u32::try_from(place).unwrap_or(u32::MAX))
    }

    /// Returns a workload's statistics in a reactor.
    #[inline]
    pub(crate) fn stats(&self, id: Option<WorkloadId>, reactor: usize) -> Option<&IoStats> {
        self.0.get(id?.0 as usize)?.stats.get(reactor)
    }
}
