//! An engine for tests, with all its state in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use arbitration::reservation::Profile;
use arbitration::session::SessionLimits;
use arbitration::{Class, PerClass};
use fabric::Nanos;
use fabric::controller::RefusalKind;
use sluice_config::{
    AllowedHost, Backend, Config, Endpoint, LinkConfig, Listener, Namespace, Network, PmemConfig,
    QosConfig, RegionConfig, Subsystem, clash, derived_nguid, derived_serial, derived_uuid,
    format_nguid, is_automatic, limited_hosts,
};
use uuid::Uuid;

use crate::serve::engine::{
    Availability, ConnectionNetwork, ConnectionState, DeviceState, DirectionState, Engine,
    EngineError, FileSystem, FlowState, HurtHosts, LinkClassState, LinkState, ListenerState, Loss,
    LostHost, NamespaceState, NetworkState, PmemState, ProfileState, QosState, ReactorState,
    RegionClient, RegionFacts, RegionState, ReserveState, SessionState, Statistics, SubsystemState,
    Traffic,
};
use crate::serve::host_keys::{HostKeys, differing};
use crate::serve::traces::TracedCommands;
use crate::serve::workloads::WorkloadKey;
use sluice_core::TraceFilter;
use sluice_core::stats::{Histogram, HistogramSnapshot, IoSnapshot, IoStats};

type Result<T = ()> = std::result::Result<T, EngineError>;

/// An engine that keeps a configuration, and answers as a target that runs it.
#[derive(Debug, Default)]
pub(crate) struct TestEngine {
    pub(crate) config: Mutex<Config>,
    /// The file systems that files of namespaces are on.
    pub(crate) file_systems: Mutex<Vec<FileSystem>>,
    /// The number of changes that succeed before one is refused.
    pub(crate) refuse_after: Mutex<Option<usize>>,
    /// Whether the end that was asked for is at once; `None` means that none was asked for.
    pub(crate) ended: Mutex<Option<bool>>,
    /// Namespaces that are not ready: subsystem, NSID, state and reason.
    pub(crate) wrong: Mutex<Vec<(String, u32, Availability, String)>>,
    /// Sessions whose reservations are not in force, with the reason.
    pub(crate) not_in_force: Mutex<BTreeMap<String, String>>,
    /// Descriptions of data that could not be stored.
    pub(crate) unstored: Mutex<Vec<String>>,
    /// Hosts that a change would hurt: the [`Loss`] as it is printed for debugging, and the host.
    pub(crate) hurt: Mutex<Vec<(String, String)>>,
    /// The same of hosts that are lost.
    pub(crate) lost: Mutex<Vec<(String, LostHost)>>,
    /// Listeners that are not open, with the reason.
    pub(crate) closed_listeners: Mutex<BTreeMap<Endpoint, String>>,
    /// Why clients of regions cannot connect.
    pub(crate) closed: Mutex<Option<String>>,
    /// The time that statistics and changes take.
    pub(crate) slow: Mutex<std::time::Duration>,
    /// The keys that are read next.
    pub(crate) keys_of_files: Mutex<HostKeys>,
    pub(crate) host_keys: Mutex<HostKeys>,
    /// The hosts that had keys when each change of the configuration was asked for.
    pub(crate) keys_at_changes: Mutex<Vec<Vec<String>>>,
    /// The namespaces whose identities were forgotten.
    pub(crate) removed: Mutex<BTreeSet<(String, u32)>>,
    /// Whether each identity that was forgotten comes back by a revert.
    pub(crate) kept: Mutex<Vec<bool>>,
    /// Whether a revert is under way.
    pub(crate) is_reverting: AtomicBool,
    pub(crate) reverts: AtomicUsize,
    /// The filter of the trace that runs.
    pub(crate) trace: Mutex<Option<TraceFilter>>,
    /// The commands that are taken next.
    pub(crate) traced: Mutex<TracedCommands>,
    /// The configuration for which other identities were forgotten last.
    pub(crate) settled: Mutex<Option<Config>>,
}

impl TestEngine {
    pub(crate) fn new(config: Config) -> Self {
        Self { config: Mutex::new(config), ..Self::default() }
    }

    fn change<T>(&self, act: impl FnOnce(&mut Config) -> Result<T>) -> Result<T> {
        std::thread::sleep(*self.slow.lock().unwrap());
        let hosts = self.host_keys.lock().unwrap().keys().cloned().collect();
        self.keys_at_changes.lock().unwrap().push(hosts);
        let mut left = self.refuse_after.lock().unwrap();
        if *left == Some(0) {
            *left = None;
            return Err(EngineError::System("the test requested a failure".into()));
        }
        *left = left.map(|left| left - 1);
        let mut config = self.config.lock().unwrap();
        let mut next = config.clone();
        let value = act(&mut next)?;
        if let Some(reason) = clash(&next) {
            return Err(EngineError::Exists(reason));
        }
        *config = next;
        Ok(value)
    }

    fn inside<T>(&self, nqn: &str, act: impl FnOnce(&mut Subsystem) -> Result<T>) -> Result<T> {
        self.change(|config| act(find(&mut config.subsystems, nqn, |s| s.nqn == nqn)?))
    }

    fn set(&self, act: impl FnOnce(&mut Config)) -> Result {
        self.change(|config| {
            act(config);
            Ok(())
        })
    }

    fn set_subsystem(&self, nqn: &str, act: impl FnOnce(&mut Subsystem)) -> Result {
        self.change(|config| find(&mut config.subsystems, nqn, |s| s.nqn == nqn).map(act))
    }

    fn set_listener(&self, endpoint: Endpoint, act: impl FnOnce(&mut Listener)) -> Result {
        self.change(|config| {
            find(&mut config.listeners, endpoint, |l| l.endpoint() == endpoint).map(act)
        })
    }

    /// Makes a host lose something by a change.
    pub(crate) fn add_hurt(&self, loss: &Loss<'_>, host: &str) {
        self.hurt.lock().unwrap().push((format!("{loss:?}"), host.to_owned()));
    }
}

/// Finds an entry of a list.
fn find<T>(list: &mut [T], name: impl Display, is_it: impl Fn(&T) -> bool) -> Result<&mut T> {
    let found = list.iter_mut().find(|entry| is_it(entry));
    found.ok_or_else(|| EngineError::NotFound(name.to_string()))
}

/// Adds an entry that the list does not have yet.
fn add<T>(list: &mut Vec<T>, new: T, name: impl Display, is_it: impl Fn(&T) -> bool) -> Result {
    if list.iter().any(is_it) {
        return Err(EngineError::Exists(name.to_string()));
    }
    list.push(new);
    Ok(())
}

/// Removes an entry of a list.
fn remove<T>(list: &mut Vec<T>, name: impl Display, is_it: impl Fn(&T) -> bool) -> Result {
    find(list, name, &is_it)?;
    list.retain(|entry| !is_it(entry));
    Ok(())
}

fn namespace_in(subsystem: &mut Subsystem, nsid: u32) -> Result<&mut Namespace> {
    find(&mut subsystem.namespaces, nsid, |n| n.nsid == Some(nsid))
}

impl Engine for TestEngine {
    fn add_subsystem(&self, subsystem: &Subsystem) -> Result<String> {
        let (new, nqn) = (subsystem.clone(), &subsystem.nqn);
        self.change(|config| add(&mut config.subsystems, new, nqn, |s| s.nqn == *nqn))?;
        Ok(serial(subsystem))
    }

    fn remove_subsystem(&self, nqn: &str) -> Result {
        self.change(|config| remove(&mut config.subsystems, nqn, |s| s.nqn == nqn))
    }

    fn add_namespace(&self, nqn: &str, namespace: &Namespace) -> Result<Uuid> {
        let nsid = namespace.nsid.expect("the control plane gives NSIDs");
        let new = namespace.clone();
        self.inside(nqn, |s| add(&mut s.namespaces, new, nsid, |n| n.nsid == Some(nsid)))?;
        Ok(uuid(nqn, namespace))
    }

    fn forget_identity(&self, nqn: &str, nsid: Option<u32>, keep: bool) {
        self.kept.lock().unwrap().push(keep);
        let mut removed = self.removed.lock().unwrap();
        match nsid {
            Some(nsid) => drop(removed.insert((nqn.into(), nsid))),
            None => removed.retain(|(of, _)| of != nqn),
        }
    }

    fn forget_other_identities(&self, config: &Config) {
        *self.settled.lock().unwrap() = Some(config.clone());
        self.is_reverting.store(false, Relaxed);
    }

    fn restore_identities(&self) {
        self.is_reverting.store(true, Relaxed);
        self.reverts.fetch_add(1, Relaxed);
    }

    fn forget_removed_identities(&self, _file: &Config, _running: &Config) {}

    fn removed_nsids(&self, nqn: &str) -> BTreeSet<u32> {
        let removed = self.removed.lock().unwrap();
        removed.iter().filter(|(of, _)| of == nqn).map(|(_, nsid)| *nsid).collect()
    }

    fn remove_namespace(&self, nqn: &str, nsid: u32) -> Result {
        self.inside(nqn, |s| remove(&mut s.namespaces, nsid, |n| n.nsid == Some(nsid)))
    }

    fn resize_namespace(&self, nqn: &str, nsid: u32, new: Option<u64>) -> Result<u64> {
        self.inside(nqn, |subsystem| match &mut namespace_in(subsystem, nsid)?.backend {
            Backend::Null { size, .. } | Backend::Memory { size, .. } => {
                *size = new.unwrap_or(*size);
                Ok(*size)
            }
            Backend::File { size, create, .. } | Backend::Pmem { size, create, .. } => {
                *size = new;
                *create &= new.is_some();
                Ok(new.unwrap_or(77 * 4096))
            }
            Backend::Nvme { .. } => Ok(88 * 4096),
        })
    }

    fn retry_namespaces(&self, nqn: Option<&str>, nsid: Option<u32>) {
        let meant = |known: &String, number: &u32| {
            nqn.is_none_or(|nqn| nqn == known) && nsid.is_none_or(|nsid| nsid == *number)
        };
        self.wrong.lock().unwrap().retain(|(nqn, nsid, _, _)| !meant(nqn, nsid));
    }

    fn hosts_hurt(&self, loss: &Loss<'_>) -> HurtHosts {
        fn of<T: Clone>(all: &Mutex<Vec<(String, T)>>, loss: &Loss<'_>) -> Vec<T> {
            let all = all.lock().unwrap();
            let of_loss = all.iter().filter(|(change, _)| *change == format!("{loss:?}"));
            of_loss.map(|(_, host)| host.clone()).collect()
        }
        HurtHosts { connected: of(&self.hurt, loss), lost: of(&self.lost, loss) }
    }

    fn lost_hosts(&self) -> Vec<(String, LostHost)> {
        let lost = self.lost.lock().unwrap().clone();
        lost.into_iter().map(|(_, lost)| ("nqn.2026-01.io.x:s0".to_owned(), lost)).collect()
    }

    fn add_listener(&self, listener: &Listener) -> Result {
        self.set(|config| config.listeners.push(listener.clone()))
    }

    fn remove_listener(&self, endpoint: Endpoint) -> Result {
        self.change(|config| remove(&mut config.listeners, endpoint, |l| l.endpoint() == endpoint))
    }

    fn add_host(&self, nqn: &str, host: &AllowedHost) -> Result {
        self.set_subsystem(nqn, |subsystem| subsystem.hosts.push(host.clone()))
    }

    fn set_host(&self, nqn: &str, host: &AllowedHost) -> Result {
        self.set_subsystem(nqn, |subsystem| {
            let known = subsystem.hosts.iter_mut().find(|known| known.nqn == host.nqn);
            *known.expect("a host that is listed") = host.clone();
        })
    }

    fn remove_host(&self, nqn: &str, host: &str) -> Result {
        self.set_subsystem(nqn, |subsystem| subsystem.hosts.retain(|known| known.nqn != host))
    }

    fn set_allow_any_host(&self, nqn: &str, allow: bool) -> Result {
        self.set_subsystem(nqn, |subsystem| subsystem.allow_any_host = allow)
    }

    fn set_require_authentication(&self, nqn: &str, required: bool) -> Result {
        self.set_subsystem(nqn, |subsystem| subsystem.require_authentication = required)
    }

    fn set_listener_class(&self, endpoint: Endpoint, class: Option<Class>) -> Result {
        self.set_listener(endpoint, |listener| listener.class = class)
    }

    fn set_listener_link(&self, endpoint: Endpoint, link: Option<&str>) -> Result {
        self.set_listener(endpoint, |listener| listener.link = link.map(str::to_owned))
    }

    fn set_namespace_class(&self, nqn: &str, nsid: u32, class: Option<Class>) -> Result {
        self.inside(nqn, |s| namespace_in(s, nsid).map(|namespace| namespace.class = class))
    }

    fn set_qos(&self, qos: &QosConfig) -> Result {
        self.set(|config| config.qos = qos.clone())
    }

    fn qos_config(&self) -> QosConfig {
        self.config.lock().unwrap().qos.clone()
    }

    fn qos(&self) -> QosState {
        let config = self.config.lock().unwrap();
        let namespaces = config
            .subsystems
            .iter()
            .flat_map(|s| s.namespaces.iter().map(|n| (s.nqn.clone(), n.nsid.unwrap_or(1))));
        let automatic = config.subsystems.iter().map(|s| (s.nqn.clone(), Some("root".into())));
        let of_namespaces = namespaces.clone();
        let automatic =
            automatic.chain(of_namespaces.map(|(nqn, nsid)| (format!("{nqn}/{nsid}"), Some(nqn))));
        let custom = config.qos.sessions.iter().filter(|s| !is_automatic(&s.name));
        let mut sessions = vec![session_state("root", None, true)];
        sessions.extend(automatic.map(|(name, parent)| session_state(&name, parent, true)));
        sessions.extend(custom.map(|session| SessionState {
            limits: SessionLimits { total: session.limits.total, ..SessionLimits::default() },
            reserve: session.reserve.as_ref().map(|reserve| ReserveState {
                namespace: reserve.namespace.clone().unwrap_or_default(),
                terms: reserve.terms.to_string(),
                utilisation: 0.25,
                periods: 12,
                kept: 11,
                missed: [("device", 0), ("depth", 1), ("window", 0), ("order", 0), ("data", 0)],
                last_miss: None,
                floors: String::new(),
                promised: 500,
                late: 2,
            }),
            ..session_state(&session.name, Some("root".into()), false)
        }));
        QosState {
            classes: PerClass::from_fn(|_| traffic()),
            sessions,
            devices: namespaces
                .map(|(subsystem, nsid)| DeviceState {
                    subsystem,
                    nsid,
                    arbitrated: true,
                    window: Some(32.5),
                    bound: None,
                    in_use: 31.25,
                    waiting: PerClass { urgent: 0, high: 3, medium: 2, low: 1 },
                    mean_ns: (100_000, 200_000),
                    reserved: 0.25,
                    profile: Some(Profile::default()),
                })
                .collect(),
        }
    }

    fn reservations_not_in_force(&self) -> BTreeMap<String, String> {
        self.not_in_force.lock().unwrap().clone()
    }

    fn read_host_keys(&self) -> Result<HostKeys> {
        Ok(self.keys_of_files.lock().unwrap().clone())
    }

    fn set_host_keys(&self, keys: HostKeys) -> Vec<String> {
        let mut present = self.host_keys.lock().unwrap();
        differing(&std::mem::replace(&mut *present, keys.clone()), &keys)
    }

    fn host_keys(&self) -> HostKeys {
        self.host_keys.lock().unwrap().clone()
    }

    fn hosts_of_keyring(&self) -> BTreeSet<String> {
        BTreeSet::from(["nqn.2026-01.io.x:h4".to_owned()])
    }

    fn set_network(&self, network: &Network) -> Result {
        self.set(|config| config.network = network.clone())
    }

    fn network_config(&self) -> Network {
        self.config.lock().unwrap().network.clone()
    }

    fn network(&self) -> NetworkState {
        let config = self.network_config();
        NetworkState {
            enabled: config.enabled,
            base: config.base.clone().unwrap_or_else(|| "cubic".into()),
            advice: vec!["turn on ECN: sysctl net.ipv4.tcp_ecn=1".into()],
            links: config.all_links().map(link_state).collect(),
        }
    }

    fn set_regions(&self, regions: &[RegionConfig]) -> Result {
        self.set(|config| config.pmem.regions = regions.to_vec())
    }

    fn pmem_config(&self) -> PmemConfig {
        self.config.lock().unwrap().pmem.clone()
    }

    fn pmem(&self) -> PmemState {
        let config = self.pmem_config();
        let closed = self.closed.lock().unwrap().clone();
        PmemState {
            open: closed.map_or(Ok(()), Err),
            capacity: config.general.capacity_of_all() + 5000,
            reserved: 100_000,
            period: 7,
            regions: config.regions.iter().map(region_state).collect(),
            evicted: Vec::new(),
            profile: Some(ProfileState::Measured { capacity: 1_500_000, deviation: 900 }),
        }
    }

    fn begin_pmem_profile(&self, _: u32) -> Result {
        Ok(())
    }

    fn listeners(&self) -> Vec<ListenerState> {
        let config = self.config.lock().unwrap();
        let closed = self.closed_listeners.lock().unwrap();
        let state = |listener: &Listener| ListenerState {
            listener: listener.clone(),
            closed: closed.get(&listener.endpoint()).cloned(),
        };
        config.listeners.iter().map(state).collect()
    }

    fn file_systems(&self) -> Vec<FileSystem> {
        self.file_systems.lock().unwrap().clone()
    }

    fn unstored(&self) -> Vec<String> {
        self.unstored.lock().unwrap().clone()
    }

    fn namespace_warnings(&self, _: &str, _: u32) -> Vec<String> {
        Vec::new()
    }

    fn subsystems(&self) -> Vec<SubsystemState> {
        let mut all: Vec<_> = self.config.lock().unwrap().subsystems.iter().map(state).collect();
        for (nqn, nsid, state, reason) in self.wrong.lock().unwrap().iter() {
            let named = all.iter_mut().filter(|s| s.nqn == *nqn).flat_map(|s| &mut s.namespaces);
            for namespace in named.filter(|n| n.nsid == *nsid) {
                namespace.state = *state;
                namespace.reason = Some(reason.clone());
            }
        }
        all
    }

    fn connections(&self) -> Vec<ConnectionState> {
        vec![connection()]
    }

    fn begin_trace(&self, filter: TraceFilter) -> Option<u64> {
        let mut trace = self.trace.lock().unwrap();
        trace.is_none().then(|| *trace = Some(filter)).map(|()| 7)
    }

    fn take_traced(&self, trace: u64, ends: bool) -> Option<TracedCommands> {
        let mut running = self.trace.lock().unwrap();
        running.as_ref().filter(|_| trace == 7)?;
        if ends {
            *running = None;
        }
        Some(std::mem::take(&mut *self.traced.lock().unwrap()))
    }

    fn now(&self) -> Nanos {
        Nanos(10_000_000_000)
    }

    fn statistics(&self) -> Statistics {
        std::thread::sleep(*self.slow.lock().unwrap());
        let io = io();
        let [host, subsystem] = ["nqn.2026-01.io.x:h\"0", "nqn.2026-01.io.x:s0"].map(str::to_owned);
        let (of, on) = (host.clone(), subsystem.clone());
        let workload = WorkloadKey { host: of, subsystem: on, nsid: 1, class: Class::High };
        Statistics {
            namespaces: vec![(subsystem.clone(), 1, io.clone())],
            hosts: vec![(host, subsystem, io.clone())],
            queues: vec![(connection(), io.clone())],
            hosts_lost: 0,
            workloads: vec![(workload, io)],
            reactors: vec![ReactorState {
                core: 3,
                connections: 1,
                busy_ns: 1_500_000_000,
                turns: 12,
                calls: 9,
                receives: (8, 576),
                sends: (7, 32_768),
                buffer_used: 4096,
                buffer_total: 1 << 20,
                states: vec![("filling", 2), ("in_device", 7)],
                changes: one_event(40_000),
            }],
            accepted: 5,
            protocol_errors: 1,
            waiting_closed: 3,
            tls_refused: 4,
            connects_refused: RefusalKind::ALL.into_iter().zip(1..).collect(),
            lines_left_out: 6,
            keep_alive_expired: 2,
        }
    }

    fn shutdown(&self, now: bool) {
        *self.ended.lock().unwrap() = Some(now);
    }

    fn is_ending(&self) -> bool {
        self.ended.lock().unwrap().is_some()
    }
}

fn io() -> IoSnapshot {
    let io = IoStats::default();
    for us in [1, 100, 3000] {
        io.read.record(2, 8192, us * 1000);
    }
    io.write.record(1, 512, 90_000_000_000);
    io.write.errors(1);
    io.queueing.record(50_000, 7);
    io.service.record(100_000, 7);
    io.lower(Class::High);
    io.snapshot()
}

fn traffic() -> Traffic {
    Traffic { waiting: 4, refused: 2, io: io() }
}

fn session_state(name: &str, parent: Option<String>, automatic: bool) -> SessionState {
    SessionState {
        name: name.into(),
        parent,
        automatic,
        operations: (7, 65_536),
        payload: (28 << 10, 1 << 40),
        limits: SessionLimits::default(),
        queue: 65_536,
        weight: 100,
        reserve: None,
        wait: 0,
        traffic: traffic(),
    }
}

fn connection() -> ConnectionState {
    ConnectionState {
        id: 9,
        peer: "127.0.0.1:50000".into(),
        listener: "127.0.0.1:4420".into(),
        reactor: 0,
        host: Some("nqn.2026-01.io.x:h0".into()),
        subsystem: Some("nqn.2026-01.io.x:s0".into()),
        controller: Some(1),
        queue: Some(1),
        in_flight: 3,
        digests: (true, false),
        tls: Some("TLS_AES_128_GCM_SHA256".into()),
        authenticated: true,
        network: Some(ConnectionNetwork {
            link: "default".into(),
            class: "high".into(),
            base: "dctcp".into(),
            rtt_us: 450,
            out: flow(Class::High),
            into: flow(Class::Urgent),
        }),
    }
}

/// Makes the flow of a class. Urgent is free: it has no target and no limit.
fn flow(class: Class) -> FlowState {
    let held = class != Class::Urgent;
    FlowState {
        rate: 4.5e9,
        target: held.then_some(5e9),
        limit: held.then_some(4.75e9),
        alpha: 0.125,
        quality: 0.96,
        delivered: 1000,
        marked: 125,
    }
}

fn link_state(link: &LinkConfig) -> LinkState {
    let class = |class: Class| LinkClassState {
        class: class.name().into(),
        flows: 2,
        backlogged: class == Class::High,
        held_for: (class == Class::High).then(|| Class::Medium.name().into()),
        total: flow(class),
    };
    let direction = || DirectionState { classes: Class::ALL.into_iter().map(class).collect() };
    LinkState {
        name: link.name.clone(),
        capacity: link.capacity,
        out: direction(),
        into: direction(),
    }
}

/// Makes the state of a region. Its clients are its hosts. A region whose path contains `missing` is not open.
fn region_state(region: &RegionConfig) -> RegionState {
    let path = region.path.as_ref().map(|path| path.display().to_string());
    let open = match path.filter(|path| path.contains("missing")) {
        Some(path) => Err(format!("{path}: there is no such file")),
        None => Ok(RegionFacts { bytes: region.size.unwrap_or(1 << 30), kind: "memory".into() }),
    };
    let client = |(host, grant): (&String, u64)| RegionClient {
        grant,
        host: host.clone(),
        address: Some("192.0.2.7".into()),
        rights: if region.read_only { "read" } else { "read-write" }.into(),
        reservation: region.reserve,
        limit: region.limit,
        connected: grant % 2 == 1,
        completed: 1_000_000,
        last_period: 99_000,
        missed: 2,
    };
    let clients = region.hosts.iter().zip(1..).map(client).collect();
    RegionState { name: region.name.clone(), open, clients }
}

fn state(subsystem: &Subsystem) -> SubsystemState {
    let bound = subsystem.hosts.iter().filter(|host| !host.sources.is_any());
    let namespaces = subsystem.namespaces.iter();
    SubsystemState {
        nqn: subsystem.nqn.clone(),
        serial: serial(subsystem),
        model: subsystem.model.clone().unwrap_or_default(),
        allow_any_host: subsystem.allow_any_host,
        require_authentication: subsystem.require_authentication,
        hosts: subsystem.hosts.iter().map(|host| host.nqn.clone()).collect(),
        addresses: bound.map(|h| (h.nqn.clone(), h.sources.texts().collect())).collect(),
        rights: limited_hosts(&subsystem.hosts),
        namespaces: namespaces.map(|n| namespace_state(&subsystem.nqn, n)).collect(),
        live: false,
    }
}

/// Returns the serial number that a subsystem has here.
fn serial(subsystem: &Subsystem) -> String {
    subsystem.serial.clone().unwrap_or_else(|| derived_serial(&subsystem.nqn))
}

/// Returns the UUID that a namespace has here.
fn uuid(nqn: &str, namespace: &Namespace) -> Uuid {
    namespace.uuid.unwrap_or_else(|| derived_uuid(nqn, namespace.id()))
}

fn namespace_state(nqn: &str, namespace: &Namespace) -> NamespaceState {
    let backend = &namespace.backend;
    let (size, block_size) = match *backend {
        Backend::Null { size, block_size, .. } | Backend::Memory { size, block_size } => {
            (size, block_size)
        }
        Backend::File { size, block_size, .. } | Backend::Pmem { size, block_size, .. } => {
            (size.unwrap_or(77 * 4096), block_size.unwrap_or(4096))
        }
        Backend::Nvme { .. } => (88 * 4096, 4096),
    };
    let uuid = uuid(nqn, namespace);
    NamespaceState {
        nsid: namespace.nsid.unwrap_or_default(),
        backend: backend.kind().into(),
        path: backend.path().map(|path| path.display().to_string()),
        size,
        block_size,
        uuid: uuid.to_string(),
        nguid: format_nguid(&namespace.nguid.unwrap_or_else(|| derived_nguid(uuid))),
        read_only: namespace.read_only,
        hosts: namespace.hosts.clone(),
        ..NamespaceState::default()
    }
}

/// Sorts objects, whose order means nothing.
pub(crate) fn sorted(config: &Config) -> Config {
    let mut config = config.clone();
    config.qos.sessions.sort_by_key(|session| session.name.clone());
    config.qos.profiles.sort_by_key(|profile| profile.name.clone());
    config.qos.policies.sort_by_key(|policy| policy.scope());
    config.network.links.sort_by_key(|link| link.name.clone());
    config.pmem.regions.sort_by_key(|region| region.name.clone());
    config.listeners.sort_by_key(|listener| listener.address);
    config.subsystems.sort_by_key(|subsystem| subsystem.nqn.clone());
    for subsystem in &mut config.subsystems {
        subsystem.hosts.sort_by_key(|host| host.nqn.clone());
        subsystem.namespaces.sort_by_key(|namespace| namespace.nsid);
    }
    config
}

fn one_event(ns: u64) -> HistogramSnapshot {
    let histogram = Histogram::default();
    histogram.record(ns, 1);
    histogram.snapshot()
}
