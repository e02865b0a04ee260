//! A build without RDMA: it says so where a listener asks for RDMA.

use std::net::SocketAddr;
use std::sync::Arc;

use fabric::controller::ListenerId;
use sluice_config::Endpoint;

use super::shared::Shared;
use crate::sys::mapping::Mapping;

/// Why nothing of RDMA works.
pub(crate) const WITHOUT: &str = "this build of sluiced has no RDMA: build it with --features rdma";

/// The place of what all threads share of RDMA in other builds.
#[derive(Debug)]
pub(crate) struct RdmaShared;

#[expect(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "builds with RDMA have the same methods"
)]
impl RdmaShared {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    /// Refuses to listen.
    ///
    /// # Errors
    /// Always; in words.
    pub(crate) fn listen(&self, _: ListenerId, _: Endpoint) -> Result<(), String> {
        Err(WITHOUT.to_owned())
    }

    pub(crate) fn listen_later(&self, _: ListenerId, _: Endpoint, _: String) {}

    /// Returns why a listener is not open.
    pub(crate) fn why_closed(&self, _: ListenerId) -> Option<String> {
        Some(WITHOUT.to_owned())
    }

    pub(crate) fn unlisten(&self, _: ListenerId) {}

    pub(crate) fn stop(&self) {}

    pub(crate) fn add_memory(&self, _: usize, _: Arc<Mapping>) {}
}

/// Refuses to open a listener.
///
/// # Errors
/// Always; in words.
pub(crate) fn check(_: SocketAddr, _: bool) -> Result<(), String> {
    Err(WITHOUT.to_owned())
}

/// Has nothing to do: the body of the thread.
pub(crate) fn run(_: &Shared, _: impl Fn() -> bool) {}
