//! Failures of a program: a line for people, a kind and an exit status for programs.

use std::io::Write as _;
use std::process::ExitCode;

use fabric::key_file::mask_keys;
use serde_json::json;
use sluice_config::failure::{FAILED, Failure, USAGE, status};

/// Writes a failure of `program` to standard error, with `as_json` as one object on a line.
#[must_use]
pub fn report(program: &str, error: &anyhow::Error, as_json: bool) -> ExitCode {
    let kind = error.downcast_ref::<Failure>().map_or(FAILED, |failure| failure.kind.as_str());
    let message = mask_keys(&format!("{error:#}"));
    let line = match as_json {
        true => json!({ "error": { "kind": kind, "message": message } }).to_string(),
        false => format!("{program}: {message}"),
    };
    // `writeln` is used because `eprintln` panics where the terminal has gone.
    let _ = writeln!(std::io::stderr(), "{line}");
    ExitCode::from(status(kind))
}

/// Writes what is wrong with the command line of `program`, or the help or version that was asked for.
#[must_use]
pub fn usage(program: &str, error: &clap::Error) -> ExitCode {
    let as_json = std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json");
    if !(as_json && error.use_stderr()) {
        // A failure to write has no reader.
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    }
    let text = error.render().to_string();
    // The form of the command follows, for people.
    let ends = ["\n\nUsage:", "\n\nFor more information"];
    let text = ends
        .iter()
        .fold(text.as_str(), |text, end| text.split_once(end).map_or(text, |(text, _)| text));
    let text = text.strip_prefix("error: ").unwrap_or(text).trim();
    report(program, &Failure::new(USAGE, text).into(), true)
}
