//! The setup of the log: the journal with its fields, or standard error as text; and the latest lines in memory.

mod events;
mod journal;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

use thiserror::Error;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, reload};

use super::cli::LogTarget;
use crate::control::events::EventRing;
use crate::control::log::Log;
use events::Events;
use journal::Journal;

/// A reason for which the log cannot be set up.
#[derive(Debug, Error)]
pub enum LogError {
    /// The filter is not valid.
    #[error(
        "\"{filter}\" is not a log level ({detail}); write error, warn, info, debug, trace, or \
         module=level"
    )]
    Filter {
        /// The filter as the user gave it.
        filter: String,
        /// The filter's fault.
        detail: String,
    },
    /// The journal does not answer.
    #[error("cannot log to the journal: {0}; use --log stderr")]
    Journal(#[from] std::io::Error),
    /// Something else has set up a log.
    #[error("the log is set up already: {0}")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

/// Sets up the process's log. Without a `target`, the log goes to the journal if standard error
/// leads there.
///
/// # Errors
/// `filter` is not valid, the journal does not answer, or the log is set up already.
pub fn init(filter: &str, target: Option<LogTarget>) -> Result<Log, LogError> {
    let (parsed, present) = reload::Layer::new(parse(filter)?);
    let ring: Arc<EventRing> = Arc::default();
    let registry = tracing_subscriber::registry().with(parsed).with(Events(Arc::clone(&ring)));
    match target.unwrap_or_else(standard) {
        LogTarget::Journald => {
            registry.with(Journal::connect(Path::new(journal::SOCKET))?).try_init()?;
        }
        LogTarget::Stderr => {
            let ansi = std::io::stderr().is_terminal();
            let text = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
            registry.with(text.with_ansi(ansi)).try_init()?;
        }
    }
    let set = move |filter: &str| {
        let parsed = parse(filter).map_err(|error| error.to_string())?;
        present.reload(parsed).map_err(|error| format!("the level cannot be changed: {error}"))
    };
    Ok(Log::new(ring, filter, Box::new(set)))
}

/// Parses a level or a filter.
fn parse(filter: &str) -> Result<EnvFilter, LogError> {
    let parsed = EnvFilter::try_new(filter);
    parsed.map_err(|error| LogError::Filter { filter: filter.into(), detail: error.to_string() })
}

/// Chooses the journal where standard error is the stream that systemd made for it.
fn standard() -> LogTarget {
    let stream = std::env::var("JOURNAL_STREAM").ok();
    let here = nix::sys::stat::fstat(std::io::stderr()).ok();
    match (stream, here) {
        (Some(stream), Some(here)) if stream == format!("{}:{}", here.st_dev, here.st_ino) => {
            LogTarget::Journald
        }
        _ => LogTarget::Stderr,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_is_none_is_explained() {
        let error = init("sluiced=loud", Some(LogTarget::Stderr)).unwrap_err();
        assert!(error.to_string().contains("error, warn, info"), "{error}");
    }

    #[test]
    fn without_systemd_the_log_goes_to_stderr() {
        // Tests do not run with their standard error as a journal stream.
        assert_eq!(standard(), LogTarget::Stderr);
    }
}
