//! The limits of a session: buckets for all its commands, for its reads and for its writes. A
//! command waits for the fullest of the buckets that concern it, and is charged to all of them.

use std::iter::{once, successors};

use units::Nanos;

use super::{Session, SessionSpec};
use crate::limit::{Amount, BlockReason, Limiter, Limiters, Rate, Rates, Waiter};

/// The rates of a session's limits, and the credit that they save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionLimits {
    /// The rates of all commands.
    pub total: Rates,
    /// The rates of commands that do not change their device.
    pub reads: Rates,
    /// The rates of commands that change their device.
    pub writes: Rates,
    /// Time for which an idle session saves credit.
    pub burst: Nanos,
}

impl SessionSpec {
    pub(super) fn limits(&self) -> SessionLimits {
        let &Self { iops, bandwidth, reads, writes, burst, .. } = self;
        SessionLimits { total: Rates { iops, bandwidth }, reads, writes, burst }
    }
}

impl Session {
    /// Computes how many commands of 4 KiB the session's own limits on all commands let pass in a millisecond.
    pub(crate) fn commands_per_ms(&self) -> u64 {
        let Rates { iops, bandwidth } = self.all.rates();
        let per_ms = |rate: Option<Rate>, each: u64| {
            rate.map_or(u64::MAX, |rate| rate.get() / (1000 * each))
        };
        per_ms(iops, 1).min(per_ms(bandwidth, 4096))
    }

    /// Returns the session's own limits, without its ancestors' limits.
    #[must_use]
    pub fn limits(&self) -> SessionLimits {
        SessionLimits {
            total: self.all.rates(),
            reads: self.directions.rates(false),
            writes: self.directions.rates(true),
            burst: self.all.iops.burst(),
        }
    }

    /// Returns whether the session's rates are limited.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        let is_direction = |write| self.directions.rates(write).is_limited();
        self.all.rates().is_limited() || is_direction(false) || is_direction(true)
    }

    /// Changes the limits. Debts and saved credit stay, as far as the new limits hold them.
    pub(super) fn set_limits(&self, now: Nanos, limits: &SessionLimits) {
        let SessionLimits { total, reads, writes, burst } = *limits;
        self.all.set(now, total, burst);
        self.directions.set(now, [reads, writes], burst);
    }

    /// Lists the session's own limiters that concern commands of a direction.
    #[inline]
    fn limiters(&self, write: bool) -> impl Iterator<Item = &Limiters> {
        once(&self.all).chain(self.directions.limiters(write))
    }

    /// Checks whether a reactor may let a command pass, as far as the session's own limits on all
    /// commands are concerned. A reactor that may not waits for them from then on.
    ///
    /// # Errors
    /// The time at which it may.
    #[inline]
    pub(crate) fn admit(&self, now: Nanos, waiter: Waiter) -> Result<(), Nanos> {
        self.all.admit(now, waiter)
    }

    /// Says the same of the session's own limits on a direction.
    ///
    /// # Errors
    /// The time at which it may.
    #[inline]
    pub(crate) fn admit_direction(
        &self,
        now: Nanos,
        waiter: Waiter,
        write: bool,
    ) -> Result<(), Nanos> {
        self.directions
            .limiters(write)
            .map_or(Ok(()), |own| own.admit(now, Waiter { party: 0, ..waiter }))
    }

    /// Returns which of the session's own limits lets the next command pass last: of those on all commands, or of
    /// those on reads (`false`) or writes.
    pub(crate) fn slower_limit(&self, direction: Option<bool>) -> BlockReason {
        let limiters = match direction {
            Some(write) => self.directions.limiters(write),
            None => Some(&self.all),
        };
        match limiters {
            Some(own) if own.bandwidth.open_since() > own.iops.open_since() => {
                BlockReason::Bandwidth
            }
            _ => BlockReason::Iops,
        }
    }

    /// Returns the reason for which the session is blocked now.
    pub(crate) fn present_block(&self, now: Nanos) -> BlockReason {
        match self.all.check(now) {
            Err(_) => self.slower_limit(None),
            Ok(()) => BlockReason::Credits,
        }
    }

    /// Charges a command that has waited since `since` to the session's own limits.
    #[inline]
    pub(crate) fn charge_limits(&self, now: Nanos, since: Nanos, write: bool, amount: Amount) {
        self.limiters(write).for_each(|own| own.charge(now, since, amount));
    }

    /// Counts a command that has passed in a reactor's turn at the session's own limits. `step` computes
    /// its cost over the reactor's weight, at those on all commands (`false`) or on its direction.
    #[inline]
    pub(crate) fn count_turn(
        &self,
        now: Nanos,
        waiter: Waiter,
        write: bool,
        step: impl Fn(bool) -> u64,
    ) {
        self.all.count_turn(now, waiter, || step(false));
        if let Some(own) = self.directions.limiters(write) {
            own.count_turn(now, Waiter { party: 0, ..waiter }, || step(true));
        }
    }

    /// Charges the limits on bytes for the time that a command occupied its device, which is never
    /// more than `most` bytes.
    #[inline]
    pub(crate) fn charge_time(&self, now: Nanos, write: bool, nanos: u64, most: u64) {
        self.limiters(write).for_each(|own| own.bandwidth.charge_time(now, nanos, most));
    }

    /// Refunds the charge of a command.
    #[inline]
    pub(crate) fn give_back_limits(&self, write: bool, amount: Amount) {
        self.limiters(write).for_each(|own| own.give_back(amount));
    }

    /// Notes that a host was asked to send a command again by `until`, in the limits of the session
    /// and of its ancestors.
    pub fn send_back(&self, now: Nanos, write: bool, bytes: u64, until: Nanos) {
        for (limit, amount) in self.line_limiters(write, bytes) {
            limit.send_back(now, amount, until);
        }
    }

    /// Notes that hosts may wait until `until` before they resend the commands that were sent back: Linux has one timer for the
    /// retries of a namespace, which the latest delay sets.
    pub fn postpone_retries(&self, until: Nanos) {
        for (limit, _) in [false, true].into_iter().flat_map(|write| self.line_limiters(write, 0)) {
            limit.postpone_retries(until);
        }
    }

    /// Notes that a command which was sent back has come again.
    pub fn came_again(&self, now: Nanos, write: bool, bytes: u64) {
        for (limit, amount) in self.line_limiters(write, bytes) {
            limit.came_again(now, amount);
        }
    }

    /// Notes that the host of a command which was sent back has gone.
    pub fn lose_sent_back(&self, write: bool, bytes: u64) {
        for (limit, amount) in self.line_limiters(write, bytes) {
            limit.lose_sent_back(amount);
        }
    }

    /// Returns the delay, in ns, of a new command of a direction behind all commands that were sent
    /// back and are to come again; 0 if there are none.
    #[must_use]
    pub fn wait_behind_sent_back(&self, now: Nanos, write: bool) -> u64 {
        let limits = self.line_limiters(write, 0);
        limits.map(|(limit, _)| limit.wait_behind_sent_back(now)).max().unwrap_or(0)
    }

    /// Returns the most commands of `bytes` bytes each that the limits of the session, and of those
    /// above it, let pass in `nanos` ns if all are of the slower direction; `None` where nothing
    /// limits them.
    #[must_use]
    pub fn commands_within(&self, nanos: u64, bytes: u64) -> Option<u64> {
        let commands = |(limit, amount): (&Limiter, u64)| {
            let units =
                u128::from(limit.rate().map(Rate::get)?) * u128::from(nanos) / 1_000_000_000;
            Some(u64::try_from(units / u128::from(amount.max(1))).unwrap_or(u64::MAX))
        };
        let limits = [false, true].into_iter().flat_map(|write| self.line_limiters(write, bytes));
        limits.filter_map(commands).min()
    }

    /// Lists the limits of a direction, the session's own and its ancestors', each with the charge
    /// for a command of `bytes` bytes.
    pub(super) fn line_limiters(
        &self,
        write: bool,
        bytes: u64,
    ) -> impl Iterator<Item = (&Limiter, u64)> {
        let line = successors(Some(self), |session| session.parent.as_deref());
        let own = line.flat_map(move |session| session.limiters(write));
        own.flat_map(move |own| [(&own.iops, 1), (&own.bandwidth, bytes)])
    }
}
