//! What a reactor asks of its arbiter: what may go on now, or when to ask again.

use crate::sync::Ordering::Relaxed;
use std::cmp::Reverse;
use std::sync::Arc;

use super::waiters::SESSIONS_TOLD_APART;
use super::{Arbiter, DeviceId, Dispatched};
use crate::reactors::Reactors;
use units::Nanos;

/// What an [`Arbiter`] answers to whoever pulls.
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
    /// Answers what may go on now. A reactor pulls in each turn until the answer is
    /// [`Pull::Later`] or [`Pull::Nothing`].
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
        for device in &self.active {
            let queue = self.devices.get(*device as usize).and_then(Option::as_ref);
            if let Some(queue) = queue.filter(|queue| queue.waits()) {
                queue.device.sleep(self.reactor);
            }
        }
        self.pull(now)
    }

    /// Takes the next command of any device, going on with the device that the last one went to.
    #[inline]
    fn next_command(&mut self, now: Nanos) -> Option<Dispatched<T>> {
        loop {
            self.poll(now);
            let mut asked = 0;
            while let Some(device) = self.current_device() {
                let command = self.dispatch(now, device);
                if command.is_some() {
                    return command;
                }
                self.turn += 1;
                asked += 1;
                if asked >= self.active.len() {
                    break;
                }
            }
            // A session that was blocked just now may have got its credits in that very moment:
            // then this reactor was told, and nobody else will say so again.
            if self.waiters.is_empty(self.reactor) {
                return None;
            }
        }
    }

    /// The device whose turn it is; `None` where nothing waits at any. Devices at which nothing
    /// waits any more leave the list.
    #[inline]
    fn current_device(&mut self) -> Option<DeviceId> {
        loop {
            if self.turn >= self.active.len() {
                self.turn = 0;
            }
            let device = *self.active.get(self.turn)?;
            match self.devices.get_mut(device as usize).and_then(Option::as_mut) {
                Some(queue) if queue.waits() => return Some(DeviceId(device)),
                Some(queue) => queue.listed = false,
                None => {}
            }
            self.active.swap_remove(self.turn);
        }
    }

    /// The reactors that have something to do again since the last call: those that sleep though
    /// commands wait, or whose sessions have credits again.
    #[inline]
    fn take_wake_ups(&mut self) -> Reactors {
        let mut wake = std::mem::take(&mut self.wake);
        if self.woken.load(Relaxed) != 0 {
            wake |= Reactors::of_bits(self.woken.swap(0, Relaxed));
        }
        wake.without(self.reactor)
    }

    /// When something that waits for the time may go on.
    #[inline]
    pub(super) fn next_timer(&self) -> Option<Nanos> {
        self.timers.peek().map(|Reverse((when, _, _))| *when)
    }

    /// Lets go on what the time, and other reactors, allow by now.
    #[inline]
    pub(super) fn poll(&mut self, now: Nanos) {
        while let Some(&Reverse((when, device, session))) = self.timers.peek() {
            if when > now {
                break;
            }
            self.timers.pop();
            let queue = self.queue_mut(device);
            match queue.filter(|queue| queue.has_timer(session, when)) {
                Some(queue) => {
                    queue.end_timer(session);
                    queue.unblock(now, session);
                }
                None => self.idle_timers = self.idle_timers.saturating_sub(1),
            }
        }
        if !self.waiters.is_empty(self.reactor) {
            self.unblock_told(now);
        }
    }

    /// Lets those sessions go on that have credits again.
    #[cold]
    fn unblock_told(&mut self, now: Nanos) {
        let waiters = Arc::clone(&self.waiters);
        let places = u32::try_from(self.sessions.len()).unwrap_or(u32::MAX);
        waiters.take(self.reactor, |told| {
            let mut session = told;
            while session < places {
                self.unblock_everywhere(now, session);
                session += SESSIONS_TOLD_APART;
            }
        });
    }
}
