//! A real Linux host against the daemon: a test for each scenario of `tests/scenarios/`.

use e2e::scenario;

e2e::scenarios! {
    fn a_host_discovers_its_subsystems() { scenario("discovery") }
    fn a_host_connects_identifies_and_resets() { scenario("connect") }
    fn a_host_has_as_many_queues_as_it_asks_for() { scenario("queues") }
    fn a_host_proves_itself_by_a_secret() { scenario("dhchap", "few") }
    #[ignore = "make test-long: some of each are in `make test`"]
    fn a_host_proves_itself_by_every_hash_and_group() { scenario("dhchap", "all") }
    fn a_host_has_its_permissions_and_no_more() { scenario("host-access") }
    fn a_host_connects_over_tls() { scenario("tls", "few") }
    #[ignore = "make test-long: some of each are in `make test`"]
    fn a_host_connects_over_tls_with_every_cipher_and_identity() { scenario("tls", "all") }
    #[ignore = "make test-long: `tls-rdma` has a key of the keyring, and `tls` all else"]
    fn a_host_connects_over_tls_with_a_key_of_the_kernels_keyring() { scenario("tls-keyring") }
    fn a_peer_over_tls_that_sends_no_data_is_closed_and_others_lose_nothing() {
        scenario("tls-records")
    }
    fn a_host_has_a_tls_key_made_by_its_proof() { scenario("concat") }
    fn namespaces_change_while_a_host_is_connected() { scenario("live") }
    fn slips_of_operator_cost_no_data() { scenario("slips") }
    fn a_device_may_come_late_fail_go_and_come_back() { scenario("devices") }
    #[ignore = "make test-long: files and devices are in `make test`"]
    fn data_is_kept_in_memory() { scenario("io", "memory") }
    fn data_is_kept_in_a_file() { scenario("io", "file") }
    #[ignore = "make test-long: this backend over RDMA is in `make test`"]
    fn data_is_kept_in_persistent_memory() { scenario("io", "pmem") }
    fn data_is_kept_on_an_nvme_device() { scenario("io", "passthrough") }
    fn an_nvme_device_shows_through() { scenario("passthrough") }
    fn a_command_waits_for_a_drive_without_a_path_unless_its_host_has_gone() { scenario("no-path") }
    fn a_device_sees_no_class_that_a_host_gave() { scenario("class-bits") }
    fn a_device_in_use_is_not_exported_and_a_replaced_one_is_noticed() { scenario("backings") }
    fn a_file_system_waits_for_a_disk_that_is_not_there_for_minutes() { scenario("outage") }
    fn a_file_system_without_multipath_waits_for_a_disk_that_is_not_there_for_minutes() {
        scenario("outage-single")
    }
    fn a_killed_target_loses_nothing() { scenario("crash") }
    fn host_keeps_a_disk_in_the_place_of_another_when_the_target_is_killed() {
        scenario("replaced")
    }
    fn a_host_whose_network_fails_loses_its_controller_and_reconnects() { scenario("netdown") }
    fn connections_leave_nothing_behind() { scenario("leaks") }
    fn the_daemon_ends_in_order() { scenario("drain") }
}
