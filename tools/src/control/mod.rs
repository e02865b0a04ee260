//! Subcommands that speak to a running `sluiced` over its control socket.

mod args;
pub(crate) mod client;
mod network_args;
mod network_view;
mod qos_args;
mod qos_view;
pub(crate) mod table;
mod view;

use std::io::Write;

use anyhow::Result;
use serde_json::Value;

pub(crate) use args::Command;

/// Does a subcommand.
///
/// # Errors
/// The daemon is not to be reached, or refuses; the message says what to do.
pub(crate) fn run(command: &Command) -> Result<()> {
    let (options, request) = (command.options(), command.request());
    let socket = client::socket(options.socket.as_deref());
    let result = client::call(&socket, request.method, &request.params)?;
    if options.json {
        print(&format!("{result:#}\n"));
        return Ok(());
    }
    print(&view::text(request.method, &result));
    if result.get("durable") == Some(&Value::Bool(false)) && request.method != "status" {
        eprintln!(
            "note: this ends with the daemon; set `state` in its configuration to keep changes"
        );
    }
    Ok(())
}

/// Writes to standard output; a reader that has gone (`| head`) is no error.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
