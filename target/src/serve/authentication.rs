//! The work of authentications, which takes up to 40 ms of CPU time for a host: it waits in a bounded
//! queue for a thread of its own, off the reactors and off the service's lock.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use fabric::controller::ConnectionId;
use fabric::dhchap::{RANDOM_BYTES, Random, Work, WorkResult};

use zeroize::Zeroizing;

use crate::sys::sync::lock;

/// Pieces of work that may wait. At the largest group they are done within 20 s. A host that finds no room must try
/// again.
const WAITING: usize = 1024;
/// The time within which the end of the daemon is noticed.
const LONGEST: Duration = Duration::from_millis(200);

/// The work that waits, in the order in which it came.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    waiting: Mutex<VecDeque<(ConnectionId, Work)>>,
    came: Condvar,
}

impl WorkQueue {
    /// Puts a piece of work behind the others. Returns false where there is no room.
    pub(crate) fn put(&self, connection: ConnectionId, work: Work) -> bool {
        let mut waiting = lock(&self.waiting);
        if waiting.len() >= WAITING {
            return false;
        }
        waiting.push_back((connection, work));
        drop(waiting);
        self.came.notify_one();
        true
    }

    /// Takes the first piece of work. `None` where none has come for a while.
    pub(crate) fn take(&self) -> Option<(ConnectionId, Work)> {
        let waiting = lock(&self.waiting);
        let none = |waiting: &mut VecDeque<_>| waiting.is_empty();
        let waited = self.came.wait_timeout_while(waiting, LONGEST, none);
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.pop_front()
    }
}

/// Carries out a piece of work with random bytes of the kernel; `None` where it has none.
pub(crate) fn carry_out(work: Work) -> Option<WorkResult> {
    let mut bytes = Zeroizing::new([0; RANDOM_BYTES]);
    match getrandom::fill(bytes.as_mut_slice()) {
        Ok(()) => Some(work.run(&Random::new(*bytes))),
        Err(error) => {
            tracing::error!(%error, "the kernel gives no random bytes: no host can authenticate");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use fabric::dhchap::Group;

    use super::*;

    #[test]
    fn work_is_done_in_its_order_and_no_more_of_it_waits_than_there_is_room_for() {
        let queue = WorkQueue::default();
        let work = || Work::draw(Group::Null);
        for id in 0..WAITING as u64 {
            assert!(queue.put(ConnectionId(id), work()));
        }
        assert!(!queue.put(ConnectionId(9999), work()));
        for id in 0..WAITING as u64 {
            assert_eq!(queue.take().map(|(connection, _)| connection), Some(ConnectionId(id)));
        }
        assert!(queue.take().is_none());
        assert!(queue.put(ConnectionId(1), work()));
        assert!(carry_out(queue.take().unwrap().1).is_some());
    }
}
