//! A build without RDMA: it says so where a listener asks for RDMA.

use std::net::SocketAddr;
use std::sync::Arc;

use fabric::controller::ListenerId;

use crate::mapping::Mapping;
use crate::shared::Shared;

/// The place of what all threads share of RDMA in other builds.
#[derive(Debug)]
pub(crate) struct Rdma;

#[expect(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "builds with RDMA have the same methods"
)]
impl Rdma {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    /// Refuses to listen.
    ///
    /// # Errors
    /// Always; in words.
    pub(crate) fn listen(&self, _: ListenerId, _: SocketAddr) -> Result<(), String> {
        Err("this build of sluiced has no RDMA: build it with --features rdma".to_owned())
    }

    pub(crate) fn unlisten(&self, _: ListenerId) {}

    pub(crate) fn stop(&self) {}

    pub(crate) fn add_memory(&self, _: usize, _: Arc<Mapping>) {}

    pub(crate) fn run(&self, _: &Shared, _: impl Fn() -> bool) {}
}
