//! The law by which classes that have more than their shares give way: a level, the throughput for each unit of
//! share above which no class may be.
//!
//! Nothing here is derived from the link's possible capacity. Classes are compared with each other. Among the classes
//! that the network itself holds back (their flows have data waiting, and see marks), the class with the least
//! throughput for each unit of its share is the *reference*. While there is one, the level moves towards the
//! reference's throughput; classes above the level are held to it, and no other class is limited.
//!
//! Why this does no harm:
//!
//! - A class is held from when its throughput is above the level, and no longer once it is below three quarters of it.
//!   The level is not lowered below the reference's throughput.
//! - The level falls only while the reference's own flows see marks. Then the link, wherever it is, is full, so that
//!   a waiting sender uses the given-up throughput. Without marks there is no reference: the level rises, ever faster,
//!   and is gone within half a second or some tens of round trips.
//! - Throughput that classes above the level gave up ([`Ledger`]) has to appear at classes below it, in the time that
//!   their windows need to grow. Until then, the level falls by [`STAKE`] at the most, even if classes come and go
//!   meanwhile: each class has a ledger of the throughput given up for it. If none appears, because another sender has
//!   taken it or because something else than the link holds the reference back, nobody gives way to that class for a
//!   while, after each failure for twice as long, and after three of them by [`LEAST_STAKE`] at the most.
//! - Held classes leave nothing of the link unused: if all backlogged classes are held, and each reaches its limit
//!   ([`REACHED`]), only the limits hold them back. Without a capacity, the level rises then ([`FILL`]) until the
//!   network does.
//! - A class that needs no more on average still has data waiting now and then. The level falls only for a class that
//!   has wanted more for nearly all of the last unit of time ([`OFTEN`]); while the reference wants no more, it rises
//!   ([`GIVE_BACK`]).
//! - A class's throughput while it was alone does not count: means go back a quarter of a second at the most.
//!
//! A level also keeps part of a link empty for a class with a latency goal, and enforces a given capacity
//! ([`Level::bound`]): both work without marks.

use core::time::Duration;

use units::{Class, PerClass};

use super::goal::ClassGoal;
use crate::{Nanos, Rate};

/// The present activity of a class on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Activity {
    /// Bytes per second of all its flows.
    pub(super) rate: f64,
    /// The flows that would take more.
    pub(super) backlogged: u32,
    /// Whether its flows see marks: within the time in which a full link gives some.
    pub(super) marked: bool,
    /// Whether they have seen some within the last few round trips.
    pub(super) freshly_marked: bool,
    /// Bytes per second in which the windows of its backlogged flows make them faster in each second: one packet
    /// for each flow and round trip.
    pub(super) growth: f64,
    /// The longest round trip of its flows in seconds.
    pub(super) trip: f64,
}

/// The activities and goals of classes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) now: Nanos,
    pub(super) goals: &'a PerClass<ClassGoal>,
    pub(super) activities: &'a PerClass<Activity>,
}

impl Seen<'_> {
    /// Returns the share of a class; 0 where it has none.
    fn share(&self, class: Class) -> f64 {
        if let ClassGoal::Share(share) = self.goals[class] { share } else { 0.0 }
    }

    /// Returns the longest round trip in seconds.
    fn trip(&self) -> f64 {
        self.activities.values().map(|one| one.trip).fold(0.0, f64::max)
    }

    /// Returns the unit of the law's times in seconds.
    fn unit(&self) -> f64 {
        (UNIT_TRIPS * self.trip()).clamp(UNITS.0, UNITS.1)
    }
}

/// The level's state of a class.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// The mean rate in bytes per second.
    mean: f64,
    /// The part of the time in which it would have taken more.
    wants: f64,
    /// The time since which the class has sent.
    since: Option<Nanos>,
    /// Whether it is held to the level.
    is_held: bool,
    /// The factor by which its limit differs from the level, so that the class has the level in the mean: kernels
    /// answer marks below the limit, and timers of pacing are late.
    trim: f64,
    /// The part of its limit that its rate reaches, averaged over [`REACH`] units.
    reach: f64,
    /// The throughput that others gave up for it.
    tried: Try,
    /// The time before which the class is no reference, since it gained none of the throughput that others gave up.
    excused_until: Nanos,
    /// The time for which it is excused the next time.
    excuse: Duration,
}

impl Held {
    /// Returns the part of the rates of held classes that may be given up for it before any of it has appeared.
    fn stake(&self) -> f64 {
        if self.excuse > FIRST_WAIT * 4 { LEAST_STAKE } else { STAKE }
    }
}

/// The throughput that others give up for a class, since its ledger was opened.
#[derive(Clone, Copy, Debug, Default)]
struct Try {
    /// The time since which the ledger is open.
    opened: Nanos,
    /// The rates of all classes then, in bytes per second.
    before: PerClass<f64>,
    /// The time since which given-up throughput has not appeared, and the mean rate of the class at that time.
    unpaid_since: Option<(Nanos, f64)>,
}

impl Default for Held {
    fn default() -> Self {
        Self {
            mean: 0.0,
            wants: 0.0,
            since: None,
            is_held: false,
            trim: 1.0,
            reach: 0.0,
            tried: Try::default(),
            excused_until: Nanos::ZERO,
            excuse: FIRST_WAIT,
        }
    }
}

/// The level of one direction of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    /// Bytes per second for each unit of share; `None`: nobody is held.
    level: Option<f64>,
    /// The bound that a capacity or a latency sets, in the same unit.
    bound: Option<f64>,
    /// The multiple of their rates to which it bounds classes with a rate, where no class with a share wants more.
    rates_bound: Option<f64>,
    classes: PerClass<Held>,
    at: Nanos,
    /// The classes that want more, and whose means are known.
    present: PerClass<bool>,
    /// The classes that were present when the ledger of each was opened.
    counted: PerClass<PerClass<bool>>,
    /// The class that the others give way to, or did so last.
    reference: Option<Class>,
    /// The level when there was a reference the last time.
    lowest: f64,
    /// The units for which there has been no reference.
    calm: f64,
}

/// The time between two steps of the law.
const TICK: Duration = Duration::from_millis(2);
/// The time over which the rates of classes are averaged, in longest round trips: the unit of all times of the law.
const UNIT_TRIPS: f64 = 500.0;
/// The range of this time in seconds.
const UNITS: (f64, f64) = (0.025, 0.25);
/// The part by which a class has to be above the level before it is held.
const MARGIN: f64 = 0.05;
/// The factor by which the level has risen again when it is clear that it has emptied the link.
const EMPTIED: f64 = 1.2;
/// The part by which a class has to have more than the reference before anybody is held.
const CLEARLY: f64 = 0.05;
/// The part of the level from which on a class counts as giving way.
const BELOW: f64 = 0.9;
/// The units in which the level goes most of the way down to the reference.
const DOWN: f64 = 0.6;
/// The units in which it goes most of the way up to it.
const UP: f64 = 0.2;
/// The part of the time in which the reference has to want more for the level to fall. A class that needs no more on
/// average waits now and then too.
const OFTEN: f64 = 0.95;
/// The part of the time in which a class has to want more to count as wanting more, if a capacity is given: data that
/// waits for a device's queue pairs is not always in the target.
const SELDOM: f64 = 0.1;
/// The part by which the rate of a class is above its mean while its windows grow.
const RISING: f64 = 0.02;
/// The factor by which the level rises later while they do.
const SLOWER: f64 = 0.3;
/// The part of its share by which the reference may be short of it for the level to rise.
const ALIKE: f64 = 0.01;
/// The part of the level by which it rises in a unit while all classes are held.
const RISE: f64 = 0.075;
/// The part of the level by which it rises in a unit while all classes are held, and reach their limits.
const FILL: f64 = 0.3;
/// The part of its limit that a class has, on average, if it reaches the limit.
const REACHED: f64 = 0.98;
/// The units over which that part is averaged.
const REACH: f64 = 0.1;
/// The part of the level by which it rises in a unit while the reference wants no more.
const GIVE_BACK: f64 = 2.0;
/// The least units in which the level becomes e times as high while there is no reference.
const OPEN: f64 = 0.4;
/// The part of the rates of held classes that may be given up before any of it has appeared elsewhere, and the part
/// after three tries in a row that did not pay.
const STAKE: f64 = 0.15;
const LEAST_STAKE: f64 = 0.03;
/// The part of the given-up throughput that has to appear at classes that are not held. Other senders on a full link
/// use some of it too.
const PAYS: f64 = 0.25;
/// The least units for which the ledger is open.
const TERM: f64 = 1.2;
/// The least units after which given-up throughput that has not appeared counts as lost.
const PATIENCE: f64 = 2.8;
/// The longest such time in seconds, where windows grow slowly.
const LONGEST_PATIENCE: f64 = 5.0;
/// The time for which a class is no reference after a try that did not pay: the first, and the longest.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(16);
/// The part of the level below which a class is held no more.
const RELEASE: f64 = 0.75;
/// The multiple of what classes have from which on a level holds nobody.
const LOOSE: f64 = 2.0;
/// The range of the trim.
const TRIMS: (f64, f64) = (0.9, 2.5);
/// The units in which the trim corrects a deviation.
const TRIM: f64 = 1.2;
/// The factor by which a class may become faster at once that has less than its rate, where a capacity is given.
const GROWTH: f64 = 1.5;
/// The least that classes with a share keep for one with a rate or a latency, as a part of an even division.
const LEAST: f64 = 0.05;

impl Default for Level {
    fn default() -> Self {
        Self {
            level: None,
            bound: None,
            rates_bound: None,
            classes: PerClass::default(),
            at: Nanos::ZERO,
            present: PerClass::default(),
            counted: PerClass::default(),
            reference: None,
            lowest: 0.0,
            calm: 0.0,
        }
    }
}

impl Level {
    /// Returns the class that the others give way to, if any.
    pub(super) const fn reference(&self) -> Option<Class> {
        self.reference
    }

    /// Returns the limit of a class of this goal, if it is held.
    #[inline]
    pub(super) fn limit(&self, class: Class, goal: ClassGoal) -> Option<Rate> {
        let held = &self.classes[class];
        if !held.is_held {
            return None;
        }
        let rate = match goal {
            ClassGoal::Share(share) => self.in_force()? * share,
            ClassGoal::Rate(rate) => rate.bytes() * self.multiple(),
            ClassGoal::Free | ClassGoal::Latency(_) => return None,
        };
        Some(Rate::new(rate * held.trim))
    }

    /// Returns the multiple of their rates that classes with a rate may have.
    #[inline]
    fn multiple(&self) -> f64 {
        self.rates_bound.map_or(1.0, |multiple| multiple.max(1.0))
    }

    fn in_force(&self) -> Option<f64> {
        match (self.level, self.bound) {
            (Some(level), Some(bound)) => Some(level.min(bound)),
            (level, bound) => level.or(bound),
        }
    }

    /// Returns whether the level needs new activities of classes.
    #[inline]
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        now.since(self.at) >= TICK
    }

    /// Returns whether a capacity or a latency bounds classes, independent of marks.
    #[inline]
    pub(super) fn is_bound(&self) -> bool {
        self.bound.is_some() || self.rates_bound.is_some()
    }

    /// Returns the mean rate that a class of this goal may have.
    #[inline]
    pub(super) fn part(&self, goal: ClassGoal) -> Option<Rate> {
        match goal {
            ClassGoal::Share(share) => Some(Rate::new(self.in_force()? * share)),
            ClassGoal::Rate(rate) => Some(rate.times(self.multiple())),
            ClassGoal::Free | ClassGoal::Latency(_) => None,
        }
    }

    /// Updates the level with activities. `lambda` is the limit of all classes together, if a capacity or a latency
    /// sets one.
    pub(super) fn see(&mut self, seen: &Seen<'_>, lambda: Option<Rate>) {
        // After a pause, the time before it is unknown.
        let passed = seen.now.since(self.at).as_secs_f64().min(seen.unit());
        self.at = seen.now;
        let by_share = |goal| if let ClassGoal::Share(share) = goal { Some(share) } else { None };
        let by_rate =
            |goal| if let ClassGoal::Rate(rate) = goal { Some(rate.bytes()) } else { None };
        self.bound = lambda.and_then(|lambda| self.fill(lambda.bytes(), by_share, seen));
        let for_rates = lambda.filter(|_| self.bound.is_none());
        self.rates_bound = for_rates.and_then(|lambda| self.fill(lambda.bytes(), by_rate, seen));
        self.average(passed, seen);
        let present = PerClass::from_fn(|class| {
            seen.activities[class].backlogged > 0 && self.is_known(class, seen)
        });
        // A class that comes or goes changes the rates of all; but throughput given up in vain is not forgotten.
        for class in Class::ALL {
            let has_come = present[class] && !self.present[class];
            let is_free = self.classes[class].tried.unpaid_since.is_none();
            // The rate of a class as it comes is not throughput that others gave up.
            if has_come || (present != self.counted[class] && is_free && self.is_old(class, seen)) {
                self.open_ledger(class, seen);
                self.counted[class] = present;
            }
        }
        self.present = present;
        let wanted = self.wanted(seen);
        if let Some((class, level)) = wanted {
            (self.reference, self.lowest) = (Some(class), self.level.unwrap_or(level));
        }
        let passed = passed / seen.unit();
        let raised = match wanted {
            Some(wanted) => {
                self.calm = 0.0;
                self.approach(passed, wanted, seen);
                None
            }
            None if self.is_content(seen) => {
                self.calm = 0.0;
                let raised = 1.0 + GIVE_BACK * passed;
                self.lift(raised, seen);
                Some(raised)
            }
            None => Some(self.open(passed, seen)),
        };
        self.hold(passed, raised, seen);
    }

    /// Returns whether a class has sent for so long that its mean is known.
    fn is_known(&self, class: Class, seen: &Seen<'_>) -> bool {
        self.classes[class]
            .since
            .is_some_and(|since| seen.now.since(since).as_secs_f64() >= seen.unit())
    }

    /// Computes the level at which all have `lambda` together, for the classes whose goals have a `part`: classes below
    /// it keep their rates, and held classes that want more have the level. `None`: all have less.
    fn fill(
        &self,
        lambda: f64,
        part: impl Fn(ClassGoal) -> Option<f64>,
        seen: &Seen<'_>,
    ) -> Option<f64> {
        let (mut left, mut open) = (lambda, PerClass::<Option<(f64, f64)>>::default());
        for (class, activity) in seen.activities.iter() {
            match (part(seen.goals[class]), seen.goals[class]) {
                (Some(part), _) => {
                    let held = &self.classes[class];
                    let wants_more = held.is_held && held.wants > SELDOM;
                    open[class] =
                        Some((part, if wants_more { f64::INFINITY } else { activity.rate }));
                }
                (None, ClassGoal::Rate(rate)) if activity.backlogged > 0 => {
                    // Room to come to its rate, not all of it: it may be slow itself.
                    left -= rate.bytes().min(activity.rate * GROWTH + lambda * LEAST);
                }
                (None, _) => left -= activity.rate,
            }
        }
        let least = lambda * LEAST;
        loop {
            let shares: f64 = open.values().flatten().map(|(share, _)| share).sum();
            if shares <= 0.0 {
                return None;
            }
            let level = left.max(least) / shares;
            let mut ended = true;
            for one in open.values_mut() {
                if let Some((share, wants)) = *one
                    && wants < level * share
                {
                    (left, ended) = (left - wants, false);
                    *one = None;
                }
            }
            if ended {
                return Some(level);
            }
        }
    }

    /// Averages the rates of classes. The mean of a class that has begun is that since it began.
    fn average(&mut self, passed: f64, seen: &Seen<'_>) {
        for (class, activity) in seen.activities.iter() {
            let limit = self.limit(class, seen.goals[class]).map(Rate::bytes);
            let held = &mut self.classes[class];
            if activity.rate <= 0.0 && activity.backlogged == 0 {
                *held = Held {
                    excused_until: held.excused_until,
                    excuse: held.excuse,
                    ..Held::default()
                };
                continue;
            }
            let since = *held.since.get_or_insert(seen.now);
            let memory = seen.now.since(since).as_secs_f64().min(seen.unit());
            let weight = if passed > 0.0 { passed / (passed + memory) } else { 0.0 };
            held.mean += (activity.rate - held.mean) * weight;
            let wants = if activity.backlogged > 0 { 1.0 } else { 0.0 };
            held.wants += (wants - held.wants) * weight;
            let reach = limit.map_or(0.0, |limit| (activity.rate / limit.max(1.0)).min(1.0));
            held.reach += (reach - held.reach) * (passed / (passed + REACH * seen.unit()));
        }
    }

    /// Computes the level that the reference asks for: the class, and bytes per second for each unit of share.
    fn wanted(&self, seen: &Seen<'_>) -> Option<(Class, f64)> {
        let mut wanted: Option<(Class, f64)> = None;
        for class in Class::ALL {
            if !self.is_held_back(class, seen) || !self.is_known(class, seen) {
                continue;
            }
            let held = &self.classes[class];
            let level = match seen.goals[class] {
                // A class at its own limit is not held back by the network.
                ClassGoal::Share(share)
                    if held.is_held
                        && self.level.is_some_and(|level| held.mean >= level * share) =>
                {
                    None
                }
                ClassGoal::Share(share) => Some(held.mean / share),
                ClassGoal::Rate(rate) if held.mean < rate.bytes() * (1.0 - MARGIN) => {
                    self.beside((class, rate.bytes() - held.mean), seen)
                }
                ClassGoal::Rate(_) | ClassGoal::Free | ClassGoal::Latency(_) => None,
            };
            if let Some(level) = level
                && wanted.is_none_or(|(_, least)| level < least)
            {
                wanted = Some((class, level));
            }
        }
        let (class, least) = wanted?;
        if let ClassGoal::Share(_) = seen.goals[class] {
            let even = self.beside((class, 0.0), seen)?;
            return Some((class, even.max(least)));
        }
        wanted
    }

    /// Returns whether the network holds a class back: it has data waiting, and meets a queue.
    fn is_held_back(&self, class: Class, seen: &Seen<'_>) -> bool {
        let Activity { backlogged, marked, .. } = seen.activities[class];
        backlogged > 0 && marked && seen.now >= self.classes[class].excused_until
    }

    /// Computes the level at which the classes with a share, but for `of` itself, have so much less together; and
    /// where it has a share, have as much as it for each unit. `None`: there are no others.
    fn beside(&self, (of, less): (Class, f64), seen: &Seen<'_>) -> Option<f64> {
        let (mut rates, mut shares, mut others) = (0.0, 0.0, 0);
        for (class, held) in self.classes.iter() {
            let wants = self.is_held_back(class, seen);
            match seen.goals[class] {
                ClassGoal::Share(share) if held.is_held || wants => {
                    rates += held.mean;
                    shares += share;
                }
                ClassGoal::Rate(rate) if held.is_held || (wants && held.mean > rate.bytes()) => {}
                _ => continue,
            }
            others += u32::from(class != of);
        }
        (others > 0 && shares > 0.0).then(|| (rates - less).max(rates * LEAST) / shares)
    }

    /// Moves the level towards the reference's level.
    fn approach(&mut self, passed: f64, (class, wanted): (Class, f64), seen: &Seen<'_>) {
        let most = self.most(seen);
        let short = ((self.classes[class].wants - OFTEN) / (1.0 - OFTEN)).max(0.0);
        let Some(level) = self.level else {
            if short > 0.0 && most > wanted * (1.0 + CLEARLY) {
                self.level = Some(most);
                self.open_ledgers(seen);
            }
            return;
        };
        if self.all_are_held(seen) && !self.is_short_by(MARGIN, seen) {
            // Somebody has to fill the link: what all leave, other senders take, or nobody.
            self.classes[class].tried.unpaid_since = None;
            let reached = self.reached(seen);
            if reached > 0.0 && !self.is_bound() {
                let raised = 1.0 + FILL * reached * passed;
                self.level = Some(level * raised);
                for held in self.classes.values_mut().filter(|held| held.is_held) {
                    held.mean *= raised;
                }
                return;
            }
            if !self.is_short_by(ALIKE, seen) {
                self.level = Some(level * (1.0 + RISE * passed));
                return;
            }
            if wanted < level * (1.0 - ALIKE) {
                return;
            }
        }
        if level > most * (1.0 + MARGIN) && !self.classes.values().any(|held| held.is_held) {
            // It holds nobody.
            self.level = Some(most.max(wanted));
            self.open_ledgers(seen);
            return;
        }
        if wanted >= level {
            let part = 1.0 - (-passed / UP).exp();
            self.level = Some(level + (wanted - level) * part);
            self.classes[class].tried.unpaid_since = None;
            return;
        }
        let ledger = self.ledger((class, wanted), seen);
        if !self.settle(class, &ledger, seen) || !seen.activities[class].freshly_marked {
            return;
        }
        let part = 1.0 - (-passed * short / DOWN).exp();
        self.level = Some(level - (level - wanted) * part);
    }

    /// Returns whether the last reference wants no more, on a full link.
    fn is_content(&self, seen: &Seen<'_>) -> bool {
        self.reference.is_some_and(|class| {
            let Activity { rate, backlogged, marked, .. } = seen.activities[class];
            rate > 0.0 && backlogged == 0 && marked && seen.now >= self.classes[class].excused_until
        })
    }

    /// Returns whether the windows of the last reference still grow into the given-up throughput.
    fn is_rising(&self, seen: &Seen<'_>) -> bool {
        self.reference.is_some_and(|class| {
            let activity = &seen.activities[class];
            activity.backlogged > 0 && activity.rate > self.classes[class].mean * (1.0 + RISING)
        })
    }

    /// Raises the level by a factor, and takes it away where it holds nobody.
    fn lift(&mut self, raised: f64, seen: &Seen<'_>) {
        let most = LOOSE * self.most(seen);
        self.level = self.level.map(|level| level * raised).filter(|level| *level < most);
    }

    /// Raises the level while nobody needs it: slowly at first, then ever faster. Returns the factor.
    fn open(&mut self, passed: f64, seen: &Seen<'_>) -> f64 {
        self.classes.values_mut().for_each(|held| held.tried.unpaid_since = None);
        self.calm += if self.is_rising(seen) { passed * SLOWER } else { passed };
        let time = OPEN.max(10.0 * seen.trip() / seen.unit());
        let raised = (self.calm * passed / (time * time)).exp();
        let Some(level) = self.level else {
            self.reference = None;
            return raised;
        };
        self.lift(raised, seen);
        if let Some(class) = self.reference
            && level * raised > self.lowest * EMPTIED
        {
            // The given-up throughput has emptied the link, unless the reference uses it.
            let ledger = self.ledger((class, self.lowest * BELOW), seen);
            let is_short = self.is_short_by(1.0 - BELOW, seen);
            if is_short
                && ledger.given > self.classes[class].stake() / 2.0 * ledger.had
                && !(ledger.pays() && ledger.reaches_reference())
            {
                self.excuse(class, seen);
            }
            self.reference = None;
        }
        raised
    }

    /// Returns the greatest mean of a class for each unit of its share.
    fn most(&self, seen: &Seen<'_>) -> f64 {
        let of = |(class, held): (Class, &Held)| {
            let share = seen.share(class);
            if share > 0.0 { held.mean / share } else { 0.0 }
        };
        self.classes.iter().map(of).fold(0.0, f64::max)
    }

    /// Opens a class's ledger.
    fn open_ledger(&mut self, class: Class, seen: &Seen<'_>) {
        let before = PerClass::from_fn(|class| seen.activities[class].rate);
        self.classes[class].tried = Try { opened: seen.now, before, unpaid_since: None };
    }

    /// Opens all ledgers, since nobody gives up anything.
    fn open_ledgers(&mut self, seen: &Seen<'_>) {
        Class::ALL.into_iter().for_each(|class| self.open_ledger(class, seen));
    }

    /// Returns whether a class's ledger has been open long enough to be judged.
    fn is_old(&self, class: Class, seen: &Seen<'_>) -> bool {
        seen.now.since(self.classes[class].tried.opened).as_secs_f64() >= TERM * seen.unit()
    }

    /// Adds up the throughput given up and gained since the ledger was opened.
    fn ledger(&self, (reference, wanted): (Class, f64), seen: &Seen<'_>) -> Ledger {
        let mut ledger = Ledger::default();
        let before = &self.classes[reference].tried.before;
        for (class, held) in self.classes.iter() {
            let (activity, share) = (&seen.activities[class], seen.share(class));
            let change = activity.rate - before[class];
            if class != reference
                && share > 0.0
                && activity.backlogged > 0
                && held.mean.max(before[class]) > wanted * share
            {
                // Its rate is about to follow the level.
                let soon =
                    self.level.map_or(activity.rate, |level| activity.rate.min(level * share));
                ledger.given += before[class] - soon;
                ledger.had += before[class];
            } else if activity.backlogged > 0 {
                ledger.appeared += change;
                ledger.below += before[class];
                ledger.growth += activity.growth;
            }
        }
        let held = &self.classes[reference];
        let had = before[reference];
        ledger.reference = (had, seen.activities[reference].rate.max(held.mean) - had);
        ledger
    }

    /// Returns whether the level may fall further: the given-up throughput has appeared, or it is too early to judge.
    /// If it does not pay, nobody gives way to the reference for a while.
    fn settle(&mut self, reference: Class, ledger: &Ledger, seen: &Seen<'_>) -> bool {
        let now = seen.now;
        if !self.is_short_by(MARGIN, seen) {
            // The reference has gained the given-up throughput.
            self.classes[reference].tried.unpaid_since = None;
            if self.is_old(reference, seen) {
                self.open_ledger(reference, seen);
            }
            return true;
        }
        let pays = ledger.pays() && ledger.reaches_reference();
        let stake = self.classes[reference].stake();
        let is_clear = ledger.given > stake * ledger.had;
        if pays && self.is_old(reference, seen) && ledger.given > 0.0 {
            if ledger.given > stake / 2.0 * ledger.had {
                self.classes[reference].excuse = FIRST_WAIT;
            }
            self.open_ledger(reference, seen);
            return true;
        }
        let is_on_its_way = ledger.given - ledger.appeared <= stake * ledger.had;
        if !is_clear || pays {
            self.classes[reference].tried.unpaid_since = None;
            return !is_clear || is_on_its_way;
        }
        let mean = self.classes[reference].mean;
        let (since, had) = *self.classes[reference].tried.unpaid_since.get_or_insert((now, mean));
        let growing = ledger.given / ledger.growth.max(1.0);
        let patience =
            (PATIENCE * seen.unit()).max(growing).max(20.0 * seen.trip()).min(LONGEST_PATIENCE);
        if now.since(since).as_secs_f64() > patience {
            if mean > had * (1.0 + MARGIN) {
                // It is on its way.
                self.open_ledger(reference, seen);
            } else {
                self.excuse(reference, seen);
            }
        }
        ledger.pays() && is_on_its_way
    }

    /// Returns whether all classes that want more are held.
    fn all_are_held(&self, seen: &Seen<'_>) -> bool {
        seen.activities.iter().all(|(class, activity)| {
            seen.share(class) <= 0.0 || activity.backlogged == 0 || self.classes[class].is_held
        })
    }

    /// Returns how well the held classes reach their limits: 0 where one misses its limit by more than the network's
    /// noise, and 1 where only the limits hold them back.
    fn reached(&self, seen: &Seen<'_>) -> f64 {
        let backlogged = seen.activities.iter().filter(|(_, activity)| activity.backlogged > 0);
        let held = backlogged.map(|(class, _)| &self.classes[class]).filter(|held| held.is_held);
        let least = held.map(|held| held.reach).fold(1.0, f64::min);
        ((least - REACHED) / (1.0 - REACHED)).max(0.0)
    }

    /// Returns whether the reference is below its share by this part of it.
    fn is_short_by(&self, part: f64, seen: &Seen<'_>) -> bool {
        let (Some(class), Some(level)) = (self.reference, self.level) else { return false };
        let whole = match seen.goals[class] {
            ClassGoal::Share(share) => level * share,
            ClassGoal::Rate(rate) => rate.bytes(),
            ClassGoal::Free | ClassGoal::Latency(_) => return false,
        };
        self.classes[class].mean < whole * (1.0 - part)
    }

    /// Excuses a class from being the reference for a while, after each time for twice as long.
    fn excuse(&mut self, class: Class, seen: &Seen<'_>) {
        let held = &mut self.classes[class];
        held.excused_until = seen.now + held.excuse;
        held.excuse = (held.excuse * 2).min(LONGEST_WAIT);
        self.open_ledger(class, seen);
    }

    /// Decides which classes are held, and trims their limits. `raised`: nobody needs limits, which rise by this factor.
    fn hold(&mut self, passed: f64, raised: Option<f64>, seen: &Seen<'_>) {
        let (level, multiple, is_bound) = (self.in_force(), self.multiple(), self.is_bound());
        let by_shares =
            raised.is_none() && self.reference.is_some_and(|class| seen.share(class) > 0.0);
        // If the reference nearly has its share, one class has to be left to fill the link.
        let entry = if self.is_short_by(MARGIN, seen) { 1.0 } else { 1.0 + MARGIN };
        for class in Class::ALL {
            let held = &mut self.classes[class];
            let limit = match (seen.goals[class], level, raised) {
                (ClassGoal::Share(share), Some(level), _) => level * share,
                // A class with a rate is held to it for one with a share.
                (ClassGoal::Rate(rate), ..) if by_shares || is_bound => rate.bytes() * multiple,
                (ClassGoal::Rate(_), _, Some(raised)) if held.is_held => {
                    // Classes with a share are satisfied first.
                    held.trim *= if level.is_some() { 1.0 } else { raised };
                    held.is_held = held.trim < LOOSE;
                    continue;
                }
                _ => {
                    (held.is_held, held.trim) = (false, 1.0);
                    continue;
                }
            };
            let ratio: f64 = held.mean / limit.max(1.0);
            if !held.is_held && ratio >= entry {
                (held.is_held, held.trim) = (true, ratio.min(1.0 + MARGIN));
            } else if held.is_held && (ratio < RELEASE) {
                held.is_held = false;
            }
            if held.is_held {
                let change = (1.0 - ratio).clamp(-1.0, 1.0) * passed / TRIM;
                held.trim = (held.trim + change).clamp(TRIMS.0, TRIMS.1);
            }
        }
    }
}

/// The throughput that held classes gave up, and the classes that gained it, in bytes per second.
#[derive(Clone, Copy, Debug, Default)]
struct Ledger {
    given: f64,
    /// The earlier rates of the held classes.
    had: f64,
    /// The gain of the classes that are not held.
    appeared: f64,
    /// Their earlier rates.
    below: f64,
    /// The earlier rate of the reference, and its gain.
    reference: (f64, f64),
    growth: f64,
}

impl Ledger {
    /// Returns whether enough of the given-up throughput has appeared elsewhere.
    fn pays(&self) -> bool {
        self.appeared >= PAYS * self.given
    }

    /// Returns whether the reference has its part of the given-up throughput, in proportion to earlier rates.
    fn reaches_reference(&self) -> bool {
        let (had, more) = self.reference;
        self.below <= 0.0 || more >= PAYS * self.given.min(self.appeared) * had / self.below
    }
}
