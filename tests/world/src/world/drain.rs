//! The end of a target: its reactors take no more commands, settle the remaining ones, and close.

use std::time::Duration;

use fabric::Nanos;

use super::kept::Drain;
use super::{Input, World};

/// Maximum time of a drain beyond the given time, in ns: a second for hosts to receive unsent output, the time of
/// commands in a device, and the network's time.
const BEYOND_NS: u64 = 3_000_000_000;
/// The time that the answers of a target that drains have to arrive before it closes, in ns.
const ARRIVE_NS: u64 = 10_000_000;
/// Time that is enough for all commands of a world where nothing goes wrong.
const LONG: Duration = Duration::from_secs(60);
/// Number of commands that hosts submit to a target that drains.
const FURTHER: u64 = 64;

impl World {
    /// Starts to drain all reactors.
    pub(super) fn drain(&mut self) {
        let short = Duration::from_micros(self.rng.u64(1..50_000));
        let time = if self.rng.bool() { LONG } else { short };
        self.trace(|| format!("the target drains within {time:?}"));
        self.drain = Some(Drain {
            time,
            until: Nanos((self.now + time).0 + BEYOND_NS),
            untold: self.reactors.len(),
            told: u64::MAX,
            had: 0,
            answered: 0,
        });
        (0..self.reactors.len()).for_each(|reactor| self.put(reactor, Input::Drain(time)));
    }

    /// Takes note that a reactor has started to drain, and of its number of commands then.
    pub(super) fn drains(&mut self, commands: usize) {
        let step = self.oracle.step();
        if let Some(drain) = &mut self.drain {
            drain.had += commands;
            drain.untold = drain.untold.saturating_sub(1);
            if drain.untold == 0 {
                drain.told = step;
            }
        }
    }

    /// Takes note that an I/O command was answered that a host had submitted at step `since`.
    pub(super) fn is_answered(&mut self, since: u64) {
        let Some(drain) = &mut self.drain else { return };
        drain.answered += 1;
        if since > drain.told {
            self.breaks("a command was answered that came to a target that drains");
        }
    }

    /// Takes note that a host loses a queue, and with it the outstanding commands of all its
    /// queues.
    pub(super) fn is_lost(&mut self, host: usize) {
        let calm = !self.scenario.faults && self.drain.is_some_and(|drain| drain.time == LONG);
        if calm && self.now.ns_since(self.hosts[host].answered_at) < ARRIVE_NS {
            self.breaks("a target that drains closed while answers could be on their way");
        }
    }

    /// Returns whether hosts submit commands.
    pub(super) fn is_open(&self) -> bool {
        match self.drain {
            Some(_) => self.outcome.submitted < self.scenario.commands + FURTHER,
            None => !self.settling && self.outcome.submitted < self.scenario.commands,
        }
    }

    /// Returns whether the target has drained. Checks that it does in time, and leaves nothing behind.
    pub(super) fn has_drained(&mut self, drain: Drain) -> bool {
        let Drain { time, until, had, answered, .. } = drain;
        if !self.reactors.iter().all(|one| one.core.is_drained()) {
            if self.now > until {
                let held = self.held();
                self.breaks(format!("reactors were to drain within {time:?} and hold: {held:?}"));
            }
            return false;
        }
        let arrives = |one: &crate::connection::Connection| !one.down.is_empty();
        if self.connections.iter().any(arrives) && self.now <= until {
            return false;
        }
        if self.reactors.iter().any(|one| one.core.inventory() != Default::default()) {
            self.breaks(format!("reactors have drained and hold: {:?}", self.held()));
        }
        let calm = !self.scenario.faults && time == LONG;
        if calm && answered < had {
            self.breaks(format!("of {had} commands, a drain with enough time answered {answered}"));
        }
        true
    }
}
