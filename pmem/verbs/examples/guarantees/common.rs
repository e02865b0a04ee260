//! Common parts of data node and clients.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use pmem_verbs::connection::{ConnectError, Connection};
use pmem_verbs::private_data::{RegionId, Request, Rights, Secret};
use units::Nanos;

/// The only region.
pub(crate) const REGION: RegionId = RegionId(1);
/// Bytes of an I/O.
pub(crate) const BLOCK: usize = 4096;
/// Bytes of the region.
pub(crate) const LENGTH: usize = 256 * BLOCK;
/// The time in which the data node must answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Returns the request of a client. A secret that a number leads to is for tests alone.
pub(crate) fn request(number: u32) -> Request {
    let secret = Secret(0x5eed_0000_0000 + u128::from(number));
    Request { region: REGION, secret, rights: Rights::Read }
}

/// Connects a client.
pub(crate) fn connect(
    address: SocketAddr,
    request: Request,
    operations: u16,
) -> Result<Connection, ConnectError> {
    Connection::open(address, request, operations, PATIENCE)
}

/// A clock that begins at 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn begin() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Nanos {
        Nanos(units::nanos(self.0.elapsed()))
    }
}
