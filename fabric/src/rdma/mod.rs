//! NVMe/RDMA (transport specification 1.0): the protocol as pure state machines.

pub mod wire;
