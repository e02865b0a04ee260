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

/// The packets of a queue pair's peer until now.
///
/// The expected sequence number grows by one for each packet of a WRITE, a message or an atomic,
/// and by the packets of the answer for a READ (InfiniBand Architecture Specification, volume 1,
/// 9.7). So it counts one-sided traffic of which the processor sees nothing. Soft RoCE, mlx4,
/// mlx5 and bnxt_re read it from the device; for irdma the kernel keeps the number at which the
/// connection began, and it does not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrivals {
    /// The packet sequence number that is expected next: 24 bits.
    pub next: u32,
    /// The most bytes of data in a packet: 256 to 4096.
    pub packet: u32,
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
