//! Common parts of the command-line programs: `sluice`, `sluice-sim` and `reproduce`.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use fabric::key_file::mask_keys;
use serde_json::json;

use crate::amounts::parse_fio_duration;
use crate::failure::{FAILED, Failure, USAGE, status};

/// The NQN of a host that was given none.
pub const HOSTNQN: &str = "nqn.2014-08.org.nvmexpress:uuid:6b1d8f0e-5c1e-4b0a-9d55-736c75696365";

/// Parses a value of `--timeout`: 1 ms to 24 h.
///
/// # Errors
/// It is no time, or out of this range.
pub fn parse_timeout(text: &str) -> Result<Duration, String> {
    let time = parse_fio_duration(text)?;
    let known = Duration::from_millis(1)..=Duration::from_secs(24 * 3600);
    if known.contains(&time) { Ok(time) } else { Err("write a time from 1ms to 24h".to_owned()) }
}

/// Returns the path of a program beside this one. If there is none, returns its name, which is looked up in PATH.
#[must_use]
pub fn find_beside(name: &str) -> PathBuf {
    let own = std::env::current_exe().ok();
    let path = own.and_then(|own| Some(own.parent()?.join(name)));
    path.filter(|path| path.is_file()).unwrap_or_else(|| name.into())
}

/// Writes text to standard output. A reader that has gone is no error: the work goes on without it.
///
/// # Errors
/// Standard output takes no text: its disk is full, for example.
pub fn print(text: impl Display) -> anyhow::Result<()> {
    print_to_reader(text).map(|_| ())
}

/// As [`print()`]. Returns whether somebody still reads.
///
/// # Errors
/// As [`print()`].
pub fn print_to_reader(text: impl Display) -> anyhow::Result<bool> {
    write_all(&mut std::io::stdout().lock(), &text)
}

/// As [`print()`], with a line feed behind the text.
///
/// # Errors
/// As [`print()`].
pub fn print_line(text: impl Display) -> anyhow::Result<()> {
    print(format_args!("{text}\n"))
}

fn write_all(output: &mut impl Write, text: &impl Display) -> anyhow::Result<bool> {
    match write!(output, "{text}").and_then(|()| output.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write to standard output"),
    }
}

/// Writes a failure of `program` to standard error, with `as_json` as one object on a line. Keys in it are masked.
#[must_use]
pub fn report(program: &str, error: &anyhow::Error, as_json: bool) -> ExitCode {
    let kind = error.downcast_ref::<Failure>().map_or(FAILED, |failure| failure.kind.as_str());
    let message = mask_keys(&format!("{error:#}"));
    let line = match as_json {
        true => json!({ "error": { "kind": kind, "message": &message } }).to_string(),
        false => format!("{program}: {message}"),
    };
    // `writeln` is used because `eprintln` panics where the terminal has gone.
    let _ = writeln!(std::io::stderr(), "{line}");
    ExitCode::from(status(kind))
}

/// Writes the error of a command line of `program`, or the help or version that it asks for. Keys in it are masked.
#[must_use]
pub fn report_usage(program: &str, error: &clap::Error, arguments: &[OsString]) -> ExitCode {
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
    // The form of the command follows, for people.
    let message = ["\n\nUsage:", "\n\nFor more information"]
        .iter()
        .fold(&*masked, |text, end| text.split_once(end).map_or(text, |(text, _)| text));
    let message = message.strip_prefix("error: ").unwrap_or(message).trim();
    report(program, &Failure::new(USAGE, message).into(), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An output that fails.
    struct Failing(ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn only_gone_readers_are_ignored() {
        assert!(write_all(&mut Failing(ErrorKind::BrokenPipe), &"text").is_ok());
        let error = write_all(&mut Failing(ErrorKind::StorageFull), &"text").unwrap_err();
        assert!(error.to_string().contains("standard output"), "{error}");
    }
}
