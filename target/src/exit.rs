//! The daemon's exit statuses other than 0 (ended by SIGTERM or SIGINT), 1 (a failure) and 2 (wrong
//! arguments). `systemd/sluiced.service` uses them.

use std::process::ExitCode;

use sluice_config::ConfigErrors;

/// The status of a configuration that is wrong or cannot be read, so that another start would fail
/// too (`EX_CONFIG`).
pub const WRONG_CONFIGURATION: u8 = 78;

/// The status of a daemon that `sluice shutdown` ended, so that systemd does not start it again.
/// The Linux Standard Base leaves 150 to 199 to applications.
pub const SHUT_DOWN: u8 = 150;

/// Returns the status of a daemon that ended in order. It was ended by a signal, or by a request on
/// the control socket.
#[must_use]
pub fn in_order(by_signal: bool) -> ExitCode {
    if by_signal { ExitCode::SUCCESS } else { ExitCode::from(SHUT_DOWN) }
}

/// Returns the status of a daemon that could not start or go on.
#[must_use]
pub fn failed(error: &anyhow::Error) -> ExitCode {
    if error.is::<ConfigErrors>() { ExitCode::from(WRONG_CONFIGURATION) } else { ExitCode::FAILURE }
}
