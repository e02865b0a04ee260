//! The commands of a queue that are not yet completed, with the progress of fetching their data:
//! the part that is the same for all transports.

use slab::Slab;

use super::SlotId;
use super::grants::{Grant, Grants};
use crate::nvme::{Cqe, Sqe, Status};

/// The kind of data that is still to come from the host for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaiting {
    /// No data: the command is the shell's.
    Nothing,
    /// In-capsule data.
    Capsule,
    /// Data that is being fetched.
    Fetched,
}

/// One outstanding command: the part that every command uses.
#[derive(Clone, Debug)]
struct Command {
    sqe: Sqe,
    awaiting: Awaiting,
    digest_ok: bool,
}

/// The part of a command that only one with data from the host uses.
#[derive(Clone, Debug, Default)]
struct Transfer {
    grants: Grants,
    /// A completion that waits until all of the command's data has arrived.
    deferred: Option<(u64, Status)>,
}

/// The result of the end of a piece of data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Progress {
    /// More data is on its way.
    More,
    /// All granted data has arrived, and the shell has to grant more.
    GrantEnd,
    /// All of the command's data is here.
    End { digest_ok: bool },
    /// All of the command's data is here, and so the command is complete: its completion waited for
    /// the data.
    Complete(Cqe),
}

/// The table of outstanding commands and the submission queue that they came by. The table grows
/// to the most that were outstanding at once.
#[derive(Debug)]
pub(crate) struct Commands {
    /// Table of commands. The slot that was freed last is taken first: its memory is still in the
    /// cache.
    commands: Slab<Command>,
    /// Transfers by the indexes of their commands.
    transfers: Vec<Transfer>,
    entries: u32,
    sq_flow_control: bool,
    /// Submission queue head: number of commands received, modulo the entries.
    head: u32,
}

impl Commands {
    /// Makes a queue that takes one command, the Connect.
    pub(crate) fn new() -> Self {
        Self {
            commands: Slab::new(),
            transfers: Vec::new(),
            entries: 1,
            sq_flow_control: true,
            head: 0,
        }
    }

    /// Sizes the queue.
    pub(crate) fn set_queue(&mut self, entries: u16, sq_flow_control: bool) {
        self.entries = u32::from(entries.max(1));
        self.head %= self.entries;
        self.sq_flow_control = sq_flow_control;
    }

    /// Returns the number of entries of the queue.
    pub(crate) fn entries(&self) -> u32 {
        self.entries
    }

    /// Returns whether completions tell the host how far its submission queue was read.
    #[inline]
    pub(crate) fn sq_flow_control(&self) -> bool {
        self.sq_flow_control
    }

    /// Accepts a command, unless as many are outstanding as the queue has entries.
    #[inline]
    pub(crate) fn take(&mut self, sqe: &Sqe) -> Option<SlotId> {
        if self.in_flight() >= self.entries as usize {
            return None;
        }
        let command = Command { sqe: *sqe, awaiting: Awaiting::Nothing, digest_ok: true };
        // The index is below the number of entries, which has 16 bits.
        let index = self.commands.insert(command);
        if index >= self.transfers.len() {
            self.transfers.push(Transfer::default());
        }
        self.head = if self.head + 1 >= self.entries { 0 } else { self.head + 1 };
        u16::try_from(index).ok().map(SlotId)
    }

    /// Returns the number of commands that are not completed.
    #[inline]
    pub(crate) fn in_flight(&self) -> usize {
        self.commands.len()
    }

    #[inline]
    fn get(&self, slot: SlotId) -> Option<&Command> {
        self.commands.get(slot.index())
    }

    /// Returns the command in that slot and the transfer of its data.
    fn receiving(&mut self, slot: SlotId) -> Option<(&mut Command, &mut Transfer)> {
        let command = self.commands.get_mut(slot.index())?;
        Some((command, self.transfers.get_mut(slot.index())?))
    }

    /// Returns the command in that slot, all zeroes if it holds none.
    #[inline]
    pub(crate) fn sqe_of(&self, slot: SlotId) -> &Sqe {
        static NO_COMMAND: Sqe = zerocopy::transmute!([0u8; 64]);
        self.get(slot).map_or(&NO_COMMAND, |command| &command.sqe)
    }

    /// Returns the identifier of the command in that slot.
    #[inline]
    pub(crate) fn cid(&self, slot: SlotId) -> u16 {
        self.sqe_of(slot).cid.get()
    }

    /// Returns the outstanding command with that identifier.
    pub(crate) fn find_cid(&self, cid: u16) -> Option<SlotId> {
        let (index, _) = self.commands.iter().find(|(_, command)| command.sqe.cid.get() == cid)?;
        u16::try_from(index).ok().map(SlotId)
    }

    /// Notes that the rest of a command's capsule is on its way.
    pub(crate) fn await_capsule(&mut self, slot: SlotId) {
        if let Some((command, _)) = self.receiving(slot) {
            command.awaiting = Awaiting::Capsule;
        }
    }

    /// Returns whether a command is there whose data events the shell still wants.
    #[inline]
    pub(crate) fn wants_data(&self, slot: SlotId) -> bool {
        let transfer = self.transfers.get(slot.index());
        self.get(slot).is_some() && transfer.is_some_and(|transfer| transfer.deferred.is_none())
    }

    /// Returns whether the slot holds a command.
    #[inline]
    pub(crate) fn holds(&self, slot: SlotId) -> bool {
        self.get(slot).is_some()
    }

    /// Returns the identifier of the command in that slot, and whether nothing of its data is on its way; `None` if the
    /// slot holds no command.
    #[inline]
    pub(crate) fn find(&self, slot: SlotId) -> Option<(u16, bool)> {
        let command = self.get(slot)?;
        Some((command.sqe.cid.get(), command.awaiting == Awaiting::Nothing))
    }

    /// Returns whether nothing of the command's data is on its way.
    #[inline]
    pub(crate) fn is_settled(&self, slot: SlotId) -> bool {
        self.get(slot).is_some_and(|command| command.awaiting == Awaiting::Nothing)
    }

    /// Begins the fetch of `length` bytes. Returns false where there is nothing to fetch.
    pub(crate) fn fetch(&mut self, slot: SlotId, length: u32, metered: bool) -> bool {
        let Some((command, transfer)) = self.receiving(slot) else { return false };
        if length == 0 || command.awaiting != Awaiting::Nothing {
            return false;
        }
        command.awaiting = Awaiting::Fetched;
        transfer.grants.start(length, metered);
        true
    }

    /// Opens the next grant of at most `most` bytes while fewer than `limit` are open, if grants
    /// are opened as `metered` says. Returns the grant's tag (from its index), offset and length.
    pub(crate) fn open_grant(
        &mut self,
        slot: SlotId,
        metered: bool,
        (limit, most): (u8, u32),
        tag: impl FnOnce(u8) -> u16,
    ) -> Option<(u16, u32, u32)> {
        let (command, transfer) = self.receiving(slot)?;
        if command.awaiting != Awaiting::Fetched || transfer.grants.metered() != metered {
            return None;
        }
        transfer.grants.open(limit, most, tag)
    }

    /// Returns the open grant at `index` of a command, if its tag is that one; with the command's
    /// identifier.
    pub(crate) fn find_grant(
        &mut self,
        slot: SlotId,
        index: u8,
        tag: u16,
    ) -> Option<(u16, &mut Grant)> {
        let (command, transfer) = self.receiving(slot)?;
        Some((command.sqe.cid.get(), transfer.grants.find(index, tag)?))
    }

    /// Ends a piece of a command's data.
    pub(crate) fn piece_end(&mut self, slot: SlotId, digest_ok: bool) -> Progress {
        let Some((command, transfer)) = self.receiving(slot) else { return Progress::More };
        command.digest_ok &= digest_ok;
        let digest_ok = command.digest_ok;
        let grants = &transfer.grants;
        if command.awaiting == Awaiting::Fetched && !grants.done() {
            let more = grants.metered() && grants.unasked() > 0 && grants.idle();
            return if more { Progress::GrantEnd } else { Progress::More };
        }
        command.awaiting = Awaiting::Nothing;
        let Some((result, status)) = transfer.deferred.take() else {
            return Progress::End { digest_ok };
        };
        self.complete(slot, result, status).map_or(Progress::More, Progress::Complete)
    }

    /// Completes a command and frees its slot. Returns `None` where the completion has to wait for
    /// data that is on its way, or the slot holds no command.
    #[inline]
    pub(crate) fn complete(&mut self, slot: SlotId, result: u64, status: Status) -> Option<Cqe> {
        if self.get(slot)?.awaiting != Awaiting::Nothing {
            return self.defer(slot, result, status);
        }
        let command = self.commands.try_remove(slot.index())?;
        let head = if self.sq_flow_control { u16::try_from(self.head).ok() } else { None };
        Some(Cqe::new(command.sqe.cid.get(), head.unwrap_or(u16::MAX), result, status))
    }

    #[cold]
    fn defer(&mut self, slot: SlotId, result: u64, status: Status) -> Option<Cqe> {
        let (command, transfer) = self.receiving(slot)?;
        if command.awaiting == Awaiting::Fetched {
            transfer.grants.stop();
            if transfer.grants.done() {
                // No data is on its way: this is a metered fetch between two grants.
                command.awaiting = Awaiting::Nothing;
                return self.complete(slot, result, status);
            }
        }
        transfer.deferred = Some((result, status));
        None
    }

    /// Frees the slot of a command that needs no completion any more.
    #[inline]
    pub(crate) fn release(&mut self, slot: SlotId) {
        self.commands.try_remove(slot.index());
    }
}
