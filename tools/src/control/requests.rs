//! The requests that subcommands make.

use clap::ValueEnum as _;
use serde_json::json;
use sluice_schema::params::{self, Settings};
use sluice_schema::{Setting, call};

use super::args::{
    Command, HostAction, ListenerAction, NamespaceAction, NamespaceAdd, SubsystemAction,
};
use super::request::Request;
use super::settings::or_number;
use super::words::{Class, OnOff};

impl Command {
    /// Makes the request of the subcommand.
    pub(super) fn request(&self) -> Request {
        let nothing = params::Nothing::default();
        match self {
            Self::Status => Request::of::<call::Status>(&nothing),
            Self::Connections => Request::of::<call::Connections>(&nothing),
            Self::Statistics => Request::of::<call::Statistics>(&params::Buckets::default()),
            Self::Reload { check, force } => {
                Request::of::<call::Reload>(&params::Reload { force: *force, check: *check })
            }
            Self::Shutdown { now } => {
                Request::of::<call::Shutdown>(&params::Shutdown { now: *now })
            }
            Self::Subsystem { action } => action.request(),
            Self::Namespace { action } => action.request(),
            Self::Listener { action } => action.request(),
            Self::Host { action } => action.request(),
            Self::Qos { action } => action.request(),
        }
    }
}

/// Returns a list that was given; none where it is empty.
fn given(list: &[String]) -> Option<Vec<String>> {
    (!list.is_empty()).then(|| list.to_vec())
}

impl SubsystemAction {
    fn request(&self) -> Request {
        match self {
            Self::Add { nqn, serial, model, any_host, hosts } => Request::of::<call::SubsystemAdd>(
                &Settings::default()
                    .with("nqn", Some(nqn.as_str()))
                    .with("serial", serial.clone())
                    .with("model", model.clone())
                    .with("allow_any_host", any_host.then_some(true))
                    .with("hosts", given(hosts)),
            ),
            Self::Remove { nqn, force } => {
                Request::of::<call::SubsystemRemove>(&params::SubsystemRemove {
                    nqn: nqn.clone(),
                    force: *force,
                })
            }
            Self::List => Request::of::<call::SubsystemList>(&params::Nothing::default()),
        }
    }
}

impl NamespaceAction {
    fn request(&self) -> Request {
        match self {
            Self::Add(add) => add.request(),
            Self::Remove { subsystem, nsid, force } => {
                Request::of::<call::NamespaceRemove>(&params::NamespaceRemove {
                    subsystem: subsystem.clone(),
                    nsid: *nsid,
                    force: *force,
                })
            }
            Self::Resize { subsystem, nsid, size, force } => {
                Request::of::<call::NamespaceResize>(&params::NamespaceResize {
                    subsystem: subsystem.clone(),
                    nsid: *nsid,
                    size: size.clone().map(Setting::Text),
                    force: *force,
                })
            }
            Self::Retry { subsystem, nsid } => {
                Request::of::<call::NamespaceRetry>(&params::NamespaceRetry {
                    subsystem: subsystem.clone(),
                    nsid: *nsid,
                })
            }
            Self::List { subsystem } => Request::of::<call::NamespaceList>(&params::OfSubsystem {
                subsystem: subsystem.clone(),
            }),
        }
    }
}

impl NamespaceAdd {
    fn request(&self) -> Request {
        let backend = self.backend.to_possible_value().map(|value| value.get_name().to_owned());
        let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| json!(path));
        Request::of::<call::NamespaceAdd>(
            &Settings::default()
                .with("subsystem", Some(self.subsystem.as_str()))
                .with("backend", backend)
                .with("size", self.size.clone())
                .with("block_size", self.block_size.clone())
                .with("path", path(&self.path))
                .with("device", path(&self.device))
                .with("nsid", self.nsid)
                .with("uuid", self.uuid.clone())
                .with("nguid", self.nguid.clone())
                .with("read_only", self.read_only.then_some(true))
                .with("class", self.class.map(Class::name))
                .with("window", self.window.as_deref().map(or_number))
                .with("latency_target", self.latency_target.clone())
                .with("hosts", given(&self.hosts))
                .with("force", self.force.then_some(true))
                .with("direct", self.buffered.then_some(false)),
        )
    }
}

impl ListenerAction {
    fn request(&self) -> Request {
        match self {
            Self::Add { address, advertise, discovery_only, class, link, subsystems } => {
                Request::of::<call::ListenerAdd>(
                    &Settings::default()
                        .with("address", Some(address.as_str()))
                        .with("advertise", advertise.clone())
                        .with("discovery_only", discovery_only.then_some(true))
                        .with("class", class.map(Class::name))
                        .with("link", link.clone())
                        .with("subsystems", given(subsystems)),
                )
            }
            Self::Remove { address, force } => {
                Request::of::<call::ListenerRemove>(&params::ListenerRemove {
                    address: address.clone(),
                    force: *force,
                })
            }
            Self::List => Request::of::<call::ListenerList>(&params::Nothing::default()),
        }
    }
}

impl HostAction {
    fn request(&self) -> Request {
        match self {
            Self::Add { subsystem, host } => Request::of::<call::HostAdd>(&params::HostAdd {
                subsystem: subsystem.clone(),
                host: host.clone(),
            }),
            Self::Remove { subsystem, host, force } => {
                Request::of::<call::HostRemove>(&params::HostRemove {
                    subsystem: subsystem.clone(),
                    host: host.clone(),
                    force: *force,
                })
            }
            Self::Any { subsystem, allow, force } => {
                Request::of::<call::HostAny>(&params::HostAny {
                    subsystem: subsystem.clone(),
                    allow: *allow == OnOff::On,
                    force: *force,
                })
            }
            Self::List { subsystem } => {
                let subsystem = subsystem.clone();
                Request::of::<call::HostList>(&params::OfSubsystem { subsystem })
            }
        }
    }
}
