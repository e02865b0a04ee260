//! A build without RDMA: it says so where a load is for a region.

use std::time::Duration;

use anyhow::bail;
use fabric::nvme::region::RegionGrant;

use super::region_load::RegionLoad;
use super::region_report::Measured;

/// Refuses to load regions.
pub(crate) fn check() -> anyhow::Result<()> {
    bail!("this build of sluice has no RDMA: build it with --features rdma");
}

/// Refuses to load a region.
pub(crate) fn drive(
    _: &RegionLoad,
    _: &RegionGrant,
    _: (Duration, Duration),
    _: Option<usize>,
) -> anyhow::Result<Measured> {
    bail!("this build of sluice has no RDMA: build it with --features rdma");
}
