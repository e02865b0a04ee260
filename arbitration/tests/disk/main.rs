//! Reservations on devices that seek, by the interface that the daemon uses (docs/research/sources.md, F3:
//! reservations are kept): under any load of others, and in any order of the device itself.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod latency;

use std::sync::Arc;

use arbitration::arbiter::{Arbiter, DeviceId, Grant, HostFlowId, Pull, Submission, Waiters};
use arbitration::container::Scheduler;
use arbitration::credit::Caps;
use arbitration::device::{ContainerRules, Device, DeviceRules};
use arbitration::reservation::{Admitted, Broker, Budget, Overrides, Profile, Reserved, Terms};
use arbitration::session::{HostId, Reservation, RootSpec, SessionSpec, Sessions};
use arbitration::settings::{OrderSettings, WindowRule};
use arbitration::{Class, Nanos};
use proptest::prelude::*;

const DEVICE: DeviceId = DeviceId(0);
const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const MET: u64 = 8 * MS;
const WCET: u64 = 20 * MS;
const START: Nanos = Nanos(SECOND);
const BLOCKS: u64 = 1 << 20;

/// The behaviour of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conduct {
    /// The source always has commands, which take the time that it said.
    KeepsContract,
    /// The source always has commands, which take the worst time each.
    AlwaysWorst,
    /// The source now and then has many commands of the worst time.
    Bursts,
    /// The source always has commands, anywhere on the disk: they take the time that the head
    /// needs.
    Random,
    /// It sends commands at its announced rate and burst, at their announced cost.
    Paced,
}

/// A host with its commands.
struct Source {
    class: Class,
    depth: usize,
    conduct: Conduct,
    /// Commands after which the source says that its user has seen an output; 0: never.
    output: u64,
    reserved: Option<(Admitted, Arc<Reserved>)>,
    flows: Vec<HostFlowId>,
    outstanding: usize,
    sent: u64,
    /// Commands that were complete in each period of the source's reservation, or in each second.
    done: Vec<u64>,
    /// Commands that it may send at its rate, in parts of its rate's period, and since when.
    tokens: (u64, Nanos),
    /// The longest time that a command took, in ns.
    longest: u64,
}

impl Source {
    fn new(class: Class, depth: usize, conduct: Conduct) -> Self {
        Self {
            class,
            depth,
            conduct,
            output: 0,
            reserved: None,
            flows: Vec::new(),
            outstanding: 0,
            sent: 0,
            done: vec![0],
            tokens: (0, START),
            longest: 0,
        }
    }

    fn period(&self, now: Nanos) -> usize {
        let length = self.reserved.as_ref().map_or(SECOND, |(a, _)| a.translation.period.0);
        usize::try_from(now.ns_since(START) / length).unwrap()
    }

    fn note(&mut self, done: Nanos) {
        // A completion at the very end of a period does not count in the next one, either.
        let at = self.period(done);
        self.done.resize(self.done.len().max(at + 1), 0);
        self.done[at] += 1;
    }

    /// Computes the time in ns that the source's next command takes when it comes to the head in
    /// the present period: as long as may be.
    fn takes(&self, now: Nanos) -> u64 {
        let Some((admitted, _)) = self.reserved.as_ref() else { return WCET };
        if !matches!(self.conduct, Conduct::KeepsContract | Conduct::Paced) {
            return WCET;
        }
        // Two worst times more than (n-1)*MET hold three commands of 20 instead of 8 ms.
        let nth = self.done.get(self.period(now)).copied().unwrap_or(0);
        let last = nth + 1 == admitted.translation.operations;
        if nth < 3 || last { WCET } else { MET }
    }

    fn wanted(&mut self, now: Nanos, random: &mut impl FnMut(u64) -> u64) -> usize {
        if self.conduct == Conduct::Paced {
            return self.wanted_at_rate(now, random);
        }
        match self.conduct {
            Conduct::Bursts if random(40) == 0 => self.depth,
            Conduct::Bursts => 0,
            _ => self.depth.saturating_sub(self.outstanding),
        }
    }
}

/// The order in which the disk itself serves the commands that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Firmware {
    First,
    Last,
    Nearest,
}

struct InDisk {
    source: usize,
    lba: u64,
    sent: Nanos,
    reactor: usize,
    grant: Grant,
}

/// A disk with reactors before it.
struct Bench {
    now: Nanos,
    arbiters: Vec<Arbiter<(usize, u64, Nanos)>>,
    firmware: Firmware,
    held: Vec<InDisk>,
    head: u64,
    idle: u64,
    sources: Vec<Source>,
}

fn disk() -> Overrides {
    let (mean, worst) = (Some(Nanos(MET)), Some(Nanos(WCET)));
    Overrides { mean, worst, parallelism: Some(1), seeks: true }
}

fn profile() -> Profile {
    Device::new(DeviceRules { profile: disk(), ..DeviceRules::default() }, 1).profile().unwrap()
}

fn terms(operations: u64, period: u64) -> Terms {
    Terms::of(Budget::Operations(operations), Nanos(period))
}

fn containers() -> Option<ContainerRules> {
    let (scheduler, capacity, deadline_ns) = (Scheduler::Containers, 64, 20 * MS);
    Some(ContainerRules { scheduler, capacity, deadline_ns })
}

impl Bench {
    fn new(rules: DeviceRules, reactors: usize, firmware: Firmware, sources: Vec<Source>) -> Self {
        let root = RootSpec { caps: Caps::NONE, bounded: true, queue: u32::MAX };
        let named = |n: usize| SessionSpec { name: n.to_string(), ..SessionSpec::default() };
        let specs: Vec<SessionSpec> = (0..sources.len()).map(named).collect();
        let mut sessions = Sessions::new(&root);
        sessions.apply(Nanos(0), &root, &specs).unwrap();
        let device = Arc::new(Device::new(rules, reactors));
        let session = |n: usize| Arc::clone(sessions.named(&n.to_string()).unwrap());
        let reservations = sources.iter().enumerate().filter_map(|(n, source)| {
            let (_, reserved) = source.reserved.as_ref()?;
            Some(Reservation { session: session(n), reserved: Arc::clone(reserved) })
        });
        device.reserve(reservations.collect());
        let waiters = Arc::new(Waiters::new(reactors));
        let order = OrderSettings::default();
        let arbiter = |n| {
            let mut arbiter =
                Arbiter::new(u32::try_from(n).unwrap(), &order, Arc::clone(&waiters), 1024);
            arbiter.add_device(DEVICE, Arc::clone(&device));
            arbiter
        };
        let mut arbiters: Vec<_> = (0..reactors).map(arbiter).collect();
        let mut sources = sources;
        for (n, source) in sources.iter_mut().enumerate() {
            let flow = |arbiter: &mut Arbiter<_>| {
                arbiter.flow(DEVICE, &session(n), HostId(n as u64)).unwrap()
            };
            source.flows = arbiters.iter_mut().map(flow).collect();
        }
        let (now, held) = (START, Vec::new());
        Self { now, arbiters, firmware, held, head: 0, idle: 0, sources }
    }

    fn send(&mut self, n: usize, lba: u64) {
        let source = &mut self.sources[n];
        (source.sent, source.outstanding) = (source.sent + 1, source.outstanding + 1);
        let at = usize::try_from(source.sent).unwrap() % self.arbiters.len();
        let submission =
            Submission { lba, blocks: 8, ..Submission::of_host((n, lba, self.now), false, 4096) };
        let (arbiter, flow) = (&mut self.arbiters[at], source.flows[at]);
        match arbiter.pass(self.now, flow, &submission) {
            Some(grant) => {
                self.held.push(InDisk { source: n, lba, sent: self.now, reactor: at, grant });
            }
            None => {
                arbiter.enqueue(self.now, flow, source.class, submission).unwrap();
            }
        }
        if source.output != 0 && source.sent.is_multiple_of(source.output) {
            arbiter.output(self.now, flow, source.class);
        }
    }

    /// Lets all reactors go on until none has anything to do.
    fn pull(&mut self) {
        let (mut quiet, mut rounds) = (0, 0);
        while quiet < self.arbiters.len() {
            quiet += 1;
            rounds += 1;
            assert!(rounds < 10_000, "reactors wake each other without end");
            for reactor in 0..self.arbiters.len() {
                loop {
                    match self.arbiters[reactor].pull_before_sleep(self.now) {
                        Pull::Command(command) => {
                            let ((source, lba, sent), grant) = (command.item, command.grant);
                            self.held.push(InDisk { source, lba, sent, reactor, grant });
                            quiet = 0;
                        }
                        Pull::Wake(_) => quiet = 0,
                        _ => break,
                    }
                }
            }
        }
    }

    /// Serves one command of the disk.
    fn serve(&mut self) {
        let next = match self.firmware {
            Firmware::First => (!self.held.is_empty()).then_some(0),
            Firmware::Last => self.held.len().checked_sub(1),
            Firmware::Nearest => {
                let distance = |at: &usize| self.held[*at].lba.abs_diff(self.head);
                (0..self.held.len()).min_by_key(distance)
            }
        };
        let Some(next) = next else {
            (self.now, self.idle) = (self.now.after(MS), self.idle + MS);
            return;
        };
        let InDisk { source, lba, sent, reactor, grant } = self.held.remove(next);
        let takes = match self.sources[source].conduct {
            // Half a turn, and a seek: a third of all of the disk on average. So a second's
            // commands take MET or less each, however they are scattered.
            Conduct::Random => 4 * MS + (9 * MS * lba.abs_diff(self.head)).div_ceil(BLOCKS),
            _ => self.sources[source].takes(self.now),
        };
        self.head = lba;
        self.now = self.now.after(takes);
        self.arbiters[reactor].complete(self.now, grant, true);
        let source = &mut self.sources[source];
        source.outstanding -= 1;
        source.longest = source.longest.max(self.now.ns_since(sent));
        source.note(Nanos(self.now.0 - 1));
    }

    fn run(&mut self, length: u64, mut random: impl FnMut(u64) -> u64) {
        while self.now.ns_since(START) < length {
            for n in 0..self.sources.len() {
                for _ in 0..self.sources[n].wanted(self.now, &mut random) {
                    self.send(n, random(BLOCKS));
                }
            }
            self.pull();
            self.serve();
        }
    }
}

fn chance(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed);
    move |bound| random.u64(..bound)
}

fn reserve(source: &mut Source, already: &mut Vec<Admitted>, terms: &Terms) -> bool {
    let Ok(admitted) = Broker::admit(&profile(), already, 20, terms) else { return false };
    already.push(admitted);
    source.reserved = Some((admitted, Arc::new(Reserved::new(START, &admitted).in_set(true))));
    true
}

/// Checks that a source got its reservation in every period, and that `kept` reports so.
fn check(bench: &Bench, n: usize) {
    let source = &bench.sources[n];
    let (admitted, reserved) = source.reserved.as_ref().unwrap();
    let periods = source.period(bench.now);
    let least = admitted.translation.operations;
    let is_kept = |at: usize| source.done.get(at).is_some_and(|done| *done >= least);
    assert!(periods > 0 && (0..periods).all(is_kept), "{periods} periods: {:?}", source.done);
    let _ = reserved.due(bench.now);
    assert_eq!(reserved.kept(), (periods as u64, periods as u64));
}

/// Makes the rules of the disk.
fn rules(window: WindowRule, containers: Option<ContainerRules>) -> DeviceRules {
    DeviceRules { window, containers, profile: disk() }
}

/// Runs a tenant that reserves 40 commands a second beside a flood, on a disk with a head. The flood has a class, a depth
/// and a number of commands after which there is an output.
fn beside(rules: DeviceRules, (class, flood, output): (Class, usize, u64), tenant: Class) {
    for (firmware, depth) in [(Firmware::First, 4), (Firmware::Last, 16), (Firmware::Nearest, 1)] {
        for reactors in [1, 2] {
            let mut source = Source::new(tenant, depth, Conduct::Random);
            assert!(reserve(&mut source, &mut Vec::new(), &terms(40, SECOND)));
            let flood = Source { output, ..Source::new(class, flood, Conduct::Random) };
            let mut bench = Bench::new(rules, reactors, firmware, vec![source, flood]);
            bench.run(20 * SECOND, chance(7));
            check(&bench, 0);
            assert_eq!(bench.idle, 0, "the disk is kept busy");
            let rest: u64 = bench.sources[1].done.iter().sum();
            assert!(rest > 20 * 20, "the flood has what is left: {rest}");
        }
    }
}

#[test]
fn f3_overdue_unreserved_commands_go_by_place() {
    let mut reserves = Source::new(Class::Medium, 0, Conduct::Random);
    assert!(reserve(&mut reserves, &mut Vec::new(), &terms(10, SECOND)));
    let others = Source::new(Class::Medium, 0, Conduct::Random);
    let rules = rules(WindowRule::Fixed(1), containers());
    let mut bench = Bench::new(rules, 1, Firmware::First, vec![reserves, others]);
    let places = [0, 8, 3, 6, 1, 7, 2, 5, 4].map(|at| at * BLOCKS / 10);
    for place in places {
        bench.send(1, place);
    }
    bench.now = bench.now.after(60 * SECOND);
    let mut order = Vec::new();
    while bench.sources[1].outstanding > 0 {
        bench.pull();
        order.extend(bench.held.iter().map(|held| held.lba));
        bench.serve();
    }
    assert!(order.is_sorted() && order.len() == places.len(), "{order:?}");
}

#[test]
fn f3_forty_iops_of_disk_are_kept_under_any_flood() {
    for order in [None, containers()] {
        for window in [WindowRule::Fixed(1), WindowRule::Fixed(32), WindowRule::Off] {
            for flood in [(Class::High, 256, 0), (Class::Urgent, 64, 0), (Class::Low, 32, 8)] {
                beside(rules(window, order), flood, Class::Low);
            }
        }
    }
    let flood = (Class::Medium, 128, 1);
    beside(rules(WindowRule::Fixed(8), containers()), flood, Class::Urgent);
    beside(rules(WindowRule::Fixed(8), None), flood, Class::High);
}

#[test]
fn f3_rest_gets_idle_disk() {
    let rules = rules(WindowRule::default(), containers());
    let mut silent = Source::new(Class::High, 0, Conduct::Random);
    assert!(reserve(&mut silent, &mut Vec::new(), &terms(40, SECOND)));
    let rest = Source::new(Class::Low, 64, Conduct::AlwaysWorst);
    let mut bench = Bench::new(rules, 1, Firmware::First, vec![silent, rest]);
    bench.run(10 * SECOND, chance(3));
    assert_eq!((bench.idle, bench.sources[1].done.iter().sum::<u64>()), (0, 500));
}

fn conduct() -> impl Strategy<Value = Conduct> {
    prop_oneof![
        2 => Just(Conduct::KeepsContract),
        1 => Just(Conduct::AlwaysWorst),
        1 => Just(Conduct::Bursts),
    ]
}

fn class() -> impl Strategy<Value = Class> {
    prop::sample::select(Class::ALL.to_vec())
}

/// A disk, and the reactors that share it.
#[derive(Clone, Copy, Debug)]
struct Setup {
    window: u32,
    by_place: bool,
    reactors: usize,
    firmware: Firmware,
    /// Random seed.
    seed: u64,
}

fn setup() -> impl Strategy<Value = Setup> {
    let window = prop::sample::select(vec![1, 4, 32, 256_u32]);
    let orders = vec![Firmware::First, Firmware::Last, Firmware::Nearest];
    (window, any::<bool>(), 1..4_usize, prop::sample::select(orders), any::<u64>()).prop_map(
        |(window, by_place, reactors, firmware, seed)| Setup {
            window,
            by_place,
            reactors,
            firmware,
            seed,
        },
    )
}

impl Setup {
    /// Runs sources for 30 seconds.
    fn run(self, sources: Vec<Source>) -> Bench {
        let order = containers().filter(|_| self.by_place);
        let rules = rules(WindowRule::Fixed(self.window), order);
        let mut bench = Bench::new(rules, self.reactors, self.firmware, sources);
        bench.run(30 * SECOND, chance(self.seed));
        bench
    }
}

/// A tenant: operations in a period, the period in tenths of a second, class and conduct.
type Tenant = (u64, u64, Class, Conduct);

fn tenant() -> impl Strategy<Value = Tenant> {
    (1..40_u64, 2..40_u64, class(), conduct())
}

/// Returns the sources of the tenants that the broker admits, beside existing ones.
fn admitted(tenants: Vec<Tenant>, already: &mut Vec<Admitted>) -> Vec<Source> {
    let source = |(operations, tenths, class, conduct)| {
        let mut source = Source::new(class, 64, conduct);
        reserve(&mut source, already, &terms(operations, tenths * 100 * MS)).then_some(source)
    };
    tenants.into_iter().filter_map(source).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Every admitted reservation is kept for each tenant that keeps its own contract, under any
    /// load of others and in any order in which the disk serves its commands. The disk is never
    /// idle while a command waits.
    #[test]
    fn f3_an_admitted_set_is_schedulable_and_streams_are_isolated(
        tenants in prop::collection::vec(tenant(), 1..8),
        flood in (class(), 1..200_usize, 0..20_u64),
        setup in setup(),
    ) {
        let mut sources = admitted(tenants, &mut Vec::new());
        let (class, depth, output) = flood;
        sources.push(Source { output, ..Source::new(class, depth, Conduct::AlwaysWorst) });
        let bench = setup.run(sources);
        prop_assert_eq!(bench.idle, 0);
        for (n, source) in bench.sources.iter().enumerate() {
            if source.reserved.is_some() && source.conduct == Conduct::KeepsContract {
                check(&bench, n);
            }
        }
    }
}
