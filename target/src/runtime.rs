//! The running target: starts the threads, and carries out what the control plane asks for.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use arbitration::Class;
use arbitration::container::Scheduler;
use arbitration::device::{ContainerRules, DeviceRules};
use arbitration::reservation::Overrides;
use arbitration::settings::{OrderSettings, Weights, WindowRule};
use fabric::Nanos;
use fabric::controller::{
    AddressFamily, BackendId, ConfigError, ConnectionId, DeviceIdentity, Geometry, ListenerId,
    ListenerSpec, Namespace as FabricNamespace, NamespaceFeatures, Readiness, Service,
    ServiceConfig, SubsystemSpec, TransportType,
};
use fabric::nvme::identify::OptionalCommands;
use nix::sys::socket::{Shutdown, shutdown};

use crate::backend::{Backend, BackendError, Description};
use crate::backings::{Backings, Occasion};
use crate::config::{
    self, Config, Listener, Namespace, Network, QosConfig, Subsystem, derived_nguid,
    derived_serial, derived_uuid,
};
use crate::engine::{
    ConnectionState, Engine, EngineError, Loss, NetworkState, QosState, Statistics, SubsystemState,
};
use crate::reactor::Reactor;
use crate::reactor::mailbox::Message;
use crate::shared::{ReactorGauges, Registered, Shared, lock};
use crate::store::SeenNamespaces;
use crate::{socket, threads};
use sluice_core::RETRY_DELAYS;

use namespaces::{Namespaces, set_size};

mod hurt;
mod keeper;
mod namespaces;

/// Model number of a subsystem that was given none.
const MODEL: &str = "Sluicegate";

/// A running target.
#[derive(Debug)]
pub struct Runtime {
    shared: Arc<Shared>,
    listeners: Mutex<Vec<Listening>>,
    namespaces: Namespaces,
    next_listener: AtomicU32,
    /// One change of the configuration at a time.
    change: Mutex<()>,
    backings: Backings,
    stopping: Arc<AtomicBool>,
    threads: Mutex<Threads>,
}

#[derive(Debug)]
struct Listening {
    id: ListenerId,
    listener: Listener,
    /// The same socket that the reactor accepts from.
    socket: OwnedFd,
}

#[derive(Debug, Default)]
struct Threads {
    reactors: Vec<JoinHandle<()>>,
    /// The timers' and the network's.
    helpers: Vec<JoinHandle<()>>,
    /// The one that keeps namespaces.
    keeper: Option<JoinHandle<()>>,
}

impl Runtime {
    /// Starts the reactors and everything that the configuration names. A namespace whose device
    /// does not open is there all the same: hosts are told to come again, and the device is tried
    /// until it opens. `seen` is what was seen of the namespaces' files and devices earlier.
    ///
    /// # Errors
    /// The kernel lacks what a reactor needs, an address cannot be listened on, or a subsystem is
    /// refused.
    pub fn start(config: &Config, seen: SeenNamespaces) -> anyhow::Result<Arc<Self>> {
        let settings = config.target.clone();
        let backings = Backings::new(&settings, seen);
        let service = Service::new(ServiceConfig {
            max_transfer: settings.max_transfer,
            in_capsule_data: settings.in_capsule_data,
            queue_entries: settings.queue_depth,
            admin_queue_entries: settings.admin_queue_depth,
            max_queues: settings.max_queues,
            // A device may take this long to settle what was in it at a reset; CAP.TO is 15 s.
            quiesce_limit: Duration::from_secs(12),
            weighted_round_robin: config.qos.general.enabled && config.qos.general.wrr,
            arbitration: arbitration_feature(&config.qos.general.order),
            retry_delays: RETRY_DELAYS.hundreds_of_ms(),
            max_namespaces: max_namespaces(settings.max_transfer),
            ..ServiceConfig::default()
        })?;
        let cores = settings.cores.clone();
        let shared =
            Arc::new(Shared::new(settings, cores.len(), service, &config.qos, &config.network)?);
        let runtime = Arc::new(Self {
            shared,
            listeners: Mutex::default(),
            namespaces: Namespaces::new()?,
            next_listener: AtomicU32::new(1),
            change: Mutex::default(),
            backings,
            stopping: Arc::default(),
            threads: Mutex::default(),
        });
        runtime.shared.network.announce();
        let started = runtime.start_threads(&cores).and_then(|()| {
            runtime.populate(config)?;
            let keeper = keeper::start(&runtime);
            let keeper = keeper.context("cannot start the thread that keeps namespaces")?;
            lock(&runtime.threads).keeper = Some(keeper);
            Ok(())
        });
        if let Err(error) = started {
            runtime.shutdown(true);
            runtime.wait();
            return Err(error);
        }
        Ok(runtime)
    }

    fn start_threads(&self, cores: &[usize]) -> anyhow::Result<()> {
        let (ready, started) = mpsc::channel();
        for (index, &core) in cores.iter().enumerate() {
            let (shared, ready) = (Arc::clone(&self.shared), ready.clone());
            let thread = std::thread::Builder::new()
                .name(format!("reactor-{index}"))
                .spawn(move || run_reactor(shared, index, core, &ready))
                .context("cannot start a reactor thread")?;
            lock(&self.threads).reactors.push(thread);
        }
        drop(ready);
        for _ in cores {
            started.recv().unwrap_or_else(|_| Err(anyhow!("a reactor ended at its start")))?;
        }
        let (shared, stopping) = (Arc::clone(&self.shared), Arc::clone(&self.stopping));
        let timer = std::thread::Builder::new()
            .name("timers".to_owned())
            .spawn(move || shared.run_timers(|| stopping.load(Ordering::Relaxed)))
            .context("cannot start the timer thread")?;
        let (shared, stopping) = (Arc::clone(&self.shared), Arc::clone(&self.stopping));
        let poller = std::thread::Builder::new()
            .name("network".to_owned())
            .spawn(move || shared.network.run(&shared.clock, || stopping.load(Ordering::Relaxed)))
            .context("cannot start the network's thread")?;
        lock(&self.threads).helpers.extend([timer, poller]);
        Ok(())
    }

    fn populate(&self, config: &Config) -> anyhow::Result<()> {
        for subsystem in &config.subsystems {
            let bare = Subsystem { namespaces: Vec::new(), ..subsystem.clone() };
            self.add_subsystem(&bare).with_context(|| format!("subsystem {}", subsystem.nqn))?;
            for namespace in &subsystem.namespaces {
                self.start_namespace(&subsystem.nqn, namespace)?;
            }
        }
        // Before the first host comes.
        if let Err(error) = self.backings.keep() {
            tracing::warn!(%error, "what was seen of files and devices is not kept");
        }
        self.backings.forget_others(config);
        for listener in &config.listeners {
            self.add_listener(listener)?;
        }
        Ok(())
    }

    /// Adds a namespace of the configuration, whether its device is there or not.
    fn start_namespace(&self, nqn: &str, namespace: &Namespace) -> anyhow::Result<()> {
        let _one = lock(&self.change);
        let nsid = namespace.nsid.unwrap_or_else(|| self.lowest_free_nsid(nqn));
        match self.open(nqn, nsid, namespace, Occasion::Configured) {
            Ok(backend) => self.install((nqn, nsid), namespace, backend),
            Err(error) => self.install_absent((nqn, nsid), namespace, error.to_string()),
        }
        .with_context(|| format!("namespace {nsid} of {nqn}"))
    }

    /// Waits until the target has ended.
    pub fn wait(&self) {
        let reactors = std::mem::take(&mut lock(&self.threads).reactors);
        for thread in reactors {
            let _ = thread.join();
        }
        self.stopping.store(true, Ordering::Relaxed);
        let helpers = std::mem::take(&mut lock(&self.threads).helpers);
        for thread in helpers {
            let _ = thread.join();
        }
        let keeper = lock(&self.threads).keeper.take();
        if let Some(thread) = keeper {
            keeper::join(self, thread);
        }
    }

    /// Whether all reactors have turned within `limit` (they do so every 100 ms).
    #[must_use]
    pub fn is_alive(&self, limit: Duration) -> bool {
        let now = self.shared.clock.now();
        let seen = |gauges: &ReactorGauges| Nanos(gauges.seen.load(Ordering::Relaxed));
        self.shared.gauges.iter().all(|gauges| now.since(seen(gauges)) < limit)
    }

    /// Opens what a namespace is kept on.
    fn open(
        &self,
        nqn: &str,
        nsid: u32,
        namespace: &Namespace,
        occasion: Occasion,
    ) -> Result<Arc<dyn Backend>, EngineError> {
        if matches!(namespace.backend, config::Backend::Nvme { .. })
            && !self.shared.passthrough.load(Ordering::Relaxed)
        {
            return Err(EngineError::System(
                "this kernel's io_uring has no passthrough (URING_CMD, Linux 5.19): use \
                 backend = \"block\" on the block device, or a newer kernel"
                    .to_owned(),
            ));
        }
        Ok(self.backings.open(nqn, nsid, namespace, occasion)?)
    }

    /// How a namespace's device is shared, by the present settings.
    fn rules_of(&self, namespace: &Namespace) -> DeviceRules {
        let general = self.shared.qos.snapshot().general.clone();
        let mut rules = device_rules(namespace, general.window);
        if !general.enabled {
            rules.window = WindowRule::Off;
        }
        rules
    }

    fn add_namespace_locked(
        &self,
        nqn: &str,
        namespace: &Namespace,
        occasion: Occasion,
    ) -> Result<u32, EngineError> {
        let nsid = namespace.nsid.unwrap_or_else(|| self.lowest_free_nsid(nqn));
        if self.shared.with_service(|service| service.namespace(nqn, nsid).is_some()) {
            let message = format!("namespace {nsid} of {nqn} is there already");
            return Err(EngineError::Exists(message));
        }
        let backend = self.open(nqn, nsid, namespace, occasion)?;
        self.install((nqn, nsid), namespace, backend)?;
        Ok(nsid)
    }

    /// Adds a namespace that somebody asks for. It is not added where what was seen of it cannot be
    /// kept: the next start could not tell it from one that is new.
    fn add_namespace_now(&self, nqn: &str, namespace: &Namespace) -> Result<u32, EngineError> {
        let nsid = self.add_namespace_locked(nqn, namespace, Occasion::Added)?;
        if let Err(error) = self.backings.keep() {
            self.remove_namespace_locked(nqn, nsid)?;
            return Err(EngineError::System(format!("it is not added: {error}")));
        }
        Ok(nsid)
    }

    /// Adds what connections get of the network. Not under the lock of the connections, which
    /// reactors take.
    fn add_network<'a>(&self, states: impl IntoIterator<Item = &'a mut ConnectionState>) {
        for state in states {
            state.network = self.shared.network.connection(ConnectionId(state.id));
        }
    }

    fn lowest_free_nsid(&self, nqn: &str) -> u32 {
        self.shared.with_service(|service| service.free_nsid(nqn)).unwrap_or(1)
    }
}

/// Ends the process if its thread panics. A daemon that lacks one of its reactors would take
/// connections and serve none of them; and the kernel may hold that reactor's memory.
struct WholeOrNothing;

impl Drop for WholeOrNothing {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// The body of a reactor's thread.
fn run_reactor(
    shared: Arc<Shared>,
    index: usize,
    core: usize,
    ready: &mpsc::Sender<anyhow::Result<()>>,
) {
    let cpus = threads::allowed().unwrap_or_default();
    if let Err(error) = threads::pin(core) {
        tracing::warn!(core, %error, "the reactor is not pinned to its core");
    }
    if let Some(gauges) = shared.gauges.get(index) {
        gauges.core.store(core as u64, Ordering::Relaxed);
    }
    match Reactor::new(shared, index, &cpus) {
        Ok(reactor) => {
            let _ = ready.send(Ok(()));
            let whole = WholeOrNothing;
            if let Err(error) = reactor.run() {
                tracing::error!(index, %error, "a reactor has failed: the daemon ends");
                std::process::abort();
            }
            drop(whole);
        }
        Err(error) => {
            let _ = ready.send(Err(error.into()));
        }
    }
}

/// What the Arbitration feature (01h) tells hosts: burst 2:0 as a power of two (111b: no limit),
/// and the weights, each less 1, of Low 15:8, Medium 23:16 and High 31:24.
fn arbitration_feature(order: &OrderSettings) -> u32 {
    let weight = |weight: u16| u32::from(weight.clamp(1, 256)) - 1;
    let burst = if order.burst > 64 { 0b111 } else { order.burst.max(1).ilog2() };
    let Weights { high, medium, low } = order.weights;
    burst | weight(low) << 8 | weight(medium) << 16 | weight(high) << 24
}

/// Namespaces that a subsystem may have: a Linux host does without ANA, and so without several
/// paths, where the log of all that there may be (16 bytes, 32 for the group, 4 for each) is more
/// than one transfer.
fn max_namespaces(max_transfer: u32) -> u32 {
    (max_transfer.saturating_sub(48) / 4).clamp(1, config::NSID_MAX)
}

/// How a namespace's device is shared; `window` where it has no setting of its own.
fn device_rules(namespace: &Namespace, window: WindowRule) -> DeviceRules {
    /// Commands that an order by place chooses from.
    const CHOSEN: usize = 256;
    /// The deadline of a single command where nothing is said: a seek of a disk or two.
    const DEADLINE: Duration = Duration::from_millis(20);
    let settings = &namespace.device;
    let nanos = |time: Duration| arbitration::Nanos(arbitration::nanos(time));
    let model = match &namespace.backend {
        config::Backend::Null { model, .. } => *model,
        _ => None,
    };
    let containers = (settings.order == config::Order::Containers).then(|| ContainerRules {
        scheduler: Scheduler::Containers,
        capacity: CHOSEN,
        deadline_ns: arbitration::nanos(settings.latency_target.unwrap_or(DEADLINE)),
    });
    DeviceRules {
        window: settings.window.unwrap_or(window),
        containers,
        profile: Overrides {
            mean: settings.mean_time.or(model.map(|m| m.service_time)).map(nanos),
            // A model takes an eighth longer at the worst.
            worst: settings.worst_time.or(model.map(|m| m.service_time / 8 * 9)).map(nanos),
            parallelism: settings.parallelism.or(model.map(|m| m.channels)),
            seeks: settings.order == config::Order::Containers,
        },
    }
}

/// A namespace as hosts are to see it.
fn describe(
    nqn: &str,
    nsid: u32,
    namespace: &Namespace,
    id: BackendId,
    backend: &dyn Backend,
) -> FabricNamespace {
    let description = backend.description();
    let uuid = namespace.uuid.unwrap_or_else(|| derived_uuid(nqn, nsid));
    FabricNamespace {
        nsid,
        uuid: uuid.into_bytes(),
        nguid: namespace.nguid.unwrap_or_else(|| derived_nguid(uuid)),
        geometry: Geometry { format: description.format, blocks: backend.health().blocks() },
        features: features(description, namespace.read_only),
        hosts: namespace.hosts.clone(),
        backend: id,
        readiness: Readiness::Ready,
        identify: description.identify.clone(),
        device: description.controller.as_deref().map(device_identity),
    }
}

fn features(description: &Description, read_only: bool) -> NamespaceFeatures {
    let can = &description.abilities;
    let mut features = NamespaceFeatures::FUA;
    for (flag, set) in [
        (NamespaceFeatures::VOLATILE_CACHE, can.volatile_cache),
        (NamespaceFeatures::DEALLOCATE, can.deallocate),
        (NamespaceFeatures::WRITE_ZEROES, can.write_zeroes),
        (NamespaceFeatures::COMPARE, can.compare),
        (NamespaceFeatures::VERIFY, can.verify),
        (NamespaceFeatures::READ_ONLY, read_only),
        (NamespaceFeatures::ZEROES_AFTER_DEALLOCATE, can.zeroes_after_deallocate),
    ] {
        features.set(flag, set);
    }
    features
}

/// What Identify Controller of a real device says that shows through: MDTS (byte 77), ONCS
/// (bytes 521:520), VWC (byte 525).
fn device_identity(identify: &[u8; 4096]) -> DeviceIdentity {
    let byte = |at: usize| identify.get(at).copied().unwrap_or(0);
    DeviceIdentity {
        max_transfer: match byte(77) {
            0 => 0,
            shift => 4096u32.checked_shl(u32::from(shift)).unwrap_or(0),
        },
        volatile_cache: byte(525) & 1 == 1,
        commands: OptionalCommands::from_bits_truncate(u16::from_le_bytes([byte(520), byte(521)])),
    }
}

/// The service's refusal as the control plane tells it.
fn refused(error: ConfigError) -> EngineError {
    let text = error.to_string();
    match error {
        ConfigError::NoSubsystem(_)
        | ConfigError::NoNamespace { .. }
        | ConfigError::NoHost { .. }
        | ConfigError::NoListener(_) => EngineError::NotFound(text),
        ConfigError::SubsystemExists(_)
        | ConfigError::NamespaceExists { .. }
        | ConfigError::HostExists { .. }
        | ConfigError::ListenerExists(_) => EngineError::Exists(text),
        _ => EngineError::Invalid(text),
    }
}

fn backend_refused(error: BackendError) -> EngineError {
    EngineError::Invalid(error.to_string())
}

impl Engine for Runtime {
    fn add_subsystem(&self, subsystem: &Subsystem) -> Result<(), EngineError> {
        let _one = lock(&self.change);
        let nqn = &subsystem.nqn;
        let spec = SubsystemSpec {
            nqn: nqn.clone(),
            serial: subsystem.serial.clone().unwrap_or_else(|| derived_serial(nqn)),
            model: subsystem.model.clone().unwrap_or_else(|| MODEL.to_owned()),
            allow_any_host: subsystem.allow_any_host,
            hosts: subsystem.hosts.clone(),
        };
        let now = self.shared.clock.now();
        self.shared.with_service(|service| service.add_subsystem(now, spec)).map_err(refused)?;
        self.shared.qos.add_subsystem(self.shared.clock.now(), nqn);
        for namespace in &subsystem.namespaces {
            if let Err(error) = self.add_namespace_now(nqn, namespace) {
                self.remove_subsystem_locked(nqn)?;
                return Err(error);
            }
        }
        Ok(())
    }

    fn remove_subsystem(&self, nqn: &str) -> Result<(), EngineError> {
        let _one = lock(&self.change);
        self.remove_subsystem_locked(nqn)
    }

    fn add_namespace(&self, nqn: &str, namespace: &Namespace) -> Result<u32, EngineError> {
        let _one = lock(&self.change);
        self.add_namespace_now(nqn, namespace)
    }

    fn remove_namespace(&self, nqn: &str, nsid: u32) -> Result<(), EngineError> {
        let _one = lock(&self.change);
        self.remove_namespace_locked(nqn, nsid)
    }

    fn resize_namespace(
        &self,
        nqn: &str,
        nsid: u32,
        size: Option<u64>,
    ) -> Result<u64, EngineError> {
        let _one = lock(&self.change);
        if let Some(why) = self.why_unavailable(nqn, nsid) {
            return Err(EngineError::Invalid(format!(
                "namespace {nsid} of {nqn} is not available: {why}; it can have another size when \
                 its device is there"
            )));
        }
        let missing = || EngineError::NotFound(format!("subsystem {nqn} has no namespace {nsid}"));
        let id = self
            .shared
            .with_service(|service| service.namespace(nqn, nsid).map(|n| n.backend))
            .ok_or_else(missing)?;
        let device = self.shared.devices.get(id).ok_or_else(missing)?;
        let format = device.backend.description().format;
        if let Some(size) = size
            && (size == 0 || !format.divides(size))
        {
            return Err(EngineError::Invalid(format!(
                "{size} bytes is not a size: give a multiple of the block size, {} bytes",
                format.data_bytes()
            )));
        }
        // A namespace shrinks before its device does, and grows after it.
        let now = self.shared.clock.now();
        let resize = |blocks| {
            self.shared.with_service(|service| service.resize_namespace(now, nqn, nsid, blocks))
        };
        let wanted = size.map(|size| format.blocks(size));
        if let Some(blocks) = wanted.filter(|&blocks| blocks < device.backend.health().blocks()) {
            resize(blocks).map_err(refused)?;
        }
        let blocks = device.backend.resize(wanted).map_err(backend_refused)?;
        resize(blocks).map_err(refused)?;
        self.backings.resized(nqn, nsid, format.bytes(blocks));
        self.namespaces.reconfigure(nqn, nsid, |known| set_size(&mut known.backend, size));
        Ok(format.bytes(blocks))
    }

    fn retry_namespaces(&self, nqn: Option<&str>, nsid: Option<u32>) {
        self.retry(nqn, nsid);
    }

    fn hosts_hurt(&self, loss: &Loss<'_>) -> Vec<String> {
        hurt::hosts(self, loss)
    }

    fn add_listener(&self, listener: &Listener) -> Result<(), EngineError> {
        let _one = lock(&self.change);
        let mut listeners = lock(&self.listeners);
        if listeners.iter().any(|other| other.listener.address == listener.address) {
            return Err(EngineError::Exists(format!(
                "there is a listener on {} already",
                listener.address
            )));
        }
        let network = &self.shared.network;
        let socket = socket::listen_on(listener.address, |socket| network.prepare(socket))
            .map_err(|error| EngineError::System(socket::refusal(listener.address, &error)))?;
        let ours = socket.try_clone().map_err(|e| EngineError::System(e.to_string()))?;
        let id = ListenerId(self.next_listener.fetch_add(1, Ordering::Relaxed));
        let now = self.shared.clock.now();
        self.shared.qos.set_listener(self.shared.clock.now(), id, listener.class);
        network.set_listener(id, listener.link.as_deref());
        let spec = listener_spec(id, listener);
        self.shared.with_service(|service| service.add_listener(now, spec)).map_err(refused)?;
        if let Some(mailbox) = self.shared.mailboxes.first() {
            mailbox.post(Message::Listen { listener: id, socket });
        }
        listeners.push(Listening { id, listener: listener.clone(), socket: ours });
        Ok(())
    }

    fn remove_listener(&self, address: SocketAddr) -> Result<(), EngineError> {
        let _one = lock(&self.change);
        let mut listeners = lock(&self.listeners);
        let position = listeners.iter().position(|other| other.listener.address == address);
        let Some(Listening { id, socket, .. }) = position.map(|at| listeners.remove(at)) else {
            return Err(EngineError::NotFound(format!("there is no listener on {address}")));
        };
        // It listens no more from here on, whenever the reactor comes to close it: the address is
        // free for another.
        let _ = shutdown(socket.as_raw_fd(), Shutdown::Both);
        if let Some(mailbox) = self.shared.mailboxes.first() {
            mailbox.post(Message::Unlisten(id));
        }
        self.shared.qos.set_listener(self.shared.clock.now(), id, None);
        self.shared.network.set_listener(id, None);
        let now = self.shared.clock.now();
        self.shared.with_service(|service| service.remove_listener(now, id)).map_err(refused)?;
        Ok(())
    }

    fn add_host(&self, nqn: &str, host: &str) -> Result<(), EngineError> {
        let now = self.shared.clock.now();
        self.shared.with_service(|service| service.add_host(now, nqn, host)).map_err(refused)
    }

    fn remove_host(&self, nqn: &str, host: &str) -> Result<(), EngineError> {
        let now = self.shared.clock.now();
        self.shared.with_service(|service| service.remove_host(now, nqn, host)).map_err(refused)
    }

    fn set_allow_any_host(&self, nqn: &str, allow: bool) -> Result<(), EngineError> {
        let now = self.shared.clock.now();
        self.shared
            .with_service(|service| service.set_allow_any_host(now, nqn, allow))
            .map_err(refused)
    }

    fn set_listener_class(
        &self,
        address: SocketAddr,
        class: Option<Class>,
    ) -> Result<(), EngineError> {
        let mut listeners = lock(&self.listeners);
        let listening = listeners.iter_mut().find(|l| l.listener.address == address);
        let missing = || EngineError::NotFound(format!("there is no listener {address}"));
        let listening = listening.ok_or_else(missing)?;
        listening.listener.class = class;
        self.shared.qos.set_listener(self.shared.clock.now(), listening.id, class);
        self.shared.refresh();
        Ok(())
    }

    fn set_listener_link(
        &self,
        address: SocketAddr,
        link: Option<&str>,
    ) -> Result<(), EngineError> {
        let mut listeners = lock(&self.listeners);
        let listening = listeners.iter_mut().find(|l| l.listener.address == address);
        let missing = || EngineError::NotFound(format!("there is no listener {address}"));
        let listening = listening.ok_or_else(missing)?;
        listening.listener.link = link.map(str::to_owned);
        self.shared.network.set_listener(listening.id, link);
        Ok(())
    }

    fn set_namespace_class(
        &self,
        nqn: &str,
        nsid: u32,
        class: Option<Class>,
    ) -> Result<(), EngineError> {
        // One that is not available has it when it is.
        let known = self.namespaces.reconfigure(nqn, nsid, |known| known.class = class);
        if self.shared.qos.set_namespace(self.shared.clock.now(), nqn, nsid, class) {
            self.shared.refresh();
        }
        if known {
            return Ok(());
        }
        Err(EngineError::NotFound(format!("there is no namespace {nsid} in {nqn}")))
    }

    fn set_qos(&self, qos: &QosConfig) -> Result<(), EngineError> {
        let _one = lock(&self.change);
        let now = self.shared.clock.now();
        self.shared.qos.set(now, qos).map_err(EngineError::Invalid)?;
        let feature = arbitration_feature(&qos.general.order);
        self.shared.with_service(|service| service.set_arbitration(feature));
        self.shared.refresh();
        Ok(())
    }

    fn qos_config(&self) -> QosConfig {
        self.shared.qos.config()
    }

    fn qos(&self) -> QosState {
        self.shared.qos.state()
    }

    fn set_network(&self, network: &Network) -> Result<(), EngineError> {
        let _one = lock(&self.change);
        self.shared.network.set(network).map_err(EngineError::Invalid)
    }

    fn network_config(&self) -> Network {
        self.shared.network.config()
    }

    fn network(&self) -> NetworkState {
        self.shared.network.state()
    }

    fn listeners(&self) -> Vec<Listener> {
        lock(&self.listeners).iter().map(|listening| listening.listener.clone()).collect()
    }

    fn subsystems(&self) -> Vec<SubsystemState> {
        // Reactors want the service too: what there may be thousands of is looked at outside.
        let all: Vec<(SubsystemSpec, Vec<Arc<FabricNamespace>>)> =
            self.shared.with_service(|service| {
                let namespaces = |all: Vec<&Arc<_>>| all.into_iter().map(Arc::clone).collect();
                let subsystems = service.subsystems();
                subsystems.map(|s| (s.spec.clone(), namespaces(s.namespaces))).collect()
            });
        let state =
            |(spec, namespaces): (SubsystemSpec, Vec<Arc<FabricNamespace>>)| SubsystemState {
                serial: spec.serial,
                model: spec.model,
                allow_any_host: spec.allow_any_host,
                hosts: spec.hosts,
                namespaces: self.namespace_states(&spec.nqn, &namespaces),
                nqn: spec.nqn,
            };
        all.into_iter().map(state).collect()
    }

    fn connections(&self) -> Vec<ConnectionState> {
        let mut all: Vec<_> = lock(&self.shared.connections).values().map(state).collect();
        self.add_network(&mut all);
        all.sort_by_key(|connection| connection.id);
        all
    }

    fn statistics(&self) -> Statistics {
        let mut queues = Vec::new();
        let connections = lock(&self.shared.connections);
        let mut hosts = lock(&self.shared.ended).snapshot();
        for registered in connections.values() {
            let state = state(registered);
            if let Some(host) = state.host_key() {
                let seen = registered.stats.snapshot();
                hosts.entry(host).or_default().merge(&seen);
                queues.push((state, seen));
            }
        }
        drop(connections);
        self.add_network(queues.iter_mut().map(|(state, _)| state));
        queues.sort_by_key(|(state, _)| state.id);
        let events = &self.shared.events;
        Statistics {
            namespaces: self.namespaces.statistics(),
            hosts: hosts.into_iter().map(|((host, nqn), seen)| (host, nqn, seen)).collect(),
            queues,
            reactors: self.shared.gauges.iter().map(|gauges| gauges.state()).collect(),
            accepted: events.accepted.load(Ordering::Relaxed),
            protocol_errors: events.protocol_errors.load(Ordering::Relaxed),
            keep_alive_expired: events.keep_alive_expired.load(Ordering::Relaxed),
        }
    }

    fn shutdown(&self, now: bool) {
        let time = self.shared.clock.now();
        self.shared.with_service(|service| service.begin_shutdown(time));
        for mailbox in &self.shared.mailboxes {
            mailbox.post(Message::Stop { now });
        }
    }
}

impl Runtime {
    fn remove_namespace_locked(&self, nqn: &str, nsid: u32) -> Result<(), EngineError> {
        let now = self.shared.clock.now();
        let removed = self.shared.with_service(|service| service.remove_namespace(now, nqn, nsid));
        let backend = removed.map_err(refused)?.backend;
        self.namespaces.forget(nqn, nsid);
        self.shared.qos.remove_namespace(self.shared.clock.now(), nqn, nsid);
        self.shared.refresh();
        self.retire(&[backend]);
        self.backings.forget(|place| place == &(nqn.to_owned(), nsid));
        Ok(())
    }

    fn remove_subsystem_locked(&self, nqn: &str) -> Result<(), EngineError> {
        let now = self.shared.clock.now();
        let backends: Vec<BackendId> = self.shared.with_service(|service| {
            service
                .subsystem(nqn)
                .map(|s| s.namespaces.iter().map(|n| n.backend).collect())
                .unwrap_or_default()
        });
        self.shared.with_service(|service| service.remove_subsystem(now, nqn)).map_err(refused)?;
        self.namespaces.forget_all_of(nqn);
        self.shared.qos.remove_subsystem(self.shared.clock.now(), nqn);
        self.shared.refresh();
        self.retire(&backends);
        self.backings.forget(|(other, _)| other == nqn);
        Ok(())
    }

    /// Closes devices once no reactor has them any more, here and not on a reactor: giving a lot
    /// of memory back takes its time.
    fn retire(&self, backends: &[BackendId]) {
        const LONGEST: Duration = Duration::from_secs(5);
        const NAP: Duration = Duration::from_millis(2);
        let mut nap = Duration::from_micros(20);
        let start = Instant::now();
        for device in self.shared.remove_devices(backends) {
            while Arc::strong_count(&device) > 1 && start.elapsed() < LONGEST {
                std::thread::sleep(nap);
                nap = (nap * 2).min(NAP);
            }
        }
    }
}

/// A connection as it is now.
fn state(registered: &Registered) -> ConnectionState {
    ConnectionState {
        in_flight: registered.in_flight.load(Ordering::Relaxed),
        ..registered.state.clone()
    }
}

fn listener_spec(id: ListenerId, listener: &Listener) -> ListenerSpec {
    let address = listener.advertise.unwrap_or(listener.address);
    ListenerSpec {
        id,
        transport: TransportType::Tcp,
        traddr: address.ip().to_string(),
        family: if address.is_ipv4() { AddressFamily::Ipv4 } else { AddressFamily::Ipv6 },
        trsvcid: address.port().to_string(),
        discovery_only: listener.discovery_only,
        subsystems: listener.subsystems.clone(),
    }
}

#[cfg(test)]
mod tests;
