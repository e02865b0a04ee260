//! The requests that subcommands make.

use clap::ValueEnum as _;
use serde_json::{Map, Value, json};

use super::args::{
    Command, HostAction, ListenerAction, NamespaceAction, NamespaceAdd, OnOff, Request,
    SubsystemAction,
};
use super::qos_args::{Class, setting};

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
    /// The request that the subcommand makes.
    pub(super) fn request(&self) -> Request {
        match self {
            Self::Status => request("status", json!({})),
            Self::Connections => request("connections", json!({})),
            Self::Statistics => request("statistics", json!({})),
            Self::Reload { check, force } => {
                request("reload", json!({ "check": check, "force": force }))
            }
            Self::Shutdown { now } => request("shutdown", json!({ "now": now })),
            Self::Subsystem { action } => action.request(),
            Self::Namespace { action } => action.request(),
            Self::Listener { action } => action.request(),
            Self::Host { action } => action.request(),
            Self::Qos { action } => action.request(),
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
            Self::Remove { nqn, force } => {
                request("subsystem.remove", json!({ "nqn": nqn, "force": force }))
            }
            Self::List => request("subsystem.list", json!({})),
        }
    }
}

impl NamespaceAction {
    fn request(&self) -> Request {
        match self {
            Self::Add(add) => add.request(),
            Self::Remove { subsystem, nsid, force } => request(
                "namespace.remove",
                json!({ "subsystem": subsystem, "nsid": nsid, "force": force }),
            ),
            Self::Resize { subsystem, nsid, size, force } => request(
                "namespace.resize",
                json!({ "subsystem": subsystem, "nsid": nsid, "size": size, "force": force }),
            ),
            Self::Retry { subsystem, nsid } => {
                request("namespace.retry", json!({ "subsystem": subsystem, "nsid": nsid }))
            }
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
            "force": self.force,
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
            Self::Remove { address, force } => {
                request("listener.remove", json!({ "address": address, "force": force }))
            }
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
            Self::Remove { subsystem, host, force } => request(
                "host.remove",
                json!({ "subsystem": subsystem, "host": host, "force": force }),
            ),
            Self::Any { subsystem, allow, force } => {
                let asked = json!({ "subsystem": subsystem, "force": force });
                let mut request = request("host.any", asked);
                if let Some(params) = request.params.as_object_mut() {
                    // "off" is said, where other switches that are off are left out.
                    params.insert("allow".into(), json!(*allow == OnOff::On));
                }
                request
            }
            Self::List { subsystem } => request("host.list", json!({ "subsystem": subsystem })),
        }
    }
}
