//! Output is sent batch by batch, in order and once.

use super::joined::{Joined, Tcp};
use crate::queue::{HostReceived, HostTransport, Received, Transport};

#[test]
fn a_tcp_batch_goes_out_once() {
    let settings = Tcp::plain();
    let (mut target, mut host) = (Tcp::target(&settings), Tcp::host(&settings));
    let bytes = Tcp::from_host(&mut host, usize::MAX);
    assert!(matches!(target.next(&mut &bytes[..]), Ok(Some(Received::Initialized))));
    assert!(target.unsent() > 0 && !target.is_sending());
    let batch = target.take_batch().expect("the target greets its host");
    assert!(target.unsent() == 0 && target.is_sending());
    assert!(target.take_batch().is_none(), "one is out");
    target.give_back(batch);
    assert!(target.is_sending(), "nothing of it was sent");
    let mut batch = target.take_batch().expect("what came back unsent");
    let bytes: Vec<u8> = batch.slices().flatten().copied().collect();
    assert!(batch.advance(bytes.len()), "all of it was sent");
    target.give_back(batch);
    assert!(!target.is_sending());
    assert!(target.take_batch().is_none(), "everything was sent");
    assert!(matches!(host.next(&mut &bytes[..]), Ok(Some(HostReceived::Ready { .. }))));
}
