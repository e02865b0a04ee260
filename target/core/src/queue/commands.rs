//! The commands of a connection: the state of each, and the resources that it holds.
//!
//! States change in [`Commands::change`], which knows the permitted transitions ([`Kind::next`]; drawn in
//! ARCHITECTURE.md). A command's resources are part of its state, so code that takes a state out must dispose of
//! them.

use std::fmt;
use std::sync::Arc;

use arbitration::arbiter::{Announced, EntryId};
use arbitration::memory::{MemoryEntryId, MemoryGrant};
use arbitration::overload::WAIT_MAX;
use fabric::Nanos;
use fabric::nvm::{IoCommand, Transfer};
use fabric::nvme::Status;
use fabric::queue::SlotId;

use super::progress::Owed;
use super::sliced::Sliced;
use crate::machine::device::BlockDevice as _;
use crate::machine::driver::{Buffer, DataPlace, Driver};
use crate::memory::admin_data::AdminBuffer;
use crate::memory::budget::Promise;
use crate::memory::held::Held;
use crate::memory::lease::Lease;
use crate::stats::charge::Charge;
use crate::trace::Part;
use crate::trace::stamps::Stamps;

/// Large commands of a queue at one namespace that progress at once. The others follow in their order, so that some
/// complete early however long all of them take.
const SLICED_AT_ONCE: usize = 4;

/// The state of a command.
#[derive(Debug)]
pub(crate) enum State<D: Driver> {
    /// The slot holds no command.
    Free,
    /// The state was taken out; the caller sets the next one.
    Taken,
    /// An admin command's data arrives.
    Collecting(AdminBuffer),
    /// The service answers the command later (asynchronous event request, abort).
    Deferred,
    /// The command ends with this status once all of the host's data has arrived.
    Failing(Status),
    /// The command waits until its host may be asked for more data.
    R2tTurn,
    /// The command waits for its turn to have memory for the host's data.
    MemoryTurn(MemoryEntryId),
    /// The command waits for a buffer for the host's data, which has not been asked for.
    DataBuffer(MemoryGrant),
    /// The host was asked for data for which there will be a buffer when it comes.
    Promised(Promise, MemoryGrant),
    /// The host's data arrives in this buffer.
    Filling(Buffer<D>, Source),
    /// The driver receives the host's data into the command's buffer, and has it.
    Lent(Source),
    /// The host's data arrives, or is there, and no buffer is free for that data after all.
    Parked(
        Vec<u8>,
        #[expect(dead_code, reason = "what was promised is held until the state is left")] Promise,
        MemoryGrant,
    ),
    /// The command waits for its turn at its device, with the host's data.
    DeviceTurn(EntryId, Option<Buffer<D>>, Source),
    /// The command waits for its turn to get memory for its read data.
    ReadTurn(MemoryEntryId),
    /// The command has memory for its read data, and waits for a contiguous buffer.
    ReadBuffer(Lease),
    /// The command is in its device, or waits for memory that its device needs.
    InDevice,
    /// The command is carried out slice by slice, and is between two slices or has not begun.
    Slicing(Box<Sliced>),
    /// The command's next slice waits for its turn at the device.
    SliceTurn(Box<Sliced>, EntryId),
    /// A slice of the command is in its device, or waits for memory that the device needs.
    SliceInDevice(Box<Sliced>),
    /// The command's status is known without its device, and waits since that time for the turn that
    /// it costs.
    AnswerTurn(EntryId, Status, Nanos),
    /// The command holds nothing any more: its connection ends.
    Withdrawn,
}

/// The origin of a command's data, with its grant or lease of memory.
#[derive(Debug)]
pub(crate) enum Source {
    /// The command has no data of the host.
    None,
    /// The capsule brought the data.
    Capsule(Lease),
    /// The host was asked for the data.
    Fetched(MemoryGrant),
    /// The command has no data of the host: the buffer is for its read data.
    Read(Lease),
    /// The command reads blocks that its device holds, and needs no buffer.
    Held(Lease, Held),
}

impl Source {
    /// Takes the grant that goes back to the memory for data.
    pub(crate) fn grant(self) -> Option<MemoryGrant> {
        self.parts().0
    }

    /// Splits the source into the buffer's grant of memory for data that hosts are asked for, its lease
    /// of memory for reads or in-capsule data, and the blocks that the device holds.
    #[inline]
    pub(crate) fn parts(self) -> (Option<MemoryGrant>, Option<Lease>, Option<Held>) {
        match self {
            Self::Fetched(grant) => (Some(grant), None, None),
            Self::Read(lease) | Self::Capsule(lease) => (None, Some(lease), None),
            Self::Held(lease, blocks) => (None, Some(lease), Some(blocks)),
            Self::None => (None, None, None),
        }
    }
}

units::named! {
    /// The states without their contents.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) enum Kind {
        Free => "free",
        Collecting => "collecting",
        Deferred => "deferred",
        Failing => "failing",
        R2tTurn => "r2t_turn",
        MemoryTurn => "memory_turn",
        DataBuffer => "data_buffer",
        Promised => "promised",
        Filling => "filling",
        Lent => "lent",
        Parked => "parked",
        DeviceTurn => "device_turn",
        ReadTurn => "read_turn",
        ReadBuffer => "read_buffer",
        InDevice => "in_device",
        Slicing => "slicing",
        SliceTurn => "slice_turn",
        SliceInDevice => "slice_in_device",
        AnswerTurn => "answer_turn",
        Withdrawn => "withdrawn",
    }
}

impl Kind {
    /// Returns the states that may follow. A new command comes from [`Self::Free`]; an answered one returns there.
    fn next(self) -> &'static [Self] {
        use Kind::*;
        match self {
            Free => &[
                Collecting, Deferred, Failing, R2tTurn, MemoryTurn, Filling, DeviceTurn, ReadTurn,
                ReadBuffer, InDevice, Slicing, AnswerTurn, Free,
            ],
            Failing => &[AnswerTurn, Free, Withdrawn],
            Collecting | Deferred | AnswerTurn => &[Free, Withdrawn],
            R2tTurn => &[MemoryTurn, Free, Withdrawn],
            MemoryTurn => &[DataBuffer, Free, Withdrawn],
            DataBuffer => &[Promised, Filling, Free, Withdrawn],
            Promised => &[Filling, Parked, Free, Withdrawn],
            Filling => &[Lent, DeviceTurn, InDevice, Slicing, AnswerTurn, Free, Withdrawn],
            Lent => &[Filling, Free, Withdrawn],
            Parked => &[DeviceTurn, InDevice, Slicing, AnswerTurn, Free, Withdrawn],
            DeviceTurn => &[ReadTurn, ReadBuffer, InDevice, Free, Withdrawn],
            ReadTurn => &[ReadBuffer, DeviceTurn, InDevice, Free, Withdrawn],
            ReadBuffer => &[DeviceTurn, InDevice, Free, Withdrawn],
            InDevice => &[Free],
            Slicing => &[SliceTurn, SliceInDevice, Slicing, Free, Withdrawn],
            SliceTurn => &[SliceInDevice, Slicing, Free, Withdrawn],
            SliceInDevice => &[Slicing, Free],
            Withdrawn => &[Free],
        }
    }

    /// Returns the part of its time that a command in the state is in. Turns at a device count as [`Part::Order`]
    /// until the arbiter has divided them by their reasons.
    const fn part(self) -> Part {
        match self {
            Self::R2tTurn => Part::R2t,
            Self::MemoryTurn | Self::ReadTurn => Part::Memory,
            Self::DataBuffer | Self::ReadBuffer | Self::Parked => Part::Buffer,
            Self::Promised
            | Self::Filling
            | Self::Lent
            | Self::Failing
            | Self::Collecting
            | Self::Deferred => Part::Data,
            Self::DeviceTurn | Self::Slicing | Self::SliceTurn | Self::AnswerTurn => Part::Order,
            Self::InDevice | Self::SliceInDevice => Part::Device,
            Self::Free | Self::Withdrawn => Part::Reply,
        }
    }
}

impl<D: Driver> State<D> {
    /// Returns the kind of the state; `None` while the state is taken.
    fn kind(&self) -> Option<Kind> {
        Some(match self {
            Self::Taken => return None,
            Self::Free => Kind::Free,
            Self::Collecting(_) => Kind::Collecting,
            Self::Deferred => Kind::Deferred,
            Self::Failing(_) => Kind::Failing,
            Self::R2tTurn => Kind::R2tTurn,
            Self::MemoryTurn(_) => Kind::MemoryTurn,
            Self::DataBuffer(_) => Kind::DataBuffer,
            Self::Promised(..) => Kind::Promised,
            Self::Filling(..) => Kind::Filling,
            Self::Lent(_) => Kind::Lent,
            Self::Parked(..) => Kind::Parked,
            Self::DeviceTurn(..) => Kind::DeviceTurn,
            Self::ReadTurn(_) => Kind::ReadTurn,
            Self::ReadBuffer(_) => Kind::ReadBuffer,
            Self::InDevice => Kind::InDevice,
            Self::Slicing(_) => Kind::Slicing,
            Self::SliceTurn(..) => Kind::SliceTurn,
            Self::SliceInDevice(_) => Kind::SliceInDevice,
            Self::AnswerTurn(..) => Kind::AnswerTurn,
            Self::Withdrawn => Kind::Withdrawn,
        })
    }
}

/// The facts of an I/O command that hold in any state.
#[derive(Debug)]
pub(crate) struct Command<D: Driver> {
    pub(crate) command: IoCommand,
    pub(crate) device: Arc<D::Device>,
    /// The earliest time at which its host can have sent it.
    pub(crate) sent: Nanos,
    pub(crate) arrived: Nanos,
    pub(crate) charge: Charge,
    /// Whether the command is charged to the limits of its session already, and does not wait for them: its host
    /// resent it after a reconnect, or sent it for the last time.
    pub(crate) past_limits: bool,
    /// The command's announcement to the arbiter, while it waits for memory or its host's data.
    pub(crate) announced: Option<Announced>,
}

/// One slot of the table.
#[derive(Debug)]
struct Slot<D: Driver> {
    state: State<D>,
    /// Kind of the state that was taken out.
    from: Kind,
    /// Time at which the host was asked for data that it owes.
    asked: Option<Nanos>,
    /// The command, where it is one of an I/O queue that was accepted.
    command: Option<Command<D>>,
}

impl<D: Driver> Slot<D> {
    const FREE: Self = Self { state: State::Free, from: Kind::Free, asked: None, command: None };

    fn kind(&self) -> Kind {
        self.state.kind().unwrap_or(self.from)
    }
}

/// The number of commands in each state.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct StateCounts(
    /// Numbers by state. Free slots are not counted: the number of [`Kind::Free`] is 0 less all
    /// others, so that a change of state costs no more than two additions.
    [u64; Kind::ALL.len()],
);

impl fmt::Debug for StateCounts {
    /// Names the states that any commands are in, each with their number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().filter(|(_, count)| *count > 0)).finish()
    }
}

impl StateCounts {
    /// Number of states that a command may be in.
    pub const LEN: usize = Kind::ALL.len() - 1;

    /// Iterates over the states' names, each with the number of commands in that state.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Kind::ALL.into_iter().zip(self.0).skip(1).map(|(kind, count)| (kind.name(), count))
    }

    /// Returns the number of commands in a state.
    #[inline]
    pub(crate) fn of(&self, kind: Kind) -> u64 {
        self.0.get(kind as usize).copied().unwrap_or(0)
    }

    /// Returns the number of commands in all states.
    #[inline]
    pub(crate) fn all(&self) -> u64 {
        self.of(Kind::Free).wrapping_neg()
    }

    /// Adds the counts of other commands.
    pub(crate) fn add(&mut self, others: &Self) {
        for (count, other) in self.0.iter_mut().zip(others.0) {
            *count = count.wrapping_add(other);
        }
    }

    #[inline]
    fn moved(&mut self, from: Kind, to: Kind) {
        let counts = &mut self.0;
        if let Some(count) = counts.get_mut(from as usize) {
            *count = count.wrapping_sub(1);
        }
        if let Some(count) = counts.get_mut(to as usize) {
            *count = count.wrapping_add(1);
        }
    }
}

/// The commands of a connection, with as many slots as its queue has entries.
#[derive(Debug)]
pub(crate) struct Commands<D: Driver> {
    slots: Vec<Slot<D>>,
    counts: StateCounts,
    /// The stamps of traced commands; `None`: none is traced.
    pub(crate) stamps: Option<Box<Stamps>>,
}

impl<D: Driver> Default for Commands<D> {
    fn default() -> Self {
        Self { slots: Vec::new(), counts: StateCounts::default(), stamps: None }
    }
}

impl<D: Driver> Commands<D> {
    fn slot(&self, id: SlotId) -> Option<&Slot<D>> {
        self.slots.get(usize::from(id.0))
    }

    /// Returns the slot, made if it is new.
    #[inline]
    fn slot_mut(&mut self, id: SlotId) -> &mut Slot<D> {
        let index = usize::from(id.0);
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, || Slot::FREE);
        }
        #[expect(clippy::indexing_slicing, reason = "the line above made it")]
        &mut self.slots[index]
    }

    /// Inserts an I/O command into the table. The caller sets its state with [`Self::change`].
    #[inline]
    pub(crate) fn arrive(&mut self, id: SlotId, command: Command<D>) {
        let slot = self.slot_mut(id);
        debug_assert_eq!(slot.kind(), Kind::Free, "slot {id:?} holds a command");
        *slot = Slot { state: State::Taken, command: Some(command), ..Slot::FREE };
    }

    /// Inserts any other command: a refused one, or one of an admin queue.
    pub(crate) fn occupy(&mut self, id: SlotId, state: State<D>) {
        let slot = self.slot_mut(id);
        debug_assert_eq!(slot.kind(), Kind::Free, "slot {id:?} holds a command");
        let kind = state.kind().unwrap_or(Kind::Free);
        *slot = Slot { state, ..Slot::FREE };
        self.counts.moved(Kind::Free, kind);
    }

    /// Changes a command's state.
    #[inline]
    pub(crate) fn change(&mut self, now: Nanos, id: SlotId, to: State<D>) {
        let slot = self.slot_mut(id);
        let (from, kind) = (slot.kind(), to.kind());
        debug_assert!(
            kind.is_some_and(|kind| from.next().contains(&kind)),
            "{id:?}: {kind:?} cannot follow {from:?}"
        );
        slot.state = to;
        self.counts.moved(from, kind.unwrap_or(from));
        if let Some((stamps, kind)) = self.stamps.as_mut().zip(kind) {
            stamps.enter(now, id, kind.part());
        }
    }

    /// Notes the part of its time that a traced command enters without a change of its state.
    #[inline]
    pub(crate) fn note_part(&mut self, now: Nanos, id: SlotId, part: Part) {
        if let Some(stamps) = &mut self.stamps {
            stamps.enter(now, id, part);
        }
    }

    /// Takes the state out of a slot, with the command's resources. [`Self::change`] or [`Self::release`] follows.
    #[inline]
    pub(crate) fn take(&mut self, id: SlotId) -> State<D> {
        let slot = self.slot_mut(id);
        slot.from = slot.kind();
        std::mem::replace(&mut slot.state, State::Taken)
    }

    /// Restores a state that [`Self::take`] took out.
    pub(crate) fn put_back(&mut self, id: SlotId, state: State<D>) {
        let slot = self.slot_mut(id);
        debug_assert_eq!(state.kind(), Some(slot.from), "another state than was taken");
        slot.state = state;
    }

    /// Removes an answered command from the table. Returns its state, and the facts of an I/O command.
    #[inline]
    pub(crate) fn release(&mut self, id: SlotId) -> (State<D>, Option<Command<D>>) {
        let slot = self.slot_mut(id);
        let from = slot.kind();
        debug_assert!(from.next().contains(&Kind::Free), "{id:?}: answered as {from:?}");
        let Slot { state, command, .. } = std::mem::replace(slot, Slot::FREE);
        debug_assert!(
            command.as_ref().is_none_or(|command| command.announced.is_none()),
            "{id:?}: the announcement was not ended"
        );
        self.counts.moved(from, Kind::Free);
        (state, command)
    }

    /// Returns a command's state.
    #[inline]
    pub(crate) fn state(&self, id: SlotId) -> &State<D> {
        self.slot(id).map_or(&State::Free, |slot| &slot.state)
    }

    /// Returns the I/O command in a place.
    #[inline]
    pub(crate) fn command(&self, id: SlotId) -> Option<&Command<D>> {
        self.slot(id)?.command.as_ref()
    }

    /// Returns the I/O command in a place, to announce it.
    pub(crate) fn command_mut(&mut self, id: SlotId) -> Option<&mut Command<D>> {
        self.slots.get_mut(usize::from(id.0))?.command.as_mut()
    }

    /// Takes the announcement of the I/O command in a place.
    #[inline]
    pub(crate) fn take_announced(&mut self, id: SlotId) -> Option<Announced> {
        self.command_mut(id)?.announced.take()
    }

    /// Returns the number of bytes that the I/O command in a slot takes from its host.
    pub(crate) fn data_bytes(&self, id: SlotId) -> usize {
        match self.transfer(id) {
            Transfer::ToController(bytes) => bytes as usize,
            Transfer::ToHost(_) | Transfer::None => 0,
        }
    }

    /// Returns how many bytes the I/O command in a place reads for its host.
    #[inline]
    pub(crate) fn read_bytes(&self, id: SlotId) -> usize {
        match self.transfer(id) {
            Transfer::ToHost(bytes) => bytes as usize,
            Transfer::ToController(_) | Transfer::None => 0,
        }
    }

    #[inline]
    fn transfer(&self, id: SlotId) -> Transfer {
        self.command(id)
            .map_or(Transfer::None, |command| command.command.transfer(command.device.format()))
    }

    /// Takes the facts of an I/O command, when the command goes to its device.
    #[inline]
    pub(crate) fn take_command(&mut self, id: SlotId) -> Option<Command<D>> {
        self.slot_mut(id).command.take()
    }

    /// Returns the command in a slot of which a slice is in its device.
    pub(crate) fn slice_in_device(&mut self, id: SlotId) -> Option<&mut Sliced> {
        match &mut self.slots.get_mut(usize::from(id.0))?.state {
            State::SliceInDevice(sliced) => Some(sliced),
            _ => None,
        }
    }

    /// Returns the charge of the I/O command in a slot.
    #[inline]
    pub(crate) fn charge(&self, id: SlotId) -> Charge {
        self.command(id).map_or_else(Charge::default, |command| command.charge)
    }

    /// Replaces the charge of an I/O command.
    pub(crate) fn set_charge(&mut self, id: SlotId, charge: Charge) {
        if let Some(command) = &mut self.slot_mut(id).command {
            command.charge = charge;
        }
    }

    /// Counts the commands that wait for data from the host. Parked commands do not count: their data may be
    /// complete, and their memory has a bound of its own.
    pub(crate) fn awaiting_data(&self) -> u64 {
        [Kind::Promised, Kind::Filling, Kind::Lent, Kind::Collecting]
            .map(|kind| self.counts.of(kind))
            .iter()
            .sum()
    }

    /// Notes that a command's host was asked for data now, or (`is_asked` is false) owes none until it is asked again.
    pub(crate) fn expect_data(&mut self, now: Nanos, id: SlotId, is_asked: bool) {
        self.slot_mut(id).asked = is_asked.then_some(now);
        self.note_part(now, id, if is_asked { Part::Data } else { Part::R2t });
    }

    /// Adds up the data that the host owes.
    pub(crate) fn owed(&self) -> Owed {
        let mut owed = Owed::default();
        for id in self.ids() {
            let Some(slot) = self.slot(id) else { continue };
            let bytes = match &slot.state {
                State::Collecting(data) => data.len(),
                State::Promised(..) | State::Filling(..) | State::Lent(_) => self.data_bytes(id),
                _ => continue,
            };
            if let Some(asked) = slot.asked {
                owed.bytes += bytes as u64;
                owed.since = Some(owed.since.map_or(asked, |since| since.min(asked)));
            }
        }
        owed
    }

    /// Iterates over all slots.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SlotId> + use<D> {
        (0..u16::try_from(self.slots.len()).unwrap_or(u16::MAX)).map(SlotId)
    }

    /// Lists the commands that have waited longer than `wait_max` ns for a turn or a buffer, or longer than [`WAIT_MAX`]
    /// with the time in the connection, with no operation in progress. A partly executed command gets twice the time, since its host would repeat it from the start.
    /// ([`Self::overdue_answers`] lists commands in [`State::AnswerTurn`].)
    pub(crate) fn overdue(&self, now: Nanos, wait_max: u64) -> Vec<SlotId> {
        use Kind::*;
        let waits = [
            R2tTurn, MemoryTurn, DataBuffer, Filling, Parked, DeviceTurn, ReadTurn, ReadBuffer,
            Slicing, SliceTurn,
        ];
        if waits.iter().all(|kind| self.counts.of(*kind) == 0) {
            return Vec::new();
        }
        let is_overdue = |id: &SlotId| {
            let Some(slot) = self.slot(*id) else { return false };
            let factor = match &slot.state {
                // The host has sent all requested data; the next R2T waits for its turn.
                State::Filling(..) if slot.asked.is_none() => 2,
                State::Filling(..) => return false,
                // Its next slice is due.
                State::Slicing(sliced) if sliced.has_begun() => return false,
                State::SliceTurn(sliced, _) if sliced.has_begun() => 2,
                _ if waits.contains(&slot.kind()) => 1,
                _ => return false,
            };
            slot.command.as_ref().is_some_and(|command| {
                let since_arrival = now.ns_since(command.arrived);
                since_arrival > factor * wait_max || now.ns_since(command.sent) > factor * WAIT_MAX
            })
        };
        self.ids().filter(is_overdue).collect()
    }

    /// Lists the commands that have waited for more than `wait_max` ns for the turn that their answer
    /// costs, each with its status.
    pub(crate) fn overdue_answers(&self, now: Nanos, wait_max: u64) -> Vec<(SlotId, Status)> {
        if self.counts.of(Kind::AnswerTurn) == 0 {
            return Vec::new();
        }
        let overdue = |id: SlotId| match self.state(id) {
            State::AnswerTurn(_, status, since) if now.ns_since(*since) > wait_max => {
                Some((id, *status))
            }
            _ => None,
        };
        self.ids().filter_map(overdue).collect()
    }

    /// Returns the next large command that `is_wanted` selects and that is to request the turn of a slice. Commands
    /// that have begun come first, then the oldest. `None`: there is none, or [`SLICED_AT_ONCE`] are at their device.
    pub(crate) fn next_sliced(&self, is_wanted: impl Fn(SlotId) -> bool) -> Option<SlotId> {
        if self.counts.of(Kind::Slicing) == 0 {
            return None;
        }
        let wanted = || self.ids().filter(|id| is_wanted(*id));
        let is_at_device =
            |id: &SlotId| matches!(self.state(*id), State::SliceTurn(..) | State::SliceInDevice(_));
        if wanted().filter(is_at_device).count() >= SLICED_AT_ONCE {
            return None;
        }
        let order = |id: SlotId| match self.state(id) {
            State::Slicing(sliced) => Some((!sliced.has_begun(), self.command(id)?.arrived, id.0)),
            _ => None,
        };
        let (_, _, slot) = wanted().filter_map(order).min()?;
        Some(SlotId(slot))
    }

    /// Returns how many commands are in each state.
    pub(crate) fn counts(&self) -> &StateCounts {
        &self.counts
    }

    /// Counts the commands in the table that do not wait for something to happen (asynchronous event
    /// requests, aborts).
    pub(crate) fn at_work(&self) -> usize {
        usize::try_from(self.counts.all() - self.counts.of(Kind::Deferred)).unwrap_or(usize::MAX)
    }

    /// Returns the number of commands in the table.
    #[inline]
    pub(crate) fn active(&self) -> u32 {
        u32::try_from(self.counts.all()).unwrap_or(u32::MAX)
    }

    /// Returns whether a command's data arrives in its buffer.
    #[inline]
    pub(crate) fn is_filling(&self, id: SlotId) -> bool {
        matches!(self.state(id), State::Filling(..))
    }

    /// Lends a command's buffer, into which its data arrives, to the driver: for up to `length`
    /// bytes at `offset`.
    pub(crate) fn lend(
        &mut self,
        now: Nanos,
        slot: SlotId,
        offset: u32,
        length: u32,
    ) -> Option<DataPlace<Buffer<D>>> {
        if !self.is_filling(slot) {
            return None;
        }
        match self.take(slot) {
            State::Filling(buffer, source) => {
                self.change(now, slot, State::Lent(source));
                // A host may send more than the command needs (Dataset Management).
                let start = (offset as usize).min(buffer.len());
                let end = start.saturating_add(length as usize).min(buffer.len());
                Some(DataPlace { slot, buffer, range: start..end })
            }
            other => {
                self.put_back(slot, other);
                None
            }
        }
    }

    /// Takes a buffer back that was lent, unless the command was answered or withdrawn meanwhile.
    pub(crate) fn end_loan(&mut self, now: Nanos, slot: SlotId, buffer: Buffer<D>) {
        match self.take(slot) {
            State::Lent(source) => self.change(now, slot, State::Filling(buffer, source)),
            other => self.put_back(slot, other),
        }
    }

    /// Puts a piece of the host's data where it belongs.
    #[inline]
    pub(crate) fn fill(&mut self, id: SlotId, offset: u32, bytes: &[u8]) {
        let into: &mut [u8] = match &mut self.slot_mut(id).state {
            State::Filling(buffer, _) => buffer,
            State::Collecting(data) => data,
            State::Parked(data, ..) => data,
            _ => return,
        };
        // A host may send more than the command needs (Dataset Management).
        let room = into.get_mut(offset as usize..).unwrap_or_default();
        let length = room.len().min(bytes.len());
        if let (Some(to), Some(from)) = (room.get_mut(..length), bytes.get(..length)) {
            to.copy_from_slice(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_can_be_reached_and_ends() {
        let mut reached = vec![Kind::Free];
        while let Some(next) = Kind::ALL.into_iter().find(|kind| {
            !reached.contains(kind) && reached.iter().any(|from| from.next().contains(kind))
        }) {
            reached.push(next);
        }
        for kind in Kind::ALL {
            assert!(reached.contains(&kind), "{kind:?} cannot be reached");
            assert!(kind.next().contains(&Kind::Free), "{kind:?} cannot be answered");
        }
    }
}
