//! The whole configuration.

use super::listener::Listener;
use super::network::Network;
use super::pmem::PmemConfig;
use super::qos::QosConfig;
use super::subsystem::Subsystem;
use super::target::TargetConfig;

/// A whole configuration file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// `[target]`: the daemon as a whole.
    pub target: TargetConfig,
    /// `[qos]`, `[[session]]`, `[[policy]]`: quality of service.
    pub qos: QosConfig,
    /// `[network]`, `[[link]]`: the network.
    pub network: Network,
    /// `[pmem]`, `[[region]]`: persistent memory for one-sided RDMA.
    pub pmem: PmemConfig,
    /// `[[listener]]`.
    pub listeners: Vec<Listener>,
    /// `[[subsystem]]`.
    pub subsystems: Vec<Subsystem>,
}
