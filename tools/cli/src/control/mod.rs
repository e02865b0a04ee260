//! Subcommands that speak to a running `sluiced` over its control socket.

mod apply;
mod args;
#[cfg(test)]
mod args_tests;
mod cells;
mod config_save;
mod config_view;
mod events;
mod events_view;
mod keys;
mod names;
mod namespace_view;
mod network_args;
mod network_view;
mod qos_args;
mod qos_view;
mod region_args;
mod region_view;
mod request;
mod requests;
mod settings;
#[cfg(test)]
mod shown;
mod statistics_view;
pub(crate) mod table;
#[cfg(test)]
mod tables_tests;
mod trace;
mod view;
mod words;

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::Value;
use sluice_config::failure::{Failure, INVALID, UNKNOWN_METHOD};
use sluice_config::program::{print, print_line};
use sluice_config::{Method, call, client};

pub(crate) use args::{Command, Options};
pub(crate) use names::Names;
pub(crate) use region_args::PmemAction;
use request::Request;

/// Exit status of `sluice status` where the daemon answers and there are problems.
const PROBLEMS: u8 = 8;

/// Runs a subcommand.
///
/// # Errors
/// The daemon cannot be reached, or refuses; the message says what to do.
pub(crate) fn run(command: &Command, options: &Options, names: &Names) -> Result<ExitCode> {
    if options.dry_run && !command.has_dry_run() {
        return Err(no_dry_run().into());
    }
    if let Command::Apply(args) = command {
        let shown = (options.json, options.dry_run);
        apply::run(args, shown, |request| call(request, options, names))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(action) = command.on_keys() {
        print(keys::run(action, |request| call(request, options, names))?.as_str())?;
        return Ok(ExitCode::SUCCESS);
    }
    if command.saves() {
        let saved = config_save::run(|request| call(request, options, names))?;
        print(if options.json { saved.json() } else { saved.text() })?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Command::Events(args) = command {
        return events::run(args, options.json, |request| call(request, options, names));
    }
    if let Command::Trace(args) = command {
        let room = table::Room::of_output(options.wide);
        return trace::run(args, options.json, room, |request| call(request, options, names));
    }
    ask(&command.request(), options, names)
}

/// Runs a subcommand of `sluice pmem` that asks the daemon.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_pmem(action: &PmemAction, options: &Options, names: &Names) -> Result<ExitCode> {
    let request = action.request();
    if options.dry_run && !request.method.changes_configuration() {
        return Err(no_dry_run().into());
    }
    if matches!(action, PmemAction::Profile { .. }) {
        return profile(action, options, names);
    }
    ask(&request, options, names)
}

/// Makes the failure of a command without a dry run.
pub(crate) fn no_dry_run() -> Failure {
    Failure::new(
        INVALID,
        "--dry-run: the command changes no configuration of the target; leave it out",
    )
}

/// Has the capacity of the data node measured, and prints the result.
fn profile(action: &PmemAction, options: &Options, names: &Names) -> Result<ExitCode> {
    call(&action.request(), options, names)?;
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let shown = call(&PmemAction::Show.request(), options, names)?;
        let profile = view::of::<call::PmemShow>(&shown)?.profile.unwrap_or_default();
        if profile.state == "running" {
            continue;
        }
        let (Some(capacity), Some(deviation)) = (profile.capacity, profile.deviation) else {
            bail!("the capacity was not measured: {}", profile.reason.unwrap_or_default());
        };
        if options.json {
            print_line(format_args!("{:#}", serde_json::json!(profile)))?;
        } else {
            print(region_view::profile(capacity, deviation))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
}

/// Sends a request. Returns the daemon's answer.
fn call(request: &Request, options: &Options, names: &Names) -> Result<Value, Failure> {
    let socket = client::socket(options.socket.as_deref());
    let answer = client::Connection::open(&socket, options.timeout)
        .and_then(|mut daemon| daemon.call(request.method, &request.params));
    answer.map_err(|mut failure| {
        match failure.kind.as_str() {
            INVALID => failure.message = names.reword(&failure.message),
            UNKNOWN_METHOD => {
                failure.message = format!(
                    "the daemon is older than this program and cannot do this ({}); restart it \
                     after an update",
                    request.method.name()
                );
            }
            _ => {}
        }
        failure
    })
}

/// Sends a request, and prints the answer.
fn ask(request: &Request, options: &Options, names: &Names) -> Result<ExitCode> {
    if options.dry_run {
        let result = call(&request.dry(), options, names)?;
        let text = if options.json { format!("{result:#}\n") } else { view::planned(&result)? };
        print(text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let result = call(request, options, names)?;
    let code = match request.method == Method::Status && view::has_problems(&result) {
        true => ExitCode::from(PROBLEMS),
        false => ExitCode::SUCCESS,
    };
    if options.json {
        print_line(format_args!("{result:#}"))?;
        return Ok(code);
    }
    let room = table::Room::of_output(options.wide);
    print(view::text(request, &result, room)?)?;
    if result.get("durable") == Some(&Value::Bool(false)) && request.method.changes() {
        let note = "note: the change ends with the daemon; \
                    set `state` in its configuration to keep changes";
        let _ = writeln!(std::io::stderr(), "{note}");
    }
    Ok(code)
}

/// Returns whether standard output is a terminal.
pub(crate) fn on_terminal() -> bool {
    std::io::stdout().is_terminal()
}
