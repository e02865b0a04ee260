//! The daemon, its listeners, subsystems, namespaces and connections as they are now.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::network::ConnectionNetwork;

/// The answer to `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Status {
    /// The daemon's version.
    pub version: String,
    /// The commit of its source; `unknown` where the build did not know it.
    pub commit: String,
    /// The daemon's process identifier.
    pub pid: u32,
    /// Seconds since the start.
    pub uptime_seconds: u64,
    /// Whether live changes survive a restart.
    pub durable: bool,
    /// The number of objects that differ from the configuration file by live changes.
    pub live_changes: usize,
    /// The number of listeners.
    pub listeners: usize,
    /// The number of subsystems.
    pub subsystems: usize,
    /// The number of namespaces.
    pub namespaces: usize,
    /// The number of namespaces that are not available.
    pub namespaces_unavailable: usize,
    /// The number of namespaces whose devices answer with errors.
    pub namespaces_with_errors: usize,
    /// The problems of the target, a line for each.
    pub problems: Vec<String>,
    /// The number of connections.
    pub connections: usize,
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Connections ended because the peer broke the protocol.
    pub protocol_errors: u64,
    /// Controllers ended because their keep-alive timer expired.
    pub keep_alive_expired: u64,
    /// The reactors.
    pub reactors: Vec<Reactor>,
    /// The file systems that files of namespaces are on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub file_systems: Vec<FileSystem>,
}

/// A file system that files of namespaces are on, or the memory of those in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FileSystem {
    /// The folder at which the file system is mounted; `memory`.
    pub mount: String,
    /// The number of these files.
    pub files: usize,
    /// The bytes that the files may still take as hosts write to them.
    pub may_take: u64,
    /// The bytes that are free.
    pub free: u64,
    /// The bytes by which the files' possible growth exceeds the free space.
    pub overcommit: u64,
}

/// A reactor as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Reactor {
    /// The number of the CPU that the reactor is pinned to.
    pub core: usize,
    /// Connections that the reactor serves.
    pub connections: u64,
    /// Time spent working since the start, in nanoseconds.
    pub busy_ns: u64,
    /// Turns of the reactor's loop since the start.
    pub turns: u64,
    /// Bytes of I/O buffers in use.
    pub buffer_used: u64,
    /// Bytes of I/O buffers in all.
    pub buffer_total: u64,
}

/// A subsystem as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Subsystem {
    /// The NQN.
    pub nqn: String,
    /// The serial number.
    pub serial: String,
    /// The model number.
    pub model: String,
    /// Whether any host may connect.
    pub allow_any_host: bool,
    /// Whether hosts must authenticate.
    pub require_authentication: bool,
    /// NQNs of the hosts that may connect.
    pub hosts: Vec<String>,
    /// The addresses and networks of the hosts that may come from these only, by NQN.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub addresses: BTreeMap<String, Vec<String>>,
    /// The rights of the hosts that have not all, by NQN.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rights: BTreeMap<String, HostRights>,
    /// The namespaces.
    pub namespaces: Vec<Namespace>,
    /// Whether a live change makes the subsystem or one of its parts differ from the configuration file.
    pub live: bool,
}

/// A namespace as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Namespace {
    /// The namespace identifier.
    pub nsid: u32,
    /// `null`, `memory`, `file`, `block`, `pmem` or `nvme`.
    pub backend: String,
    /// The kind of region below `pmem`, such as `plain file`, which determines the failures that data survive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The path of the file or device, where there is one.
    pub path: Option<String>,
    /// The size in bytes.
    pub size: u64,
    /// The logical block size in bytes.
    pub block_size: u32,
    /// The UUID.
    pub uuid: String,
    /// The NGUID, 32 hexadecimal digits.
    pub nguid: String,
    /// Whether writes are refused.
    pub read_only: bool,
    /// NQNs of the hosts that see the namespace; `None` means all hosts that the subsystem allows.
    pub hosts: Option<Vec<String>>,
    /// The namespace's availability.
    pub state: Availability,
    /// The fault, and since when; `None` while there is none.
    pub reason: Option<String>,
    /// Commands that the device answered with an error since the daemon's start.
    pub errors: u64,
}

/// A namespace with its subsystem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NamespaceRow {
    /// The subsystem's NQN.
    pub subsystem: String,
    /// The namespace. As JSON its fields stand beside `subsystem`.
    #[serde(flatten)]
    pub namespace: Namespace,
    /// Whether a live change makes the namespace differ from the configuration file.
    pub live: bool,
}

/// Whether a namespace serves its hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Availability {
    /// The namespace's device works.
    #[default]
    Ready,
    /// The namespace serves, but its device has answered with errors.
    Errors,
    /// The namespace's device is not open, or gone: commands fail with a status that asks the host to retry later.
    Unavailable,
}

impl Availability {
    /// Returns `ready`, `errors` or `unavailable`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Errors => "errors",
            Self::Unavailable => "unavailable",
        }
    }
}

/// A listener as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Listener {
    /// `tcp` or `rdma`.
    pub transport: String,
    /// IP address and port.
    pub address: String,
    /// The address that discovery hands out, where it differs.
    pub advertise: Option<String>,
    /// Whether the listener has discovery controllers only.
    pub discovery_only: bool,
    /// NQNs of the subsystems that are served here; `None` means all.
    pub subsystems: Option<Vec<String>>,
    /// `off`, `allowed` or `required`: whether connections are over TLS.
    pub tls: String,
    /// Whether hosts must authenticate.
    pub require_authentication: bool,
    /// The class's name.
    pub class: Option<String>,
    /// The link's name.
    pub link: String,
    /// Why the listener is not open, in words; it opens once that is mended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<String>,
    /// Whether a live change makes the listener differ from the configuration file.
    pub live: bool,
}

/// The hosts that may connect to a subsystem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Hosts {
    /// The subsystem's NQN.
    pub subsystem: String,
    /// Whether any host may connect.
    pub allow_any_host: bool,
    /// NQNs of the hosts that may connect.
    pub hosts: Vec<String>,
    /// The addresses and networks of the hosts that may come from these only, by NQN.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub addresses: BTreeMap<String, Vec<String>>,
    /// The rights of the hosts that have not all, by NQN.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rights: BTreeMap<String, HostRights>,
    /// The secrets and TLS keys that the daemon has in files for these hosts, by NQN.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub authentication: BTreeMap<String, Authentication>,
    /// NQNs of the hosts whose permission differs from the configuration file by a live change.
    pub live: Vec<String>,
    /// Whether a live change makes `allow_any_host` differ from the configuration file.
    pub live_any_host: bool,
    /// The hosts that did not shut down and may come back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<LostHost>,
}

/// The host's authentication keys, in files and in the kernel's keyring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Authentication {
    /// A secret for DH-HMAC-CHAP.
    Secret,
    /// A TLS key.
    TlsKey,
    /// Both.
    Both,
    /// Neither.
    None,
}

impl Authentication {
    /// Returns `secret`, `TLS key`, `both` or `none`.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::TlsKey => "TLS key",
            Self::Both => "both",
            Self::None => "none",
        }
    }
}

/// The secrets and TLS keys of hosts that the daemon has, without any of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostKeys {
    /// The folder of `host_keys`; `None` means that the daemon reads none.
    pub folder: Option<String>,
    /// Why the files cannot be read now; `None` where they can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// Whether that is because the folder itself cannot be read.
    pub unreadable_folder: bool,
    /// The changes that a reload would make, a line for each.
    pub changes: Vec<String>,
    /// The hosts.
    pub hosts: Vec<HostKey>,
}

/// The daemon's key files for a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostKey {
    /// The host's NQN.
    pub host: String,
    /// Whether the host has a secret.
    pub secret: bool,
    /// Whether the target has a secret by which it proves itself to the host.
    pub controller_secret: bool,
    /// Whether the host has a TLS key.
    pub tls_key: bool,
    /// Whether a subsystem allows the host, or any host.
    pub allowed: bool,
    /// Whether a subsystem allows the host by its NQN.
    pub listed: bool,
}

/// A host that was connected to a subsystem, did not shut its controller down, and may come back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LostHost {
    /// The host's NQN; empty where the host gave none.
    pub host: String,
    /// The listener through which it was connected, by the address that hosts know.
    pub listener: String,
    /// The address from which it was connected, where that is known.
    pub address: Option<String>,
    /// Seconds since its connection broke; with `restored`, since the daemon's start.
    pub lost_seconds: u64,
    /// Seconds for which it still counts as a user of its namespaces.
    pub left_seconds: u64,
    /// Whether its connection broke before the daemon's start.
    pub restored: bool,
}

/// A host's rights in a subsystem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostRights {
    /// The namespaces that the host may see; `None` means all.
    pub namespaces: Option<Vec<u32>>,
    /// Whether the host may only read.
    pub read_only: bool,
    /// The highest class of the host; `None` means any.
    pub max_class: Option<String>,
}

/// A connection (one queue pair of one controller) as it is now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Connection {
    /// A number that no other connection of this run has.
    pub id: u64,
    /// The host's address.
    pub peer: String,
    /// The listener's address.
    pub listener: String,
    /// The index of the reactor that serves the connection.
    pub reactor: usize,
    /// The host's NQN; `None` before Connect.
    pub host: Option<String>,
    /// The subsystem's NQN; `None` before Connect.
    pub subsystem: Option<String>,
    /// The controller identifier.
    pub controller: Option<u16>,
    /// The queue identifier: 0 is the admin queue.
    pub queue: Option<u16>,
    /// Commands in the target now.
    pub in_flight: u32,
    /// Whether the connection has header digests, and data digests.
    pub digests: (bool, bool),
    /// The cipher suite of TLS; `None` where the connection is not over TLS.
    pub tls: Option<String>,
    /// Whether the host has proved on the connection, by a secret, that it is who it says.
    pub authenticated: bool,
    /// The connection's state on the network; `None` where it is not known yet, or stage S6 is off.
    pub network: Option<ConnectionNetwork>,
}

impl Connection {
    /// Returns the host and the subsystem of the connection; `None` where it carries no I/O
    /// commands.
    #[must_use]
    pub fn host_key(&self) -> Option<(String, String)> {
        self.queue.filter(|queue| *queue > 0)?;
        Some((self.host.clone()?, self.subsystem.clone()?))
    }
}
