//! Which class is next at a device, when several reactors feed it.
//!
//! Each class has a virtual time that grows by cost / weight with every command dispatched while
//! there is contention. A reactor takes the class of the least virtual time that it has commands
//! of, and holds back a class that is further ahead than [`SLACK`] of the slowest that waits
//! anywhere. So the ratio of the classes is that of their weights, whichever reactor serves
//! which, and off by no more than the slack at any time. Seed row E5.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use crate::class::Class;
use crate::settings::{OrderSettings, Weights};

/// What a command of ordinary size costs (and 4 KiB, where bytes count).
pub const COST: u64 = 256;

/// How far, in commands of ordinary size at weight 1, a class may be ahead of another that waits
/// at another reactor.
const SLACK: u64 = 16 * COST * 256;

/// What Urgent may save up, in cost: it is strictly first for that much after a pause.
const URGENT_SAVED: i64 = 64 * 256;

/// The state of a device's classes, shared by all reactors.
#[derive(Debug, Default)]
pub struct ClassClock {
    virtual_time: [AtomicU64; 4],
    /// Reactors that have commands of each class waiting: 16 bits each.
    waiting: AtomicU64,
    /// What Urgent may still take strictly first, in cost.
    urgent: AtomicI64,
}

const fn index(class: Class) -> usize {
    match class {
        Class::Urgent => 0,
        Class::High => 1,
        Class::Medium => 2,
        Class::Low => 3,
    }
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

/// The order of two virtual times, which may wrap around.
const fn ahead(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b).cast_signed()
}

impl ClassClock {
    /// A clock whose Urgent class has all that it may save up.
    #[must_use]
    pub fn new() -> Self {
        Self { urgent: AtomicI64::new(URGENT_SAVED), ..Self::default() }
    }

    fn time(&self, class: Class) -> &AtomicU64 {
        // `index` is below 4 for every class.
        self.virtual_time.get(index(class)).unwrap_or(&self.waiting)
    }

    /// Whether commands of any class wait at any reactor.
    #[inline]
    #[must_use]
    pub fn contended(&self) -> bool {
        self.waiting.load(Relaxed) != 0
    }

    fn waits(waiting: u64, class: Class) -> bool {
        waiting >> (16 * index(class)) & 0xffff != 0
    }

    /// The least virtual time of the classes that wait anywhere.
    fn floor(&self, waiting: u64) -> Option<u64> {
        let mut least: Option<u64> = None;
        for class in Class::ALL {
            if Self::waits(waiting, class) {
                let time = self.time(class).load(Relaxed);
                least = Some(least.map_or(time, |l| if ahead(time, l) < 0 { time } else { l }));
            }
        }
        least
    }

    /// A reactor's first command of a class waits. A class that had nothing waiting anywhere
    /// begins with the others: what it did not use is gone.
    pub fn begins(&self, class: Class) {
        let waiting = self.waiting.fetch_add(1 << (16 * index(class)), SeqCst);
        if Self::waits(waiting, class) {
            return;
        }
        let Some(floor) = self.floor(waiting) else { return };
        let time = self.time(class);
        let mut seen = time.load(Relaxed);
        while ahead(floor, seen) > 0 {
            match time.compare_exchange_weak(seen, floor, Relaxed, Relaxed) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
    }

    /// A reactor has no command of a class waiting any more, or none that may go.
    pub fn ends(&self, class: Class) {
        self.waiting.fetch_sub(1 << (16 * index(class)), SeqCst);
    }

    /// Whether Urgent may go strictly first now: it has not used up its share, or nobody else
    /// waits.
    #[inline]
    #[must_use]
    pub fn urgent_is_first(&self) -> bool {
        self.urgent.load(Relaxed) > 0 || self.waiting.load(SeqCst) & !0xffff == 0
    }

    /// The class that a reactor takes next by weight, of those it has commands of; `current` is
    /// the one it takes a burst of. `None` where all it has must wait for classes at other
    /// reactors.
    #[inline]
    #[must_use]
    pub fn pick(&self, has: impl Fn(Class) -> bool, current: Option<Class>) -> Option<Class> {
        let floor = self.floor(self.waiting.load(SeqCst));
        let may = |class: Class| {
            let time = self.time(class).load(Relaxed);
            floor.is_none_or(|floor| ahead(time, floor) <= SLACK.cast_signed())
        };
        if let Some(class) = current
            && has(class)
            && may(class)
        {
            return current;
        }
        let mut best: Option<(Class, u64)> = None;
        for class in [Class::High, Class::Urgent, Class::Medium, Class::Low] {
            if has(class) {
                let time = self.time(class).load(Relaxed);
                if best.is_none_or(|(_, least)| ahead(time, least) < 0) {
                    best = Some((class, time));
                }
            }
        }
        best.map(|(class, _)| class).filter(|class| may(*class))
    }

    /// Urgent has taken `cost` strictly first.
    #[inline]
    pub fn charge_urgent(&self, cost: u64) {
        if self.waiting.load(Relaxed) & !0xffff != 0 {
            self.urgent.fetch_sub(cost.cast_signed(), Relaxed);
        }
    }

    /// A class has taken `cost` by its weight.
    #[inline]
    pub fn charge(&self, settings: &OrderSettings, class: Class, cost: u64) {
        let share = i64::from(settings.urgent_share.clamp(1, 90));
        let saved = self.urgent.load(Relaxed);
        if saved < URGENT_SAVED {
            let earned = cost.cast_signed().saturating_mul(share) / (100 - share);
            self.urgent.fetch_add(earned.min(URGENT_SAVED - saved), Relaxed);
        }
        let step = cost * 256 / weight(&settings.weights, class);
        self.time(class).fetch_add(step, Relaxed);
    }
}

/// How many commands of one class a reactor takes before it looks at the classes again.
#[must_use]
pub fn burst(settings: &OrderSettings, class: Class) -> u16 {
    let weight = weight(&settings.weights, class);
    settings.burst.max(1).min(u16::try_from(weight).unwrap_or(u16::MAX))
}
