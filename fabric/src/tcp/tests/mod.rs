//! Tests of both roles, and of the two joined.

mod edges;
mod hostile;
mod target;
mod violations;

use crate::queue::{HostReceived, HostTransport, Payload, Received, Transport};
use crate::tcp::{HostConnection, HostParams, TargetConnection, TargetParams, Tx};

/// Removes all queued output, as a socket would.
fn sent<P: Payload>(tx: &mut Tx<P>) -> Vec<u8> {
    let mut all = Vec::new();
    while tx.begin() {
        let bytes: Vec<u8> = tx.slices().flatten().copied().collect();
        assert!(tx.advance(bytes.len()), "all of a batch was sent");
        all.extend(bytes);
    }
    all
}

/// Makes both roles, initialized, with the digests that both want.
fn joined(
    params: TargetParams,
    host: HostParams,
) -> (HostConnection<Vec<u8>>, TargetConnection<Vec<u8>>) {
    let (mut host, mut target) = (HostConnection::new(host), TargetConnection::new(params));
    let request = sent(host.tx());
    assert!(matches!(target.next(&mut &request[..]), Ok(Some(Received::Initialized))));
    let response = sent(target.tx());
    let ready = host.next(&mut &response[..]);
    let Ok(Some(HostReceived::Ready { header_digest, data_digest, .. })) = ready else { panic!() };
    assert_eq!(host.digests(), (header_digest, data_digest));
    (host, target)
}
