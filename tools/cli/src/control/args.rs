//! The subcommands' arguments, and the requests that they make.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use sluice_config::amounts::parse_fio_duration;
use sluice_config::program::parse_timeout;

use super::apply::ApplyArgs;
use super::keys::KeyAction;
use super::qos_args::QosAction;
use super::region_args::RegionAction;
use super::settings;
use super::trace::TraceArgs;
use super::words::OnOff;

/// How to reach the daemon and how to print its answers.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "With every command")]
pub(crate) struct Options {
    /// Use this control socket [default: $SLUICEGATE_CONTROL, /run/sluicegate/control.sock, or the
    /// user's own]
    // A variable that clap reads is shown in usage as if it were required.
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Give up when the daemon is silent for this long
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_timeout, default_value = "5s")]
    pub(crate) timeout: Duration,
    /// Print answers and errors as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Show the changes of a command without carrying them out
    #[arg(long, global = true)]
    pub(crate) dry_run: bool,
    /// Show all columns, however narrow the terminal is
    #[arg(long, global = true)]
    pub(crate) wide: bool,
}

impl Options {
    /// Writes the options that are not the defaults, for another program that has them.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let mut words = Vec::new();
        if let Some(path) = &self.socket {
            words.extend(["--socket".into(), path.into()]);
        }
        if self.timeout != TIMEOUT {
            words.extend(["--timeout".into(), format!("{}us", self.timeout.as_micros()).into()]);
        }
        if self.json {
            words.push("--json".into());
        }
        words
    }
}

/// The value of --timeout unless given.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The subcommands that ask a running daemon.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the state of the daemon; the exit status is 8 when there are problems
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
    /// Add, change, remove or list the hosts that may connect, and their secrets
    Host {
        #[command(subcommand)]
        action: HostAction,
    },
    /// Show or change quality of service: classes, sessions, reservations
    Qos {
        #[command(subcommand)]
        action: QosAction,
    },
    /// Add, change, remove or list regions of persistent memory
    Region {
        #[command(subcommand)]
        action: RegionAction,
    },
    /// List the connections
    Connections,
    /// Show commands and latencies of each namespace, host and queue
    Statistics,
    /// Show the latest events: hosts, namespaces, rejections, missed reservations, limits and changes
    Events(EventsArgs),
    /// Show where the time of commands goes: waits by their reasons, device, network
    Trace(TraceArgs),
    /// Show or change the level of the daemon's log
    Log {
        #[command(subcommand)]
        action: LogAction,
    },
    /// Read the configuration file again and change what differs
    Reload {
        /// Show the changes without making them
        #[arg(long)]
        check: bool,
        /// Reload even if hosts lose access to objects in use
        #[arg(long)]
        force: bool,
    },
    /// Make the target run a configuration: show the changes, and make them
    Apply(ApplyArgs),
    /// Print the configuration that runs, or compare it with the file, and take back or save live
    /// changes
    Config {
        #[command(subcommand)]
        action: Option<ConfigAction>,
    },
    /// End the daemon: commands in flight are completed, and hosts are notified
    Shutdown {
        /// End at once
        #[arg(long)]
        now: bool,
    },
}

/// `sluice events`.
#[derive(Clone, Debug, Args)]
pub(crate) struct EventsArgs {
    /// Print later events as they happen, until interrupted
    #[arg(short, long)]
    pub(super) follow: bool,
    /// Only events of the latest time, such as 10min or 2h
    #[arg(long, value_name = "TIME", value_parser = parse_fio_duration)]
    pub(super) since: Option<Duration>,
}

/// `sluice log …`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum LogAction {
    /// Show the level, or change it until the daemon ends
    Level {
        /// error, warn, info, debug, trace, or a filter such as "sluiced::serve=debug"
        level: Option<String>,
    },
}

/// `sluice config …`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Print the configuration that runs, with live changes, as a file that `sluiced --config` takes
    Show,
    /// List the objects that differ from the configuration file by live changes
    Diff,
    /// Revert live changes: the target returns to the file's configuration
    Revert {
        /// The object, as `sluice config diff` names it: "namespace NQN 3"; where not given, all
        #[arg(num_args = 0..)]
        object: Vec<String>,
        /// Revert even if hosts lose access to objects in use
        #[arg(long)]
        force: bool,
    },
    /// Write the live changes into the configuration file; comments and order stay
    Save,
}

/// `sluice subsystem …`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum SubsystemAction {
    /// Add a subsystem
    Add {
        /// NQN of the subsystem, such as nqn.2026-01.com.example:disk1
        nqn: String,
        #[command(flatten)]
        settings: settings::Options<settings::Subsystem>,
    },
    /// Remove a subsystem; its hosts are disconnected
    Remove {
        /// NQN of the subsystem
        nqn: String,
        /// Remove it even while hosts are connected
        #[arg(long)]
        force: bool,
    },
    /// List the subsystems
    List,
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
        /// Remove it even while hosts are using it
        #[arg(long)]
        force: bool,
    },
    /// Change a namespace's size
    Resize {
        /// The subsystem's NQN
        subsystem: String,
        /// Namespace identifier
        nsid: u32,
        /// The new size, such as "8 GiB"; where not given, the present size of the file or device
        size: Option<String>,
        /// Shrink it even while hosts are using it: data beyond the new end is lost
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
    #[command(flatten)]
    pub(super) settings: settings::Options<settings::Namespace>,
}

/// `sluice listener …`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ListenerAction {
    /// Add a listener
    Add {
        /// IP address and port, such as 0.0.0.0:4420
        address: String,
        #[command(flatten)]
        settings: settings::Options<settings::Listener>,
    },
    /// Remove a listener; hosts that came through it are disconnected
    Remove {
        /// IP address and port
        address: String,
        /// Remove it even while hosts are connected through it
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
        #[command(flatten)]
        settings: settings::Options<settings::Host>,
        /// Do so even where the host is connected and loses something, such as connections from other
        /// addresses
        #[arg(long)]
        force: bool,
    },
    /// Change the addresses that a host may come from, and its rights
    Set {
        /// The subsystem's NQN
        subsystem: String,
        /// The host's NQN
        host: String,
        #[command(flatten)]
        settings: settings::Options<settings::HostChanges>,
        /// Let the host come from any address
        #[arg(long, conflicts_with = "addresses", group = settings::SETTINGS)]
        any_address: bool,
        /// Let the host see all namespaces that are there for it
        #[arg(long, conflicts_with = "namespaces", group = settings::SETTINGS)]
        all_namespaces: bool,
        /// Do so even where the host is connected and loses something: connections from other
        /// addresses, disks, or the right to write to them
        #[arg(long)]
        force: bool,
    },
    /// Forbid a host to connect, and disconnect it
    Remove {
        /// The subsystem's NQN
        subsystem: String,
        /// The host's NQN
        host: String,
        /// Do so even while the host is connected
        #[arg(long)]
        force: bool,
    },
    /// Let any host connect, or only listed hosts
    Any {
        /// The subsystem's NQN
        subsystem: String,
        /// "on" lets any host connect; "off" disconnects unlisted hosts
        allow: OnOff,
        /// Change the permission even where connected hosts lose it
        #[arg(long)]
        force: bool,
    },
    /// Make, store, remove or list the secrets by which hosts prove themselves
    Key {
        #[command(subcommand)]
        action: KeyCommand,
    },
    /// List the hosts that may connect
    List {
        /// Only to this subsystem
        subsystem: Option<String>,
    },
}

/// `sluice host key …`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum KeyCommand {
    #[command(flatten)]
    Files(KeyAction),
    /// List the hosts of which the daemon has secrets or TLS keys
    List,
}
