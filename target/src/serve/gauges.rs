//! Counters that reactors write and all threads read.

use std::sync::atomic::{AtomicU64, Ordering};

use fabric::controller::{Refusal, RefusalKind};
use sluice_core::stats::Histogram;
use sluice_core::{Load, StateCounts};

use super::engine::ReactorState;

/// The counters of one reactor.
#[derive(Debug, Default)]
pub struct ReactorGauges {
    /// The number of the reactor's CPU.
    pub core: AtomicU64,
    /// Connections of the reactor, with those that were accepted for it and have not reached it.
    pub connections: AtomicU64,
    /// Those among them that have sent no Connect that succeeded.
    pub waiting: AtomicU64,
    /// Those among them that are I/O queues.
    pub io_queues: AtomicU64,
    /// Nanoseconds spent working.
    pub busy_ns: AtomicU64,
    /// Turns of the reactor's loop.
    pub turns: AtomicU64,
    /// System calls of the reactor's loop.
    pub calls: AtomicU64,
    /// Receives from TCP sockets.
    pub receives: Transfers,
    /// Sends to TCP sockets.
    pub sends: Transfers,
    /// The time of the reactor's last turn, in nanoseconds of the daemon's clock.
    pub seen: AtomicU64,
    /// I/O buffer bytes in use.
    pub buffer_used: AtomicU64,
    /// I/O buffer bytes in all.
    pub buffer_total: AtomicU64,
    /// Commands in each state, in the order of [`StateCounts::iter`].
    pub states: [AtomicU64; StateCounts::LEN],
    /// CPU time that the reactor spent on a change of the configuration in one turn, in ns.
    pub changes: Histogram,
}

/// Receives from sockets, or sends to them.
#[derive(Debug, Default)]
pub struct Transfers {
    count: AtomicU64,
    bytes: AtomicU64,
}

impl Transfers {
    /// Counts a transfer with this result: bytes, or a negated errno. Called by the reactor alone.
    #[inline]
    pub fn add(&self, result: i32) {
        let Some(bytes) = u64::try_from(result).ok().filter(|bytes| *bytes > 0) else { return };
        self.count.store(self.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }

    /// Returns the number of transfers, and of their bytes.
    pub fn counts(&self) -> (u64, u64) {
        (self.count.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

impl ReactorGauges {
    /// Copies the counters.
    #[must_use]
    pub fn state(&self) -> ReactorState {
        ReactorState {
            core: usize::try_from(self.core.load(Ordering::Relaxed)).unwrap_or(0),
            connections: self.connections.load(Ordering::Relaxed),
            busy_ns: self.busy_ns.load(Ordering::Relaxed),
            turns: self.turns.load(Ordering::Relaxed),
            calls: self.calls.load(Ordering::Relaxed),
            receives: self.receives.counts(),
            sends: self.sends.counts(),
            buffer_used: self.buffer_used.load(Ordering::Relaxed),
            buffer_total: self.buffer_total.load(Ordering::Relaxed),
            states: StateCounts::default()
                .iter()
                .zip(&self.states)
                .map(|((name, _), count)| (name, count.load(Ordering::Relaxed)))
                .collect(),
            changes: self.changes.snapshot(),
        }
    }

    /// Returns what counts for the choice of a reactor for a new connection.
    #[must_use]
    pub fn load(&self) -> Load {
        Load {
            io_queues: self.io_queues.load(Ordering::Relaxed),
            waiting: self.waiting.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
        }
    }

    /// Stores the number of commands in each state.
    pub fn set_states(&self, counts: &StateCounts) {
        for (gauge, (_, count)) in self.states.iter().zip(counts.iter()) {
            gauge.store(count, Ordering::Relaxed);
        }
    }
}

/// Counters of rare events.
#[derive(Debug, Default)]
pub struct Events {
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Connections ended because the peer broke the protocol.
    pub protocol_errors: AtomicU64,
    /// Connections closed, or not taken, because too many had sent no Connect.
    pub waiting_closed: AtomicU64,
    /// Connections refused before they were served, on listeners with TLS.
    pub tls_refused: AtomicU64,
    /// Connect commands that were refused, by the kind of the reason.
    pub connects_refused: [AtomicU64; RefusalKind::ALL.len()],
    /// Controllers ended because their keep-alive timer expired.
    pub keep_alive_expired: AtomicU64,
}

impl Events {
    /// Counts a Connect that was refused.
    pub fn refused(&self, reason: Refusal) {
        if let Some(count) = self.connects_refused.get(reason.kind() as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of Connects that were refused, for each kind of reason.
    pub fn refusals(&self) -> Vec<(RefusalKind, u64)> {
        let counts = self.connects_refused.iter().map(|count| count.load(Ordering::Relaxed));
        RefusalKind::ALL.into_iter().zip(counts).collect()
    }
}
