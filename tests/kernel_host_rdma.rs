//! A real Linux host against the daemon over RDMA, on soft RoCE: the scenarios of NVMe/TCP's tests.

use e2e::scenario_over_rdma as scenario;

e2e::scenarios! {
    #[ignore = "make test-long: `transports` discovers over RDMA, and all else is the same over TCP"]
    fn a_host_discovers_its_subsystems() { scenario("discovery") }
    fn a_host_connects_identifies_and_resets() { scenario("connect") }
    #[ignore = "make test-long: this over TCP is in `make test`"]
    fn a_host_has_as_many_queues_as_it_asks_for() { scenario("queues") }
    fn data_is_kept_in_persistent_memory() { scenario("io", "pmem") }
    #[ignore = "make test-long: `netdown` and `transports` lose connections over RDMA, and a kill over TCP is in `make test`"]
    fn a_killed_target_loses_nothing() { scenario("crash") }
    fn a_host_whose_network_fails_loses_its_controller_and_reconnects() { scenario("netdown") }
    #[ignore = "make test-long: `transports` counts what is left of RDMA devices, and connections over TCP are in `make test`"]
    fn connections_leave_nothing_behind() { scenario("leaks") }
    #[ignore = "make test-long: the same over TCP is in `make test`"]
    fn the_daemon_ends_in_order() { scenario("drain") }
    fn one_target_serves_tcp_and_rdma_at_once() { scenario("transports") }
    fn keys_of_the_keyring_and_rdma_work_in_one_target() { scenario("tls-rdma") }
    fn hosts_with_wrong_keys_end_alone() { scenario("rdma-hosts") }
    fn our_own_host_loads_and_verifies() { scenario("rdma-bench") }
}

e2e::scenarios! {
    #![ignore = "make test-long: none of it depends on the transport"]
    fn a_host_has_its_permissions_and_no_more() { scenario("host-access") }
    fn namespaces_change_while_a_host_is_connected() { scenario("live") }
    fn an_nvme_device_shows_through() { scenario("passthrough") }
}

e2e::scenarios! {
    #![ignore = "make test-long: this disk over TCP and others over RDMA are in `make test`"]
    fn data_is_kept_in_memory() { scenario("io", "memory") }
    fn data_is_kept_in_a_file() { scenario("io", "file") }
    fn data_is_kept_on_an_nvme_device() { scenario("io", "passthrough") }
}
