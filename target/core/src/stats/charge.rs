//! The accounts of a command.

use std::sync::Arc;

use arbitration::Class;
use arbitration::arbiter::HostFlowId;
use arbitration::memory::MemoryFlowId;
use arbitration::session::HostId;
use fabric::controller::BackendId;

use super::accounts::Account;
use super::workloads::WorkloadId;
use crate::reactor::device_table::DeviceTable;

/// The accounts that a command is charged to, and the queues in which it waits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Charge {
    /// Class of the command.
    pub(crate) class: Class,
    /// Host that the command came from.
    pub(crate) host: HostId,
    /// Account of the command's session.
    pub(crate) account: Account,
    /// Queue at the device; none where commands take no turns.
    pub(crate) flow: Option<HostFlowId>,
    /// Queue for memory for the host's data.
    pub(crate) fetch: Option<MemoryFlowId>,
    /// Queue for memory for the command's read data.
    pub(crate) read: Option<MemoryFlowId>,
    /// Identifier of the device.
    pub(crate) backend: Option<BackendId>,
    /// Workload that the command is counted in; none before it is taken, or where it is not counted.
    pub(crate) workload: Option<WorkloadId>,
    /// Generation of the flow cache that the queues belong to.
    pub(crate) generation: u64,
}

impl Charge {
    /// Returns whether the device of the charge is still the command's device.
    pub(crate) fn serves<V>(&self, devices: &DeviceTable<V>, device: &Arc<V>) -> bool {
        let present = self.backend.and_then(|backend| devices.get(backend));
        present.is_some_and(|present| Arc::ptr_eq(present, device))
    }
}
