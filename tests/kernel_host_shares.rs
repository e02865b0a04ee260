//! The shares of a device, a link and memory that real Linux hosts get. These scenarios measure, on virtual time
//! (`# time: virtual` in their files): several run side by side.

/// Hosts over TCP.
mod tcp {
    use anyhow::Result;
    use e2e::scenario;

    #[test]
    fn classes_share_a_slow_device_by_their_weights() -> Result<()> {
        scenario("qos-classes", &["model"])
    }

    #[test]
    #[ignore = "make test-long: `virtual_time` runs it twice"]
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
    fn d1_a_host_waits_for_any_limit_without_a_timeout() -> Result<()> {
        scenario("qos-waits", &[])
    }

    #[test]
    fn d1_disks_below_one_low_limit_lose_no_command() -> Result<()> {
        scenario("limit-disks", &[])
    }

    #[test]
    fn d1_reconnect_of_a_limited_host_succeeds_after_a_restart() -> Result<()> {
        scenario("limit-restart", &[])
    }

    #[test]
    fn quality_of_service_changes_under_load() -> Result<()> {
        scenario("qos-live", &[])
    }

    #[test]
    fn d6_agent_keeps_processes_of_a_node_within_its_credits() -> Result<()> {
        scenario("agent", &[])
    }

    #[test]
    fn d6_programs_of_a_node_share_one_pool() -> Result<()> {
        scenario("agent-pool", &[])
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
    #[ignore = "make test-long: a further case of a law that another test has"]
    fn e7_reads_of_hosts_without_dctcp_share_too() -> Result<()> {
        scenario("qtcp-shares", &["read", "cubic"])
    }

    #[test]
    #[ignore = "make test-long: a further case of a law that another test has"]
    fn e7_writes_of_hosts_with_defaults_share_too() -> Result<()> {
        scenario("qtcp-shares", &["write", "as-they-come"])
    }

    #[test]
    #[ignore = "make test-long: a further case of a law that another test has"]
    fn e7_hosts_with_unlike_round_trips_share_by_class() -> Result<()> {
        scenario("qtcp-unlike", &["ways"])
    }

    #[test]
    #[ignore = "make test-long: a further case of a law that another test has"]
    fn e7_equal_weights_beside_a_rate_share_by_class() -> Result<()> {
        scenario("qtcp-unlike", &["rate"])
    }

    #[test]
    #[ignore = "make test-long: a further case of a law that another test has"]
    fn e7_hosts_that_read_and_write_at_once_share_both_ways() -> Result<()> {
        scenario("qtcp-both", &["ways"])
    }

    #[test]
    #[ignore = "make test-long: a further case of a law that another test has"]
    fn e7_hosts_with_queues_of_their_own_for_writes_share_both_ways() -> Result<()> {
        scenario("qtcp-both", &["queues"])
    }

    #[test]
    #[ignore = "make test-long: a further case of a law that another test has"]
    fn e7_a_host_with_several_connections_has_one_hosts_share() -> Result<()> {
        scenario("qtcp-both", &["connections"])
    }

    #[test]
    #[ignore = "make test-long: a further case of a law that another test has"]
    fn e8_reads_settle_when_a_host_comes_and_goes() -> Result<()> {
        scenario("qtcp-converge", &["read"])
    }

    #[test]
    #[ignore = "make test-long: a further case of a law that another test has"]
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
}

/// Hosts over RDMA, on soft RoCE, and some beside hosts over TCP.
mod rdma {
    use anyhow::Result;
    use e2e::scenario_over_rdma as scenario;

    #[test]
    #[ignore = "make test-long: the law is the same as over TCP"]
    fn classes_share_a_slow_device_by_their_weights() -> Result<()> {
        scenario("qos-classes", &["model"])
    }

    #[test]
    #[ignore = "make test-long: the law is the same as over TCP"]
    fn a_quiet_host_is_not_drowned_by_a_flood() -> Result<()> {
        scenario("qos-flood", &[])
    }

    #[test]
    #[ignore = "make test-long: the law is the same as over TCP"]
    fn a_reservation_is_kept_in_every_second() -> Result<()> {
        scenario("qos-reserve", &[])
    }

    #[test]
    #[ignore = "make test-long: the law is the same as over TCP"]
    fn overload_is_no_error_to_a_host() -> Result<()> {
        scenario("qos-overload", &[])
    }

    #[test]
    #[ignore = "make test-long: the law is the same as over TCP"]
    fn d1_a_host_waits_for_any_limit_without_a_timeout() -> Result<()> {
        scenario("qos-waits", &[])
    }

    #[test]
    #[ignore = "make test-long: the law is the same as over TCP"]
    fn quality_of_service_changes_under_load() -> Result<()> {
        scenario("qos-live", &[])
    }

    #[test]
    fn h5_reservations_of_one_sided_reads_are_met_and_no_right_goes_beyond_its_grant() -> Result<()>
    {
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
    #[ignore = "the network stage misses these shares at 1 Gbit/s over RDMA"]
    fn e2_reads_share_a_congested_link_by_class() -> Result<()> {
        scenario("qtcp-shares", &["read", "dctcp"])
    }

    #[test]
    fn e2_writes_share_a_congested_link_by_class() -> Result<()> {
        scenario("qtcp-shares", &["write", "dctcp"])
    }

    #[test]
    #[ignore = "the network stage misses these shares at 1 Gbit/s over RDMA"]
    fn e11_one_host_over_rdma_and_two_over_tcp_share_reads() -> Result<()> {
        scenario("qtcp-shares", &["read", "beside-tcp"])
    }

    #[test]
    #[ignore = "the network stage misses these shares at 1 Gbit/s over RDMA"]
    fn e11_one_host_over_rdma_and_two_over_tcp_share_writes() -> Result<()> {
        scenario("qtcp-shares", &["write", "beside-tcp"])
    }

    #[test]
    #[ignore = "make test-long: the law is the same as over TCP"]
    fn e2_hosts_with_queues_of_their_own_for_writes_share_both_ways() -> Result<()> {
        scenario("qtcp-both", &["queues"])
    }

    #[test]
    #[ignore = "make test-long: the law is the same as over TCP"]
    fn e2_urgent_is_not_held_back_and_its_packets_have_its_dscp() -> Result<()> {
        scenario("qtcp-urgent", &[])
    }

    #[test]
    #[ignore = "the network stage misses these shares at 1 Gbit/s over RDMA"]
    fn e2_what_classes_get_of_the_network_changes_under_load() -> Result<()> {
        scenario("qtcp-live", &[])
    }

    #[test]
    #[ignore = "make test-long: the law is the same as over TCP"]
    fn e2_hosts_with_unlike_round_trips_share_by_class() -> Result<()> {
        scenario("qtcp-unlike", &["ways"])
    }

    #[test]
    #[ignore = "make test-long: the law is the same as over TCP"]
    fn e2_equal_weights_beside_a_rate_share_by_class() -> Result<()> {
        scenario("qtcp-unlike", &["rate"])
    }

    #[test]
    #[ignore = "make test-long: the law is the same as over TCP"]
    fn e2_hosts_that_read_and_write_at_once_share_both_ways() -> Result<()> {
        scenario("qtcp-both", &["ways"])
    }

    #[test]
    #[ignore = "make test-long: the law is the same as over TCP"]
    fn e2_a_host_with_several_connections_has_one_hosts_share() -> Result<()> {
        scenario("qtcp-both", &["connections"])
    }

    #[test]
    #[ignore = "make test-long: the law is the same as over TCP"]
    fn e2_reads_settle_when_a_host_comes_and_goes() -> Result<()> {
        scenario("qtcp-converge", &["read"])
    }

    #[test]
    #[ignore = "make test-long: the law is the same as over TCP"]
    fn e2_writes_settle_when_a_host_comes_and_goes() -> Result<()> {
        scenario("qtcp-converge", &["write"])
    }

    #[test]
    #[ignore = "make test-long: the law is the same as over TCP"]
    fn e2_a_host_keeps_its_latency_on_a_full_link() -> Result<()> {
        scenario("qtcp-latency", &[])
    }
}
