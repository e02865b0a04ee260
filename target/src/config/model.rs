//! Listeners, subsystems and namespaces. Sizes are in bytes, times are durations, however they
//! were written in the file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arbitration::settings::WindowRule;

use arbitration::Class;
use uuid::Uuid;

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
    /// `service_time`: mean and worst time of a 4 KiB command, where no measurement is wanted.
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

impl Backend {
    /// Returns the file or device, where there is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File { path, .. } => Some(path),
            Self::Nvme { device, .. } => Some(device),
            Self::Null { .. } | Self::Memory { .. } => None,
        }
    }

    /// Returns `null`, `memory`, `file`, `block` or `nvme`, as far as the configuration tells.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::File { path, .. } if path.starts_with("/dev") => "block",
            Self::File { .. } => "file",
            Self::Nvme { .. } => "nvme",
            Self::Null { .. } => "null",
            Self::Memory { .. } => "memory",
        }
    }

    /// Sets the size in bytes that it is opened with.
    pub fn set_size(&mut self, bytes: Option<u64>) {
        match self {
            Self::Null { size, .. } | Self::Memory { size, .. } => *size = bytes.unwrap_or(*size),
            Self::File { size, .. } => *size = bytes,
            Self::Nvme { .. } => {}
        }
    }
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
