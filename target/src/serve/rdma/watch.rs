//! Events of devices, read for as long as the devices are there.

use std::os::fd::{AsFd as _, BorrowedFd};

use fabric_verbs::{Device, DeviceEvent, DeviceEvents};

/// The devices whose events are read.
#[derive(Debug, Default)]
pub(super) struct Watch(Vec<DeviceEvents>);

impl Watch {
    /// Reads a device's events from now on.
    pub(super) fn add(&mut self, device: &Device) {
        if self.0.iter().any(|one| one.device() == device) {
            return;
        }
        match DeviceEvents::new(device) {
            Ok(events) => self.0.push(events),
            Err(error) => {
                let device = device.name();
                tracing::warn!(device, %error, "the events of an RDMA device are not read");
            }
        }
    }

    /// Reads a device's events no more.
    pub(super) fn remove(&mut self, device: &Device) {
        self.0.retain(|one| one.device() != device);
    }

    /// Takes the next event of a device. A failed device reports its failure once, and is not read any more.
    pub(super) fn next(&mut self) -> Option<(Device, DeviceEvent)> {
        let mut came = None;
        for events in &self.0 {
            // A device that is gone cannot be read.
            let event = events.next().unwrap_or(Some(DeviceEvent::Failed));
            if let Some(event) = event {
                came = Some((events.device().clone(), event));
                break;
            }
        }
        if let Some((device, DeviceEvent::Failed)) = &came {
            self.remove(device);
        }
        came
    }

    /// Returns the descriptors that become readable when there are events.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|events| events.as_fd())
    }
}
