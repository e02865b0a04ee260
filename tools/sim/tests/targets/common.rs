//! Loads, devices and plans that the tests of whole models share.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "helpers of tests fail as tests do"
)]

use std::time::Duration;

use arbitration::device::DeviceRules;
use arbitration::reservation::Overrides;
use arbitration::settings::WindowRule;
use sluice_sim::device::{Device, Request};
use sluice_sim::load::{Access, Arrival, Source};
use sluice_sim::model::{
    DevicePlan, HostPlan, LoadMeasured, LoadPlan, Measured, Model, NamespacePlan, Plan, QosPlan,
    StagePlan, TargetPlan, Transport,
};
use sluice_sim::network::{Control, Dumbbell, Link, Packets, Sender, Switch};
use units::{Calendar, Class, Nanos};

pub(crate) const GIGABIT: u64 = 1_000_000_000;
/// What all sockets have.
pub(crate) const DCTCP: Sender = Sender::Window { control: Control::Dctcp };

/// Wants the same again and again: as many at a time.
#[derive(Debug)]
pub(crate) struct Closed {
    write: bool,
    length: u32,
    left: u32,
    turn: u64,
    most: u64,
}

impl Closed {
    pub(crate) fn new(write: bool, length: u32, depth: u32) -> Box<Self> {
        Self::so_often(write, length, depth, u64::MAX)
    }

    /// Makes a source that wants no more than so many accesses.
    pub(crate) fn so_often(write: bool, length: u32, depth: u32, most: u64) -> Box<Self> {
        Box::new(Self { write, length, left: depth, turn: 0, most })
    }
}

impl Source for Closed {
    fn next(&mut self, now: Nanos) -> Arrival {
        if self.turn == self.most {
            return Arrival::Never;
        }
        self.turn += 1;
        let offset = self.turn % 1000 * u64::from(self.length);
        let access = Access { write: self.write, offset, length: self.length };
        if self.left == 0 {
            return Arrival::WhenOneEnds(access);
        }
        self.left -= 1;
        Arrival::At(now, access)
    }
}

/// Wants the same at equal distances in time.
#[derive(Debug)]
pub(crate) struct Steady {
    write: bool,
    length: u32,
    every_ns: f64,
    at: Option<f64>,
}

impl Steady {
    /// Makes a source of so many bits of data a second.
    pub(crate) fn new(write: bool, length: u32, bits: f64) -> Box<Self> {
        Box::new(Self { write, length, every_ns: f64::from(length) * 8e9 / bits, at: None })
    }
}

impl Source for Steady {
    fn next(&mut self, now: Nanos) -> Arrival {
        let at = self.at.map_or(now.0 as f64, |at| at + self.every_ns);
        self.at = Some(at);
        let access = Access { write: self.write, offset: 0, length: self.length };
        Arrival::At(Nanos(at as u64), access)
    }
}

/// A device that carries out so many requests at a time, in the order in which they come, each in
/// the same time and a time for each of its bytes.
#[derive(Debug)]
pub(crate) struct Servers {
    free_at: Vec<Nanos>,
    service_ns: u64,
    byte_ns: f64,
    ends: Calendar<u64>,
}

impl Servers {
    pub(crate) fn new(channels: usize, service_ns: u64, byte_ns: f64) -> Box<Self> {
        let free_at = vec![Nanos(0); channels];
        Box::new(Self { free_at, service_ns, byte_ns, ends: Calendar::new() })
    }
}

impl Device for Servers {
    fn submit(&mut self, now: Nanos, request: Request) {
        let takes = self.service_ns + (request.length as f64 * self.byte_ns) as u64;
        let free = self.free_at.iter_mut().min().expect("a channel");
        *free = Nanos((*free).max(now).0 + takes);
        self.ends.insert(*free, request.id);
    }

    fn next(&self) -> Option<Nanos> {
        self.ends.next_time()
    }

    fn advance(&mut self, until: Nanos, done: &mut Vec<(Nanos, u64)>) {
        done.extend(std::iter::from_fn(|| self.ends.pop_due(until)));
    }
}

/// Makes a namespace on such a device, whose window holds as many commands as it carries out at a time.
pub(crate) fn on_servers(channels: u32, service_ns: u64, byte_ns: f64) -> NamespacePlan {
    let device = Servers::new(channels as usize, service_ns, byte_ns);
    let mean = Nanos(service_ns + (4096.0 * byte_ns) as u64);
    let profile = Overrides {
        mean: Some(mean),
        worst: Some(Nanos(mean.0 + mean.0 / 4)),
        parallelism: Some(channels),
        seeks: false,
    };
    let rules = DeviceRules { window: WindowRule::Fixed(channels), containers: None, profile };
    NamespacePlan { rules, ..NamespacePlan::new(DevicePlan::Model(device)) }
}

/// Makes a plan of a target at one side of a link and hosts at the other; nobody has a load.
pub(crate) fn plan(hosts: u32, middle_bits: u64, mtu: u32) -> Plan {
    let delay = Duration::from_micros(10);
    let edge = Link { rate: 4 * middle_bits, delay };
    let middle = Link { rate: middle_bits, delay };
    let switch = Switch::default();
    let packets = Packets { mtu, ..Packets::default() };
    let dumbbell = Dumbbell { left: 1, right: hosts, edge, middle, switch, packets };
    let topology = dumbbell.build();
    let nodes: Vec<_> = topology.hosts().collect();
    let host = |index: usize| HostPlan::new(format!("host{index}"), nodes[index + 1], DCTCP);
    Plan {
        seed: 1,
        warmup: Duration::from_millis(50),
        duration: Duration::from_millis(200),
        interval: Duration::from_millis(10),
        target: TargetPlan::new(nodes[0], DCTCP),
        topology,
        qos: QosPlan::default(),
        stage: StagePlan::default(),
        namespaces: Vec::new(),
        hosts: (0..hosts as usize).map(host).collect(),
        others: Vec::new(),
        record_quality: false,
    }
}

/// Gives a host a load on the first namespace.
pub(crate) fn load(plan: &mut Plan, host: usize, source: Box<dyn Source>) {
    plan.hosts[host].loads.push(LoadPlan { namespace: 0, class: None, source });
}

/// Lets a host connect over RDMA, with such queue pairs at both ends.
pub(crate) fn over_rdma(host: &mut HostPlan, sender: Sender) {
    host.transport = Transport::Rdma;
    (host.sender, host.answers) = (sender, Some(sender));
}

/// Gives the hosts the classes High, Medium and Low by policy.
pub(crate) fn three_classes(plan: &mut Plan) {
    for (host, class) in plan.hosts.iter_mut().zip([Class::High, Class::Medium, Class::Low]) {
        host.class = Some(class);
    }
}

/// Runs a plan to its end.
pub(crate) fn run(plan: Plan) -> Measured {
    let mut model = Model::new(plan).expect("a right plan");
    let end = model.end();
    model.run(end, &mut |_| ());
    let measured = model.report();
    check(&measured);
    measured
}

/// Checks that nothing went wrong, and nothing was lost or made up.
pub(crate) fn check(measured: &Measured) {
    for host in &measured.hosts {
        assert!(host.lost.is_empty(), "{}: {:?}", host.name, host.lost);
        for load in &host.loads {
            assert_eq!(load.submitted, load.answered + load.outstanding, "{}", host.name);
            assert_eq!(load.wanted, load.ended + load.unfinished, "{}", host.name);
            assert_eq!(load.failed, 0, "{}", host.name);
        }
    }
}

/// Returns the bytes of each host's first load that were moved in the time that is measured.
pub(crate) fn bytes(measured: &Measured) -> Vec<f64> {
    let moved = |load: &LoadMeasured| (load.read.bytes + load.write.bytes) as f64;
    measured.hosts.iter().map(|host| moved(&host.loads[0])).collect()
}

/// Returns the parts that hosts have of what all have together.
pub(crate) fn parts(of: &[f64]) -> Vec<f64> {
    let sum: f64 = of.iter().sum();
    of.iter().map(|one| one / sum).collect()
}

/// Asserts that the hosts have these parts of what all have together, within a tolerance.
pub(crate) fn assert_parts(of: &[f64], expected: &[f64], tolerance: f64) {
    let (had, expected) = (parts(of), parts(expected));
    for (had_one, expected_one) in had.iter().zip(&expected) {
        let differs = (had_one / expected_one - 1.0).abs();
        assert!(differs < tolerance, "{had:.3?}, not {expected:.3?}");
    }
}
