//! Makes a target of production parts from a plan.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use arbitration::Sharing;
use arbitration::arbiter::Waiters;
use arbitration::credit::Caps;
use arbitration::reservation::{Admitted, Broker, Reserved};
use arbitration::session::{Reservation, RootSpec, Sessions};
use fabric::controller::{BackendId, Service, ServiceConfig, TransportType};
use fabric::tcp::TargetParams;
use sluice_core::device::BlockDevice as _;
use sluice_core::testing::{self, HeapArena, Kind, Rules, listener, namespace};
use sluice_core::{Core, Settings, Tenant};
use units::{Class, Nanos};

use super::disk::{Disk, FORMAT, Machine, Shared, Zeroes};
use super::pairs::PairParams;
use super::reactor::{LISTENER, LISTENER_RDMA, Reactor};
use crate::plan::{NamespacePlan, PlanError, QosPlan, SessionPlan, TargetPlan};

/// NQN of the only subsystem.
pub(crate) const NQN: &str = "nqn.2026-01.io.sluicegate:sim";

/// Operation credits of the root session, the daemon's default.
pub(crate) const OPERATIONS: u32 = 65_536;
/// Entries of an admin queue, the daemon's default.
const ADMIN_ENTRIES: u16 = 128;

/// A host, as policies know it: its NQN, the class of its commands, and its session.
pub(crate) type Known<'a> = (String, Option<Class>, Option<&'a str>);

/// The parts of a target.
pub(super) type Parts = (Rc<Shared>, Vec<Reactor>, Vec<Arc<Disk>>);

/// Makes the service, the reactors and the disks of a target.
pub(super) fn make(
    now: Nanos,
    plan: &TargetPlan,
    qos: &QosPlan,
    namespaces: &[NamespacePlan],
    devices: &[Option<usize>],
    hosts: &[Known<'_>],
) -> Result<Parts, PlanError> {
    let disks = disks(plan, namespaces, devices);
    let service = service(now, plan, qos, namespaces)?;
    let sessions = sessions(now, plan, qos)?;
    reserve(now, plan, qos, &sessions, &disks)?;
    let rules = rules(plan, qos, namespaces, hosts, &sessions)?;
    let table = (1..).map(BackendId).zip(disks.iter().cloned()).collect();
    let shared = Shared::new(service, rules, table, plan.reactors);
    let waiters = Arc::new(Waiters::new(plan.reactors));
    let reactor = |number| {
        let settings = Settings {
            reactor: number,
            reactors: plan.reactors,
            ..testing::settings(plan.max_transfer, plan.in_capsule_data)
        };
        let (largest, capsule) =
            (plan.max_transfer as usize, plan.in_capsule_data.max(4096) as usize);
        let capsules = Settings::capsule_memory(plan.io_memory, capsule);
        let memory = (HeapArena::new(plan.io_memory, largest), HeapArena::new(capsules, capsule));
        let machine = Machine::new(&shared);
        let core = Core::new(machine, settings, Arc::clone(&waiters), memory, now);
        let params = TargetParams::for_transfers(plan.max_transfer);
        let entries = (ADMIN_ENTRIES, plan.queue_depth);
        let pairs = PairParams { entries, in_capsule_data: plan.rdma_in_capsule_data };
        Reactor::new(number, core, (params, pairs), plan.costs)
    };
    let reactors = (0..plan.reactors).map(reactor).collect();
    Ok((shared, reactors, disks))
}

fn disks(
    plan: &TargetPlan,
    namespaces: &[NamespacePlan],
    devices: &[Option<usize>],
) -> Vec<Arc<Disk>> {
    let disk = |(namespace, device): (&NamespacePlan, &Option<usize>)| {
        let kind = if device.is_some() { Kind::Queued } else { Kind::Immediate };
        let size = (namespace.blocks, FORMAT);
        Disk::new(kind, Zeroes { device: *device }, size, namespace.rules, plan.reactors)
    };
    namespaces.iter().zip(devices).map(disk).collect()
}

/// Makes the subsystem with its namespaces.
fn service(
    now: Nanos,
    plan: &TargetPlan,
    qos: &QosPlan,
    namespaces: &[NamespacePlan],
) -> Result<Service, PlanError> {
    let config = ServiceConfig {
        max_transfer: plan.max_transfer,
        in_capsule_data: plan.in_capsule_data,
        rdma_in_capsule_data: plan.rdma_in_capsule_data,
        queue_entries: plan.queue_depth,
        admin_queue_entries: ADMIN_ENTRIES,
        max_waiting: u32::MAX,
        weighted_round_robin: qos.wrr,
        ..ServiceConfig::default()
    };
    let refused = |why: String| PlanError::Settings(format!("the target: {why}"));
    let first = listener(LISTENER, TransportType::Tcp);
    let mut service = testing::service(now, config, NQN, first).map_err(refused)?;
    let second = listener(LISTENER_RDMA, TransportType::Rdma);
    service.add_listener(now, second).map_err(|error| refused(error.to_string()))?;
    for (nsid, plan) in (1_u32..).zip(namespaces) {
        let added = service.add_namespace(now, NQN, namespace(nsid, FORMAT, plan.blocks));
        added.map_err(|error| refused(error.to_string()))?;
    }
    Ok(service)
}

fn sessions(now: Nanos, plan: &TargetPlan, qos: &QosPlan) -> Result<Sessions, PlanError> {
    let memory = plan.io_memory.saturating_mul(plan.reactors).div_ceil(1024);
    let payload = u64::try_from(memory).unwrap_or(u64::MAX);
    let usual = Caps { operations: OPERATIONS, payload };
    let root =
        RootSpec { caps: qos.caps.unwrap_or(usual), bounded: qos.caps.is_some(), queue: qos.queue };
    let mut sessions = Sessions::shared(&root, Sharing::for_reactors(plan.reactors));
    for session in &qos.sessions {
        sessions.put(now, &session.spec)?;
    }
    Ok(sessions)
}

/// Admits the reservations, and puts them in force.
fn reserve(
    now: Nanos,
    plan: &TargetPlan,
    qos: &QosPlan,
    sessions: &Sessions,
    disks: &[Arc<Disk>],
) -> Result<(), PlanError> {
    let mut granted: Vec<Vec<(Admitted, Reservation)>> = disks.iter().map(|_| Vec::new()).collect();
    let mut left = u64::try_from(plan.io_memory / 2).unwrap_or(u64::MAX);
    for SessionPlan { spec, reserve } in &qos.sessions {
        let Some(reserve) = reserve else { continue };
        let what = || format!("the reservation of session {}", spec.name);
        let place = disks.get(reserve.namespace).zip(granted.get_mut(reserve.namespace));
        let Some((disk, granted)) = place else {
            return Err(missing_namespace(what(), reserve.namespace, disks.len()));
        };
        let refused = |why: String| PlanError::Reservation {
            session: spec.name.clone(),
            terms: reserve.terms,
            why,
        };
        if disk.kind() == Kind::Immediate {
            let why = "its namespace is in memory, where commands never wait; reserve on a device";
            return Err(refused(why.to_owned()));
        }
        let profile = disk.qos().profile().ok_or_else(|| {
            refused("the device's times are not known; give its mean and worst time".to_owned())
        })?;
        let already: Vec<Admitted> = granted.iter().map(|(admitted, _)| *admitted).collect();
        let urgent = qos.order.urgent_share;
        let admitted = Broker::admit(&profile, &already, urgent, &reserve.terms)
            .map_err(|refusal| refused(refusal.to_string()))?;
        let Some(session) = sessions.named(&spec.name) else { continue };
        if reserve.terms.buffers > 1 {
            let bytes = admitted.translation.buffer_bytes;
            Broker::check_buffers(&admitted, left)
                .map_err(|refusal| refused(refusal.to_string()))?;
            left = left.saturating_sub(bytes);
            session.set_aside(bytes);
        }
        let in_set = disk.qos().is_bounded();
        let reserved = Arc::new(Reserved::new(now, &admitted).in_set(in_set));
        let session = Arc::clone(session);
        granted.push((admitted, Reservation { session, reserved }));
    }
    for (disk, granted) in disks.iter().zip(granted) {
        if qos.enabled && !granted.is_empty() {
            disk.qos().reserve(granted.into_iter().map(|(_, one)| one).collect());
        }
    }
    Ok(())
}

fn rules(
    plan: &TargetPlan,
    qos: &QosPlan,
    namespaces: &[NamespacePlan],
    hosts: &[Known<'_>],
    sessions: &Sessions,
) -> Result<Rules, PlanError> {
    let mut rules = Rules {
        enabled: qos.enabled,
        order: qos.order,
        queue: qos.queue,
        mark: qos.mark,
        dscp: qos.dscp,
        ..Rules::new(Tenant::new(sessions.root(), plan.reactors))
    };
    let mut tenants: HashMap<&str, Tenant> = HashMap::new();
    for (nqn, class, session) in hosts {
        rules.classes.extend(class.map(|class| (nqn.clone(), class)));
        let Some(name) = session else { continue };
        let session = sessions.named(name).ok_or_else(|| PlanError::Missing {
            what: format!("host {nqn}"),
            kind: "session",
            named: (*name).to_owned(),
            known: names(qos),
        })?;
        let tenant = tenants.entry(name).or_insert_with(|| Tenant::new(session, plan.reactors));
        rules.tenants.insert(nqn.clone(), tenant.clone());
    }
    let numbered = (1..).zip(namespaces);
    let outputs = numbered.filter(|(_, one)| one.flush_is_output).map(|(nsid, _)| nsid);
    rules.flush_is_output.extend(outputs);
    Ok(rules)
}

/// Lists the sessions that there are.
fn names(qos: &QosPlan) -> String {
    let names: Vec<&str> = qos.sessions.iter().map(|session| session.spec.name.as_str()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Makes the error of something that names a namespace which is not there.
pub(crate) fn missing_namespace(what: String, index: usize, namespaces: usize) -> PlanError {
    let known = match namespaces.checked_sub(1) {
        None => "none".to_owned(),
        Some(last) => format!("0 to {last}"),
    };
    PlanError::Missing { what, kind: "namespace", named: index.to_string(), known }
}
