//! A device as all reactors share it: its window, and the state of its classes.

use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

use units::{Class, Nanos, PerClass};

use crate::container::Scheduler;
use crate::order::{ClassClock, DeviceTags, DeviceTimes, Fairness, Spreads};
use crate::reactors::Reactors;
use crate::reservation::{Overrides, Profile, Profiler, QueueBound, SetLoad, Use};
use crate::session::Reservation;
use crate::settings::WindowRule;
use crate::sharing::Sharing;
use crate::window::Window;

pub use crate::sharing::REACTORS_MAX;

/// Divisor of the commands that the device carries out in the shortest period of a reservation: the
/// part that Urgent may save up.
const URGENT_PART: u64 = 32;

/// The fixed rules of a device.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceRules {
    /// The rule of the window, stage S5.
    pub window: WindowRule,
    /// The order by LBA and deadline; `None`: commands go in the order of stage S4.
    pub containers: Option<ContainerRules>,
    /// Service times that are configured instead of measured.
    pub profile: Overrides,
}

/// The rules for ordering commands by LBA and deadline (docs/research/sources.md, I1 to I3).
#[derive(Clone, Copy, Debug)]
pub struct ContainerRules {
    /// The scheduler.
    pub scheduler: Scheduler,
    /// The number of commands that the scheduler chooses from.
    pub capacity: usize,
    /// The deadline of a High command, in ns after its arrival; Medium and Low have more by
    /// their weights.
    pub deadline_ns: u64,
}

/// Number of commands that wait at one reactor, by class. Each reactor writes to its own cache line
/// with every command.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Counts {
    waiting: PerClass<AtomicU32>,
    /// Commands that the reactor has sent to the device, while it counts the reasons of waits.
    dispatched: AtomicU64,
}

/// A device, as all reactors share it.
#[derive(Debug)]
pub struct Device {
    /// The rules, which are fixed.
    pub rules: DeviceRules,
    /// The window, stage S5.
    pub window: Window,
    /// The order of the classes.
    pub clock: ClassClock,
    /// The fairness between the reactors in each class.
    pub fairness: Fairness,
    /// Reactors in which each host waits.
    pub(crate) spreads: Spreads,
    /// Tags of sessions and hosts, for the order by weight.
    pub(crate) tags: Arc<DeviceTags>,
    /// Measurements of the service times (docs/research/sources.md, F1: reservations in the tenant's terms).
    pub profiler: Profiler,
    /// Costs of commands where device time counts.
    pub(crate) times: DeviceTimes,
    /// Load of the scheduling set, or of the device if reservations bound its commands.
    pub(crate) set: SetLoad,
    /// Whether reservations bound the commands in the device.
    follows: AtomicBool,
    /// The device time of commands that were carried out, and the longest of their times.
    used: Use,
    /// Whether there is a scheduling set.
    bounded: bool,
    /// Time of the latest completion, in ns; kept where [`Self::is_bounded`].
    last_done: AtomicU64,
    /// Reactors that sleep while they have commands waiting here, one bit each.
    sleepers: AtomicU64,
    /// Reactors with a reservation that is due and that find no room, one bit each.
    due: AtomicU64,
    /// Commands that wait, by reactor and class.
    waiting: Vec<Counts>,
    /// The reservations in force. A reactor reads them when it begins to use the device, and when
    /// it is notified of a change.
    reservations: Mutex<Arc<[Reservation]>>,
}

impl Device {
    /// Makes a device that `reactors` (at most 64) feed.
    #[must_use]
    pub fn new(rules: DeviceRules, reactors: usize) -> Self {
        let sharing = Sharing::for_reactors(reactors);
        let waiting = (0..reactors.clamp(1, REACTORS_MAX)).map(|_| Counts::default()).collect();
        let bounded = rules.containers.is_some() || rules.profile.seeks;
        let fixed = matches!(rules.window, WindowRule::Fixed(_));
        let follows = bounded || !fixed || rules.window == WindowRule::default();
        Self {
            rules,
            window: Window::shared(rules.window, sharing),
            clock: ClassClock::new(sharing),
            fairness: Fairness::new(reactors.clamp(1, REACTORS_MAX)),
            spreads: Spreads::default(),
            tags: Arc::new(DeviceTags::new(reactors.clamp(1, REACTORS_MAX), sharing)),
            profiler: Profiler::new(&rules.profile),
            times: DeviceTimes::default(),
            set: SetLoad::default(),
            follows: AtomicBool::new(follows),
            used: Use::default(),
            bounded,
            last_done: AtomicU64::new(0),
            sleepers: AtomicU64::new(0),
            due: AtomicU64::new(0),
            waiting,
            reservations: Mutex::new(Arc::default()),
        }
    }

    /// Returns whether commands go through a scheduling set, which reservations bound
    /// (docs/research/sources.md, F3: reservations are kept). They do on a device that seeks or that orders
    /// commands by place, because it does not serve them first come, first served.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        self.bounded
    }

    /// Notes that a command, dispatched at `at`, has completed and left the scheduling set. Returns
    /// how long the device worked on it alone, in ns: since the completion before it, because
    /// commands that are in the device together wait for each other there.
    pub(crate) fn leave_set(&self, now: Nanos, at: Nanos, write: bool, bytes: u32) -> u64 {
        self.set.leave(write, bytes);
        let before = Nanos(self.last_done.fetch_max(now.0, Relaxed));
        now.ns_since(before.max(at))
    }

    /// Sets whether the device holds fewer commands than its window allows where reservations need
    /// that. At first it does, unless its window is a fixed one other than the default, and the device
    /// has no scheduling set. A change acts when reactors next adopt the reservations.
    pub fn follow_reservations(&self, follows: bool) {
        self.follows.store(follows, Relaxed);
    }

    /// Returns whether reservations bound the commands in the device.
    #[must_use]
    pub fn follows_reservations(&self) -> bool {
        self.follows.load(Relaxed)
    }

    /// Returns the tightest bound of a reservation on the commands in the device, with the name of
    /// its session. `None` if the window does not follow reservations, or there are none.
    #[must_use]
    pub fn queue_bound(&self) -> Option<(String, QueueBound)> {
        let all = self.reservations();
        let bounds = all.iter().filter(|_| self.follows_reservations() && !self.is_bounded());
        let bounds = bounds.map(|one| (one.session.name(), one.reserved.queue_bound()));
        bounds.min_by_key(|(_, bound)| bound.depth()).map(|(name, bound)| (name.to_owned(), bound))
    }

    /// Computes the fraction of the latest second or so in which the device was busy, 0 to 1, by
    /// its profile. Counted while reservations bound its commands.
    #[must_use]
    pub fn busy(&self, now: Nanos) -> f64 {
        self.used.busy(now)
    }

    pub(crate) fn note_use(&self, now: Nanos, device_time: u64) {
        self.used.add(now, device_time);
    }

    pub(crate) fn note_length(&self, now: Nanos, in_device: u64) {
        self.used.note_length(now, in_device);
    }

    /// Returns the longest time in the device, in ns, of the commands of the latest second or so.
    pub(crate) fn longest(&self, now: Nanos) -> u64 {
        self.used.longest(now)
    }

    /// Returns the reservations in force.
    #[must_use]
    pub fn reservations(&self) -> Arc<[Reservation]> {
        Arc::clone(&self.reservations.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts these reservations in force, and no others. Reactors take them when
    /// [`touch_device`](crate::arbiter::Arbiter::touch_device) tells them to.
    pub fn reserve(&self, reservations: Vec<Reservation>) {
        // Savings of Urgent go before reservations, so the savings have to be small beside each
        // period.
        let commands = reservations.iter().map(|one| one.reserved.commands() / URGENT_PART);
        self.clock.bound_urgent(commands.min());
        *self.reservations.lock().unwrap_or_else(PoisonError::into_inner) = reservations.into();
    }

    /// Computes the service times, as configured and measured. `None` where too little is known.
    #[must_use]
    pub fn profile(&self) -> Option<Profile> {
        self.profiler.profile(&self.rules.profile)
    }

    /// Returns whether nodes go by weight: a session has a weight of its own, or several reactors have hosts of several
    /// sessions, which share the device whichever reactors they are in.
    #[inline]
    pub(crate) fn goes_by_weight(&self) -> bool {
        self.tags.are_used() || self.spreads.have_several_sessions()
    }

    /// Takes the costs of commands from the profile, about once a second.
    #[inline]
    pub(crate) fn refresh_times(&self, now: Nanos) {
        self.times.refresh(now, || self.profile());
    }

    /// Counts the commands that wait, by class.
    #[must_use]
    pub fn waiting(&self) -> PerClass<u64> {
        PerClass::from_fn(|class| {
            self.waiting.iter().map(|counts| u64::from(counts.waiting[class].load(Relaxed))).sum()
        })
    }

    #[inline]
    pub(crate) fn publish(&self, reactor: u32, class: Class, waiting: u32) {
        if let Some(counts) = self.waiting.get(reactor as usize) {
            counts.waiting[class].store(waiting, Relaxed);
        }
    }

    /// Counts a command that a reactor sends to the device. Only that reactor writes the number.
    pub(crate) fn count_dispatch(&self, reactor: u32) {
        if let Some(Counts { dispatched, .. }) = self.waiting.get(reactor as usize) {
            dispatched.store(dispatched.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    /// Returns the number of commands that all reactors have sent to the device while they counted.
    pub(crate) fn dispatched(&self) -> u64 {
        self.waiting.iter().fold(0, |sum, counts| sum.wrapping_add(counts.dispatched.load(Relaxed)))
    }

    /// Notes that a reactor goes to sleep though commands wait here.
    pub(crate) fn sleep(&self, reactor: u32) {
        self.sleepers.fetch_or(1 << (reactor & 63), SeqCst);
    }

    /// Notes that a reservation is due in a reactor that finds no room: the room that comes free is
    /// for it (docs/research/sources.md, F3: reservations are kept).
    pub(crate) fn set_due(&self, reactor: u32) {
        self.due.fetch_or(1 << (reactor & 63), SeqCst);
    }

    /// Notes that no reservation is due in that reactor any more. Returns the reactors that sleep:
    /// they may go on.
    pub(crate) fn clear_due(&self, reactor: u32) -> Reactors {
        self.due.fetch_and(!(1 << (reactor & 63)), SeqCst);
        self.wake_beside(reactor)
    }

    /// Returns whether a reservation is due in another reactor, which finds no room.
    #[inline]
    pub(crate) fn is_due_beside(&self, reactor: u32) -> bool {
        self.due.load(SeqCst) & !(1 << (reactor & 63)) != 0
    }

    /// Takes out the other reactors that sleep: they count as awake from now on. This reactor's own
    /// announcement stays: the reactor may be looking a last time before it sleeps, and nobody else
    /// would tell it of room that comes free after that.
    #[inline]
    pub(crate) fn wake_beside(&self, reactor: u32) -> Reactors {
        let own = 1 << (reactor & 63);
        if self.sleepers.load(SeqCst) & !own == 0 {
            return Reactors::NONE;
        }
        self.wake_beside_after_store(reactor)
    }

    /// Does the same after a relaxed store for which the others sleep. A load might come before that store; this change
    /// comes after it.
    pub(crate) fn wake_beside_after_store(&self, reactor: u32) -> Reactors {
        let own = 1 << (reactor & 63);
        Reactors::of_bits(self.sleepers.fetch_and(own, SeqCst)).without(reactor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waking_reactor_stays_announced() {
        let device = Device::new(DeviceRules::default(), REACTORS_MAX);
        device.sleep(3);
        assert!(device.wake_beside(3).is_empty(), "the last look before sleep wakes nobody");
        device.sleep(63);
        assert_eq!(device.wake_beside(63).collect::<Vec<_>>(), [3]);
        assert_eq!(device.wake_beside(0).collect::<Vec<_>>(), [63]);
        assert!(device.wake_beside(0).is_empty());
    }

    #[test]
    fn f3_room_is_left_to_due_reservation_of_other_reactor() {
        let device = Device::new(DeviceRules::default(), REACTORS_MAX);
        for reactor in 0..64 {
            let other = (reactor + 1) % 64;
            assert!(!device.is_due_beside(other));
            device.set_due(reactor);
            assert!(device.is_due_beside(other) && !device.is_due_beside(reactor));
            device.sleep(other);
            let woken = device.clear_due(reactor);
            assert!(woken.contains(other) && !woken.contains(reactor), "{other} is told");
            assert!(!device.is_due_beside(other), "nothing is due in {reactor} any more");
        }
    }

    #[test]
    fn waiting_commands_are_counted_by_class() {
        let device = Device::new(DeviceRules::default(), 2);
        device.publish(0, Class::High, 3);
        device.publish(1, Class::High, 4);
        device.publish(1, Class::Low, 1);
        assert_eq!(device.waiting(), PerClass { high: 7, low: 1, ..PerClass::default() });
    }
}
