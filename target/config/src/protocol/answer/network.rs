//! The state of the network (stage S6).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Settings;

/// The keys of `[network]` with their values.
pub type NetworkSettings = Settings;
/// The keys of `[[link]]` with their values.
pub type LinkSettings = Settings;

/// The answer to `network.show`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Network {
    /// The keys of `[network]`. As JSON they stand beside the other fields.
    #[serde(flatten)]
    pub settings: NetworkSettings,
    /// The kernel's congestion control under new connections.
    pub base_used: String,
    /// Advice: what this kernel lacks for the stage to work well, and the remedy.
    pub advice: Vec<String>,
    /// The links, the default one first.
    pub links: Vec<LinkRow>,
}

/// A link with its settings and its traffic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LinkRow {
    /// The keys of `[[link]]`. As JSON they stand beside the other fields.
    #[serde(flatten)]
    pub settings: LinkSettings,
    /// Addresses of the listeners whose connections share the link.
    pub listeners: Vec<String>,
    /// The direction from the target to hosts.
    pub out: DirectionState,
    /// The direction from hosts to the target. As JSON its name is `in`.
    #[serde(rename = "in")]
    pub into: DirectionState,
    /// Whether a live change makes the link differ from the configuration file.
    pub live: bool,
}

/// One direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectionState {
    /// The classes, the most urgent first.
    pub classes: Vec<LinkClassState>,
}

/// One class on a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LinkClassState {
    /// `urgent`, `high`, `medium` or `low`.
    pub class: String,
    /// Connections that have something to send.
    pub flows: u32,
    /// Whether any of them would take more than it gets.
    pub backlogged: bool,
    /// The class for which this one is held to its limit; `None`: it is not held back, or it is by a
    /// capacity, by a rate or for a latency.
    pub held_for: Option<String>,
    /// The sum of all flows: alpha and Q are means; counters include connections that have ended.
    /// As JSON its fields stand beside the class.
    #[serde(flatten)]
    pub total: FlowState,
}

/// The state of a connection on the network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ConnectionNetwork {
    /// The name of its link.
    pub link: String,
    /// The class of commands that name none, by its listener and policies.
    pub class: String,
    /// The kernel's congestion control under the connection.
    pub base: String,
    /// The round-trip time in microseconds, queues included.
    pub rtt_us: u64,
    /// The direction to the host: answers and data that it reads.
    pub out: FlowState,
    /// The direction from the host: data that it writes. As JSON its name is `in`.
    #[serde(rename = "in")]
    pub into: FlowState,
}

/// One direction of a connection. Rates are in bits of payload per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FlowState {
    /// The smoothed rate.
    pub rate: f64,
    /// The target rate; `None` means no target.
    pub target: Option<f64>,
    /// The present limit on the rate; `None` means no limit.
    pub limit: Option<f64>,
    /// The smoothed fraction of marked packets, 0 to 1.
    pub alpha: f64,
    /// The quality factor Q.
    pub quality: f64,
    /// Packets delivered.
    pub delivered: u64,
    /// Packets that carried a congestion mark.
    pub marked: u64,
}
