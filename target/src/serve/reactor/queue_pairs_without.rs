//! A reactor of a build without RDMA: it has no queue pairs.

use std::convert::Infallible;
use std::ops::Deref;

use fabric::queue::Fetch;
use fabric::rdma::wire;
use sluice_core::{Key, TxData};

use super::pool::Buffer;
use super::receive::DataPlace;
use crate::serve::network::QueuePairPath;
use crate::serve::shared::Shared;
use crate::sys::clock::Clock;

/// Work requests that are posted together.
pub(super) type Batch = wire::Batch<TxData<Buffer>>;

/// A receive buffer, of which there is none.
#[derive(Clone, Debug)]
pub(super) struct Capsule(Infallible);

impl Deref for Capsule {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self.0 {}
    }
}

/// The queue pairs of a reactor: none.
#[derive(Debug)]
pub(super) struct QueuePairs(());

#[expect(clippy::unused_self, reason = "builds with RDMA have the same methods")]
impl QueuePairs {
    pub(super) fn new(_: Clock) -> Self {
        Self(())
    }

    pub(super) fn receive(&mut self, _: Key) {}

    pub(super) fn receive_chunk(&mut self, _: Key) {}

    pub(super) fn receive_once(&mut self, _: Key) {}

    pub(super) fn stop_receiving(&mut self, _: Key) {}

    pub(super) fn reaches(&self, _: Key, _: &[u8]) -> bool {
        true
    }

    pub(super) fn has_failed(&self, _: Key) -> bool {
        false
    }

    pub(super) fn send(&mut self, _: Key, _: Batch) {}

    pub(super) fn fetch(&mut self, _: Key, _: Fetch, _: Option<DataPlace>) {}

    pub(super) fn meter(&mut self, _: Key) -> Option<QueuePairPath> {
        None
    }

    pub(super) fn post_fetches(&mut self, _: Key) {}

    pub(super) fn shut_down(&mut self, _: Key) {}

    pub(super) fn end(&mut self, _: &Shared, _: Key) {}
}
