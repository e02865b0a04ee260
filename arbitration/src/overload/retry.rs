//! Retry delays of commands that are sent back, and the memory of how often each was.

use std::collections::{BTreeMap, VecDeque};

use units::Nanos;

/// The unit of Command Retry Delay Times: 100 ms.
const UNIT: u64 = 100_000_000;
/// Time for which a command is remembered, in ns. Linux has one timer for all retries of a
/// namespace: each delay postpones those before it, by the longest delay of 5 minutes. A host that
/// has not sent the command again after ten minutes has given it up.
const KEPT: u64 = 600_000_000_000;
/// Longest time in ns for which the target makes a command wait: a third of the time after which a
/// Linux host resets its controller (`nvme_core.io_timeout`). The device has the rest.
pub const WAIT_MAX: u64 = 10_000_000_000;
/// Longest time in ns for which a command may wait whose host does not honour Command Retry Delays,
/// so that it cannot be sent back: a Linux host's timeout is 30 s. Device and network have the rest.
pub const HOST_WAIT_MAX: u64 = 25_000_000_000;
/// Submissions of one command by a Linux host before it fails the command (`nvme_core.max_retries` + 1).
pub const HOST_TRIES: u8 = 6;

/// CRDT1 to CRDT3 of Identify Controller (bytes 133:128; NVMe base specification 2.0), in
/// units of 100 ms. None is less than the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryDelays([u16; 3]);

impl RetryDelays {
    /// 5 s, 30 s and 150 s. A command that waits for the second delay, and then four times for the
    /// third, is retried for 630 s: longer than Linux waits for a connection (`ctrl_loss_tmo`).
    pub const DEFAULT: Self = Self([50, 300, 1500]);

    /// Makes these delays; `None` where the first is 0, one is less than the one before it, or the
    /// last is more than 5 minutes: refused commands are remembered for ten.
    #[must_use]
    pub const fn new(delays: [u16; 3]) -> Option<Self> {
        let [first, second, third] = delays;
        if first >= 1 && first <= second && second <= third && third <= 3000 {
            Some(Self(delays))
        } else {
            None
        }
    }

    /// Returns the longest of the delays in ns.
    #[must_use]
    pub const fn longest(self) -> u64 {
        self.ns(3)
    }

    /// Returns the delay of a CRD field in ns: 0 for 0.
    #[must_use]
    pub const fn ns(self, crd: u8) -> u64 {
        let [first, second, third] = self.0;
        let delay = match crd {
            0 => 0,
            1 => first,
            2 => second,
            _ => third,
        };
        delay as u64 * UNIT
    }

    /// Returns CRDT1 to CRDT3, in units of 100 ms.
    #[must_use]
    pub const fn hundreds_of_ms(self) -> [u16; 3] {
        self.0
    }

    /// Chooses the CRD field (bits 29:28 of dword 3 of a completion) for a command that would wait
    /// for `wait` ns: 1 to 3 for the longest of CRDT1 to CRDT3 that is no longer; 0, at once, for a
    /// shorter wait. An early retry waits in the target. A late one leaves its session unused if
    /// its host has nothing else to send.
    ///
    /// SPDK's host uses the delay after the intended one: a delay that is no shorter, or none at
    /// all after the third. Then the host retries at once, and its command waits in the target.
    #[must_use]
    pub const fn choose(self, wait: u64) -> u8 {
        let [first, second, third] = self.0;
        if wait >= third as u64 * UNIT {
            3
        } else if wait >= second as u64 * UNIT {
            2
        } else if wait >= first as u64 * UNIT {
            1
        } else {
            0
        }
    }
}

impl Default for RetryDelays {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Computes a key that identifies a command when its host sends it again, from the fields that stay
/// the same then. Commands may have the same key, as all deallocations of a namespace have.
#[must_use]
pub fn command_key(opcode: u8, nsid: u32, slba: u64, blocks: u16) -> u64 {
    let rest = u64::from(nsid) << 24 | u64::from(opcode) << 16 | u64::from(blocks);
    mixed(mixed(rest) ^ slba)
}

/// Spreads all bits of a word over all bits (the finalizer of SplitMix64, one to one).
const fn mixed(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// A command that was sent back, and has not come again.
#[derive(Debug)]
struct Entry<T> {
    /// Time at which it was sent back.
    since: Nanos,
    times: u8,
    with: T,
}

impl<T> Entry<T> {
    fn is_kept(&self, now: Nanos) -> bool {
        now.ns_since(self.since) < KEPT
    }
}

/// A command that its host has sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned<T> {
    /// Number of times for which it was sent back.
    pub times: u8,
    /// The caller's record of the last time.
    pub with: T,
}

/// The commands of one connection that were sent back and have not come again, with the number of times for each. `T`
/// is the caller's record.
///
/// Commands with the same key, such as all deallocations of a namespace, come again in the order in which they were sent
/// back, and not before the first delay after the last of them: a Linux host has one timer for all. There is a bound: a command for which there is no place must not be sent back.
#[derive(Debug)]
pub struct SentBackTable<T> {
    commands: BTreeMap<u64, VecDeque<Entry<T>>>,
    /// Number of entries.
    out: usize,
    most: usize,
    /// The time before which no entry of a full table is too old.
    full_until: Nanos,
}

impl<T> SentBackTable<T> {
    /// Makes room for at most so many commands.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { commands: BTreeMap::new(), out: 0, most, full_until: Nanos::ZERO }
    }

    /// Returns for how many more commands there is a place.
    pub fn room(&mut self, now: Nanos) -> usize {
        if self.out >= self.most && now >= self.full_until {
            self.commands.retain(|_, entries| {
                entries.retain(|entry| entry.is_kept(now));
                !entries.is_empty()
            });
            let entries = self.commands.values().flatten();
            let oldest = entries.map(|entry| entry.since).min().unwrap_or(now);
            self.full_until = oldest.after(KEPT);
            self.out = self.commands.values().map(VecDeque::len).sum();
        }
        self.most.saturating_sub(self.out)
    }

    /// Remembers for ten minutes that a command is sent back, for this time (1: the first). Returns false if there is no
    /// place.
    #[must_use]
    pub fn note(&mut self, now: Nanos, key: u64, times: u8, with: T) -> bool {
        let has_room = self.room(now) > 0;
        if has_room {
            let entry = Entry { since: now, times, with };
            self.commands.entry(key).or_default().push_back(entry);
            self.out += 1;
        }
        has_room
    }

    /// Takes out a command that has come again; `delays` are those with which commands are sent back. Returns `None` if
    /// it was not sent back.
    pub fn take(&mut self, now: Nanos, key: u64, delays: RetryDelays) -> Option<Returned<T>> {
        let entries = self.commands.get_mut(&key)?;
        let before = entries.len();
        entries.retain(|entry| entry.is_kept(now));
        // The clocks of the host and the target differ.
        let soonest = delays.ns(1) / 10 * 9;
        let last = entries.back().filter(|_| entries.len() > 1);
        let is_other = last.is_some_and(|last| now.ns_since(last.since) < soonest);
        let entry = if is_other { None } else { entries.pop_front() };
        self.out = self.out.saturating_sub(before - entries.len());
        if entries.is_empty() {
            self.commands.remove(&key);
        }
        entry.map(|Entry { times, with, .. }| Returned { times, with })
    }

    /// Returns whether a command is out; it may be too old to count.
    #[inline]
    #[must_use]
    pub const fn has_out(&self) -> bool {
        self.out != 0
    }

    /// Lists the records of all commands that have not come again.
    pub fn into_all(self) -> impl Iterator<Item = T> {
        self.commands.into_values().flatten().map(|entry| entry.with)
    }
}
