//! `sluice qos …`: arguments, and the requests that they make.

use clap::{Args, Subcommand};
use serde_json::Value;
use sluice_schema::params::{self, Settings};
use sluice_schema::{Call, call};

use super::network_args::{LinkAction, Network};
use super::request::Request;
use super::settings::{self, Options, Qos, Session};
use super::words::{Class, ClassOrNone};

/// `sluice qos …`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum QosAction {
    /// Show the settings, and what classes, sessions and devices do
    Show,
    /// Change settings; those that are not given stay
    Set(Options<Qos>),
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
        limits: Options<Session>,
    },
    /// Change a session's settings; those that are not given stay
    Set {
        /// Its name; the NQN of a subsystem; NQN/NSID of a namespace
        name: String,
        #[command(flatten)]
        limits: Options<Session>,
    },
    /// Remove a session; one that comes with a subsystem or a namespace has its defaults again
    Remove {
        /// Its name
        name: String,
    },
    /// List the sessions
    List,
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

/// Returns a number as a number and all else as text; none where nothing was given.
fn or_number(text: Option<&String>) -> Option<Value> {
    text.map(|text| settings::or_number(text))
}

impl QosAction {
    /// Makes the request.
    pub(super) fn request(&self) -> Request {
        match self {
            Self::Show => Request::of::<call::QosShow>(&params::Buckets::default()),
            Self::Set(general) => Request::of::<call::QosSet>(&general.settings),
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
            Self::Add { name, limits } => of_session::<call::SessionAdd>(name, limits),
            Self::Set { name, limits } => of_session::<call::SessionSet>(name, limits),
            Self::Remove { name } => {
                Request::of::<call::SessionRemove>(&params::SessionRemove { name: name.clone() })
            }
            Self::List => Request::of::<call::SessionList>(&params::Nothing::default()),
        }
    }
}

/// Makes a request that sets what is given for a session.
fn of_session<M: Call<Params = Settings>>(name: &str, limits: &Options<Session>) -> Request {
    Request::of::<M>(&limits.settings.clone().with("name", Some(name)))
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
