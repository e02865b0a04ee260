//! `sluice sim`: runs the program sluice-sim in place of this one.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::anyhow;
use sluice_config::program::find_beside;

use crate::control::Options;

/// The program of planners.
const PROGRAM: &str = "sluice-sim";

/// Arguments of `sluice sim`, which are the program's.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Arguments of sluice-sim; --help lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Replaces this process by the program, with its exit status. Returns the error if the program cannot be run.
pub(crate) fn run(args: &Args, options: &Options) -> anyhow::Error {
    let program = find_beside(PROGRAM);
    let error = Command::new(&program).args(options.words()).args(&args.arguments).exec();
    match error.kind() {
        ErrorKind::NotFound => anyhow!(
            "the program {PROGRAM} is neither beside sluice nor in PATH: the Debian package sluicegate-sim or \
             `make install` installs it, and `cargo build --release -p {PROGRAM}` builds it"
        ),
        _ => anyhow!("cannot run {}: {error}", program.display()),
    }
}
