//! Retry delays for refused commands, and the memory of commands that must not be refused twice.

use units::Nanos;

/// The unit of Command Retry Delay Times: 100 ms.
const UNIT: u64 = 100_000_000;
/// A host that has not sent a refused command again by then has given it up: this is twice the time
/// that Linux gives a command by default.
const KEPT: u64 = 60_000_000_000;
/// Keys that share a place.
const WAYS: usize = 8;

/// CRDT1 to CRDT3 of Identify Controller (bytes 133:128; NVMe base specification 2.0), in
/// units of 100 ms. None is less than the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryDelays([u16; 3]);

impl RetryDelays {
    /// 100 ms, 500 ms and 2 s.
    pub const DEFAULT: Self = Self([1, 5, 20]);

    /// Makes these delays; none where the first is 0, one is less than the one before it, or the
    /// last is more than 30 s: refused commands are remembered for a minute.
    #[must_use]
    pub const fn new(delays: [u16; 3]) -> Option<Self> {
        let [first, second, third] = delays;
        if first >= 1 && first <= second && second <= third && third <= 300 {
            Some(Self(delays))
        } else {
            None
        }
    }

    /// Returns CRDT1 to CRDT3, in units of 100 ms.
    #[must_use]
    pub const fn hundreds_of_ms(self) -> [u16; 3] {
        self.0
    }

    /// Chooses the CRD field (bits 29:28 of dword 3 of a completion) for a host that should come
    /// back after `wait` ns: 1 to 3 for the first of CRDT1 to CRDT3 that is long enough, else 3.
    ///
    /// SPDK's host takes the delay after the one that is meant: one that is no shorter, or none at
    /// all after the third. Then it comes back at once, and its command waits in the target, for
    /// none is refused twice.
    #[must_use]
    pub const fn choose(self, wait: u64) -> u8 {
        let [first, second, _] = self.0;
        if wait <= first as u64 * UNIT {
            1
        } else if wait <= second as u64 * UNIT {
            2
        } else {
            3
        }
    }
}

impl Default for RetryDelays {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Returns a key by which a command is known again when its host sends it once more: all that stays
/// the same then. Two commands may have one key; then one of them is not refused that might have
/// been.
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

/// One refused command; `until` 0: none.
#[derive(Clone, Copy, Debug, Default)]
struct Refused {
    key: u64,
    until: u64,
}

/// The commands of one connection that were refused, so that none is refused twice.
///
/// A table of fixed size: a command for which it has no place is not to be refused.
#[derive(Debug)]
pub struct RefusedOnce {
    places: Box<[[Refused; WAYS]]>,
    held: usize,
}

impl RefusedOnce {
    /// Makes room for this many, rounded up to a multiple of eight; less where more than eight of
    /// them happen to share the same eight places. Allocates once.
    #[must_use]
    pub fn new(commands: usize) -> Self {
        let places = commands.div_ceil(WAYS).max(1);
        Self { places: vec![[Refused::default(); WAYS]; places].into(), held: 0 }
    }

    /// Remembers that a command is refused, for 60 s. False: there is no room, do not refuse it.
    #[must_use]
    pub fn note(&mut self, now: Nanos, key: u64) -> bool {
        let until = now.after(KEPT).0;
        let Some(free) = self.place(key).iter_mut().find(|held| held.until <= now.0) else {
            return false;
        };
        let was_free = free.until == 0;
        *free = Refused { key, until };
        self.held += usize::from(was_free);
        true
    }

    /// Says whether this command was refused before, and must be let in now. Forgets the refusal:
    /// as often as one like it was refused, one is let in.
    pub fn take(&mut self, now: Nanos, key: u64) -> bool {
        if self.held == 0 {
            return false;
        }
        let like = |held: &&mut Refused| held.key == key && held.until > now.0;
        let Some(held) = self.place(key).iter_mut().filter(like).min_by_key(|held| held.until)
        else {
            return false;
        };
        *held = Refused::default();
        self.held -= 1;
        true
    }

    /// Returns the places where a key may be.
    fn place(&mut self, key: u64) -> &mut [Refused] {
        let places = u64::try_from(self.places.len()).unwrap_or(u64::MAX).max(1);
        let place = usize::try_from(mixed(key) % places).unwrap_or(0);
        self.places.get_mut(place).map_or(&mut [], |place| place.as_mut_slice())
    }
}
