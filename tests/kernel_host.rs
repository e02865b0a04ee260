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
fn a_host_proves_itself_by_a_secret() -> Result<()> {
    scenario("dhchap", &[])
}

#[test]
fn a_host_does_what_it_may_and_no_more() -> Result<()> {
    scenario("host-access", &[])
}

#[test]
fn a_host_connects_over_tls() -> Result<()> {
    scenario("tls", &[])
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
fn a_device_may_come_late_fail_go_and_come_back() -> Result<()> {
    scenario("devices", &[])
}

#[test]
fn data_is_kept_in_memory() -> Result<()> {
    scenario("io", &["memory"])
}

#[test]
fn data_is_kept_in_a_file() -> Result<()> {
    scenario("io", &["file"])
}

#[test]
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
fn a_device_sees_no_class_that_a_host_gave() -> Result<()> {
    scenario("class-bits", &[])
}

#[test]
fn a_device_in_use_is_not_exported_and_a_replaced_one_is_noticed() -> Result<()> {
    scenario("backings", &[])
}

#[test]
fn a_killed_target_loses_nothing() -> Result<()> {
    scenario("crash", &[])
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

#[test]
fn classes_share_a_slow_device_by_their_weights() -> Result<()> {
    scenario("qos-classes", &["model"])
}

#[test]
fn classes_share_an_nvme_device_by_their_weights() -> Result<()> {
    scenario("qos-classes", &["passthrough"])
}

#[test]
fn a_quiet_host_is_not_drowned_by_a_flood() -> Result<()> {
    scenario("qos-flood", &[])
}

#[test]
fn a_reservation_is_kept_in_every_second() -> Result<()> {
    scenario("qos-reserve", &[])
}

#[test]
fn overload_is_no_error_to_a_host() -> Result<()> {
    scenario("qos-overload", &[])
}

#[test]
fn quality_of_service_changes_under_load() -> Result<()> {
    scenario("qos-live", &[])
}

#[test]
fn e7_reads_share_a_congested_link_by_class() -> Result<()> {
    scenario("qtcp-shares", &["read", "dctcp"])
}

#[test]
fn e7_writes_share_a_congested_link_by_class() -> Result<()> {
    scenario("qtcp-shares", &["write", "dctcp"])
}

#[test]
fn e7_reads_of_hosts_without_dctcp_share_too() -> Result<()> {
    scenario("qtcp-shares", &["read", "cubic"])
}

#[test]
fn e7_writes_of_hosts_with_defaults_share_too() -> Result<()> {
    scenario("qtcp-shares", &["write", "as-they-come"])
}

#[test]
fn e7_hosts_with_unlike_round_trips_share_by_class() -> Result<()> {
    scenario("qtcp-unlike", &["ways"])
}

#[test]
fn e7_equal_weights_beside_a_rate_share_by_class() -> Result<()> {
    scenario("qtcp-unlike", &["rate"])
}

#[test]
fn e7_hosts_that_read_and_write_at_once_share_both_ways() -> Result<()> {
    scenario("qtcp-both", &["ways"])
}

#[test]
fn e7_hosts_with_queues_of_their_own_for_writes_share_both_ways() -> Result<()> {
    scenario("qtcp-both", &["queues"])
}

#[test]
fn e7_a_host_with_several_connections_has_one_hosts_share() -> Result<()> {
    scenario("qtcp-both", &["connections"])
}

#[test]
fn e8_reads_settle_when_a_host_comes_and_goes() -> Result<()> {
    scenario("qtcp-converge", &["read"])
}

#[test]
fn e8_writes_settle_when_a_host_comes_and_goes() -> Result<()> {
    scenario("qtcp-converge", &["write"])
}

#[test]
fn e9_a_host_keeps_its_latency_on_a_full_link() -> Result<()> {
    scenario("qtcp-latency", &[])
}

#[test]
fn e12_urgent_is_not_held_back_and_its_packets_have_its_dscp() -> Result<()> {
    scenario("qtcp-urgent", &[])
}

#[test]
fn e8_what_classes_get_of_the_network_changes_under_load() -> Result<()> {
    scenario("qtcp-live", &[])
}
