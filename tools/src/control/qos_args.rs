//! `sluice qos …`: arguments, and the requests that they make.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};
use sluice_schema::params::{self, Settings};
use sluice_schema::{Call, call};

use super::args::OnOff;
use super::network_args::{LinkAction, Network};
use super::requests::Request;

/// A QoS class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Class {
    /// Before all others, within its share
    Urgent,
    /// The greatest weight
    High,
    /// Between high and low
    Medium,
    /// The least weight
    Low,
}

impl Class {
    /// The daemon's word.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Urgent => "urgent",
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

/// A class, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClassOrNone {
    /// Before all others, within its share
    Urgent,
    /// The greatest weight
    High,
    /// Between high and low
    Medium,
    /// The least weight
    Low,
    /// Say nothing
    None,
}

impl ClassOrNone {
    fn name(self) -> Option<String> {
        let class = match self {
            Self::Urgent => Class::Urgent,
            Self::High => Class::High,
            Self::Medium => Class::Medium,
            Self::Low => Class::Low,
            Self::None => return None,
        };
        Some(class.name().to_owned())
    }
}

/// `sluice qos …`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum QosAction {
    /// Show the settings, and what classes, sessions and devices do
    Show,
    /// Change settings; those that are not given stay
    Set(Box<General>),
    /// Set the class of a listener's connections
    Listener {
        /// IP address and port
        address: String,
        /// The class
        #[arg(value_enum)]
        class: ClassOrNone,
    },
    /// Set the class of a namespace's commands
    Namespace {
        /// The subsystem's NQN
        subsystem: String,
        /// Namespace identifier
        nsid: u32,
        /// The class
        #[arg(value_enum)]
        class: ClassOrNone,
    },
    /// Set or remove what holds for a host, a subsystem or a namespace
    Policy(Policy),
    /// Add, change, remove or list sessions
    Session {
        #[command(subcommand)]
        action: SessionAction,
    },
    /// Reserve a part of a device for a session
    Reserve(Reserve),
    /// Give a session's reservation back
    Release {
        /// The session's name
        session: String,
    },
    /// Show or change what classes get of the network
    Network(Box<Network>),
    /// Add, change, remove or list links: parts of the network with capacities of their own
    Link {
        #[command(subcommand)]
        action: LinkAction,
    },
}

/// `sluice qos set`.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct General {
    /// Whether commands wait their turn at all
    #[arg(long, value_enum)]
    enabled: Option<OnOff>,
    /// Weights of high, medium and low
    #[arg(long, value_name = "H,M,L", value_delimiter = ',')]
    weights: Option<Vec<u16>>,
    /// What weights count: commands or bytes
    #[arg(long)]
    unit: Option<String>,
    /// Commands taken from one queue at a time: 1, 2, 4 .. 64, or unlimited
    #[arg(long)]
    burst: Option<String>,
    /// What Urgent may take strictly first, such as "20 %"
    #[arg(long, value_name = "SHARE")]
    urgent_share: Option<String>,
    /// What a device may hold at once: a number of commands, off, or adaptive
    #[arg(long)]
    window: Option<String>,
    /// The latency that an adaptive window keeps, such as "2 ms"
    #[arg(long, value_name = "TIME")]
    latency_target: Option<String>,
    /// The most of an adaptive window
    #[arg(long, value_name = "COMMANDS")]
    window_max: Option<u32>,
    /// Commands in devices at one time, all together
    #[arg(long, value_name = "COMMANDS")]
    operations: Option<u32>,
    /// Bytes in devices at one time, such as "64 MiB"
    #[arg(long, value_name = "SIZE")]
    payload: Option<String>,
    /// Commands that may wait in the target at one time
    #[arg(long, value_name = "COMMANDS")]
    queue: Option<u32>,
    /// Whether controllers offer weighted round robin with urgent
    #[arg(long, value_enum)]
    wrr: Option<OnOff>,
    /// Whether answers carry the DSCP of their connection's class
    #[arg(long, value_enum)]
    mark: Option<OnOff>,
    /// DSCP of classes, such as urgent=46,high=34
    #[arg(long, value_name = "CLASS=DSCP", value_delimiter = ',', value_parser = mark)]
    dscp: Vec<(String, u8)>,
}

/// "urgent=46".
fn mark(text: &str) -> Result<(String, u8), String> {
    let (class, number) = text.split_once('=').ok_or("write CLASS=DSCP, such as urgent=46")?;
    let class = Class::from_str(class, false)?;
    let number = number.parse().map_err(|_| "a DSCP is a number from 0 to 63")?;
    Ok((class.name().into(), number))
}

/// `sluice qos policy`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Policy {
    /// NQN of the host; any host where not given
    #[arg(long, value_name = "NQN")]
    host: Option<String>,
    /// NQN of the subsystem; any subsystem where not given
    #[arg(long, value_name = "NQN")]
    subsystem: Option<String>,
    /// Namespace identifier; any namespace where not given
    #[arg(long, requires = "subsystem")]
    nsid: Option<u32>,
    #[command(flatten)]
    says: PolicySays,
}

/// What a policy says.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct PolicySays {
    /// The class of commands that name none, on connections that name none
    #[arg(long, value_enum)]
    class: Option<Class>,
    /// Commands that name a higher class have this one
    #[arg(long, value_enum)]
    max_class: Option<Class>,
    /// Urgent commands for each second, at most
    #[arg(long, value_name = "IOPS")]
    urgent_iops: Option<u64>,
    /// The session that commands are charged to
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Remove the policy
    #[arg(long, conflicts_with_all = ["class", "max_class", "urgent_iops", "session"])]
    remove: bool,
}

/// `sluice qos session …`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum SessionAction {
    /// Add a session that groups others
    Add {
        /// Its name
        name: String,
        #[command(flatten)]
        limits: Limits,
    },
    /// Change a session's settings; those that are not given stay
    Set {
        /// Its name; the NQN of a subsystem; NQN/NSID of a namespace
        name: String,
        #[command(flatten)]
        limits: Limits,
    },
    /// Remove a session; one that comes with a subsystem or a namespace has its defaults again
    Remove {
        /// Its name
        name: String,
    },
    /// List the sessions
    List,
}

/// A session's settings; "none" takes one back.
#[derive(Clone, Debug, Args)]
pub(crate) struct Limits {
    /// Name of the session above it
    #[arg(long, value_name = "NAME")]
    parent: Option<String>,
    /// Commands in devices at one time, as a share of the parent's, such as "50 %"
    #[arg(long, value_name = "SHARE")]
    operations: Option<String>,
    /// Bytes in devices at one time, as a share of the parent's
    #[arg(long, value_name = "SHARE")]
    payload: Option<String>,
    /// Commands for each second, at most
    #[arg(long)]
    iops: Option<String>,
    /// Bytes for each second, at most, such as "200 MiB"
    #[arg(long, value_name = "SIZE")]
    bandwidth: Option<String>,
    /// Commands that may wait before hosts are held back
    #[arg(long, value_name = "COMMANDS")]
    queue: Option<String>,
}

/// `sluice qos reserve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Reserve {
    /// The session's name
    session: String,
    #[command(flatten)]
    budget: Budget,
    /// The period, such as "1 s" [default: 1 s]
    #[arg(long, value_name = "TIME")]
    period: Option<String>,
    /// The usual size of a command [default: 4 KiB]
    #[arg(long, value_name = "SIZE")]
    request_size: Option<String>,
    /// Writes among the commands [default: 0 %]
    #[arg(long, value_name = "SHARE")]
    writes: Option<String>,
    /// Where the commands go: random or sequential [default: random]
    #[arg(long)]
    locality: Option<String>,
    /// The namespace on whose device it is made, as NQN/NSID; needed where the session is not a
    /// namespace's own
    #[arg(long, value_name = "NQN/NSID")]
    namespace: Option<String>,
}

/// How much is reserved for each period.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Budget {
    /// Commands
    #[arg(long, value_name = "COMMANDS")]
    operations: Option<u64>,
    /// Bytes, such as "200 MiB"
    #[arg(long, value_name = "SIZE")]
    bytes: Option<String>,
    /// Time of the device, such as "100 ms"
    #[arg(long)]
    time: Option<String>,
}

/// A value as the daemon takes it: a number, `null` for "none", or text.
pub(super) fn setting(text: &str) -> Value {
    match (text, text.parse::<u64>()) {
        ("none", _) => Value::Null,
        (_, Ok(number)) => json!(number),
        (text, Err(_)) => json!(text),
    }
}

/// Says whether a switch is on.
pub(super) fn on(switch: OnOff) -> bool {
    switch == OnOff::On
}

/// A text that may mean a number, or nothing; none where it was not given.
fn or_number(text: Option<&String>) -> Option<Value> {
    text.map(|text| setting(text))
}

impl QosAction {
    /// Makes the request.
    pub(super) fn request(&self) -> Request {
        match self {
            Self::Show => Request::of::<call::QosShow>(&params::Buckets::default()),
            Self::Set(general) => general.request(),
            Self::Listener { address, class } => {
                Request::of::<call::QosListener>(&params::ListenerClass {
                    address: address.clone(),
                    class: class.name(),
                })
            }
            Self::Namespace { subsystem, nsid, class } => {
                Request::of::<call::QosNamespace>(&params::NamespaceClass {
                    subsystem: subsystem.clone(),
                    nsid: *nsid,
                    class: class.name(),
                })
            }
            Self::Policy(policy) => policy.request(),
            Self::Session { action } => action.request(),
            Self::Reserve(reserve) => reserve.request(),
            Self::Release { session } => {
                let session = session.clone();
                Request::of::<call::SessionRelease>(&params::SessionRelease { session })
            }
            Self::Network(network) => network.request(),
            Self::Link { action } => action.request(),
        }
    }
}

impl General {
    fn request(&self) -> Request {
        let marks: Map<String, Value> =
            self.dscp.iter().map(|(class, mark)| (class.clone(), json!(mark))).collect();
        Request::of::<call::QosSet>(
            &Settings::default()
                .with("enabled", self.enabled.map(on))
                .with("weights", self.weights.as_ref().map(|weights| json!(weights)))
                .with("unit", self.unit.clone())
                .with("burst", or_number(self.burst.as_ref()))
                .with("urgent_share", self.urgent_share.clone())
                .with("window", or_number(self.window.as_ref()))
                .with("latency_target", self.latency_target.clone())
                .with("window_max", self.window_max)
                .with("operations", self.operations)
                .with("payload", or_number(self.payload.as_ref()))
                .with("queue", self.queue)
                .with("wrr", self.wrr.map(on))
                .with("mark", self.mark.map(on))
                .with("dscp", Some(marks).filter(|marks| !marks.is_empty())),
        )
    }
}

impl Policy {
    fn request(&self) -> Request {
        let says = &self.says;
        Request::of::<call::QosPolicy>(
            &Settings::default()
                .with("host", self.host.clone())
                .with("subsystem", self.subsystem.clone())
                .with("nsid", self.nsid)
                .with("class", says.class.map(Class::name))
                .with("max_class", says.max_class.map(Class::name))
                .with("urgent_iops", says.urgent_iops)
                .with("session", says.session.clone()),
        )
    }
}

impl SessionAction {
    fn request(&self) -> Request {
        match self {
            Self::Add { name, limits } => limits.request::<call::SessionAdd>(name),
            Self::Set { name, limits } => limits.request::<call::SessionSet>(name),
            Self::Remove { name } => {
                Request::of::<call::SessionRemove>(&params::SessionRemove { name: name.clone() })
            }
            Self::List => Request::of::<call::SessionList>(&params::Nothing::default()),
        }
    }
}

impl Limits {
    fn request<M: Call<Params = Settings>>(&self, name: &str) -> Request {
        // A session may be called 1, but no share and no limit may be a name.
        let parent = self.parent.as_ref().map(|name| match name.as_str() {
            "none" => Value::Null,
            name => json!(name),
        });
        Request::of::<M>(
            &Settings::default()
                .with("name", Some(name))
                .with("parent", parent)
                .with("operations", or_number(self.operations.as_ref()))
                .with("payload", or_number(self.payload.as_ref()))
                .with("iops", or_number(self.iops.as_ref()))
                .with("bandwidth", or_number(self.bandwidth.as_ref()))
                .with("queue", or_number(self.queue.as_ref())),
        )
    }
}

impl Reserve {
    fn request(&self) -> Request {
        Request::of::<call::SessionReserve>(
            &Settings::default()
                .with("session", Some(self.session.as_str()))
                .with("operations", self.budget.operations)
                .with("bytes", or_number(self.budget.bytes.as_ref()))
                .with("time", self.budget.time.clone())
                .with("period", self.period.clone())
                .with("request_size", or_number(self.request_size.as_ref()))
                .with("writes", self.writes.clone())
                .with("locality", self.locality.clone())
                .with("namespace", self.namespace.clone()),
        )
    }
}
