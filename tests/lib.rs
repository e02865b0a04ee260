//! Common parts of the end-to-end tests: a user-mode Linux kernel is booted with a scenario script
//! as its init process, and the script's report is the test's result.
//!
//! The scenarios are in `tests/scenarios/`, the kernel is built by `tests/lab/build-uml`, a
//! scenario's output is kept in `build/e2e/NAME.log`. Environment:
//! - `SLUICEGATE_E2E_TARGET=nvmet` runs the scenarios against the kernel's own target: a scenario that fails there too
//!   is wrong.
//! - `SLUICEGATE_BINARIES` names a folder with `sluiced`, `sluice` and `sluice-sim` to use instead of the tests' own
//!   build.
//! - `SLUICEGATE_OTHER_BINARIES` names a folder with another build of the same programs, which the random operator
//!   changes to and back.
//! - `SLUICEGATE_UML` and `SLUICEGATE_UML_VIRTUAL` (for virtual time) name kernels to use instead of the ones from
//!   `build-uml`.

pub mod binaries;
pub mod daemon;
pub mod fuzzing;
pub mod uml;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// Time that a scenario may take; a hung kernel is killed then.
pub const TIME_LIMIT: Duration = Duration::from_secs(600);

/// The same on virtual time, where a busy machine only makes a scenario last longer.
pub const VIRTUAL_TIME_LIMIT: Duration = Duration::from_secs(1200);

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

/// Runs a test on virtual time: boots a machine that runs the test of this `name`, from this same program, and calls
/// `test` there. Bounds can be tight then, independent of the host machine's load.
///
/// # Errors
/// The error of `test`, with the test's output; or the machine could not run, as for [`scenario`].
pub fn on_virtual_time(name: &str, test: impl FnOnce() -> Result<()>) -> Result<()> {
    if is_on_virtual_time() {
        return test();
    }
    let program = std::env::current_exe().context("where is this test's program?")?;
    let (Some(folder), Some(file)) = (program.parent(), program.file_name()) else {
        bail!("{} is no path of a program", program.display());
    };
    let (folder, file) = (folder.to_string_lossy(), file.to_string_lossy());
    let machine = machine(uml::Target::Sluiced, uml::Transport::Tcp, "native-test")?;
    let log = format!("{}-{name}", file.split('-').next().unwrap_or_default());
    let report = machine.run_as(&log, "native-test", &[&folder, &file, name])?;
    conclude(name, &report)
}

/// Returns whether this process runs in a machine on virtual time.
#[must_use]
pub fn is_on_virtual_time() -> bool {
    std::env::var("LAB_TIME").is_ok_and(|time| time == "virtual")
}

/// Returns the machine that a scenario runs on.
///
/// # Errors
/// There is no kernel, or no binaries.
pub fn machine(
    target: uml::Target,
    transport: uml::Transport,
    script: &str,
) -> Result<uml::Machine> {
    let time = uml::Time::of_scenario(script)?;
    let kernel = uml::kernel(time)?;
    let binaries = match target {
        uml::Target::Sluiced | uml::Target::Service => binaries::built()?,
        uml::Target::Nvmet => root().join("build"),
    };
    let time_limit = match time {
        uml::Time::Real => TIME_LIMIT,
        uml::Time::Virtual => VIRTUAL_TIME_LIMIT,
    };
    let other_binaries =
        std::env::var_os("SLUICEGATE_OTHER_BINARIES").filter(|folder| !folder.is_empty());
    let other_binaries = other_binaries.map(PathBuf::from);
    Ok(uml::Machine { kernel, binaries, other_binaries, target, transport, time, time_limit })
}

fn run(
    target: uml::Target,
    transport: uml::Transport,
    script: &str,
    arguments: &[&str],
) -> Result<()> {
    let machine = machine(target, transport, script)?;
    let report = machine.run(script, arguments)?;
    conclude(&format!("{script} {}", arguments.join(" ")), &report)
}

/// Fails where a scenario did not pass, with the end of its log.
fn conclude(name: &str, report: &uml::Report) -> Result<()> {
    if report.outcome() == Some(uml::Outcome::Pass) {
        return Ok(());
    }
    let why = report.why_not();
    // The reason bypasses the test harness's capture, whose own report comes after all tests.
    writeln!(std::io::stderr(), "{name}: {why}")?;
    bail!("{why}\n{}\nthe whole log: {}", report.tail(80), report.log.display())
}
