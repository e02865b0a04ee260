//! Models of what reactors say to each other by atomics, run in one order of their steps after the
//! other: exhaustively where a model is small, else in many thousand orders at random and by
//! priorities (PCT). `make interleavings` runs them.
//!
//! Shuttle treats every atomic as sequentially consistent. The protocols rely on this in one place:
//! where a reactor announces something and then looks for the other's announcement, both accesses
//! are `SeqCst`.

use std::sync::Arc;

use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Scheduler};
use shuttle::thread::JoinHandle;
use shuttle::{Config, Runner, thread};

use crate::arbiter::{Arbiter, Dispatched, EntryId, Grant, HostFlowId, Pull, Submission, Waiters};
use crate::credit::{Caps, Cost};
use crate::device::{Device, DeviceRules};
use crate::order::{ClassClock, Pace, SpreadKey, Spreads, WHOLE};
use crate::reservation::Tally;
use crate::session::{HostId, RootSpec, Session, SessionId, SessionSpec, Sessions};
use crate::settings::{OrderSettings, Unit, WindowRule};
use crate::testing::{self, DEVICE, MS, ROOT, named, per_second, reservation, spec};
use crate::window::{SLOT, Window};
use crate::{Class, Nanos, Reactors, Sharing};

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

/// Runs something with a shared object on a thread of its own.
fn beside<S: Send + Sync + 'static, R: Send + 'static>(
    shared: &Arc<S>,
    run: impl FnOnce(&S) -> R + Send + 'static,
) -> JoinHandle<R> {
    let shared = Arc::clone(shared);
    thread::spawn(move || run(&shared))
}

/// Makes session `a`, which may have one operation at a time below a root that has `operations`.
fn sessions(operations: u32) -> Sessions {
    let root = RootSpec { caps: Caps { operations, payload: u64::MAX }, ..ROOT };
    let share = u8::try_from(100 / operations).unwrap();
    testing::sessions(&root, &[SessionSpec { operations: Some(share), ..spec("a", None) }])
}

#[test]
fn returned_credit_is_taken_or_announced() {
    every(|| {
        let sessions = sessions(10);
        let (a, waiters) = (named(&sessions, "a"), Arc::new(Waiters::new(1)));
        assert!(a.credits.take(COST));
        let own = Arc::clone(&a);
        let other = beside(&waiters, move |waiters| {
            let taken = own.credits.take(COST);
            if !taken {
                waiters.wait(0, &own, COST);
            }
            taken
        });
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
            let tell = |session| {
                beside(&waiters, move |waiters: &Waiters| waiters.tell(0, SessionId(session)))
            };
            let told = others.map(tell);
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
        let other = beside(&window, |window| window.take(SLOT));
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
        let other = beside(&tally, |tally| tally.add(2, 7));
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
        let other = beside(&clock, |clock| {
            clock.begins(Class::Low);
            clock.ends(Class::Low);
        });
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

    /// Looks for a command for the last time before it sleeps, on a thread of its own.
    fn sleep(mut self) -> JoinHandle<Self> {
        thread::spawn(move || {
            self.pull(Arbiter::pull_before_sleep);
            self
        })
    }

    /// Does the same, and withdraws a command that it has not got then.
    fn sleep_or_cancel(mut self, entry: EntryId) -> JoinHandle<Self> {
        thread::spawn(move || {
            self.pull(Arbiter::pull_before_sleep);
            if self.got.is_none() {
                self.arbiter.cancel(NOW, entry);
                self.pull(Arbiter::pull_before_sleep);
            }
            self
        })
    }

    fn complete(&mut self) {
        let grant = self.got.take().expect("a command in the device");
        self.arbiter.complete(NOW, grant, true);
        self.pull(Arbiter::pull);
    }
}

/// Makes reactors that share a device, each with a flow of one of the sessions.
fn reactors<const N: usize>(
    window: WindowRule,
    sessions: [&Arc<Session>; N],
) -> ([Reactor; N], Arc<Device>) {
    let device = Arc::new(Device::new(DeviceRules { window, ..DeviceRules::default() }, N));
    let mut arbiters = testing::arbiters(N, &OrderSettings::default(), &device);
    let reactors = sessions.map(|session| {
        let mut arbiter = arbiters.remove(0);
        let flow = arbiter.flow(DEVICE, session, HostId(arbiters.len() as u64)).unwrap();
        Reactor { arbiter, flow, got: None, woke: Reactors::NONE }
    });
    (reactors, device)
}

/// Sends all reactors but the first to sleep while the first completes its command. Then each woken
/// reactor proceeds, and wakes others in turn: each dispatches its command in the end.
fn all_are_woken<const N: usize>(window: WindowRule, operations: u32) {
    let sessions = sessions(operations);
    let mut all = Vec::from(reactors(window, [&named(&sessions, "a"); N]).0);
    all[0].send(Class::High);
    all[0].pull(Arbiter::pull);
    assert!(all[0].got.is_some());
    let mut sleepers = all.split_off(1);
    for sleeper in &mut sleepers {
        sleeper.send(Class::High);
    }
    let sleepers: Vec<_> = sleepers.into_iter().map(Reactor::sleep).collect();
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
    assert_eq!(served, N, "a reactor sleeps beside room for its command");
    for session in sessions.iter() {
        assert_eq!(session.credits.used().operations, 0, "credits of {}", session.name());
    }
}

#[test]
fn reactor_waiting_for_window_is_woken() {
    many(|| all_are_woken::<2>(WindowRule::Fixed(1), 10));
}

#[test]
fn reactor_waiting_for_credits_is_woken() {
    many(|| all_are_woken::<2>(WindowRule::Off, 10));
    many(|| all_are_woken::<3>(WindowRule::Off, 1));
}

#[test]
fn reactor_rejected_by_aborted_attempt_is_woken() {
    many(|| {
        // A command of the root's has the root's only credit. Two reactors want that and session
        // a's only one: one takes a's, finds none of the root's, gives a's back and withdraws its
        // command. The other, which may have found none of a's just then, goes in the end.
        let sessions = sessions(1);
        let a = named(&sessions, "a");
        let ([mut holds, mut gives_up, mut other], _) =
            reactors(WindowRule::Off, [sessions.root(), &a, &a]);
        holds.send(Class::High);
        holds.pull(Arbiter::pull);
        let entry = gives_up.send(Class::High);
        other.send(Class::High);
        let (gives_up, other) = (gives_up.sleep_or_cancel(entry), other.sleep());
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
        let ([mut ahead, mut behind], device) = reactors(WindowRule::Off, [sessions.root(); 2]);
        let entry = behind.send(Class::Low);
        ahead.send(Class::High);
        let pace = Pace::new(&OrderSettings::default());
        device.clock.charge(&pace, Class::High, 1 << 20);
        let ahead = ahead.sleep();
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
        let key = SpreadKey::new(&named(&sessions, "a"), HostId(1));
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
        let other = beside(&spreads, life);
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
        let ([mut behind, mut ahead], device) =
            reactors(WindowRule::Fixed(64), [sessions.root(); 2]);
        // One command of the reactor behind is worth 256 of the other's.
        let bytes = OrderSettings { unit: Unit::Bytes, ..OrderSettings::default() };
        behind.arbiter.set_order(&bytes);
        for _ in 0..2 {
            let large = Submission::of_host((), false, 1 << 20);
            behind.arbiter.enqueue(NOW, behind.flow, Class::High, large).unwrap();
        }
        ahead.send(Class::High);
        device.fairness.charge(Class::High, 1, 17 * 256, WHOLE);
        let ahead = ahead.sleep();
        behind.pull(Arbiter::pull_before_sleep);
        let ahead = ahead.join().unwrap();
        assert!(behind.got.is_some());
        assert!(ahead.got.is_some() || behind.woke.contains(1), "it sleeps beside room");
    });
}

#[test]
fn reactor_yielding_to_reservation_is_woken() {
    many(|| {
        let sessions = sessions(10);
        let a = named(&sessions, "a");
        let ([mut others, mut reserves], device) =
            reactors(WindowRule::Fixed(1), [sessions.root(), &a]);
        device.reserve(vec![reservation(&a, (MS, 1), &per_second(100))]);
        for arbiter in [&mut others.arbiter, &mut reserves.arbiter] {
            arbiter.touch_device(DEVICE);
            arbiter.settle(NOW, usize::MAX);
        }
        others.send(Class::High);
        others.pull(Arbiter::pull);
        others.send(Class::High);
        let entry = reserves.send(Class::Low);
        // The reserved command is due, and is withdrawn if it is not dispatched.
        let reserves = reserves.sleep_or_cancel(entry);
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
