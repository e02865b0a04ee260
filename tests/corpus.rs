//! The kept inputs of the fuzz targets: each must still come out well.

use anyhow::Result;
use e2e::fuzzing::{config, pdu_stream, replay};

#[test]
fn streams_of_pdus() -> Result<()> {
    replay("pdu_stream", pdu_stream::run)
}

#[test]
fn configurations() -> Result<()> {
    replay("config", config::run)
}
