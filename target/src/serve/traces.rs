//! Traces of commands: a bounded ring for each reactor, which writes to it, and the reader that asked for the trace.
//!
//! One trace runs at a time. It ends when its reader says so, or 5 s after the reader's last request: then the reactors
//! stop by themselves. A reactor holds its ring's lock for as long as it adds one command, and the reader for as long as it
//! exchanges the ring for an empty one.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fabric::Nanos;
use sluice_core::TracedCommand;

use crate::sys::sync::lock;

/// Commands that a ring keeps; at most 250 bytes each. Reactors trace 50,000 commands per second at most.
const COMMANDS_MAX: usize = 1 << 14;
/// Time after the reader's last request at which its trace ends.
const IDLE: Duration = Duration::from_secs(5);
/// The time of the last request while no trace runs.
const OFF: u64 = u64::MAX;

/// The traces of all reactors.
#[derive(Debug)]
pub(crate) struct Traces {
    rings: Vec<Mutex<Ring>>,
    /// The number of the present trace, or of the last one.
    number: Mutex<u64>,
    /// The time of the reader's last request in ns of the daemon's clock, or [`OFF`].
    asked: AtomicU64,
}

#[derive(Debug, Default)]
struct Ring {
    commands: VecDeque<TracedCommand>,
    lost: u64,
}

/// The commands of a trace since the request before.
#[derive(Debug, Default)]
pub struct TracedCommands {
    /// The commands with the reactors that served them, in the order in which they were received.
    pub commands: Vec<(usize, TracedCommand)>,
    /// The number of traced commands that were evicted, since the reader asked too late.
    pub lost: u64,
}

impl Traces {
    pub(crate) fn new(reactors: usize) -> Self {
        let rings = (0..reactors).map(|_| Mutex::default()).collect();
        Self { rings, number: Mutex::default(), asked: AtomicU64::new(OFF) }
    }

    /// Begins a trace. Returns its number; `None` while another one runs.
    pub(crate) fn begin(&self, now: Nanos) -> Option<u64> {
        let mut number = lock(&self.number);
        if !self.is_over(now) {
            return None;
        }
        *number += 1;
        self.asked.store(now.0, Ordering::Relaxed);
        for ring in &self.rings {
            *lock(ring) = Ring::default();
        }
        Some(*number)
    }

    /// Returns whether no trace runs, or the reader of the present one has asked for nothing for 5 s.
    pub(crate) fn is_over(&self, now: Nanos) -> bool {
        match self.asked.load(Ordering::Relaxed) {
            OFF => true,
            asked => now.since(Nanos(asked)) > IDLE,
        }
    }

    /// Adds a command of a reactor.
    pub(crate) fn add(&self, reactor: usize, command: TracedCommand) {
        let Some(ring) = self.rings.get(reactor) else { return };
        let mut ring = lock(ring);
        if ring.commands.len() >= COMMANDS_MAX {
            ring.commands.pop_front();
            ring.lost = ring.lost.saturating_add(1);
        }
        ring.commands.push_back(command);
    }

    /// Takes the commands of a trace, and ends it if `ends`. `None` if that trace does not run any more.
    pub(crate) fn take(&self, now: Nanos, number: u64, ends: bool) -> Option<TracedCommands> {
        let present = lock(&self.number);
        if *present != number || self.is_over(now) {
            return None;
        }
        self.asked.store(if ends { OFF } else { now.0 }, Ordering::Relaxed);
        let mut taken = TracedCommands::default();
        for (reactor, ring) in self.rings.iter().enumerate() {
            let empty = Ring { commands: VecDeque::with_capacity(64), lost: 0 };
            let Ring { commands, lost } = std::mem::replace(&mut *lock(ring), empty);
            taken.lost = taken.lost.saturating_add(lost);
            taken.commands.extend(commands.into_iter().map(|command| (reactor, command)));
        }
        taken.commands.sort_by_key(|(_, command)| command.received);
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn trace_runs_until_its_reader_ends_or_leaves() {
        let traces = Traces::new(2);
        assert!(traces.is_over(Nanos(0)));
        let first = traces.begin(Nanos(SECOND)).unwrap();
        assert_eq!(traces.begin(Nanos(2 * SECOND)), None);
        assert!(traces.take(Nanos(3 * SECOND), first, false).is_some());
        assert!(!traces.is_over(Nanos(8 * SECOND)));
        let late = Nanos(9 * SECOND);
        assert!(traces.is_over(late) && traces.take(late, first, false).is_none());
        let second = traces.begin(late).unwrap();
        assert!(traces.take(late, first, true).is_none(), "it is another one");
        assert!(traces.take(late, second, true).is_some() && traces.is_over(late));
    }
}
