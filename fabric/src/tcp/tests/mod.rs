//! Tests of both roles, and of the two joined.

mod edges;
mod hostile;
mod speed;
mod target;
mod violations;

use crate::queue::Payload;
use crate::tcp::Tx;

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
