//! Retry delays of commands that are sent back, and the memory of how often each was.

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
/// Commands that one row of the table holds.
const WAYS: usize = 8;

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
/// the same then. Two commands may have the same key: one of them is then spared a refusal.
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

/// A command that was sent back.
#[derive(Clone, Debug, Default)]
struct Entry<T> {
    key: u64,
    /// Time until which it is remembered, in ns; 0: there is none.
    until: u64,
    /// Number of times for which it was sent back.
    times: u8,
    /// Whether its host has not sent it again since.
    is_out: bool,
    with: T,
}

impl<T> Entry<T> {
    fn has_returned(&self, now: Nanos, key: u64) -> bool {
        self.key == key && !self.is_out && self.until > now.0
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

/// The commands of one connection that were sent back, with the number of times for each. `T` is the
/// caller's record.
///
/// The table has a fixed size: a command for which it has no place must not be sent back on arrival.
#[derive(Debug)]
pub struct SentBackTable<T> {
    rows: Box<[[Entry<T>; WAYS]]>,
    /// Number of commands that are out.
    out: usize,
    /// Number of commands that have returned and are not carried out.
    returned: usize,
}

impl<T: Default> SentBackTable<T> {
    /// Makes room for this many commands, rounded up to a multiple of eight; for fewer where more
    /// than eight of them happen to share a row. Allocates once.
    #[must_use]
    pub fn new(commands: usize) -> Self {
        let rows = commands.div_ceil(WAYS).max(1);
        Self { rows: (0..rows).map(|_| Default::default()).collect(), out: 0, returned: 0 }
    }

    /// Remembers for ten minutes that a command is sent back. Returns false where there is no room: it
    /// must not be sent back on arrival.
    #[must_use]
    pub fn note(&mut self, now: Nanos, key: u64, with: T) -> bool {
        let until = now.after(KEPT).0;
        let row = self.row(key);
        let is_old = |entry: &Entry<T>| entry.until <= now.0;
        let place = |fits: &dyn Fn(&Entry<T>) -> bool| row.iter().position(fits);
        let again = place(&|entry| entry.has_returned(now, key));
        // A record is worth more than the count of a returned command.
        let found = again.or_else(|| place(&is_old)).or_else(|| place(&|entry| !entry.is_out));
        let Some(entry) = found.and_then(|at| row.get_mut(at)) else { return false };
        let (was_out, was_returned) = (entry.is_out, !entry.is_out && entry.until != 0);
        let times = if again.is_some() { entry.times.saturating_add(1) } else { 1 };
        *entry = Entry { key, until, times, is_out: true, with };
        self.out += usize::from(!was_out);
        self.returned -= usize::from(was_returned);
        true
    }

    /// Notes that a command has come again, which must not be sent back on arrival. Returns `None` if it
    /// was not sent back. For each time, one command with the same key is admitted.
    pub fn take(&mut self, now: Nanos, key: u64) -> Option<Returned<T>> {
        if self.out == 0 {
            return None;
        }
        let like = |entry: &&mut Entry<T>| entry.key == key && entry.is_out && entry.until > now.0;
        let entry = self.row(key).iter_mut().filter(like).min_by_key(|entry| entry.until)?;
        entry.is_out = false;
        let returned = Returned { times: entry.times, with: std::mem::take(&mut entry.with) };
        self.out -= 1;
        self.returned += 1;
        Some(returned)
    }

    /// Returns how often a command that has come again was sent back; 0 for other commands.
    #[must_use]
    pub fn times(&self, now: Nanos, key: u64) -> u8 {
        let row = self.rows.get(self.row_of(key)).into_iter().flatten();
        row.filter(|entry| entry.has_returned(now, key)).map(|entry| entry.times).max().unwrap_or(0)
    }

    /// Forgets a command that has come again, because it is carried out.
    pub fn forget(&mut self, now: Nanos, key: u64) {
        let like = |entry: &&mut Entry<T>| entry.has_returned(now, key);
        if let Some(entry) = self.row(key).iter_mut().filter(like).max_by_key(|entry| entry.times) {
            entry.until = 0;
            self.returned -= 1;
        }
    }

    /// Returns whether a command is out; it may be too old to count.
    #[inline]
    #[must_use]
    pub fn has_out(&self) -> bool {
        self.out != 0
    }

    /// Returns whether a command has come again and is still to be carried out.
    #[inline]
    #[must_use]
    pub fn has_returned(&self) -> bool {
        self.returned != 0
    }

    /// Lists the records of all commands that have not come again.
    pub fn into_all(self) -> impl Iterator<Item = T> {
        let out = self.rows.into_iter().flatten().filter(|entry| entry.is_out);
        out.map(|entry| entry.with)
    }

    /// Finds the row where a key may be.
    fn row(&mut self, key: u64) -> &mut [Entry<T>] {
        let row = self.row_of(key);
        self.rows.get_mut(row).map_or(&mut [], |row| row.as_mut_slice())
    }

    fn row_of(&self, key: u64) -> usize {
        let rows = u64::try_from(self.rows.len()).unwrap_or(u64::MAX).max(1);
        usize::try_from(mixed(key) % rows).unwrap_or(0)
    }
}
