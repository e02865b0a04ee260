//! The daemon as it is installed, under systemd: a test for each of `tests/scenarios/service-*.sh`.

use e2e::service;

e2e::scenarios! {
    fn the_service_starts_as_it_is_shipped() { service("service-start") }
    fn the_service_comes_back_unless_it_was_asked_to_end() { service("service-restart") }
    fn dctcp_is_used_as_installed() { service("service-dctcp") }
    fn the_readme_works_as_written() { service("service-readme") }
    #[ignore = "make test-long: `outage` takes a file system from a daemon of its own"]
    fn an_unmounted_file_system_loses_no_disk() { service("service-storage") }
    #[ignore = "make test-long: a minute; each fault has a scenario of its own"]
    fn operator_survives_year_of_faults_with_hosts_data_verified() { service("service-year") }
    fn the_journal_has_lines_and_fields() { service("service-journal") }
    fn a_device_that_appears_is_served_by_itself() { service("service-device") }
    fn the_service_reads_its_file_again_while_hosts_go_on() { service("service-reload") }
}
