//! The size of I/O queues, where hosts do not honour Command Retry Delays.

use core::sync::atomic::Ordering;
use std::net::IpAddr;

use super::{ControllerId, Service};

/// A connected host that does not honour Command Retry Delays (Host Behavior Support, ACRE), with one
/// of its controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostWithoutAcre {
    /// The host's NQN.
    pub host: String,
    /// The subsystem's NQN.
    pub subsystem: String,
    /// The address that the admin queue came from, where it is known.
    pub address: Option<IpAddr>,
    /// The namespaces that the host sees.
    pub nsids: Vec<u32>,
    /// Number of commands that the controller's I/O queues hold.
    pub commands: u64,
}

impl Service {
    /// Bounds the I/O queues of a controller to so many entries each, 2 at least (MQES + 1, MAXCMD).
    /// Called before the host learns of the admin queue's Connect.
    pub fn bound_queues(&mut self, id: ControllerId, entries: u16) {
        if let Some(controller) = self.controllers.get_mut(&id) {
            controller.queue_entries = controller.queue_entries.min(entries.max(2));
        }
    }

    /// Returns the controllers with I/O queues whose hosts do not honour Command Retry Delays.
    #[must_use]
    pub fn hosts_without_acre(&self) -> Vec<HostWithoutAcre> {
        let without = self.controllers.values().filter(|controller| {
            !controller.queues.is_empty() && !controller.shared.acre.load(Ordering::Relaxed)
        });
        without
            .map(|controller| {
                let queues = controller.queues.values();
                let queues = queues.filter_map(|queue| self.connections.get(queue));
                HostWithoutAcre {
                    host: controller.host().to_owned(),
                    subsystem: controller.subsystem().to_owned(),
                    address: controller.address,
                    nsids: controller.table.iter().map(|namespace| namespace.nsid).collect(),
                    commands: queues.map(|queue| u64::from(queue.entries)).sum(),
                }
            })
            .collect()
    }
}
