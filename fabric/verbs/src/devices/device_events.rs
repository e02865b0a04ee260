//! Events of devices, outside of all queues.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

use rdma_sys::{
    ibv_ack_async_event, ibv_async_event, ibv_event_type, ibv_event_type_str, ibv_get_async_event,
};

use super::connection::set_non_blocking;
use super::device::Device;
use crate::error::Error;
use crate::facts::DeviceEvent;

/// The source of a device's events. A device has one such source: an event taken by one reader is
/// lost to all others.
#[derive(Debug)]
pub struct DeviceEvents {
    device: Device,
}

impl DeviceEvents {
    /// Begins to read a device's events, which have been kept since the device was opened.
    ///
    /// # Errors
    /// The kernel refuses to read without waiting.
    pub fn new(device: &Device) -> Result<Self, Error> {
        let events = Self { device: device.clone() };
        set_non_blocking(events.as_fd())?;
        Ok(events)
    }

    /// Returns the device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the next event; `None` if there is none.
    ///
    /// # Errors
    /// The device is gone.
    pub fn next(&self) -> Result<Option<DeviceEvent>, Error> {
        let mut event = MaybeUninit::<ibv_async_event>::zeroed();
        loop {
            // SAFETY: the device is open, and the event is written to.
            let answer = unsafe { ibv_get_async_event(self.device.raw(), event.as_mut_ptr()) };
            if answer == 0 {
                break;
            }
            let error = std::io::Error::last_os_error();
            match error.kind() {
                std::io::ErrorKind::WouldBlock => return Ok(None),
                std::io::ErrorKind::Interrupted => {}
                _ => return Err(Error::Call { call: "ibv_get_async_event", source: error }),
            }
        }
        // SAFETY: the call has filled the event in, which is acknowledged once, here. The objects
        // that it refers to live until then.
        unsafe {
            let taken = take(event.as_ptr());
            ibv_ack_async_event(event.as_mut_ptr());
            Ok(Some(taken))
        }
    }
}

impl AsFd for DeviceEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the device is open as long as this lives, and so is its descriptor.
        unsafe { BorrowedFd::borrow_raw((*self.device.raw()).async_fd) }
    }
}

/// Copies an event.
///
/// # Safety
/// The event was filled in by `ibv_get_async_event`, and was not acknowledged.
unsafe fn take(event: *const ibv_async_event) -> DeviceEvent {
    const PORT_UP: u32 = ibv_event_type::IBV_EVENT_PORT_ACTIVE as u32;
    const PORT_DOWN: u32 = ibv_event_type::IBV_EVENT_PORT_ERR as u32;
    const FAILED: u32 = ibv_event_type::IBV_EVENT_DEVICE_FATAL as u32;
    const CQ: u32 = ibv_event_type::IBV_EVENT_CQ_ERR as u32;
    const QP: [u32; 3] = [
        ibv_event_type::IBV_EVENT_QP_FATAL as u32,
        ibv_event_type::IBV_EVENT_QP_REQ_ERR as u32,
        ibv_event_type::IBV_EVENT_QP_ACCESS_ERR as u32,
    ];
    // A newer library may know of events that the enum does not have: its number is read.
    // SAFETY: the event was filled in, and its kind has the size of a number of 32 bits.
    let kind = unsafe { (&raw const (*event).event_type).cast::<u32>().read() };
    match kind {
        PORT_UP | PORT_DOWN => {
            // SAFETY: events of these kinds have the number of a port.
            let port = u32::try_from(unsafe { (*event).element.port_num }).unwrap_or(0);
            if kind == PORT_UP { DeviceEvent::PortUp(port) } else { DeviceEvent::PortDown(port) }
        }
        FAILED => DeviceEvent::Failed,
        CQ => DeviceEvent::CompletionQueueFailed,
        kind if QP.contains(&kind) => {
            // SAFETY: events of these kinds have a queue pair, whose end waits until its events were
            // acknowledged.
            let number = unsafe { (*(*event).element.qp).qp_num };
            DeviceEvent::QueuePairFailed(number, text(kind))
        }
        kind => DeviceEvent::Other(text(kind)),
    }
}

/// The kinds of events up to this one have texts.
const LAST: u32 = ibv_event_type::IBV_EVENT_GID_CHANGE as u32;

/// Returns what kind of event it is, in words.
fn text(kind: u32) -> &'static str {
    if kind > LAST {
        return "unknown";
    }
    // SAFETY: all numbers up to the last one are kinds of events, for which the function answers static
    // strings.
    let text = unsafe {
        CStr::from_ptr(ibv_event_type_str(std::mem::transmute::<u32, ibv_event_type>(kind)))
    };
    text.to_str().unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads an event of a kind with a port's number.
    fn read_event(kind: u32, port: i32) -> DeviceEvent {
        let mut event = MaybeUninit::<ibv_async_event>::zeroed();
        let raw = event.as_mut_ptr();
        // SAFETY: the event has room for both.
        unsafe {
            (&raw mut (*raw).element.port_num).write(port);
            (&raw mut (*raw).event_type).cast::<u32>().write(kind);
            take(raw)
        }
    }

    #[test]
    fn events_are_told_apart() {
        let up = ibv_event_type::IBV_EVENT_PORT_ACTIVE as u32;
        assert_eq!(read_event(up, 2), DeviceEvent::PortUp(2));
        assert_eq!(read_event(up + 1, 1), DeviceEvent::PortDown(1));
        assert_eq!(
            read_event(ibv_event_type::IBV_EVENT_DEVICE_FATAL as u32, 0),
            DeviceEvent::Failed
        );
        assert_eq!(read_event(0, 0), DeviceEvent::CompletionQueueFailed);
    }

    #[test]
    fn events_of_other_kinds_have_texts() {
        for kind in 0..=LAST {
            assert_ne!(text(kind), "unknown", "{kind}");
        }
        assert_eq!(read_event(LAST + 100, 0), DeviceEvent::Other("unknown"));
        assert!(matches!(read_event(LAST, 0), DeviceEvent::Other(text) if text != "unknown"));
    }
}
