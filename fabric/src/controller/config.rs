//! The configuration of the service.

use core::time::Duration;
use std::net::SocketAddr;

use super::access::AllowedHost;
use super::ids::ListenerId;
use crate::fabrics::{NQN_MAX, trtype};
use crate::nvm::BlockFormat;

/// Limits and identity common to all controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceConfig {
    /// Largest data transfer of one command in bytes: a power of two, 4 KiB to 2 GiB. Becomes
    /// MDTS, in units of 4 KiB pages.
    pub max_transfer: u32,
    /// Largest in-capsule data of an I/O command in bytes: a multiple of 16.
    pub in_capsule_data: u32,
    /// The same over RDMA.
    pub rdma_in_capsule_data: u32,
    /// Entries of the largest I/O queue, 2 to 65535 (MQES + 1).
    pub queue_entries: u16,
    /// Entries of the largest admin queue, 32 to 4096.
    pub admin_queue_entries: u16,
    /// Most I/O queues of a controller, 1 or more.
    pub max_queues: u16,
    /// Most controllers at one time, all subsystems together, 1 to 65519.
    pub max_controllers: u16,
    /// Most queues of I/O controllers that hosts are promised at one time, admin queues among them:
    /// 2 or more.
    pub max_connections: u32,
    /// The part of `max_connections` that one peer address may have: 2 or more.
    pub max_address_connections: u32,
    /// Most discovery controllers at one time, 1 or more; one peer address may have a quarter.
    pub max_discovery: u32,
    /// Most connections at one time that have sent no Connect, 1 or more.
    pub max_waiting: u32,
    /// The longest keep alive timeout of a discovery controller.
    pub discovery_keep_alive: Duration,
    /// Largest NSID, and the most namespaces of a subsystem (NN, MNAN): 1 to 65536.
    pub max_namespaces: u32,
    /// Granularity of the keep alive timer (KAS), a multiple of 100 ms; timeouts are rounded up
    /// to it.
    pub keep_alive_granularity: Duration,
    /// The time for which a discovery controller without keep alive timer lives without a command.
    pub discovery_idle: Duration,
    /// The time for which a reset or shutdown waits for the I/O queues' commands, before it is
    /// reported complete all the same.
    pub quiesce_limit: Duration,
    /// CRDT1..3: the three Command Retry Delays, in units of 100 ms.
    pub retry_delays: [u16; 3],
    /// CAP.AMS bit 17: whether weighted round robin with urgent priority class is offered.
    pub weighted_round_robin: bool,
    /// The Arbitration feature (01h): burst 2:0 (2^n commands, 111b no limit), weights of Low 15:8,
    /// Medium 23:16 and High 31:24, each less 1. A host with weighted round robin may have other
    /// values, which order its own queues: one host must not decide how a device is shared among all.
    pub arbitration: u32,
    /// The time for which a host that did not shut its controller down counts as a user of its
    /// subsystem, since it may connect again; zero: such hosts are not remembered.
    pub reconnect_time: Duration,
    /// Whether all hosts must authenticate, see [`super::Refusal::Unauthenticated`].
    pub require_authentication: bool,
    /// Firmware revision, up to 8 ASCII characters.
    pub firmware: String,
}

impl Default for ServiceConfig {
    fn default() -> Self {
        Self {
            max_transfer: 1 << 20,
            in_capsule_data: 8192,
            rdma_in_capsule_data: 4096,
            queue_entries: 128,
            admin_queue_entries: 128,
            max_queues: 64,
            max_controllers: 16384,
            max_connections: 65536,
            max_address_connections: 65536,
            max_discovery: 256,
            max_waiting: 256,
            discovery_keep_alive: Duration::from_secs(300),
            max_namespaces: 16384,
            keep_alive_granularity: Duration::from_millis(100),
            discovery_idle: Duration::from_secs(120),
            quiesce_limit: Duration::from_secs(3),
            retry_delays: [1, 2, 10],
            weighted_round_robin: false,
            arbitration: 0x07,
            reconnect_time: Duration::ZERO,
            require_authentication: false,
            firmware: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// The error of a change of the configuration that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A limit is out of range.
    #[error("{name} is {value}: it must be {wanted}")]
    Limit {
        /// The setting.
        name: &'static str,
        /// The value.
        value: u64,
        /// The range that is allowed.
        wanted: &'static str,
    },
    /// A name is no NQN.
    #[error("{0:?} is not an NQN: it must begin with \"nqn.\" and have at most 223 bytes")]
    Nqn(String),
    /// The discovery subsystem is built in.
    #[error("the discovery subsystem is built in: choose another NQN")]
    DiscoveryNqn,
    /// A text is too long or not ASCII.
    #[error("{name} {value:?} must be printable ASCII of at most {limit} characters")]
    Text {
        /// The setting.
        name: &'static str,
        /// The value.
        value: String,
        /// Longest text.
        limit: usize,
    },
    /// There is no such subsystem.
    #[error("there is no subsystem {0}")]
    NoSubsystem(String),
    /// The subsystem exists.
    #[error("there is a subsystem {0} already")]
    SubsystemExists(String),
    /// Another subsystem has the serial number.
    #[error(
        "subsystems {other} and {nqn} would have the same serial number, {serial:?}: give each its own"
    )]
    DuplicateSerial {
        /// The subsystem that is added.
        nqn: String,
        /// The subsystem that has it.
        other: String,
        /// The serial number.
        serial: String,
    },
    /// There is no such namespace.
    #[error("subsystem {nqn} has no namespace {nsid}")]
    NoNamespace {
        /// The subsystem.
        nqn: String,
        /// The namespace.
        nsid: u32,
    },
    /// The NSID is taken.
    #[error("subsystem {nqn} has a namespace {nsid} already: remove it first or choose another")]
    NamespaceExists {
        /// The subsystem.
        nqn: String,
        /// The namespace.
        nsid: u32,
    },
    /// All NSIDs are taken or the NSID is beyond the limit.
    #[error("namespace identifiers go from 1 to {limit}: {nsid} is not free or not among them")]
    NamespaceLimit {
        /// The NSID that was asked for; 0: any.
        nsid: u32,
        /// Largest NSID.
        limit: u32,
    },
    /// An identifier is used by another namespace of the subsystem.
    #[error("namespace {nsid} has the same {what} already: identifiers must be unique")]
    DuplicateIdentifier {
        /// The namespace that has it.
        nsid: u32,
        /// UUID or NGUID.
        what: &'static str,
    },
    /// The block format is not supported.
    #[error(
        "logical blocks of {} bytes with {} bytes of metadata: they must have 512 or 4096 bytes, \
         and no metadata",
        .0.data_bytes(),
        .0.metadata_bytes()
    )]
    BlockFormat(BlockFormat),
    /// The namespace is empty.
    #[error("a namespace without blocks: it must have one at least")]
    NoBlocks,
    /// The UUID of a namespace is all zero although its geometry is known.
    #[error("a namespace needs a UUID that is not all zero")]
    ZeroUuid,
    /// The host is not in the list.
    #[error("host {host} is not in the list of subsystem {nqn}")]
    NoHost {
        /// The subsystem.
        nqn: String,
        /// The host.
        host: String,
    },
    /// The host is in the list.
    #[error("host {host} is in the list of subsystem {nqn} already")]
    HostExists {
        /// The subsystem.
        nqn: String,
        /// The host.
        host: String,
    },
    /// There is no such listener.
    #[error("there is no listener {0}")]
    NoListener(u32),
    /// The listener exists.
    #[error("there is a listener {0} already")]
    ListenerExists(u32),
}

/// A subsystem to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubsystemSpec {
    /// NQN of the subsystem.
    pub nqn: String,
    /// Serial number, up to 20 ASCII characters.
    pub serial: String,
    /// Model number, up to 40 ASCII characters.
    pub model: String,
    /// Whether any host may connect.
    pub allow_any_host: bool,
    /// The hosts that may connect.
    pub hosts: Vec<AllowedHost>,
    /// Whether hosts of the subsystem must authenticate.
    pub require_authentication: bool,
}

/// A listener's transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransportType {
    /// NVMe/TCP.
    #[default]
    Tcp,
    /// NVMe/RDMA.
    Rdma,
}

impl TransportType {
    /// Returns TRTYPE, as log pages have it.
    #[must_use]
    pub fn trtype(self) -> u8 {
        match self {
            Self::Tcp => trtype::TCP,
            Self::Rdma => trtype::RDMA,
        }
    }
}

/// Whether a listener's connections are over TLS, which the daemon sees to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecureChannel {
    /// None is.
    #[default]
    Off,
    /// A host may choose, unless it has a TLS key: then its connections must be.
    Allowed,
    /// All are.
    Required,
}

/// A listener to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSpec {
    /// The listener's number; also the port identifier in the discovery log page (its low 16 bits).
    pub id: ListenerId,
    /// The name of the listener for people, which is the same after a restart.
    pub name: String,
    /// Transport.
    pub transport: TransportType,
    /// Address and port, with the index of the interface of a link-local address. `0.0.0.0` and `::`
    /// stand for the addresses of this machine, see [`super::Service::set_addresses`].
    pub address: SocketAddr,
    /// The address and port that discovery hands out in place of `address`, to every host.
    pub advertise: Option<SocketAddr>,
    /// Whether the listener has discovery controllers only.
    pub discovery_only: bool,
    /// NQNs of the subsystems served here; none: all.
    pub subsystems: Option<Vec<String>>,
    /// Whether connections are over TLS.
    pub secure_channel: SecureChannel,
    /// Whether hosts that connect here must authenticate, also to the discovery controller.
    pub require_authentication: bool,
}

impl ListenerSpec {
    /// Returns whether I/O controllers of subsystem `nqn` can be reached here.
    #[must_use]
    pub fn serves(&self, nqn: &str) -> bool {
        !self.discovery_only
            && self.subsystems.as_ref().is_none_or(|list| list.iter().any(|s| s == nqn))
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.subsystems.iter().flatten().try_for_each(|nqn| check_nqn(nqn))
    }
}

impl SubsystemSpec {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        check_nqn(&self.nqn)?;
        if self.nqn == crate::fabrics::DISCOVERY_NQN {
            return Err(ConfigError::DiscoveryNqn);
        }
        check_text("serial number", &self.serial, 20)?;
        check_text("model number", &self.model, 40)?;
        for (at, host) in self.hosts.iter().enumerate() {
            check_nqn(&host.nqn)?;
            if self.hosts.iter().take(at).any(|h| h.nqn == host.nqn) {
                let (nqn, host) = (self.nqn.clone(), host.nqn.clone());
                return Err(ConfigError::HostExists { nqn, host });
            }
        }
        Ok(())
    }
}

pub(super) fn check_nqn(nqn: &str) -> Result<(), ConfigError> {
    let good =
        nqn.starts_with("nqn.") && nqn.len() <= NQN_MAX && !nqn.chars().any(char::is_control);
    if good { Ok(()) } else { Err(ConfigError::Nqn(nqn.to_owned())) }
}

fn check_text(name: &'static str, value: &str, limit: usize) -> Result<(), ConfigError> {
    if value.len() <= limit && value.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        return Ok(());
    }
    Err(ConfigError::Text { name, value: value.to_owned(), limit })
}

impl ServiceConfig {
    /// Checks that the wire formats can express every limit.
    ///
    /// # Errors
    /// A setting is out of range; the error names the first one, and its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let transfer = self.max_transfer.is_power_of_two() && self.max_transfer >= 4096;
        let kas = self.keep_alive_granularity.as_millis();
        let (capsule, rdma) = (self.in_capsule_data, self.rdma_in_capsule_data);
        let (queue, admin) = (self.queue_entries, self.admin_queue_entries);
        let controllers = self.max_controllers;
        let power = "a power of two of at least 4096";
        limit(transfer, "max_transfer", self.max_transfer, power)?;
        limit(capsule.is_multiple_of(16), "in_capsule_data", capsule, "a multiple of 16")?;
        limit(rdma.is_multiple_of(16), "rdma_in_capsule_data", rdma, "a multiple of 16")?;
        limit(queue >= 2, "queue_entries", queue, "2 or more")?;
        limit((32..=4096).contains(&admin), "admin_queue_entries", admin, "32 to 4096")?;
        limit(self.max_queues >= 1, "max_queues", self.max_queues, "1 or more")?;
        limit((1..=0xffef).contains(&controllers), "max_controllers", controllers, "1 to 65519")?;
        let (most, of_address) = (self.max_connections, self.max_address_connections);
        limit(most >= 2, "max_connections", most, "2 or more")?;
        limit(of_address >= 2, "max_address_connections", of_address, "2 or more")?;
        limit(self.max_discovery >= 1, "max_discovery", self.max_discovery, "1 or more")?;
        limit(self.max_waiting >= 1, "max_waiting", self.max_waiting, "1 or more")?;
        let namespaces = self.max_namespaces;
        limit((1..=65536).contains(&namespaces), "max_namespaces", namespaces, "1 to 65536")?;
        let kas_good = kas > 0 && kas.is_multiple_of(100) && kas <= 6_553_500;
        let kas = u64::try_from(kas).unwrap_or(u64::MAX);
        limit(kas_good, "keep_alive_granularity", kas, "a multiple of 100 ms, at most 6553.5 s")?;
        check_text("firmware revision", &self.firmware, 8)
    }
}

fn limit(
    good: bool,
    name: &'static str,
    value: impl Into<u64>,
    wanted: &'static str,
) -> Result<(), ConfigError> {
    if good { Ok(()) } else { Err(ConfigError::Limit { name, value: value.into(), wanted }) }
}
