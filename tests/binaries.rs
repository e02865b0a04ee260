//! The binaries under test, built by the cargo that runs the tests; or those in the folder that
//! SLUICEGATE_BINARIES names, to run the same test on another build.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow};

/// Returns the folder that holds `sluiced`, `sluice` and `sluice-sim`, up to date, in the profile of the
/// tests themselves.
///
/// # Errors
/// The build's own messages where it fails.
pub fn built() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build().map_err(|e| format!("{e:#}")));
    built.clone().map_err(|e| anyhow!(e))
}

fn build() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("SLUICEGATE_BINARIES") {
        return Ok(folder.into());
    }
    let folder = folder()?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--bins", "-p", "sluiced", "-p", "sluice", "-p", "sluice-sim"]);
    // With RDMA, where a build with it is possible.
    let ci = crate::root().join(".ci");
    let found = Command::new(ci.join("libclang")).output();
    if let Some(found) = found.ok().filter(|found| found.status.success()) {
        let settings = String::from_utf8_lossy(&found.stdout).into_owned();
        cargo.envs(settings.lines().filter_map(|setting| setting.split_once('=')));
        let features = std::fs::read_to_string(ci.join("features"));
        cargo.args(features.context("which features?")?.split_whitespace());
        // Programs on RDMA verbs, which the scenarios of RDMA start.
        cargo.args(["-p", "fabric-verbs", "-p", "pmem-verbs"]);
        let examples = ["verbs", "wrong_key", "crowd", "guarantees"];
        cargo.args(examples.iter().flat_map(|name| ["--example", name]));
    }
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    crate::output(cargo.current_dir(crate::root())).context("the binaries do not build")?;
    Ok(folder)
}

/// Returns the folder of the profile: the test binary is in its `deps/`.
fn folder() -> Result<PathBuf> {
    let test = std::env::current_exe().context("where is this test's binary?")?;
    let profile = test.parent().and_then(|deps| deps.parent());
    Ok(profile.with_context(|| format!("{} is in no profile's folder", test.display()))?.into())
}
