//! The shares of a device, a link and memory that real Linux hosts get. These scenarios measure, on virtual time
//! (`# time: virtual` in their files): several run side by side.

/// Hosts over TCP.
mod tcp {
    use e2e::scenario;

    e2e::scenarios! {
        fn classes_share_a_slow_device_by_their_weights() { scenario("qos-classes", "model") }
        #[ignore = "make test-long: `virtual_time` runs it twice"]
        fn classes_share_an_nvme_device_by_their_weights() {
            scenario("qos-classes", "passthrough")
        }
        fn a_quiet_host_is_not_drowned_by_a_flood() { scenario("qos-flood") }
        fn a_reservation_is_kept_in_every_second() { scenario("qos-reserve") }
        fn overload_is_no_error_to_a_host() { scenario("qos-overload") }
        fn d1_a_host_waits_for_any_limit_without_a_timeout() { scenario("qos-waits") }
        fn d1_disks_below_one_low_limit_lose_no_command() { scenario("limit-disks") }
        fn d1_reconnect_of_a_limited_host_succeeds_after_a_restart() { scenario("limit-restart") }
        fn quality_of_service_changes_under_load() { scenario("qos-live") }
        fn d6_agent_keeps_processes_of_a_node_within_its_credits() { scenario("agent") }
        fn d6_programs_of_a_node_share_one_pool() { scenario("agent-pool") }
        fn e7_reads_share_a_congested_link_by_class() { scenario("qtcp-shares", "read", "dctcp") }
        fn e7_writes_share_a_congested_link_by_class() { scenario("qtcp-shares", "write", "dctcp") }
        fn e9_a_host_keeps_its_latency_on_a_full_link() { scenario("qtcp-latency") }
        fn e12_urgent_is_not_held_back_and_its_packets_have_its_dscp() { scenario("qtcp-urgent") }
        fn e8_class_goals_of_the_network_change_under_load() { scenario("qtcp-live") }
    }

    e2e::scenarios! {
        #![ignore = "make test-long: a further case of a law that another test has"]
        fn e7_reads_of_hosts_without_dctcp_share_too() { scenario("qtcp-shares", "read", "cubic") }
        fn e7_writes_of_hosts_with_defaults_share_too() {
            scenario("qtcp-shares", "write", "as-they-come")
        }
        fn e7_hosts_with_unlike_round_trips_share_by_class() { scenario("qtcp-unlike", "ways") }
        fn e7_equal_weights_beside_a_rate_share_by_class() { scenario("qtcp-unlike", "rate") }
        fn e7_hosts_that_read_and_write_at_once_share_both_ways() { scenario("qtcp-both", "ways") }
        fn e7_hosts_with_queues_of_their_own_for_writes_share_both_ways() {
            scenario("qtcp-both", "queues")
        }
        fn e7_a_host_with_several_connections_has_one_hosts_share() {
            scenario("qtcp-both", "connections")
        }
        fn e8_reads_settle_when_a_host_comes_and_goes() { scenario("qtcp-converge", "read") }
        fn e8_writes_settle_when_a_host_comes_and_goes() { scenario("qtcp-converge", "write") }
    }
}

/// Hosts over RDMA, on soft RoCE, and some beside hosts over TCP.
mod rdma {
    use e2e::scenario_over_rdma as scenario;

    e2e::scenarios! {
        fn h5_reservations_of_one_sided_reads_are_met_and_no_right_goes_beyond_its_grant() {
            scenario("rdma-pmem")
        }
        fn h5_regions_of_the_daemon_keep_reservations_and_end_with_their_controllers() {
            scenario("rdma-region")
        }
        fn e12_a_queue_for_urgent_takes_most_of_the_wait_from_persistent_memory() {
            scenario("qtcp-pmem")
        }
        fn e2_writes_share_a_congested_link_by_class() { scenario("qtcp-shares", "write", "dctcp") }
    }

    e2e::scenarios! {
        #![ignore = "make test-long: the law is the same as over TCP"]
        fn classes_share_a_slow_device_by_their_weights() { scenario("qos-classes", "model") }
        fn a_quiet_host_is_not_drowned_by_a_flood() { scenario("qos-flood") }
        fn a_reservation_is_kept_in_every_second() { scenario("qos-reserve") }
        fn overload_is_no_error_to_a_host() { scenario("qos-overload") }
        fn d1_a_host_waits_for_any_limit_without_a_timeout() { scenario("qos-waits") }
        fn quality_of_service_changes_under_load() { scenario("qos-live") }
        fn e2_hosts_with_queues_of_their_own_for_writes_share_both_ways() {
            scenario("qtcp-both", "queues")
        }
        fn e2_urgent_is_not_held_back_and_its_packets_have_its_dscp() { scenario("qtcp-urgent") }
        fn e2_hosts_with_unlike_round_trips_share_by_class() { scenario("qtcp-unlike", "ways") }
        fn e2_equal_weights_beside_a_rate_share_by_class() { scenario("qtcp-unlike", "rate") }
        fn e2_hosts_that_read_and_write_at_once_share_both_ways() { scenario("qtcp-both", "ways") }
        fn e2_a_host_with_several_connections_has_one_hosts_share() {
            scenario("qtcp-both", "connections")
        }
        fn e2_reads_settle_when_a_host_comes_and_goes() { scenario("qtcp-converge", "read") }
        fn e2_writes_settle_when_a_host_comes_and_goes() { scenario("qtcp-converge", "write") }
        fn e2_a_host_keeps_its_latency_on_a_full_link() { scenario("qtcp-latency") }
    }

    e2e::scenarios! {
        #![ignore = "the network stage misses these shares at 1 Gbit/s over RDMA"]
        fn e2_reads_share_a_congested_link_by_class() { scenario("qtcp-shares", "read", "dctcp") }
        fn e11_one_host_over_rdma_and_two_over_tcp_share_reads() {
            scenario("qtcp-shares", "read", "beside-tcp")
        }
        fn e11_one_host_over_rdma_and_two_over_tcp_share_writes() {
            scenario("qtcp-shares", "write", "beside-tcp")
        }
        fn e2_class_goals_of_the_network_change_under_load() { scenario("qtcp-live") }
    }
}
