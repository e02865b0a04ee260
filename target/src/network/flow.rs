//! What a reactor and the network's poller tell each other of one connection.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use arbitration::PerClass;
use fabric::controller::{ConnectionId, ListenerId};

/// One I/O connection. The reactor writes what has moved, the poller how fast it may.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) id: ConnectionId,
    pub(crate) listener: ListenerId,
    /// A descriptor of its own, so that it names this socket whatever the reactor does.
    pub(crate) socket: OwnedFd,
    /// What the target sends.
    pub(crate) out: PerClass<Traffic>,
    /// What the host sends as data.
    pub(crate) into: PerClass<Traffic>,
    /// The kernel has not taken all that was handed to it.
    pub(crate) sending: AtomicBool,
    /// Answers are limited: they wait in the target, where classes are told apart.
    pub(crate) held: AtomicBool,
    /// The round-trip time in microseconds; 0: not known yet.
    rtt_us: AtomicU32,
    /// Bytes per second that the host may be asked for; [`UNLIMITED`]: any number.
    grant_rate: AtomicU64,
}

/// No limit.
const UNLIMITED: u64 = u64::MAX;

/// One class's bytes in one direction.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// Bytes that have moved: handed to the kernel, or received.
    pub(crate) moved: AtomicU64,
    /// Bytes that are to: answers that wait in the target; data that is to be asked for, or was.
    pub(crate) waiting: AtomicU64,
}

impl Traffic {
    /// Bytes moved, bytes waiting.
    pub(crate) fn read(&self) -> (u64, u64) {
        (self.moved.load(Ordering::Relaxed), self.waiting.load(Ordering::Relaxed))
    }
}

impl Flow {
    pub(crate) fn new(id: ConnectionId, listener: ListenerId, socket: OwnedFd) -> Self {
        Self {
            id,
            listener,
            socket,
            out: PerClass::default(),
            into: PerClass::default(),
            sending: AtomicBool::default(),
            held: AtomicBool::default(),
            rtt_us: AtomicU32::default(),
            grant_rate: AtomicU64::new(UNLIMITED),
        }
    }

    /// The round-trip time; zero: not known yet.
    #[inline]
    pub(crate) fn rtt(&self) -> Duration {
        Duration::from_micros(u64::from(self.rtt_us.load(Ordering::Relaxed)))
    }

    /// Sets the round-trip time.
    pub(crate) fn set_rtt(&self, rtt: Duration) {
        self.rtt_us.store(u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Bytes per second that the host may be asked for; none: any number.
    #[inline]
    pub(crate) fn grant_rate(&self) -> Option<u64> {
        let rate = self.grant_rate.load(Ordering::Relaxed);
        (rate != UNLIMITED).then_some(rate)
    }

    /// Sets what the host may be asked for, in bytes per second.
    pub(crate) fn set_grant_rate(&self, rate: Option<u64>) {
        let rate = rate.map_or(UNLIMITED, |rate| rate.clamp(1, UNLIMITED - 1));
        self.grant_rate.store(rate, Ordering::Relaxed);
    }
}
