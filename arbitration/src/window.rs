//! Stage S5, the window: how much one device holds at once.
//!
//! The order of stage S4 does not apply to commands that are inside the device already. Therefore
//! the window admits only as many as keep the device busy. The price of a command is its part of
//! the window, in 1/[`SLOT`]: reads and writes are priced apart, by their cost to the device.

use crate::sync::Ordering::{Relaxed, SeqCst};
use crate::sync::{AtomicBool, AtomicU64};
use std::sync::Mutex;
use std::sync::PoisonError;

use units::Nanos;

use crate::settings::WindowRule;
use crate::sharing::Sharing;

mod adapt;
mod held;
mod prices;
mod slot;
#[cfg(test)]
mod tests;

use adapt::{Adaptation, DepthSample};
pub(crate) use held::{Held, kib_beyond};
use prices::{Prices, Tally, sizes};
pub use slot::SLOT;
use slot::SLOTS;

/// The limit of a window without a bound.
const OFF: u64 = u64::MAX;

/// The window of one device: the amount in use and the limit, shared by all reactors.
///
/// The amount in use is exact under any interleaving. Statistics are loads and stores of their
/// own: if two threads complete a command within a few ns, one of the two may be lost.
#[derive(Debug)]
pub struct Window {
    sharing: Sharing,
    /// Amount in use by the device, in 1/[`SLOT`]. Accesses are sequentially consistent. Therefore
    /// a reactor that finds no room and announces its sleep, and a reactor that makes room and
    /// looks for sleepers, never miss each other: see
    /// `reactor_waiting_for_window_is_woken`.
    used: AtomicU64,
    /// The part of it by which commands cost more than ordinary ones of their direction, because they are large.
    oversize: AtomicU64,
    /// KiB beyond the first four of each command in the device, times the price of its direction.
    kib: AtomicU64,
    /// Amount that the device may hold, in 1/[`SLOT`]; [`OFF`]: any amount.
    limit: AtomicU64,
    /// The most that was held since the last look at the depth, in 1/[`SLOT`].
    peak: AtomicU64,
    /// Whether the window was full since the last look.
    was_full: AtomicBool,
    /// Whether times are collected for the depth.
    adaptive: AtomicBool,
    /// Time since which the depth is the present one, in ns: commands from before it say nothing
    /// about it.
    since: AtomicU64,
    /// Time of the next look at the depth and the prices, in ns.
    due: AtomicU64,
    /// Times that commands were in the device, in ns for each 128 KiB.
    times: Tally,
    prices: Prices,
    /// State of the adaptation. Completions try the lock and never wait for it.
    adaptation: Mutex<Adaptation>,
}

impl Window {
    /// Makes an empty window.
    #[must_use]
    pub fn new(rule: WindowRule) -> Self {
        Self::shared(rule, Sharing::Several)
    }

    /// Makes an empty window that as many threads take from and give to as `sharing` says.
    #[must_use]
    pub fn shared(rule: WindowRule, sharing: Sharing) -> Self {
        let window = Self {
            sharing,
            used: AtomicU64::new(0),
            oversize: AtomicU64::new(0),
            kib: AtomicU64::new(0),
            limit: AtomicU64::new(OFF),
            peak: AtomicU64::new(0),
            was_full: AtomicBool::new(false),
            adaptive: AtomicBool::new(false),
            since: AtomicU64::new(0),
            due: AtomicU64::new(0),
            times: Tally::default(),
            prices: Prices::default(),
            adaptation: Mutex::new(Adaptation::default()),
        };
        window.set(rule);
        window
    }

    /// Changes the rule. An adaptive window begins with the previous depth, within its bounds. If
    /// more is in use than a lower depth allows, nothing is admitted until enough has completed.
    pub fn set(&self, rule: WindowRule) {
        let mut adaptation = self.adaptation.lock().unwrap_or_else(PoisonError::into_inner);
        let had = Some(self.limit.load(Relaxed)).filter(|limit| *limit != OFF);
        let limit = match rule {
            WindowRule::Off => OFF,
            WindowRule::Fixed(depth) => u64::from(depth.max(1)) * SLOTS,
            WindowRule::Adaptive { max, .. } => adapt::first_depth(had, max),
        };
        *adaptation = Adaptation::new(rule);
        self.adaptive.store(matches!(rule, WindowRule::Adaptive { .. }), Relaxed);
        self.times.clear();
        self.limit.store(limit, Relaxed);
    }

    /// Computes the price of a command, in 1/[`SLOT`]. A read of up to 128 KiB costs one `SLOT`, a
    /// larger one more in proportion. A write costs a multiple of that, by the observed ratio of
    /// device time to reads of like size: 1 to 16, and 1 until it is known.
    #[inline]
    #[must_use]
    pub fn price(&self, write: bool, bytes: u32) -> u32 {
        self.prices.price(write, bytes)
    }

    /// Takes room for a command of this price, in 1/[`SLOT`]. Returns false where more would be
    /// held than the depth allows. An empty window has room for any command.
    #[inline]
    pub fn take(&self, price: u32) -> bool {
        let limit = self.limit.load(Relaxed);
        let with = |used: u64| used.saturating_add(u64::from(price));
        let fits = |used: u64| Some(with(used)).filter(|next| *next <= limit || used == 0);
        match self.sharing.update(&self.used, fits) {
            Ok(before) => {
                self.note_peak(with(before));
                true
            }
            Err(_) => {
                self.note_full();
                false
            }
        }
    }

    /// Takes room for a command of this price, in 1/[`SLOT`], even where there is too little.
    #[inline]
    pub fn put_in(&self, price: u32) {
        let with = |used: u64| Some(used.saturating_add(u64::from(price)));
        if let Ok(before) = self.sharing.update(&self.used, with) {
            self.note_peak(before.saturating_add(u64::from(price)));
        }
    }

    /// Returns whether there is room for any command at all.
    #[inline]
    #[must_use]
    pub fn has_room(&self) -> bool {
        let used = self.used.load(SeqCst);
        let room = used == 0 || used < self.limit.load(Relaxed);
        if !room {
            self.note_full();
        }
        room
    }

    /// Gives back the room of a command without learning from it: the command was never in the
    /// device, or its time there tells nothing.
    #[inline]
    pub fn put_back(&self, price: u32) {
        let without = |used: u64| Some(used.saturating_sub(u64::from(price)));
        let _ = self.sharing.update(&self.used, without);
    }

    /// Gives back the room of a command that is complete after `service` ns in the device. Learns
    /// from it, unless it moved no bytes, and now and then updates the price of writes and the
    /// depth.
    #[inline]
    pub fn give(&self, now: Nanos, price: u32, write: bool, bytes: u32, service: u64) {
        self.put_back(price);
        if bytes == 0 {
            return;
        }
        self.prices.note(write, bytes, service);
        if self.adaptive.load(Relaxed) && now.0.saturating_sub(service) >= self.since.load(Relaxed)
        {
            self.times.note(if bytes <= prices::ORDINARY {
                service
            } else {
                service / sizes(bytes)
            });
        }
        if now.0 >= self.due.load(Relaxed) {
            self.look(now);
        }
    }

    /// Computes how many commands of ordinary size the device may hold; `None`: as many as come.
    #[must_use]
    pub fn depth(&self) -> Option<f64> {
        Some(self.limit.load(Relaxed)).filter(|limit| *limit != OFF).map(in_commands)
    }

    /// Computes how much the device holds, in whole commands of ordinary size.
    #[inline]
    #[must_use]
    pub fn held(&self) -> u32 {
        u32::try_from(self.used.load(Relaxed) / u64::from(SLOT)).unwrap_or(u32::MAX)
    }

    /// Notes that a command of this price has come to the device, or has left it.
    #[inline]
    pub(crate) fn note_size(&self, price: u32, bytes: u32, has_come: bool) {
        let own = Held::command(price, bytes);
        if own.kib == 0 {
            return;
        }
        for (sum, part) in [(&self.kib, own.kib), (&self.oversize, price - own.slots)] {
            match has_come {
                _ if part == 0 => {}
                true => _ = sum.fetch_add(part.into(), Relaxed),
                false => _ = sum.fetch_sub(part.into(), Relaxed),
            }
        }
    }

    /// Returns the commands in the device.
    #[inline]
    pub(crate) fn commands(&self) -> Held {
        let saturated = |amount: u64| u32::try_from(amount).unwrap_or(u32::MAX);
        let large = self.oversize.load(Relaxed);
        let slots = saturated(self.used.load(Relaxed).saturating_sub(large));
        Held { slots, kib: saturated(self.kib.load(Relaxed)) }
    }

    /// Computes how much the device holds, in commands of ordinary size.
    #[must_use]
    pub fn in_use(&self) -> f64 {
        in_commands(self.used.load(Relaxed))
    }

    #[inline]
    fn note_full(&self) {
        if !self.was_full.load(Relaxed) {
            self.was_full.store(true, Relaxed);
        }
    }

    #[inline]
    fn note_peak(&self, used: u64) {
        if used > self.peak.load(Relaxed) {
            self.peak.store(used, Relaxed);
        }
    }

    /// Adapts the prices and the depth to the collected times. One thread does; another that comes
    /// meanwhile goes on.
    #[cold]
    fn look(&self, now: Nanos) {
        let Ok(mut adaptation) = self.adaptation.try_lock() else { return };
        if now.0 < self.due.load(Relaxed) {
            return;
        }
        self.due.store(adaptation.next_look(now).0, Relaxed);
        if adaptation.prices_are_due(now) {
            self.prices.learn();
        }
        let depth = self.limit.load(Relaxed);
        let (mean, count) = self.times.mean();
        if !adaptation.is_enough(depth, count) {
            return;
        }
        self.times.clear();
        let seen = DepthSample {
            mean,
            peak: self.peak.swap(self.used.load(Relaxed), Relaxed),
            was_full: self.was_full.swap(false, Relaxed),
        };
        let next = adaptation.next_depth(depth, &seen);
        if next != depth {
            self.since.store(now.0, Relaxed);
            self.limit.store(next, Relaxed);
        }
    }
}

impl Default for Window {
    /// Makes a window of the usual depth.
    fn default() -> Self {
        Self::new(WindowRule::default())
    }
}

fn in_commands(slots: u64) -> f64 {
    slots as f64 / f64::from(SLOT)
}
