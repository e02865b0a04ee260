//! More work than there is room for (docs/sources.md, D5: a full session says when to come again):
//! hosts are held back first, by not reading from them; where that goes on, and a host understands
//! it, its commands are told when to come again.

use std::sync::atomic::Ordering;

use arbitration::overload::{RefusedOnce, RetryDelays, command_key};
use fabric::nvme::{Sqe, Status};

use crate::connection::{Connection, Stage};
use crate::context::Context;
use crate::driver::Driver;
use crate::ordered::Charged;

/// How long a host is held back before its commands are refused, in ns.
const PATIENCE_NS: u64 = 100_000_000;

/// Refused commands that are remembered for each connection. None is refused a second time, for
/// a Linux host gives up after five; with all places taken none is refused at all.
const REFUSED_MAX: usize = 256;

/// What Identify says of the delays.
pub const RETRY_DELAYS: RetryDelays = RetryDelays::DEFAULT;

/// A command as it comes again.
fn key(sqe: &Sqe) -> u64 {
    // NLB, bits 15:0 of CDW12.
    let [low, high, ..] = sqe.cdw12.get().to_le_bytes();
    command_key(sqe.opcode, sqe.nsid.get(), sqe.slba(), u16::from_le_bytes([low, high]))
}

impl<D: Driver> Connection<D> {
    /// Whether the host understands Command Retry Delay (Host Behavior Support, ACRE).
    fn comes_again(&self) -> bool {
        let Stage::Io(queue) = &self.stage else { return false };
        queue.shared.acre.load(Ordering::Relaxed)
    }

    fn was_patient(&self, io: &Context<D>) -> bool {
        self.held_since.is_some_and(|since| io.now.0.saturating_sub(since.0) > PATIENCE_NS)
    }

    /// Whether nothing is to be read from this host, because as much of its session's work waits
    /// as may, or as much as the target has room for.
    #[cold]
    pub(crate) fn is_held_back(&mut self, io: &Context<D>) -> bool {
        let Stage::Io(queue) = &self.stage else { return false };
        if io.arbiter.waiting() >= io.waiting_max {
            return true;
        }
        if io.is_part_of_capsules(self.in_capsules) {
            return true;
        }
        if !queue.lanes.is_full(io) {
            self.held_since = None;
            return false;
        }
        if self.was_patient(io) && self.comes_again() && !queue.lanes.is_over(io) {
            return false;
        }
        self.held_since.get_or_insert(io.now);
        true
    }

    /// Whether a command is to be told to come again later.
    #[cold]
    pub(crate) fn refuses(&mut self, io: &Context<D>, sqe: &Sqe, charged: &Charged) -> bool {
        let session = charged.flow.and_then(|flow| io.arbiter.session_of(flow));
        if !session.is_some_and(|session| session.backlog.is_full()) {
            return false;
        }
        let refuses = self.was_patient(io) && self.comes_again();
        let (now, key) = (io.now, key(sqe));
        if !refuses && self.refused.is_none() {
            return false;
        }
        let refused = self.refused.get_or_insert_with(|| RefusedOnce::new(REFUSED_MAX));
        !refused.take(now, key) && refuses && refused.note(now, key)
    }

    /// The status that tells a host to come again, when there is likely to be room.
    #[cold]
    pub(crate) fn retry_later(&self, io: &Context<D>, charged: &Charged) -> Status {
        let mut wait = 0;
        if let Some(session) = charged.flow.and_then(|flow| io.arbiter.session_of(flow)) {
            session.backlog.note_refused();
            wait = session.backlog.expected_wait(io.now);
        }
        if let Some(stats) = io.driver.class_stats(charged.class) {
            stats.refuse();
        }
        Status::COMMAND_INTERRUPTED.with_retry_delay(RETRY_DELAYS.choose(wait))
    }
}
