//! The devices of an arbiter, and those at which commands wait.

use super::ids::DeviceId;
use super::queue::DeviceQueue;
use crate::index::grown;

/// The devices' queues.
#[derive(Debug)]
pub(super) struct Devices {
    /// The queues, by the devices' numbers.
    queues: Vec<Option<DeviceQueue>>,
    /// Devices at which commands wait, or waited until [`Self::current`] has looked there.
    active: Vec<DeviceId>,
    /// The place in `active` of the device that is asked next for a command.
    turn: usize,
}

const fn place(device: DeviceId) -> usize {
    device.0 as usize
}

impl Devices {
    pub(super) fn with_capacity(devices: usize) -> Self {
        Self { queues: Vec::with_capacity(devices), active: Vec::with_capacity(64), turn: 0 }
    }

    /// Finds a device that a caller outside names, if it is there.
    #[inline]
    pub(super) fn get(&self, device: DeviceId) -> Option<&DeviceQueue> {
        self.queues.get(place(device))?.as_ref()
    }

    /// Finds a device that a caller outside names, if it is there.
    #[inline]
    pub(super) fn get_mut(&mut self, device: DeviceId) -> Option<&mut DeviceQueue> {
        self.queues.get_mut(place(device))?.as_mut()
    }

    /// Finds a device that has flows, or commands under way.
    #[inline]
    pub(super) fn kept(&self, device: DeviceId) -> Option<&DeviceQueue> {
        let found = self.get(device);
        debug_assert!(found.is_some(), "flows and commands under way keep a device");
        found
    }

    /// Finds a device that has flows, or commands under way.
    #[inline]
    pub(super) fn kept_mut(&mut self, device: DeviceId) -> Option<&mut DeviceQueue> {
        let found = self.queues.get_mut(place(device)).and_then(Option::as_mut);
        debug_assert!(found.is_some(), "flows and commands under way keep a device");
        found
    }

    pub(super) fn insert(&mut self, device: DeviceId, queue: DeviceQueue) {
        *grown(&mut self.queues, place(device), || None) = Some(queue);
    }

    pub(super) fn remove(&mut self, device: DeviceId) {
        let gone = self.queues.get_mut(place(device)).and_then(Option::take);
        debug_assert!(gone.is_some(), "no device goes twice");
    }

    /// Adds a device to those at which commands wait. It must not be among them.
    pub(super) fn activate(&mut self, device: DeviceId) {
        self.active.push(device);
    }

    /// Counts the devices at which commands wait, or waited.
    pub(super) fn active(&self) -> usize {
        self.active.len()
    }

    /// Finds the device that is asked next; `None` where nothing waits at any. Devices at which
    /// nothing waits any more leave the list.
    #[inline]
    pub(super) fn current(&mut self) -> Option<DeviceId> {
        loop {
            if self.turn >= self.active.len() {
                self.turn = 0;
            }
            let device = *self.active.get(self.turn)?;
            match self.get_mut(device) {
                Some(queue) if queue.waits() => return Some(device),
                Some(queue) => queue.listed = false,
                None => {}
            }
            self.active.swap_remove(self.turn);
        }
    }

    /// Goes on to the next of the devices at which commands wait.
    #[inline]
    pub(super) fn advance(&mut self) {
        self.turn += 1;
    }

    /// Lists the queues in which commands wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &DeviceQueue> {
        self.active.iter().filter_map(|device| self.get(*device)).filter(|queue| queue.waits())
    }

    /// Lists all queues.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut DeviceQueue> {
        self.queues.iter_mut().flatten()
    }

    /// Lists all queues.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &DeviceQueue> {
        self.queues.iter().flatten()
    }
}
