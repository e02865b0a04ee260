//! NVMe/RDMA without any device: the input is received data, the output is work to post.
//!
//! [`TargetQueue`] is the target's end of a queue pair. Capsules come in as they lie in the queue
//! pair's receive buffers; a [`Batch`] of [`Post`]s goes out, and comes back when the device is done
//! with it. Data that a command brings is fetched by RDMA READ ([`crate::queue::Fetch`]), unless its
//! capsule brought it; data that it returns goes by RDMA WRITE, ahead of the response's SEND.
//! [`HostQueue`] is the host's end. The feature `testing` adds `host_nic`: the same with a device and memory, for
//! simulations.

mod host;
#[cfg(any(test, feature = "testing"))]
pub mod host_nic;
#[cfg(test)]
pub(crate) mod nic;
mod place;
pub mod private_data;
mod target;

pub use host::{HostInput, HostPost, HostQueue, HostQueueParams};
pub use target::{Batch, Post, QueueParams, TargetQueue};

/// Size of a command capsule without data in bytes: one submission queue entry.
pub const COMMAND_BYTES: usize = 64;
/// Size of a response capsule in bytes: one completion queue entry.
pub const RESPONSE_BYTES: usize = 16;

/// The peer broke the protocol: the connection is over. NVMe/RDMA has no way to tell the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(&'static str);

#[cfg(test)]
mod tests;
