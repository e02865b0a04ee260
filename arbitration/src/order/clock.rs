//! The clock that chooses the next class at a device which several reactors feed.
//!
//! Each class has a virtual time that grows by cost / weight with every command dispatched while
//! there is contention. A reactor serves the class with the least virtual time among its own. It
//! holds back a class that is further ahead than [`SLACK`] of the slowest class that waits
//! anywhere. So the classes share in the ratio of their weights, whichever reactor serves which,
//! and off by no more than the slack at any time. See docs/research/sources.md, E5: classes share the device
//! by weight.
//!
//! The device has a virtual time of its own: the start tag of the latest command, as in start-time
//! fair queueing (Goyal et al., 1996). A class that is served without contention moves this time as
//! well, and so has no debt. A class that begins is level with the others, or with this time.

use crate::sync::{AtomicI64, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use units::{Class, PerClass};

use super::time::{COST, DeviceTimes};
use crate::settings::{OrderSettings, Unit, Weights};
use crate::sharing::Sharing;

/// Virtual time for a unit of cost at weight 1, or with one host.
pub(super) const STEP: u32 = 256;

/// Greatest lead of a class over another that waits at another reactor, in virtual time: 16
/// commands of ordinary size at weight 1. The command that takes a class beyond it goes whole, so
/// that shares are off by a constant number of commands of the largest kind.
const SLACK: i64 = 16 * COST as i64 * STEP as i64;

/// Commands of ordinary size that Urgent may save up: it is strictly first for that much after a
/// pause.
const URGENT_SAVED: u64 = 64;

/// The state of a device's classes, shared by all reactors.
#[derive(Debug, Default)]
pub struct ClassClock {
    sharing: Sharing,
    virtual_time: PerClass<AtomicU64>,
    /// The device's virtual time.
    device_time: AtomicU64,
    /// Reactors that have commands of each class waiting: 16 bits each.
    waiting: AtomicU64,
    /// Cost that Urgent may still take strictly first.
    urgent: AtomicI64,
    /// Largest cost that Urgent may save up.
    urgent_most: AtomicI64,
}

const fn weight(weights: &Weights, class: Class) -> u64 {
    let weight = match class {
        // Beyond its share Urgent is one more class with the weight of High.
        Class::Urgent | Class::High => weights.high,
        Class::Medium => weights.medium,
        Class::Low => weights.low,
    };
    if weight == 0 { 1 } else { weight as u64 }
}

/// Returns the bit of a class in a set of classes.
#[inline]
pub(crate) const fn bit(class: Class) -> u8 {
    1 << class.number()
}

/// Binary digits below 1 of the factors in [`Pace`].
const PACE_DIGITS: u32 = 16;

/// [`OrderSettings`] in the form in which each command needs them: no command divides.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Virtual time of each class for a unit of cost, in 1/2^16.
    steps: PerClass<u64>,
    /// Cost that Urgent earns by a unit of cost of others, in 1/2^16.
    earned: u64,
    burst_lengths: PerClass<u16>,
    /// Cost of a turn in a ring of hosts or sessions.
    quantum: i32,
    unit: Unit,
}

/// The properties of a command that decide its cost at a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandKind {
    /// Whether the command changes the device.
    pub(crate) write: bool,
    /// Bytes that the command reads or changes.
    pub(crate) bytes: u32,
    /// Whether the host or the target sends these bytes.
    pub(crate) has_data: bool,
}

impl Pace {
    /// Makes the pace of these settings.
    #[must_use]
    pub fn new(settings: &OrderSettings) -> Self {
        let share = u64::from(settings.urgent_share.clamp(1, 90));
        let of = |class| (u64::from(STEP) << PACE_DIGITS) / weight(&settings.weights, class);
        let length = |class| burst_length(settings, class);
        Self {
            steps: PerClass::from_fn(of),
            earned: (share << PACE_DIGITS) / (100 - share),
            burst_lengths: PerClass::from_fn(length),
            quantum: i32::from(settings.burst.clamp(1, 64).cast_signed()) * COST.cast_signed(),
            unit: settings.unit,
        }
    }

    /// Returns the sum of the weights of some classes.
    pub(crate) fn weight_of(&self, classes: impl Iterator<Item = Class>) -> u64 {
        let one = u64::from(STEP) << PACE_DIGITS;
        classes.map(|class| one / self.steps[class].max(1)).sum()
    }

    /// Returns the cost of a turn in a ring of hosts or sessions: the cost of one command where turns are short, or else
    /// of a burst.
    #[inline]
    pub(crate) fn quantum(&self, is_short: bool) -> i32 {
        if is_short { COST.cast_signed() } else { self.quantum }
    }

    /// Computes the cost of a command of this many bytes when it takes no device time.
    #[inline]
    #[must_use]
    pub const fn cost(&self, bytes: u32) -> u32 {
        match (self.unit, bytes) {
            (Unit::Bytes | Unit::Time, 4096..) => bytes / 16,
            _ => COST,
        }
    }

    /// Computes the cost of a command at a device.
    #[inline]
    pub(crate) fn cost_at(&self, times: &DeviceTimes, kind: CommandKind) -> u32 {
        let CommandKind { write, bytes, has_data } = kind;
        if self.unit == Unit::Time
            && let Some(cost) = times.cost(write, bytes)
        {
            return cost;
        }
        // The device reads the data that it verifies, and writes nothing if it zeroes or
        // deallocates.
        if write && !has_data { COST } else { self.cost(bytes) }
    }

    /// Returns whether device time counts.
    #[inline]
    pub(crate) fn counts_time(&self) -> bool {
        self.unit == Unit::Time
    }

    /// Returns the cost of the commands of a class that a reactor takes before it looks at the
    /// classes again.
    #[inline]
    pub(crate) fn burst_cost(&self, class: Class) -> u32 {
        u32::from(self.burst_lengths[class]) * COST
    }

    #[inline]
    fn step(&self, class: Class, cost: u32) -> u64 {
        (u64::from(cost) * self.steps[class]) >> PACE_DIGITS
    }
}

/// Computes how far `a` is ahead of `b`, two virtual times, which may wrap around.
pub(super) const fn ahead(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b).cast_signed()
}

impl ClassClock {
    /// Creates a clock whose Urgent class has its full savings.
    #[must_use]
    pub fn new(sharing: Sharing) -> Self {
        let most = cost_of(URGENT_SAVED);
        let (urgent, urgent_most) = (AtomicI64::new(most), AtomicI64::new(most));
        Self { urgent, urgent_most, sharing, ..Self::default() }
    }

    /// Bounds what Urgent may save up to `commands` of ordinary size, at least one, and to
    /// [`URGENT_SAVED`] of them in any case.
    pub(crate) fn bound_urgent(&self, commands: Option<u64>) {
        let most = cost_of(commands.unwrap_or(URGENT_SAVED).clamp(1, URGENT_SAVED));
        self.urgent_most.store(most, Relaxed);
        self.urgent.fetch_min(most, Relaxed);
    }

    /// Adds to what Urgent has saved.
    #[inline]
    fn save(&self, cost: i64) {
        match self.sharing {
            Sharing::Several => {
                self.urgent.fetch_add(cost, Relaxed);
            }
            Sharing::One => self.urgent.store(self.urgent.load(Relaxed) + cost, Relaxed),
        }
    }

    fn time(&self, class: Class) -> &AtomicU64 {
        &self.virtual_time[class]
    }

    /// Returns whether commands of any class wait at any reactor.
    #[inline]
    #[must_use]
    pub fn contended(&self) -> bool {
        self.waiting.load(Relaxed) != 0
    }

    const fn waits(waiting: u64, class: Class) -> bool {
        waiting >> (16 * class.number()) & 0xffff != 0
    }

    /// Returns the least virtual time of the classes that wait anywhere.
    #[inline]
    fn floor(&self, waiting: u64) -> Option<u64> {
        let mut least: Option<u64> = None;
        for (class, time) in self.virtual_time.iter() {
            if Self::waits(waiting, class) {
                let time = time.load(Relaxed);
                least = Some(least.map_or(time, |l| if ahead(time, l) < 0 { time } else { l }));
            }
        }
        least
    }

    /// Takes note that a reactor's first command of a class waits. A class without waiting commands at
    /// any reactor starts at the device's virtual time, or at the least virtual time of the waiting
    /// classes if that is less: it saves up no unused turns. It does not start at the finish tags of
    /// the other classes: a limit that passes one command at a time ends all backlogs after each
    /// command, and the class that began first would get every turn.
    pub fn begins(&self, class: Class) {
        let waiting = self.waiting.fetch_add(1 << (16 * class.number()), SeqCst);
        if Self::waits(waiting, class) {
            return;
        }
        let device = self.device_time.load(Relaxed);
        let behind = self.floor(waiting).filter(|floor| ahead(*floor, device) < 0);
        advance(self.time(class), behind.unwrap_or(device));
    }

    /// Takes note that a reactor has no command of a class waiting any more, or none that may go.
    pub fn ends(&self, class: Class) {
        self.waiting.fetch_sub(1 << (16 * class.number()), SeqCst);
    }

    /// Returns whether Urgent may go strictly first now: it has not used up its share, or no other
    /// class waits.
    #[inline]
    #[must_use]
    pub fn urgent_is_first(&self) -> bool {
        self.urgent.load(Relaxed) > 0 || self.waiting.load(SeqCst) & !0xffff == 0
    }

    /// Picks the class that a reactor takes next by weight, of those it has commands of (a [`bit`]
    /// each); `current` is the one it takes a burst of. `None` where all it has must wait for
    /// classes at other reactors.
    #[inline]
    #[must_use]
    pub(crate) fn pick(&self, has: u8, current: Option<Class>) -> Option<Class> {
        let floor = self.floor(self.waiting.load(SeqCst));
        let may = |time| floor.is_none_or(|floor| ahead(time, floor) <= SLACK);
        if let Some(class) = current
            && has & bit(class) != 0
            && may(self.time(class).load(Relaxed))
        {
            return current;
        }
        let mut best: Option<(Class, u64)> = None;
        for class in [Class::High, Class::Urgent, Class::Medium, Class::Low] {
            if has & bit(class) != 0 {
                let time = self.time(class).load(Relaxed);
                if best.is_none_or(|(_, least)| ahead(time, least) < 0) {
                    best = Some((class, time));
                }
            }
        }
        best.filter(|(_, time)| may(*time)).map(|(class, _)| class)
    }

    /// Returns whether Urgent has not used up its share: it goes before reservations that are due.
    #[inline]
    #[must_use]
    pub(crate) fn urgent_has_saved(&self) -> bool {
        self.urgent.load(Relaxed) > 0
    }

    /// Charges Urgent for a command that went strictly first. `beside_reserved`: the command may
    /// have gone before a reservation of any class.
    #[inline]
    pub fn charge_urgent(&self, cost: u32, beside_reserved: bool) {
        if beside_reserved || self.waiting.load(Relaxed) & !0xffff != 0 {
            self.save(-i64::from(cost));
        }
    }

    /// Adds what Urgent earns by a command of another class with this cost.
    #[inline]
    pub fn earn_urgent(&self, pace: &Pace, cost: u32) {
        let (saved, most) = (self.urgent.load(Relaxed), self.urgent_most.load(Relaxed));
        if saved < most {
            let earned = (u64::from(cost) * pace.earned) >> PACE_DIGITS;
            self.save(earned.cast_signed().min(most - saved));
        }
    }

    /// Charges `cost` to a class by its weight.
    #[inline]
    pub fn charge(&self, pace: &Pace, class: Class, cost: u32) {
        self.earn_urgent(pace, cost);
        let (time, step) = (self.time(class), pace.step(class, cost));
        let start = match self.sharing {
            Sharing::Several => time.fetch_add(step, Relaxed),
            Sharing::One => {
                let start = time.load(Relaxed);
                time.store(start.wrapping_add(step), Relaxed);
                start
            }
        };
        advance(&self.device_time, start);
    }
}

/// Returns the reactor with the least virtual time among these (one bit each), and that time.
/// `times` holds the virtual time of every reactor, by its number.
#[inline]
pub(crate) fn first_of(times: &[AtomicU64], mut reactors: u64) -> Option<(u32, u64)> {
    let mut first: Option<(u32, u64)> = None;
    while reactors != 0 {
        let reactor = reactors.trailing_zeros();
        let time = times.get(reactor as usize)?.load(Relaxed);
        if first.is_none_or(|(_, least)| ahead(time, least) < 0) {
            first = Some((reactor, time));
        }
        reactors &= reactors - 1;
    }
    first
}

/// Raises a virtual time to `level`, where it is behind.
#[inline]
pub(crate) fn advance(time: &AtomicU64, level: u64) {
    let mut seen = time.load(Relaxed);
    while ahead(level, seen) > 0 {
        match time.compare_exchange_weak(seen, level, Relaxed, Relaxed) {
            Ok(_) => break,
            Err(now) => seen = now,
        }
    }
}

/// Computes what some commands of ordinary size cost.
const fn cost_of(commands: u64) -> i64 {
    commands.saturating_mul(COST as u64).cast_signed()
}

/// Computes how many commands of one class a reactor takes before it looks at the classes again.
fn burst_length(settings: &OrderSettings, class: Class) -> u16 {
    let weight = weight(&settings.weights, class);
    settings.burst.max(1).min(u16::try_from(weight).unwrap_or(u16::MAX))
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod history_tests;
