//! The configuration's values. Sizes are in bytes, times are durations, however they were
//! written in the file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use uuid::Uuid;

/// A whole configuration file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// `[target]`: what concerns the daemon as a whole.
    pub target: Target,
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
    /// `nguid`: 16 bytes; the UUID's bytes where not given.
    pub nguid: Option<[u8; 16]>,
    /// `read_only`.
    pub read_only: bool,
    /// `hosts`: NQNs of the hosts that see this namespace; none: all that the subsystem allows.
    pub hosts: Option<Vec<String>>,
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
        /// `size` in bytes: the file is created or grown to it; none: the size it has.
        size: Option<u64>,
        /// `block_size` in bytes: 512 or 4096; none: the device's, 4096 for a file.
        block_size: Option<u32>,
        /// `direct`: O_DIRECT where it is possible (the default).
        direct: bool,
    },
    /// `nvme`: io_uring passthrough to an NVMe namespace.
    Nvme {
        /// `device`: the generic character device, `/dev/ngXnY`.
        device: PathBuf,
    },
}
