//! The scheduling set of a device, as all reactors count it (docs/research/sources.md, F3: reservations are
//! kept).

use crate::sync::{AtomicU64, Ordering::SeqCst};

use super::profile::Profile;
use crate::window::kib_beyond;

/// Number of bits that count KiB; the bits above count commands.
const KIB_BITS: u32 = 40;

/// The commands of a scheduling set, waiting in the order by place or in the device: their number,
/// and their KiB beyond the first four of each.
#[derive(Debug, Default)]
pub(crate) struct SetLoad {
    reads: AtomicU64,
    writes: AtomicU64,
}

const fn weight(bytes: u32) -> u64 {
    1 << KIB_BITS | kib_beyond(bytes)
}

const fn counts(word: u64) -> (u64, u64) {
    (word >> KIB_BITS, word & ((1 << KIB_BITS) - 1))
}

impl SetLoad {
    const fn counter(&self, write: bool) -> &AtomicU64 {
        if write { &self.writes } else { &self.reads }
    }

    /// Takes note that a command has joined the set.
    pub(crate) fn join(&self, write: bool, bytes: u32) {
        self.counter(write).fetch_add(weight(bytes), SeqCst);
    }

    /// Takes note that a command has left the set: it is complete, or was taken back.
    pub(crate) fn leave(&self, write: bool, bytes: u32) {
        let before = self.counter(write).fetch_sub(weight(bytes), SeqCst);
        debug_assert!(before >= weight(bytes), "no command leaves twice");
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.reads.load(SeqCst) == 0 && self.writes.load(SeqCst) == 0
    }

    #[inline]
    pub(crate) fn commands(&self) -> u64 {
        let of = |write| counts(self.counter(write).load(SeqCst)).0;
        of(false).saturating_add(of(true))
    }

    /// Computes the mean device time in ns that all of the set takes.
    pub(crate) fn mean(&self, profile: &Profile) -> u64 {
        let of = |write| profile.mean_of_all(write, counts(self.counter(write).load(SeqCst)));
        of(false).saturating_add(of(true))
    }

    /// Computes the worst time in ns that all of the set takes.
    pub(crate) fn worst(&self, profile: &Profile) -> u64 {
        let of = |write| profile.worst_of_all(write, counts(self.counter(write).load(SeqCst)));
        of(false).saturating_add(of(true))
    }
}

#[cfg(test)]
mod tests {
    use units::Nanos;

    use super::*;

    #[test]
    fn f3_set_counts_worst_case_times() {
        let mut profile = Profile::of_device(Nanos(10), Nanos(1000), 3, 1);
        profile.write.worst = Nanos(5000);
        let set = SetLoad::default();
        assert!(set.is_empty());
        set.join(false, 4096);
        set.join(false, 1 << 20);
        set.join(true, 512);
        assert_eq!(set.worst(&profile), 2 * 1000 + 1020 * 3 + 5000);
        set.leave(false, 1 << 20);
        set.leave(true, 512);
        assert_eq!(set.worst(&profile), 1000);
        assert!(!set.is_empty());
        set.leave(false, 4096);
        assert!(set.is_empty() && set.worst(&profile) == 0);
    }
}
