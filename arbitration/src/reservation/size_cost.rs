//! The cost of a command's size beside commands of other sizes (docs/research/sources.md, F1: reservations in the
//! tenant's terms).
//!
//! A command's share of a device is its time there over the number of commands like it that are there. In a mix of
//! sizes that number depends on the device: a read of 1 MiB may cost as much as one or as 200 of 4 KiB. The time that
//! a command of any size spends in a busy device grows with the commands that it meets, and with their KiB. Both
//! slopes are fitted to the latest commands by least squares; their ratio is the cost of a KiB.
//!
//! A mix that never varies does not tell. Then no command must look cheaper than it is: small ones count large ones as
//! one of them, and large ones count small ones by the price of both in the window.

use crate::sync::{AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;

use crate::window::{Held, SLOT};

/// Digits of a cost below the cost of a command of 4 KiB.
const DIGITS: u32 = 20;
/// Cost of a KiB for large commands until it is known: a command of 1 MiB costs eight of 4 KiB.
const ASSUMED: u64 = (7 << DIGITS) / 1020;
/// KiB beyond the first four of the smallest large command.
const LARGE: u32 = 125;
/// No cost is known yet.
const UNKNOWN: u64 = u64::MAX;
/// The greatest cost of a KiB: one command.
const MOST: f64 = (1_u64 << DIGITS) as f64;
/// Part of the sums that each sample replaces.
const FADE: f64 = 1.0 / 256.0;
/// Fewest samples by which the cost is known.
const ENOUGH: u32 = 64;
/// Least part of the variation in which commands and KiB differ, for both slopes to be known.
const DISTINCT: f64 = 0.03;

/// The cost of a KiB beyond the first four of a command, shared by all reactors.
#[derive(Debug)]
pub(super) struct SizeCost {
    /// In 2^-[`DIGITS`] of the cost of a command of 4 KiB.
    of_kib: AtomicU64,
    /// Whether a command of more than 4 KiB was met: 1, else 0.
    has_large: AtomicU64,
    /// Completions try the lock and never wait for it.
    sums: Mutex<Sums>,
}

/// The sums of a fit of times to numbers of commands and of KiB.
#[derive(Debug, Default)]
struct Sums {
    samples: u32,
    commands: f64,
    kib: f64,
    mixed: f64,
    time_by_commands: f64,
    time_by_kib: f64,
}

impl Default for SizeCost {
    fn default() -> Self {
        Self {
            of_kib: AtomicU64::new(UNKNOWN),
            has_large: AtomicU64::new(0),
            sums: Mutex::default(),
        }
    }
}

impl SizeCost {
    /// Computes how many commands like `own` cost as much as `all` that the device holds, at least one.
    #[inline]
    pub(super) fn alike(&self, all: Held, own: Held) -> u32 {
        let of_kib = match self.of_kib.load(Relaxed) {
            UNKNOWN if own.kib >= LARGE => ASSUMED,
            UNKNOWN => 0,
            known => known,
        };
        let cost = |held: Held| {
            (u64::from(held.slots) << DIGITS) / u64::from(SLOT) + u64::from(held.kib) * of_kib
        };
        u32::try_from(cost(all) / cost(own).max(1)).unwrap_or(u32::MAX).max(1)
    }

    /// Learns from a command that was in the device for `time` ns and found `all` there, itself among them.
    pub(super) fn learn(&self, time: u64, all: Held) {
        if self.has_large.load(Relaxed) == 0 {
            if all.kib == 0 {
                // As long as all commands are small, sizes cost nothing.
                return;
            }
            self.has_large.store(1, Relaxed);
        }
        let Ok(mut sums) = self.sums.try_lock() else { return };
        sums.add(f64::from(all.slots) / f64::from(SLOT), f64::from(all.kib), time as f64);
        if let Some(cost) = sums.cost_of_kib() {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the cost is between 0 and 1"
            )]
            self.of_kib.store((cost * MOST) as u64, Relaxed);
        }
    }
}

impl Sums {
    fn add(&mut self, commands: f64, kib: f64, time: f64) {
        self.samples = self.samples.saturating_add(1);
        let Self { commands: of_commands, kib: of_kib, mixed, .. } = self;
        let sums = [
            (of_commands, commands * commands),
            (of_kib, kib * kib),
            (mixed, commands * kib),
            (&mut self.time_by_commands, time * commands),
            (&mut self.time_by_kib, time * kib),
        ];
        for (sum, sample) in sums {
            *sum += sample - *sum * FADE;
        }
    }

    /// Computes the cost of a KiB in commands, 0 to 1; `None` while the commands and KiB that are met do not differ.
    fn cost_of_kib(&self) -> Option<f64> {
        let all = self.commands * self.kib;
        let distinct = all - self.mixed * self.mixed;
        if self.samples < ENOUGH || distinct <= DISTINCT * all {
            return None;
        }
        let command = self.time_by_commands * self.kib - self.time_by_kib * self.mixed;
        let kib = self.time_by_kib * self.commands - self.time_by_commands * self.mixed;
        if command <= 0.0 { Some(1.0) } else { Some((kib / command).clamp(0.0, 1.0)) }
    }
}
