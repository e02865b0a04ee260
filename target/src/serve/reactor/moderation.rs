//! Moderation of a reactor's turns. A host that is limited by its own processor works faster if the target takes its
//! commands several at a time: each receive and each send costs the host time, too. A host that waits for its answers
//! works slower.
//!
//! The target cannot tell one from the other, so it tries. A *trial* compares turns that are [`SPACING`] apart with turns
//! without a pause, in slots that alternate. Turns are spaced only as long as trials show that hosts move clearly more
//! then. The longest delay of a command by this is one spacing.

use std::time::Duration;

use units::{Nanos, nanos};

/// The time between the begins of two turns that are spaced.
const SPACING: Duration = Duration::from_micros(20);
/// The time of one slot of a trial.
const SLOT: Duration = Duration::from_micros(500);
/// The pairs of slots in a trial, and the number of pairs in which a way has to be better.
const PAIRS: u32 = 10;
const WINS: u32 = 8;
/// The gain in per cent by which spaced turns have to be better to begin, and to go on.
const BEGIN: u64 = 5;
const GO_ON: u64 = 3;
/// A trial ends early if the other way moves less than this part, in per cent, in the first pair.
const HOPELESS: u64 = 85;
/// The time to a trial after hosts become busy. It doubles with each trial in which spaced turns are no better, up to the
/// longest.
const FIRST_REST: Duration = Duration::from_millis(50);
const LONGEST_REST: Duration = Duration::from_millis(1600);
/// The time between two trials while turns are spaced.
const SPACED_REST: Duration = Duration::from_millis(100);
/// The receives for each spacing, in hundredths, from which on a trial may show something.
const BUSY: u64 = 150;

/// The counters of a reactor since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    /// Bytes that were received from sockets, and sent to them.
    pub(super) bytes: u64,
    /// Receives.
    pub(super) receives: u64,
}

#[derive(Debug, Default)]
struct Trial {
    /// Number of slots that have ended.
    slots: u32,
    /// Bytes per second in the latest slot of the present way.
    latest: u64,
    /// The sums of the slots' bytes per second: of the present way, and of the other one.
    present: u64,
    other: u64,
    /// Pairs in which the other way was better.
    wins: u32,
}

/// Whether the turns of one reactor are spaced.
#[derive(Debug)]
pub(super) struct Moderation {
    /// Whether turns are spaced outside of trials.
    is_on: bool,
    trial: Option<Trial>,
    /// When the present slot or rest began, and the counters then.
    since: Nanos,
    moved: Moved,
    /// When it ends.
    until: Nanos,
    rest: Duration,
}

impl Default for Moderation {
    fn default() -> Self {
        Self {
            is_on: false,
            trial: None,
            since: Nanos::ZERO,
            moved: Moved::default(),
            until: Nanos::ZERO + FIRST_REST,
            rest: FIRST_REST,
        }
    }
}

impl Moderation {
    /// Returns the time for which the turn after the present one, which has moved something, is to wait. `moved` is
    /// asked for where it counts.
    #[inline]
    pub(super) fn spacing(&mut self, now: Nanos, moved: impl FnOnce() -> Moved) -> Duration {
        if now >= self.until {
            self.step(now, moved());
        }
        let is_other = self.trial.as_ref().is_some_and(|trial| trial.slots % 2 == 1);
        if self.is_on == is_other { Duration::ZERO } else { SPACING }
    }

    /// Ends a slot or a rest, and begins the next one.
    fn step(&mut self, now: Nanos, moved: Moved) {
        let time = now.ns_since(self.since).max(1);
        let bytes = moved.bytes.saturating_sub(self.moved.bytes);
        let receives = moved.receives.saturating_sub(self.moved.receives);
        let length = match self.trial.take() {
            // Nothing moved for a while: other hosts may be there now.
            Some(_) if time > 4 * nanos(SLOT) => {
                self.is_on = false;
                self.rest
            }
            Some(mut trial) => {
                let rate = u128::from(bytes) * 1_000_000_000 / u128::from(time);
                match self.is_over(&mut trial, u64::try_from(rate).unwrap_or(u64::MAX)) {
                    true => self.rest,
                    false => {
                        self.trial = Some(trial);
                        SLOT
                    }
                }
            }
            None if self.is_on || receives * nanos(SPACING) * 100 >= BUSY * time => {
                self.trial = Some(Trial::default());
                SLOT
            }
            None => {
                self.rest = FIRST_REST;
                FIRST_REST
            }
        };
        (self.since, self.moved, self.until) = (now, moved, now + length);
    }

    /// Takes the result of a slot. Returns whether the trial is over.
    fn is_over(&mut self, trial: &mut Trial, rate: u64) -> bool {
        trial.slots += 1;
        if trial.slots % 2 == 1 {
            trial.latest = rate;
            trial.present = trial.present.saturating_add(rate);
            return false;
        }
        trial.other = trial.other.saturating_add(rate);
        trial.wins += u32::from(rate > trial.latest);
        let part = |sum: u64, percent: u64| u128::from(sum) * u128::from(percent);
        let is_first = trial.slots == 2;
        if is_first && !self.is_on && part(trial.other, 100) < part(trial.present, HOPELESS) {
            self.rest = (self.rest * 2).min(LONGEST_REST);
            return true;
        }
        if trial.slots < 2 * PAIRS {
            return false;
        }
        let is_better = match self.is_on {
            true => {
                part(trial.present, 100) >= part(trial.other, 100 + GO_ON)
                    && trial.wins <= PAIRS - WINS
            }
            false => {
                part(trial.other, 100) >= part(trial.present, 100 + BEGIN) && trial.wins >= WINS
            }
        };
        self.is_on = is_better;
        self.rest = if is_better { SPACED_REST } else { (self.rest * 2).min(LONGEST_REST) };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs turns for `ms` whose rate is `spaced` or `unspaced` bytes per us; `noise` in per cent. Returns the part of the
    /// time in which turns were spaced, in per mille.
    fn run(ms: u64, (unspaced, spaced): (u64, u64), noise: u64, seed: u64) -> u64 {
        let (mut moderation, mut moved, mut now) =
            (Moderation::default(), Moved::default(), Nanos(1));
        let (mut rng, mut with, end) = (fastrand::Rng::with_seed(seed), 0, Nanos(ms * 1_000_000));
        while now < end {
            let spacing = moderation.spacing(now, || moved);
            let (turn, rate) = match spacing.is_zero() {
                true => (3_000, unspaced),
                false => (nanos(spacing), spaced),
            };
            let off = 100 + rng.u64(0..=2 * noise) - noise;
            moved.bytes += rate * turn * off / 100_000;
            moved.receives += 1 + u64::from(turn > 3_000);
            with += if spacing.is_zero() { 0 } else { turn };
            now = now.after(turn);
        }
        with * 1000 / end.0
    }

    #[test]
    fn hosts_that_gain_have_spaced_turns() {
        for seed in 0..20 {
            let part = run(2000, (1400, 1700), 30, seed);
            assert!(part > 850, "{part}");
        }
    }

    #[test]
    fn hosts_that_lose_or_gain_nothing_have_no_pauses() {
        for seed in 0..20 {
            for spaced in [700, 1300, 1400] {
                let part = run(5000, (1400, spaced), 30, seed);
                assert!(part < 60, "{spaced}: {part}");
            }
        }
        assert!(run(20_000, (1400, 700), 10, 1) < 2, "a host that waits loses nearly nothing");
    }

    /// Takes spaced turns of so many bytes and of a time each. Returns whether turns are still spaced then.
    fn stays_spaced(turns: u64, bytes: u64, time: impl Fn(u64) -> u64) -> bool {
        let mut moderation = Moderation { is_on: true, ..Moderation::default() };
        let (mut now, mut moved) = (Nanos(1), Moved::default());
        for turn in 0..turns {
            moderation.spacing(now, || moved);
            (now, moved.bytes) = (now.after(time(turn)), moved.bytes + bytes);
        }
        moderation.is_on
    }

    #[test]
    fn spacing_ends_once_hosts_gain_nothing_or_pause() {
        assert!(!stays_spaced(400_000 / 3, 3_000, |_| 3_000));
        // Five milliseconds of work, and five without.
        let time = |turn| if turn % 500 == 0 { 5_000_000 } else { 10_000 };
        assert!(!stays_spaced(100_000, 72, time));
    }

    #[test]
    fn idle_reactors_try_nothing() {
        let (mut moderation, mut moved) = (Moderation::default(), Moved::default());
        for turn in 0..10_000 {
            moved.bytes += 4096;
            moved.receives += 1;
            let spacing = moderation.spacing(Nanos(turn * 20_000), || moved);
            assert!(spacing.is_zero(), "one receive each 20 us");
        }
    }
}
