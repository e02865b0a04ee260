//! Admission: the handling of more work than there is room for (docs/research/sources.md, D5: a full session says
//! when to retry). Hosts are held back first: the target does not read from them. If that goes on, and a host
//! supports Command Retry Delay, its commands are refused with a retry delay. So are commands that have waited for
//! [`WAIT_MAX`].

use std::collections::BTreeMap;
use std::sync::Arc;

use arbitration::overload::{
    HOST_TRIES, RetryDelays, Returned, SentBackTable, WAIT_MAX, command_key,
};
use arbitration::session::Session;
use fabric::Nanos;
use fabric::nvm::{BlockFormat, IoCommand};
use fabric::nvme::Sqe;
use fabric::queue::SlotId;

/// Time in ns for which a host is held back before its commands are refused.
const PATIENCE_NS: u64 = 100_000_000;

/// Number of commands that were sent back and are remembered for each connection: as many as its host can have
/// outstanding. Linux gives up after five retries, so a command that could not be counted is not sent back.
const SENT_BACK_MAX: usize = 1024;

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

/// The amount of work that a session's limits charge for a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount {
    /// Whether the command changes blocks.
    pub(crate) write: bool,
    /// Bytes of its data.
    pub(crate) bytes: u32,
}

/// A command that waited for too long and was sent back, for which its session's limits are made up.
#[derive(Debug)]
pub(crate) struct SentBack {
    pub(crate) session: Arc<Session>,
    pub(crate) write: bool,
    pub(crate) bytes: u64,
}

/// The admission state of one connection.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// Time at which the host was first held back.
    held_since: Option<Nanos>,
    /// Commands that were sent back with a retry delay.
    sent_back: Option<SentBackTable<Option<SentBack>>>,
    /// For each slot whose last command had come again, how often that command was sent back.
    returned: BTreeMap<SlotId, u8>,
}

impl Amount {
    pub(crate) fn new(command: &IoCommand, format: BlockFormat) -> Self {
        Self { write: command.changes_blocks(), bytes: command.transfer(format).bytes() }
    }
}

impl SentBack {
    pub(crate) fn new(session: &Arc<Session>, Amount { write, bytes }: Amount) -> Self {
        Self { session: Arc::clone(session), write, bytes: bytes.into() }
    }
}

impl Admission {
    /// Returns whether the host must not be read from. `has_acre`: the host supports Command Retry Delay (Host
    /// Behavior Support, ACRE).
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

    /// Returns whether a command has come again, or others may.
    #[inline]
    pub(crate) fn knows(&self, slot: SlotId) -> bool {
        self.has_sent_back() || self.has_returned(slot)
    }

    fn has_sent_back(&self) -> bool {
        self.sent_back.as_ref().is_some_and(SentBackTable::has_out)
    }

    /// Notes that a command arrives, which may have been sent back with one of these delays.
    #[inline]
    pub(crate) fn arrives(&mut self, now: Nanos, (slot, sqe): (SlotId, &Sqe), delays: RetryDelays) {
        if self.has_sent_back() || !self.returned.is_empty() {
            self.look_for(now, (slot, sqe), delays);
        }
    }

    #[cold]
    fn look_for(&mut self, now: Nanos, (slot, sqe): (SlotId, &Sqe), delays: RetryDelays) {
        self.returned.remove(&slot);
        let table = self.sent_back.as_mut();
        let Some(Returned { times, with }) =
            table.and_then(|table| table.take(now, key(sqe), delays))
        else {
            return;
        };
        self.returned.insert(slot, times);
        if let Some(SentBack { session, write, bytes }) = with {
            session.came_again(now, write, bytes);
        }
    }

    /// Returns whether a command has come again.
    pub(crate) fn has_returned(&self, slot: SlotId) -> bool {
        self.returned.contains_key(&slot)
    }

    /// Returns whether the host would fail a command if it were sent back once more.
    pub(crate) fn is_last_try(&self, slot: SlotId) -> bool {
        self.returned.get(&slot).is_some_and(|times| *times >= HOST_TRIES - 1)
    }

    /// Notes that a command is answered and will not be sent back.
    #[inline]
    pub(crate) fn answered(&mut self, slot: SlotId) {
        if !self.returned.is_empty() {
            self.returned.remove(&slot);
        }
    }

    /// Returns whether a command waits on: its host would fail it if it were sent back, or it could not be counted.
    pub(crate) fn stays(&mut self, now: Nanos, slot: SlotId) -> bool {
        self.is_last_try(slot) || self.room(now) == 0
    }

    /// Returns how many commands may be sent back now.
    pub(crate) fn room(&mut self, now: Nanos) -> usize {
        self.sent_back.as_mut().map_or(SENT_BACK_MAX, |table| table.room(now))
    }

    /// Notes that a command is sent back; `limited` is `None` where no limit is made up for it. Returns
    /// false where there is no room to remember it.
    pub(crate) fn note_sent_back(
        &mut self,
        now: Nanos,
        slot: SlotId,
        sqe: &Sqe,
        limited: Option<SentBack>,
    ) -> bool {
        let times = self.returned.remove(&slot).unwrap_or(0).saturating_add(1);
        let table = self.sent_back.get_or_insert_with(|| SentBackTable::new(SENT_BACK_MAX));
        table.note(now, key(sqe), times, limited)
    }

    /// Forgets the commands that were sent back: the connection ends, and none comes again over it.
    pub(crate) fn leave(&mut self) {
        let all = self.sent_back.take().into_iter().flat_map(SentBackTable::into_all);
        for SentBack { session, write, bytes } in all.flatten() {
            session.lose_sent_back(write, bytes);
        }
    }

    /// Returns whether the host was held back long enough for its commands to be refused.
    pub(crate) fn was_patient(&self, now: Nanos) -> bool {
        self.held_since.is_some_and(|since| now.ns_since(since) > PATIENCE_NS)
    }
}

/// Chooses the delay (CRD) after which there is likely to be room in a session; 0: at once.
pub(crate) fn retry_delay(now: Nanos, session: &Session, write: bool, delays: RetryDelays) -> u8 {
    let here = session.backlog.expected_wait(now);
    delays.choose(here.saturating_add(session.wait_behind_sent_back(now, write)))
}

/// Returns for how many ns a command may wait in the target, when others have waited for `unread` ns
/// to be read.
pub(crate) fn wait_max(unread: u64) -> u64 {
    WAIT_MAX.saturating_sub(unread)
}

/// Returns the time by which hosts have sent a command again that is sent back now with this delay
/// (CRD).
pub(crate) fn comes_again_by(now: Nanos, delays: RetryDelays, delay: u8) -> Nanos {
    now.after(delays.ns(delay).saturating_add(WAIT_MAX))
}

/// Returns the key that identifies a command when it is sent again.
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
        Sqe { opcode: 2, cdw10: lba.into(), ..Sqe::default() }
    }

    #[test]
    fn d5_a_host_is_held_back_before_its_commands_are_refused() {
        let mut admission = Admission::default();
        assert!(admission.holds_back(Nanos(0), Fullness::Full, true));
        assert!(!admission.was_patient(Nanos(50 * MS)), "held back for 50 ms only");
        assert!(admission.holds_back(Nanos(100 * MS), Fullness::Full, true));
        assert!(!admission.holds_back(Nanos(101 * MS), Fullness::Full, true), "it may send again");
        assert!(admission.was_patient(Nanos(101 * MS)));
        let arrives = |admission: &mut Admission, slot, lba| {
            admission.arrives(Nanos(102 * MS), (SlotId(slot), &read(lba)), RetryDelays::DEFAULT);
            admission.has_returned(SlotId(slot))
        };
        assert!(!arrives(&mut admission, 1, 1));
        assert!(admission.note_sent_back(Nanos(101 * MS), SlotId(1), &read(1), None));
        assert!(!arrives(&mut admission, 1, 2));
        assert!(arrives(&mut admission, 3, 1) && !admission.is_last_try(SlotId(3)));
        assert!(!arrives(&mut admission, 4, 1), "it was sent back once");
        assert!(!arrives(&mut admission, 3, 1), "another command in its slot");
        assert!(admission.holds_back(Nanos(103 * MS), Fullness::Over, true), "no room to refuse");
    }

    #[test]
    fn d5_patience_begins_again_once_there_was_room() {
        let mut admission = Admission::default();
        assert!(admission.holds_back(Nanos(0), Fullness::Full, true));
        assert!(!admission.holds_back(Nanos(90 * MS), Fullness::Room, true));
        assert!(admission.holds_back(Nanos(110 * MS), Fullness::Full, true));
        assert!(admission.holds_back(Nanos(200 * MS), Fullness::Full, true));
        assert!(!admission.was_patient(Nanos(200 * MS)));
    }
}
