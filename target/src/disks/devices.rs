//! The open devices. A reactor takes a device from this table when the first command for it comes,
//! and gets a message when the device is gone. A device that no host uses costs no reactor
//! anything.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use arbitration::device::{self as qos, DeviceRules};
use arbitration::settings::WindowRule;
use fabric::controller::BackendId;
use fabric::nvm::BlockFormat;

use super::backend::{Backend, Style, WakeUp};
use crate::sys::sync::lock;
use sluice_core::device::place;
use sluice_core::stats::{IoSnapshot, IoStats, PerReactor};

/// An open backend and its statistics.
#[derive(Debug)]
pub struct OpenDevice {
    /// The backend.
    pub backend: Arc<dyn Backend>,
    /// The device's window and the state of its classes.
    pub qos: Arc<qos::Device>,
    /// Whether the device holds commands for a while, so that other commands may have to wait.
    pub queued: bool,
    /// The device's statistics, a part for each reactor, which that reactor alone writes.
    pub stats: Stats,
    presence: Arc<Presence>,
    unused: Arc<Unused>,
}

impl OpenDevice {
    /// Returns the device's presence, which lasts until the device is closed; that may be long after its last user
    /// is gone.
    pub(crate) fn presence(&self) -> Weak<Presence> {
        Arc::downgrade(&self.presence)
    }
}

impl Drop for OpenDevice {
    /// Leaves the backend to a thread that may wait: the last user may be a reactor, and closing a block device writes
    /// back its page cache.
    fn drop(&mut self) {
        let closing =
            Closing { backend: Arc::clone(&self.backend), presence: Arc::clone(&self.presence) };
        lock(&self.unused.all).push(closing);
        if let Some(wake_up) = self.unused.wake_up.get() {
            wake_up.wake();
        }
    }
}

/// Exists until a device is closed.
#[derive(Debug)]
pub(crate) struct Presence(BackendId);

/// The backends of devices that nobody uses any more, to be closed.
#[derive(Debug, Default)]
struct Unused {
    all: Mutex<Vec<Closing>>,
    /// Wakes the thread that closes them.
    wake_up: OnceLock<Arc<WakeUp>>,
}

/// A backend that is to be closed: drop this on a thread that may wait.
#[derive(Debug)]
pub(crate) struct Closing {
    // Dropped in this order.
    backend: Arc<dyn Backend>,
    presence: Arc<Presence>,
}

impl Closing {
    /// Returns the identifier that the device had.
    pub(crate) fn id(&self) -> BackendId {
        self.presence.0
    }
}

/// Statistics of a namespace's device, a part for each reactor. A namespace's next device takes
/// them over.
pub type Stats = Arc<PerReactor>;

impl sluice_core::device::BlockDevice for OpenDevice {
    #[inline]
    fn style(&self) -> sluice_core::device::Style<'_> {
        use sluice_core::device::Style as Core;
        match self.backend.style() {
            Style::Immediate(immediate) => Core::Immediate(immediate),
            Style::Queued(_) => Core::Queued,
            Style::Timed(timed) => Core::Timed(timed),
        }
    }

    #[inline]
    fn format(&self) -> BlockFormat {
        self.backend.description().format
    }

    fn blocks(&self) -> u64 {
        self.backend.health().blocks()
    }

    fn qos(&self) -> &Arc<qos::Device> {
        &self.qos
    }

    #[inline]
    fn stats(&self, reactor: usize) -> Option<&IoStats> {
        self.stats.get(reactor)
    }
}

/// Returns the serial number, which distinguishes the devices that one place had in turn.
fn serial(id: BackendId) -> u64 {
    id.0 >> 32
}

fn id(place: u32, serial: u64) -> BackendId {
    BackendId(serial << 32 | u64::from(place))
}

/// The present devices.
#[derive(Debug, Default)]
pub struct Devices {
    table: Mutex<Table>,
    unused: Arc<Unused>,
}

#[derive(Debug, Default)]
struct Table {
    /// The device of each place, with its serial number.
    places: Vec<Option<(u64, Arc<OpenDevice>)>>,
    free: BinaryHeap<Reverse<u32>>,
    /// Removed devices that a reactor may still use.
    leaving: VecDeque<(u32, Weak<OpenDevice>)>,
    serial: u64,
}

impl Table {
    /// The number of removed devices that are checked for each new one.
    const LOOKS: usize = 4;

    fn take_place(&mut self) -> u32 {
        let looks = Self::LOOKS.min(self.leaving.len());
        let left: Vec<_> = self.leaving.drain(..looks).collect();
        for (place, device) in left {
            if device.strong_count() == 0 {
                self.free.push(Reverse(place));
            } else {
                self.leaving.push_back((place, device));
            }
        }
        match self.free.pop() {
            Some(Reverse(place)) => place,
            None => {
                self.places.push(None);
                debug_assert!(u32::try_from(self.places.len()).is_ok(), "2^32 devices");
                u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
            }
        }
    }

    fn find(&self, id: BackendId) -> Option<&Arc<OpenDevice>> {
        let (of, device) = self.places.get(place(id) as usize)?.as_ref()?;
        (*of == serial(id)).then_some(device)
    }
}

impl Devices {
    /// Adds a device; `stats` has a part for each reactor.
    pub fn add(
        &self,
        backend: Arc<dyn Backend>,
        rules: DeviceRules,
        stats: Stats,
    ) -> (BackendId, Arc<OpenDevice>) {
        let reactors = stats.reactors();
        let queued = !matches!(backend.style(), Style::Immediate(_));
        // A device that carries commands out at once holds none.
        let window = if queued { rules.window } else { WindowRule::Off };
        let qos = Arc::new(qos::Device::new(DeviceRules { window, ..rules }, reactors));
        let mut table = lock(&self.table);
        let place = table.take_place();
        // 2^32 - 1 is never reached: it would be part of BackendId::NONE.
        table.serial = (table.serial + 1) % u64::from(u32::MAX);
        let serial = table.serial;
        let (presence, unused) = (Arc::new(Presence(id(place, serial))), Arc::clone(&self.unused));
        let device = Arc::new(OpenDevice { backend, qos, queued, stats, presence, unused });
        match table.places.get_mut(place as usize) {
            Some(taken) => *taken = Some((serial, Arc::clone(&device))),
            None => debug_assert!(false, "the place was taken from the table"),
        }
        (id(place, serial), device)
    }

    /// Removes a device from the table. Its commands, and reactors that have not seen the removal yet, keep it open
    /// a little longer.
    pub fn remove(&self, id: BackendId) -> Option<Arc<OpenDevice>> {
        let mut table = lock(&self.table);
        table.find(id)?;
        let (_, device) = table.places.get_mut(place(id) as usize).and_then(Option::take)?;
        table.leaving.push_back((place(id), Arc::downgrade(&device)));
        Some(device)
    }

    /// Takes the wake-up of the thread that closes devices. Without one they are closed with this table.
    pub(crate) fn report_to(&self, wake_up: &Arc<WakeUp>) {
        // The table has one such thread.
        let _ = self.unused.wake_up.set(Arc::clone(wake_up));
    }

    /// Takes the backends that nobody uses any more, and are to be closed.
    pub(crate) fn take_unused(&self) -> Vec<Closing> {
        let mut all = lock(&self.unused.all);
        // The last user of the others is about to let go of them, and must not close them.
        all.extract_if(.., |closing| Arc::strong_count(&closing.backend) == 1).collect()
    }

    /// Returns whether backends wait to be closed.
    pub(crate) fn has_unused(&self) -> bool {
        !lock(&self.unused.all).is_empty()
    }

    /// Returns the device of an identifier.
    #[must_use]
    pub fn get(&self, id: BackendId) -> Option<Arc<OpenDevice>> {
        lock(&self.table).find(id).cloned()
    }

    /// Sums up the operations on these devices, as far as they are present.
    #[must_use]
    pub fn done(&self, devices: &[BackendId]) -> IoSnapshot {
        let table = lock(&self.table);
        let present: Vec<_> = devices.iter().filter_map(|id| table.find(*id).cloned()).collect();
        drop(table);
        let mut total = IoSnapshot::default();
        for device in present {
            for stats in device.stats.iter() {
                total.merge(&stats.snapshot());
            }
        }
        total
    }

    /// Returns the memory of all devices that are in memory.
    pub(crate) fn memories(&self) -> impl Iterator<Item = Arc<super::block_memory::BlockMemory>> {
        self.all().into_iter().flat_map(|device| device.backend.memory())
    }

    fn all(&self) -> Vec<Arc<OpenDevice>> {
        lock(&self.table).places.iter().flatten().map(|(_, device)| Arc::clone(device)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disks::backend::testing;

    fn add(devices: &Devices) -> (BackendId, Arc<OpenDevice>) {
        let null = sluice_config::Backend::Null { size: 1 << 20, block_size: 4096, model: None };
        let stats = Arc::new(PerReactor::new(1));
        devices.add(testing::open(&null), DeviceRules::default(), stats)
    }

    #[test]
    fn a_place_is_given_again_once_nobody_has_the_device_and_its_name_never() {
        let devices = Devices::default();
        let (kept, _) = add(&devices);
        let mut names = std::collections::HashSet::new();
        let mut held = None;
        for round in 0..1000 {
            let (id, device) = add(&devices);
            assert!(names.insert(id));
            assert!(place(id) <= 4, "{id:?}");
            let in_use = held.as_ref().map(|(id, _): &(BackendId, _)| place(*id));
            assert_ne!(Some(place(id)), in_use, "somebody still uses the device there");
            assert!(devices.remove(id).is_some() && devices.get(id).is_none());
            assert!(devices.remove(id).is_none());
            if round == 500 {
                held = Some((id, device));
            }
        }
        assert!(devices.get(kept).is_some());
        assert_eq!(devices.all().len(), 1);
        assert!(devices.has_unused(), "the last user closes nothing");
        assert!(devices.get(BackendId::NONE).is_none());
    }

    #[test]
    fn last_user_leaves_the_backend_to_the_thread_that_closes_devices() {
        let devices = Devices::default();
        let wake_up = WakeUp::new().unwrap();
        devices.report_to(&wake_up);
        let (id, in_use) = add(&devices);
        let (presence, backend) = (in_use.presence(), Arc::downgrade(&in_use.backend));
        drop(devices.remove(id));
        assert!(devices.take_unused().is_empty() && wake_up.descriptor().read().is_err());
        drop(in_use);
        assert_eq!((presence.strong_count(), backend.strong_count()), (1, 1), "it is open");
        assert_eq!(wake_up.descriptor().read().unwrap(), 1);
        let unused = devices.take_unused();
        assert!(unused[0].id() == id && !devices.has_unused());
        drop(unused);
        assert_eq!((presence.strong_count(), backend.strong_count()), (0, 0));
    }
}
