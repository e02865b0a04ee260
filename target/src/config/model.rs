//! The configuration's values. Sizes are in bytes, times are durations, however they were
//! written in the file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use arbitration::reservation::Terms;
use arbitration::settings::{Marks, OrderSettings, WindowRule, default_marks};
use arbitration::{Class, PerClass};
use uuid::Uuid;

/// A whole configuration file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// `[target]`: what concerns the daemon as a whole.
    pub target: Target,
    /// `[qos]`, `[[session]]`, `[[policy]]`.
    pub qos: QosConfig,
    /// `[network]`, `[[link]]`.
    pub network: Network,
    /// `[[listener]]`.
    pub listeners: Vec<Listener>,
    /// `[[subsystem]]`.
    pub subsystems: Vec<Subsystem>,
}

/// `[target]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// `cores`: CPU numbers, one reactor thread pinned to each.
    pub cores: Vec<usize>,
    /// `poll`.
    pub poll: Poll,
    /// `poll_time`: with `poll = "adaptive"`, how long a reactor without work keeps polling.
    pub poll_time: Duration,
    /// `io_memory`: bytes of I/O buffers for each reactor.
    pub io_memory: u64,
    /// `max_transfer`: the largest data transfer of one command in bytes; a power of two.
    pub max_transfer: u32,
    /// `in_capsule_data`: the largest in-capsule data of an I/O command in bytes.
    pub in_capsule_data: u32,
    /// `queue_depth`: entries of the largest I/O queue.
    pub queue_depth: u16,
    /// `admin_queue_depth`: entries of the largest admin queue.
    pub admin_queue_depth: u16,
    /// `max_queues`: I/O queues for each controller.
    pub max_queues: u16,
    /// `max_connections`: TCP connections at one time, all listeners together.
    pub max_connections: u32,
    /// `state`: file in which live changes are kept; none: they do not survive a restart.
    pub state: Option<PathBuf>,
    /// `control`: path of the control socket.
    pub control: PathBuf,
    /// `metrics`: address of the OpenMetrics endpoint; none: not served.
    pub metrics: Option<SocketAddr>,
    /// `drain_time`: how long SIGTERM waits for commands in flight.
    pub drain_time: Duration,
}

impl Default for Target {
    fn default() -> Self {
        Self {
            cores: vec![0],
            poll: Poll::Adaptive,
            poll_time: Duration::from_micros(50),
            io_memory: 64 << 20,
            max_transfer: 1 << 20,
            in_capsule_data: 8192,
            queue_depth: 256,
            admin_queue_depth: 128,
            max_queues: 64,
            max_connections: 4096,
            state: None,
            control: PathBuf::from("/run/sluicegate/control.sock"),
            metrics: None,
            drain_time: Duration::from_secs(10),
        }
    }
}

/// What a reactor does when it has no work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Poll {
    /// Polls for a while, then sleeps until something happens.
    #[default]
    Adaptive,
    /// Never sleeps.
    Always,
    /// Sleeps at once.
    Never,
}

/// `[[listener]]`: an address on which hosts connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// `transport`.
    pub transport: Transport,
    /// `address`: IP address and port.
    pub address: SocketAddr,
    /// `advertise`: the address that discovery hands out where it differs from `address`
    /// (NAT, or a listener on all interfaces).
    pub advertise: Option<SocketAddr>,
    /// `discovery_only`: no I/O controllers here (port 8009).
    pub discovery_only: bool,
    /// `subsystems`: NQNs served here; none: all.
    pub subsystems: Option<Vec<String>>,
    /// `class`: of connections that come through it and name none themselves.
    pub class: Option<Class>,
    /// `link`: the name of the link that its connections share; none: the default one.
    pub link: Option<String>,
}

/// A listener's transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// NVMe/TCP.
    #[default]
    Tcp,
}

/// `[[subsystem]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subsystem {
    /// `nqn`.
    pub nqn: String,
    /// `serial`: up to 20 ASCII characters; derived from the NQN where not given.
    pub serial: Option<String>,
    /// `model`: up to 40 ASCII characters.
    pub model: Option<String>,
    /// `allow_any_host`.
    pub allow_any_host: bool,
    /// `hosts`: NQNs of the hosts that may connect.
    pub hosts: Vec<String>,
    /// `[[subsystem.namespace]]`.
    pub namespaces: Vec<Namespace>,
}

/// `[[subsystem.namespace]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// `nsid`: 1 or more; none: the lowest that is free.
    pub nsid: Option<u32>,
    /// `backend` and its own settings.
    pub backend: Backend,
    /// `uuid`: derived from the NQN and the NSID where not given, so that it is stable.
    pub uuid: Option<Uuid>,
    /// `nguid`: 16 bytes; made of the UUID where not given.
    pub nguid: Option<[u8; 16]>,
    /// `read_only`.
    pub read_only: bool,
    /// `force`: a device that holds a file system or the like is taken the first time, too.
    pub force: bool,
    /// `hosts`: NQNs of the hosts that see this namespace; none: all that the subsystem allows.
    pub hosts: Option<Vec<String>>,
    /// `class`: of commands that name none, on connections that name none, of hosts whose policy
    /// names none.
    pub class: Option<Class>,
    /// How its device is shared.
    pub device: DeviceQos,
}

/// The settings of a namespace that say how its device is shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceQos {
    /// `window`: none: as `[qos]` says.
    pub window: Option<WindowRule>,
    /// `order`.
    pub order: Order,
    /// `latency_target`: what containers take as the deadline of a single command.
    pub latency_target: Option<Duration>,
    /// `flush_is_output`: a Flush ends a container.
    pub flush_is_output: bool,
    /// `service_time`: mean and worst time of a 4 KiB command, where it is not to be measured.
    pub mean_time: Option<Duration>,
    /// `worst_time`.
    pub worst_time: Option<Duration>,
    /// `parallelism`: commands that the device carries out at the same time.
    pub parallelism: Option<u32>,
}

/// `order`: what decides inside a device's set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Sessions, then hosts, in turn.
    #[default]
    Fair,
    /// Containers: for disks with heads.
    Containers,
}

/// Everything of the configuration that concerns quality of service and may change while the
/// daemon runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QosConfig {
    /// `[qos]`.
    pub general: Qos,
    /// `[[session]]`.
    pub sessions: Vec<Session>,
    /// `[[policy]]`.
    pub policies: Vec<Policy>,
}

/// `[qos]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Qos {
    /// `enabled`: off, the target carries out commands as they come.
    pub enabled: bool,
    /// `weights`, `unit`, `burst`, `urgent_share`.
    pub order: OrderSettings,
    /// `window`: of devices that have no setting of their own.
    pub window: WindowRule,
    /// `operations`: commands in devices at one time, all devices together: the operation
    /// credits of the root session.
    pub operations: u32,
    /// `payload`: bytes in devices at one time: the payload credits of the root session.
    pub payload: u64,
    /// `queue`: commands that may wait in the target at one time, all sessions together.
    pub queue: u32,
    /// `wrr`: controllers offer weighted round robin with urgent (CAP.AMS).
    pub wrr: bool,
    /// `mark`: answers carry the DSCP of their connection's class.
    pub mark: bool,
    /// `dscp`: the DSCP of each class.
    pub dscp: Marks,
}

impl Default for Qos {
    fn default() -> Self {
        Self {
            enabled: true,
            order: OrderSettings::default(),
            window: WindowRule::default(),
            operations: 65_536,
            payload: 1 << 40,
            queue: 65_536,
            wrr: true,
            mark: true,
            dscp: default_marks(),
        }
    }
}

/// `[[session]]`: a QoS session (docs/sources.md, D1: sessions form a tree). Each subsystem has one
/// by itself, named by its NQN, below the root; and each namespace one below its subsystem's, named
/// NQN/NSID. An entry with such a name sets what these have; any other name is a session that
/// groups others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Session {
    /// `name`.
    pub name: String,
    /// `parent`: name of another session; none: the root (of a namespace: its subsystem's).
    pub parent: Option<String>,
    /// `operations`: operation credits, in per cent of the parent's; none: as many as those.
    pub operations: Option<u8>,
    /// `payload`: payload credits, in per cent of the parent's.
    pub payload: Option<u8>,
    /// `iops`: commands per second, at most.
    pub iops: Option<u64>,
    /// `bandwidth`: bytes per second, at most.
    pub bandwidth: Option<u64>,
    /// `queue`: commands that may wait before hosts are held back; none: as many as the root's.
    pub queue: Option<u32>,
    /// `reserve`.
    pub reserve: Option<Reserve>,
}

/// `reserve`: a reservation of a session on one namespace's device (docs/sources.md, F1:
/// reservations in the tenant's terms).
#[derive(Clone, Debug, PartialEq)]
pub struct Reserve {
    /// `budget`, `period`, `request_size`, `writes`, `locality`.
    pub terms: Terms,
    /// `namespace`: NQN/NSID; none: the session is a namespace's own.
    pub namespace: Option<String>,
}

/// `[[policy]]`: what holds for the commands of a host, in a subsystem, in a namespace; the entry
/// that names more of them wins, setting by setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// `host`: NQN; none: any.
    pub host: Option<String>,
    /// `subsystem`: NQN; none: any.
    pub subsystem: Option<String>,
    /// `nsid`; none: any; only together with `subsystem`.
    pub nsid: Option<u32>,
    /// `class`: of commands and connections that name none.
    pub class: Option<Class>,
    /// `max_class`: commands that name a higher one have this one.
    pub max_class: Option<Class>,
    /// `urgent_iops`: Urgent commands per second, at most; what is above is High.
    pub urgent_iops: Option<u64>,
    /// `session`: the session that commands are charged to; none: the namespace's own.
    pub session: Option<String>,
}

impl Policy {
    /// What it is for, in words.
    #[must_use]
    pub fn scope(&self) -> String {
        let host = self.host.as_deref().unwrap_or("any host");
        match (&self.subsystem, self.nsid) {
            (Some(nqn), Some(nsid)) => format!("{host} on {nqn}/{nsid}"),
            (Some(nqn), None) => format!("{host} on {nqn}"),
            (None, _) => format!("{host} on any subsystem"),
        }
    }

    /// Whether it is for the same host, subsystem and namespace as another.
    #[must_use]
    pub fn same_scope(&self, other: &Self) -> bool {
        (&self.host, &self.subsystem, self.nsid) == (&other.host, &other.subsystem, other.nsid)
    }

    /// Whether it sets nothing.
    #[must_use]
    pub const fn says_nothing(&self) -> bool {
        self.class.is_none()
            && self.max_class.is_none()
            && self.urgent_iops.is_none()
            && self.session.is_none()
    }
}

/// What a namespace's blocks are kept on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// `null`: reads zeroes, forgets writes.
    Null {
        /// `size` in bytes.
        size: u64,
        /// `block_size` in bytes: 512 or 4096.
        block_size: u32,
        /// What it takes the device to carry out a command; none: no time.
        model: Option<DeviceModel>,
    },
    /// `memory`: anonymous memory, allocated as it is written, lost at exit.
    Memory {
        /// `size` in bytes.
        size: u64,
        /// `block_size` in bytes: 512 or 4096.
        block_size: u32,
    },
    /// `file` or `block`: a regular file or a block device.
    File {
        /// `path`.
        path: PathBuf,
        /// `size` in bytes: the file grows to it; none: the size it has.
        size: Option<u64>,
        /// `block_size` in bytes: 512 or 4096; none: the device's, 4096 for a file.
        block_size: Option<u32>,
        /// `direct`: O_DIRECT where it is possible (the default).
        direct: bool,
        /// `create`: a regular file that is missing is made with `size`, for a namespace that was
        /// never seen.
        create: bool,
    },
    /// `nvme`: io_uring passthrough to an NVMe namespace.
    Nvme {
        /// `device`: the generic character device, `/dev/ngXnY`.
        device: PathBuf,
        /// `forward_class`: the device sees the class bits of CDW13 too.
        forward_class: bool,
    },
}

/// A device that `null` pretends to be: for trying out what quality of service does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceModel {
    /// `service_time` of a command, beside its bytes.
    pub service_time: Duration,
    /// `bandwidth` of each of its channels in bytes per second; none: bytes take no time.
    pub bandwidth: Option<u64>,
    /// `channels`: commands that are carried out at the same time.
    pub channels: u32,
    /// `errors`: of a hundred commands, those that fail; none: none.
    pub errors: Option<u8>,
}

/// What classes get of the network (stage S6), all of which may change while the daemon runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// `enabled`: off, the kernel's congestion control is on its own.
    pub enabled: bool,
    /// `writes`: R2T is paced by class, so that hosts' data is too.
    pub writes: bool,
    /// `base`: the kernel's congestion control for connections; none: the best that this kernel
    /// has. Read at the start.
    pub base: Option<String>,
    /// The default link, which `[network]` itself describes.
    pub link: Link,
    /// `[[link]]`: others.
    pub links: Vec<Link>,
}

/// The name of the link that listeners share which name none.
pub const DEFAULT_LINK: &str = "default";

/// A link: what the connections of some listeners have to share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// `name`; the default link's is [`DEFAULT_LINK`].
    pub name: String,
    /// `capacity`: bits per second; none (`auto`): as much as was seen to go through.
    pub capacity: Option<u64>,
    /// `urgent`, `high`, `medium`, `low`: what each class is to have.
    pub aims: PerClass<Aim>,
}

/// What a class is to have of a link when that is congested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// `{ share = 3 }`: so many parts of what the other aims leave.
    Share(u32),
    /// `{ rate = "2 Gbit/s" }`: bits per second.
    Rate(u64),
    /// `{ latency = "2 ms" }`: round trips no longer than this, queues included.
    Latency(Duration),
    /// `"free"`: whatever it asks for; never held back.
    Free,
}

impl Default for Link {
    fn default() -> Self {
        let (high, medium, low) = (Aim::Share(3), Aim::Share(2), Aim::Share(1));
        Self {
            name: DEFAULT_LINK.to_owned(),
            capacity: None,
            aims: PerClass { urgent: Aim::Free, high, medium, low },
        }
    }
}

impl Default for Network {
    fn default() -> Self {
        Self { enabled: true, writes: true, base: None, link: Link::default(), links: Vec::new() }
    }
}

impl Network {
    /// All links, the default one first.
    pub fn all_links(&self) -> impl Iterator<Item = &Link> {
        core::iter::once(&self.link).chain(&self.links)
    }
}
