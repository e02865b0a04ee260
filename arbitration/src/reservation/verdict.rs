//! The verdict on a period of a reservation: kept, missed with the cause, or idle (docs/research/sources.md,
//! F3: reservations are kept).

use std::fmt;
use std::time::Duration;

use crate::sync::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::cause::Cause;
use super::demand::Wanted;

/// The outcome of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing was wanted.
    Idle,
    /// The due amount completed in time.
    Kept,
    Missed(Cause),
}

/// The latest period in which less than the reservation was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Miss {
    /// The cause.
    pub cause: Cause,
    /// Amount that was complete, in the unit of the budget: commands, bytes or ns.
    pub done: u64,
    /// Amount that was reserved, in the same unit.
    pub reserved: u64,
    /// Mean number of commands outstanding, while any was, in thousandths.
    pub depth: u64,
    /// Mean time of a command from its arrival to its completion, in ns; 0: none was complete.
    pub latency: u64,
    /// Mean time of a command before it came to the arbiter, in ns: for memory, or for the data of its host.
    pub before: u64,
    /// Mean time of a command in the device, in ns; 0: none was complete.
    pub in_device: u64,
    /// Mean number of commands ahead of each in the device.
    pub behind: u64,
    /// Time of the tenant's usual command in the device, in ns, as it was measured.
    pub expected: u64,
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: u64| Duration::from_micros(ns / 1000);
        match self.cause {
            Cause::Order if self.latency == 0 => f.write_str("no command was let into the device"),
            Cause::Data if self.latency == 0 => f.write_str("no command had its memory and data"),
            _ if self.latency == 0 => f.write_str("the device completed no command"),
            Cause::Device => {
                write!(f, "the device took {:?} for a command, ", ms(self.in_device))?;
                write!(f, "and {:?} when it was measured", ms(self.expected))
            }
            Cause::Depth => {
                write!(f, "{} at a time, {:?} each", commands(self.depth), ms(self.latency))
            }
            Cause::Window => {
                write!(f, "{} at a time, {:?} each", commands(self.depth), ms(self.expected))?;
                write!(f, ", behind {} others in the device", self.behind)
            }
            Cause::Order => {
                let waited =
                    self.latency.saturating_sub(self.before).saturating_sub(self.in_device);
                write!(f, "each command waited {:?} for others to go first", ms(waited))
            }
            Cause::Data => {
                write!(f, "each command waited {:?} for memory or its host's data", ms(self.before))
            }
        }
    }
}

/// Writes a number of commands that is given in thousandths.
fn commands(thousandths: u64) -> String {
    match thousandths {
        0..1050 => "one command".to_owned(),
        _ => format!("{}.{} commands", thousandths / 1000, thousandths % 1000 / 100),
    }
}

/// A tenant's usual command, and the reservation, as admission knew them. Amounts are in the unit
/// of the budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usual {
    /// Length of a period in ns.
    pub(super) period: u64,
    /// Amount that is reserved in a period, without the part for bursts.
    pub(super) reserved: u64,
    /// Amount that may be missing without notice: one command, of a budget in device time.
    pub(super) allowance: u64,
    /// Amount of one command.
    pub(super) amount: u64,
    /// Mean time of a command in the device, in ns.
    pub(super) in_device: u64,
    /// Longest time of a command in the device, in ns.
    pub(super) longest: u64,
    /// Device time of a command, in ns: its share of [`Self::in_device`].
    pub(super) share: u64,
}

/// The measurements of one period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PeriodObservation {
    pub(super) wanted: Wanted,
    /// Amount that was complete.
    pub(super) done: u64,
    /// Number of commands that were complete.
    pub(super) commands: u64,
    /// Sum of their times from arrival to completion, in ns.
    pub(super) latency: u64,
    /// Sum of their times before they came to the arbiter, in ns.
    pub(super) before: u64,
    /// Sum of their times in the device, in ns.
    pub(super) in_device: u64,
    /// Device time that they took, in ns.
    pub(super) took: u64,
    /// Device time that was assumed for them, in ns.
    pub(super) assumed: u64,
    /// Longest time in the device of any host's command, in ns, by the profile.
    pub(super) foreign: u64,
    /// The cause if no command was complete.
    pub(super) standstill: Option<Cause>,
}

impl PeriodObservation {
    /// Computes the mean number of commands outstanding while any was, in thousandths, at least
    /// 1000 (Little's law).
    fn depth(&self) -> u64 {
        let sum = u128::from(self.latency) * 1000;
        let depth = sum / u128::from(self.wanted.outstanding.max(1));
        u64::try_from(depth).unwrap_or(u64::MAX).max(1000)
    }

    /// Computes the amount that the tenant achieves in `ns` at its depth, if each command takes its
    /// own time, the time of one other command, and `think` ns.
    fn achievable(&self, usual: &Usual, ns: u64, think: u64) -> u64 {
        let amount = match self.commands {
            0 => usual.amount,
            commands => (self.done / commands).max(1),
        };
        let each = usual.in_device.saturating_add(self.foreign.max(usual.in_device));
        let each = u128::from(each.saturating_add(think).max(1)) * 1000;
        let all = u128::from(amount) * u128::from(self.depth()) * u128::from(ns) / each;
        u64::try_from(all).unwrap_or(u64::MAX)
    }

    /// Judges a period. `promised` says whether commands with deadlines met them and had the reserved rate; `None`: they
    /// have none.
    pub(super) fn judge(&self, usual: &Usual, promised: Option<bool>) -> Verdict {
        if self.wanted.outstanding == 0 {
            return Verdict::Idle;
        }
        let kept = match promised {
            None => self.done.saturating_add(usual.allowance) >= self.due(usual),
            Some(kept) => kept && (self.wanted.outstanding < usual.period || self.done > 0),
        };
        if kept { Verdict::Kept } else { Verdict::Missed(self.cause(usual)) }
    }

    /// Computes the amount that was due. All of the reservation is, where a command was outstanding
    /// all of the time, and a part of it where one was outstanding for a part. A tenant whose depth would achieve the
    /// reservation is due as much as its depth achieves with the time that it thought.
    fn due(&self, usual: &Usual) -> u64 {
        let Wanted { outstanding, thought, gaps } = self.wanted;
        let (period, reserved) = (usual.period, usual.reserved);
        let wanted = outstanding.saturating_add(thought).min(period);
        if outstanding >= period {
            return reserved;
        }
        let think = thought / gaps.max(1);
        let too_shallow = self.achievable(usual, period, 0) < reserved;
        let due = |part: u64, wanted| match too_shallow {
            true => part,
            false => part.min(self.achievable(usual, wanted, think)),
        };
        if wanted >= period {
            return due(reserved, period);
        }
        // A command that arrived in the middle of the period had to pass the device as well.
        let through = usual.longest.saturating_add(self.foreign);
        let wanted = wanted.saturating_sub(through);
        let part = u128::from(reserved) * u128::from(wanted) / u128::from(period.max(1));
        due(u64::try_from(part).unwrap_or(u64::MAX), wanted)
    }

    /// Computes the time, in ns, for which the reserved rate was due to a tenant with demand in all of the period, less
    /// the pauses between its commands; `None`: it had none for a part of it.
    pub(super) fn due_time(&self, usual: &Usual) -> Option<u64> {
        let Wanted { outstanding, thought, .. } = self.wanted;
        (outstanding.saturating_add(thought) >= usual.period).then(|| {
            let due = u128::from(self.due(usual)) * u128::from(usual.period);
            u64::try_from(due / u128::from(usual.reserved.max(1))).unwrap_or(u64::MAX)
        })
    }

    fn cause(&self, usual: &Usual) -> Cause {
        if self.commands == 0 {
            return self.standstill.unwrap_or(Cause::Order);
        }
        if self.took > self.assumed {
            return Cause::Device;
        }
        if self.achievable(usual, usual.period, 0) < usual.reserved {
            return Cause::Depth;
        }
        if self.before > self.latency / 2 {
            return Cause::Data;
        }
        let each = self.in_device / self.commands;
        let most = usual.longest.saturating_add(self.foreign.max(usual.in_device));
        if each > most { Cause::Window } else { Cause::Order }
    }

    fn miss(&self, usual: &Usual, cause: Cause) -> Miss {
        let in_device = self.in_device.checked_div(self.commands).unwrap_or(0);
        let ahead = in_device.saturating_sub(usual.in_device);
        Miss {
            cause,
            done: self.done,
            reserved: usual.reserved,
            depth: self.depth(),
            latency: self.latency.checked_div(self.commands).unwrap_or(0),
            before: self.before.checked_div(self.commands).unwrap_or(0),
            in_device,
            behind: ahead / usual.share.max(1),
            expected: usual.in_device,
        }
    }
}

/// Counts of periods with demand, by their outcome.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    kept: AtomicU64,
    /// By [`Cause`].
    missed: [AtomicU64; Cause::ALL.len()],
    last: Mutex<Option<Miss>>,
}

impl Verdicts {
    pub(super) fn count(&self, usual: &Usual, seen: &PeriodObservation, promised: Option<bool>) {
        match seen.judge(usual, promised) {
            Verdict::Idle => {}
            Verdict::Kept => {
                self.kept.fetch_add(1, Relaxed);
            }
            Verdict::Missed(cause) => {
                self.note_missed(cause, 1);
                let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
                *last = Some(seen.miss(usual, cause));
            }
        }
    }

    pub(super) fn copy(&self) -> Self {
        let copy = |count: &AtomicU64| AtomicU64::new(count.load(Relaxed));
        Self {
            kept: copy(&self.kept),
            missed: self.missed.each_ref().map(copy),
            last: Mutex::new(self.last()),
        }
    }

    pub(super) fn note_missed(&self, cause: Cause, periods: u64) {
        if let Some(count) = self.missed.get(cause as usize) {
            count.fetch_add(periods, Relaxed);
        }
    }

    /// Returns the number of periods that were kept.
    pub(super) fn kept(&self) -> u64 {
        self.kept.load(Relaxed)
    }

    /// Returns the numbers of periods that were missed, by cause.
    pub(super) fn missed(&self) -> Missed {
        Missed(self.missed.each_ref().map(|n| n.load(Relaxed)))
    }

    /// Returns the latest period that was missed.
    pub(super) fn last(&self) -> Option<Miss> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Numbers of periods that were missed, by [`Cause`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed([u64; Cause::ALL.len()]);

impl Missed {
    /// Returns the number of periods that were missed for a cause.
    #[must_use]
    pub fn by(&self, cause: Cause) -> u64 {
        self.0.get(cause as usize).copied().unwrap_or(0)
    }

    /// Returns the number of all of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, periods| sum.saturating_add(*periods))
    }
}
