//! Admission: what happens when there is more work than room (docs/sources.md, D5: a full session
//! says when to retry). Hosts are held back first: the target does not read from them. Where
//! that goes on, and a host understands Command Retry Delay, its commands are told when to
//! retry.

use arbitration::overload::{Backlog, RefusedOnce, RetryDelays, command_key};
use fabric::Nanos;
use fabric::nvme::{Sqe, Status};

/// Time in ns for which a host is held back before its commands are refused.
const PATIENCE_NS: u64 = 100_000_000;

/// Number of refused commands that are remembered for each connection. No command is refused a
/// second time, for a Linux host gives up after five refusals; with all places taken no command is
/// refused at all.
const REFUSED_MAX: usize = 256;

/// The fullness of the sessions of a host's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fullness {
    /// There is room.
    Room,
    /// As many commands wait as may wait.
    Full,
    /// Twice as many commands wait as may wait.
    Over,
}

/// What one connection has seen of a full target.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// Time at which the host was first held back.
    held_since: Option<Nanos>,
    /// Commands that were told to retry later.
    refused: Option<RefusedOnce>,
}

impl Admission {
    /// Says whether the host must not be read from. `has_acre` says that the host understands
    /// Command Retry Delay (Host Behavior Support, ACRE).
    pub(crate) fn holds_back(&mut self, now: Nanos, fullness: Fullness, has_acre: bool) -> bool {
        if fullness == Fullness::Room {
            self.held_since = None;
            return false;
        }
        if self.was_patient(now) && has_acre && fullness == Fullness::Full {
            return false;
        }
        self.held_since.get_or_insert(now);
        true
    }

    /// Says whether a command of a session with a full backlog is told to retry later.
    pub(crate) fn refuses(&mut self, now: Nanos, sqe: &Sqe, has_acre: bool) -> bool {
        let refuses = self.was_patient(now) && has_acre;
        if !refuses && self.refused.is_none() {
            return false;
        }
        let key = key(sqe);
        let refused = self.refused.get_or_insert_with(|| RefusedOnce::new(REFUSED_MAX));
        !refused.take(now, key) && refuses && refused.note(now, key)
    }

    fn was_patient(&self, now: Nanos) -> bool {
        self.held_since.is_some_and(|since| now.ns_since(since) > PATIENCE_NS)
    }
}

/// Returns the status that tells a host to retry when there is likely to be room in a backlog.
pub(crate) fn retry_later(now: Nanos, backlog: &Backlog, delays: RetryDelays) -> Status {
    backlog.note_refused();
    Status::COMMAND_INTERRUPTED.with_retry_delay(delays.choose(backlog.expected_wait(now)))
}

/// Returns what a command is known by when it is sent again.
fn key(sqe: &Sqe) -> u64 {
    // NLB, bits 15:0 of CDW12.
    let [low, high, ..] = sqe.cdw12.get().to_le_bytes();
    command_key(sqe.opcode, sqe.nsid.get(), sqe.slba(), u16::from_le_bytes([low, high]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn read(lba: u32) -> Sqe {
        let mut sqe = Sqe { opcode: 2, ..Sqe::default() };
        sqe.cdw10 = lba.into();
        sqe
    }

    #[test]
    fn d5_a_host_is_held_back_before_its_commands_are_refused() {
        let mut admission = Admission::default();
        assert!(admission.holds_back(Nanos(0), Fullness::Full, true));
        assert!(!admission.refuses(Nanos(50 * MS), &read(1), true), "held back for 50 ms only");
        assert!(admission.holds_back(Nanos(100 * MS), Fullness::Full, true));
        assert!(!admission.holds_back(Nanos(101 * MS), Fullness::Full, true), "it may send again");
        assert!(admission.refuses(Nanos(101 * MS), &read(1), true));
        assert!(!admission.refuses(Nanos(102 * MS), &read(1), true), "none is refused twice");
        assert!(admission.refuses(Nanos(102 * MS), &read(2), true));
        assert!(admission.holds_back(Nanos(103 * MS), Fullness::Over, true), "no room to refuse");
    }

    #[test]
    fn d5_who_does_not_understand_delays_is_held_back_for_as_long_as_it_takes() {
        let mut admission = Admission::default();
        for ms in 0..10_000 {
            assert!(admission.holds_back(Nanos(ms * MS), Fullness::Full, false));
            assert!(!admission.refuses(Nanos(ms * MS), &read(1), false));
        }
    }

    #[test]
    fn d5_patience_begins_again_once_there_was_room() {
        let mut admission = Admission::default();
        assert!(admission.holds_back(Nanos(0), Fullness::Full, true));
        assert!(!admission.holds_back(Nanos(90 * MS), Fullness::Room, true));
        assert!(admission.holds_back(Nanos(110 * MS), Fullness::Full, true));
        assert!(admission.holds_back(Nanos(200 * MS), Fullness::Full, true));
        assert!(!admission.refuses(Nanos(200 * MS), &read(1), true));
    }

    #[test]
    fn d5_a_host_is_told_to_come_when_there_is_room() {
        let backlog = Backlog::new(100);
        for _ in 0..100 {
            backlog.entered();
        }
        // One command leaves each 10 ms: the last of the hundred has a second to wait.
        for ms in (0..2000_u64).step_by(10) {
            backlog.left(Nanos(ms * MS), 1_000_000_000);
            backlog.entered();
        }
        let status = retry_later(Nanos(2000 * MS), &backlog, RetryDelays::DEFAULT);
        assert!(!status.is_dnr());
        let delay = RetryDelays::DEFAULT.choose(backlog.expected_wait(Nanos(2000 * MS)));
        assert!((1..=3).contains(&delay), "one of the three that Identify names");
        assert_eq!(status, Status::COMMAND_INTERRUPTED.with_retry_delay(delay));
        assert_ne!(status, Status::COMMAND_INTERRUPTED);
        assert_eq!(backlog.refused(), 1);
    }
}
