//! How the daemon ends, for whoever starts it: the exit statuses besides 0 (ended by SIGTERM or
//! SIGINT), 1 (a failure) and 2 (wrong arguments). `systemd/sluiced.service` goes by them.

use std::process::ExitCode;

use crate::config::ConfigErrors;

/// The configuration is wrong, or cannot be read: another start will not do better (`EX_CONFIG`).
pub const WRONG_CONFIGURATION: u8 = 78;

/// Ended by `sluice shutdown`: whoever starts the daemon is not to start it again by itself. Of
/// the range that the Linux Standard Base leaves to applications, 150 to 199.
pub const SHUT_DOWN: u8 = 150;

/// Returns the status of a daemon that ended in order: by a signal, or else by a request on the
/// control socket.
#[must_use]
pub fn in_order(by_signal: bool) -> ExitCode {
    if by_signal { ExitCode::SUCCESS } else { ExitCode::from(SHUT_DOWN) }
}

/// Returns the status of a daemon that could not start, or not go on.
#[must_use]
pub fn failed(error: &anyhow::Error) -> ExitCode {
    if error.is::<ConfigErrors>() { ExitCode::from(WRONG_CONFIGURATION) } else { ExitCode::FAILURE }
}
