//! A build without RDMA: it says so where a load asks for RDMA.

use std::convert::Infallible;
use std::os::fd::BorrowedFd;

use anyhow::bail;
use fabric::nvme::Sqe;
use fabric::queue::{HostReceived, SubmitError};

use super::queue_room::QueueRoom;
use super::socket::Data;

/// The place of a queue pair in other builds; there is none in this one.
#[derive(Debug)]
pub(crate) struct HostQueuePair(Infallible);

impl HostQueuePair {
    /// Refuses to connect.
    pub(crate) fn connect(_: &str, _: QueueRoom, _: Option<u8>) -> anyhow::Result<Self> {
        bail!("this build of sluice has no RDMA: build it with --features rdma");
    }

    pub(crate) fn begin_load(&mut self, _: u32, _: bool) {
        match self.0 {}
    }

    pub(crate) fn submit(&mut self, _: Sqe, _: Option<Data>, _: u32) -> Result<(), SubmitError> {
        match self.0 {}
    }

    pub(crate) fn read(&mut self) -> anyhow::Result<Option<usize>> {
        match self.0 {}
    }

    pub(crate) fn parse(&mut self, _: impl FnMut(HostReceived<'_>)) -> anyhow::Result<()> {
        match self.0 {}
    }

    pub(crate) fn flush(&mut self) -> anyhow::Result<bool> {
        match self.0 {}
    }

    pub(crate) fn arm(&mut self) -> anyhow::Result<Option<BorrowedFd<'_>>> {
        match self.0 {}
    }

    pub(crate) fn address(&self) -> &str {
        match self.0 {}
    }
}
