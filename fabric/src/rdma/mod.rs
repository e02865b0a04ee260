//! NVMe/RDMA (transport specification 1.0): the protocol as pure state machines. The
//! devices are in the crate `fabric-verbs`.

pub mod placement;
pub mod wire;
