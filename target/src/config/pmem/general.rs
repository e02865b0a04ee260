//! `[pmem]`: the service of one-sided RDMA as a whole.

use std::net::SocketAddr;
use std::time::Duration;

/// `[pmem]`. All of it is read at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pmem {
    /// `address`: IP address and port of an RDMA device at which clients connect; `None` means that
    /// no region is served by one-sided RDMA.
    pub address: Option<SocketAddr>,
    /// `capacity`: I/Os per second of all clients together (C_G); `Some` where `address` is.
    pub capacity: Option<u64>,
    /// `client_capacity`: I/Os per second that one client can do (C_L); `None` means `capacity`.
    pub client_capacity: Option<u64>,
    /// `deviation`: the standard deviation of the capacity in I/Os per second; `None` means 1 % of
    /// it.
    pub deviation: Option<u64>,
    /// `period`: the time for which reservations and limits are kept (T).
    pub period: Duration,
    /// `interval`: the time between checks, and between a client's reports.
    pub interval: Duration,
    /// `batch`: global tokens that a client takes at once (B).
    pub batch: u64,
    /// `clients`: the most grants at one time.
    pub clients: u32,
}

impl Default for Pmem {
    fn default() -> Self {
        Self {
            address: None,
            capacity: None,
            client_capacity: None,
            deviation: None,
            period: Duration::from_secs(1),
            interval: Duration::from_millis(1),
            batch: 1000,
            clients: 64,
        }
    }
}

impl Pmem {
    /// Returns the I/Os per second of all clients together (C_G); 0 without a `capacity`.
    #[must_use]
    pub fn capacity_of_all(&self) -> u64 {
        self.capacity.unwrap_or(0)
    }

    /// Returns the I/Os per second that one client can do (C_L).
    #[must_use]
    pub fn capacity_of_client(&self) -> u64 {
        self.client_capacity.unwrap_or_else(|| self.capacity_of_all())
    }

    /// Returns the standard deviation of the capacity in I/Os per second.
    #[must_use]
    pub fn deviation_of_capacity(&self) -> u64 {
        self.deviation.unwrap_or_else(|| self.capacity_of_all() / 100)
    }
}
