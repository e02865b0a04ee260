//! What is sent goes out batch by batch, in order and once.

use super::joined::{Joined, Loopback, Tcp};
use crate::queue::{HostReceived, HostTransport, Received, Transport};

fn what_was_not_sent_goes_out_again<J: Joined>() {
    let settings = J::plain();
    let (mut target, mut host) = (J::target(&settings), J::host(&settings));
    let units = J::from_host(&mut host, usize::MAX);
    assert!(matches!(target.next(&mut &units[..]), Ok(Some(Received::Initialized))));
    assert!(target.unsent() > 0 && !target.is_sending());
    let batch = target.take_batch().expect("the target greets its host");
    assert!(target.unsent() == 0 && target.is_sending());
    assert!(target.take_batch().is_none(), "one is out");
    target.give_back(batch);
    assert!(target.is_sending(), "nothing of it was sent");
    let mut batch = target.take_batch().expect("what came back unsent");
    let units = J::send(&mut batch);
    target.give_back(batch);
    assert!(!target.is_sending());
    assert!(target.take_batch().is_none(), "everything was sent");
    assert!(matches!(host.next(&mut &units[..]), Ok(Some(HostReceived::Ready { .. }))));
}

#[test]
fn a_tcp_batch_goes_out_once() {
    what_was_not_sent_goes_out_again::<Tcp>();
}

#[test]
fn a_loopback_batch_goes_out_once() {
    what_was_not_sent_goes_out_again::<Loopback>();
}
