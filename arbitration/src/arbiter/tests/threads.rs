//! Tests of reactors on threads of their own.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use super::*;
use crate::session::Session;

#[test]
fn reactor_held_back_for_remote_class_is_woken() {
    let list = vec![source(0, Class::High, 1), source(1, Class::Low, 1)];
    let mut world = World::new(2, WindowRule::Off, OrderSettings::default(), &[], list);
    let [high, low] = [world.flows[0], world.flows[1]];
    let submission = |n| Submission::of_host(n, false, 4096);
    let entry = world.arbiters[1].enqueue(Nanos(1), low, Class::Low, submission(0)).unwrap();
    let mut grants = Vec::new();
    for n in 0.. {
        world.arbiters[0].enqueue(Nanos(1), high, Class::High, submission(n)).unwrap();
        let Some(command) = world.arbiters[0].dispatch(Nanos(1), DEVICE) else { break };
        grants.push(command.grant);
        assert!(n < 100_000, "High is never held back");
    }
    for grant in grants {
        world.arbiters[0].complete(Nanos(2), grant, true);
    }
    assert!(matches!(world.arbiters[0].pull_before_sleep(Nanos(2)), Pull::Nothing));
    assert_eq!(world.arbiters[1].cancel(Nanos(2), entry), Some(0));
    let Pull::Wake(mut wake) = world.arbiters[1].pull(Nanos(2)) else { panic!("nobody wakes it") };
    assert_eq!((wake.next(), wake.next()), (Some(0), None));
    assert!(matches!(world.arbiters[1].pull(Nanos(2)), Pull::Nothing), "it is said once");
    assert!(matches!(world.arbiters[0].pull(Nanos(3)), Pull::Command(_)));
}

/// Runs one of two reactors on threads of their own: sends `commands`, keeps them in the device for
/// a few turns, sleeps when it can do nothing, and is woken by `doorbells`.
fn react(
    reactor: usize,
    mut arbiter: Arbiter<u64>,
    session: &Arc<Session>,
    commands: u64,
    doorbells: &[AtomicBool; 2],
) -> u64 {
    let clock = Instant::now();
    let flow = arbiter.flow(DEVICE, session, HostId(reactor as u64)).unwrap();
    let mut in_device = VecDeque::new();
    let mut seen = HashSet::new();
    let (mut sent, mut turn) = (0, 0);
    loop {
        turn += 1;
        let now = Nanos(u64::try_from(clock.elapsed().as_nanos()).unwrap());
        while sent < commands && arbiter.waiting() < 8 {
            let class = Class::ALL[usize::try_from(sent % 4).unwrap()];
            let bytes = if sent % 7 == 0 { 300_000 } else { 4096 };
            arbiter.enqueue(now, flow, class, Submission::of_host(sent, false, bytes)).unwrap();
            sent += 1;
        }
        // Whether to pull again.
        let mut serve = |pull, in_device: &mut VecDeque<_>| match pull {
            Pull::Command(command) => {
                assert_eq!(command.device, DEVICE);
                assert!(seen.insert(command.item), "dispatched twice");
                in_device.push_back((turn + command.item % 3, command.grant));
                true
            }
            Pull::Wake(reactors) => {
                reactors.for_each(|other| doorbells[other as usize].store(true, SeqCst));
                true
            }
            Pull::Later(_) | Pull::Nothing => false,
        };
        while serve(arbiter.pull(now), &mut in_device) {}
        while in_device.front().is_some_and(|(due, _)| *due <= turn) {
            let (_, grant) = in_device.pop_front().unwrap();
            arbiter.complete(now, grant, true);
        }
        if sent == commands && arbiter.waiting() == 0 && in_device.is_empty() {
            while serve(arbiter.pull(now), &mut in_device) {}
            return seen.len() as u64;
        }
        if in_device.is_empty() && arbiter.waiting() > 0 {
            if serve(arbiter.pull_before_sleep(now), &mut in_device) {
                continue;
            }
            // Nobody but the other reactor can make room now, and it must say so.
            let slept = Instant::now();
            while !doorbells[reactor].swap(false, SeqCst) {
                assert!(slept.elapsed().as_secs() < 20, "reactor {reactor} is never woken");
                std::thread::yield_now();
            }
        }
    }
}

/// Worlds run side by side, so that threads are kept waiting for a CPU at any point.
#[test]
fn threaded_reactors_lose_no_command_or_wakeup() {
    std::thread::scope(|threads| {
        for _ in 0..12 {
            threads.spawn(run_on_threads);
        }
    });
}

fn run_on_threads() {
    const COMMANDS: u64 = 20_000;
    let specs = [
        SessionSpec { operations: Some(20), ..spec("a", None) },
        SessionSpec { weight: Some(300), ..spec("b", None) },
    ];
    let root = RootSpec { caps: Caps { operations: 10, payload: u64::MAX }, ..ROOT };
    for (window, names) in [(2, ["a", "a"]), (1, ["b", "b"]), (3, ["a", "b"])] {
        let mut world = world(2, window, &specs, Vec::new());
        world.apply(&root, &specs);
        let sessions = &world.sessions;
        let doorbells = Default::default();
        let seen: u64 = std::thread::scope(|threads| {
            let arbiters = world.arbiters.drain(..).enumerate();
            let running: Vec<_> = arbiters
                .map(|(reactor, mut arbiter)| {
                    arbiter.settle(Nanos(0), usize::MAX);
                    let session = sessions.named(names[reactor]).unwrap();
                    let doorbells = &doorbells;
                    threads.spawn(move || react(reactor, arbiter, session, COMMANDS, doorbells))
                })
                .collect();
            running.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(seen, 2 * COMMANDS);
        assert_eq!(world.device.window.held(), 0);
        assert!(!world.device.clock.contended());
        for session in sessions.iter() {
            assert_eq!(session.credits.used().operations, 0, "{}", session.name());
            assert_eq!(session.backlog.waiting(), 0);
        }
    }
}
