//! Fairness of the reactors that feed one device with commands of the same class.
//!
//! A reactor refills the window with its own commands as they complete, before others learn that
//! there was room. So each reactor has a virtual time in each class, which grows by cost / hosts
//! with every command. A reactor that is further ahead than [`LEAD`] of another waiting reactor
//! leaves freed room to it. Hosts count alike on any reactor, and a host that waits in several
//! reactors counts for an equal part of a host in each.

use crate::sync::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use units::{Class, PerClass};

use super::clock::{STEP, advance, ahead, first_of};
use super::time::COST;

/// Greatest lead of a reactor over others, in virtual time: 16 commands of ordinary size of a lone
/// host. A reactor that has less than a whole host has as many commands.
const LEAD: i64 = 16 * COST as i64 * STEP as i64;

/// Weight of a host that waits in one reactor alone.
pub(crate) const WHOLE: u64 = 1 << 16;

/// The fairness in one class.
#[derive(Debug)]
pub(super) struct OfClass {
    /// Reactors with commands waiting, one bit each.
    waiting: AtomicU64,
    times: Box<[AtomicU64]>,
    /// The start tag of the latest command, with which a reactor begins that waits alone: what
    /// another used while it was alone leaves no debt.
    latest: AtomicU64,
}

/// The turns of the reactors at one device.
#[derive(Debug)]
pub struct Fairness {
    classes: PerClass<OfClass>,
    /// Whether there is only one reactor, which always has its turn.
    alone: bool,
}

impl Fairness {
    /// Makes the fairness between this many reactors.
    #[must_use]
    pub fn new(reactors: usize) -> Self {
        Self { classes: PerClass::from_fn(|_| OfClass::new(reactors)), alone: reactors <= 1 }
    }

    /// Returns whether there is only one reactor.
    #[inline]
    pub(crate) const fn is_alone(&self) -> bool {
        self.alone
    }

    /// Takes note that a reactor's first command of a class waits: the reactor begins level with
    /// the others, or with the latest command where no other waits.
    pub(crate) fn begins(&self, class: Class, reactor: u32) {
        self.classes[class].begins(reactor);
    }

    /// Takes note that a reactor has no command of a class waiting any more.
    pub(crate) fn ends(&self, class: Class, reactor: u32) {
        self.classes[class].ends(reactor);
    }

    /// Returns whether a reactor may go on with a class, by the weight of the hosts that it has
    /// waiting there, in parts of [`WHOLE`].
    #[inline]
    pub(crate) fn may(&self, class: Class, reactor: u32, hosts: u64) -> bool {
        self.classes[class]
            .leads_at_most(reactor, || LEAD * (WHOLE / at_least(hosts).min(WHOLE)).cast_signed())
    }

    /// Charges a reactor for a command that it has taken, by the hosts that it has waiting in the
    /// class: the sum of their weights, in parts of [`WHOLE`].
    #[inline]
    pub(crate) fn charge(&self, class: Class, reactor: u32, cost: u32, hosts: u64) {
        let of = &self.classes[class];
        if let Some(time) = of.times.get(reactor as usize) {
            // The largest command costs 2^28.
            let step = u64::from(cost) * u64::from(STEP) * WHOLE / at_least(hosts);
            // Nobody else writes to this reactor's time.
            let start = time.load(Relaxed);
            time.store(start.wrapping_add(step), Relaxed);
            advance(&of.latest, start);
        }
    }
}

/// Returns the weight of hosts of which one waits here, and in all reactors at the most.
fn at_least(hosts: u64) -> u64 {
    hosts.max(WHOLE / 64)
}

impl OfClass {
    pub(super) fn new(reactors: usize) -> Self {
        Self {
            waiting: AtomicU64::new(0),
            times: (0..reactors).map(|_| AtomicU64::new(0)).collect(),
            latest: AtomicU64::new(0),
        }
    }

    /// Takes note that a reactor begins to wait.
    pub(super) fn begins(&self, reactor: u32) {
        let others = self.waiting.fetch_or(1 << (reactor & 63), SeqCst) & !(1 << (reactor & 63));
        let first = first_of(&self.times, others);
        let level = first.map_or_else(|| self.latest.load(Relaxed), |(_, time)| time);
        if let Some(own) = self.times.get(reactor as usize) {
            advance(own, level);
        }
    }

    /// Takes note that a reactor waits no more. Returns whether others wait.
    pub(super) fn ends(&self, reactor: u32) -> bool {
        let others = !(1 << (reactor & 63));
        self.waiting.fetch_and(others, SeqCst) & others != 0
    }

    /// Returns whether a reactor is ahead of the others that wait by `lead` at most.
    #[inline]
    pub(super) fn leads_at_most(&self, reactor: u32, lead: impl FnOnce() -> i64) -> bool {
        let others = self.waiting.load(SeqCst) & !(1 << (reactor & 63));
        if others == 0 {
            return true;
        }
        let (own, lead) = (self.time(reactor), lead());
        first_of(&self.times, others).is_none_or(|(_, least)| ahead(own, least) <= lead)
    }

    /// Returns a reactor's virtual time.
    #[inline]
    pub(super) fn time(&self, reactor: u32) -> u64 {
        self.times.get(reactor as usize).map_or(0, |time| time.load(Relaxed))
    }

    /// Sets a reactor's virtual time to `start`, the start tag of the first node that waits in it. Returns whether the
    /// time has changed: reactors that waited for this one may go on then.
    #[inline]
    pub(super) fn looks_at(&self, reactor: u32, start: u64) -> bool {
        self.times.get(reactor as usize).is_some_and(|own| {
            let moved = own.load(Relaxed) != start;
            if moved {
                own.store(start, Relaxed);
            }
            moved
        })
    }

    /// Advances a reactor's virtual time to the start tag of the command that it takes.
    #[inline]
    pub(super) fn starts(&self, reactor: u32, start: u64) {
        if let Some(own) = self.times.get(reactor as usize) {
            advance(own, start);
        }
        advance(&self.latest, start);
    }
}
