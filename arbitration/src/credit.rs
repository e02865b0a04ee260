//! Stage S2, credits: how much of a session may be running at once (docs/research/sources.md, D1 to D3).
//!
//! A command holds one operation credit and a payload credit for each KiB it moves, of its session
//! and of every session above it, from its dispatch to its completion. System tasks hold credits of
//! the session they belong to as well, and may cost more operations than one (D3).

use crate::sync::Ordering::{Relaxed, SeqCst};
use crate::sync::{AtomicU32, AtomicU64};

#[cfg(test)]
mod tests;

/// Lowest bit of the operations in the word of used credits: bits 63:40 hold operations, bits 39:0
/// KiB.
const OPERATIONS_BIT: u32 = 40;
/// The most operations that can be in use.
const MAX_OPERATIONS: u32 = (1 << (64 - OPERATIONS_BIT)) - 1;
/// The most KiB that can be in use: a pebibyte less 1 KiB.
const MAX_PAYLOAD: u64 = (1 << OPERATIONS_BIT) - 1;

/// The credits that a command or a task holds while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Operation credits. More than 2^24 - 1 count as that.
    pub operations: u32,
    /// Payload credits: KiB, rounded up.
    pub payload: u32,
}

impl Cost {
    /// Makes the cost of a host's command that moves this many bytes: one operation.
    #[inline]
    #[must_use]
    pub fn user(bytes: u64) -> Self {
        Self::system(1, bytes)
    }

    /// Makes the cost of work that is worth this many operations and moves this many bytes.
    #[inline]
    #[must_use]
    pub fn system(operations: u32, bytes: u64) -> Self {
        Self { operations, payload: u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX) }
    }
}

/// The largest amount of a session's work that may run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Operations; 0 counts as 1. `u32::MAX`: no cap.
    pub operations: u32,
    /// KiB. `u64::MAX`: no cap.
    pub payload: u64,
}

impl Caps {
    /// No cap.
    pub const NONE: Self = Self { operations: u32::MAX, payload: u64::MAX };
}

impl Default for Caps {
    /// Makes caps that cap nothing.
    fn default() -> Self {
        Self::NONE
    }
}

/// The amount of a session's work that is running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Operations.
    pub operations: u32,
    /// KiB.
    pub payload: u64,
}

impl Used {
    #[inline]
    fn unpack(word: u64) -> Self {
        let operations = u32::try_from(word >> OPERATIONS_BIT).unwrap_or(MAX_OPERATIONS);
        Self { operations, payload: word & MAX_PAYLOAD }
    }

    #[inline]
    fn pack(self) -> u64 {
        u64::from(self.operations) << OPERATIONS_BIT | self.payload
    }

    /// Adds `cost`. `None` where the caps, or the word, have no room for it.
    #[inline]
    fn with(self, cost: Cost, caps: Caps) -> Option<Self> {
        let operations = self.operations.saturating_add(cost.operations.min(MAX_OPERATIONS));
        let payload = self.payload.saturating_add(u64::from(cost.payload));
        let fits = operations <= caps.operations.min(MAX_OPERATIONS)
            && payload <= caps.payload.min(MAX_PAYLOAD);
        // Work that is larger than the caps runs alone: else it would never run.
        let alone = self == Self::default();
        (fits || alone).then_some(Self { operations, payload })
    }

    #[inline]
    fn without(self, cost: Cost) -> Self {
        Self {
            operations: self.operations.saturating_sub(cost.operations.min(MAX_OPERATIONS)),
            payload: self.payload.saturating_sub(u64::from(cost.payload)),
        }
    }
}

/// The credits of one session, shared by all reactors.
#[derive(Debug)]
pub struct Credits {
    /// [`Used`], packed. Changes that return credits are sequentially consistent. Therefore a
    /// reactor that finds too few credits, announces its wait and looks again, and a reactor that
    /// returns credits and then looks for waiters, never miss each other
    /// (`returned_credit_is_taken_or_announced`).
    used: AtomicU64,
    operations: AtomicU32,
    payload: AtomicU64,
}

impl Default for Credits {
    /// Makes credits without caps.
    fn default() -> Self {
        Self::new(Caps::NONE)
    }
}

impl Credits {
    /// Makes credits that are all free.
    #[must_use]
    pub fn new(caps: Caps) -> Self {
        Self {
            used: AtomicU64::new(0),
            operations: AtomicU32::new(caps.operations),
            payload: AtomicU64::new(caps.payload),
        }
    }

    /// Changes the caps. If more is in use, nothing is taken until usage has fallen below them.
    pub fn set(&self, caps: Caps) {
        self.operations.store(caps.operations, Relaxed);
        self.payload.store(caps.payload, Relaxed);
    }

    /// Returns the caps.
    #[inline]
    #[must_use]
    pub fn caps(&self) -> Caps {
        Caps { operations: self.operations.load(Relaxed), payload: self.payload.load(Relaxed) }
    }

    /// Returns the credits in use.
    #[inline]
    #[must_use]
    pub fn used(&self) -> Used {
        Used::unpack(self.used.load(SeqCst))
    }

    /// Takes all of `cost` and returns true, or takes nothing if usage would exceed the caps. If
    /// nothing is in use, any cost fits.
    #[inline]
    pub fn take(&self, cost: Cost) -> bool {
        let caps = self.caps();
        let mut word = self.used.load(Relaxed);
        while let Some(next) = Used::unpack(word).with(cost, caps) {
            match self.used.compare_exchange_weak(word, next.pack(), Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(seen) => word = seen,
            }
        }
        false
    }

    /// Returns taken credits.
    #[inline]
    pub fn give(&self, cost: Cost) {
        let mut word = self.used.load(Relaxed);
        loop {
            let next = Used::unpack(word).without(cost).pack();
            match self.used.compare_exchange_weak(word, next, SeqCst, Relaxed) {
                Ok(_) => return,
                Err(seen) => word = seen,
            }
        }
    }

    /// Returns whether `cost` could be taken now.
    #[inline]
    #[must_use]
    pub fn fits(&self, cost: Cost) -> bool {
        self.used().with(cost, self.caps()).is_some()
    }
}
