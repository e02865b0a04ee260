//! The commands of a tenant that were complete in the present period.

use super::demand::Wanted;
use super::tally::Tally;
use super::verdict::PeriodObservation;

/// A command that is complete.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finished {
    /// Amount in the unit of the budget.
    pub(super) amount: u64,
    /// Time from its arrival to its completion, in ns.
    pub(super) latency: u64,
    /// Time before it came to the arbiter, in ns.
    pub(super) before: u64,
    /// Time in the device, in ns.
    pub(super) in_device: u64,
    /// Device time that it took, in ns.
    pub(super) took: u64,
    /// Device time that was assumed for it, in ns.
    pub(super) assumed: u64,
    /// Longest time in the device of any host's command, in ns.
    pub(super) foreign: u64,
}

/// The sums over the commands that were complete in the present period.
#[derive(Debug, Default)]
pub(super) struct Record {
    amount: Tally,
    commands: Tally,
    latency: Tally,
    before: Tally,
    in_device: Tally,
    took: Tally,
    assumed: Tally,
    /// The greatest, not the sum.
    foreign: Tally,
}

impl Record {
    /// Counts a command that is complete in period `number`.
    #[inline]
    pub(super) fn note(&self, number: u64, finished: &Finished) {
        self.amount.add(number, finished.amount);
        self.commands.add(number, 1);
        self.latency.add(number, finished.latency);
        if finished.before > 0 {
            self.before.add(number, finished.before);
        }
        self.in_device.add(number, finished.in_device);
        self.took.add(number, finished.took);
        self.assumed.add(number, finished.assumed);
        self.foreign.raise(number, finished.foreign);
    }

    /// Returns the observation of period `number`.
    pub(super) fn seen(&self, number: u64, wanted: Wanted) -> PeriodObservation {
        PeriodObservation {
            wanted,
            done: self.amount.used_in(number),
            commands: self.commands.used_in(number),
            latency: self.latency.used_in(number),
            before: self.before.used_in(number),
            in_device: self.in_device.used_in(number),
            took: self.took.used_in(number),
            assumed: self.assumed.used_in(number),
            foreign: self.foreign.used_in(number),
            standstill: None,
        }
    }
}
