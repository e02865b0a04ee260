//! Runs of the fuzz targets on their kept inputs, each of which must pass.

use anyhow::Result;
use e2e::fuzzing::{authentication, capsule, config, pdu_stream, queue_pair, replay};

#[test]
fn kept_inputs_of_fuzz_targets_pass() -> Result<()> {
    type Run = fn(&[u8]);
    let targets: [(&str, Run); 5] = [
        ("pdu_stream", pdu_stream::run),
        ("queue_pair", queue_pair::run),
        ("capsule", capsule::run),
        ("authentication", authentication::run),
        ("config", config::run),
    ];
    targets.into_iter().try_for_each(|(name, target)| replay(name, target))
}
