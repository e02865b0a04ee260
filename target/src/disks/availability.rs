//! The availability of a namespace, the reason for it, and the times at which its device is tried
//! again. The code is pure: the time is an argument.

use std::time::Duration;

use fabric::Nanos;

use crate::serve::engine::Availability;
use crate::sys::words::coarse_time;

/// Delays between tries of a missing device, after the first try and after each event about
/// devices. The first ones are short, since a device file appears before its size and its
/// permissions do.
const DELAYS: [Duration; 11] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(5),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
    Duration::from_secs(40),
    Duration::from_secs(60),
];
/// The least time between two tries, however many events there are.
const APART: Duration = Duration::from_millis(200);
/// The least time between two lines of the log about one namespace's errors.
const LOG_EVERY: Duration = Duration::from_secs(10);
/// The time after its last error at which a device counts as sound again.
const FORGIVEN_AFTER: Duration = Duration::from_secs(300);

/// The watch over one namespace's device.
#[derive(Debug)]
pub(crate) struct Watch {
    closed: Option<Closed>,
    errors: Errors,
    /// The damage of the open file or device itself.
    damage: Option<String>,
}

/// A device that is not open.
#[derive(Debug)]
struct Closed {
    why: String,
    since: Nanos,
    tried: Nanos,
    /// Tries since the last event about devices.
    tries: usize,
    next: Nanos,
}

#[derive(Debug, Default)]
struct Errors {
    /// Errors since the start.
    total: u64,
    /// Errors of `total` that are forgiven.
    forgiven: u64,
    last: Option<(Nanos, String)>,
    logged: Option<Nanos>,
    unlogged: u64,
}

/// A note for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// A device answered with errors: their number since the last such note, and the last error.
    Errors(u64, String),
    /// The file or device has changed since it was opened.
    Damaged(String),
    /// No error has come for long, or the damage has gone.
    Sound,
}

impl Watch {
    /// Makes the watch over a device that is open.
    pub(crate) fn open() -> Self {
        Self { closed: None, errors: Errors::default(), damage: None }
    }

    /// Makes the watch over a device that could not be opened.
    pub(crate) fn closed(now: Nanos, why: String) -> Self {
        let mut watch = Self::open();
        watch.gone(now, why);
        watch
    }

    pub(crate) fn is_open(&self) -> bool {
        self.closed.is_none()
    }

    /// Notes that the device is gone, or was never there.
    pub(crate) fn gone(&mut self, now: Nanos, why: String) {
        self.damage = None;
        let next = now + DELAYS.first().copied().unwrap_or_default();
        self.closed = Some(Closed { why, since: now, tried: now, tries: 0, next });
    }

    /// Notes that the device was opened. Returns how long it was not open.
    pub(crate) fn opened(&mut self, now: Nanos) -> Duration {
        self.damage = None;
        self.closed.take().map_or(Duration::ZERO, |closed| now.since(closed.since))
    }

    /// Notes that another try to open the device has failed. Returns whether the reason is another
    /// than before.
    pub(crate) fn refused(&mut self, now: Nanos, why: String) -> bool {
        let Some(closed) = &mut self.closed else { return false };
        closed.tried = now;
        closed.tries += 1;
        let delay = DELAYS.get(closed.tries).or(DELAYS.last()).copied().unwrap_or_default();
        closed.next = now + delay;
        let new = closed.why != why;
        closed.why = why;
        new
    }

    /// Makes the next try due now, since the device may have appeared.
    pub(crate) fn nudge(&mut self, now: Nanos) {
        if let Some(closed) = &mut self.closed {
            closed.tries = 0;
            closed.next = closed.next.min((closed.tried + APART).max(now));
        }
    }

    /// Puts a try off: the device cannot be tried yet.
    pub(crate) fn postpone(&mut self, now: Nanos) {
        if let Some(closed) = &mut self.closed {
            closed.next = now + APART;
        }
    }

    /// Returns whether a try of the device is due.
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        self.closed.as_ref().is_some_and(|closed| closed.next <= now)
    }

    /// Returns when there is something to do for this namespace: a try, or errors that wait to be
    /// logged.
    pub(crate) fn next(&self) -> Option<Nanos> {
        let logging = self.errors.logged.filter(|_| self.errors.unlogged > 0);
        let logging = logging.map(|logged| logged + LOG_EVERY);
        let trying = self.closed.as_ref().map(|closed| closed.next);
        [logging, trying].into_iter().flatten().min()
    }

    /// Takes the number of errors since the start, and the last one in words. Returns the note for
    /// the log.
    pub(crate) fn see_errors(
        &mut self,
        now: Nanos,
        total: u64,
        last: impl FnOnce() -> String,
    ) -> Option<Note> {
        let errors = &mut self.errors;
        let new = total.saturating_sub(errors.total);
        if new > 0 {
            errors.total = total;
            errors.unlogged += new;
            errors.last = Some((now, last()));
        }
        let may_log = errors.logged.is_none_or(|logged| now.since(logged) >= LOG_EVERY);
        if errors.unlogged > 0 && may_log {
            errors.logged = Some(now);
            let (_, last) = errors.last.clone()?;
            return Some(Note::Errors(std::mem::take(&mut errors.unlogged), last));
        }
        if errors.last.as_ref().is_some_and(|(at, _)| now.since(*at) >= FORGIVEN_AFTER) {
            errors.last = None;
            errors.forgiven = errors.total;
            return self.damage.is_none().then_some(Note::Sound);
        }
        None
    }

    /// Takes the damage that a look at the open file or device found. Returns the note for the log.
    pub(crate) fn see_damage(&mut self, damage: Option<String>) -> Option<Note> {
        if self.damage == damage {
            return None;
        }
        self.damage.clone_from(&damage);
        match damage {
            Some(words) => Some(Note::Damaged(words)),
            None => self.errors.last.is_none().then_some(Note::Sound),
        }
    }

    /// Returns the number of errors since the start.
    pub(crate) fn errors(&self) -> u64 {
        self.errors.total
    }

    /// Returns the state, and the reason for it.
    pub(crate) fn state(&self, now: Nanos) -> (Availability, Option<String>) {
        if let Some(closed) = &self.closed {
            let reason = format!("{} (for {})", closed.why, coarse_time(now.since(closed.since)));
            return (Availability::Unavailable, Some(reason));
        }
        let last = self.errors.last.as_ref().map(|(at, last)| {
            let count = self.errors.total - self.errors.forgiven;
            let noun = if count == 1 { "error" } else { "errors" };
            format!("{count} {noun}, last: {last}, {} ago", coarse_time(now.since(*at)))
        });
        match (self.damage.clone(), last) {
            (None, None) => (Availability::Ready, None),
            (Some(damage), Some(last)) => (Availability::Errors, Some(format!("{damage}; {last}"))),
            (damage, last) => (Availability::Errors, damage.or(last)),
        }
    }
}

#[cfg(test)]
#[path = "availability_tests.rs"]
mod tests;
