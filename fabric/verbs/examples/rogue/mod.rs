//! Messages of hosts that break the rules of NVMe/RDMA, for the examples.

use std::time::Duration;

use fabric::nvme::{SglDescriptor, Sqe};
use fabric::queue::Remote;
use fabric::rdma::wire::private_data::ConnectRequest;
use fabric_verbs::{ConnectionParams, QueuePairSize};
use zerocopy::IntoBytes;

/// Time to find an address and the route to it.
pub(crate) const TIME: Duration = Duration::from_secs(2);
pub(crate) const PARAMS: ConnectionParams = ConnectionParams {
    responder_resources: 4,
    initiator_depth: 0,
    retries: 7,
    not_ready_retries: 7,
};
pub(crate) const SIZE: QueuePairSize = QueuePairSize {
    sends: 16,
    receives: 32,
    receive_bytes: 64,
    send_payloads: false,
    flushes: false,
};
/// An address and a key that no device has given.
pub(crate) const NOWHERE: Remote = Remote { address: 0x5000_0000, key: 0x00de_ad00 };

/// Returns private data that ask for an admin queue, in a record format.
pub(crate) fn admin_queue(recfmt: u16) -> ConnectRequest {
    ConnectRequest {
        recfmt: recfmt.into(),
        hrqsize: 32.into(),
        hsqsize: 31.into(),
        ..ConnectRequest::default()
    }
}

/// Returns the capsule of a command whose data is `length` bytes there.
pub(crate) fn capsule(mut sqe: Sqe, cid: u16, length: u32, remote: Remote) -> Vec<u8> {
    sqe.cid.set(cid);
    sqe.flags = 1 << 6;
    sqe.sgl = SglDescriptor::keyed(remote.address, length, remote.key, false);
    sqe.as_bytes().to_vec()
}
