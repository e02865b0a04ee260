//! Arbitrary interleavings of processes and an agent that may be killed at any step, with a model.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, MutexGuard};

use proptest::prelude::*;

use super::*;
use crate::layout::Phase;
use crate::steps::outside;
use crate::tally::Amount;

const HOSTS: usize = 3;
/// Spots that a process uses.
const QUEUED: u32 = 2;
/// Number of a model's event.
type Event = usize;

#[derive(Clone, Debug)]
enum Deed {
    Take(Cost),
    Give(prop::sample::Index),
    Enqueue(u32, Cost),
    Poll(u32),
    Leave(u32),
}

#[derive(Clone, Debug)]
enum Order {
    Allow(Caps),
    Extend(u64),
    Close,
    Reclaim,
}

#[derive(Clone, Debug)]
enum Turn {
    Host(usize, usize),
    Agent(usize),
    Kill(usize),
    KillAgent,
    Pass(u64),
}

#[derive(Clone, Debug)]
struct Queued {
    cost: Cost,
    began: Event,
    /// When the process knew that it is in the queue.
    entered: Option<Event>,
}

#[derive(Debug, Default)]
struct Model {
    events: Event,
    /// Credits of each process, dead or alive.
    held: [Vec<Cost>; HOSTS],
    queued: BTreeMap<(usize, u32), Queued>,
    /// Allowances, with the event from which on they cannot apply any more.
    allowed: Vec<(Event, Caps)>,
    /// The last event at which the allowance might not have been enforced.
    loose: Option<Event>,
    is_dead: [bool; HOSTS],
}

impl Model {
    fn event(&mut self) -> Event {
        self.events += 1;
        self.events
    }

    fn sum(&self) -> Amount {
        self.held.iter().flatten().fold(Amount::default(), |sum, cost| sum.with(*cost))
    }

    /// The largest allowance that may have applied since an event.
    fn largest(&self, since: Event) -> Caps {
        let caps = self.allowed.iter().filter(|(end, _)| *end >= since).map(|(_, caps)| *caps);
        caps.reduce(|a, b| Caps {
            operations: a.operations.max(b.operations),
            payload: a.payload.max(b.payload),
        })
        .unwrap()
    }
}

struct World {
    shared: Box<Shared>,
    now: AtomicU64,
    model: Mutex<Model>,
}

impl World {
    fn new(caps: Caps) -> Self {
        let model = Mutex::new(Model { allowed: vec![(Event::MAX, caps)], ..Model::default() });
        let shared = segment(caps.operations, caps.payload, HOSTS);
        Self { shared, now: AtomicU64::new(START.0), model }
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap()
    }

    fn now(&self) -> Nanos {
        Nanos(self.now.load(SeqCst))
    }

    fn is_enforced(&self) -> bool {
        outside(|| self.shared.header.is_enforced(self.now()))
    }

    fn note_loose(&self) {
        let is_enforced = self.is_enforced();
        let mut model = self.model();
        let event = model.event();
        if !is_enforced {
            model.loose = Some(event);
        }
    }

    fn is_queued(&self, host: usize, spot: u32) -> bool {
        let state = outside(|| self.shared.spot(seat(host), number(spot)).unwrap().1.state());
        matches!(state.phase(), Phase::Waiting | Phase::Trial)
    }

    /// Checks credits that a process has got by an operation that began at `since`. Spots that were
    /// in the queue `before` have priority.
    fn granted(&self, host: usize, cost: Cost, since: Event, before: Event) {
        self.note_loose();
        let mut model = self.model();
        model.held[host].push(cost);
        if model.loose.is_some_and(|loose| loose >= since) {
            return;
        }
        let (sum, caps) = (model.sum(), model.largest(since));
        let is_alone = model.held.iter().flatten().count() == 1;
        let operations = u64::from(caps.operations.max(1));
        let fits = sum.operations <= operations && sum.payload <= caps.payload;
        assert!(fits || is_alone, "{sum:?} of {caps:?}: {:?}", model.held);
        for ((other, spot), queued) in &model.queued {
            let is_before = queued.entered.is_some_and(|entered| entered < before);
            assert!(
                !is_before || !self.is_queued(*other, *spot),
                "{host} got credits before {other}: {queued:?}"
            );
        }
    }

    fn act(&self, host: usize, deed: &Deed) {
        let shared = &self.shared;
        let own = seat(host);
        let began = self.model().event();
        match *deed {
            Deed::Take(cost) => {
                if shared.take(own, cost, self.now()) {
                    self.granted(host, cost, began, began);
                }
            }
            Deed::Give(index) => {
                let given = {
                    let held = &mut self.model().held[host];
                    (!held.is_empty()).then(|| held.swap_remove(index.index(held.len())))
                };
                if let Some(cost) = given {
                    shared.give(own, cost);
                }
            }
            Deed::Enqueue(spot, cost) => {
                let queued = Queued { cost, began, entered: None };
                if self.model().queued.contains_key(&(host, spot)) {
                    return;
                }
                self.model().queued.insert((host, spot), queued);
                shared.enqueue(own, number(spot), cost);
                let mut model = self.model();
                let entered = model.event();
                model.queued.get_mut(&(host, spot)).unwrap().entered = Some(entered);
            }
            Deed::Poll(spot) => {
                let Some(queued) = self.model().queued.get(&(host, spot)).cloned() else { return };
                if shared.settle(own, number(spot), queued.cost, self.now()) {
                    self.model().queued.remove(&(host, spot));
                    self.granted(host, queued.cost, queued.began, queued.began);
                }
            }
            Deed::Leave(spot) => {
                if self.model().queued.remove(&(host, spot)).is_some() {
                    shared.leave(own, number(spot));
                }
            }
        }
    }

    fn order(&self, order: &Order) {
        self.note_loose();
        let header = &self.shared.header;
        match *order {
            Order::Allow(caps) => {
                self.model().allowed.push((Event::MAX, caps));
                header.set_caps(caps);
                let mut model = self.model();
                let event = model.event();
                for (end, _) in model.allowed.iter_mut().rev().skip(1) {
                    *end = event.min(*end);
                }
                drop(model);
                self.shared.dispatch();
            }
            Order::Extend(ns) => header.extend(self.now(), Duration::from_nanos(ns)),
            Order::Close => header.closed.store(1),
            Order::Reclaim => {
                for host in 0..HOSTS {
                    if self.model().is_dead[host] {
                        self.reclaim(host);
                    }
                }
                self.shared.dispatch();
            }
        }
        self.note_loose();
    }

    fn reclaim(&self, host: usize) {
        {
            let mut model = self.model();
            model.held[host].clear();
            model.queued.retain(|(other, _), _| *other != host);
        }
        self.shared.reclaim(seat(host));
    }

    /// Checks a segment that nobody works on.
    fn at_rest(&self) {
        let tally = self.shared.tally();
        let model = self.model();
        let spots = model.queued.iter().filter(|((host, spot), _)| !self.is_queued(*host, *spot));
        let ready = spots.fold(model.sum(), |sum, (_, queued)| sum.with(queued.cost));
        assert_eq!(tally.held, ready, "{model:?}");
        if let Some(first) = tally.first {
            let caps = model.allowed.last().unwrap().1;
            let sum = tally.held.with(first.cost);
            let fits =
                sum.operations <= caps.operations.max(1).into() && sum.payload <= caps.payload;
            assert!(!fits, "{:?} waits beside {:?} of {caps:?}", first.cost, tally.held);
            assert!(tally.held != Amount::default(), "a command waits that would be alone");
        }
    }
}

fn costs() -> impl Strategy<Value = Cost> {
    (1..4_u32, 0..5_u32).prop_map(|(operations, payload)| cost(operations, payload))
}

fn caps() -> impl Strategy<Value = Caps> {
    (0..5_u32, 0..8_u64).prop_map(|(operations, payload)| Caps { operations, payload })
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => costs().prop_map(Deed::Take),
        3 => any::<prop::sample::Index>().prop_map(Deed::Give),
        3 => (0..QUEUED, costs()).prop_map(|(spot, cost)| Deed::Enqueue(spot, cost)),
        4 => (0..QUEUED).prop_map(Deed::Poll),
        1 => (0..QUEUED).prop_map(Deed::Leave),
    ]
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![
        4 => caps().prop_map(Order::Allow),
        1 => prop_oneof![Just(0), Just(500), Just(1_000_000)].prop_map(Order::Extend),
        1 => prop::bool::weighted(0.05).prop_map(|close| {
            if close { Order::Close } else { Order::Extend(1_000_000) }
        }),
        3 => Just(Order::Reclaim),
    ]
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        30 => (0..HOSTS, 1..25_usize).prop_map(|(host, steps)| Turn::Host(host, steps)),
        6 => (1..25_usize).prop_map(Turn::Agent),
        1 => (0..HOSTS).prop_map(Turn::Kill),
        1 => Just(Turn::KillAgent),
        1 => prop_oneof![9 => Just(100), 1 => Just(600_000)].prop_map(Turn::Pass),
    ]
}

fn scenario(
    caps: Caps,
    deeds: Vec<Vec<Deed>>,
    orders: Vec<Order>,
    turns: Vec<Turn>,
) -> (Arc<World>, bool) {
    let world = Arc::new(World::new(caps));
    let mut hosts: Vec<Actor> = deeds
        .into_iter()
        .enumerate()
        .map(|(host, deeds)| {
            let world = world.clone();
            Actor::new(move || deeds.iter().for_each(|deed| world.act(host, deed)))
        })
        .collect();
    let theirs = world.clone();
    let mut agent = Actor::new(move || orders.iter().for_each(|order| theirs.order(order)));
    for turn in turns {
        match turn {
            Turn::Host(host, steps) => {
                hosts[host].run(steps);
            }
            Turn::Agent(steps) => {
                agent.run(steps);
            }
            Turn::Kill(host) => {
                hosts[host].kill();
                world.model().is_dead[host] = hosts[host].was_killed;
            }
            Turn::KillAgent => agent.kill(),
            Turn::Pass(ns) => {
                world.now.fetch_add(ns, SeqCst);
                world.note_loose();
            }
        }
    }
    for actor in hosts.iter_mut().chain([&mut agent]) {
        while actor.run(1_000) {}
    }
    let was_killed = hosts.iter().chain([&agent]).any(|actor| actor.was_killed);
    (world, was_killed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 2))]
    #[test]
    fn d6_interleaved_and_killed_processes_keep_within_the_allowance(
        caps in caps(),
        deeds in proptest::collection::vec(proptest::collection::vec(deed(), 0..8), HOSTS),
        orders in proptest::collection::vec(order(), 0..6),
        turns in proptest::collection::vec(turn(), 0..120),
    ) {
        let (world, was_killed) = scenario(caps, deeds, orders, turns);
        if was_killed {
            // Another agent, since this one may be dead.
            world.order(&Order::Allow(caps));
            world.order(&Order::Reclaim);
        }
        world.at_rest();
        // All waiters that live are released by the expiry, and return all credits.
        world.now.fetch_add(10_000_000, SeqCst);
        for host in 0..HOSTS {
            for spot in 0..QUEUED {
                world.act(host, &Deed::Poll(spot));
            }
        }
        assert!(world.model().queued.is_empty());
        let held = std::mem::take(&mut world.model().held);
        for (host, costs) in held.iter().enumerate() {
            costs.iter().for_each(|cost| world.shared.give(seat(host), *cost));
        }
        assert_free(&world.shared);
    }
}
