//! The open devices, as all reactors see them: a table that is replaced as a whole when a
//! namespace comes or goes, so that reading it takes no lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arbitration::device::{self as qos, DeviceRules};
use arbitration::settings::WindowRule;
use fabric::controller::BackendId;

use crate::backend::{Backend, Style};
use crate::stats::IoStats;

/// An open backend and its statistics.
#[derive(Debug)]
pub struct Device {
    /// The backend.
    pub backend: Arc<dyn Backend>,
    /// Its window and the state of its classes.
    pub qos: Arc<qos::Device>,
    /// Whether it holds commands for a while, so that others may have to wait for them.
    pub queued: bool,
    /// One for each reactor, written by that reactor alone.
    pub stats: Stats,
}

/// Statistics of a namespace's device, one part for each reactor. They are handed from one device
/// of a namespace to the next.
pub type Stats = Arc<Vec<IoStats>>;

/// A snapshot of the devices; a device's place is its [`BackendId`].
pub type DeviceTable = Arc<Vec<Option<Arc<Device>>>>;

/// The present devices.
#[derive(Debug, Default)]
pub struct Devices {
    /// Counts the changes; a reader whose snapshot is of an older version takes a new one.
    version: AtomicU64,
    table: Mutex<DeviceTable>,
}

impl Devices {
    /// Adds a device, which `stats` has as many parts for as there are reactors.
    pub fn add(
        &self,
        backend: Arc<dyn Backend>,
        rules: DeviceRules,
        stats: Stats,
    ) -> (BackendId, Arc<Device>) {
        let reactors = stats.len();
        let queued = !matches!(backend.style(), Style::Immediate(_));
        // What is carried out on the spot holds nothing.
        let window = if queued { rules.window } else { WindowRule::Off };
        let qos = Arc::new(qos::Device::new(DeviceRules { window, ..rules }, reactors));
        let device = Arc::new(Device { backend, qos, queued, stats });
        let added = Arc::clone(&device);
        let mut index = 0;
        self.change(|table| {
            index = table.len();
            table.push(Some(device));
        });
        (BackendId(u32::try_from(index).unwrap_or(u32::MAX)), added)
    }

    /// Removes a device from the table. Commands that are in it, and reactors that have not seen
    /// the change yet, hold it a little longer.
    pub fn remove(&self, id: BackendId) -> Option<Arc<Device>> {
        let mut removed = None;
        self.change(|table| {
            removed = table.get_mut(id.0 as usize).and_then(Option::take);
        });
        removed
    }

    /// A device.
    #[must_use]
    pub fn get(&self, id: BackendId) -> Option<Arc<Device>> {
        self.snapshot().get(id.0 as usize)?.clone()
    }

    /// The version of the present table.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The present table.
    #[must_use]
    pub fn snapshot(&self) -> DeviceTable {
        Arc::clone(&self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Option<Arc<Device>>>)) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = table.as_ref().clone();
        change(&mut next);
        *table = Arc::new(next);
        self.version.fetch_add(1, Ordering::Release);
    }
}
