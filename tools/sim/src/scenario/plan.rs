//! From the file to the plan.

use std::path::Path;
use std::time::Duration;

use units::{Class, nanos};

use super::Planned;
use super::device::{Sized, bytes, device, times};
use super::error::{ScenarioError, value};
use super::file::{File, Host, Namespace, namespace};
use super::loads::{Place, source};
use super::qos::{qos, stage, window};
use super::topology::topology;
use super::transport::Transports;
use super::value::{Bandwidth, Bytes, Time};
use crate::load::Fault;
use crate::model::{Costs, HostPlan, LoadPlan, NamespacePlan, Plan, TargetPlan};
use crate::network::{NodeId, Sender};

/// The most hosts of a scenario.
const HOSTS: u32 = 65_536;

/// Returns the time that is not measured: a fifth of the measured time unless the file says so.
pub(super) fn warmup(file: &File) -> Duration {
    file.warmup.map_or(file.duration.0 / 5, |warmup| warmup.0)
}

/// Makes the plan.
pub(super) fn planned(file: &File, seed: u64, folder: &Path) -> Result<Planned, ScenarioError> {
    let duration = file.duration.0;
    if duration.is_zero() || duration > Duration::from_secs(3600) {
        return Err(value(
            "duration",
            format!("{duration:?}"),
            "write more than 0 and at most \"1 h\"",
        ));
    }
    let interval = file.interval.map_or(duration / 100, |interval| interval.0);
    if interval.is_zero() || duration.as_nanos() / interval.as_nanos() > 100_000 {
        let must = "write at least a 100000th of `duration`";
        return Err(value("interval", format!("{interval:?}"), must));
    }
    let count = count(file)?;
    if file.namespaces.is_empty() {
        let must = "write [[namespace]] with its device";
        return Err(ScenarioError::Missing { key: "namespace".to_owned(), must });
    }
    let (topology, nodes, target) = topology(file, count)?;
    let transports = Transports::new(file)?;
    let target = target_plan(file, target, transports.sockets)?;
    let mut faults = Vec::new();
    let hosts = hosts(file, &nodes, &transports, target.max_transfer, seed, folder, &mut faults)?;
    let plan = Plan {
        seed,
        warmup: warmup(file),
        duration,
        interval,
        topology,
        target,
        qos: qos(file)?,
        stage: stage(file)?,
        namespaces: namespaces(file, seed)?,
        hosts,
        others: Vec::new(),
        record_quality: true,
    };
    Ok(Planned { plan, faults })
}

/// Counts the hosts.
fn count(file: &File) -> Result<u32, ScenarioError> {
    let count: u64 = file.hosts.iter().map(|host| u64::from(host.count.unwrap_or(1))).sum();
    match u32::try_from(count).ok().filter(|count| *count <= HOSTS) {
        Some(0) => {
            let must = "write [[host]] with a name and its loads";
            Err(ScenarioError::Missing { key: "host".to_owned(), must })
        }
        Some(count) => Ok(count),
        None => Err(value(
            "host.count",
            format!("{count} in all"),
            format!("write at most {HOSTS} in all"),
        )),
    }
}

fn target_plan(file: &File, node: NodeId, sender: Sender) -> Result<TargetPlan, ScenarioError> {
    let of = &file.target;
    let mut target = TargetPlan::new(node, sender);
    target.costs = Costs::MEASURED;
    let short = |key: &str, value_of: u64| {
        u32::try_from(value_of)
            .map_err(|_| value(format!("target.{key}"), value_of, "write less than 4 GiB"))
    };
    if let Some(reactors) = of.reactors {
        target.reactors = reactors;
    }
    if let Some(memory) = of.io_memory {
        target.io_memory = usize::try_from(memory.0).unwrap_or(usize::MAX);
    }
    if let Some(most) = of.max_transfer {
        target.max_transfer = short("max_transfer", most.0)?;
    }
    if let Some(data) = of.in_capsule_data {
        target.in_capsule_data = short("in_capsule_data", data.0)?;
    }
    let most = target.in_capsule_data;
    target.rdma_in_capsule_data = match of.rdma_in_capsule_data {
        None => target.rdma_in_capsule_data.min(most),
        Some(Bytes(data)) => {
            u32::try_from(data).ok().filter(|data| *data <= most).ok_or_else(|| {
                let must = format!("write at most {most}, which is `target.in_capsule_data`");
                value("target.rdma_in_capsule_data", data, must)
            })?
        }
    };
    if let Some(depth) = of.queue_depth {
        target.queue_depth = depth;
    }
    let ns = |time: Option<Time>, before: f64| time.map_or(before, |time| nanos(time.0) as f64);
    let per_byte = |rate: Option<Bandwidth>, before: f64| {
        rate.map_or(before, |rate| 1e9 / rate.0.max(1) as f64)
    };
    target.costs.turn_ns = ns(of.turn_time, target.costs.turn_ns);
    target.costs.command_ns = ns(of.command_time, target.costs.command_ns);
    target.costs.sent_byte_ns = per_byte(of.sent_per_second, target.costs.sent_byte_ns);
    target.costs.received_byte_ns = per_byte(of.received_per_second, target.costs.received_byte_ns);
    Ok(target)
}

fn namespaces(file: &File, seed: u64) -> Result<Vec<NamespacePlan>, ScenarioError> {
    let one = |(number, of): (usize, &Namespace)| {
        let Sized { device, bytes } = device(file, of, number, seed.wrapping_add(number as u64))?;
        let mut plan = NamespacePlan::new(device);
        plan.blocks = bytes / 512;
        plan.rules.window = window(file, of, number)?;
        plan.rules.profile = times(of, number)?;
        Ok(plan)
    };
    (1..).zip(&file.namespaces).map(one).collect()
}

fn hosts(
    file: &File,
    nodes: &[NodeId],
    transports: &Transports,
    max_transfer: u32,
    seed: u64,
    folder: &Path,
    faults: &mut Vec<Fault>,
) -> Result<Vec<HostPlan>, ScenarioError> {
    // Each load has a seed of its own, so that one more host does not change the others.
    let mut seeds = fastrand::Rng::with_seed(seed);
    let mut nodes = nodes.iter();
    let mut hosts = Vec::new();
    for of in &file.hosts {
        of.goal.iter().try_for_each(|goal| goal.check(&of.name))?;
        let count = of.count.unwrap_or(1);
        for (number, node) in (1..=count).zip(nodes.by_ref()) {
            let name = if count == 1 { of.name.clone() } else { format!("{}-{number}", of.name) };
            let mut host = self::host(of, name, *node, transports);
            for (load, at) in of.loads.iter().zip(1..) {
                let at = format!("host {}.load {at}", of.name);
                let namespace = namespace(file, &at, load.namespace)?;
                let within = match file.namespaces.get(namespace) {
                    Some(of) => bytes(file, of, namespace + 1)?,
                    None => 0,
                };
                let place = Place {
                    at: &at,
                    within,
                    max_transfer,
                    begins: host.begins,
                    seed: seeds.u64(..),
                    folder,
                };
                let (source, fault) = source(load, place)?;
                faults.extend(fault);
                let class = load.class.map(Class::from);
                host.loads.push(LoadPlan { namespace, class, source });
            }
            hosts.push(host);
        }
    }
    Ok(hosts)
}

fn host(of: &Host, name: String, node: NodeId, transports: &Transports) -> HostPlan {
    let (sender, answers) = transports.of(of.transport);
    let mut host = HostPlan::new(name, node, sender);
    (host.transport, host.answers) = (of.transport, answers);
    host.class = of.class.map(Class::from);
    host.queues = of.queues.unwrap_or(host.queues);
    host.depth = of.depth.unwrap_or(host.depth);
    host.session.clone_from(&of.session);
    host.begins = of.begins.map_or(Duration::ZERO, |begins| begins.0);
    // A connection has the mark of its class, as hosts set it (`nvme connect --tos`).
    if let Some(class) = of.class {
        host.dscp = arbitration::settings::default_dscps()[Class::from(class)];
    }
    host
}
