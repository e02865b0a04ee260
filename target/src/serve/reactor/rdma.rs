//! Queue pairs between the driver and the core: their events in each turn.

use std::sync::Arc;

use fabric::queue::Either;
use fabric::rdma::wire::TargetQueue;
use fabric::rdma::wire::private_data::ConnectAccept;
use sluice_config::Transport;
use sluice_core::{Accepted, Origin, Policies as _};
use zerocopy::IntoBytes as _;

use super::Reactor;
use super::queue_pairs::{Handed, Happened};
use super::tag::Tag;
use crate::serve::rdma::NewQueuePair;

impl Reactor {
    /// Takes a queue pair, and accepts its connection.
    pub(super) fn serve_queue_pair(&mut self, new: NewQueuePair) {
        let (stats, in_flight) = (Arc::default(), Arc::default());
        let NewQueuePair { listener, peer, tos, queue, .. } = new;
        let local = Some(new.pair.id().local_address());
        let tos_of_answers = self.mark(&new);
        let key = self.core.accept(Accepted {
            transport: Either::Right(TargetQueue::new(queue)),
            listener,
            peer: peer.ip(),
            tos,
            stats: Arc::clone(&stats),
            in_flight: Arc::clone(&in_flight),
        });
        let driver = self.core.driver();
        driver.add(key, None, (peer, local), listener);
        driver.pairs.add(key, new, tos_of_answers, ConnectAccept::new(queue.entries).as_bytes());
        self.watch_completions();
        self.register(key, (peer, local, Transport::Rdma), stats, in_flight);
        self.core.start(key);
    }

    /// Waits for completions of the queues that are not waited for.
    fn watch_completions(&mut self) {
        let driver = self.core.driver();
        for (number, fd) in driver.pairs.take_unwatched() {
            driver.ring.watch(fd, completions_tag(number));
        }
    }

    /// Takes note that a completion queue's descriptor became readable, and whether it is watched
    /// still.
    pub(super) fn completions_came(&mut self, number: u32, watched: bool) {
        self.core.driver().pairs.woken(number as usize, watched);
        if !watched {
            self.watch_completions();
        }
    }

    /// Lets go of a completion queue that no queue pair uses any more: its end takes long, and is left
    /// to another thread.
    pub(super) fn drop_completions(&mut self, number: usize) {
        let driver = self.core.driver();
        if let Some(queue) = driver.pairs.remove_completions(number) {
            driver.ring.cancel(completions_tag(number), Tag::Cancel.encode());
            self.shared.rdma.give_back(queue);
        }
    }

    /// Returns the traffic class byte for a connection's packets: by the class that its listener or its own mark
    /// names, as far as it is known before the connection is accepted. Later, few devices can change the byte of a
    /// queue pair.
    fn mark(&self, new: &NewQueuePair) -> Option<u8> {
        let NewQueuePair { listener, peer, tos, .. } = *new;
        let address = Some(peer.ip());
        let origin = Origin { listener, priority: 0, weighted: false, tos, address };
        let policies = self.shared.qos.snapshot();
        let class = policies.connection_class(&origin).named()?;
        Some(policies.dscp(class) << 2)
    }

    /// Takes the events of queue pairs. Returns whether there was anything.
    pub(super) fn serve_queue_pairs(&mut self) -> bool {
        let mut any = self.core.driver().pairs.poll();
        while let Some(happened) = self.core.driver().pairs.next() {
            any = true;
            match happened {
                Happened::Arrived(key) => {
                    let Some((handed, list)) = self.core.driver().pairs.take_arrived(key) else {
                        continue;
                    };
                    let chunk = Either::Right(&list[..]);
                    match handed {
                        Handed::Once => {
                            self.core.received_once(key, None, 0, chunk);
                        }
                        Handed::Stream => self.core.received(key, chunk),
                        Handed::Chunk => {
                            self.core.received(key, chunk);
                            self.core.receive_ended(key, None);
                        }
                    }
                    self.core.caught_up(key);
                    self.core.driver().pairs.keep(key, list);
                }
                Happened::Sent(key, batch, lost) => self.core.sent(key, Either::Right(batch), lost),
                Happened::Fetched(key, fetch, place, bytes, lost) => {
                    self.core.fetched(key, (&fetch, &bytes), place, lost);
                }
                Happened::ReceiveEnded(key, lost) => self.core.receive_ended(key, lost),
            }
        }
        any
    }

    /// Prepares to sleep. Returns false where a completion is there already.
    pub(super) fn arm_queue_pairs(&mut self) -> bool {
        self.core.driver().pairs.arm()
    }
}

/// Returns what names the completions of the ring that are of a completion queue.
fn completions_tag(number: usize) -> u64 {
    Tag::Completions(u32::try_from(number).unwrap_or(u32::MAX)).encode()
}
