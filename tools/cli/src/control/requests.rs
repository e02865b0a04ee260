//! The requests that subcommands make.

use serde_json::Value;
use sluice_config::{Setting, call, params};

use super::args::{
    Command, ConfigAction, HostAction, KeyCommand, ListenerAction, LogAction, NamespaceAction,
    SubsystemAction,
};
use super::keys::KeyAction;
use super::request::Request;
use super::words::OnOff;

impl Command {
    /// Returns the subcommand on files with secrets, which are not in the daemon's hands.
    pub(super) fn on_keys(&self) -> Option<&KeyAction> {
        match self {
            Self::Host { action: HostAction::Key { action: KeyCommand::Files(action) } } => {
                Some(action)
            }
            _ => None,
        }
    }

    /// Returns whether the subcommand writes the configuration file.
    pub(super) fn saves(&self) -> bool {
        matches!(self, Self::Config { action: Some(ConfigAction::Save) })
    }

    /// Returns whether `--dry-run` has a meaning for the subcommand: it changes the target's configuration.
    pub(super) fn has_dry_run(&self) -> bool {
        let shows_only = self.on_keys().is_some() || self.saves();
        !shows_only && self.request().method.changes_configuration()
    }

    /// Makes the request of the subcommand.
    pub(super) fn request(&self) -> Request {
        let nothing = params::Nothing::default();
        match self {
            Self::Status => Request::of::<call::Status>(&nothing),
            Self::Connections => Request::of::<call::Connections>(&nothing),
            Self::Statistics => Request::of::<call::Statistics>(&params::Buckets::default()),
            Self::Events(_) => Request::of::<call::EventList>(&params::EventList::default()),
            Self::Trace(args) => args.request(),
            Self::Log { action: LogAction::Level { level } } => {
                Request::of::<call::LogLevel>(&params::LogLevel { level: level.clone() })
            }
            Self::Reload { check, force } => {
                Request::of::<call::Reload>(&params::Reload { force: *force, check: *check })
            }
            Self::Apply(args) => args.request(),
            Self::Config { action } => action.as_ref().unwrap_or(&ConfigAction::Show).request(),
            Self::Shutdown { now } => {
                Request::of::<call::Shutdown>(&params::Shutdown { now: *now })
            }
            Self::Subsystem { action } => action.request(),
            Self::Namespace { action } => action.request(),
            Self::Listener { action } => action.request(),
            Self::Host { action } => action.request(),
            Self::Qos { action } => action.request(),
            Self::Region { action } => action.request(),
        }
    }
}

impl ConfigAction {
    fn request(&self) -> Request {
        let nothing = params::Nothing::default();
        match self {
            Self::Show => Request::of::<call::ConfigShow>(&nothing),
            Self::Diff => Request::of::<call::ConfigDiff>(&nothing),
            Self::Revert { object, force } => {
                let object = Some(object.join(" ")).filter(|name| !name.is_empty());
                let force = force.then_some(true);
                let asked = params::Settings::default().with("object", object);
                Request::of::<call::ConfigRevert>(&asked.with("force", force))
            }
            Self::Save => Request::of::<call::ConfigMerge>(&nothing),
        }
    }
}

impl SubsystemAction {
    fn request(&self) -> Request {
        match self {
            Self::Add { nqn, settings } => {
                Request::of::<call::SubsystemAdd>(&settings.of("nqn", nqn))
            }
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
            Self::Add(add) => {
                Request::of::<call::NamespaceAdd>(&add.settings.of("subsystem", &add.subsystem))
            }
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

impl ListenerAction {
    fn request(&self) -> Request {
        match self {
            Self::Add { address, settings } => {
                Request::of::<call::ListenerAdd>(&settings.of("address", address))
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
            Self::Add { subsystem, host, settings, force } => Request::of::<call::HostAdd>(
                &settings
                    .of("subsystem", subsystem)
                    .with("host", Some(host.as_str()))
                    .with("force", force.then_some(true)),
            ),
            Self::Set { subsystem, host, settings, any_address, all_namespaces, force } => {
                Request::of::<call::HostSet>(
                    &settings
                        .of("subsystem", subsystem)
                        .with("host", Some(host.as_str()))
                        .with("addresses", any_address.then_some(Value::Null))
                        .with("namespaces", all_namespaces.then_some(Value::Null))
                        .with("force", force.then_some(true)),
                )
            }
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
            // Secrets are in files: the daemon reads them at a reload.
            Self::Key { action: KeyCommand::Files(_) } => {
                Request::of::<call::Reload>(&params::Reload::default())
            }
            Self::Key { action: KeyCommand::List } => {
                Request::of::<call::HostKeys>(&params::OfHost::default())
            }
            Self::List { subsystem } => {
                let subsystem = subsystem.clone();
                Request::of::<call::HostList>(&params::OfSubsystem { subsystem })
            }
        }
    }
}
