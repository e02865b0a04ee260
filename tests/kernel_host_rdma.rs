//! A real Linux host against the daemon over RDMA, on soft RoCE: the scenarios of NVMe/TCP's tests.

use anyhow::Result;
use e2e::scenario_over_rdma as scenario;

#[test]
fn a_host_discovers_what_it_may_use() -> Result<()> {
    scenario("discovery", &[])
}

#[test]
fn a_host_connects_identifies_and_resets() -> Result<()> {
    scenario("connect", &[])
}

#[test]
fn namespaces_change_while_a_host_is_connected() -> Result<()> {
    scenario("live", &[])
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
fn one_target_serves_tcp_and_rdma_at_once() -> Result<()> {
    scenario("transports", &[])
}

#[test]
fn hosts_with_wrong_keys_end_alone() -> Result<()> {
    scenario("rdma-hosts", &[])
}

#[test]
fn our_own_host_loads_and_verifies() -> Result<()> {
    scenario("rdma-bench", &[])
}

#[test]
fn h5_reservations_of_one_sided_reads_are_met_and_no_right_goes_beyond_its_grant() -> Result<()> {
    scenario("rdma-pmem", &[])
}

#[test]
fn h5_regions_of_the_daemon_keep_reservations_and_end_with_their_controllers() -> Result<()> {
    scenario("rdma-region", &[])
}

#[test]
fn e12_a_queue_for_urgent_takes_most_of_the_wait_from_persistent_memory() -> Result<()> {
    scenario("qtcp-pmem", &[])
}

#[test]
fn e2_reads_share_a_congested_link_by_class() -> Result<()> {
    scenario("qtcp-shares", &["read", "dctcp"])
}

#[test]
fn e2_writes_share_a_congested_link_by_class() -> Result<()> {
    scenario("qtcp-shares", &["write", "dctcp"])
}

#[test]
fn e11_one_host_over_rdma_and_two_over_tcp_share_reads() -> Result<()> {
    scenario("qtcp-shares", &["read", "beside-tcp"])
}

#[test]
fn e11_one_host_over_rdma_and_two_over_tcp_share_writes() -> Result<()> {
    scenario("qtcp-shares", &["write", "beside-tcp"])
}

#[test]
fn e2_hosts_with_queues_of_their_own_for_writes_share_both_ways() -> Result<()> {
    scenario("qtcp-both", &["queues"])
}

#[test]
fn e2_urgent_is_not_held_back_and_its_packets_have_its_dscp() -> Result<()> {
    scenario("qtcp-urgent", &[])
}

#[test]
fn e2_what_classes_get_of_the_network_changes_under_load() -> Result<()> {
    scenario("qtcp-live", &[])
}

// The following take some five minutes more: `cargo test -p e2e --test kernel_host_rdma -- --ignored`.

#[test]
#[ignore = "takes a minute; the law is the same as over TCP"]
fn e2_hosts_with_unlike_round_trips_share_by_class() -> Result<()> {
    scenario("qtcp-unlike", &["ways"])
}

#[test]
#[ignore = "takes a minute; the law is the same as over TCP"]
fn e2_equal_weights_beside_a_rate_share_by_class() -> Result<()> {
    scenario("qtcp-unlike", &["rate"])
}

#[test]
#[ignore = "takes a minute; the law is the same as over TCP"]
fn e2_hosts_that_read_and_write_at_once_share_both_ways() -> Result<()> {
    scenario("qtcp-both", &["ways"])
}

#[test]
#[ignore = "takes a minute; the law is the same as over TCP"]
fn e2_a_host_with_several_connections_has_one_hosts_share() -> Result<()> {
    scenario("qtcp-both", &["connections"])
}

#[test]
#[ignore = "takes a minute; the law is the same as over TCP"]
fn e2_reads_settle_when_a_host_comes_and_goes() -> Result<()> {
    scenario("qtcp-converge", &["read"])
}

#[test]
#[ignore = "takes a minute; the law is the same as over TCP"]
fn e2_writes_settle_when_a_host_comes_and_goes() -> Result<()> {
    scenario("qtcp-converge", &["write"])
}

#[test]
#[ignore = "takes a minute; the law is the same as over TCP"]
fn e2_a_host_keeps_its_latency_on_a_full_link() -> Result<()> {
    scenario("qtcp-latency", &[])
}
