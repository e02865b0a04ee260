//! Failures of commands: a line for people, a kind and an exit status for programs.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use fabric::key_file::mask_keys;
use serde_json::json;

/// No daemon answers on the control socket: none is running, it is silent, or another program
/// listens there.
pub(crate) const NO_DAEMON: &str = "no_daemon";
/// The socket may not be used by this user.
pub(crate) const PERMISSION: &str = "permission";
/// The daemon refuses a value.
pub(crate) const INVALID: &str = "invalid";
/// A change would hurt hosts or data, or a key would count for nothing.
pub(crate) const REFUSED: &str = "refused";
/// The daemon is older than this program.
pub(crate) const UNKNOWN_METHOD: &str = "unknown_method";
/// The command line is wrong.
const USAGE: &str = "usage";
/// The failure has no kind of its own.
pub(crate) const FAILED: &str = "failed";

/// Exit status of `sluice status` where the daemon answers and there are problems.
pub(crate) const PROBLEMS: u8 = 8;

/// A failure with a kind: the daemon's own (`not_found`, `exists`, …), or one of this module's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub(crate) kind: String,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), message: message.into() }
    }
}

/// Returns the exit status for a kind of failure.
fn status(kind: &str) -> u8 {
    match kind {
        USAGE => 2,
        "not_found" => 3,
        "exists" => 4,
        INVALID => 5,
        REFUSED => 6,
        NO_DAEMON => 7,
        _ => 1,
    }
}

/// Writes a failure to standard error, with `as_json` as one object on a line.
pub(crate) fn report(error: &anyhow::Error, as_json: bool) -> ExitCode {
    let kind = error.downcast_ref::<Failure>().map_or(FAILED, |failure| failure.kind.as_str());
    tell(kind, &format!("{error:#}"), as_json);
    ExitCode::from(status(kind))
}

/// Writes what is wrong with the command line, or the help or version that was asked for.
pub(crate) fn usage(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    let as_json = arguments.iter().skip(1).take_while(|word| *word != "--").any(|w| w == "--json");
    let text = error.render().to_string();
    let masked = mask_keys(&text);
    if !(as_json && error.use_stderr()) {
        // A failure to write has no reader.
        let _ = match masked == text {
            true => error.print(),
            false => write!(std::io::stderr(), "{masked}"),
        };
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    }
    let text = masked;
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    // The form of the command follows, for people.
    let end = text.find("\n\nUsage:").unwrap_or(text.len());
    let end = text.find("\n\nFor more information").map_or(end, |at| at.min(end));
    tell(USAGE, text.get(..end).unwrap_or(text).trim(), true);
    ExitCode::from(status(USAGE))
}

fn tell(kind: &str, message: &str, as_json: bool) {
    let message = mask_keys(message);
    let line = match as_json {
        true => json!({ "error": { "kind": kind, "message": &message } }).to_string(),
        false => format!("sluice: {message}"),
    };
    // `writeln` is used because `eprintln` panics where the terminal has gone.
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_that_scripts_tell_apart_has_its_status() {
        let kinds = ["usage", "not_found", "exists", "invalid", "refused", "no_daemon"];
        assert_eq!(kinds.map(status), [2, 3, 4, 5, 6, 7]);
        for other in ["system", "store", "busy", "permission", "failed", "of tomorrow"] {
            assert_eq!(status(other), 1, "{other}");
        }
    }
}
