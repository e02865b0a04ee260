//! The configuration, translated for the service and the arbiter.

use std::time::Duration;

use arbitration::container::Scheduler;
use arbitration::device::{ContainerRules, DeviceRules};
use arbitration::reservation::Overrides;
use arbitration::settings::{OrderSettings, Weights, WindowRule};
use fabric::controller::{ANA_LOG_HEAD, ServiceConfig};
use sluice_config::{Config, Namespace, Qos};

/// Returns the service's settings.
pub(super) fn service(config: &Config) -> ServiceConfig {
    let (target, qos) = (&config.target, &config.qos.general);
    ServiceConfig {
        max_transfer: target.max_transfer,
        in_capsule_data: target.in_capsule_data,
        rdma_in_capsule_data: target.rdma_in_capsule_data,
        queue_entries: target.queue_depth,
        admin_queue_entries: target.admin_queue_depth,
        max_queues: target.max_queues,
        max_connections: target.max_connections,
        max_address_connections: target.connections_of_address(),
        max_discovery: target.max_discovery,
        max_waiting: target.max_waiting,
        discovery_keep_alive: target.discovery_keep_alive,
        // The limit is the time that a device may take to settle its commands at a reset; CAP.TO is
        // 15 s.
        quiesce_limit: Duration::from_secs(12),
        weighted_round_robin: qos.enabled && qos.wrr,
        arbitration: arbitration_feature(&qos.order),
        reconnect_time: target.reconnect_time,
        require_authentication: target.require_authentication,
        retry_delays: target.retry_delays.hundreds_of_ms(),
        max_namespaces: max_namespaces(target.max_transfer),
        ..ServiceConfig::default()
    }
}

/// Encodes the Arbitration feature (01h): burst 2:0 as a power of two (111b: no limit), and the
/// weights, each less 1, of Low 15:8, Medium 23:16 and High 31:24.
pub(super) fn arbitration_feature(order: &OrderSettings) -> u32 {
    let weight = |weight: u16| u32::from(weight.clamp(1, 256)) - 1;
    let burst = if order.burst > 64 { 0b111 } else { order.burst.max(1).ilog2() };
    let Weights { high, medium, low } = order.weights;
    burst | weight(low) << 8 | weight(medium) << 16 | weight(high) << 24
}

/// Returns the most namespaces that a subsystem may have: a Linux host does without ANA, and so
/// without several paths, where the ANA log of that many (4 bytes for each) exceeds one transfer.
fn max_namespaces(max_transfer: u32) -> u32 {
    (max_transfer.saturating_sub(ANA_LOG_HEAD) / 4).clamp(1, sluice_config::NSID_MAX)
}

/// Returns the rules by which a namespace's device is shared, by its own settings and the general ones. `seeks`:
/// whether the kernel reports a moving head.
pub(super) fn device_rules(
    namespace: &Namespace,
    general: &Qos,
    seeks: Option<bool>,
) -> DeviceRules {
    /// The number of commands from which an order by place chooses.
    const CHOSEN: usize = 256;
    let settings = &namespace.device;
    let nanos = |time: Duration| arbitration::Nanos(arbitration::nanos(time));
    let model = match &namespace.backend {
        sluice_config::Backend::Null { model, .. } => *model,
        _ => None,
    };
    let containers = (settings.order == sluice_config::Order::Containers).then(|| ContainerRules {
        scheduler: Scheduler::Containers,
        capacity: CHOSEN,
        deadline_ns: arbitration::nanos(settings.deadline()),
    });
    let window = settings.window.unwrap_or(general.window);
    DeviceRules {
        window: if general.enabled { window } else { WindowRule::Off },
        containers,
        profile: Overrides {
            mean: settings.mean_time.or(model.map(|m| m.service_time)).map(nanos),
            // A model's service time varies by an eighth.
            worst: settings.worst_time.or(model.map(|m| m.service_time / 8 * 9)).map(nanos),
            parallelism: settings.parallelism.or(model.map(|m| m.channels)),
            seeks: settings.seeks.or(seeks).unwrap_or(containers.is_some()),
        },
    }
}
