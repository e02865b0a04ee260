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

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use uml::{Machine, Outcome, Report, Target, Time, Transport};

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

/// Returns the paths of all files in a folder and in folders below, from that folder on.
///
/// # Errors
/// A folder cannot be read.
pub fn files(folder: &Path) -> Result<BTreeSet<PathBuf>> {
    let (mut found, mut left) = (BTreeSet::new(), vec![folder.to_path_buf()]);
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(&next).with_context(|| next.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                left.push(path);
            } else {
                found.insert(path.strip_prefix(folder)?.into());
            }
        }
    }
    Ok(found)
}

/// Runs a command. Returns its standard output.
///
/// # Errors
/// The command cannot be run, or it fails: the error has its standard error.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?} cannot be run"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {said}");
    Ok(String::from_utf8(output.stdout)?)
}

/// Makes a test of each row: it runs the scenario of this name with these arguments. `#![ignore = REASON]` before the
/// rows ignores all of them. `.ci/test` reads the rows, too.
#[macro_export]
macro_rules! scenarios {
    (#![$shared:meta] $(fn $test:ident() { $run:ident($($word:literal),+) })+) => {
        $crate::scenarios! { $(#[$shared] fn $test() { $run($($word),+) })+ }
    };
    ($($(#[$meta:meta])? fn $test:ident() { $run:ident($script:literal $(, $word:literal)*) })+) => {$(
        #[test]
        $(#[$meta])?
        fn $test() -> anyhow::Result<()> {
            $run($script, &[$($word),*])
        }
    )+};
}

/// Runs `tests/scenarios/SCRIPT.sh ARGUMENTS` in a user-mode kernel.
///
/// # Errors
/// The scenario reports a failure, which the error has with the end of its log; or it could not
/// run: there is no kernel, no binaries, or no report within [`TIME_LIMIT`].
pub fn scenario(script: &str, arguments: &[&str]) -> Result<()> {
    run(Target::from_environment()?, Transport::Tcp, script, arguments)
}

/// Runs `tests/scenarios/SCRIPT.sh ARGUMENTS` in a user-mode kernel, over RDMA.
///
/// # Errors
/// The same as of [`scenario`].
pub fn scenario_over_rdma(script: &str, arguments: &[&str]) -> Result<()> {
    run(Target::from_environment()?, Transport::Rdma, script, arguments)
}

/// Runs `tests/scenarios/SCRIPT.sh ARGUMENTS` in a user-mode kernel with systemd, where the daemon
/// is installed as `make install` does it.
///
/// # Errors
/// The same as of [`scenario`]; or there is no system to boot.
pub fn service(script: &str, arguments: &[&str]) -> Result<()> {
    run(Target::Service, Transport::Tcp, script, arguments)
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
    let machine = machine(Target::Sluiced, Transport::Tcp, "native-test")?;
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
pub fn machine(target: Target, transport: Transport, script: &str) -> Result<Machine> {
    let time = Time::of_scenario(script)?;
    let kernel = uml::kernel(time)?;
    let binaries = match target {
        Target::Sluiced | Target::Service => binaries::built()?,
        Target::Nvmet => root().join("build"),
    };
    let time_limit = match time {
        Time::Real => TIME_LIMIT,
        Time::Virtual => VIRTUAL_TIME_LIMIT,
    };
    let other_binaries =
        std::env::var_os("SLUICEGATE_OTHER_BINARIES").filter(|folder| !folder.is_empty());
    let other_binaries = other_binaries.map(PathBuf::from);
    Ok(Machine { kernel, binaries, other_binaries, target, transport, time, time_limit })
}

fn run(target: Target, transport: Transport, script: &str, arguments: &[&str]) -> Result<()> {
    let machine = machine(target, transport, script)?;
    let report = machine.run(script, arguments)?;
    conclude(&format!("{script} {}", arguments.join(" ")), &report)
}

/// Checks that a scenario passed.
///
/// # Errors
/// The scenario did not pass: the error has its reason, and the end of its log.
pub fn conclude(name: &str, report: &Report) -> Result<()> {
    if report.outcome() == Some(Outcome::Pass) {
        return Ok(());
    }
    let why = report.why_not();
    // The reason bypasses the test harness's capture, whose own report comes after all tests.
    writeln!(std::io::stderr(), "{name}: {why}")?;
    bail!("{why}\n{}\nthe whole log: {}", report.tail(120), report.log.display())
}
