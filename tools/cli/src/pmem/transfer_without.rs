//! A build without RDMA: it says so where a region is to be used.

use std::io::{Read, Write};

use anyhow::bail;
use fabric::nvme::region::{RegionGrant, RegionName};

use super::plan::Plan;
use super::written::Written;

/// Refuses to use regions.
pub(crate) fn check() -> anyhow::Result<()> {
    bail!("this build of sluice has no RDMA: build it with --features rdma");
}

/// Refuses to read.
pub(crate) fn read(
    _: RegionName,
    _: &RegionGrant,
    _: &Plan,
    _: &mut dyn Write,
) -> anyhow::Result<u64> {
    check().map(|()| 0)
}

/// Refuses to write.
pub(crate) fn write(
    _: RegionName,
    _: &RegionGrant,
    _: &Plan,
    _: &mut dyn Read,
) -> anyhow::Result<Written> {
    check().map(|()| Written { bytes: 0, flushed_by: None })
}
