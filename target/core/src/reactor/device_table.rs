//! The devices that a reactor's commands have come for, by their places.

use std::sync::Arc;

use fabric::controller::BackendId;

use crate::machine::device::place;

/// Number of devices for which there is room from the start.
const DEVICES: usize = 1 << 14;

/// The devices of one reactor.
#[derive(Debug)]
pub(crate) struct DeviceTable<T>(Vec<Option<(BackendId, Arc<T>)>>);

impl<T> DeviceTable<T> {
    /// Makes a table without devices, with room for many.
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(DEVICES))
    }

    /// Returns a device of the table.
    #[inline]
    pub(crate) fn get(&self, id: BackendId) -> Option<&Arc<T>> {
        let (of, device) = self.0.get(place(id) as usize)?.as_ref()?;
        (*of == id).then_some(device)
    }

    /// Adds a device; another device that had its place is forgotten.
    pub(crate) fn insert(&mut self, id: BackendId, device: Arc<T>) {
        let index = place(id) as usize;
        if index >= self.0.len() {
            self.0.resize_with(index + 1, || None);
        }
        if let Some(at) = self.0.get_mut(index) {
            *at = Some((id, device));
        }
    }

    /// Removes a device; `None` where it is not there.
    pub(crate) fn remove(&mut self, id: BackendId) -> Option<Arc<T>> {
        self.get(id)?;
        let (_, device) = self.0.get_mut(place(id) as usize)?.take()?;
        Some(device)
    }
}
