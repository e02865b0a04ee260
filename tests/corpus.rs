//! Runs of the fuzz targets on their kept inputs, each of which must pass.

use anyhow::Result;
use e2e::fuzzing::{authentication, capsule, config, pdu_stream, queue_pair, replay};

#[test]
fn kept_streams_of_pdus_pass() -> Result<()> {
    replay("pdu_stream", pdu_stream::run)
}

#[test]
fn kept_queue_pairs_pass() -> Result<()> {
    replay("queue_pair", queue_pair::run)
}

#[test]
fn kept_commands_to_controllers_pass() -> Result<()> {
    replay("capsule", capsule::run)
}

#[test]
fn kept_hosts_without_the_secret_pass() -> Result<()> {
    replay("authentication", authentication::run)
}

#[test]
fn kept_configurations_pass() -> Result<()> {
    replay("config", config::run)
}
