//! The parts of the daemon's configuration that a prediction needs. The daemon has checked it; other keys are ignored.

use anyhow::Context as _;
use serde::Deserialize;
use sluice_config::amounts::{parse_bandwidth, parse_duration, parse_size};
use toml::{Table, Value};

use crate::model::Transport;
pub(super) use crate::scenario::ClassName;
use crate::scenario::value::Count;

/// A configuration file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Config {
    pub(super) target: Target,
    /// `[qos]`, as it is written.
    pub(super) qos: Table,
    /// `[network]`, as it is written.
    pub(super) network: Table,
    #[serde(rename = "link")]
    pub(super) links: Vec<Table>,
    /// `[[session]]`, as they are written.
    #[serde(rename = "session")]
    pub(super) sessions: Vec<Table>,
    /// `[[profile]]`, as they are written.
    #[serde(rename = "profile")]
    pub(super) profiles: Vec<Table>,
    #[serde(rename = "policy")]
    pub(super) policies: Vec<Policy>,
    #[serde(rename = "listener")]
    pub(super) listeners: Vec<Listener>,
    #[serde(rename = "subsystem")]
    pub(super) subsystems: Vec<Subsystem>,
}

/// `[target]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Target {
    pub(super) cores: Option<Vec<u32>>,
    pub(super) io_memory: Option<Value>,
    pub(super) max_transfer: Option<Value>,
    pub(super) in_capsule_data: Option<Value>,
    pub(super) rdma_in_capsule_data: Option<Value>,
    pub(super) queue_depth: Option<u16>,
}

/// `[[policy]]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Policy {
    pub(super) host: Option<String>,
    pub(super) subsystem: Option<String>,
    pub(super) nsid: Option<u32>,
    pub(super) addresses: Option<Value>,
    pub(super) class: Option<ClassName>,
    pub(super) max_class: Option<ClassName>,
    pub(super) urgent_iops: Option<Count>,
    pub(super) session: Option<String>,
}

/// `[[listener]]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Listener {
    pub(super) address: String,
    pub(super) transport: String,
    pub(super) tls: String,
    pub(super) discovery_only: bool,
    pub(super) class: Option<ClassName>,
    pub(super) link: Option<String>,
}

/// `[[subsystem]]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Subsystem {
    pub(super) nqn: String,
    #[serde(rename = "host")]
    pub(super) hosts: Vec<Host>,
    #[serde(rename = "namespace")]
    pub(super) namespaces: Vec<Namespace>,
}

/// `[[subsystem.host]]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Host {
    pub(super) nqn: String,
    pub(super) namespaces: Option<Vec<u32>>,
    pub(super) read_only: bool,
    pub(super) max_class: Option<ClassName>,
}

/// `[[subsystem.namespace]]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Namespace {
    pub(super) nsid: Option<u32>,
    pub(super) backend: String,
    pub(super) path: Option<String>,
    pub(super) device: Option<String>,
    pub(super) hosts: Option<Vec<String>>,
    pub(super) size: Option<Value>,
    pub(super) class: Option<ClassName>,
    pub(super) window: Option<Value>,
    pub(super) window_max: Option<i64>,
    pub(super) latency_target: Option<String>,
    pub(super) order: Option<String>,
    pub(super) mean_time: Option<String>,
    pub(super) worst_time: Option<String>,
    pub(super) parallelism: Option<i64>,
    pub(super) service_time: Option<String>,
    pub(super) bandwidth: Option<Value>,
    pub(super) channels: Option<u32>,
}

impl Listener {
    /// Returns the transport of its hosts.
    pub(super) fn transport(&self) -> Transport {
        if self.transport == "rdma" { Transport::Rdma } else { Transport::Tcp }
    }
}

impl Namespace {
    /// Returns whether both namespaces are on the same device.
    pub(super) fn same_device(&self, other: &Self) -> bool {
        (&self.backend, &self.path, &self.device) == (&other.backend, &other.path, &other.device)
    }
}

/// Reads a configuration.
///
/// # Errors
///
/// The text is not TOML, or no configuration of the daemon.
pub(super) fn parse(text: &str) -> anyhow::Result<Config> {
    let mut config: Config = toml::from_str(text)
        .context("this is no configuration of sluiced: `sluiced --check FILE` names the errors")?;
    for subsystem in &mut config.subsystems {
        number(&mut subsystem.namespaces);
    }
    Ok(config)
}

/// Numbers namespaces that have no number as the daemon does: the lowest that is free.
fn number(namespaces: &mut [Namespace]) {
    for place in 0..namespaces.len() {
        let taken = |nsid: u32| namespaces.iter().any(|one| one.nsid == Some(nsid));
        let free = (1..).find(|nsid| !taken(*nsid));
        if let Some(one) = namespaces.get_mut(place) {
            one.nsid = one.nsid.or(free);
        }
    }
}

impl Config {
    /// Finds a namespace.
    ///
    /// # Errors
    ///
    /// There is no such namespace; the error lists the existing ones.
    pub(super) fn namespace(&self, nqn: &str, nsid: u32) -> anyhow::Result<&Namespace> {
        let subsystem = self.subsystems.iter().find(|one| one.nqn == nqn);
        let found = subsystem.into_iter().flat_map(|one| &one.namespaces);
        found.into_iter().find(|one| one.nsid == Some(nsid)).with_context(|| {
            let names = self.subsystems.iter().flat_map(|one| {
                let nsids = one.namespaces.iter().filter_map(|namespace| namespace.nsid);
                nsids.map(|nsid| format!("{}/{nsid}", one.nqn))
            });
            let names: Vec<String> = names.collect();
            format!("there is no namespace {nqn}/{nsid}; there are: {}", list(&names))
        })
    }

    /// Finds the configuration of a host of a subsystem.
    pub(super) fn host(&self, nqn: &str, host: &str) -> Option<&Host> {
        let subsystem = self.subsystems.iter().find(|one| one.nqn == nqn)?;
        subsystem.hosts.iter().find(|one| one.nqn == host)
    }

    /// Returns whether `[qos]` is on.
    pub(super) fn arbitrates(&self) -> bool {
        self.qos.get("enabled").and_then(Value::as_bool).unwrap_or(true)
    }

    /// Returns whether the shares of hosts are shown in bytes: shares count bytes or device time.
    pub(super) fn counts_bytes(&self) -> bool {
        self.qos.get("unit").and_then(Value::as_str) != Some("commands")
    }
}

/// Writes names, or that there are none.
pub(super) fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Reads a size in bytes.
pub(super) fn size(value: &Value) -> Option<u64> {
    parse_size(value.as_str()?).ok()
}

/// Reads bytes per second.
pub(super) fn bandwidth(value: &Value) -> Option<u64> {
    parse_bandwidth(value.as_str()?).ok()
}

/// Reads a time in ns.
pub(super) fn time(text: &str) -> Option<u64> {
    parse_duration(text).ok().map(units::nanos)
}
