//! Runs of the fuzz targets on their kept inputs, each of which must pass.

use anyhow::Result;
use e2e::fuzzing::{capsule, config, pdu_stream, replay};

#[test]
fn streams_of_pdus() -> Result<()> {
    replay("pdu_stream", pdu_stream::run)
}

#[test]
fn commands_to_controllers() -> Result<()> {
    replay("capsule", capsule::run)
}

#[test]
fn configurations() -> Result<()> {
    replay("config", config::run)
}
