//! Failures of commands: a line for people, a kind and an exit status for programs.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use fabric::key_file::mask_keys;
use serde_json::json;

use sluice_config::failure::{FAILED, Failure, USAGE, status};

/// Exit status of `sluice status` where the daemon answers and there are problems.
pub(crate) const PROBLEMS: u8 = 8;

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
