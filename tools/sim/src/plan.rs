//! Everything that a model is made from.

use std::time::Duration;

use arbitration::credit::Caps;
use arbitration::device::DeviceRules;
use arbitration::reservation::Terms;
use arbitration::session::{SessionError, SessionSpec};
use arbitration::settings::{ClassDscps, OrderSettings, WindowRule, default_dscps};
use qtcp::link::ClassGoal;
use serde::Deserialize;
use thiserror::Error;
use units::{Class, PerClass};

use crate::device::Device;
use crate::load::Source;
use crate::network::{NodeId, Sender, Topology};

/// Everything that a model is made from.
#[derive(Debug)]
pub struct Plan {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Time in which hosts connect and loads run without being measured.
    pub warmup: Duration,
    /// Time that is measured, after `warmup`.
    pub duration: Duration,
    /// Length of the intervals of throughput series.
    pub interval: Duration,
    /// The network.
    pub topology: Topology,
    /// The target.
    pub target: TargetPlan,
    /// `[qos]` and `[[session]]` of the target.
    pub qos: QosPlan,
    /// `[network]` of the target.
    pub stage: StagePlan,
    /// The namespaces: the one at index 0 has NSID 1.
    pub namespaces: Vec<NamespacePlan>,
    /// The hosts.
    pub hosts: Vec<HostPlan>,
    /// Flows that have nothing to do with the target.
    pub others: Vec<OtherPlan>,
    /// Whether each look of the network's stage is kept: [`FlowMeasured`](crate::measured::FlowMeasured).
    /// Memory then grows with the time that is simulated.
    pub record_quality: bool,
}

impl Plan {
    /// Checks the numbers that nobody else checks.
    ///
    /// # Errors
    /// A number is out of its range, or two hosts have the same name.
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        let range =
            |what: &str, is: String, must| PlanError::Range { what: what.to_owned(), is, must };
        if !(1..=64).contains(&self.target.reactors) {
            let is = self.target.reactors.to_string();
            return Err(range("the number of reactors", is, "1 to 64"));
        }
        if self.interval.is_zero() {
            return Err(range("the interval of series", "0".to_owned(), "longer than 0"));
        }
        if self.target.io_memory < 2 * self.target.max_transfer as usize {
            let is = self.target.io_memory.to_string();
            return Err(range("`io_memory`", is, "twice `max_transfer` at least"));
        }
        let mut names = std::collections::HashSet::new();
        for host in &self.hosts {
            if !names.insert(&host.name) {
                return Err(PlanError::Twice(host.name.clone()));
            }
            let what = |key: &str| format!("`{key}` of host {}", host.name);
            if host.queues == 0 {
                return Err(range(&what("queues"), "0".to_owned(), "1 at least"));
            }
            if host.depth == 0 || host.depth >= self.target.queue_depth {
                let must = "1 at least, and less than the target's `queue_depth`";
                return Err(range(&what("depth"), host.depth.to_string(), must));
            }
            let limited = |sender| matches!(sender, Sender::Rate { .. });
            let [one, other] =
                [host.sender, host.answers.unwrap_or(self.target.sender)].map(limited);
            if [one, other].iter().any(|rate| *rate != (host.transport == Transport::Rdma)) {
                let is = format!("{:?}, {:?}", host.sender, host.answers);
                let must = "a rate at both ends over RDMA, a window over TCP";
                return Err(range(&what("sender"), is, must));
            }
            if host.dscp > 63 {
                return Err(range(&what("dscp"), host.dscp.to_string(), "0 to 63"));
            }
        }
        Ok(())
    }
}

/// The target: its machine, and its daemon's configuration. The defaults are the daemon's,
/// docs/reference/configuration.md.
#[derive(Clone, Debug)]
pub struct TargetPlan {
    /// Place in the network.
    pub node: NodeId,
    /// Number of reactors, 1 to 64: `cores`.
    pub reactors: usize,
    /// Bytes of I/O buffers for each reactor: `io_memory`.
    pub io_memory: usize,
    /// The largest data transfer of one command in bytes, a power of two: `max_transfer`.
    pub max_transfer: u32,
    /// The largest in-capsule data of an I/O command in bytes, a multiple of 16: `in_capsule_data`.
    pub in_capsule_data: u32,
    /// The same over RDMA: `rdma_in_capsule_data`.
    pub rdma_in_capsule_data: u32,
    /// Entries of the largest I/O queue: `queue_depth`.
    pub queue_depth: u16,
    /// Limit of the target's sockets.
    pub sender: Sender,
    /// Send buffer of each socket, in bytes. The kernel's grows to 4 MiB (`tcp_wmem`).
    pub send_buffer: u64,
    /// CPU time that reactors take.
    pub costs: Costs,
}

/// CPU time of a reactor, from which its throughput is bounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Time of a turn, in ns.
    pub turn_ns: f64,
    /// Time of a command, in ns, with its arrival and its answer.
    pub command_ns: f64,
    /// Time of a byte of data that is sent, in ns.
    pub sent_byte_ns: f64,
    /// Time of a byte of data that is received, in ns.
    pub received_byte_ns: f64,
}

impl Costs {
    /// Processors that take no time but the shortest turn: nothing but network and devices bounds a
    /// model.
    pub const NONE: Self =
        Self { turn_ns: 0.0, command_ns: 0.0, sent_byte_ns: 0.0, received_byte_ns: 0.0 };

    /// The daemon's CPU time per core on the machine of docs/use/performance.md: 722 ns for a read of 4 KiB from
    /// `null`, of which copying the data is 39 %, and 728 ns for a write, of which it is 45 %.
    pub const MEASURED: Self =
        Self { turn_ns: 0.0, command_ns: 440.0, sent_byte_ns: 0.069, received_byte_ns: 0.080 };
}

/// The settings of quality of service. The defaults are the daemon's, docs/reference/configuration.md.
#[derive(Clone, Debug)]
pub struct QosPlan {
    /// Whether the stages act: `enabled`.
    pub enabled: bool,
    /// Order of the classes: `weights`, `unit`, `burst`, `urgent_share`.
    pub order: OrderSettings,
    /// Credits of the whole target: `credits`, `payload`; `None` where nothing bounds it but
    /// devices.
    pub caps: Option<Caps>,
    /// Commands that may wait: `queue`.
    pub queue: u32,
    /// Whether controllers offer weighted round robin: `wrr`.
    pub wrr: bool,
    /// Whether answers carry the DSCP of their connection's class: `mark`.
    pub mark: bool,
    /// DSCP of each class: `dscp`.
    pub dscp: ClassDscps,
    /// The sessions, parents before their children.
    pub sessions: Vec<SessionPlan>,
}

/// A session.
#[derive(Clone, Debug)]
pub struct SessionPlan {
    /// Name, parent, shares and limits.
    pub spec: SessionSpec,
    /// Its reservation.
    pub reserve: Option<ReservePlan>,
}

/// A reservation of a session.
#[derive(Clone, Copy, Debug)]
pub struct ReservePlan {
    /// Index of the namespace on whose device the reservation is.
    pub namespace: usize,
    /// Terms.
    pub terms: Terms,
}

/// The settings of the network's stage (S6). The defaults are the daemon's, docs/reference/configuration.md.
#[derive(Clone, Debug, PartialEq)]
pub struct StagePlan {
    /// Whether the stage acts: `enabled`.
    pub enabled: bool,
    /// Whether hosts' data is paced too: `writes`.
    pub writes: bool,
    /// The link that all connections share.
    pub link: LinkPlan,
}

/// The link as the target is configured with it.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkPlan {
    /// Bits per second; `None` for `auto`: it is not known.
    pub capacity: Option<u64>,
    /// Goal of each class; rates are in payload.
    pub goals: PerClass<ClassGoal>,
}

/// A namespace.
#[derive(Debug)]
pub struct NamespacePlan {
    /// The device that stores its blocks.
    pub device: DevicePlan,
    /// Number of blocks of 512 bytes.
    pub blocks: u64,
    /// Window, order and configured service times.
    pub rules: DeviceRules,
    /// Whether a Flush ends a container, `flush_is_output`.
    pub flush_is_output: bool,
}

/// The device that stores a namespace's blocks.
#[derive(Debug)]
pub enum DevicePlan {
    /// Memory: commands are carried out on the spot.
    Memory,
    /// A device that is modelled.
    Model(Box<dyn Device>),
}

/// A host.
#[derive(Debug)]
pub struct HostPlan {
    /// Name, from which its NQN is made. No two hosts have the same.
    pub name: String,
    /// Place in the network.
    pub node: NodeId,
    /// Transport.
    pub transport: Transport,
    /// Number of I/O queues: one connection each.
    pub queues: u16,
    /// Commands that a queue may have outstanding.
    pub depth: u16,
    /// Class that the target's policy gives the host's commands.
    pub class: Option<Class>,
    /// Class of its queues (CATTR), where it uses weighted round robin.
    pub priority: Option<Class>,
    /// DSCP that its connections come with and carry.
    pub dscp: u8,
    /// Session that its commands are charged to; `None`: the namespace's subsystem's own, which is
    /// the root here.
    pub session: Option<String>,
    /// Limit of its sockets, or the rate of its queue pairs.
    pub sender: Sender,
    /// Limit of the target's end of its connections; `None`: the limit of the target's sockets.
    pub answers: Option<Sender>,
    /// Send buffer of each of its sockets, in bytes.
    pub send_buffer: u64,
    /// Time from the start at which it connects.
    pub begins: Duration,
    /// Its loads.
    pub loads: Vec<LoadPlan>,
}

/// The transport of a host's queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// NVMe/TCP.
    #[default]
    Tcp,
    /// NVMe/RDMA: a queue pair for each queue, which a rate limits at both ends.
    Rdma,
}

impl Transport {
    /// Returns the name, as loads, listeners and scenarios spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Rdma => "rdma",
        }
    }
}

/// A load of a host.
#[derive(Debug)]
pub struct LoadPlan {
    /// Index of the namespace.
    pub namespace: usize,
    /// Class that its commands name in CDW13.
    pub class: Option<Class>,
    /// When it wants what.
    pub source: Box<dyn Source>,
}

/// A flow that has nothing to do with the target's connections. It always has something to send while it is there.
#[derive(Clone, Debug)]
pub struct OtherPlan {
    /// Name.
    pub name: String,
    /// The host that sends.
    pub from: NodeId,
    /// The host that receives.
    pub to: NodeId,
    /// Limit of the sender.
    pub sender: Sender,
    /// Time from the start at which it comes.
    pub begins: Duration,
    /// Time from the start at which it goes.
    pub ends: Duration,
}

/// A plan that no model can be made from.
#[derive(Debug, Error)]
pub enum PlanError {
    /// Something is named that is not there.
    #[error("{what} names {kind} {named}, which is not there; add it, or name one of {known}")]
    Missing {
        /// The item that refers to it.
        what: String,
        /// `namespace`, `session` or `node`.
        kind: &'static str,
        /// The missing name.
        named: String,
        /// The existing names.
        known: String,
    },
    /// A number is out of its range.
    #[error("{what} is {is}; it must be {must}")]
    Range {
        /// The number.
        what: String,
        /// Its value.
        is: String,
        /// Its range.
        must: &'static str,
    },
    /// Two hosts have the same name.
    #[error("there are two hosts named {0}; give one of them another name")]
    Twice(String),
    /// The tree of sessions is wrong.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A reservation does not fit.
    #[error("session {session} cannot reserve {terms}: {why}")]
    Reservation {
        /// The session.
        session: String,
        /// The requested reservation.
        terms: Terms,
        /// Why it does not fit, and terms that would.
        why: String,
    },
    /// The service or the network does not take its settings.
    #[error("{0}")]
    Settings(String),
}

impl TargetPlan {
    /// Makes a target with the daemon's defaults.
    #[must_use]
    pub fn new(node: NodeId, sender: Sender) -> Self {
        Self {
            node,
            reactors: 1,
            io_memory: 64 << 20,
            max_transfer: 1 << 20,
            in_capsule_data: 8192,
            rdma_in_capsule_data: 4096,
            queue_depth: 256,
            sender,
            send_buffer: 4 << 20,
            costs: Costs::NONE,
        }
    }
}

impl Default for QosPlan {
    fn default() -> Self {
        Self {
            enabled: true,
            order: OrderSettings::default(),
            caps: None,
            queue: 65_536,
            wrr: true,
            mark: true,
            dscp: default_dscps(),
            sessions: Vec::new(),
        }
    }
}

impl Default for StagePlan {
    fn default() -> Self {
        let (high, medium, low) =
            (ClassGoal::Share(3.0), ClassGoal::Share(2.0), ClassGoal::Share(1.0));
        let goals = PerClass { urgent: ClassGoal::Free, high, medium, low };
        Self { enabled: true, writes: true, link: LinkPlan { capacity: None, goals } }
    }
}

impl NamespacePlan {
    /// Makes a namespace of 64 GiB.
    #[must_use]
    pub fn new(device: DevicePlan) -> Self {
        let rules = DeviceRules { window: WindowRule::default(), ..DeviceRules::default() };
        Self { device, blocks: 128 << 20, rules, flush_is_output: false }
    }
}

impl HostPlan {
    /// Makes a host with one I/O queue, as Linux connects it (queue size 128), and no load.
    #[must_use]
    pub fn new(name: impl Into<String>, node: NodeId, sender: Sender) -> Self {
        Self {
            name: name.into(),
            node,
            transport: Transport::Tcp,
            queues: 1,
            depth: 127,
            class: None,
            priority: None,
            dscp: 0,
            session: None,
            sender,
            answers: None,
            send_buffer: 4 << 20,
            begins: Duration::ZERO,
            loads: Vec::new(),
        }
    }
}
