//! Tests of the stages together, through the interface that the daemon uses: reservations under a
//! flood, and containers.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::ops::Range;
use std::sync::Arc;

use arbitration::arbiter::{Arbiter, DeviceId, Grant, HostFlowId, Pull, Submission, Waiters};
use arbitration::container::Scheduler;
use arbitration::credit::Caps;
use arbitration::device::{ContainerRules, Device, DeviceRules};
use arbitration::reservation::{Broker, Budget, Overrides, Reserved, Terms};
use arbitration::session::{HostId, Reservation, RootSpec, SessionSpec, Sessions};
use arbitration::settings::{OrderSettings, WindowRule};
use arbitration::{Class, Nanos};
use units::Calendar;

const DEVICE: DeviceId = DeviceId(0);
const MS: u64 = 1_000_000;
const START: Nanos = Nanos(1000 * MS);
const SERVICE_NS: u64 = 100_000;
const CHANNELS: usize = 4;

/// One reactor over a device that carries out four commands at a time, 100 us each.
struct Bench {
    now: Nanos,
    arbiter: Arbiter<(usize, u64)>,
    device: Arc<Device>,
    /// Flow and class of each source.
    sources: Vec<(HostFlowId, Class)>,
    channels: Vec<Nanos>,
    flying: Calendar<u64>,
    grants: std::collections::HashMap<u64, (usize, Grant)>,
    sent: u64,
    /// Times at which commands were served, by source.
    served: Vec<Vec<Nanos>>,
    order: Vec<(usize, u64)>,
}

fn sessions(names: &[&str]) -> Sessions {
    let root = RootSpec { caps: Caps::NONE, bounded: true, queue: u32::MAX };
    let spec = |name: &&str| SessionSpec { name: (*name).to_owned(), ..SessionSpec::default() };
    let specs: Vec<SessionSpec> = names.iter().map(spec).collect();
    let mut sessions = Sessions::new(&root);
    sessions.apply(Nanos(0), &root, &specs).unwrap();
    sessions
}

impl Bench {
    /// Makes a source of each named session, with a host of its own.
    fn new(
        rules: DeviceRules,
        sessions: &Sessions,
        sources: &[(&str, Class)],
        reservations: Vec<Reservation>,
    ) -> Self {
        let device = Arc::new(Device::new(rules, 1));
        device.reserve(reservations);
        let order = OrderSettings::default();
        let mut arbiter = Arbiter::new(0, &order, Arc::new(Waiters::new(1)), 64);
        arbiter.add_device(DEVICE, Arc::clone(&device));
        let flow = |(host, (name, class)): (u64, &(&str, Class))| {
            let session = sessions.named(name).unwrap();
            (arbiter.flow(DEVICE, session, HostId(host)).unwrap(), *class)
        };
        Self {
            now: START,
            sources: (0..).zip(sources).map(flow).collect(),
            arbiter,
            device,
            channels: vec![Nanos(0); CHANNELS],
            flying: Calendar::new(),
            grants: std::collections::HashMap::new(),
            sent: 0,
            served: vec![Vec::new(); sources.len()],
            order: Vec::new(),
        }
    }

    fn send_to(&mut self, source: usize, lba: u64) {
        self.sent += 1;
        let submission =
            Submission { lba, blocks: 1, ..Submission::of_host((source, self.sent), false, 4096) };
        let (flow, class) = self.sources[source];
        self.arbiter.enqueue(self.now, flow, class, submission).unwrap();
    }

    fn send(&mut self, source: usize, commands: usize) {
        (0..commands).for_each(|_| self.send_to(source, 0));
    }

    fn output(&mut self, source: usize) {
        let (flow, class) = self.sources[source];
        self.arbiter.output(self.now, flow, class);
    }

    fn dispatch(&mut self) {
        while let Pull::Command(command) = self.arbiter.pull(self.now) {
            assert_eq!(command.device, DEVICE);
            let (source, id) = command.item;
            let channel = self.channels.iter_mut().min().unwrap();
            *channel = (*channel).max(self.now).after(SERVICE_NS);
            self.flying.insert(*channel, id);
            assert!(self.grants.insert(id, (source, command.grant)).is_none(), "twice");
            self.order.push((source, id));
        }
    }

    /// Goes on to the next completion (or `end`). Returns the sources that were served.
    fn step(&mut self, end: Nanos) -> Vec<usize> {
        self.dispatch();
        let next = self.flying.next_time().unwrap_or(end);
        let timer = match self.arbiter.pull(self.now) {
            Pull::Later(at) => at,
            _ => end,
        };
        self.now = self.now.max(next.min(timer).min(end));
        let mut done = Vec::new();
        while let Some((_, id)) = self.flying.pop_due(self.now) {
            let (source, grant) = self.grants.remove(&id).unwrap();
            self.arbiter.complete(self.now, grant, true);
            self.served[source].push(self.now);
            done.push(source);
        }
        done
    }

    /// Runs until `end`. Each source from `first` on replaces its served commands.
    fn run(&mut self, end: Nanos, first: usize) {
        while self.now < end {
            for source in self.step(end) {
                self.send(source, usize::from(source >= first));
            }
        }
    }

    /// Asserts that a source had so many commands served in each of these periods since the start.
    fn assert_served(&self, source: usize, periods: Range<u64>, length: u64, least: usize) {
        for period in periods {
            let [from, to] = [period, period + 1].map(|n| START.after(n * length));
            let got = self.served[source].iter().filter(|at| **at > from && **at <= to).count();
            // A command dispatched at a period's end completes in the next.
            assert!(got + 4 >= least, "source {source}, period {period}: {got} of {least}");
        }
    }
}

/// Makes the rules of a device that carries out four commands at once.
fn four_at_once() -> DeviceRules {
    let time = Some(Nanos(SERVICE_NS));
    DeviceRules {
        window: WindowRule::Fixed(4),
        profile: Overrides { mean: time, worst: time, parallelism: Some(4), seeks: false },
        ..DeviceRules::default()
    }
}

/// Makes the terms of random reads of 4 KiB in each period, in ns.
fn terms(operations: u64, period: u64) -> Terms {
    Terms::of(Budget::Operations(operations), Nanos(period))
}

/// Reserves parts of a device that carries out four commands at once.
fn reserve(sessions: &Sessions, asked: &[(&str, Terms)]) -> Vec<Reservation> {
    let profile = Device::new(four_at_once(), 1).profile().unwrap();
    let mut already = Vec::new();
    let reservation = |(name, terms): &(&str, Terms)| {
        let admitted = Broker::admit(&profile, &already, 20, terms).unwrap();
        already.push(admitted);
        let reserved = Arc::new(Reserved::new(START, &admitted));
        Reservation { session: Arc::clone(sessions.named(name).unwrap()), reserved }
    };
    asked.iter().map(reservation).collect()
}

#[test]
fn f3_reservations_are_kept_in_every_period_while_others_flood() {
    const PERIOD: u64 = 100 * MS;
    let sessions = sessions(&["a", "b", "flood"]);
    // 4,000 commands in each period: a quarter and an eighth of them are reserved.
    let reserved = reserve(&sessions, &[("a", terms(1000, PERIOD)), ("b", terms(500, PERIOD))]);
    // The reserved ones are of the class with the least weight.
    let sources = [("a", Class::Low), ("b", Class::Low), ("flood", Class::High)];
    let mut bench = Bench::new(four_at_once(), &sessions, &sources, reserved.clone());
    for (source, depth) in [(0, 16), (1, 16), (2, 256)] {
        bench.send(source, depth);
    }
    bench.run(START.after(20 * PERIOD), 0);
    for (source, least) in [(0, 1000), (1, 500)] {
        bench.assert_served(source, 0..20, PERIOD, least);
        let (periods, kept) = reserved[source].reserved.kept();
        assert!(periods >= 19 && kept == periods, "{kept} of {periods}");
    }
    // The budgets are due bit by bit: the others are not stopped at the begin of every period.
    let longest = bench.served[2].windows(2).map(|two| two[1].ns_since(two[0])).max();
    assert!(longest < Some(5 * MS), "{longest:?} ns without a command of the flood");
    let total: usize = bench.served.iter().map(Vec::len).sum();
    assert!(total >= 79_500, "the device is kept busy: {total}");
}

/// Runs a tenant that comes with eight commands at once at the begin of every second, beside two hundred others of its
/// class, and returns the longest time in ns that one of its commands took.
fn longest_of_bursts(terms: &Terms) -> (u64, Arc<Reserved>) {
    let names: Vec<String> = (0..=200).map(|n| n.to_string()).collect();
    let sessions = sessions(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let sources: Vec<_> = names.iter().map(|name| (name.as_str(), Class::Low)).collect();
    let all = reserve(&sessions, &[("0", *terms)]);
    let reserved = Arc::clone(&all[0].reserved);
    let mut bench = Bench::new(four_at_once(), &sessions, &sources, all);
    (1..=200).for_each(|source| bench.send(source, 1));
    let mut longest = 0;
    for _ in 0..10 {
        let (from, before) = (bench.now, bench.served[0].len());
        bench.send(0, 8);
        bench.run(from.after(1000 * MS), 1);
        // An incomplete command takes longer than this.
        let took = bench.served[0].get(before + 7).map_or(1000 * MS, |at| at.ns_since(from));
        longest = longest.max(took);
    }
    (longest, reserved)
}

#[test]
fn f1_a_burst_is_complete_within_the_allowed_latency() {
    let plain = terms(20, 1000 * MS);
    let (longest, _) = longest_of_bursts(&plain);
    assert!(longest > 9 * MS, "a budget of the rate alone is due bit by bit: {longest} ns");
    let (longest, _) = longest_of_bursts(&Terms { burst: 8, ..plain });
    assert!(longest < 4 * MS, "as many as come at once are due at once: {longest} ns");
    let latency = Some(Nanos(8 * MS));
    let (longest, reserved) = longest_of_bursts(&Terms { latency, burst: 8, ..plain });
    assert!(longest < 4 * MS, "{longest} ns");
    assert_eq!(reserved.late(), (80, 0));
    let (periods, kept) = reserved.kept();
    assert!(periods >= 9 && kept == periods, "{kept} of {periods}");
}

/// Runs a tenant of a class that reserves 40 of the 80 commands that the device carries out in a
/// period. Three others flood it with Urgent from the 20th period on, and perhaps another with
/// High. Checks that the tenant gets its reservation in each of 40 periods.
fn beside_urgent(class: Class, high: bool) {
    const PERIOD: u64 = 2 * MS;
    let sessions = sessions(&["a", "b", "c", "d", "high"]);
    let reserved = reserve(&sessions, &[("a", terms(40, PERIOD))]);
    let urgent = ["b", "c", "d"].map(|name| (name, Class::Urgent));
    let sources = [&[("a", class)][..], &urgent, &[("high", Class::High)]].concat();
    let mut bench = Bench::new(four_at_once(), &sessions, &sources, reserved);
    for (from, to, sources) in [(0, 20, &[0, 4][..=usize::from(high)]), (20, 40, &[1, 2, 3][..])] {
        sources.iter().for_each(|source| bench.send(*source, 64));
        bench.run(START.after(to * PERIOD), 0);
        bench.assert_served(0, from..to, PERIOD, 40);
    }
    let urgent: usize = bench.served[1..4].iter().map(Vec::len).sum();
    assert!(urgent > 20 * 8, "Urgent has its share of what is left: {urgent}");
}

#[test]
fn f3_reservations_are_kept_beside_sudden_urgent_flood() {
    beside_urgent(Class::Low, true);
}

#[test]
fn f3_urgent_reservations_are_kept_beside_others() {
    beside_urgent(Class::Urgent, false);
}

#[test]
fn f1_a_groups_reservation_covers_the_sessions_below_it() {
    let mut sessions = sessions(&["group", "flood"]);
    let (name, parent) = ("one".to_owned(), Some("group".to_owned()));
    sessions.put(Nanos(0), &SessionSpec { name, parent, ..SessionSpec::default() }).unwrap();
    let reserved = reserve(&sessions, &[("group", terms(15_000, 1000 * MS))]);
    let sources = [("one", Class::Low), ("flood", Class::High)];
    let mut bench = Bench::new(four_at_once(), &sessions, &sources, reserved);
    (0..2).for_each(|source| bench.send(source, 64));
    bench.run(START.after(1000 * MS), 0);
    // By its class it would have a fourth of 40,000.
    assert!(bench.served[0].len() >= 14_900, "{}", bench.served[0].len());
}

#[test]
fn e5_urgent_keeps_its_latency_under_a_flood() {
    // A drive that carries out 64 commands at a time; the window holds no more.
    let rules = DeviceRules { window: WindowRule::Fixed(64), ..DeviceRules::default() };
    let sources = Class::ALL.map(|class| ("root", class));
    let mut bench = Bench::new(rules, &sessions(&[]), &sources, Vec::new());
    bench.channels = vec![Nanos(0); 64];
    let mut random = fastrand::Rng::with_seed(99);
    for source in 1..4 {
        for _ in 0..1000 {
            // Channels become free at different moments, as those of drives do.
            bench.channels[random.usize(..64)] = START.after(random.u64(..1 << 17));
            bench.send(source, 1);
        }
    }
    let end = START.after(1000 * MS);
    let (mut next, mut sent, mut latencies) = (START, Nanos(0), Vec::new());
    let mut before = Vec::new();
    while bench.now < end {
        if bench.now >= next {
            sent = bench.now;
            bench.send(0, 1);
            before.push(bench.order.len());
            next = Nanos::MAX;
        }
        for source in bench.step(end) {
            if source > 0 {
                bench.send(source, 1);
            } else {
                latencies.push(bench.now.ns_since(sent));
                next = bench.now.after(37_000);
            }
        }
    }
    for place in before {
        // None where the time was over.
        let first = bench.order.get(place).map_or(0, |(source, _)| *source);
        assert_eq!(first, 0, "nothing goes between an Urgent command's arrival and itself");
    }
    latencies.sort_unstable();
    let p99 = latencies[latencies.len() * 99 / 100];
    assert!(latencies.len() > 5000, "{}", latencies.len());
    assert!(p99 * 10 <= SERVICE_NS * 11, "p99 {p99} ns under load, {SERVICE_NS} ns alone");
}

/// Makes the rules of a device that carries out one command at a time, in the order of containers.
fn by_place(capacity: usize, deadline_ns: u64) -> DeviceRules {
    let containers = ContainerRules { scheduler: Scheduler::Containers, capacity, deadline_ns };
    let (window, containers) = (WindowRule::Fixed(1), Some(containers));
    DeviceRules { window, containers, ..DeviceRules::default() }
}

/// The time at which a user sees an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outputs {
    Never,
    /// When the last command of the container is complete.
    After,
    /// While the last command of the container waits in its queue.
    Behind,
}

/// Returns the time in ns that a High command with a deadline of 100 ms waits far from the disk's
/// head, which has enough to do where it is; after ten containers of nine commands, each ended by
/// an output or not.
fn wait_of_a_container(outputs: Outputs) -> u64 {
    let sources = [("root", Class::High), ("root", Class::Low)];
    let mut bench = Bench::new(by_place(16, 100 * MS), &sessions(&[]), &sources, Vec::new());
    for round in 0..90 {
        bench.send_to(0, 1 << 40);
        if outputs == Outputs::Behind && round % 9 == 8 {
            bench.output(0);
        }
        bench.step(bench.now);
        bench.step(bench.now.after(SERVICE_NS));
        bench.now = bench.now.after(100 * MS);
        if outputs == Outputs::After && round % 9 == 8 {
            bench.output(0);
        }
    }
    let (sent, served, mut place) = (bench.now, bench.served[0].len(), 0);
    let mut near = |bench: &mut Bench| {
        place += 8;
        bench.send_to(1, place);
    };
    (0..4).for_each(|_| near(&mut bench));
    bench.step(bench.now);
    bench.send_to(0, 1 << 40);
    while bench.served[0].len() == served && bench.now < sent.after(2000 * MS) {
        for source in bench.step(sent.after(2000 * MS)) {
            if source == 1 {
                near(&mut bench);
            }
        }
    }
    bench.now.ns_since(sent)
}

#[test]
fn i2_outputs_postpone_containers() {
    let ms = |ns: u64| ns / 1_000_000;
    let without = wait_of_a_container(Outputs::Never);
    assert!((90..100).contains(&ms(without)), "{without} ns, of a deadline of 100 ms");
    let with = wait_of_a_container(Outputs::After);
    // Two thirds of a container have six deadlines' time.
    assert!((500..=601).contains(&ms(with)), "{with} ns, of six deadlines of 100 ms");
    // One of the container was served after its output, and belongs to the next.
    let behind = wait_of_a_container(Outputs::Behind);
    assert!((300..=601).contains(&ms(behind)), "{behind} ns");
}

#[test]
fn i3_containers_lose_nothing_and_end_at_outputs() {
    let sessions = sessions(&["a", "b"]);
    let sources = [("a", Class::Low), ("b", Class::Low)];
    let mut bench = Bench::new(by_place(32, 20 * MS), &sessions, &sources, Vec::new());
    let mut random = fastrand::Rng::with_seed(12_345);
    for round in 0..500 {
        let source = round % 2;
        bench.send_to(source, random.u64(..1 << 24) + source as u64 * (1 << 30));
        if round % 10 == 9 {
            bench.output(source);
        }
    }
    let end = bench.now.after(10_000_000_000);
    while bench.arbiter.waiting() > 0 || !bench.flying.is_empty() {
        bench.step(end);
    }
    assert_eq!(bench.order.len(), 500, "all are served, each once");
    let changes = bench.order.windows(2).filter(|pair| pair[0].0 != pair[1].0).count();
    assert!(changes < 150, "the head stays with a stream for a while: {changes} changes");
    assert!(bench.device.window.in_use() < 1e-9);
    for (flow, _) in bench.sources {
        bench.arbiter.release(flow);
    }
    assert!(bench.arbiter.retire_device(bench.now, DEVICE, 0, &mut Vec::new()));
}
