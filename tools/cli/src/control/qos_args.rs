//! `sluice qos …`: arguments, and the requests that they make.

use clap::{Args, Subcommand};
use sluice_config::params::{self, Settings};
use sluice_config::{Call, call};

use super::network_args::{LinkAction, Network};
use super::request::Request;
use super::settings::{self, Options, Qos, Session};
use super::words::ClassOrNone;

/// `sluice qos …`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum QosAction {
    /// Show the settings, classes, sessions, devices and policies
    Show,
    /// Change settings; others stay
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
    /// Set or remove the policy of a host, a subsystem or a namespace
    Policy(Policy),
    /// Add, change, remove or list sessions
    Session {
        #[command(subcommand)]
        action: SessionAction,
    },
    /// Add, change, remove or list profiles: limits that many sessions have by name
    Profile {
        #[command(subcommand)]
        action: ProfileAction,
    },
    /// Reserve a part of a device for a session
    Reserve(Reserve),
    /// Give up a session's reservation
    Release {
        /// The session's name
        session: String,
    },
    /// Show or change the parts of the network that classes get
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
    #[command(flatten)]
    settings: Options<settings::Policy>,
    /// Remove the policy
    #[arg(long, group = settings::SETTINGS, conflicts_with = settings::KEYS)]
    remove: bool,
}

/// `sluice qos session …`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum SessionAction {
    /// Add a session that groups others
    Add {
        /// Name of the session
        name: String,
        #[command(flatten)]
        limits: Options<Session>,
    },
    /// Change a session's settings; others stay
    Set {
        /// Name of the session; the NQN of a subsystem; NQN/NSID of a namespace
        name: String,
        #[command(flatten)]
        limits: Options<Session>,
    },
    /// Remove a session; the session of a subsystem or a namespace returns to its defaults
    Remove {
        /// Name of the session
        name: String,
    },
    /// List the sessions
    List,
}

/// `sluice qos profile …`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ProfileAction {
    /// Add a profile
    Add {
        /// Name of the profile
        name: String,
        #[command(flatten)]
        limits: Options<settings::Profile>,
    },
    /// Change a profile, and all sessions that have it; settings that are not given stay
    Set {
        /// Name of the profile
        name: String,
        #[command(flatten)]
        limits: Options<settings::ProfileChanges>,
    },
    /// Remove a profile that no session has
    Remove {
        /// Name of the profile
        name: String,
    },
    /// List the profiles
    List,
}

/// `sluice qos reserve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Reserve {
    /// The session's name
    session: String,
    #[command(flatten)]
    settings: Options<settings::Reserve>,
}

impl QosAction {
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
            Self::Policy(policy) => Request::of::<call::QosPolicy>(&policy.settings.settings),
            Self::Session { action } => action.request(),
            Self::Profile { action } => action.request(),
            Self::Reserve(Reserve { session, settings }) => {
                Request::of::<call::SessionReserve>(&settings.of("session", session))
            }
            Self::Release { session } => {
                let session = session.clone();
                Request::of::<call::SessionRelease>(&params::SessionRelease { session })
            }
            Self::Network(network) => network.request(),
            Self::Link { action } => action.request(),
        }
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

impl ProfileAction {
    fn request(&self) -> Request {
        match self {
            Self::Add { name, limits } => Request::of::<call::ProfileAdd>(&limits.of("name", name)),
            Self::Set { name, limits } => Request::of::<call::ProfileSet>(&limits.of("name", name)),
            Self::Remove { name } => {
                Request::of::<call::ProfileRemove>(&params::ProfileRemove { name: name.clone() })
            }
            Self::List => Request::of::<call::ProfileList>(&params::Nothing::default()),
        }
    }
}

/// Makes a request with the given settings of a session.
fn of_session<M: Call<Params = Settings>>(name: &str, limits: &Options<Session>) -> Request {
    Request::of::<M>(&limits.of("name", name))
}
