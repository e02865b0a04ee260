//! The daemon as it is installed, under systemd: what `tests/scenarios/service-*.sh` show, one
//! test for each.

use anyhow::Result;
use e2e::service;

#[test]
fn the_service_starts_as_it_is_shipped() -> Result<()> {
    service("service-start", &[])
}
