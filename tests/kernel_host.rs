//! A real Linux host against the daemon: a test for each scenario of `tests/scenarios/`.

use anyhow::Result;
use e2e::scenario;

#[test]
fn a_host_discovers_what_it_may_use() -> Result<()> {
    scenario("discovery", &[])
}

#[test]
fn a_host_connects_identifies_and_resets() -> Result<()> {
    scenario("connect", &[])
}

#[test]
fn a_host_has_as_many_queues_as_it_asks_for() -> Result<()> {
    scenario("queues", &[])
}

#[test]
fn a_host_proves_itself_by_a_secret() -> Result<()> {
    scenario("dhchap", &["few"])
}

#[test]
#[ignore = "make test-long: some of each are in `make test`"]
fn a_host_proves_itself_by_every_hash_and_group() -> Result<()> {
    scenario("dhchap", &["all"])
}

#[test]
fn a_host_does_what_it_may_and_no_more() -> Result<()> {
    scenario("host-access", &[])
}

#[test]
fn a_host_connects_over_tls() -> Result<()> {
    scenario("tls", &["few"])
}

#[test]
#[ignore = "make test-long: some of each are in `make test`"]
fn a_host_connects_over_tls_with_every_cipher_and_identity() -> Result<()> {
    scenario("tls", &["all"])
}

#[test]
#[ignore = "make test-long: `tls-rdma` has a key of the keyring, and `tls` all else"]
fn a_host_connects_over_tls_with_a_key_of_the_kernels_keyring() -> Result<()> {
    scenario("tls-keyring", &[])
}

#[test]
fn a_peer_over_tls_that_sends_no_data_is_closed_and_others_lose_nothing() -> Result<()> {
    scenario("tls-records", &[])
}

#[test]
fn a_host_has_a_tls_key_made_by_its_proof() -> Result<()> {
    scenario("concat", &[])
}

#[test]
fn namespaces_change_while_a_host_is_connected() -> Result<()> {
    scenario("live", &[])
}

#[test]
fn slips_of_operator_cost_no_data() -> Result<()> {
    scenario("slips", &[])
}

#[test]
fn a_device_may_come_late_fail_go_and_come_back() -> Result<()> {
    scenario("devices", &[])
}

#[test]
#[ignore = "make test-long: files and devices are in `make test`"]
fn data_is_kept_in_memory() -> Result<()> {
    scenario("io", &["memory"])
}

#[test]
fn data_is_kept_in_a_file() -> Result<()> {
    scenario("io", &["file"])
}

#[test]
#[ignore = "make test-long: this backend over RDMA is in `make test`"]
fn data_is_kept_in_persistent_memory() -> Result<()> {
    scenario("io", &["pmem"])
}

#[test]
fn data_is_kept_on_an_nvme_device() -> Result<()> {
    scenario("io", &["passthrough"])
}

#[test]
fn an_nvme_device_shows_through() -> Result<()> {
    scenario("passthrough", &[])
}

#[test]
fn a_command_waits_for_a_drive_without_a_path_unless_its_host_has_gone() -> Result<()> {
    scenario("no-path", &[])
}

#[test]
fn a_device_sees_no_class_that_a_host_gave() -> Result<()> {
    scenario("class-bits", &[])
}

#[test]
fn a_device_in_use_is_not_exported_and_a_replaced_one_is_noticed() -> Result<()> {
    scenario("backings", &[])
}

#[test]
fn a_file_system_waits_for_a_disk_that_is_not_there_for_minutes() -> Result<()> {
    scenario("outage", &[])
}

#[test]
fn a_file_system_without_multipath_waits_for_a_disk_that_is_not_there_for_minutes() -> Result<()> {
    scenario("outage-single", &[])
}

#[test]
fn a_killed_target_loses_nothing() -> Result<()> {
    scenario("crash", &[])
}

#[test]
fn host_keeps_a_disk_in_the_place_of_another_when_the_target_is_killed() -> Result<()> {
    scenario("replaced", &[])
}

#[test]
fn a_host_whose_network_fails_loses_its_controller_and_reconnects() -> Result<()> {
    scenario("netdown", &[])
}

#[test]
fn connections_leave_nothing_behind() -> Result<()> {
    scenario("leaks", &[])
}

#[test]
fn the_daemon_ends_in_order() -> Result<()> {
    scenario("drain", &[])
}
