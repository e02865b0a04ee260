//! The subcommands' arguments, and the requests that they make.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::qos_args::QosAction;
use super::words::{Class, OnOff};

/// How to reach the daemon and how to print its answers.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "With every command")]
pub(crate) struct Options {
    /// Use this control socket [default: /run/sluicegate/control.sock, or the user's own]
    #[arg(long, global = true, value_name = "PATH", env = "SLUICEGATE_CONTROL")]
    pub(crate) socket: Option<PathBuf>,
    /// Give up when the daemon is silent for this long
    #[arg(long, global = true, value_name = "TIME", value_parser = patience, default_value = "5s")]
    pub(crate) timeout: Duration,
    /// Print answers and errors as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Show all columns, however narrow the terminal is
    #[arg(long, global = true)]
    pub(crate) wide: bool,
}

/// Shortest and longest time to wait for a daemon that is silent.
const PATIENCE: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(24 * 3600);

fn patience(text: &str) -> Result<Duration, String> {
    let time = crate::bench::time(text)?;
    if PATIENCE.contains(&time) { Ok(time) } else { Err("write a time from 1ms to 24h".to_owned()) }
}

/// What to ask of a running daemon.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// Show how the daemon is; exit with 8 when something is not right
    Status,
    /// Add, remove or list subsystems
    Subsystem {
        #[command(subcommand)]
        action: SubsystemAction,
    },
    /// Add, remove, resize, list namespaces, or try again to open them
    Namespace {
        #[command(subcommand)]
        action: NamespaceAction,
    },
    /// Add, remove or list the addresses that hosts connect to
    Listener {
        #[command(subcommand)]
        action: ListenerAction,
    },
    /// Add, remove or list the hosts that may connect
    Host {
        #[command(subcommand)]
        action: HostAction,
    },
    /// Show or change quality of service: classes, sessions, reservations
    Qos {
        #[command(subcommand)]
        action: QosAction,
    },
    /// List the connections
    Connections,
    /// Show what was done for each namespace, host and queue, and how long it took
    Statistics,
    /// Read the configuration file again and change what differs
    Reload {
        /// Only say what would change
        #[arg(long)]
        check: bool,
        /// Also where hosts lose what they are using
        #[arg(long)]
        force: bool,
    },
    /// End the daemon: commands in flight are settled and hosts are told
    Shutdown {
        /// End at once
        #[arg(long)]
        now: bool,
    },
}

/// `sluice subsystem …`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum SubsystemAction {
    /// Add a subsystem
    Add {
        /// Its NQN, such as nqn.2026-01.com.example:disk1
        nqn: String,
        /// Serial number, up to 20 characters; derived from the NQN where not given
        #[arg(long)]
        serial: Option<String>,
        /// Model, up to 40 characters
        #[arg(long)]
        model: Option<String>,
        /// Let any host connect
        #[arg(long)]
        any_host: bool,
        /// NQN of a host that may connect; may be given more than once
        #[arg(long = "host", value_name = "NQN")]
        hosts: Vec<String>,
    },
    /// Remove a subsystem; its hosts are disconnected
    Remove {
        /// Its NQN
        nqn: String,
        /// Also while hosts are connected to it
        #[arg(long)]
        force: bool,
    },
    /// List the subsystems
    List,
}

/// What a namespace's blocks are kept on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// Reads zeroes, forgets writes
    Null,
    /// Memory, lost when the daemon ends
    Memory,
    /// A file, made where it is not there
    File,
    /// A block device
    Block,
    /// An NVMe namespace by passthrough, /dev/ngXnY
    Nvme,
}

/// `sluice namespace …`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum NamespaceAction {
    /// Add a namespace
    Add(Box<NamespaceAdd>),
    /// Remove a namespace; its data stays
    Remove {
        /// The subsystem's NQN
        subsystem: String,
        /// Namespace identifier
        nsid: u32,
        /// Also while hosts are using it
        #[arg(long)]
        force: bool,
    },
    /// Change a namespace's size
    Resize {
        /// The subsystem's NQN
        subsystem: String,
        /// Namespace identifier
        nsid: u32,
        /// The new size, such as "8 GiB"; where not given, what the file or device has now
        size: Option<String>,
        /// Also to less than hosts see now: data beyond the new end is lost
        #[arg(long)]
        force: bool,
    },
    /// Try again to open namespaces that are not available
    Retry {
        /// Only of this subsystem
        subsystem: Option<String>,
        /// Only this namespace
        nsid: Option<u32>,
    },
    /// List the namespaces and their states
    List {
        /// Only of this subsystem
        subsystem: Option<String>,
    },
}

/// `sluice namespace add`.
#[derive(Clone, Debug, Args)]
pub(crate) struct NamespaceAdd {
    /// The subsystem's NQN
    pub(super) subsystem: String,
    /// What its blocks are kept on
    #[arg(long, value_enum)]
    pub(super) backend: Backend,
    /// Size, such as "4 GiB" (null, memory, file)
    #[arg(long)]
    pub(super) size: Option<String>,
    /// Logical block size: 512 or 4096 bytes (null, memory, file, block)
    #[arg(long, value_name = "BYTES")]
    pub(super) block_size: Option<String>,
    /// The file or block device (file, block)
    #[arg(long)]
    pub(super) path: Option<PathBuf>,
    /// The character device /dev/ngXnY (nvme)
    #[arg(long)]
    pub(super) device: Option<PathBuf>,
    /// Namespace identifier; the lowest that is free where not given
    #[arg(long)]
    pub(super) nsid: Option<u32>,
    /// UUID; derived from the NQN and the NSID where not given
    #[arg(long)]
    pub(super) uuid: Option<String>,
    /// NGUID, 32 hexadecimal digits; the UUID's where not given
    #[arg(long)]
    pub(super) nguid: Option<String>,
    /// Refuse writes
    #[arg(long)]
    pub(super) read_only: bool,
    /// Go through the page cache (file, block)
    #[arg(long)]
    pub(super) buffered: bool,
    /// The class of its commands where nothing else says one
    #[arg(long, value_enum)]
    pub(super) class: Option<Class>,
    /// What its device may hold at once: a number of commands, off, or adaptive
    #[arg(long)]
    pub(super) window: Option<String>,
    /// The latency that an adaptive window keeps, such as "2 ms"
    #[arg(long, value_name = "TIME")]
    pub(super) latency_target: Option<String>,
    /// NQN of a host that sees it; may be given more than once; all hosts where not given
    #[arg(long = "host", value_name = "NQN")]
    pub(super) hosts: Vec<String>,
    /// Also where the device holds a file system, swap space or part of a RAID
    #[arg(long)]
    pub(super) force: bool,
}

/// `sluice listener …`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ListenerAction {
    /// Add a listener
    Add {
        /// IP address and port, such as 0.0.0.0:4420
        address: String,
        /// The address that discovery hands out
        #[arg(long, value_name = "ADDRESS")]
        advertise: Option<String>,
        /// Only answer discovery here
        #[arg(long)]
        discovery_only: bool,
        /// The class of connections that come through it and name none themselves
        #[arg(long, value_enum)]
        class: Option<Class>,
        /// The link that its connections share; the default one where not given
        #[arg(long, value_name = "NAME")]
        link: Option<String>,
        /// NQN of a subsystem that is served here; may be given more than once; all where not given
        #[arg(long = "subsystem", value_name = "NQN")]
        subsystems: Vec<String>,
    },
    /// Remove a listener; hosts that came through it are disconnected
    Remove {
        /// IP address and port
        address: String,
        /// Also while hosts are connected through it
        #[arg(long)]
        force: bool,
    },
    /// List the listeners
    List,
}

/// `sluice host …`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum HostAction {
    /// Let a host connect to a subsystem
    Add {
        /// The subsystem's NQN
        subsystem: String,
        /// The host's NQN: the content of its /etc/nvme/hostnqn
        host: String,
    },
    /// Refuse a host from now on, and disconnect it
    Remove {
        /// The subsystem's NQN
        subsystem: String,
        /// The host's NQN
        host: String,
        /// Also while it is connected
        #[arg(long)]
        force: bool,
    },
    /// Let any host connect, or only those that are listed
    Any {
        /// The subsystem's NQN
        subsystem: String,
        /// "on" lets any host connect; "off" disconnects those that are not listed
        allow: OnOff,
        /// Also where hosts that are connected lose their permission
        #[arg(long)]
        force: bool,
    },
    /// List the hosts that may connect
    List {
        /// Only to this subsystem
        subsystem: Option<String>,
    },
}
