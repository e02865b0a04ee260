//! A real Linux host against the daemon over RDMA, on soft RoCE: the scenarios of NVMe/TCP's tests.

use anyhow::Result;
use e2e::scenario_over_rdma as scenario;

#[test]
#[ignore = "make test-long: `transports` discovers over RDMA, and all else is the same over TCP"]
fn a_host_discovers_what_it_may_use() -> Result<()> {
    scenario("discovery", &[])
}

#[test]
fn a_host_connects_identifies_and_resets() -> Result<()> {
    scenario("connect", &[])
}

#[test]
#[ignore = "make test-long: this over TCP is in `make test`"]
fn a_host_has_as_many_queues_as_it_asks_for() -> Result<()> {
    scenario("queues", &[])
}

#[test]
#[ignore = "make test-long: none of it depends on the transport"]
fn a_host_does_what_it_may_and_no_more() -> Result<()> {
    scenario("host-access", &[])
}

#[test]
#[ignore = "make test-long: none of it depends on the transport"]
fn namespaces_change_while_a_host_is_connected() -> Result<()> {
    scenario("live", &[])
}

#[test]
#[ignore = "make test-long: this disk over TCP and others over RDMA are in `make test`"]
fn data_is_kept_in_memory() -> Result<()> {
    scenario("io", &["memory"])
}

#[test]
#[ignore = "make test-long: this disk over TCP and others over RDMA are in `make test`"]
fn data_is_kept_in_a_file() -> Result<()> {
    scenario("io", &["file"])
}

#[test]
fn data_is_kept_in_persistent_memory() -> Result<()> {
    scenario("io", &["pmem"])
}

#[test]
#[ignore = "make test-long: this disk over TCP and others over RDMA are in `make test`"]
fn data_is_kept_on_an_nvme_device() -> Result<()> {
    scenario("io", &["passthrough"])
}

#[test]
#[ignore = "make test-long: none of it depends on the transport"]
fn an_nvme_device_shows_through() -> Result<()> {
    scenario("passthrough", &[])
}

#[test]
#[ignore = "make test-long: `netdown` and `transports` lose connections over RDMA, and a kill over TCP is in `make test`"]
fn a_killed_target_loses_nothing() -> Result<()> {
    scenario("crash", &[])
}

#[test]
fn a_host_whose_network_fails_loses_its_controller_and_reconnects() -> Result<()> {
    scenario("netdown", &[])
}

#[test]
#[ignore = "make test-long: `transports` counts what is left of RDMA devices, and connections over TCP are in `make test`"]
fn connections_leave_nothing_behind() -> Result<()> {
    scenario("leaks", &[])
}

#[test]
#[ignore = "make test-long: the same over TCP is in `make test`"]
fn the_daemon_ends_in_order() -> Result<()> {
    scenario("drain", &[])
}

#[test]
fn one_target_serves_tcp_and_rdma_at_once() -> Result<()> {
    scenario("transports", &[])
}

#[test]
fn keys_of_the_keyring_and_rdma_work_in_one_target() -> Result<()> {
    scenario("tls-rdma", &[])
}

#[test]
fn hosts_with_wrong_keys_end_alone() -> Result<()> {
    scenario("rdma-hosts", &[])
}

#[test]
fn our_own_host_loads_and_verifies() -> Result<()> {
    scenario("rdma-bench", &[])
}
