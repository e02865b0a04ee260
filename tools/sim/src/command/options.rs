//! Options of every command.

use std::path::PathBuf;
use std::time::Duration;

use sluice_config::program::parse_timeout;

/// How to reach the daemon and how to print its answers.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "With every command")]
pub struct Options {
    /// Use this control socket [default: $SLUICEGATE_CONTROL, /run/sluicegate/control.sock, or the
    /// user's own]
    #[arg(long, global = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Give up when the daemon is silent for this long
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_timeout, default_value = "5s")]
    pub timeout: Duration,
    /// Print answers and errors as JSON
    #[arg(long, global = true)]
    pub json: bool,
}
