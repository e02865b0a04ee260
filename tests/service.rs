//! The daemon as it is installed, under systemd: a test for each of `tests/scenarios/service-*.sh`.

use anyhow::Result;
use e2e::service;

#[test]
fn the_service_starts_as_it_is_shipped() -> Result<()> {
    service("service-start", &[])
}

#[test]
fn the_service_comes_back_unless_it_was_asked_to_end() -> Result<()> {
    service("service-restart", &[])
}

#[test]
fn dctcp_is_used_as_installed() -> Result<()> {
    service("service-dctcp", &[])
}

#[test]
fn the_readme_works_as_written() -> Result<()> {
    service("service-readme", &[])
}

#[test]
#[ignore = "make test-long: `outage` takes a file system from a daemon of its own"]
fn an_unmounted_file_system_loses_no_disk() -> Result<()> {
    service("service-storage", &[])
}

#[test]
#[ignore = "make test-long: a minute; each fault has a scenario of its own"]
fn operator_survives_year_of_faults_with_hosts_data_verified() -> Result<()> {
    service("service-year", &[])
}

#[test]
fn the_journal_has_lines_and_fields() -> Result<()> {
    service("service-journal", &[])
}

#[test]
fn a_device_that_appears_is_served_by_itself() -> Result<()> {
    service("service-device", &[])
}

#[test]
fn the_service_reads_its_file_again_while_hosts_go_on() -> Result<()> {
    service("service-reload", &[])
}
