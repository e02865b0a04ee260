//! The layout of a segment. All of it is words, so any bytes are a valid segment: a value is checked
//! where it is used, and none is an index.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use arbitration::credit::{Caps, Cost};
use units::{Nanos, nanos};

use crate::word::{Bell, Word};

/// Processes that one segment has room for.
pub const PROCESSES: usize = 512;
/// Spots of the wait queue that one process has. Further ones of its [`crate::Spot`]s queue in the
/// process itself.
pub const SPOTS: usize = 16;
/// The longest time for which an allowance can be valid without being extended.
pub const LONGEST_VALIDITY: Duration = Duration::from_secs(600);

/// The first eight bytes of a segment.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"SLCREDIT");
/// The version of this layout.
pub(crate) const VERSION: u64 = 1;
/// The longest name of a session in bytes.
pub(crate) const LONGEST_NAME: usize = 255;

const _: () = assert!(size_of::<Header>() == 384);
const _: () = assert!(size_of::<Slot>() == 64);
const _: () = assert!(size_of::<SpotWords>() == 32);
const _: () = assert!(size_of::<Shared>() == 384 + PROCESSES * (64 + SPOTS * 32));

/// A segment.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Shared {
    pub(crate) header: Header,
    pub(crate) slots: [Slot; PROCESSES],
    /// Spots of the process in the slot with the same index.
    pub(crate) spots: [[SpotWords; SPOTS]; PROCESSES],
}

/// The part of a segment that belongs to no process.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Header {
    pub(crate) magic: Word,
    pub(crate) version: Word,
    /// Allowance in operations; `u32::MAX` and more: no cap.
    pub(crate) operations: Word,
    /// Allowance in KiB; `u64::MAX`: no cap.
    pub(crate) payload: Word,
    /// End of the allowance's validity, in ns of `CLOCK_BOOTTIME`.
    pub(crate) expiry: Word,
    /// 0 until the segment is closed.
    pub(crate) closed: Word,
    /// Slots that were ever in use: those from here on are empty.
    pub(crate) used_slots: Word,
    /// Process ID of the agent in its namespace, for messages alone.
    pub(crate) agent: Word,
    /// Length of the session's name, and the name.
    name: [AtomicU8; LONGEST_NAME + 1],
    /// Source of numbers that are used once: tickets and trials of spots.
    pub(crate) sequence: Word,
    /// Dead processes whose credits and spots were returned.
    pub(crate) reclaimed: Word,
    unused: [Word; 6],
}

/// The words of one process, in a cache line of their own.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Slot {
    /// Operations that the process holds, apart from its spots.
    pub(crate) operations: Word,
    /// KiB that the process holds, apart from its spots.
    pub(crate) payload: Word,
    /// Spots that may be in use: bit `i` is set before spot `i` is entered.
    pub(crate) spots: Word,
    /// Process ID in the process's own namespace; 0: none.
    pub(crate) process: Word,
    /// Commands that got credits, over all processes that used the slot.
    pub(crate) taken: Word,
    /// Commands that entered the wait queue, over all processes that used the slot.
    pub(crate) waited: Word,
    unused: [Word; 2],
}

/// A spot of the wait queue.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct SpotWords {
    /// [`State`].
    pub(crate) state: Word,
    /// Place in the order of arrival. The lowest is first.
    ticket: Word,
    /// Cost: operations in bits 63:32, KiB in bits 31:0.
    cost: Word,
    pub(crate) bell: Bell,
    unused: u32,
}

/// Phase of a spot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not in the queue.
    Empty,
    /// In the queue; its cost does not count as held.
    Waiting,
    /// In the queue; its cost counts as held while somebody finds out whether it fits.
    Trial,
    /// The process holds the cost.
    Ready,
}

/// A spot's state: the phase in bits 1:0, and above it a number that no other change to `Waiting` or
/// `Trial` has. Therefore a compare-exchange succeeds only if nothing has happened in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(pub(crate) u64);

impl State {
    pub(crate) const EMPTY: Self = Self(0);

    pub(crate) const fn new(phase: Phase, number: u64) -> Self {
        Self(number << 2 | phase as u64)
    }

    pub(crate) const fn phase(self) -> Phase {
        match self.0 & 3 {
            0 => Phase::Empty,
            1 => Phase::Waiting,
            2 => Phase::Trial,
            _ => Phase::Ready,
        }
    }

    pub(crate) const fn with(self, phase: Phase) -> Self {
        Self(self.0 & !3 | phase as u64)
    }
}

/// Index of a process's slot, below [`PROCESSES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat(usize);

impl Seat {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..PROCESSES).map(Self)
    }

    pub(crate) const fn index(self) -> usize {
        self.0
    }
}

impl SpotWords {
    /// Fills a spot that is empty.
    pub(crate) fn describe(&self, ticket: u64, cost: Cost) {
        self.ticket.store(ticket);
        self.cost.store(u64::from(cost.operations) << 32 | u64::from(cost.payload));
    }

    pub(crate) fn state(&self) -> State {
        State(self.state.load())
    }

    pub(crate) fn ticket(&self) -> u64 {
        self.ticket.load()
    }

    pub(crate) fn cost(&self) -> Cost {
        let word = self.cost.load();
        let low = |word: u64| u32::try_from(word & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        Cost { operations: low(word >> 32), payload: low(word) }
    }
}

impl Header {
    pub(crate) fn caps(&self) -> Caps {
        let operations = u32::try_from(self.operations.load()).unwrap_or(u32::MAX);
        Caps { operations, payload: self.payload.load() }
    }

    pub(crate) fn set_caps(&self, caps: Caps) {
        self.operations.store(u64::from(caps.operations));
        self.payload.store(caps.payload);
    }

    /// Makes the allowance valid until `validity` after `now`.
    pub(crate) fn extend(&self, now: Nanos, validity: Duration) {
        self.expiry.store(now.after(nanos(validity.min(LONGEST_VALIDITY))).0);
    }

    /// Returns the time in ns for which the allowance remains valid; 0 if it is not. An expiry further
    /// away than [`LONGEST_VALIDITY`] was not written by an agent, and is not valid either.
    #[inline]
    pub(crate) fn validity_ns(&self, now: Nanos) -> u64 {
        let left = Nanos(self.expiry.load()).ns_since(now);
        let is_valid = self.closed.load() == 0 && left <= nanos(LONGEST_VALIDITY);
        if is_valid { left } else { 0 }
    }

    /// Returns whether the allowance is enforced. Else every take succeeds.
    #[inline]
    pub(crate) fn is_enforced(&self, now: Nanos) -> bool {
        self.validity_ns(now) > 0
    }

    /// Writes the session's name, without bytes beyond the longest.
    pub(crate) fn set_name(&self, name: &str) {
        let length = name.len().min(LONGEST_NAME);
        let bytes = u8::try_from(length).ok().into_iter().chain(name.bytes());
        for (word, byte) in self.name.iter().zip(bytes) {
            word.store(byte, Relaxed);
        }
    }

    /// Returns the session's name; bytes that are no UTF-8 are replaced.
    pub(crate) fn name(&self) -> String {
        let mut bytes = self.name.iter().map(|byte| byte.load(Relaxed));
        let length = bytes.next().map_or(0, usize::from);
        String::from_utf8_lossy(&bytes.take(length).collect::<Vec<_>>()).into_owned()
    }
}

impl Shared {
    /// Returns a process's words.
    #[inline]
    pub(crate) fn slot(&self, seat: Seat) -> Option<(&Slot, &[SpotWords; SPOTS])> {
        self.slots.get(seat.0).zip(self.spots.get(seat.0))
    }

    /// Returns the words of all slots that were ever in use.
    #[inline]
    pub(crate) fn used(&self) -> impl Iterator<Item = (&Slot, &[SpotWords; SPOTS])> {
        let used = usize::try_from(self.header.used_slots.load()).unwrap_or(PROCESSES);
        self.slots.iter().zip(&self.spots).take(used)
    }

    /// Returns a segment of zeroes in plain memory.
    #[cfg(test)]
    pub(crate) fn plain() -> Box<Self> {
        use std::array::from_fn;
        let header = Header {
            magic: Word::default(),
            version: Word::default(),
            operations: Word::default(),
            payload: Word::default(),
            expiry: Word::default(),
            closed: Word::default(),
            used_slots: Word::default(),
            agent: Word::default(),
            name: from_fn(|_| AtomicU8::default()),
            sequence: Word::default(),
            reclaimed: Word::default(),
            unused: Default::default(),
        };
        let slots = from_fn(|_| Slot::default());
        Box::new(Self { header, slots, spots: from_fn(|_| from_fn(|_| SpotWords::default())) })
    }
}
