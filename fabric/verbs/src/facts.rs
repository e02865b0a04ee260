//! Limits and events of devices.

use std::num::NonZeroU32;

use fabric::rdma::placement::Placement;

/// The limits of a device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceLimits {
    /// Work requests of a send or receive queue.
    pub work_requests: u32,
    /// Entries of a completion queue.
    pub completions: u32,
    /// RDMA READs and atomics of a queue pair that are answered at once.
    pub reads_answered: u8,
    /// RDMA READs and atomics of a queue pair that are out at once.
    pub reads: u8,
    /// Whether atomics are atomic at least with respect to other queue pairs.
    pub atomics: bool,
    /// Scattered parts of a work request.
    pub parts: u32,
    /// Whether RDMA WRITEs may send from memory that is registered on demand.
    pub writes_on_demand: bool,
    /// The rates that it can hold a queue pair to; `None` where it can hold none back.
    pub rates: Option<RateRange>,
    /// Placements that peers may request by FLUSH; `None` if the device does not support FLUSH.
    pub flushes: Option<Placement>,
}

/// The rates that a device can hold a queue pair to, in kbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateRange {
    /// The least of them.
    pub least: NonZeroU32,
    /// The greatest of them.
    pub most: NonZeroU32,
}

/// An event of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceEvent {
    /// The port with this number has a link.
    PortUp(u32),
    /// The port with this number has lost its link.
    PortDown(u32),
    /// The device has failed, or is being removed: every object on it must be dropped.
    Failed,
    /// The queue pair with this number is in error; the text says why.
    QueuePairFailed(u32, &'static str),
    /// A completion queue is in error: completions were lost.
    CompletionQueueFailed,
    /// Something else; in words.
    Other(&'static str),
}
