//! To whom a command is charged.

use std::sync::Arc;

use arbitration::Class;
use arbitration::arbiter::HostFlowId;
use arbitration::memory::MemoryFlowId;
use fabric::controller::BackendId;

use crate::accounts::Account;
use crate::device_table::DeviceTable;

/// To whom a command is charged, and where it waits for its turns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Charge {
    /// Its class.
    pub(crate) class: Class,
    /// Its session's statistics.
    pub(crate) account: Account,
    /// Its queue at the device; none where commands take no turns.
    pub(crate) flow: Option<HostFlowId>,
    /// Its queue for memory for the host's data.
    pub(crate) fetch: Option<MemoryFlowId>,
    /// Its queue for memory for what it reads.
    pub(crate) read: Option<MemoryFlowId>,
    /// Its device.
    pub(crate) backend: Option<BackendId>,
    /// The generation of the flow cache that the queues are of.
    pub(crate) generation: u64,
}

impl Charge {
    /// Says whether the device that a command is charged to is still the one that it is for.
    pub(crate) fn serves<V>(&self, devices: &DeviceTable<V>, device: &Arc<V>) -> bool {
        let present = self.backend.and_then(|backend| devices.get(backend));
        present.is_some_and(|present| Arc::ptr_eq(present, device))
    }
}
