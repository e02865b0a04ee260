//! The whole configuration.

use super::listener::Listener;
use super::network::Network;
use super::qos::QosConfig;
use super::subsystem::Subsystem;
use super::target::Target;

/// A whole configuration file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// `[target]`: what concerns the daemon as a whole.
    pub target: Target,
    /// `[qos]`, `[[session]]`, `[[policy]]`.
    pub qos: QosConfig,
    /// `[network]`, `[[link]]`.
    pub network: Network,
    /// `[[listener]]`.
    pub listeners: Vec<Listener>,
    /// `[[subsystem]]`.
    pub subsystems: Vec<Subsystem>,
}
