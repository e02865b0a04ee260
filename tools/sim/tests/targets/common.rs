//! Loads, devices and plans that the tests of whole models share.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "helpers of tests fail as tests do"
)]

use std::path::Path;
use std::time::Duration;

use arbitration::device::DeviceRules;
use arbitration::reservation::Overrides;
use arbitration::settings::WindowRule;
use sluice_sim::device::profiled::{Profiled, Settings, Times};
use sluice_sim::load::{Closed, Open, Places, Process, Shape, Size, Source};
use sluice_sim::model::{
    DevicePlan, HostPlan, LoadMeasured, LoadPlan, Measured, Model, NamespacePlan, Plan, QosPlan,
    StagePlan, TargetPlan, Transport,
};
use sluice_sim::network::{Control, Dumbbell, Link, Packets, Sender, Switch, Topology};
use sluice_sim::scenario::Scenario;
use units::{Class, Nanos};

pub(crate) const GIGABIT: u64 = 1_000_000_000;
/// The sender of all sockets.
pub(crate) const DCTCP: Sender = Sender::Window { control: Control::Dctcp };

fn shape(write: bool, length: u32) -> Shape {
    let reads = if write { 0.0 } else { 1.0 };
    Shape { reads, size: Size::Fixed(length), places: Places::Sequential, within: 1 << 30 }
}

/// Makes a source that wants the same again and again: as many at a time.
pub(crate) fn closed(write: bool, length: u32, depth: u32) -> Box<dyn Source> {
    Box::new(Closed::new(depth, shape(write, length), Nanos(0), 1))
}

/// Makes a source that wants the same at equal distances in time: so many bits of data a second.
pub(crate) fn steady(write: bool, length: u32, bits: f64) -> Box<dyn Source> {
    let process = Process::Constant { rate: bits / 8.0 / f64::from(length) };
    Box::new(Open::new(process, shape(write, length), Nanos(0), 1))
}

/// Makes a namespace in memory.
pub(crate) fn on_memory() -> Vec<NamespacePlan> {
    vec![NamespacePlan::new(DevicePlan::Memory)]
}

/// Makes a namespace on a device that carries out so many commands at a time, each in the same time and a
/// time for each of its bytes; its window holds as many.
pub(crate) fn on_servers(channels: u32, service_ns: u64, byte_ns: f64) -> Vec<NamespacePlan> {
    let mean = service_ns as f64 + 4096.0 * byte_ns;
    let times = Times::new(vec![(0.0, mean), (1.0, mean)], 1024.0 * byte_ns, 0.0).expect("times");
    let settings = Settings { parallelism: channels, read: times.clone(), write: times };
    let device = Box::new(Profiled::new(settings, 1));
    let [mean, worst] = [mean, mean * 1.25].map(|time| Some(Nanos(time as u64)));
    let profile = Overrides { mean, worst, parallelism: Some(channels), seeks: false };
    let rules = DeviceRules { window: WindowRule::Fixed(channels), containers: None, profile };
    vec![NamespacePlan { rules, ..NamespacePlan::new(DevicePlan::Model(device)) }]
}

/// Makes a network of a target at one side of a link of `middle` bit/s and hosts at the other, whose own
/// links have four times that; each link delays by `delay_us`.
pub(crate) fn dumbbell(
    hosts: u32,
    middle: u64,
    mtu: u32,
    delay_us: u64,
    switch: Switch,
) -> Topology {
    let link = |rate| Link { rate, delay: Duration::from_micros(delay_us) };
    let (edge, middle) = (link(4 * middle), link(middle));
    let packets = Packets { mtu, ..Packets::default() };
    Dumbbell { left: 1, right: hosts, edge, middle, switch, packets }.build()
}

/// Makes a plan of a target with these namespaces at one side of a link and hosts at the other; nobody has a load.
pub(crate) fn plan(hosts: u32, middle_bits: u64, mtu: u32, namespaces: Vec<NamespacePlan>) -> Plan {
    let topology = dumbbell(hosts, middle_bits, mtu, 10, Switch::default());
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
        namespaces,
        hosts: (0..hosts as usize).map(host).collect(),
        others: Vec::new(),
        record_quality: false,
    }
}

/// Adds a load on the first namespace to a host.
pub(crate) fn load(plan: &mut Plan, host: usize, source: Box<dyn Source>) {
    plan.hosts[host].loads.push(LoadPlan { namespace: 0, class: None, source });
}

/// Connects a host over RDMA, with such queue pairs at both ends.
pub(crate) fn over_rdma(host: &mut HostPlan, sender: Sender) {
    host.transport = Transport::Rdma;
    (host.sender, host.answers) = (sender, Some(sender));
}

/// Assigns the classes High, Medium and Low to the hosts by policy.
pub(crate) fn three_classes(plan: &mut Plan) {
    for (host, class) in plan.hosts.iter_mut().zip([Class::High, Class::Medium, Class::Low]) {
        host.class = Some(class);
    }
}

/// Returns the latency that 99 % of the reads of the first host's load do not exceed, in ns.
pub(crate) fn p99(measured: &Measured) -> u64 {
    measured.hosts[0].loads[0].read.latency.value_at_quantile(0.99)
}

/// Makes the scenario of a text, and its plan with a seed.
pub(crate) fn planned(text: &str, seed: u64) -> (Scenario, Plan) {
    let scenario = Scenario::parse(text).expect("a scenario");
    let plan = scenario.plan(seed, Path::new(".")).expect("a plan").plan;
    (scenario, plan)
}

/// Runs a scenario with a seed, with the network's stage and without it.
pub(crate) fn run_both(text: &str, seed: u64) -> [Measured; 2] {
    [true, false].map(|enabled| {
        let mut plan = planned(text, seed).1;
        plan.stage.enabled = enabled;
        run(plan)
    })
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

pub(crate) fn moved(load: &LoadMeasured) -> f64 {
    (load.read.bytes + load.write.bytes) as f64
}

/// Returns the bytes of each host's first load that were moved in the time that is measured.
pub(crate) fn bytes(measured: &Measured) -> Vec<f64> {
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
