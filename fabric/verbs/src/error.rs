//! Errors of verbs and of the connection manager.

use std::io;

/// Returns whether an object has ended after the answer of the call that ends it. The kernel has
/// already ended the objects of a removed device.
pub(crate) fn has_ended(answer: i32) -> bool {
    matches!(answer, 0 | libc::EIO)
}

/// An operation on RDMA objects that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The build has no RDMA.
    #[error("this build has no RDMA: build it with --features rdma")]
    NotBuilt,
    /// The machine has no RDMA at all.
    #[error(
        "this machine has no RDMA connection manager ({0}): load the driver of its RDMA device and \
         rdma_ucm, or make a software device (rdma link add rxe0 type rxe netdev INTERFACE)"
    )]
    NoRdma(#[source] io::Error),
    /// The address is of no RDMA device.
    #[error(
        "cannot use {address} with RDMA: {source}; it must be an address of a network interface \
         that has an RDMA device (rdma link show)"
    )]
    Address {
        /// The address.
        address: std::net::SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// Another call failed.
    #[error("{call} failed: {source}")]
    Call {
        /// The function that failed.
        call: &'static str,
        /// Its error.
        source: io::Error,
    },
    /// The device has less of something than is needed.
    #[error("the RDMA device allows {has} {what}, and {wanted} are needed")]
    Limit {
        /// Of what there is too little.
        what: &'static str,
        /// The device's limit.
        has: u64,
        /// The required value.
        wanted: u64,
    },
}

impl Error {
    /// Makes the error of a call that has set `errno`.
    pub(crate) fn last(call: &'static str) -> Self {
        Self::Call { call, source: io::Error::last_os_error() }
    }

    /// Makes the error of memory for a device that there is none of.
    pub(crate) fn no_memory() -> Self {
        let source = io::Error::from_raw_os_error(libc::ENOMEM);
        Self::Call { call: "the allocation of registered memory", source }
    }

    /// Makes the error of something that was destroyed, since its device is gone.
    pub(crate) fn gone(call: &'static str) -> Self {
        Self::Call { call, source: io::Error::from_raw_os_error(libc::ENODEV) }
    }

    /// Makes the error of a call that has returned an `errno`, positive or negative.
    pub(crate) fn returned(call: &'static str, errno: i32) -> Self {
        match errno.checked_abs() {
            // The connection manager's functions return -1 and set errno.
            None | Some(0 | 1) => Self::last(call),
            Some(errno) => Self::Call { call, source: io::Error::from_raw_os_error(errno) },
        }
    }

    /// Checks the answer of a call that returns 0, or an error.
    pub(crate) fn check(call: &'static str, answer: i32) -> Result<(), Self> {
        if answer == 0 { Ok(()) } else { Err(Self::returned(call, answer)) }
    }
}
