//! A random operator beside four real hosts with verified I/O: `tests/scenarios/operator.sh`. The tests that are
//! ignored take minutes each.

use std::time::Duration;

use anyhow::Result;
use e2e::scenario;
use e2e::uml::{Target, Transport};

/// Time of the operator in a long run, in seconds of the machine.
const LONG: &str = "1800";

/// Time of the host machine that a long run may take.
const TIME_LIMIT: Duration = Duration::from_secs(3600);

#[test]
fn hosts_lose_nothing_beside_an_operator() -> Result<()> {
    scenario("operator", &["1", "120"])
}

/// Runs the operator for half an hour with each of four seeds, or `OPERATOR_SEEDS`, from `PROPTEST_RNG_SEED` on.
fn scenario_of_seeds(script: &str) -> Result<()> {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u32>().ok());
    let first = number("PROPTEST_RNG_SEED").unwrap_or(1);
    for further in 0..number("OPERATOR_SEEDS").unwrap_or(4) {
        long_scenario(script, &first.wrapping_add(further).to_string())?;
    }
    Ok(())
}

/// Runs the operator for half an hour, with a build of an earlier format of the state file to upgrade from.
fn long_scenario(script: &str, seed: &str) -> Result<()> {
    let mut machine = e2e::machine(Target::Sluiced, Transport::Tcp, script)?;
    machine.time_limit = TIME_LIMIT;
    if machine.other_binaries.is_none() {
        machine.other_binaries = e2e::uml::earlier_build()?;
    }
    let report = machine.run(script, &[seed, LONG])?;
    e2e::conclude(script, &report)
}

#[test]
#[ignore = "make test-long: 2 hours of virtual time"]
fn hosts_lose_nothing_in_half_an_hour_with_each_seed() -> Result<()> {
    scenario_of_seeds("operator")
}

#[test]
#[ignore = "make test-long: half an hour"]
fn hosts_lose_nothing_in_half_an_hour_of_real_time() -> Result<()> {
    long_scenario("operator-real", "25")
}
