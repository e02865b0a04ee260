//! NVMe/RDMA (transport specification 1.0): the protocol as pure state machines, and behind the
//! feature `rdma` the devices.

pub mod placement;
#[cfg(feature = "rdma")]
#[allow(unsafe_code)]
pub mod verbs;
pub mod wire;
