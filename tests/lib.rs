//! Common parts of the end-to-end tests: a user-mode Linux kernel is booted with a scenario script
//! as its init process, and the script's report is the test's result.
//!
//! The scenarios are in `tests/scenarios/`, the kernel is built by `tests/lab/build-uml`, a
//! scenario's output is kept in `build/e2e/NAME.log`. Environment:
//! - `SLUICEGATE_E2E_TARGET=nvmet` runs the scenarios against the kernel's own target: one that
//!   fails there too is a wrong scenario.
//! - `SLUICEGATE_BINARIES` names a folder with `sluiced` and `sluice` to use instead of those that
//!   the tests build.
//! - `SLUICEGATE_UML` names a kernel to use instead of the one that `build-uml` finds or builds.

pub mod binaries;
pub mod daemon;
pub mod fuzzing;
pub mod uml;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

/// Time that a scenario may take; a hung kernel is killed then.
pub const TIME_LIMIT: Duration = Duration::from_secs(240);

/// Returns the workspace's root folder.
#[must_use]
pub fn root() -> PathBuf {
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    tests.parent().map_or_else(|| tests.clone(), PathBuf::from)
}

/// Runs `tests/scenarios/SCRIPT.sh ARGUMENTS` in a user-mode kernel.
///
/// # Errors
/// The scenario reports a failure, which the error has with the end of its log; or it could not
/// run: there is no kernel, no binaries, or no report within [`TIME_LIMIT`].
pub fn scenario(script: &str, arguments: &[&str]) -> Result<()> {
    run(uml::Target::from_environment()?, uml::Transport::Tcp, script, arguments)
}

/// Runs `tests/scenarios/SCRIPT.sh ARGUMENTS` in a user-mode kernel, over RDMA.
///
/// # Errors
/// The same as of [`scenario`].
pub fn scenario_over_rdma(script: &str, arguments: &[&str]) -> Result<()> {
    run(uml::Target::from_environment()?, uml::Transport::Rdma, script, arguments)
}

/// Runs `tests/scenarios/SCRIPT.sh ARGUMENTS` in a user-mode kernel with systemd, where the daemon
/// is installed as `make install` does it.
///
/// # Errors
/// The same as of [`scenario`]; or there is no system to boot.
pub fn service(script: &str, arguments: &[&str]) -> Result<()> {
    run(uml::Target::Service, uml::Transport::Tcp, script, arguments)
}

fn run(
    target: uml::Target,
    transport: uml::Transport,
    script: &str,
    arguments: &[&str],
) -> Result<()> {
    let kernel = uml::kernel()?;
    let binaries = match target {
        uml::Target::Sluiced | uml::Target::Service => binaries::built()?,
        uml::Target::Nvmet => root().join("build"),
    };
    let time_limit = TIME_LIMIT;
    let machine = uml::Machine { kernel, binaries, target, transport, time_limit };
    let report = machine.run(script, arguments)?;
    if report.outcome() == Some(uml::Outcome::Pass) {
        return Ok(());
    }
    let why = report.why_not();
    // The reason is printed past what the test harness captures: its own report comes after all tests.
    writeln!(std::io::stderr(), "{script} {}: {why}", arguments.join(" "))?;
    bail!("{why}\n{}\nthe whole log: {}", report.tail(80), report.log.display())
}
