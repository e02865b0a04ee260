//! `sluice region …` and `sluice pmem show`: arguments, and the requests that they make.

use clap::{Args, Subcommand};
use serde_json::json;
use sluice_config::call;
use sluice_config::params::{self, Settings};

use super::request::Request;
use super::settings::{self, Options};

/// `sluice region …`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum RegionAction {
    /// Show the regions and their clients; the same as `sluice pmem show`
    List,
    /// Add a region
    Add(Box<RegionAdd>),
    /// Change a region's settings; others stay
    Set(Box<RegionSet>),
    /// Remove a region; the data on its file or device stays
    Remove {
        /// Name of the region
        name: String,
        /// Remove it even while clients are connected
        #[arg(long)]
        force: bool,
    },
}

/// `sluice region add`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RegionAdd {
    /// Name of the region: 1 to 16 letters, digits and -_.
    name: String,
    #[command(flatten)]
    settings: Options<settings::Region>,
}

/// `sluice region set`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RegionSet {
    /// Name of the region
    name: String,
    #[command(flatten)]
    settings: Options<settings::RegionChanges>,
    /// Let no host ask for the region
    #[arg(long, group = settings::SETTINGS, conflicts_with = "hosts")]
    no_hosts: bool,
    /// Change it even where connected clients lose something
    #[arg(long)]
    force: bool,
}

/// The subcommands of `sluice pmem` that ask the daemon.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum PmemAction {
    /// Show the capacity, the regions and their clients
    Show,
    /// Measure the capacity with the load of the connected clients: run `sluice bench --pmem REGION --bare` on several
    /// of them meanwhile
    Profile {
        /// Number of periods
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
        periods: u32,
    },
}

impl PmemAction {
    pub(super) fn request(&self) -> Request {
        match self {
            Self::Show => Request::of::<call::PmemShow>(&params::Nothing::default()),
            Self::Profile { periods } => {
                Request::of::<call::PmemProfile>(&params::PmemProfile { periods: Some(*periods) })
            }
        }
    }
}

impl RegionAction {
    pub(super) fn request(&self) -> Request {
        match self {
            Self::List => PmemAction::Show.request(),
            Self::Add(add) => Request::of::<call::RegionAdd>(&add.settings.of("name", &add.name)),
            Self::Set(set) => Request::of::<call::RegionSet>(&set.settings()),
            Self::Remove { name, force } => {
                let (name, force) = (name.clone(), *force);
                Request::of::<call::RegionRemove>(&params::RegionRemove { name, force })
            }
        }
    }
}

impl RegionSet {
    /// Returns the keys that change, with the region's name.
    fn settings(&self) -> Settings {
        let settings = self.settings.of("name", &self.name);
        let settings = settings.with("hosts", self.no_hosts.then(|| json!([])));
        settings.with("force", self.force.then_some(true))
    }
}
