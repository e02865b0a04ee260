//! A build without RDMA: it says so where a floor asks for RDMA.

use anyhow::bail;

use super::args::Floor;
use super::floor_sizes::Sizes;
use super::stats::JobStats;

/// Returns sizes that nothing has.
pub(crate) fn sizes(_: bool, bs: usize) -> Sizes {
    Sizes { request: bs, response: bs }
}

/// Refuses to measure.
pub(crate) fn measure(_: &Floor, _: usize) -> anyhow::Result<JobStats> {
    bail!("this build of sluice has no RDMA: build it with --features rdma");
}

/// Refuses to answer.
pub(crate) fn answer(_: &Floor, _: usize) -> anyhow::Result<()> {
    bail!("this build of sluice has no RDMA: build it with --features rdma");
}
