//! A scenario's run in which no command may fail.

use std::path::Path;

use anyhow::ensure;

use super::Scenario;
use crate::model::{Measured, Model, Plan};

/// Runs a scenario whose plan `change` changes before.
///
/// # Errors
///
/// The scenario cannot be run, commands failed, or a connection was lost.
pub fn measure(
    scenario: &Scenario,
    seed: u64,
    change: impl FnOnce(&mut Plan),
) -> anyhow::Result<Measured> {
    let mut plan = scenario.plan(seed, Path::new("."))?.plan;
    plan.record_quality = false;
    change(&mut plan);
    let mut model = Model::new(plan)?;
    let end = model.end();
    model.run(end, &mut |_| ());
    let measured = model.report();
    let failed: u64 = measured.hosts.iter().flat_map(|host| &host.loads).map(|of| of.failed).sum();
    ensure!(failed == 0, "{failed} commands failed");
    let lost = measured.hosts.iter().flat_map(|host| &host.lost).next();
    ensure!(lost.is_none(), "a connection was lost: {}", lost.cloned().unwrap_or_default());
    Ok(measured)
}
