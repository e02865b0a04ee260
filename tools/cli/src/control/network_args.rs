//! `sluice qos network …` and `sluice qos link …`: arguments, and the requests that they make.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use sluice_config::call;
use sluice_config::params::{self, Settings};

use super::request::Request;
use super::settings::{self, Options};
use super::words::Class;

/// `sluice qos network`.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Network {
    #[command(flatten)]
    options: Options<settings::Network>,
    #[command(subcommand)]
    action: Option<NetworkAction>,
}

/// The subcommands of `sluice qos network`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum NetworkAction {
    /// Show the settings, links and classes; the same as without arguments
    Show,
    /// Set the goal of a class on the default link
    Class {
        /// The class
        #[arg(value_enum)]
        class: Class,
        #[command(flatten)]
        goal: Goal,
    },
}

/// The goal of a class.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Goal {
    /// Parts of the capacity that classes with other goals leave
    #[arg(long, value_name = "PARTS")]
    share: Option<u32>,
    /// A rate, such as "2 Gbit/s"
    #[arg(long)]
    rate: Option<String>,
    /// Round trips no longer than this, such as "2 ms"
    #[arg(long, value_name = "TIME")]
    latency: Option<String>,
    /// No goal: the class is not limited
    #[arg(long)]
    free: bool,
}

/// `sluice qos link …`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum LinkAction {
    /// Show the links and their classes
    List,
    /// Add a link, for listeners on a network of their own
    Add {
        /// Name of the link
        name: String,
        #[command(flatten)]
        settings: Options<settings::Link>,
    },
    /// Change a link's settings
    Set {
        /// Name of the link
        name: String,
        #[command(flatten)]
        settings: Options<settings::LinkChanges>,
    },
    /// Set the goal of a class on a link
    Class {
        /// The link's name
        name: String,
        /// The class
        #[arg(value_enum)]
        class: Class,
        #[command(flatten)]
        goal: Goal,
    },
    /// Set the link that a listener's connections share
    Listener {
        /// IP address and port
        address: String,
        /// The link's name; "default" for the link of the network's own settings
        name: String,
    },
    /// Remove a link that no listener names
    Remove {
        /// Name of the link
        name: String,
    },
}

impl Goal {
    /// Returns the goal as the daemon takes it.
    fn json(&self) -> Value {
        match self {
            Self { share: Some(parts), .. } => json!({ "share": parts }),
            Self { rate: Some(rate), .. } => json!({ "rate": rate }),
            Self { latency: Some(time), .. } => json!({ "latency": time }),
            Self { .. } => json!("free"),
        }
    }

    fn of(&self, class: Class) -> Value {
        json!({ class.name(): self.json() })
    }
}

/// Makes the request for the state of the network.
fn show() -> Request {
    Request::of::<call::NetworkShow>(&params::Nothing::default())
}

impl Network {
    pub(super) fn request(&self) -> Request {
        let none = Settings::default();
        let settings = match &self.action {
            Some(NetworkAction::Show) => none,
            Some(NetworkAction::Class { class, goal }) => {
                none.with("classes", Some(goal.of(*class)))
            }
            None => self.options.settings.clone(),
        };
        match settings.is_empty() {
            true => show(),
            false => Request::of::<call::NetworkSet>(&settings),
        }
    }
}

impl LinkAction {
    pub(super) fn request(&self) -> Request {
        let of = |name: &String| Settings::default().with("name", Some(name.as_str()));
        match self {
            Self::List => show(),
            Self::Add { name, settings } => {
                Request::of::<call::LinkAdd>(&settings.of("name", name))
            }
            Self::Set { name, settings } => {
                Request::of::<call::LinkSet>(&settings.of("name", name))
            }
            Self::Class { name, class, goal } => {
                Request::of::<call::LinkSet>(&of(name).with("classes", Some(goal.of(*class))))
            }
            Self::Listener { address, name } => {
                Request::of::<call::NetworkListener>(&params::ListenerLink {
                    address: address.clone(),
                    link: Some(name.clone()),
                })
            }
            Self::Remove { name } => {
                Request::of::<call::LinkRemove>(&params::LinkRemove { name: name.clone() })
            }
        }
    }
}
