//! The parameters of the target's queue pairs.

use fabric::rdma::wire::QueueParams;

/// RDMA READs that a queue pair has out at once, as the daemon has them.
const READS: u16 = 16;
/// Work requests for each command of a queue: its data's, in two parts, and its response's.
const POSTS: u16 = 3;
/// Most bytes of one RDMA READ.
const MOST: u32 = 1 << 30;

/// The parameters of queue pairs.
#[derive(Clone, Copy, Debug)]
pub(super) struct PairParams {
    /// Entries of the admin queue, and of an I/O queue.
    pub(super) entries: (u16, u16),
    /// The most in-capsule data of an I/O command, bytes.
    pub(super) in_capsule_data: u32,
}

impl PairParams {
    /// Returns the parameters of a queue.
    pub(super) fn of(self, qid: u16) -> QueueParams {
        let (entries, in_capsule_data) = match qid {
            0 => (self.entries.0, 0),
            _ => (self.entries.1, self.in_capsule_data),
        };
        let posts = entries.saturating_mul(POSTS);
        QueueParams { qid, entries, in_capsule_data, reads: READS, max_read: MOST, posts }
    }
}
