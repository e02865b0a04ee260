//! Models of what reactors say to each other by atomics, run in one order of their steps after the
//! other: exhaustively where a model is small, else in many thousand orders at random and by
//! priorities (PCT). `make interleavings` runs them.
//!
//! Shuttle treats every atomic as sequentially consistent. The protocols rely on this in one place:
//! where a reactor announces something and then looks for the other's announcement, both accesses
//! are `SeqCst`.

use std::sync::Arc;

use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner, thread};

use crate::arbiter::{
    Arbiter, DeviceId, Dispatched, EntryId, Grant, HostFlowId, Pull, Submission, Waiters,
};
use crate::credit::{Caps, Cost};
use crate::device::{Device, DeviceRules};
use crate::order::{ClassClock, Pace, SpreadKey, Spreads, WHOLE};
use crate::reservation::{Broker, Budget, Overrides, Reserved, Tally, Terms};
use crate::session::{HostId, Reservation, RootSpec, Session, SessionId, SessionSpec, Sessions};
use crate::settings::{OrderSettings, Unit, WindowRule};
use crate::window::{SLOT, Window};
use crate::{Class, Nanos, Reactors, Sharing};

const DEVICE: DeviceId = DeviceId(0);
const NOW: Nanos = Nanos(1_000_000_000);
const COST: Cost = Cost { operations: 1, payload: 4 };

fn run(scheduler: impl Scheduler + 'static, model: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::default();
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(model);
}

/// Runs a small model in every order of its steps.
fn every(model: impl Fn() + Send + Sync + 'static) {
    run(DfsScheduler::new(None, false), model);
}

/// Runs a large model in many orders of its steps: `INTERLEAVINGS` of each kind, 400 without it.
fn many(model: impl Fn() + Send + Sync + Clone + 'static) {
    let asked = std::env::var("INTERLEAVINGS").ok().and_then(|number| number.parse().ok());
    let orders = asked.unwrap_or(400);
    run(PctScheduler::new(3, orders), model.clone());
    run(RandomScheduler::new(orders), model);
}

/// Makes session `a`, which may have one operation at a time below a root that has `operations`.
fn sessions(operations: u32) -> Sessions {
    let root =
        RootSpec { caps: Caps { operations, payload: u64::MAX }, bounded: true, queue: u32::MAX };
    let share = u8::try_from(100 / operations).unwrap();
    let name = "a".to_owned();
    let a = SessionSpec { name, operations: Some(share), ..SessionSpec::default() };
    let mut sessions = Sessions::new(&root);
    sessions.apply(NOW, &root, &[a]).unwrap();
    sessions
}

fn session(sessions: &Sessions) -> Arc<Session> {
    Arc::clone(sessions.named("a").unwrap())
}

#[test]
fn returned_credit_is_taken_or_announced() {
    every(|| {
        let sessions = sessions(10);
        let (a, waiters) = (session(&sessions), Arc::new(Waiters::new(1)));
        assert!(a.credits.take(COST));
        let other = {
            let (a, waiters) = (Arc::clone(&a), Arc::clone(&waiters));
            thread::spawn(move || {
                let taken = a.credits.take(COST);
                if !taken {
                    waiters.wait(0, &a, COST);
                }
                taken
            })
        };
        let told = waiters.give(&a, COST);
        let taken = other.join().unwrap();
        assert!(taken || !waiters.is_empty(0), "it waits for a credit that is there");
        assert!(told.is_empty() || !waiters.is_empty(0), "it is woken and told of nothing");
    });
}

#[test]
fn announcements_to_reactor_are_never_lost() {
    for others in [[1, 2], [1, 65]] {
        every(move || {
            let waiters = Arc::new(Waiters::new(1));
            let told = others.map(|session| {
                let waiters = Arc::clone(&waiters);
                thread::spawn(move || waiters.tell(0, SessionId(session)))
            });
            let mut heard = Vec::new();
            waiters.take(0, |session| heard.push(session));
            told.into_iter().for_each(|one| one.join().unwrap());
            waiters.take(0, |session| heard.push(session));
            heard.sort_unstable();
            heard.dedup();
            assert_eq!(heard, others);
            assert!(waiters.is_empty(0));
        });
    }
}

#[test]
fn window_never_exceeds_limit_or_loses_slots() {
    every(|| {
        let window = Arc::new(Window::shared(WindowRule::Fixed(2), Sharing::Several));
        assert!(window.take(SLOT));
        let other = {
            let window = Arc::clone(&window);
            thread::spawn(move || window.take(SLOT))
        };
        let own = window.take(SLOT);
        let other = other.join().unwrap();
        assert!(own != other, "one of the two finds room");
        assert_eq!(window.held(), 2);
        window.put_back(2 * SLOT);
        assert_eq!(window.held(), 0);
    });
}

#[test]
fn budget_counts_all_use_in_period() {
    every(|| {
        let tally = Arc::new(Tally::default());
        tally.add(1, 100);
        let other = {
            let tally = Arc::clone(&tally);
            thread::spawn(move || tally.add(2, 7))
        };
        // Late: it was charged in the period before.
        tally.take_back(1, 40);
        tally.add(2, 3);
        other.join().unwrap();
        assert_eq!(tally.used(2), 10);
    });
}

#[test]
fn class_starting_on_two_reactors_joins_level() {
    every(|| {
        let clock = Arc::new(ClassClock::new(Sharing::Several));
        let pace = Pace::new(&OrderSettings::default());
        clock.begins(Class::High);
        clock.charge(&pace, Class::High, 1 << 20);
        clock.charge(&pace, Class::High, 256);
        let other = {
            let clock = Arc::clone(&clock);
            thread::spawn(move || {
                clock.begins(Class::Low);
                clock.ends(Class::Low);
            })
        };
        clock.begins(Class::Low);
        other.join().unwrap();
        // Low's unused share while it was idle is gone: it cannot hold High back.
        let has = crate::order::bit(Class::High);
        assert_eq!(clock.pick(has, None), Some(Class::High));
        clock.ends(Class::Low);
        clock.ends(Class::High);
        assert!(!clock.contended());
    });
}

/// A reactor with a command of session `a` that waits.
struct Reactor {
    arbiter: Arbiter<()>,
    flow: HostFlowId,
    got: Option<Grant>,
    woke: Reactors,
}

impl Reactor {
    fn new(number: u32, device: &Arc<Device>, waiters: &Arc<Waiters>, a: &Arc<Session>) -> Self {
        let order = OrderSettings::default();
        let mut arbiter = Arbiter::new(number, &order, Arc::clone(waiters), 4);
        arbiter.add_device(DEVICE, Arc::clone(device));
        let flow = arbiter.flow(DEVICE, a, HostId(u64::from(number))).unwrap();
        Self { arbiter, flow, got: None, woke: Reactors::NONE }
    }

    fn send(&mut self, class: Class) -> EntryId {
        self.arbiter.enqueue(NOW, self.flow, class, Submission::of_host((), false, 4096)).unwrap()
    }

    fn pull(&mut self, pull: fn(&mut Arbiter<()>, Nanos) -> Pull<()>) {
        loop {
            match pull(&mut self.arbiter, NOW) {
                Pull::Command(Dispatched { grant, .. }) => self.got = Some(grant),
                Pull::Wake(reactors) => self.woke |= reactors,
                Pull::Later(_) | Pull::Nothing => return,
            }
        }
    }

    fn complete(&mut self) {
        let grant = self.got.take().expect("a command in the device");
        self.arbiter.complete(NOW, grant, true);
        self.pull(Arbiter::pull);
    }
}

/// Reactors of which the first has a command in the device, and the others have some that wait
/// for it.
fn reactors(count: u32, window: WindowRule, operations: u32) -> (Vec<Reactor>, Sessions) {
    let sessions = sessions(operations);
    let waiters = Arc::new(Waiters::new(count as usize));
    let rules = DeviceRules { window, ..DeviceRules::default() };
    let device = Arc::new(Device::new(rules, count as usize));
    let a = session(&sessions);
    let mut all: Vec<_> = (0..count).map(|n| Reactor::new(n, &device, &waiters, &a)).collect();
    all[0].send(Class::High);
    all[0].pull(Arbiter::pull);
    assert!(all[0].got.is_some());
    for reactor in all.iter_mut().skip(1) {
        reactor.send(Class::High);
    }
    (all, sessions)
}

/// Sends all reactors but the first to sleep while the first completes its command. Then each woken
/// reactor proceeds, and wakes others in turn: each dispatches its command in the end.
fn all_are_woken(count: u32, window: WindowRule, operations: u32) {
    let (mut all, sessions) = reactors(count, window, operations);
    let sleepers: Vec<_> = all
        .split_off(1)
        .into_iter()
        .map(|mut reactor| {
            thread::spawn(move || {
                reactor.pull(Arbiter::pull_before_sleep);
                reactor
            })
        })
        .collect();
    all[0].complete();
    all.extend(sleepers.into_iter().map(|sleeper| sleeper.join().unwrap()));
    let mut served = 1;
    while let Some(busy) = all
        .iter()
        .position(|reactor| reactor.got.is_some())
        .or_else(|| all.iter().position(|reactor| !reactor.woke.is_empty()))
    {
        if all[busy].got.is_some() {
            all[busy].complete();
            served += 1;
        }
        for woken in std::mem::replace(&mut all[busy].woke, Reactors::NONE) {
            all[woken as usize].pull(Arbiter::pull_before_sleep);
        }
    }
    assert_eq!(served, count, "a reactor sleeps beside room for its command");
    for session in sessions.iter() {
        assert_eq!(session.credits.used().operations, 0, "credits of {}", session.name());
    }
}

#[test]
fn reactor_waiting_for_window_is_woken() {
    many(|| all_are_woken(2, WindowRule::Fixed(1), 10));
}

#[test]
fn reactor_waiting_for_credits_is_woken() {
    many(|| all_are_woken(2, WindowRule::Off, 10));
    many(|| all_are_woken(3, WindowRule::Off, 1));
}

#[test]
fn reactor_rejected_by_aborted_attempt_is_woken() {
    many(|| {
        // A command of the root's has the root's only credit. Two reactors want that and session
        // a's only one: one takes a's, finds none of the root's, gives a's back and withdraws its
        // command. The other, which may have found none of a's just then, goes in the end.
        let sessions = sessions(1);
        let waiters = Arc::new(Waiters::new(3));
        let rules = DeviceRules { window: WindowRule::Off, ..DeviceRules::default() };
        let device = Arc::new(Device::new(rules, 3));
        let mut holds = Reactor::new(0, &device, &waiters, sessions.root());
        holds.send(Class::High);
        holds.pull(Arbiter::pull);
        let a = session(&sessions);
        let mut gives_up = Reactor::new(1, &device, &waiters, &a);
        let entry = gives_up.send(Class::High);
        let mut other = Reactor::new(2, &device, &waiters, &a);
        other.send(Class::High);
        let gives_up = thread::spawn(move || {
            gives_up.pull(Arbiter::pull_before_sleep);
            if gives_up.got.is_none() {
                gives_up.arbiter.cancel(NOW, entry);
                gives_up.pull(Arbiter::pull_before_sleep);
            }
            gives_up
        });
        let other = thread::spawn(move || {
            other.pull(Arbiter::pull_before_sleep);
            other
        });
        holds.complete();
        let (mut gives_up, mut other) = (gives_up.join().unwrap(), other.join().unwrap());
        if gives_up.got.is_some() {
            gives_up.complete();
        }
        if holds.woke.contains(2) || gives_up.woke.contains(2) {
            other.pull(Arbiter::pull_before_sleep);
        }
        assert!(other.got.is_some(), "it sleeps beside credits that nobody has");
    });
}

#[test]
fn reactor_yielding_to_remote_class_is_woken() {
    many(|| {
        let sessions = sessions(1);
        let root = sessions.root();
        let waiters = Arc::new(Waiters::new(2));
        let rules = DeviceRules { window: WindowRule::Off, ..DeviceRules::default() };
        let device = Arc::new(Device::new(rules, 2));
        let mut ahead = Reactor::new(0, &device, &waiters, root);
        let mut behind = Reactor::new(1, &device, &waiters, root);
        let low = Submission::of_host((), false, 4096);
        let entry = behind.arbiter.enqueue(NOW, behind.flow, Class::Low, low).unwrap();
        ahead.send(Class::High);
        let pace = Pace::new(&OrderSettings::default());
        device.clock.charge(&pace, Class::High, 1 << 20);
        let ahead = thread::spawn(move || {
            ahead.pull(Arbiter::pull_before_sleep);
            ahead
        });
        behind.arbiter.cancel(NOW, entry);
        behind.pull(Arbiter::pull);
        let ahead = ahead.join().unwrap();
        assert!(ahead.got.is_some() || behind.woke.contains(0), "High sleeps, nobody is before it");
    });
}

#[test]
fn waiting_host_counts_in_each_reactor() {
    every(|| {
        let sessions = sessions(10);
        let key = SpreadKey::new(&session(&sessions), HostId(1));
        let spreads = Arc::new(Spreads::default());
        let life = move |spreads: &Spreads| {
            let spread = spreads.join(key);
            let reactors = spread.begins(Class::High);
            assert!((1..=2).contains(&reactors) && (1..=2).contains(&spread.reactors(Class::High)));
            spread.ends(Class::High);
            drop(spread);
            spreads.leave(key);
        };
        let own = spreads.join(key);
        let other = {
            let spreads = Arc::clone(&spreads);
            thread::spawn(move || life(&spreads))
        };
        life(&spreads);
        other.join().unwrap();
        assert_eq!(own.reactors(Class::High), 0, "the host waits nowhere");
        spreads.leave(key);
        assert_eq!(spreads.len(), 0);
    });
}

#[test]
fn reactor_yielding_to_reactor_behind_is_woken() {
    many(|| {
        let sessions = sessions(10);
        let root = sessions.root();
        let waiters = Arc::new(Waiters::new(2));
        let rules = DeviceRules { window: WindowRule::Fixed(64), ..DeviceRules::default() };
        let device = Arc::new(Device::new(rules, 2));
        let mut behind = Reactor::new(0, &device, &waiters, root);
        let mut ahead = Reactor::new(1, &device, &waiters, root);
        // One command of the reactor behind is worth 256 of the other's.
        let bytes = OrderSettings { unit: Unit::Bytes, ..OrderSettings::default() };
        behind.arbiter.set_order(&bytes);
        for _ in 0..2 {
            let large = Submission::of_host((), false, 1 << 20);
            behind.arbiter.enqueue(NOW, behind.flow, Class::High, large).unwrap();
        }
        ahead.send(Class::High);
        device.fairness.charge(Class::High, 1, 17 * 256, WHOLE);
        let ahead = thread::spawn(move || {
            ahead.pull(Arbiter::pull_before_sleep);
            ahead
        });
        behind.pull(Arbiter::pull_before_sleep);
        let ahead = ahead.join().unwrap();
        assert!(behind.got.is_some());
        assert!(ahead.got.is_some() || behind.woke.contains(1), "it sleeps beside room");
    });
}

/// Makes a reservation of a tenth of a second each second.
fn reserve(session: &Arc<Session>) -> Reservation {
    let overrides = Overrides { mean: Some(Nanos(1_000_000)), ..Overrides::default() };
    let rules = DeviceRules { profile: overrides, ..DeviceRules::default() };
    let profile = Device::new(rules, 1).profile().unwrap();
    let terms = Terms::of(Budget::Operations(100), Nanos(1_000_000_000));
    let admitted = Broker::admit(&profile, &[], 20, &terms).unwrap();
    let reserved = Arc::new(Reserved::new(NOW, &admitted));
    Reservation { session: Arc::clone(session), reserved }
}

#[test]
fn reactor_yielding_to_reservation_is_woken() {
    many(|| {
        let sessions = sessions(10);
        let a = session(&sessions);
        let waiters = Arc::new(Waiters::new(2));
        let rules = DeviceRules { window: WindowRule::Fixed(1), ..DeviceRules::default() };
        let device = Arc::new(Device::new(rules, 2));
        device.reserve(vec![reserve(&a)]);
        let mut others = Reactor::new(0, &device, &waiters, sessions.root());
        others.send(Class::High);
        others.pull(Arbiter::pull);
        others.send(Class::High);
        let mut reserves = Reactor::new(1, &device, &waiters, &a);
        let entry = reserves.send(Class::Low);
        let reserves = thread::spawn(move || {
            reserves.pull(Arbiter::pull_before_sleep);
            // It is due, and withdraws its command where it has not got it.
            if reserves.got.is_none() {
                reserves.arbiter.cancel(NOW, entry);
                reserves.pull(Arbiter::pull_before_sleep);
            }
            reserves
        });
        others.complete();
        others.pull(Arbiter::pull_before_sleep);
        let mut reserves = reserves.join().unwrap();
        if reserves.got.is_some() {
            reserves.complete();
        }
        if others.got.is_none() {
            assert!(reserves.woke.contains(0), "it leaves room to a reservation that is over");
            others.pull(Arbiter::pull_before_sleep);
        }
        assert!(others.got.is_some(), "room is left to a reservation that is over");
    });
}
