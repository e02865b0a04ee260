//! The number of commands that a device may hold beside reservations: few enough that a command of a
//! tenant is complete in time when it enters the device at once (docs/research/sources.md, F3: reservations
//! are kept).
//!
//! A tenant with one command at a time has one complete in each `wait + service + think`. So the
//! device may hold as many commands as it carries out at once, since these do not queue. Beyond
//! that it may hold half of the commands that it carries out between two commands of a reservation:
//! the other half is for unmeasured effects.
//!
//! Until the device was measured at the depths that reveal its parallelism ([`Probe`]), it holds as many
//! commands as the missing measurement needs.

use units::Nanos;

use super::load::SetLoad;
use super::profile::Profile;
use super::profiler::Probe;

/// The time in ns for which a bound is used before it is computed again: think times change.
const FOR: u64 = 5_000_000;

/// The bound that one reservation sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBound {
    /// Commands that the device may always hold: as many as it carries out at once.
    pub at_once: u32,
    /// Device time of all commands up to which the device may hold more, in ns.
    pub time: u64,
    /// Device time of a read of 4 KiB, in ns.
    pub share: u64,
}

impl QueueBound {
    /// Computes the bound for a tenant that has a command reserved in each `interval` ns, whose
    /// commands are `in_device` ns in the device, and that needs `think` ns between a completion
    /// and the next command, however long that is. The device keeps periods of `period` ns for it.
    pub(super) fn new(
        profile: &Profile,
        (interval, in_device): (u64, u64),
        period: u64,
        think: u64,
    ) -> Self {
        let spare = interval.saturating_sub(in_device).saturating_sub(think);
        Self {
            at_once: profile.parallelism.max(1),
            time: (spare / 2).min(period / 2),
            share: profile.mean(false, 4096).max(1),
        }
    }

    /// Returns the bound while `probe` names depths at which the device has to be measured.
    #[must_use]
    pub(crate) fn probing(mut self, probe: Probe) -> Self {
        self.at_once = self.at_once.max(probe.at_least).min(probe.at_most);
        self.time = self.time.min(self.share.saturating_mul(probe.at_most.into()));
        self
    }

    /// Returns the number of commands of 4 KiB that the device may hold.
    #[must_use]
    pub fn depth(&self) -> u64 {
        (self.time / self.share).max(self.at_once.into())
    }
}

/// The bound that all reservations of a device set together, as one reactor uses it.
#[derive(Debug)]
pub(crate) struct Ceiling {
    at_once: u64,
    time: u64,
    profile: Profile,
    until: Nanos,
}

impl Ceiling {
    /// Makes the bound of reservations on a device of this profile; `None` where there are none. While `probe` names
    /// depths at which the device has to be measured, it holds as many commands.
    pub(crate) fn new(
        now: Nanos,
        (profile, probe): (&Profile, Probe),
        bounds: impl Iterator<Item = QueueBound>,
    ) -> Option<Self> {
        let least = bounds.reduce(|one, other| QueueBound {
            at_once: one.at_once.max(other.at_once),
            time: one.time.min(other.time),
            share: one.share,
        })?;
        let QueueBound { at_once, time, .. } = least.probing(probe);
        Some(Self { at_once: at_once.into(), time, profile: *profile, until: now.after(FOR) })
    }

    /// Returns whether the bound has to be computed again.
    #[inline]
    pub(crate) fn is_stale(&self, now: Nanos) -> bool {
        now >= self.until
    }

    /// Returns whether one more command may enter a device that holds these.
    #[inline]
    pub(crate) fn has_room(&self, held: &SetLoad) -> bool {
        held.commands() < self.at_once || held.mean(&self.profile) < self.time
    }

    /// Returns the profile with which commands are counted.
    pub(crate) const fn profile(&self) -> &Profile {
        &self.profile
    }
}
