//! `sluice qos network …` and `sluice qos link …`: arguments, and the requests that they make.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::args::{OnOff, Request};
use super::qos_args::{Class, Params};

/// `sluice qos network`.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Network {
    /// Whether classes share the network at all
    #[arg(long, value_enum)]
    enabled: Option<OnOff>,
    /// Whether what hosts send is paced too
    #[arg(long, value_enum)]
    writes: Option<OnOff>,
    /// The kernel's congestion control under connections, or auto; counts from the next start
    #[arg(long, value_name = "NAME")]
    base: Option<String>,
    /// What the default link carries, such as "10 Gbit/s", or auto
    #[arg(long, value_name = "RATE")]
    capacity: Option<String>,
    #[command(subcommand)]
    action: Option<NetworkAction>,
}

/// What else `sluice qos network` does.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum NetworkAction {
    /// Show the settings, and what links and classes do; the same as without arguments
    Show,
    /// Set what a class is to have of the default link
    Class {
        /// The class
        #[arg(value_enum)]
        class: Class,
        #[command(flatten)]
        aim: Aim,
    },
}

/// What a class is to have.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Aim {
    /// So many parts of what the other classes leave
    #[arg(long, value_name = "PARTS")]
    share: Option<u32>,
    /// A rate, such as "2 Gbit/s"
    #[arg(long)]
    rate: Option<String>,
    /// Round trips no longer than this, such as "2 ms"
    #[arg(long, value_name = "TIME")]
    latency: Option<String>,
    /// Whatever it asks for
    #[arg(long)]
    free: bool,
}

/// `sluice qos link …`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum LinkAction {
    /// Show the links, and what their classes do
    List,
    /// Add a link, for listeners that are on a wire of their own
    Add {
        /// Its name
        name: String,
        /// What it carries, such as "25 Gbit/s", or auto
        #[arg(long, value_name = "RATE")]
        capacity: Option<String>,
    },
    /// Change what a link carries
    Set {
        /// Its name
        name: String,
        /// What it carries, such as "25 Gbit/s", or auto
        #[arg(long, value_name = "RATE")]
        capacity: String,
    },
    /// Set what a class is to have of a link
    Class {
        /// The link's name
        name: String,
        /// The class
        #[arg(value_enum)]
        class: Class,
        #[command(flatten)]
        aim: Aim,
    },
    /// Set the link that a listener's connections share
    Listener {
        /// IP address and port
        address: String,
        /// The link's name; default for that of the network's own settings
        name: String,
    },
    /// Remove a link that no listener names
    Remove {
        /// Its name
        name: String,
    },
}

impl Aim {
    /// As the daemon takes it.
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

impl Network {
    /// The request that it makes.
    pub(super) fn request(&self) -> Request {
        let none = Params::default();
        match &self.action {
            Some(NetworkAction::Show) => none.request("network.show"),
            Some(NetworkAction::Class { class, aim }) => {
                none.with("classes", Some(aim.of(*class))).request("network.set")
            }
            None => {
                let settings = none
                    .switch("enabled", self.enabled)
                    .switch("writes", self.writes)
                    .with("base", self.base.clone())
                    .with("capacity", self.capacity.clone());
                match settings.is_empty() {
                    true => settings.request("network.show"),
                    false => settings.request("network.set"),
                }
            }
        }
    }
}

impl LinkAction {
    /// The request that it makes.
    pub(super) fn request(&self) -> Request {
        let of = |name: &String| Params::default().with("name", Some(name.as_str()));
        match self {
            Self::List => Params::default().request("network.show"),
            Self::Add { name, capacity } => {
                of(name).with("capacity", capacity.clone()).request("link.add")
            }
            Self::Set { name, capacity } => {
                of(name).with("capacity", Some(capacity.as_str())).request("link.set")
            }
            Self::Class { name, class, aim } => {
                of(name).with("classes", Some(aim.of(*class))).request("link.set")
            }
            Self::Listener { address, name } => Params::default()
                .with("address", Some(address.as_str()))
                .with("link", Some(name.as_str()))
                .request("network.listener"),
            Self::Remove { name } => of(name).request("link.remove"),
        }
    }
}
