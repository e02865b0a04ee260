//! The subcommands' arguments, and the requests that they make.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};

use super::qos_args::{Class, QosAction, setting};

/// How to reach the daemon and how to print its answer.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Options {
    /// The daemon's control socket [default: /run/sluicegate/control.sock, or the user's own]
    #[arg(long, global = true, value_name = "PATH", env = "SLUICEGATE_CONTROL")]
    pub(crate) socket: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// What to ask of a running daemon.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// Show how the daemon is
    Status {
        #[command(flatten)]
        options: Options,
    },
    /// Add, remove or list subsystems
    Subsystem {
        #[command(flatten)]
        options: Options,
        #[command(subcommand)]
        action: SubsystemAction,
    },
    /// Add, remove, resize or list namespaces
    Namespace {
        #[command(flatten)]
        options: Options,
        #[command(subcommand)]
        action: NamespaceAction,
    },
    /// Add, remove or list the addresses that hosts connect to
    Listener {
        #[command(flatten)]
        options: Options,
        #[command(subcommand)]
        action: ListenerAction,
    },
    /// Add, remove or list the hosts that may connect
    Host {
        #[command(flatten)]
        options: Options,
        #[command(subcommand)]
        action: HostAction,
    },
    /// Show or change quality of service: classes, sessions, reservations
    Qos {
        #[command(flatten)]
        options: Options,
        #[command(subcommand)]
        action: QosAction,
    },
    /// List the connections
    Connections {
        #[command(flatten)]
        options: Options,
    },
    /// End the daemon: commands in flight are settled and hosts are told
    Shutdown {
        #[command(flatten)]
        options: Options,
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
    },
    /// Change a namespace's size
    Resize {
        /// The subsystem's NQN
        subsystem: String,
        /// Namespace identifier
        nsid: u32,
        /// The new size, such as "8 GiB"; where not given, what the file or device has now
        size: Option<String>,
    },
    /// List the namespaces
    List {
        /// Only of this subsystem
        subsystem: Option<String>,
    },
}

/// `sluice namespace add`.
#[derive(Clone, Debug, Args)]
pub(crate) struct NamespaceAdd {
    /// The subsystem's NQN
    subsystem: String,
    /// What its blocks are kept on
    #[arg(long, value_enum)]
    backend: Backend,
    /// Size, such as "4 GiB" (null, memory, file)
    #[arg(long)]
    size: Option<String>,
    /// Logical block size: 512 or 4096 bytes (null, memory, file, block)
    #[arg(long, value_name = "BYTES")]
    block_size: Option<String>,
    /// The file or block device (file, block)
    #[arg(long)]
    path: Option<PathBuf>,
    /// The character device /dev/ngXnY (nvme)
    #[arg(long)]
    device: Option<PathBuf>,
    /// Namespace identifier; the lowest that is free where not given
    #[arg(long)]
    nsid: Option<u32>,
    /// UUID; derived from the NQN and the NSID where not given
    #[arg(long)]
    uuid: Option<String>,
    /// NGUID, 32 hexadecimal digits; the UUID's where not given
    #[arg(long)]
    nguid: Option<String>,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    /// Go through the page cache (file, block)
    #[arg(long)]
    buffered: bool,
    /// The class of its commands where nothing else says one
    #[arg(long, value_enum)]
    class: Option<Class>,
    /// What its device may hold at once: a number of commands, off, or adaptive
    #[arg(long)]
    window: Option<String>,
    /// The latency that an adaptive window keeps, such as "2 ms"
    #[arg(long, value_name = "TIME")]
    latency_target: Option<String>,
    /// NQN of a host that sees it; may be given more than once; all hosts where not given
    #[arg(long = "host", value_name = "NQN")]
    hosts: Vec<String>,
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
    },
    /// Let any host connect, or only those that are listed
    Any {
        /// The subsystem's NQN
        subsystem: String,
        /// "on" lets any host connect; "off" disconnects those that are not listed
        allow: OnOff,
    },
    /// List the hosts that may connect
    List {
        /// Only to this subsystem
        subsystem: Option<String>,
    },
}

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnOff {
    /// On
    #[value(alias = "true")]
    On,
    /// Off
    #[value(alias = "false")]
    Off,
}

/// A request to the daemon.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) method: &'static str,
    pub(super) params: Value,
}

/// Parameters without those that were not given.
fn request(method: &'static str, params: Value) -> Request {
    let absent = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    let given: Map<String, Value> = match params {
        Value::Object(map) => map.into_iter().filter(|(_, value)| !absent(value)).collect(),
        _ => Map::new(),
    };
    Request { method, params: Value::Object(given) }
}

impl Command {
    /// The options that every subcommand has.
    pub(super) fn options(&self) -> &Options {
        match self {
            Self::Status { options }
            | Self::Subsystem { options, .. }
            | Self::Namespace { options, .. }
            | Self::Listener { options, .. }
            | Self::Host { options, .. }
            | Self::Qos { options, .. }
            | Self::Connections { options }
            | Self::Shutdown { options, .. } => options,
        }
    }

    /// The request that the subcommand makes.
    pub(super) fn request(&self) -> Request {
        match self {
            Self::Status { .. } => request("status", json!({})),
            Self::Connections { .. } => request("connections", json!({})),
            Self::Shutdown { now, .. } => request("shutdown", json!({ "now": now })),
            Self::Subsystem { action, .. } => action.request(),
            Self::Namespace { action, .. } => action.request(),
            Self::Listener { action, .. } => action.request(),
            Self::Host { action, .. } => action.request(),
            Self::Qos { action, .. } => action.request(),
        }
    }
}

impl SubsystemAction {
    fn request(&self) -> Request {
        match self {
            Self::Add { nqn, serial, model, any_host, hosts } => request(
                "subsystem.add",
                json!({
                    "nqn": nqn,
                    "serial": serial,
                    "model": model,
                    "allow_any_host": any_host,
                    "hosts": hosts,
                }),
            ),
            Self::Remove { nqn } => request("subsystem.remove", json!({ "nqn": nqn })),
            Self::List => request("subsystem.list", json!({})),
        }
    }
}

impl NamespaceAction {
    fn request(&self) -> Request {
        match self {
            Self::Add(add) => add.request(),
            Self::Remove { subsystem, nsid } => {
                request("namespace.remove", json!({ "subsystem": subsystem, "nsid": nsid }))
            }
            Self::Resize { subsystem, nsid, size } => request(
                "namespace.resize",
                json!({ "subsystem": subsystem, "nsid": nsid, "size": size }),
            ),
            Self::List { subsystem } => {
                request("namespace.list", json!({ "subsystem": subsystem }))
            }
        }
    }
}

impl NamespaceAdd {
    fn request(&self) -> Request {
        let backend = self.backend.to_possible_value().map(|value| value.get_name().to_owned());
        let mut params = json!({
            "subsystem": self.subsystem,
            "backend": backend,
            "size": self.size,
            "block_size": self.block_size,
            "path": self.path,
            "device": self.device,
            "nsid": self.nsid,
            "uuid": self.uuid,
            "nguid": self.nguid,
            "read_only": self.read_only,
            "class": self.class.map(Class::name),
            "window": self.window.as_deref().map(setting),
            "latency_target": self.latency_target,
            "hosts": self.hosts,
        });
        params = request("namespace.add", params).params;
        if let (true, Some(params)) = (self.buffered, params.as_object_mut()) {
            params.insert("direct".into(), json!(false));
        }
        Request { method: "namespace.add", params }
    }
}

impl ListenerAction {
    fn request(&self) -> Request {
        match self {
            Self::Add { address, advertise, discovery_only, class, link, subsystems } => request(
                "listener.add",
                json!({
                    "address": address,
                    "advertise": advertise,
                    "discovery_only": discovery_only,
                    "class": class.map(Class::name),
                    "link": link,
                    "subsystems": subsystems,
                }),
            ),
            Self::Remove { address } => request("listener.remove", json!({ "address": address })),
            Self::List => request("listener.list", json!({})),
        }
    }
}

impl HostAction {
    fn request(&self) -> Request {
        match self {
            Self::Add { subsystem, host } => {
                request("host.add", json!({ "subsystem": subsystem, "host": host }))
            }
            Self::Remove { subsystem, host } => {
                request("host.remove", json!({ "subsystem": subsystem, "host": host }))
            }
            Self::Any { subsystem, allow } => Request {
                method: "host.any",
                params: json!({ "subsystem": subsystem, "allow": *allow == OnOff::On }),
            },
            Self::List { subsystem } => request("host.list", json!({ "subsystem": subsystem })),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(subcommand)]
        command: Command,
    }

    fn parsed(line: &str) -> Command {
        Line::try_parse_from(std::iter::once("sluice").chain(line.split(' '))).unwrap().command
    }

    #[test]
    fn the_command_line_is_consistent() {
        Line::command().debug_assert();
    }

    #[test]
    fn options_are_taken_anywhere() {
        for line in ["status --json --socket /s", "namespace list --json --socket /s"] {
            let options = parsed(line).options().clone();
            assert!(options.json && options.socket == Some("/s".into()), "{line}");
        }
    }

    #[test]
    fn lines_that_ask_for_nothing_or_for_two_things_are_refused() {
        for line in [
            "qos set",
            "qos policy --host h",
            "qos policy --host h --class low --remove",
            "qos policy --nsid 1 --class low",
            "qos reserve g",
            "qos reserve g --operations 1 --bytes 1MiB",
            "qos set --dscp top=1",
            "qos network class high",
            "qos network class high --share 3 --free",
            "qos network class top --free",
            "qos network --enabled off class high --free",
            "qos link set east",
        ] {
            let words = std::iter::once("sluice").chain(line.split(' '));
            assert!(Line::try_parse_from(words).is_err(), "{line}");
        }
    }

    /// The words of a line; quotes hold words together.
    fn words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (index, part) in line.split('"').enumerate() {
            match index % 2 {
                0 => words.extend(part.split_whitespace().map(str::to_owned)),
                _ => words.push(part.to_owned()),
            }
        }
        words
    }

    #[test]
    fn the_guides_command_lines_are_right() {
        let guide = include_str!("../../../docs/qos.md");
        let lines: Vec<&str> =
            guide.lines().filter_map(|l| l.strip_prefix("$ sluice qos ")).collect();
        assert!(lines.len() > 10);
        for line in lines {
            let all = ["sluice", "qos"].map(str::to_owned).into_iter().chain(words(line));
            let parsed =
                Line::try_parse_from(all).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert!(parsed.command.request().params.is_object());
        }
    }

    #[test]
    fn lines_make_requests() {
        for (line, method, params) in [
            ("status", "status", json!({})),
            ("shutdown --now", "shutdown", json!({"now": true})),
            (
                "namespace add q --backend memory --size 4GiB --read-only",
                "namespace.add",
                json!({"subsystem": "q", "backend": "memory", "size": "4GiB", "read_only": true}),
            ),
            (
                "namespace add q --backend file --path /x --buffered --host h",
                "namespace.add",
                json!({"subsystem": "q", "backend": "file", "path": "/x", "direct": false,
                       "hosts": ["h"]}),
            ),
            ("namespace resize q 1", "namespace.resize", json!({"subsystem": "q", "nsid": 1})),
            ("host any q off", "host.any", json!({"subsystem": "q", "allow": false})),
            (
                "subsystem add q --any-host",
                "subsystem.add",
                json!({"nqn": "q", "allow_any_host": true}),
            ),
            (
                "listener add a --discovery-only",
                "listener.add",
                json!({"address": "a", "discovery_only": true}),
            ),
            (
                "listener add a --class high",
                "listener.add",
                json!({"address": "a", "class": "high"}),
            ),
            ("qos show", "qos.show", json!({})),
            (
                "qos set --weights 5,3,1 --window adaptive --enabled off --dscp urgent=46,low=0",
                "qos.set",
                json!({"weights": [5, 3, 1], "window": "adaptive", "enabled": false,
                       "dscp": {"urgent": 46, "low": 0}}),
            ),
            ("qos set --window 16 --burst 8", "qos.set", json!({"window": 16, "burst": 8})),
            ("qos listener a none", "qos.listener", json!({"address": "a", "class": null})),
            (
                "qos namespace q 1 low",
                "qos.namespace",
                json!({"subsystem": "q", "nsid": 1, "class": "low"}),
            ),
            (
                "qos policy --host h --max-class medium --session 7",
                "qos.policy",
                json!({"host": "h", "max_class": "medium", "session": "7"}),
            ),
            ("qos policy --host h --remove", "qos.policy", json!({"host": "h"})),
            (
                "qos session set g --iops none --bandwidth 1MiB --parent t --queue 9",
                "session.set",
                json!({"name": "g", "iops": null, "bandwidth": "1MiB", "parent": "t", "queue": 9}),
            ),
            (
                "qos reserve g --bytes 1MiB --period 1s --namespace q/1",
                "session.reserve",
                json!({"session": "g", "bytes": "1MiB", "period": "1s", "namespace": "q/1"}),
            ),
            ("qos release g", "session.release", json!({"session": "g"})),
            ("listener add a --link east", "listener.add", json!({"address": "a", "link": "east"})),
            ("qos network", "network.show", json!({})),
            ("qos network show", "network.show", json!({})),
            (
                "qos network --enabled false --writes on --capacity 10Gbit/s --base dctcp",
                "network.set",
                json!({"enabled": false, "writes": true, "capacity": "10Gbit/s", "base": "dctcp"}),
            ),
            (
                "qos network class high --share 3",
                "network.set",
                json!({"classes": {"high": {"share": 3}}}),
            ),
            (
                "qos network class low --latency 2ms",
                "network.set",
                json!({"classes": {"low": {"latency": "2ms"}}}),
            ),
            ("qos link list", "network.show", json!({})),
            ("qos link add east", "link.add", json!({"name": "east"})),
            (
                "qos link set east --capacity auto",
                "link.set",
                json!({"name": "east", "capacity": "auto"}),
            ),
            (
                "qos link class east low --rate 1Gbit/s",
                "link.set",
                json!({"name": "east", "classes": {"low": {"rate": "1Gbit/s"}}}),
            ),
            (
                "qos link class east urgent --free",
                "link.set",
                json!({"name": "east", "classes": {"urgent": "free"}}),
            ),
            (
                "qos link listener a:1 default",
                "network.listener",
                json!({"address": "a:1", "link": "default"}),
            ),
            ("qos link remove east", "link.remove", json!({"name": "east"})),
        ] {
            assert_eq!(parsed(line).request(), Request { method, params }, "{line}");
        }
    }
}
