//! Pulls: a reactor asks its arbiter for a command that may go on now, or for the time to ask
//! again.

use crate::sync::Ordering::Relaxed;
use std::sync::Arc;

use units::Nanos;

use super::Arbiter;
use super::submission::Dispatched;
use super::waiters::ANNOUNCED_SESSIONS;
use crate::reactors::Reactors;
use crate::session::SessionId;

/// The answer of an [`Arbiter`] to a pull.
#[derive(Debug)]
pub enum Pull<T> {
    /// A command goes to its device now. Pull again: more may go.
    Command(Dispatched<T>),
    /// These reactors have something to do again and may be asleep: wake them, and pull again.
    Wake(Reactors),
    /// Nothing may go before this time, unless a command is enqueued or completed here or another
    /// reactor wakes this one.
    Later(Nanos),
    /// Nothing may go until a command is enqueued or completed here or another reactor wakes this
    /// one.
    Nothing,
}

impl<T: Copy> Arbiter<T> {
    /// Returns the next step. A reactor pulls in each turn until the result is [`Pull::Later`] or
    /// [`Pull::Nothing`].
    #[inline]
    pub fn pull(&mut self, now: Nanos) -> Pull<T> {
        if self.waiting > 0
            && let Some(command) = self.next_command(now)
        {
            return Pull::Command(command);
        }
        let wake = self.take_wake_ups();
        if !wake.is_empty() {
            return Pull::Wake(wake);
        }
        match self.next_timer() {
            Some(when) if self.waiting > 0 => Pull::Later(when),
            _ => Pull::Nothing,
        }
    }

    /// Announces that this reactor is about to sleep, then [pulls](Self::pull). It may sleep if the
    /// answer is [`Pull::Later`] (until then at most) or [`Pull::Nothing`]; with any other answer
    /// it is awake, and asks here again before it sleeps.
    ///
    /// The announcement comes first: room that another reactor makes before it is found by the
    /// pull, and after it the other reactor finds the announcement and wakes this one.
    pub fn pull_before_sleep(&mut self, now: Nanos) -> Pull<T> {
        for queue in self.devices.waiting() {
            queue.device.sleep(self.reactor);
        }
        let answer = self.pull(now);
        let reserved =
            self.devices.waiting().filter_map(|queue| queue.sessions.next_throttled()).min();
        match (answer, reserved) {
            (Pull::Nothing, Some(when)) => Pull::Later(when.max(now.after(1))),
            (Pull::Later(timer), Some(when)) => Pull::Later(timer.min(when.max(now.after(1)))),
            (answer, _) => answer,
        }
    }

    /// Takes the next command of any device. The device that the last command went to is asked
    /// first, unless that command needed a limit or credits: other devices may wait for these too.
    #[inline]
    fn next_command(&mut self, now: Nanos) -> Option<Dispatched<T>> {
        loop {
            self.poll(now);
            let mut asked = 0;
            while let Some(device) = self.devices.current() {
                let command = self.dispatch(now, device);
                if let Some(command) = command {
                    if self.devices.active() > 1 && self.is_bounded(&command) {
                        self.devices.advance();
                    }
                    return Some(command);
                }
                self.devices.advance();
                asked += 1;
                if asked >= self.devices.active() {
                    break;
                }
            }
            // A session that was blocked just now may have got its credits in that very moment.
            // Then this reactor was notified, and no other notification follows.
            if self.waiters.is_empty(self.reactor) {
                return None;
            }
        }
    }

    /// Returns whether a limit or credits concern a command.
    #[inline]
    fn is_bounded(&self, command: &Dispatched<T>) -> bool {
        self.sessions.kept(command.grant.session).is_some_and(|local| !local.free)
    }

    /// Takes the reactors that have work since the last call: reactors that sleep though commands
    /// wait, and reactors whose sessions have credits again. A reactor must call this if it ends
    /// its turn before a pull returned [`Pull::Later`] or [`Pull::Nothing`]. Otherwise they sleep
    /// until its next turn.
    #[inline]
    #[must_use = "these reactors sleep until they are woken"]
    pub fn take_wake_ups(&mut self) -> Reactors {
        let mut wake = std::mem::take(&mut self.wake);
        if self.woken.load(Relaxed) != 0 {
            wake |= Reactors::of_bits(self.woken.swap(0, Relaxed));
        }
        wake.without(self.reactor)
    }

    /// Returns the reactors that [`Self::take_wake_ups`] would take out.
    #[must_use]
    pub fn wake_ups(&self) -> Reactors {
        let mut wake = self.wake;
        wake |= Reactors::of_bits(self.woken.load(Relaxed));
        wake.without(self.reactor)
    }

    /// Returns the time at which the next timer runs out.
    #[inline]
    pub(super) fn next_timer(&self) -> Option<Nanos> {
        self.timers.next()
    }

    /// Unblocks sessions whose timers have expired, and sessions that have credits again.
    #[inline]
    pub(super) fn poll(&mut self, now: Nanos) {
        while let Some(timer) = self.timers.pop(now) {
            let queue = self.devices.get_mut(timer.device);
            match queue.filter(|queue| queue.sessions.has_timer(timer.session, timer.when)) {
                Some(queue) => {
                    queue.sessions.end_timer(timer.session);
                    queue.unblock_session(now, timer.session);
                    self.release_held(now, timer.device, timer.session);
                }
                None => self.timers.idle_ran_out(),
            }
        }
        if !self.waiters.is_empty(self.reactor) {
            self.unblock_told(now);
        }
    }

    /// Unblocks the sessions that have credits again.
    #[cold]
    fn unblock_told(&mut self, now: Nanos) {
        let waiters = Arc::clone(&self.waiters);
        let places = u32::try_from(self.sessions.places()).unwrap_or(u32::MAX);
        waiters.take(self.reactor, |told| {
            let mut session = told;
            while session < places {
                self.unblock_everywhere(now, SessionId(session));
                session += ANNOUNCED_SESSIONS;
            }
        });
    }

    /// Unblocks a session at all devices at which it is blocked.
    fn unblock_everywhere(&mut self, now: Nanos, session: SessionId) {
        for device in std::mem::take(&mut self.sessions.links_mut(session).blocked_at) {
            // The device may have gone since the session was blocked there.
            if let Some(queue) = self.devices.get_mut(device) {
                queue.sessions.forget_note(session);
                queue.unblock(now, session);
            }
        }
    }
}
