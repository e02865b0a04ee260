//! `sluice bench --pmem`: load on a region of persistent memory, by one-sided RDMA.

use anyhow::ensure;
use fabric::nvme::region::RegionName;
use fabric::tcp::HostParams;
use sluice_config::program::{print, print_line};

use super::args::Load;
use super::one_sided;
use super::region_load::RegionLoad;
use super::region_report::{LoadedRegion, Report};
use crate::pmem::grant::{self, Granted};

/// Runs the load and prints the report.
///
/// # Errors
///
/// The target cannot be reached, or does not grant the region; or the region cannot be used.
pub(crate) fn run(load: &Load, region: RegionName) -> anyhow::Result<()> {
    fabric_verbs::check()?;
    let wanted = RegionLoad::of(load, region)?;
    let params =
        HostParams { header_digest: load.hdgst, data_digest: load.ddgst, ..HostParams::default() };
    let granted = Granted::ask(&wanted.job.access, params, &wanted.wanted()?)?;
    let loaded = LoadedRegion {
        region: region.to_string(),
        data_node: granted.grant.address,
        bytes: granted.grant.length,
        rights: grant::rights(granted.grant.rights),
        survives: grant::survives(granted.grant.survives),
        reservation: granted.grant.reservation,
        limit: Some(granted.grant.limit).filter(|limit| *limit > 0),
        bare: wanted.bare,
    };
    let (warmup, time, core) = (load.warmup, load.time, load.core.first().copied());
    let measured = granted.hold(|grant| one_sided::drive(&wanted, grant, (warmup, time), core))?;
    let report = Report::of(&loaded, &wanted.job, &measured);
    if load.json {
        print_line(serde_json::to_string_pretty(&report)?)?;
    } else {
        print(report.table())?;
    }
    ensure!(
        measured.stats.count() > 0,
        "no I/O completed within the measurement: use a longer --time"
    );
    Ok(())
}
